"""The mean square of a row's values: one number on which every wide kernel depends, and all in the same direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.synthesis.copula import retarget, standard_functions
from smoothsynth.synthesis.low_moments import measured_square

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from smoothsynth.moments import NoisyMoments
    from smoothsynth.synthesis.columns import Columns

    Array = NDArray[np.float64]

_ROUNDS = 5
# Below this share of what is to be learned nothing is done.
_LITTLE = 0.01


def hold_square(columns: Columns, low: Sequence[NoisyMoments], *, loose: float) -> Columns:
    """Scale all variances to the mean square that was released first, as far as it is known better than by the pairs.

    `loose` is the noise of the common scale that the pairs left, relative to it.
    """
    lines = [c for c in range(columns.count) if c not in columns.groups.marks]
    released, noise = measured_square(columns, low)
    if not lines:
        return columns

    apart = released - mean_square(columns, lines)
    # A gap that noise does not explain is an error of the pairs: rows that are cut to a length tell little of their scale.
    own = max((loose * float(np.mean(columns.deviations()[lines] ** 2))) ** 2, apart**2 - noise**2)
    worth = own / (own + noise**2)
    if worth < _LITTLE:
        return columns
    wanted = mean_square(columns, lines) + worth * apart
    return scaled(columns, lambda now: wanted - mean_square(now, lines))


def mean_square(columns: Columns, lines: Sequence[int]) -> float:
    """Return the mean of x^2 over these columns."""
    return float(np.mean(np.einsum("dg,dg->d", columns.masses, columns.places**2)[list(lines)]))


def scaled(columns: Columns, missing: Callable[[Columns], float]) -> Columns:
    """Scale the variances of all columns together until nothing is missing of the mean square."""
    functions, first, second = standard_functions(columns)
    spread = float(np.mean(columns.deviations() ** 2))
    start, factor = columns, 1.0
    for _ in range(_ROUNDS):
        factor = float(np.clip(factor * (1.0 + missing(columns) / spread), 0.3, 3.0))
        columns = retarget(start, functions, first, second * factor)
    return columns
