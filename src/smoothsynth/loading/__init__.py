"""Read a release folder, trusting nothing in it: no code, sizes and types checked, everything held against the receipt."""

from smoothsynth.loading.reading import load

__all__ = ["load"]
