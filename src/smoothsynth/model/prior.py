"""A public table of the same columns: rows that begin with its dependence, in the model's own columns.

Nothing is measured of it. Its rows are turned into scores, which `place` puts into the columns that were released: a number
keeps its rank, a level and a missing cell stay unless the released shares are others. What was released of several columns
then moves such rows where the two differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.model.sampling import place

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.model.marginals import Marginals

    Array = NDArray[np.float64]


# How much likelier than others a row is to keep its level or to stay missing, in deviations of the scores.
_KEPT = 6.0


def prior_rows(prior: Array, columns: Marginals, count: int, *, generator: np.random.Generator) -> Array:  # noqa: TID251
    """Return so many rows with the dependence of public ones and the densities of these columns."""
    chosen = prior[_spread_evenly(len(prior), count, generator)]
    drawn = generator.standard_normal(chosen.shape)
    indicators = list(columns.groups.indicators)
    drawn[:, indicators] += _KEPT * chosen[:, indicators]
    hidden = dict(columns.groups.missing)
    for c in set(range(columns.count)).difference(indicators):
        there = chosen[:, hidden[c]] < 0.5 if c in hidden else np.ones(count, dtype=bool)
        drawn[there, c] = chosen[there, c] + 1e-9 * drawn[there, c]
        # Rows without a value may be given one: it is any of those that are there.
        if there.any():
            drawn[~there, c] = generator.choice(chosen[there, c], int((~there).sum()))
    return place(drawn, columns, generator=generator)


def _spread_evenly(there: int, count: int, generator: np.random.Generator) -> NDArray[np.int64]:  # noqa: TID251
    """Take every row as often as any other, up to one."""
    return np.asarray(generator.permutation(np.resize(generator.permutation(there), count)))
