"""From weights to rows: the only seeded randomness, and it never touches noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def generator(seed: int | None) -> np.random.Generator:
    """Return the generator that a seed stands for; None takes fresh entropy."""
    whole = isinstance(seed, (int, np.integer)) and not isinstance(seed, bool)
    if seed is not None and not (whole and 0 <= seed < 2**128):
        raise PlanError(
            f"a seed must be a whole number from 0 to 2^128 - 1, or None for fresh entropy; found {seed!r:.80}: pass one "
            "such as seed=7"
        )
    return np.random.default_rng(seed)


def systematic(weights: NDArray[np.float64], rows: int, *, generator: np.random.Generator) -> NDArray[np.int64]:
    """Choose candidates so that each appears floor(m u_k) or ceil(m u_k) times, in random order.

        count_k = floor(m u_k) + picked_k,   P(picked_k) = m u_k - floor(m u_k)

    The whole parts are certain; the fractions are picked by one offset U and the ladder U, U+1, U+2, ... over
    their running sum, so the expected count is m u_k and any run of candidates is off by less than one row.
    Systematic sampling: Madow, Ann. Math. Statist. 20 (1949); for particles, Kitagawa, JCGS 5 (1996).
    """
    _refuse_bad(weights, rows)
    expected = rows * (weights / weights.sum())
    counts = np.floor(expected).astype(np.int64)
    fractions = expected - counts
    open_candidates = np.flatnonzero(fractions > 0.0)
    missing = rows - int(counts.sum())
    if missing > 0:
        counts[open_candidates[_ladder(fractions[open_candidates], missing, offset=generator.random())]] += 1
    chosen = np.repeat(np.arange(len(weights), dtype=np.int64), counts)
    generator.shuffle(chosen)
    return chosen


def _ladder(fractions: NDArray[np.float64], picks: int, *, offset: float) -> NDArray[np.int64]:
    reached = np.cumsum(fractions)
    rungs = np.arange(picks)
    found = np.searchsorted(reached, (offset + rungs) * (reached[-1] / picks), side="right")
    # A fraction is below 1, so no candidate is met twice but through rounding of the running sum: these two lines
    # make "at most once" exact.
    rising: NDArray[np.int64] = np.maximum.accumulate(found - rungs) + rungs
    return np.minimum(rising, len(fractions) - picks + rungs)


def _refuse_bad(weights: NDArray[np.float64], rows: int) -> None:
    if rows < 0:
        raise PlanError(f"the number of rows must be >= 0; found {rows}: ask for 0 or more rows")
    if weights.ndim != 1 or not (weights.size and weights.min() >= 0.0 and 0.0 < weights.sum() < np.inf):
        raise PlanError(
            f"weights must be one number >= 0 per candidate, not all 0; found an array of shape {weights.shape} "
            f"that is not: pass the weights of a fit"
        )
