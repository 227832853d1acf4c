"""Disturb releases in every way, and look at what is left afterwards."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.robustness import fault_kills, fault_places
from benchmarks.robustness.fault_site import Site, Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Each takes the site, a folder, the number of kills and a generator for the schedule.
KINDS = {
    "kill": lambda site, _, kills, rng: fault_kills.killed(site, kills, rng),
    "replace": lambda site, _, kills, rng: fault_kills.killed_replacing(site, max(2, kills // 10), rng),
    "interrupt": lambda site, _, kills, rng: fault_kills.interrupted(site, max(2, kills // 4), rng),
    "charge": lambda _, place, kills, rng: fault_kills.killed_charging(place, kills, rng),
    "call": lambda _, place, *__: fault_kills.killed_at_each_call(place),
    "truncate": lambda site, _, kills, rng: fault_places.truncated(site, max(4, kills // 10), rng),
    "disk": lambda _, place, kills, __: fault_places.disk_full(place, max(3, kills // 10)),
    "race": lambda _, place, kills, __: fault_places.racing(place, max(1, kills // 50)),
    "permission": lambda _, place, *__: fault_places.permissions_removed(place),
}


def main() -> None:
    """Run every kind of fault and print what was seen; the exit code is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="how many releases to kill; the rest in proportion")
    parser.add_argument("--rows", type=int, default=50_000, help="rows of the private table")
    parser.add_argument("--seed", type=int, default=1, help="of the schedule of faults")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    parser.add_argument("--only", nargs="*", choices=KINDS, default=KINDS, help="these kinds of fault only")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        print(json.dumps(asdict(fault_places.on_small_disk(given.inside, given.kills))))
        return
    with tempfile.TemporaryDirectory(prefix="smoothsynth-faults-") as place:
        tallies = []
        for tally in run(Path(place), given.kills, rows=given.rows, seed=given.seed, only=given.only):
            tallies.append(tally)
            print(f"{tally.fault}: {tally.runs} runs, {len(tally.wrong)} wrong", file=sys.stderr, flush=True)
    if given.json:
        print(json.dumps([{**asdict(t), "mismatches": t.mismatches} for t in tallies], indent=1))
    else:
        _print(tallies)
    sys.exit(any(tally.wrong for tally in tallies))


def run(place: Path, kills: int, *, rows: int, seed: int, only: Iterable[str] = KINDS) -> Iterator[Tally]:
    """Yield the tally of each kind of fault."""
    site = Site(place, rows=rows)
    for position, kind in enumerate(KINDS):
        if kind in only:
            yield KINDS[kind](site, place, kills, np.random.default_rng([seed, position]))


def _print(tallies: list[Tally]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Faults, and what was there afterwards")
    for heading in ("fault", "runs", "struck", "releases whole", "releases absent", "noise drawn", "ledger mismatches",
                    "anything else wrong", "note"):  # fmt: skip
        table.add_column(heading)
    for t in tallies:
        figures = (t.runs, t.struck or "", t.whole, t.absent, t.drawn, t.mismatches, len(t.wrong) - t.mismatches)
        table.add_row(t.fault, *map(str, figures), t.note)
    screen = Console(width=150)
    screen.print(table)
    killed = [t for t in tallies if t.fault.startswith("killed")]
    screen.print(
        f"kills {sum(t.struck for t in killed)}, releases whole {sum(t.whole for t in killed)}, "
        f"releases absent {sum(t.absent for t in killed)}, ledger mismatches {sum(t.mismatches for t in tallies)}"
    )
    for t in tallies:
        for text in t.wrong:
            screen.print(f"WRONG after {t.fault}: {text}", markup=False)
