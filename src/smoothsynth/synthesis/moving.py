"""Columns moved to other means and variances, in units of their own deviations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.synthesis.columns import tilt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.synthesis.columns import Columns

    Array = NDArray[np.float64]

# Values further off than this, in deviations, count as being there.
FAR = 5.0
# How far into the range of a column its mean may move, and the least variance, both of standardised values.
_WITHIN, _LEAST_VARIANCE = 0.9, 0.0625


def shifted(columns: Columns, by: Array) -> Columns:
    """Move the means of columns, and the shares of levels and marks; variances stay."""
    functions, first, second = standard_functions(columns)
    wanted = first + by / columns.deviations()
    return moved(columns, functions, *reachable(columns, functions, wanted, second - first**2 + wanted**2))


def standard_functions(columns: Columns) -> tuple[Array, Array, Array]:
    """Return y and y^2 on the cells, y the standardised and clipped value, with their means."""
    y = (columns.places - columns.means()[:, None]) / columns.deviations()[:, None]
    y = np.clip(y, -FAR, FAR)
    functions = np.stack([y, y**2], axis=1)
    means = np.einsum("dqg,dg->dq", functions, columns.masses)
    return functions, means[:, 0], means[:, 1]


def reachable(columns: Columns, functions: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Keep means of y inside its range and variances from vanishing: no noise may put a whole column on one value."""
    possible = columns.base > 0.0
    low = np.where(possible, functions[:, 0], np.inf).min(axis=1)
    high = np.where(possible, functions[:, 0], -np.inf).max(axis=1)
    first = np.clip(first, _WITHIN * low, _WITHIN * high)
    return first, np.maximum(second, first**2 + _LEAST_VARIANCE)


def moved(columns: Columns, functions: Array, first: Array, second: Array) -> Columns:
    """Move columns until standardised values, and levels and marks, have these means."""
    means, deviations = columns.means(), columns.deviations()
    shares = {c: float(means[c] + first[c] * deviations[c]) for c in columns.groups.marks}
    return retarget(columns, functions, first, second).with_shares(shares)


def retarget(columns: Columns, functions: Array, first: Array, second: Array) -> Columns:
    """Tilt columns softly so that y and y^2 have the given means; levels of categories and marks stay as they are."""
    marks = list(columns.groups.marks)
    second = np.maximum(second, first**2 + 0.02 * np.maximum(second, 1e-3))
    values = np.stack([first, second], axis=1)
    tilted = tilt(columns, functions, values, np.broadcast_to(np.array([0.003, 0.01]), values.shape))
    if not marks:
        return tilted
    masses = tilted.masses.copy()
    masses[marks] = columns.masses[marks]
    return replace(tilted, masses=masses)
