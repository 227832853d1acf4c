"""The one door: private sums leave this module only with noise, and only after they are charged.

The search for private bounds, levels and codes, and the subspace iteration, go through it too.
"""

from __future__ import annotations

import math
from itertools import starmap
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.discovery.codes import pairs_schema
from smoothsynth.discovery.levels import MOST_FOUND, NoisyLevels
from smoothsynth.discovery.search import Found
from smoothsynth.errors import PlanError
from smoothsynth.methods.paper import NoisySubspace, SubspaceMeasurement, on_lattice, orthonormal
from smoothsynth.private import noise
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.sealed import count_values
from smoothsynth.queries.bases import LATTICE, total_degree
from smoothsynth.queries.measurement import Measurement, NoisyMoments, check_indicators, coarse_sums
from smoothsynth.queries.soft_tables import Cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.accounting.ledger import Ledger
    from smoothsynth.discovery.levels import LevelsMeasurement
    from smoothsynth.discovery.search import Discovery
    from smoothsynth.private.sealed import Engine, SealedCounts, SealedSums
    from smoothsynth.private.table import Table
    from smoothsynth.queries.selection import TableSelection

    Progress = Callable[[str, int, int | None], None]


def measure(
    table: Table,
    measurement: Measurement,
    *,
    engine: Engine,
    ledger: Ledger,
    progress: Callable[[int, int], None] | None = None,
) -> NoisyMoments:
    """Sum the features exactly, charge the ledger, add integer noise; where tables are chosen, charge and choose them first.

    The charge comes after the pass over the rows, so that a file that cannot be read costs nothing, and
    before any noise is drawn, so that nothing noisy can exist without it (docs/decisions/0002).
    """
    check_indicators(measurement, table.schema)
    check_averages(measurement, table)
    if measurement.mechanism == "ball":
        raise PlanError("Ball noise is that of earlier versions, and no longer drawn. Plan again, with Wishart noise.")
    sums = engine.sums(table, measurement.features, transformation=measurement.transformation, progress=progress)
    if measurement.choice is not None:
        measurement = measurement.chosen(_choose(sums, measurement, measurement.choice, ledger=ledger))
        sums = sums.only(measurement.features)
    ledger.charge(measurement.charge())
    # Noise is drawn while the sums are sealed: if it fails, no name of any frame holds an exact number.
    drawn = _draw_noise(len(measurement.features), measurement)
    pairs = zip(coarse_sums(sums.unseal(), measurement, denominator=sums.denominator), drawn, strict=True)
    return NoisyMoments(measurement, table.rows, tuple(starmap(add, pairs)))


def check_averages(measurement: Measurement, table: Table) -> None:
    """Refuse a measurement whose sensitivity is for other averages of a person's rows than the table's."""
    if measurement.averaged != table.averaged:
        raise PlanError(
            f"The noise is for averages of up to {measurement.averaged} rows of a person, and the table has "
            f"{table.averaged}. Plan and open the table with the same rows_per_person."
        )


def _choose(sums: SealedSums, measurement: Measurement, choice: TableSelection, *, ledger: Ledger) -> list[int]:
    """Name the tables that are farthest from what is expected, with noise (docs/proofs/noisy-maxima.md)."""
    charge = measurement.choice_charge()
    sensitivity = int(charge.sensitivity)
    if choice.epsilon is not None:
        sampler = noise.pure_noisy_maxima(choice.count, sensitivity=sensitivity, epsilon=choice.epsilon)
    else:
        sampler = noise.noisy_maxima(choice.count, sensitivity=sensitivity, multiplier=choice.multiplier or 0.0)
    # What noise alone adds to the distance of one cell, the mean of |noise|: public.
    allowance = (
        math.sqrt(0.5) if choice.epsilon is not None else math.sqrt(2.0 / math.pi)
    ) * measurement.charge().deviation
    ledger.charge(charge)
    chosen = _largest(sums, measurement, sampler, allowance=allowance)
    if isinstance(chosen, KeyboardInterrupt):
        raise chosen
    if chosen is None:
        # Raised out here: an error from within would carry frames that hold exact scores.
        raise PlanError("The choice of tables failed after it was charged; nothing of it was released.")
    return chosen


def _largest(
    sums: SealedSums, measurement: Measurement, sampler: Callable[[list[int]], list[int]], *, allowance: float
) -> list[int] | KeyboardInterrupt | None:
    """Return the places that a sampler names; None if that fails, for no error may leave where exact scores are.

    An interruption is returned without the frames that it came through.
    """
    choice, features = measurement.choice, measurement.features
    try:
        if choice is not None and isinstance(features, Cells):
            coarse = coarse_sums(sums.unseal(), measurement, denominator=sums.denominator)
            return sampler(choice.scores(coarse, features, allowance=allowance))
    except KeyboardInterrupt as stopped:
        return stopped.with_traceback(None)
    except Exception:  # noqa: S110
        pass
    return None


def measure_product(
    sums: SealedSums,
    measurement: SubspaceMeasurement,
    directions: NDArray[np.float64],
    *,
    rows: int,
    ledger: Ledger,
) -> tuple[int, ...]:
    """Release one noisy product of the covariance with public directions, row by row of the result.

    The exact sums are those of all features of degree at most 2. With X, G, s integers on the lattice, the
    product is  floor((n G - s s') X / (n S^2))  =  floor(n 2^16 A X)  (docs/proofs/subspace.md).
    """
    ledger.charge(measurement.charge())
    drawn = _draw_noise(measurement.dimensions * measurement.rank, measurement)
    pairs = zip(_exact_product(sums.unseal(), on_lattice(directions), rows), drawn, strict=True)
    return tuple(starmap(add, pairs))


