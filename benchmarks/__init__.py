"""Benchmarks: accuracy, coverage, speed and robustness, peers and figures (`python -m benchmarks` lists them)."""
