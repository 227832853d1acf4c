"""How often an interval holds the private answer."""
