"""What the study found: as values, as text, and as files.

The study: tables of growing size, four mechanisms, measured errors and fitted slopes.

Measured error against n: the paper's Algorithm 1, its (eps, delta) variant, and degree-weighted Gaussian noise.
"""

from __future__ import annotations

import csv
import dataclasses
import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow

from smoothsynth.methods import Adaptive, Minimax
from smoothsynth.paper.rates_data import RatePoint, RateSlope, draw_rates, draw_table, slope_of
from smoothsynth.paper.rates_mechanisms import (
    DELTA,
    EPSILON,
    SquaresOnGrid,
    contenders,
    flat_weights,
    measured_in,
    score_for,
)
from smoothsynth.paper.theory import minimax_exponent, pure_weighted_exponent
from smoothsynth.pipeline.run import release
from smoothsynth.schema import Number, Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from smoothsynth.paper.rates_data import StudyTable
    from smoothsynth.paper.rates_mechanisms import Contender, Mechanism, Score
    from smoothsynth.pipeline.release import Release

    Array = NDArray[np.float64]
    Progress = Callable[[int, int | None, str], object]


NOTE = """\
A study on a public synthetic table: seeded floating-point noise, which protects nobody, at the scales
that the stated budgets truly need. The error is the largest over all K-smooth queries, the dual norm of
the class: exact for d = 1, K = 1; within a factor K for d = 1; that of an equivalent class of splines
for d > 1. No random queries are used. The fitted weights are scored; the draw of rows is left out.
Slopes are fitted over the sizes whose error is below two thirds of what is reached without any data;
s.e. is the standard error of a straight line in log-log."""
_COLUMNS = ("mechanism", "budget", "theory", "slope", "s.e.", "fitted over n", "last error")
RELEASED = """\
Whole releases of a public table, with their own noise: other figures in every run. The error is that of the synthetic
rows, as many as private ones: the largest over all K-smooth queries, in the norms of the study (docs/rates.md)."""
PAPER, OURS = "Algorithm 1", "degree-weighted noise"


@dataclass(frozen=True, slots=True)
class RatesReport:
    """Fitted slopes beside the theory's, and the measured points they come from."""

    table: tuple[RateSlope, ...]
    points: tuple[RatePoint, ...]
    seconds: float
    note: str = NOTE

    def slope(self, dimensions: int, order: int, mechanism: str) -> RateSlope:
        """Return the line of the table for one mechanism at one d and K."""
        key = (dimensions, order, mechanism)
        return next(line for line in self.table if (line.dimensions, line.order, line.mechanism) == key)

    def gains(self) -> list[tuple[int, int, float, float]]:
        """Return d, K, and how much steeper degree-weighted noise is than Algorithm 1, with its standard error."""
        found = []
        for line in self.table:
            if line.mechanism == OURS:
                other = self.slope(line.dimensions, line.order, PAPER)
                error = math.hypot(line.standard_error, other.standard_error)
                found.append((line.dimensions, line.order, line.slope - other.slope, error))
        return found

    def text(self) -> str:
        """Return the table as plain text."""
        rows = _aligned([_COLUMNS, *(_cells(line) for line in self.table)])
        lines = ["  " + rows[0]]
        titles = [f"d = {line.dimensions}, K = {line.order} ({line.measure})" for line in self.table]
        for before, title, row in zip(["", *titles], titles, rows[1:], strict=False):
            lines += [*([title] if title != before else []), "  " + row]
        gains = self.gains()
        lines += ["", "Degree-weighted noise against Algorithm 1, difference of slopes:"] if gains else []
        for d, K, gain, error in gains:
            found = (
                "one of them is saturated, or has too few sizes"
                if math.isnan(gain)
                else f"{gain:+.2f} (s.e. {error:.2f})"
            )
            lines.append(f"  d = {d}, K = {K}: {found}")
        return "\n".join([*lines, "", self.note])

    def write(self, output: Path) -> tuple[Path, ...]:
        """Write rates.csv (every measured point), slopes.csv (the table) and rates.svg (the plot) into a folder."""
        output.mkdir(parents=True, exist_ok=True)
        points, slopes, plot = output / "rates.csv", output / "slopes.csv", output / "rates.svg"
        _write_csv(points, RatePoint, self.points)
        _write_csv(slopes, RateSlope, self.table)
        plot.write_text(draw_rates(self.table, self.points), encoding="utf-8")
        return points, slopes, plot


