"""The audit: run a mechanism many times on two neighbouring tables, and bound from below what it gives away."""
