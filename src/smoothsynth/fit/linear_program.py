"""L1 fit by column generation on HiGHS.

The dual of the l1 fit on some of the candidates, as cuts in HiGHS, kept warm while cuts are added.

A dense interior-point method for a small l1 fit: the rough solution from which the exact one starts.

Column generation for the l1 fit: an exact optimum while the solver sees only the candidates that matter.

    minimise |W'u - b|_1   subject to   u >= 0,  1'u = 1
    dual: maximise b.y + y0   subject to   W_k.y + y0 <= 0 for every candidate k,  |y_r| <= 1

The dual has one cut per candidate and few of them bind. Any y with |y_r| <= 1 bounds the optimum from below by
b.y - max_k W_k.y, and any weights bound it from above, so the stopping rule is a certificate that trusts no solver.

The paper's fit: the weights whose moments are closest to the noisy ones in l1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from smoothsynth._runtime import one_thread_if_small
from smoothsynth.fit.result import NEAREST, NOT_NEAREST, Fit, check_problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.fit.result import Progress

    Array = NDArray[np.float64]
    Indices = NDArray[np.int64]


_OPTIONS = {
    "output_flag": False,
    "presolve": "off",
    "solver": "simplex",
    "parallel": "off",
    "simplex_scale_strategy": 0,
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}


@dataclass(frozen=True, slots=True)
class CutSolution:
    """The dual (y, y0) of the l1 fit on the cuts so far, and the weights that belong to it."""

    dual: Array
    level: float
    weights: Array
    optimal: bool


class CutProgram:
    """Maximise b.y + y0 under W_k.y + y0 <= 0 for the candidates added so far, and |y_r| <= 1."""

    def __init__(self, target: Array) -> None:
        import highspy

        self._moments = len(target)
        self._solver: Any = highspy.Highs()
        for name, value in _OPTIONS.items():
            self._solver.setOptionValue(name, value)
        free = highspy.kHighsInf
        ones = np.ones(self._moments)
        nothing = np.empty(0)
        self._solver.addCols(
            self._moments + 1,
            np.append(-target, -1.0),
            np.append(-ones, -free),
            np.append(ones, free),
            0,
            np.zeros(self._moments + 1, dtype=np.int32),
            nothing.astype(np.int32),
            nothing,
        )

    def add(self, features: Array) -> None:
        """Add one cut per candidate, keeping the basis."""
        import highspy

        count, width = len(features), self._moments + 1
        self._solver.addRows(
            count,
            np.full(count, -highspy.kHighsInf),
            np.zeros(count),
            count * width,
            np.arange(count, dtype=np.int32) * np.int32(width),
            np.tile(np.arange(width, dtype=np.int32), count),
            np.hstack([features, np.ones((count, 1))]).ravel(),
        )

    def start(self, *, tight: NDArray[np.bool_], side: NDArray[np.int8]) -> None:
        """Start from the vertex where the tight cuts bind and y_r sits at its bound wherever side_r is -1 or 1."""
        import highspy

        status = highspy.HighsBasisStatus
        bounds = {-1: status.kLower, 0: status.kBasic, 1: status.kUpper}
        basis = highspy.HighsBasis()
        basis.col_status = [bounds[s] for s in side.tolist()] + [status.kBasic]
        basis.row_status = [status.kUpper if t else status.kBasic for t in tight.tolist()]
        # An alien basis may be singular or have the wrong size: HiGHS repairs it.
        basis.valid = True
        basis.alien = True
        self._solver.setBasis(basis)

    def solve(self) -> CutSolution:
        """Solve from the basis of the last call, in a number of pivots that is always bounded."""
        import highspy

        pivots = 20 * (self._solver.getNumRow() + self._moments) + 1000
        self._solver.setOptionValue("simplex_iteration_limit", pivots)
        self._solver.run()
        optimal = self._solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        solution = self._solver.getSolution()
        values = np.array(solution.col_value)
        weights = np.maximum(-np.array(solution.row_dual), 0.0)
        total = weights.sum()
        # Only a run that was cut short can leave no weights: any will do, for they are then not called optimal.
        weights = weights / total if total > 0.0 else np.full(len(weights), 1.0 / len(weights))
        return CutSolution(np.clip(values[:-1], -1.0, 1.0), float(values[-1]), weights, optimal)


_LEAST_SLACK = 1e-20


@dataclass(frozen=True, slots=True)
class InteriorPoint:
    """A strictly interior pair: primal x = (u, p, q), dual (y, y0), and the slack of each entry of x."""

    primal: Array
    slack: Array
    dual: Array
    level: float
    steps: int


def solve_interior_point(
    matrix: Array, target: Array, *, gap: float, cost: Array | None = None, max_steps: int = 60
) -> InteriorPoint:
    """Solve a small l1 fit to a duality gap, with the dual feasible at every step.

        minimise c.u + 1'p + 1'q   subject to   W'u + p - q = b,  1'u = 1,  u, p, q >= 0
        dual: maximise b.y + y0   subject to   W y + y0 <= c,  |y_r| <= 1

    The cost c >= 0 is 0 unless given.

    Mehrotra's predictor and corrector (SIAM J. Optim. 2, 1992); the normal equations are dense, (R+1) x (R+1).
    """
    rows, moments = matrix.shape
    lifted = np.hstack([matrix, np.ones((rows, 1))])
    right = np.append(target, 1.0)
    dual = np.zeros(moments + 1)
    dual[-1] = -0.5
    primal = _start(matrix, target)
    costs = np.concatenate([np.zeros(rows) if cost is None else cost, np.ones(2 * moments)])
    slack = costs - _transpose(lifted, dual)
    steps = 0
    for _ in range(max_steps):
        shortfall = right - _forward(lifted, primal)
        if primal @ slack < gap and np.abs(shortfall).max() < 1e-9:
            break
        try:
            change, primal_change = _direction(lifted, primal, slack=slack, shortfall=shortfall)
        except np.linalg.LinAlgError:
            break
        slack_change = -_transpose(lifted, change)
        primal = primal + 0.995 * _longest(primal, primal_change) * primal_change
        dual = dual + 0.995 * _longest(slack, slack_change) * change
        # Near the end a slack is a difference of nearly equal numbers, and may round to nothing or less.
        slack = np.maximum(costs - _transpose(lifted, dual), _LEAST_SLACK)
        steps += 1
    return InteriorPoint(primal, slack, dual[:-1], float(dual[-1]), steps)


def _start(matrix: Array, target: Array) -> Array:
    rows = len(matrix)
    weights = np.full(rows, 1.0 / rows)
    rest = target - weights @ matrix
    above = np.maximum(rest, 0.0) + 0.1 * np.abs(rest).mean() + 1e-3
    return np.concatenate([weights, above, above - rest])


def _forward(lifted: Array, primal: Array) -> Array:
    rows, moments = lifted.shape[0], lifted.shape[1] - 1
    out: Array = np.dot(primal[:rows], lifted)
    out[:-1] += primal[rows : rows + moments] - primal[rows + moments :]
    return out


def _transpose(lifted: Array, dual: Array) -> Array:
    return np.concatenate([np.dot(lifted, dual), dual[:-1], -dual[:-1]])


def _direction(lifted: Array, primal: Array, *, slack: Array, shortfall: Array) -> tuple[Array, Array]:
    rows, moments = lifted.shape[0], lifted.shape[1] - 1
    ratio = primal / slack
    scaled = lifted * np.sqrt(ratio[:rows, None])
    normal: Array = np.dot(scaled.T, scaled)
    inner = np.arange(moments)
    normal[inner, inner] += ratio[rows : rows + moments] + ratio[rows + moments :]

    def solve(products: Array) -> tuple[Array, Array]:
        change = np.linalg.solve(normal, shortfall - _forward(lifted, products / slack)).astype(np.float64, copy=False)
        return change, products / slack + ratio * _transpose(lifted, change)

    products = primal * slack
    mean = float(products.mean())
    change, primal_change = solve(-products)
    slack_change = -_transpose(lifted, change)
    reached = primal + _longest(primal, primal_change) * primal_change
    centre = (reached @ (slack + _longest(slack, slack_change) * slack_change) / len(primal) / mean) ** 3
    return solve(centre * mean - products - primal_change * slack_change)


def _longest(values: Array, change: Array) -> float:
    falling = change < 0
    if not falling.any():
        return 1.0
    return float(min(1.0, np.min(-values[falling] / change[falling])))


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


class Marginals(Protocol):
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
    columns: Marginals, target: Array, *, tolerance: float, progress: Progress | None = None
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


def _first_candidates(columns: Marginals, target: Array) -> Indices:
    """Half the first candidates lie far out in the direction of the target, half are spread over all of them."""
    size = 3 * len(target) if len(target) >= _INTERIOR_FROM else len(target) + 20
    if columns.count <= size:
        return np.arange(columns.count, dtype=np.int64)
    far = columns.price(np.clip(target, -1.0, 1.0), limit=size // 2, level=np.inf).indices
    spread = (_GOLDEN * np.arange(1, size - len(far) + 1) % 1.0 * columns.count).astype(np.int64)
    return np.union1d(far, spread)


def _sift(
    columns: Marginals, target: Array, *, working: Indices, progress: Progress | None
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


def _one_of_many(columns: Marginals, target: Array, *, working: Indices, point: InteriorPoint) -> InteriorPoint:
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


METHOD = "linear program"


def fit_linear_program(
    matrix: NDArray[np.floating],
    target: NDArray[np.floating],
    *,
    tolerance: float = 1e-9,
    progress: Progress | None = None,
) -> Fit:
    """Minimise the l1 distance between the moments of the weights and the noisy moments.

        minimise |W'u - b|_1   subject to   u >= 0,  1'u = 1

    Row k of `matrix` holds the features of candidate k. The optimum is certified to tolerance * max(1, optimum) by
    a dual bound, and the weights are a vertex: at most R+1 of them are positive. Jin, Wang, Huang, Zhong and Wang,
    Algorithm 1, step 20.
    """
    matrix, noisy = np.asarray(matrix), np.asarray(target, dtype=np.float64)
    check_problem(matrix, noisy)
    with one_thread_if_small(matrix.size):
        generated = generate_columns(_Listed(matrix), noisy, tolerance=tolerance, progress=progress)
    weights = np.zeros(len(matrix))
    weights[generated.support] = generated.weights
    return Fit(
        weights=weights,
        method=METHOD,
        converged=generated.converged,
        outcome=describe(generated, tolerance=tolerance),
        steps=generated.steps,
        residual=generated.optimum,
        dual=generated.dual,
    )


def describe(generated: Generated, *, tolerance: float) -> str:
    """Say in a sentence what the linear program reached, with the remedy where it fell short."""
    optimum, gap = generated.optimum, generated.optimum - generated.bound
    if generated.converged:
        return NEAREST.format(optimum=optimum, candidates=len(generated.support))
    return NOT_NEAREST.format(tolerance=tolerance, optimum=optimum, gap=gap)


@dataclass(frozen=True, slots=True)
class _Listed:
    """Candidates whose features are all listed: pricing is one matrix product."""

    matrix: NDArray[np.floating]

    @property
    def count(self) -> int:
        return len(self.matrix)

    def features(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.matrix[indices].astype(np.float64)

    def price(self, dual: NDArray[np.float64], *, limit: int, level: float) -> Priced:
        values = np.dot(self.matrix, dual)
        limit = min(limit, len(values))
        top = np.argpartition(-values, limit - 1)[:limit]
        top = top[np.lexsort((top, -values[top]))]
        return Priced(top, values[top])
