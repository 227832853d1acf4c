"""Run one benchmark by its name, or list all names.

python -m benchmarks                        every name, with a line on what it does
python -m benchmarks NAME --help            the options of one
python -m benchmarks NAME [options]         run it
python -m benchmarks NAME --record FILE     keep the tables that it prints in benchmarks/results/FILE.json
"""

from __future__ import annotations

import ast
import difflib
import importlib
import sys
from itertools import groupby
from pathlib import Path

from benchmarks.results import start

# What is typed, and the module whose main() it runs, folder by folder. Names outlive a move of their file.
NAMES = {
    "accuracy": "accuracy.paper",
    "kinds": "accuracy.kinds",
    "tables": "accuracy.tables",
    "mixed": "accuracy.mixed",
    "mixed-tables": "accuracy.mixed_tables",
    "wide": "accuracy.wide",
    "constraints": "accuracy.constraints",
    "private-bounds": "accuracy.private_bounds",
    "hierarchy": "accuracy.hierarchy",
    "floor": "accuracy.floor",
    "ablation": "accuracy.ablation",
    "fading": "accuracy.fading",
    "nist": "accuracy.nist",
    "prior": "accuracy.prior",
    "learning": "accuracy.learning",
    "coverage": "coverage.intervals",
    "speed": "speed.summary",
    "releases": "speed.releases",
    "start": "speed.start",
    "moments": "speed.moments",
    "fit": "speed.fit",
    "engines": "speed.engines",
    "clusters": "speed.clusters",
    "faults": "robustness.faults",
    "fuzz": "robustness.fuzz",
    "peers": "peers.run",
    "figures": "figures.draw",
}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark that the first argument names; the others are its own."""
    given = sys.argv[1:] if arguments is None else arguments
    name = given[0] if given else "--help"
    if name in ("-h", "--help"):
        print(listing())
    elif name not in NAMES:
        sys.exit(f"{unknown(name)}\n\n{listing()}")
    else:
        sys.argv = [f"python -m benchmarks {name}", *start(name, given[1:])]
        importlib.import_module(f"benchmarks.{NAMES[name]}").main()


def listing() -> str:
    """Return all names, each with the first line of what its module says of itself."""
    lines = ["python -m benchmarks NAME [options]; NAME --help shows the options of one."]
    for folder, names in groupby(NAMES, key=lambda name: NAMES[name].split(".", maxsplit=1)[0]):
        lines += ["", f"{folder}/", *(f"  {name:<16}{summary(name)}" for name in names)]
    return "\n".join(lines)


def summary(name: str) -> str:
    """Return the first line of a benchmark's module, which is read and not imported."""
    path = Path(__file__).parent.joinpath(*NAMES[name].split(".")).with_suffix(".py")
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n", maxsplit=1)[0]


def unknown(name: str) -> str:
    """Return what to say of a name that is not there."""
    close = difflib.get_close_matches(name, NAMES, n=1)
    return f"There is no benchmark {name!r}." + (f" Did you mean {close[0]!r}?" if close else "")


if __name__ == "__main__":
    main()
