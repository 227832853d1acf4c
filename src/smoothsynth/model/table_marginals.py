"""What released tables tell of single columns of numbers: these move to it as far as it is better known than they are.

The cells of a table, summed over all of its columns but one, are shares of the cells of that one. Let f be what was measured
of a column before (cosines of ranks, T_1 and T_2, spikes), P the diagonal matrix of the squares of how uncertain its means
are left, and g the cells, measured with noise of variances N. Regressed on f under the present density, g has slopes B, so

    G = P B' (B P B' + N)^-1,    E f  ->  E f + G (g - E g),    P  ->  diag(P - G B P)

and the density is tilted to the new means of f. Cells themselves are not matched: they are nearly linear in f, and what noise
is left between them would bend the density without end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.model.marginal_moments import UNKNOWN, missing_share
from smoothsynth.model.marginals import tilt
from smoothsynth.model.rank_histogram import LOOSE, known_functions
from smoothsynth.queries.soft_tables import Cells, SoftTables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from smoothsynth.model.marginals import Marginals
    from smoothsynth.model.rank_histogram import Known
    from smoothsynth.queries.measurement import NoisyMoments

    Array = NDArray[np.float64]


# Of functions that are nearly the same slopes are divided between them: this is added to their unit variances.
_RIDGE = 1e-4
# Cells whose squared distances are so many deviations above what chance explains tell of what f does not have, such as a
# value on which rows crowd: then f does not follow them.
_FAR = 4.0


def hold_table_marginals(columns: Marginals, noisy: NoisyMoments, known: Known) -> tuple[Marginals, Known]:
    """Move columns of numbers to what new tables tell of them."""
    functions, doubt = known_functions(columns, known.ranks, known.spikes), known.doubt.copy()
    values = np.einsum("dqg,dg->dq", functions, columns.masses)
    for line, weights, told, deviation in _cells(columns, noisy):
        # What was not measured is not held: it would explain what cells tell of the rest, and then not follow it.
        own = doubt[line] < UNKNOWN
        move, doubt[line, own] = _moved(
            functions[line, own], columns.masses[line], doubt[line, own], weights, told, deviation
        )
        values[line, own] += move
    shares = {indicator: columns.share(indicator) for indicator in columns.groups.indicators}
    tilted = tilt(columns, functions, values, np.minimum(LOOSE * known.doubt, UNKNOWN)).with_shares(shares)
    ranks = functions[:, : known.learned.shape[1]]
    return tilted, replace(known, doubt=doubt, learned=np.einsum("dqg,dg->dq", ranks, tilted.masses))


def _moved(
    functions: Array, masses: Array, doubt: Array, weights: Array, shares: Array, deviation: float
) -> tuple[Array, Array]:
    """Return by how much the means of functions move, and how uncertain they are then, each in its own unit."""
    centred = functions - (functions @ masses)[:, None]
    spread = np.sqrt(np.maximum(centred**2 @ masses, 1e-12))
    unit = centred / spread[:, None]
    own = (unit * masses) @ unit.T + _RIDGE * np.eye(len(unit))
    slopes = np.linalg.solve(own, (unit * masses) @ weights.T).T
    before = np.minimum(doubt / spread, 1.0) ** 2
    told = slopes * before
    apart, expected = shares - weights @ masses, told @ slopes.T + deviation**2 * np.eye(len(told))
    gain = np.linalg.solve(expected, told).T
    if apart @ np.linalg.solve(expected, apart) > len(apart) + _FAR * np.sqrt(2.0 * len(apart)):
        return np.zeros(len(doubt)), doubt
    left = np.maximum(before - np.einsum("qk,kq->q", gain, told), 0.0)
    return spread * (gain @ apart), spread * np.sqrt(left)


def _cells(columns: Marginals, noisy: NoisyMoments) -> Iterator[tuple[int, Array, Array, float]]:
    """Yield each column of numbers of some tables: its cells as functions, their shares of its values, the noise of these.

    Of a column that several tables hold, shares are averages weighted by 1 / noise^2.
    """
    family, features, seen = noisy.measurement.family, noisy.features, noisy.measurement.transformation
    if not isinstance(family, SoftTables) or not isinstance(features, Cells) or seen is None:
        raise TypeError("only tables tell of columns so")
    sums: dict[int, tuple[Array, float]] = {}
    for table, where in features.places():
        shares = noisy.values[where].reshape(features.shape(table))
        for axis, number in enumerate(table):
            others = tuple(k for k in range(len(table)) if k != axis)
            precision = shares.shape[axis] / shares.size
            value, weight = sums.get(number, (0.0, 0.0))
            sums[number] = value + precision * shares.sum(axis=others), weight + precision
    for number, (value, weight) in sums.items():
        column = family.columns[number]
        if column.value is None:
            continue
        points = np.zeros((columns.places.shape[1], columns.count))
        points[:, column.value] = columns.places[column.value]
        count, start = column.hats + len(column.atoms), family.starts[number]
        weights = family.hats_of(seen, points)[:, start : start + count].T
        there = max(1.0 - missing_share(columns, column.value), 0.1)
        yield column.value, weights, value[:count] / weight / there, float(noisy.deviations[0]) / weight**0.5 / there
