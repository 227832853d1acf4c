"""Move means and variances of marginals.

Columns moved to other means and variances, in units of their own deviations.

The mean square of a row's values: one number on which every wide kernel depends, and all in the same direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.model.marginal_moments import UNKNOWN, measured_means, measured_square, missing_share
from smoothsynth.model.marginals import tilt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from smoothsynth.model.copula import CutMoments
    from smoothsynth.model.marginals import Marginals
    from smoothsynth.queries.measurement import NoisyMoments

    Array = NDArray[np.float64]


# Values further off than this, in deviations, count as being there.
FAR = 5.0
# How far into the range of a column its mean may move, and the least variance, both of standardised values.
_INSIDE, _LEAST_VARIANCE = 0.9, 0.0625
# Means of y and y^2 are held within these.
WITHIN = np.array([0.003, 0.01])


def shifted(columns: Marginals, by: Array) -> Marginals:
    """Move the means of columns, and the shares of levels and indicators; variances stay."""
    functions, first, second = standard_functions(columns)
    wanted = first + by / columns.deviations()
    return moved(columns, functions, *reachable(columns, functions, wanted, second - first**2 + wanted**2))


def standard_functions(columns: Marginals) -> tuple[Array, Array, Array]:
    """Return y and y^2 on the cells, y the standardised and clipped value, with their means."""
    y = (columns.places - columns.means()[:, None]) / columns.deviations()[:, None]
    y = np.clip(y, -FAR, FAR)
    functions = np.stack([y, y**2], axis=1)
    means = np.einsum("dqg,dg->dq", functions, columns.masses)
    return functions, means[:, 0], means[:, 1]


def reachable(columns: Marginals, functions: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Keep means of y inside its range and variances from vanishing: no noise may put a whole column on one value."""
    possible = columns.base > 0.0
    low = np.where(possible, functions[:, 0], np.inf).min(axis=1)
    high = np.where(possible, functions[:, 0], -np.inf).max(axis=1)
    first = np.clip(first, _INSIDE * low, _INSIDE * high)
    return first, np.maximum(second, first**2 + _LEAST_VARIANCE)


def moved(columns: Marginals, functions: Array, first: Array, second: Array) -> Marginals:
    """Move columns until standardised values, and levels and indicators, have these means."""
    means, deviations = columns.means(), columns.deviations()
    shares = {c: float(means[c] + first[c] * deviations[c]) for c in columns.groups.indicators}
    return retarget(columns, functions, first, second).with_shares(shares)


def retarget(columns: Marginals, functions: Array, first: Array, second: Array) -> Marginals:
    """Tilt columns softly so that y and y^2 have the given means; levels of categories and indicators stay as they are."""
    indicators = list(columns.groups.indicators)
    second = np.maximum(second, first**2 + 0.02 * np.maximum(second, 1e-3))
    values = np.stack([first, second], axis=1)
    tilted = tilt(columns, functions, values, np.broadcast_to(WITHIN, values.shape))
    if not indicators:
        return tilted
    masses = tilted.masses.copy()
    masses[indicators] = columns.masses[indicators]
    return replace(tilted, masses=masses)


_ROUNDS = 5
# Below this share of what is to be learned nothing is done.
_LITTLE = 0.01
# By such a share all variances together may be wrong beside noise, after rows were cut, and where they never were measured.
_CUT_SCALE, _UNSEEN_SCALE = 0.3, 0.5
# Ranks, uncut, tell spreads too: no more than so many times their noise.
_RANKS_SCALE = 3.0
# Means of cut rows have an error of about their noise beside it (decision 0008).
_CUT_BIAS, _IN_COMMON = 1.4, 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """How well it is known, before the mean square is, what it consists of: means (their noise), and the common scale."""

    means: Array
    scale: float
    of_ranks: float = math.inf

    def of_means(self, means: Array) -> float:
        """Return the error of the mean of m_i^2: that of each mean by itself, and a half that all may have in common."""
        each = np.where(self.means < UNKNOWN, np.abs(means) * self.means, 0.0)
        return 2.0 * math.hypot(math.sqrt(float(np.sum(each**2))) / len(each), _IN_COMMON * float(np.mean(each)))

    def shares(self, means: Array, spread: float, doubt: float) -> tuple[float, float, float]:
        """Share what is missing of a mean square between the means, the scale of variances, and its own noise."""
        of_means, of_scale = self.of_means(means) ** 2, (self.scale * spread) ** 2
        doubted = doubt**2 / max(of_means + of_scale + doubt**2, 1e-300)
        narrow = min(of_scale, (self.of_ranks * spread) ** 2)
        moved = of_means / max(of_means + narrow, 1e-300)
        return (1.0 - doubted) * moved, (1.0 - doubted) * (1.0 - moved), doubted