def measure_levels(
    table: Table,
    measurements: Sequence[LevelsMeasurement],
    *,
    ledger: Ledger,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[NoisyLevels]:
    """Count the values of some columns exactly; for each column charge the ledger, add noise, and show what is frequent.

    A value is shown if its noisy count reaches the threshold (docs/proofs/private-schema.md, section 3), and of more than
    MOST_FOUND values those with the largest noisy counts. What is not shown leaves no trace.
    """
    if table.averaged > 1:
        raise PlanError("Private levels count one row of each person. Say rows_per_person=1, or declare the levels.")
    for sealed, measurement in zip(
        count_values(table, [m.column for m in measurements], progress=progress), measurements, strict=True
    ):
        ledger.charge(measurement.charge())
        yield NoisyLevels(measurement, table.rows, _frequent(sealed, measurement))


def _frequent(sealed: SealedCounts, measurement: LevelsMeasurement) -> tuple[tuple[str, int], ...]:
    drawn = _draw_noise(sealed.values, measurement)
    pairs = zip(sealed.unseal().items(), drawn, strict=True)
    shown = [(text, exact + z) for (text, exact), z in pairs if exact + z >= measurement.threshold]
    return tuple(sorted(sorted(shown, key=lambda one: (-one[1], one[0]))[:MOST_FOUND]))


def _exact_product(sums: Sequence[int], directions: NDArray[np.int64], rows: int) -> list[int]:
    d = len(directions)
    unit = LATTICE * LATTICE
    totals = np.array([total // LATTICE for total in sums[:d]], dtype=object)
    gram = np.zeros((d, d), dtype=object)
    for feature, total in zip(total_degree(2, d)[d:], sums[d:], strict=True):
        (i, _), (j, _) = feature.terms[0][0], feature.terms[0][-1]
        # T_2 = 2 x^2 - 1 is measured, x^2 is meant.
        gram[i, j] = gram[j, i] = (total + rows * unit) // 2 if i == j else total
    product = (rows * gram - np.outer(totals, totals)) @ directions.astype(object)
    return [int(entry) // (rows * unit) for entry in product.ravel()]


def _draw_noise(count: int, measurement: Measurement | SubspaceMeasurement | LevelsMeasurement) -> list[int]:
    """Draw the noise of a measurement apart from its sums: noise does not depend on what it is added to."""
    charge, zeros = measurement.charge(), [0] * count
    sensitivity = measurement.sensitivity
    if charge.multiplier is not None:
        return noise.add_gaussian_noise(zeros, sensitivity=sensitivity, multiplier=charge.multiplier)
    if charge.epsilon is None:
        raise AssertionError(charge.mechanism)
    if charge.mechanism == "cube":
        return noise.add_cube_noise(zeros, sensitivity=sensitivity, epsilon=charge.epsilon)
    if charge.mechanism == "wishart":
        return noise.add_wishart_noise(zeros, sensitivity=sensitivity, epsilon=charge.epsilon)
    if charge.norm != "l1":
        raise AssertionError(charge.mechanism)
    return noise.add_laplace_noise(zeros, sensitivity=sensitivity, epsilon=charge.epsilon)


def discover(
    table: Table, planned: Discovery, *, engine: Engine, ledger: Ledger, progress: Progress | None = None
) -> Found:
    """Count values, intervals and pairs as planned, and return what was found; its remarks name columns without anything."""
    check_engine(planned, engine)
    found = Found(table.schema)
    if planned.levels:
        told = None if progress is None else _told(progress, "counting levels")
        for noisy in measure_levels(table, planned.levels, ledger=ledger, progress=told):
            found = found.after_levels(noisy)
    for number, one in enumerate(planned.rounds, start=1):
        search = found.search()
        phase = f"finding bounds {number} of {len(planned.rounds)}"
        told = None if progress is None else _told(progress, phase)
        seen = table.seen_as(search.schema)
        counted = measure(seen, search.measurement(one), engine=engine, ledger=ledger, progress=told)
        found = found.after_round(counted)
    if planned.codes is not None:
        told = None if progress is None else _told(progress, "finding codes")
        seen = table.seen_as(pairs_schema(table.schema))
        found = found.after_codes(measure(seen, planned.codes, engine=engine, ledger=ledger, progress=told))
    return found


def check_engine(planned: Discovery, engine: Engine) -> None:
    """Refuse to count levels where only sums are computed."""
    if planned.levels and not isinstance(engine, LocalEngine):
        raise PlanError(
            f"Private levels (column {planned.levels[0].column!r}) are counted by the local engine only, not on a cluster. "
            "Declare the levels, or pass the files without an engine. Nothing was spent."
        )


def _told(progress: Progress, name: str) -> Callable[[int, int], None]:
    return lambda done, total: progress(name, done, total)


def measure_subspace(
    table: Table,
    measurement: SubspaceMeasurement,
    *,
    start: NDArray[np.float64],
    engine: Engine,
    ledger: Ledger,
    progress: Callable[[int, int], None] | None = None,
) -> NoisySubspace:
    """Run Algorithm 2 with correct noise: X_l = orthonormalised(A X_{l-1} + noise), from a public start.

    One pass over the rows gives all exact second moments; every product with them is charged and noisy.
    """
    if table.averaged > 1:
        raise PlanError("The paper's subspace iteration sums single rows. Say rows_per_person=1, or another method.")
    sums = engine.sums(table, total_degree(2, measurement.dimensions), progress=progress)
    directions = orthonormal(start)
    products: list[tuple[int, ...]] = []
    for _ in range(measurement.iterations):
        products.append(measure_product(sums, measurement, directions, rows=table.rows, ledger=ledger))
        directions = orthonormal(NoisySubspace(measurement, table.rows, start, tuple(products)).last_product())
    return NoisySubspace(measurement, table.rows, start, tuple(products))
