"""Benchmarks: accuracy on public data, and speed as ratios within one run."""