def _cells(line: RateSlope) -> tuple[str, ...]:
    reach = "-" if math.isnan(line.slope) else f"{line.smallest:,} to {line.largest:,}"
    slope, error = _number(line.slope), _number(line.standard_error)
    return line.mechanism, line.budget, _number(line.theory), slope, error, reach, f"{line.last_error:.1e}"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _write_csv(path: Path, kind: type[RatePoint] | type[RateSlope], rows: Sequence[RatePoint | RateSlope]) -> None:
    names = [field.name for field in dataclasses.fields(kind)]
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([getattr(row, name) for name in names] for row in rows)


@dataclass(frozen=True, slots=True)
class Study:
    """What is measured: orders K for each number of columns d, powers of ten of n, and rounds of noise.

    `rounds` are taken up to 10^4 rows, half of them up to 10^5, and a quarter beyond, where errors scatter less.
    """

    orders: dict[int, tuple[int, ...]]
    powers: tuple[float, ...]
    rounds: int
    seed: int = 20_260

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of rows."""
        return tuple(round(10.0**power) for power in self.powers)

    def rounds_at(self, rows: int) -> int:
        """Return the number of rounds at this size."""
        return max(1, self.rounds // (1 if rows <= 10**4 else 2 if rows <= 10**5 else 4))


FULL = Study({1: (1, 2, 3), 2: (1, 2, 3), 3: (1, 2, 3)}, (2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6), rounds=8)
RELEASES = Study({1: (2,), 2: (2,), 3: (2,)}, (3, 3.5, 4, 4.5, 5), rounds=4)
QUICK = Study({1: (1, 2), 2: (1, 2), 3: (2, 3)}, (2, 2.5, 3, 3.5, 4, 4.5), rounds=3)


def run_rates(
    *, quick: bool, output: Path | None, releases: bool = False, progress: Progress | None = None
) -> RatesReport:
    """Measure the rates of mechanisms or of releases, and write rates.csv, slopes.csv and rates.svg if a folder is given."""
    if releases:
        report = measure_releases(replace(RELEASES, powers=(3, 3.5, 4)) if quick else RELEASES, progress=progress)
    else:
        report = measure_rates(QUICK if quick else FULL, progress=progress)
    if output is not None:
        report.write(output)
    return report


def measure_rates(study: Study, *, progress: Progress | None = None) -> RatesReport:
    """Measure the error of every mechanism at every size, and fit slopes; the same study gives the same figures."""
    started = time.perf_counter()
    points = _measured(study, _measure_table, progress)
    return RatesReport(tuple(_slopes(study, points, contenders())), tuple(points), time.perf_counter() - started)


def measure_releases(study: Study, *, progress: Progress | None = None) -> RatesReport:
    """Measure the error of whole releases of every method at every size, and fit slopes."""
    started = time.perf_counter()
    points = _measured(study, _measure_releases, progress)
    table = tuple(_slopes(study, points, _METHODS))
    return RatesReport(table, tuple(points), time.perf_counter() - started, RELEASED)


def _measured(
    study: Study, measure: Callable[[Study, int, int], Iterator[RatePoint]], progress: Progress | None
) -> list[RatePoint]:
    tables = [(d, rows) for rows in study.sizes for d in study.orders]
    points: list[RatePoint] = []
    for done, (dimensions, rows) in enumerate(tables):
        if progress is not None:
            progress(done, len(tables), f"{rows:,} rows, {dimensions} columns")
        points += measure(study, dimensions, rows)
    if progress is not None:
        progress(len(tables), len(tables), "fitted slopes")
    return points


@dataclass(frozen=True, slots=True)
class _Released:
    """A method of whole releases by name, its budget, and the exponent its theory promises."""

    name: str
    delta: float
    exponent: Callable[[int, int], float]

    @property
    def budget(self) -> str:
        return f"({EPSILON:g}, {self.delta:g})" if self.delta else f"{EPSILON:g}, pure"

    def release(self, rows: Array, order: int) -> Release:
        """Release rows of the cube."""
        names = [f"x{i}" for i in range(rows.shape[1])]
        data, schema = pyarrow.table(dict(zip(names, rows.T, strict=True))), Schema(dict.fromkeys(names, Number(-1, 1)))
        method = Adaptive() if self.name == "auto" else Minimax(smoothness=order)
        return release(data, schema=schema, epsilon=EPSILON, delta=self.delta, method=method)


_METHODS = (
    _Released("auto", DELTA, lambda _d, _K: math.nan),
    _Released("minimax", DELTA, minimax_exponent),
    _Released("minimax, pure", 0.0, pure_weighted_exponent),
)


def _measure_releases(study: Study, dimensions: int, rows: int) -> Iterator[RatePoint]:
    table = draw_table(rows, dimensions, generator=np.random.default_rng([study.seed, dimensions, rows]))
    # Releases of one column take no time, and scatter most.
    rounds = study.rounds_at(rows) * (5 if dimensions == 1 else 1)
    for order in study.orders[dimensions]:
        score = score_for(table, order)
        for method in _METHODS:
            started = time.process_time()
            made = [method.release(table.points, order) for _ in range(rounds)]
            errors = [score.of_rows(one.unit_rows()) for one in made]
            yield RatePoint(
                dimensions=dimensions,
                order=order,
                mechanism=method.name,
                rows=rows,
                degrees=1 + max((k for f in made[0].moments[0].features for _, k in f.terms[0]), default=0),
                nodes=len(np.unique(made[0].unit_rows(), axis=0)),
                rounds=len(errors),
                error=float(np.mean(errors)),
                deviation=float(np.std(errors)),
                without_data=score(flat_weights(dimensions)),
                seconds=(time.process_time() - started) / len(errors),
            )


def _measure_table(study: Study, dimensions: int, rows: int) -> Iterator[RatePoint]:
    """Measure all orders and mechanisms on one table."""
    generator = np.random.default_rng([study.seed, dimensions, rows])
    table = draw_table(rows, dimensions, generator=generator)
    entrants = [
        (order, contender.name, mechanism)
        for order in study.orders[dimensions]
        for contender in contenders()
        if (mechanism := contender.prepare(rows, dimensions, order)) is not None
    ]
    moments = table.moments(max((m.degrees for _, _, m in entrants if isinstance(m, SquaresOnGrid)), default=1))
    for order in study.orders[dimensions]:
        score = score_for(table, order)
        run = _Run(table, moments, score, score(flat_weights(dimensions)), generator)
        for other, name, mechanism in entrants:
            if other == order:
                yield from run.point(mechanism, name, order=order, rounds=study.rounds_at(rows))


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """A table with its moments, a score for queries of one smoothness, and the score of equal weights."""

    table: StudyTable
    moments: Array
    score: Score
    without_data: float
    generator: np.random.Generator

    def point(self, mechanism: Mechanism, name: str, *, order: int, rounds: int) -> Iterator[RatePoint]:
        """Yield the mean over rounds, or nothing if the solver gave up in all of them."""
        started = time.process_time()
        fitted = [mechanism.run(self.table, self.moments, generator=self.generator) for _ in range(rounds)]
        seconds = (time.process_time() - started) / rounds
        errors = [self.score(weights) for weights in fitted if weights is not None]
        if errors:
            yield RatePoint(
                dimensions=self.table.dimensions,
                order=order,
                mechanism=name,
                rows=self.table.rows,
                degrees=mechanism.degrees,
                nodes=mechanism.nodes,
                rounds=len(errors),
                error=float(np.mean(errors)),
                deviation=float(np.std(errors)),
                without_data=self.without_data,
                seconds=seconds,
            )


def _slopes(study: Study, points: list[RatePoint], entered: Sequence[Contender | _Released]) -> Iterator[RateSlope]:
    for dimensions, orders in study.orders.items():
        for order in orders:
            for contender in entered:
                key = (dimensions, order, contender.name)
                own = [p for p in points if (p.dimensions, p.order, p.mechanism) == key]
                if own:
                    yield slope_of(
                        own,
                        budget=contender.budget,
                        measure=measured_in(dimensions, order),
                        theory=contender.exponent(dimensions, order),
                    )
