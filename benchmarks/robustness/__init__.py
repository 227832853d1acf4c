"""Releases that are killed and starved, and inputs that are damaged: what is left, and what is said."""