def known_so_far(
    columns: Marginals, low: Sequence[NoisyMoments], cut: CutMoments | None, rank_noise: float = math.inf
) -> Known:
    """Return what the first release, ranks and, if there was one, a release of cut rows tell."""
    _, first = measured_means(columns, low)
    of_ranks = _RANKS_SCALE * rank_noise
    if cut is None:
        return Known(first, _UNSEEN_SCALE, of_ranks)
    means = 1.0 / np.hypot(1.0 / first, 1.0 / (_CUT_BIAS * cut.noise))
    return Known(np.where(first < UNKNOWN, means, UNKNOWN), math.hypot(_CUT_SCALE, cut.loose), of_ranks)


def hold_square(
    columns: Marginals, low: Sequence[NoisyMoments], cut: CutMoments, rank_noise: float = math.inf
) -> Marginals:
    """Move all columns to the mean square that was released first, as far as it is known better than by cut rows."""
    lines = [c for c in range(columns.count) if c not in columns.groups.indicators]
    released, noise = measured_square(columns, low)
    if not lines:
        return columns

    apart = released - mean_square(columns, lines)
    # A gap that noise does not explain is an error of the pairs: rows that are cut to a length tell little of their scale.
    own = max((cut.loose * float(np.mean(columns.deviations()[lines] ** 2))) ** 2, apart**2 - noise**2)
    worth = own / (own + noise**2)
    if worth < _LITTLE:
        return columns
    wanted = mean_square(columns, lines) + worth * apart
    known = known_so_far(columns, low, cut, rank_noise)
    return scaled(columns, lambda now: wanted - mean_square(now, lines), known)


def mean_square(columns: Marginals, lines: Sequence[int]) -> float:
    """Return the mean of x^2 over these columns, 0 where a value is missing."""
    squares = np.einsum("dg,dg->d", columns.masses, columns.places**2)
    return float(np.mean([(1.0 - missing_share(columns, c)) * squares[c] for c in lines]))


def scaled(columns: Marginals, missing: Callable[[Marginals], float], known: Known, *, doubt: float = 0.0) -> Marginals:
    """Move all columns together until nothing is missing of the mean square: their means, and their variances.

    A mean square t = mean of (m_i^2 + v_i) may be off because the means are, because all variances are, by a share of
    them, or because of its own noise, the `doubt`. What is missing is shared by the squares of the three; the last part
    stays missing. Means m_i with noise s_i move by m_i s_i^2 times a common factor.
    """
    functions, first, second = standard_functions(columns)
    deviations, means = columns.deviations(), columns.means()
    # Levels are not moved: with many of them, a step by the variance of all would go several times too far.
    spread = float(np.mean(np.delete(deviations, list(columns.groups.indicators)) ** 2))
    ways = np.where(known.means < UNKNOWN, means * known.means**2, 0.0)
    shares = known.shares(means, spread, doubt)
    ways *= columns.count / max(2.0 * float(ways @ means), 1e-300)
    start, factor, moved, gap = columns, 1.0, 0.0, missing(columns)
    doubted = shares[2] * gap
    for _ in range(_ROUNDS):
        believed = (gap - doubted) / max(shares[0] + shares[1], 1e-300)
        factor = float(np.clip(factor * (1.0 + shares[1] * believed / spread), 0.3, 3.0))
        moved += shares[0] * believed
        there, _ = reachable(start, functions, first + moved * ways / deviations, second)
        columns = retarget(start, functions, there, (second - first**2) * factor + there**2)
        gap = missing(columns)
    return columns
