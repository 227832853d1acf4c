"""The one door: private sums leave this module only with noise, and only after they are charged."""

from __future__ import annotations

from itertools import starmap
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.basis import total_degree
from smoothsynth.lattice import LATTICE
from smoothsynth.moments import Measurement, NoisyMoments, check_marks, coarse_sums
from smoothsynth.private import noise
from smoothsynth.subspace import SubspaceMeasurement, on_lattice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from smoothsynth.private.engine import Engine, SealedSums
    from smoothsynth.private.ledger import Ledger
    from smoothsynth.private.table import Table


def measure(
    table: Table,
    measurement: Measurement,
    *,
    engine: Engine,
    ledger: Ledger,
    progress: Callable[[int, int], None] | None = None,
) -> NoisyMoments:
    """Sum the features exactly, charge the ledger, add integer noise.

    The charge comes after the pass over the rows, so that a file that cannot be read costs nothing, and
    before any noise is drawn, so that nothing noisy can exist without it (docs/decisions/0002).
    """
    check_marks(measurement, table.schema)
    sums = engine.sums(table, measurement.features, view=measurement.view, progress=progress)
    ledger.charge(measurement.charge())
    # Noise is drawn while the sums are sealed: if it fails, no name of any frame holds an exact number.
    drawn = _draw_noise(len(measurement.features), measurement)
    pairs = zip(coarse_sums(sums.unseal(), measurement), drawn, strict=True)
    return NoisyMoments(measurement, table.rows, tuple(starmap(add, pairs)))


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


def _draw_noise(count: int, measurement: Measurement | SubspaceMeasurement) -> list[int]:
    """Draw the noise of a measurement apart from its sums: noise does not depend on what it is added to."""
    charge, zeros = measurement.charge(), [0] * count
    sensitivity = measurement.sensitivity
    if charge.multiplier is not None:
        return noise.add_gaussian_noise(zeros, sensitivity=sensitivity, multiplier=charge.multiplier)
    if charge.epsilon is None:
        raise AssertionError(charge.mechanism)
    if charge.mechanism == "cube":
        return noise.add_cube_noise(zeros, sensitivity=sensitivity, epsilon=charge.epsilon)
    return noise.add_laplace_noise(zeros, sensitivity=sensitivity, epsilon=charge.epsilon)
