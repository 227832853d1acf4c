"""What a public prior brings: one of NIST's excerpts released with and without the other as a prior.

    python -m benchmarks prior [--sets demographic simple] [--epsilon 0.3] [--delta 1e-6] [--rounds 3] [--data DIR]

The private table is nist_ma2019, the prior nist_tx2019: other people, of another state, with the same columns (but PUMA, a
code of places). A figure is an error of benchmarks/accuracy/mixed_judge.py; beside them stand the errors of the prior's own
rows, and, as a prior that is worth nothing, of a release that begins with the prior's columns shuffled one by one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.progress import track
from rich.table import Table

import smoothsynth as ss
from benchmarks.accuracy.mixed_judge import MEASURES, MixedJudge
from benchmarks.accuracy.mixed_tables import unit_points
from benchmarks.accuracy.nist import SETS, columns_of, prepared, schema_of
from benchmarks.accuracy.runs import mean, parser, shown, there
from benchmarks.results import Console

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

PRIVATE, PRIOR = "nist_ma2019", "nist_tx2019"
ELSEWHERE = "PUMA"


def read(folder: Path, chosen: str) -> tuple[ss.Schema, pd.DataFrame, pd.DataFrame]:
    """Return the schema of a set of columns, the private rows, and those of the prior that it can have."""
    tables = [pd.read_csv(folder / f"{name}.csv.gz", dtype=str, keep_default_na=False) for name in (PRIVATE, PRIOR)]
    facts = json.loads((folder / f"{PRIVATE}.json").read_text(encoding="utf-8"))["schema"]
    names = [name for name in columns_of(chosen, list(tables[0].columns)) if name != ELSEWHERE]
    schema = schema_of(facts, names)
    private, prior = (prepared(table, schema) for table in tables)
    levels = {name: set(c.levels) for name, c in schema.columns.items() if isinstance(c, ss.Category)}
    known = np.all([prior[name].isin(found) for name, found in levels.items()], axis=0)
    return schema, private, prior[known].reset_index(drop=True)


def judged(folder: Path, chosen: str, given: argparse.Namespace, *, delta: float) -> dict[str, list[list[float]]]:
    """Return the errors of every round, by what the model began with."""
    schema, private, prior = read(folder, chosen)
    judge, rng = MixedJudge(schema, unit_points(private, schema), seed=0), np.random.default_rng(0)
    shuffled = prior.apply(lambda column: column.sample(frac=1.0, random_state=rng).to_numpy())
    found: dict[str, list[list[float]]] = {"the prior's own rows": [judge(unit_points(prior, schema))]}
    for seed in range(given.rounds):
        for name, public in (("no prior", None), ("prior", prior), ("shuffled prior", shuffled)):
            made = ss.release(private, schema=schema, epsilon=given.epsilon, delta=delta, seed=seed, prior=public)
            found.setdefault(name, []).append(judge(made.unit_rows()))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all and print a table for each budget and set of columns."""
    made = parser(__doc__, rounds=3, delta=(1e-6,))
    made.set_defaults(epsilon=0.3)
    made.add_argument("--sets", nargs="+", choices=list(SETS), default=["demographic", "simple"])
    made.add_argument("--data", help="folder with the data sets [SMOOTHSYNTH_DATA or ../shared/data]")
    given, console = made.parse_args(arguments), Console(width=130)
    folder, names = there(given.data, (PRIVATE, PRIOR))
    if len(names) < 2:
        return
    for delta in given.delta:
        for chosen in track(given.sets, description=f"delta = {delta:g}", console=console, transient=True):
            title = (
                f"{PRIVATE}, {chosen} columns, epsilon = {given.epsilon:g}, delta = {delta:g}, {given.rounds} rounds"
            )
            table = Table("begun with", *MEASURES, title=title)
            for name, errors in judged(folder, chosen, given, delta=delta).items():
                table.add_row(name, *(shown(mean(list(one)), ".4f") for one in zip(*errors, strict=True)))
            console.print(table)
