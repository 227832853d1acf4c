"""Other mechanisms for private synthetic tables, each in its own environment, scored as our releases are."""
