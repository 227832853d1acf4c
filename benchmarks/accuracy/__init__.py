"""How far synthetic rows are from private ones, beside baselines: on public, real and made-up tables."""
