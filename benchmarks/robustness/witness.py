"""Run the command line with a witness: a byte goes to a pipe whenever noise is about to be drawn.

    python -m benchmarks.robustness.witness DESCRIPTOR release data.csv ...

What the ledger must show is then known from outside, even when no release came of it.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Watch the three ways to draw noise, then be the command line."""
    # A process started in the background may inherit that Ctrl-C is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    pipe, sys.argv = int(sys.argv[1]), ["smoothsynth", *sys.argv[2:]]
    from smoothsynth.private import noise

    def watched(draw):
        def run(*arguments, **choices):
            os.write(pipe, b"n")
            return draw(*arguments, **choices)

        return run

    for name in ("add_cube_noise", "add_laplace_noise", "add_gaussian_noise"):
        setattr(noise, name, watched(getattr(noise, name)))
    from smoothsynth.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
