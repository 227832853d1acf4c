"""Processor time of `import smoothsynth` and of `smoothsynth --help`, best of five; and the size installed."""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution

from rich.table import Table

from benchmarks.results import Console

HELP = "import sys; sys.argv = ['smoothsynth', '--help']; from smoothsynth.cli.start import main; main()"
LARGEST = 4


def main() -> None:
    """Print each figure beside its target, and the packages that take most of the space."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    table = Table(title="Start and size", title_justify="left")
    for heading in ("what", "figure", "target"):
        table.add_column(heading)
    for line in lines():
        table.add_row(*line)
    Console(width=150).print(table)


def lines() -> list[tuple[str, str, str]]:
    """Measure, and return what, the figure and the target."""
    sizes = installed_megabytes()
    largest = sorted(sizes, key=lambda name: -sizes[name])[:LARGEST]
    return [
        ("python, without anything", f"{processor_seconds('pass'):.2f} s", ""),
        ("import smoothsynth", f"{processor_seconds('import smoothsynth'):.2f} s", "<= 0.25 s"),
        ("smoothsynth --help", f"{processor_seconds(HELP):.2f} s", "<= 0.30 s"),
        ("installed with the dependencies of the core", f"{sum(sizes.values()):.0f} MB", "<= 600 MB"),
        ("   the largest", ", ".join(f"{name} {sizes[name]:.0f} MB" for name in largest), ""),
    ]


def processor_seconds(code: str, *, rounds: int = 5) -> float:
    """Run a line of Python in processes of their own; return the least user and system time of one."""
    return min(_one(code) for _ in range(rounds))


def _one(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def installed_megabytes() -> dict[str, float]:
    """Add up the files of smoothsynth's requirements, and of theirs, without extras."""
    waiting, sizes = ["smoothsynth"], {}
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        if name in sizes:
            continue
        paths = [found.locate_file(file) for file in found.files or []]
        sizes[name] = sum(path.stat().st_size for path in paths if path.is_file()) / 1e6
        needed = [line for line in found.requires or [] if "extra ==" not in line]
        waiting += [re.split(r"[^A-Za-z0-9_.-]", line)[0] for line in needed]
    return sizes
