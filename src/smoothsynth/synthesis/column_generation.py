"""Column generation for the l1 fit: an exact optimum while the solver sees only the candidates that matter.

    minimise |W'u - b|_1   subject to   u >= 0,  1'u = 1
    dual: maximise b.y + y0   subject to   W_k.y + y0 <= 0 for every candidate k,  |y_r| <= 1

The dual has one cut per candidate and few of them bind. Any y with |y_r| <= 1 bounds the optimum from below by
b.y - max_k W_k.y, and any weights bound it from above, so the stopping rule is a certificate that trusts no solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from smoothsynth.synthesis.cut_program import CutProgram
from smoothsynth.synthesis.interior_point import InteriorPoint, solve_interior_point

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.synthesis.fit import Progress

    Array = NDArray[np.float64]
    Indices = NDArray[np.int64]

# Below this many moments the simplex method alone is faster than preparing its start.
_INTERIOR_FROM = 40
_MOST_SIFTS = 40
# Its multiples modulo 1 are spread evenly without a pattern.
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class Priced:
    """Candidates with large W_k.y, the largest first; `exact` when no candidate anywhere exceeds the first."""

    indices: Indices
    values: Array
    exact: bool = True


class Columns(Protocol):
    """Candidates as the column generation sees them: their features on demand, and the best for a dual."""

    @property
    def count(self) -> int:
        """The number of candidates."""
        ...

    def features(self, indices: Indices) -> Array:
        """Return the features of some candidates, one row each."""
        ...

    def price(self, dual: Array, *, limit: int, level: float) -> Priced:
        """Return the candidates with the largest W_k.y, at most `limit`; what matters is which exceed -level."""
        ...


@dataclass(frozen=True, slots=True)
class Generated:
    """Weights on the few candidates that carry any, and certified bounds on the optimum from both sides."""

    support: Indices
    weights: Array
    dual: Array
    optimum: float
    bound: float
    converged: bool
    steps: int


def generate_columns(
    columns: Columns, target: Array, *, tolerance: float, progress: Progress | None = None
) -> Generated:
    """Minimise |W'u - b|_1 over all candidates until optimum - bound <= tolerance * max(1, optimum)."""
    working = _first_candidates(columns, target)
    program = CutProgram(target)
    steps = 0
    if len(target) >= _INTERIOR_FROM:
        working, point, steps = _sift(columns, target, working=working, progress=progress)
        working, tight, side = _vertex(working, _one_of_many(columns, target, working=working, point=point))
        program.add(columns.features(working))
        program.start(tight=tight, side=side)
    else:
        program.add(columns.features(working))
    bound = -np.inf
    while True:
        steps += 1
        answer = program.solve()
        optimum = float(np.abs(answer.weights @ columns.features(working) - target).sum())
        priced = columns.price(answer.dual, limit=max(20, len(target) // 2), level=answer.level)
        if priced.exact:
            bound = max(bound, float(target @ answer.dual - priced.values[0]))
        _report(progress, steps, optimum=optimum, bound=bound)
        converged = optimum - bound <= tolerance * max(1.0, optimum)
        fresh = _fresh(priced, working, level=answer.level)
        if converged or not answer.optimal or len(fresh) == 0:
            break
        working = np.concatenate([working, fresh])
        program.add(columns.features(fresh))
    kept = answer.weights > 0.0
    return Generated(working[kept], answer.weights[kept], answer.dual, optimum, bound, converged=converged, steps=steps)


def _first_candidates(columns: Columns, target: Array) -> Indices:
    """Half the first candidates lie far out in the direction of the target, half are spread over all of them."""
    size = 3 * len(target) if len(target) >= _INTERIOR_FROM else len(target) + 20
    if columns.count <= size:
        return np.arange(columns.count, dtype=np.int64)
    far = columns.price(np.clip(target, -1.0, 1.0), limit=size // 2, level=np.inf).indices
    spread = (_GOLDEN * np.arange(1, size - len(far) + 1) % 1.0 * columns.count).astype(np.int64)
    return np.union1d(far, spread)


def _sift(
    columns: Columns, target: Array, *, working: Indices, progress: Progress | None
) -> tuple[Indices, InteriorPoint, int]:
    """Find a working set whose interior solution violates no cut, or hardly: the start, not yet the answer."""
    gap, step = np.inf, 0
    while True:
        step += 1
        features = columns.features(working)
        goal = max(1e-8, 0.01 * min(gap, float(np.abs(features.mean(axis=0) - target).sum())))
        point = solve_interior_point(features, target, gap=goal)
        priced = columns.price(point.dual, limit=max(100, len(target)), level=point.level)
        optimum = float(point.primal[len(working) :].sum())
        bound = float(target @ point.dual - priced.values[0]) if priced.exact else -np.inf
        gap = optimum - bound
        _report(progress, step, optimum=optimum, bound=bound)
        fresh = _fresh(priced, working, level=point.level)
        exhausted = len(fresh) == 0 and goal == 1e-8
        if gap <= 1e-6 * max(1.0, optimum) or exhausted or step == _MOST_SIFTS:
            return working, point, step
        working = np.concatenate([working[_worth_keeping(point, working, most=max(1000, 4 * len(target)))], fresh])


def _one_of_many(columns: Columns, target: Array, *, working: Indices, point: InteriorPoint) -> InteriorPoint:
    """Move to a vertex if the optimum is a whole face, as it is where the target can be attained exactly.

    From the middle of a face the simplex method is slow. A small generic cost on the weights makes the optimum
    unique; it need not be small enough to leave the optimum as it is, for this is only where the search starts.
    """
    ratio = point.primal / point.slack
    if np.count_nonzero(ratio > 1.0) <= len(target) + 1:
        return point
    cost = 1e-3 * (_GOLDEN * np.arange(1.0, len(working) + 1.0) % 1.0)
    return solve_interior_point(columns.features(working), target, gap=1e-9, cost=cost)


def _worth_keeping(point: InteriorPoint, working: Indices, *, most: int) -> Indices:
    ratio = point.primal[: len(working)] / point.slack[: len(working)]
    return np.sort(np.argsort(-ratio, kind="stable")[:most])


def _vertex(working: Indices, point: InteriorPoint) -> tuple[Indices, NDArray[np.bool_], NDArray[np.int8]]:
    """Guess the vertex next to an interior point: the R+1 entries of (u, p, q) with the largest x/slack."""
    kept = _worth_keeping(point, working, most=2 * (len(point.dual) + 1))
    count, moments = len(working), len(point.dual)
    ratio = point.primal / point.slack
    above, below = ratio[count : count + moments], ratio[count + moments :]
    scores = np.concatenate([ratio[:count][kept], np.maximum(above, below)])
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[np.argsort(-scores, kind="stable")[: moments + 1]] = True
    side = np.where(above > below, 1, -1) * chosen[len(kept) :]
    return working[kept], chosen[: len(kept)], side.astype(np.int8)


def _fresh(priced: Priced, working: Indices, *, level: float) -> Indices:
    violated = priced.indices[priced.values > -level]
    return violated[~np.isin(violated, working)]


def _report(progress: Progress | None, step: int, *, optimum: float, bound: float) -> None:
    if progress is not None:
        progress(step, None, f"linear program: the optimum is between {max(bound, 0.0):.6g} and {optimum:.6g}")
