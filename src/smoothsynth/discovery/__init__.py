"""Bounds, levels and codes that nobody knows, found in public steps from noisy counts: what is counted, and what it shows.

Everything here is public: it plans counts, and reads what came through `private/measure.py` (docs/proofs/private-schema.md).
"""
