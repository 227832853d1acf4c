"""The study: tables of growing size, four mechanisms, measured errors and fitted slopes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.paper.rates.mechanisms import SquaresOnGrid, contenders
from smoothsynth.paper.rates.report import RatesReport
from smoothsynth.paper.rates.score import flat_weights, measured_in, score_for
from smoothsynth.paper.rates.slopes import RatePoint, RateSlope, slope_of
from smoothsynth.paper.rates.table import draw_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from smoothsynth.paper.rates.mechanisms import Mechanism
    from smoothsynth.paper.rates.score import Score
    from smoothsynth.paper.rates.table import StudyTable

    Array = NDArray[np.float64]
    Progress = Callable[[int, int | None, str], object]


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
QUICK = Study({1: (1, 2), 2: (1, 2), 3: (2, 3)}, (2, 2.5, 3, 3.5, 4, 4.5), rounds=3)


def run_rates(*, quick: bool, output: Path | None, progress: Progress | None = None) -> RatesReport:
    """Measure the rates of the four mechanisms, and write rates.csv, slopes.csv and rates.svg if a folder is given."""
    report = measure_rates(QUICK if quick else FULL, progress=progress)
    if output is not None:
        report.write(output)
    return report


def measure_rates(study: Study, *, progress: Progress | None = None) -> RatesReport:
    """Measure the error of every mechanism at every size, and fit slopes; the same study gives the same figures."""
    started = time.perf_counter()
    tables = [(d, rows) for rows in study.sizes for d in study.orders]
    points: list[RatePoint] = []
    for done, (dimensions, rows) in enumerate(tables):
        if progress is not None:
            progress(done, len(tables), f"{rows:,} rows, {dimensions} columns")
        points += _measure_table(study, dimensions, rows=rows)
    if progress is not None:
        progress(len(tables), len(tables), "fitted slopes")
    return RatesReport(tuple(_slopes(study, points)), tuple(points), time.perf_counter() - started)


def _measure_table(study: Study, dimensions: int, *, rows: int) -> Iterator[RatePoint]:
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


def _slopes(study: Study, points: list[RatePoint]) -> Iterator[RateSlope]:
    for dimensions, orders in study.orders.items():
        for order in orders:
            for contender in contenders():
                key = (dimensions, order, contender.name)
                own = [p for p in points if (p.dimensions, p.order, p.mechanism) == key]
                if own:
                    yield slope_of(
                        own,
                        budget=contender.budget,
                        measure=measured_in(dimensions, order),
                        theory=contender.exponent(dimensions, order),
                    )
