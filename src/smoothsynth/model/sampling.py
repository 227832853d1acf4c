"""Seeded draws: normal scores, quantile mapping, systematic resampling.

Rows from a copula: normal scores, and their ranks replaced by quantiles of each column.

From weights to rows: the only seeded randomness, and it never touches noise.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from smoothsynth.model.marginals import Marginals

    Array = NDArray[np.float64]


# Steps in which the shifts of a category's levels are found.
_SHIFTS = 40
# From so many rows on, so many columns are sorted by other threads while one is placed.
_MANY, _AHEAD = 200_000, 2
_LEAST_EIGENVALUE = 0.02


def scores(count: int, dimensions: int, *, generator: np.random.Generator) -> Array:
    """Draw normal scores with mean exactly 0 and, where there are enough rows, covariance exactly the identity."""
    drawn = generator.standard_normal((count, dimensions))
    drawn -= drawn.mean(axis=0)
    if count <= 2 * dimensions:
        return drawn
    return np.asarray(np.linalg.solve(np.linalg.cholesky(drawn.T @ drawn / count), drawn.T).T)


def correlated(drawn: Array, correlation: Array) -> Array:
    """Give independent normal scores a correlation matrix."""
    return np.asarray(drawn @ np.linalg.cholesky(correlation).T)


def place(
    drawn: Array,
    columns: Marginals,
    *,
    weights: Array | None = None,
    generator: np.random.Generator | None = None,
) -> Array:
    """Replace the (weighted) ranks in every column of the scores by quantiles of that column.

    Each column then has its density almost exactly, whatever the number of rows (a Latin hypercube). Without a
    generator the middle of each rank is taken, with one a random point of it. A category takes the level whose score
    is largest, after shifts that give every level its share; a value is missing where the score of its indicator is largest.
    """
    count = len(drawn)
    shares = np.full(count, 1.0 / count) if weights is None else weights
    # Column by column in memory: each is written as a whole.
    rows = np.zeros(drawn.shape[::-1]).T
    indicators = set(columns.groups.indicators)
    for group, whole in zip(columns.groups.levels, columns.groups.whole, strict=True):
        rows[:, list(group)] = choose_levels(drawn[:, list(group)], _group_shares(columns, group, whole=whole), shares)
    hidden = {
        value: _largest(drawn[:, indicator], columns.share(indicator), shares)
        for value, indicator in columns.groups.missing
    }
    for value, indicator in columns.groups.missing:
        rows[hidden[value], indicator] = 1.0
    values = [c for c in range(drawn.shape[1]) if c not in indicators]
    for column, order in zip(values, _orders(drawn, values, hidden), strict=True):
        inside = 0.5 if generator is None else generator.random(len(order))
        own = shares[order] / shares[order].sum() if len(order) else shares[order]
        rows[order, column] = columns.quantiles(column, np.cumsum(own) - own * inside)
    if columns.limits is None:
        return rows
    return columns.limits.settle(rows, lambda moved, column: _restored(rows, moved, column, columns, hidden, weights))


def _orders(
    drawn: Array, columns: Sequence[int], hidden: Mapping[int, NDArray[np.bool_]]
) -> Iterator[NDArray[np.intp]]:
    """Yield the rows that have a value in the order of their scores, column by column; many rows are sorted ahead."""

    def order(column: int) -> NDArray[np.intp]:
        if column not in hidden:
            return np.argsort(drawn[:, column])
        seen = np.flatnonzero(~hidden[column])
        return np.asarray(seen[np.argsort(drawn[seen, column])])

    if len(drawn) < _MANY:
        yield from map(order, columns)
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ahead: deque[Future[NDArray[np.intp]]] = deque()
        for column in columns:
            ahead.append(pool.submit(order, column))
            if len(ahead) > _AHEAD:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _restored(
    rows: Array,
    moved: Array,
    column: int,
    columns: Marginals,
    hidden: dict[int, NDArray[np.bool_]],
    weights: Array | None,
) -> Array:
    """Return the values of a column that was placed, in the order of those that constraints moved."""
    seen = np.flatnonzero(~hidden[column]) if column in hidden else np.arange(len(rows))
    order = seen[np.argsort(moved[seen, column], kind="stable")]
    found = moved[:, column].copy()
    if weights is None:
        found[order] = np.sort(rows[seen, column])
    elif len(order):
        own = weights[order] / weights[order].sum()
        found[order] = columns.quantiles(column, np.cumsum(own) - own / 2.0)
    return found


def choose_levels(drawn: Array, wanted: Array, weights: Array) -> Array:
    """Give each row one level, as indicators: the largest of score + shift, with shifts found so that shares are as wanted.

    `wanted` has one share more than there are levels where a row may have none: its score is always 0. A multinomial
    probit: the correlations of the scores of levels with all others become dependence, level by level.
    """
    # Level by level in memory.
    scored = np.zeros((len(wanted), len(drawn)))
    scored[: drawn.shape[1]] = drawn.T
    scored += np.log(wanted)[:, None]
    for _ in range(_SHIFTS):
        found = np.bincount(_first_largest(scored), weights=weights, minlength=len(wanted))
        if np.abs(found - wanted).max() < 0.5 / len(drawn):
            break
        scored += 0.6 * (np.log(wanted) - np.log(np.maximum(found, 0.2 * wanted)))[:, None]
    chosen = _even_out(scored, _first_largest(scored), wanted, weights)
    return (chosen[:, None] == np.arange(drawn.shape[1])).astype(np.float64)


def _first_largest(scored: Array) -> NDArray[np.intp]:
    """Return the number of the largest in each column; `argmax` takes ten times as long where there are few rows."""
    largest, chosen = scored[0].copy(), np.zeros(scored.shape[1], dtype=np.intp)
    for number, own in enumerate(scored[1:], start=1):
        np.copyto(chosen, number, where=own > largest)
        np.maximum(largest, own, out=largest)
    return chosen


def _even_out(scored: Array, chosen: NDArray[np.intp], wanted: Array, weights: Array) -> NDArray[np.intp]:
    """Move the rows that are nearest to another level from levels with too much weight to those with too little."""
    chosen = chosen.copy()
    own = scored[chosen, np.arange(len(chosen))]
    spare = np.bincount(chosen, weights=weights, minlength=len(wanted)) - wanted
    for level in np.argsort(spare)[: np.count_nonzero(spare < 0.0)].tolist():
        # Levels that have too much only lose rows: no others can come to have any to spare.
        movable = np.flatnonzero(spare[chosen] > weights / 2.0)
        for row in movable[np.argsort(own[movable] - scored[level, movable])].tolist():
            if spare[level] + weights[row] / 2.0 > 0.0:
                break
            if spare[chosen[row]] > weights[row] / 2.0:
                spare[chosen[row]] -= weights[row]
                spare[level] += weights[row]
                chosen[row] = level
    return chosen


def _group_shares(columns: Marginals, group: tuple[int, ...], *, whole: bool) -> Array:
    shares = np.array([columns.share(c) for c in group])
    return shares / shares.sum() if whole else np.append(shares, max(1.0 - shares.sum(), 1e-9))


def _largest(drawn: Array, share: float, weights: Array) -> NDArray[np.bool_]:
    """Mark the rows with the largest scores that make up a share of the weight."""
    order = np.argsort(-drawn)
    marked = np.zeros(len(drawn), dtype=bool)
    marked[order[np.cumsum(weights[order]) - weights[order] / 2.0 <= share]] = True
    return marked


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


def nearest_correlation(matrix: Array) -> Array:
    """Lift eigenvalues to a small floor and scale the diagonal to 1."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    lifted = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    spread = np.sqrt(np.diag(lifted))
    return np.asarray(lifted / np.outer(spread, spread))
