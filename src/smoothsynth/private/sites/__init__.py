"""Exact sums that travel or wait: encrypted, signed, and opened only to be added and measured."""
