"""Draw the figures of the documentation again, and write its tables of results.

    python -m benchmarks figures {method,picture,house,fading,growth,results} ...

Noise is drawn afresh, so that method and picture come out a little different each time; house depends on the sources only,
fading, growth and results on what benchmarks wrote.
"""

from __future__ import annotations

import argparse
import importlib

FIGURES = ("method", "picture", "house", "fading", "growth", "results")


def main() -> None:
    """Draw what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", nargs="+", choices=FIGURES)
    for name in parser.parse_args().figure:
        importlib.import_module(f"benchmarks.figures.{name}").main()
