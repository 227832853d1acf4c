"""The figures of the README, the docs and CONTRIBUTING."""
