"""Private multiplicative weights (Hardt and Rothblum 2010): answers online, no table.

For study, on public or synthetic data: floating-point noise, not for release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import BudgetError, DataError, PlanError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, eq=False)
class OnlineAnswers:
    """The answers in the order of the queries, and the public hypothesis they came from."""

    values: NDArray[np.float64]
    updated: NDArray[np.bool_]  # where the data were asked and the hypothesis moved
    hypothesis: NDArray[np.float64]  # the last distribution over the domain
    exhausted: bool  # all updates were used: the answers after that are unchecked


def multiplicative_weights(
    histogram: ArrayLike,
    queries: Iterable[ArrayLike],
    *,
    rows: int,
    epsilon: float,
    threshold: float,
    updates: int | None = None,
    generator: np.random.Generator,
) -> OnlineAnswers:
    """Answer queries f: domain -> [0, 1] one after the other, epsilon-private for replaced rows.

    With x the hypothesis, p the data's histogram, D = 1/n the sensitivity of a query and c = `updates`:

        rho = Lap(D/e1) once;  for each query:
          |f.p - f.x| + Lap(2 c D/e2) <  T + rho:  answer f.x
          else                                  :  answer a = f.p + Lap(c D/e3),
                                                   x <- x exp(sign(a - f.x) f T/2), scaled to sum 1
        after c updates: answer f.x without looking at the data

    Privacy, e1 + e2 + e3 = epsilon (a third each). Fix the outputs so far: they fix x, so each query's value
    |f.p - f.x| moves by at most D between neighbours. Shift rho by D: probability e^e1; every "below" stays
    below. Each of at most c "above" needs its noise shifted by at most 2D: e^(e2/c). Each of at most c
    answers moves by D: e^(e3/c). The product is e^epsilon (the sparse vector proof; Dwork and Roth 2014,
    section 3.6; Lyu, Su and Li 2017, Algorithm 1).

    The default c = ceil(5 log|X| / T^2) is never reached while the noise of a comparison and of an answer
    stays below T/2: an update then lowers KL(p || x) <= log|X| by at least (T/2)^2 - (T/2)^2/8 > T^2/5.
    """
    data = _checked_histogram(histogram)
    _check_budget(rows, epsilon=epsilon, threshold=threshold)
    most = math.ceil(5 * math.log(max(2, len(data))) / threshold**2) if updates is None else updates
    share = epsilon / 3.0
    bar = threshold + generator.laplace(0.0, 1.0 / (rows * share))
    hypothesis = np.full(len(data), 1.0 / len(data))
    values: list[float] = []
    updated: list[bool] = []
    for query in queries:
        f = _checked_query(query, len(data))
        guess = float(f @ hypothesis)
        above = sum(updated) < most and (
            abs(float(f @ data) - guess) + generator.laplace(0.0, 2.0 * most / (rows * share)) >= bar
        )
        if above:
            answer = float(f @ data) + generator.laplace(0.0, most / (rows * share))
            hypothesis = hypothesis * np.exp(math.copysign(threshold / 2.0, answer - guess) * f)
            hypothesis /= hypothesis.sum()
        values.append(answer if above else guess)
        updated.append(above)
    return OnlineAnswers(np.array(values), np.array(updated), hypothesis, exhausted=sum(updated) >= most)


def _checked_histogram(histogram: ArrayLike) -> NDArray[np.float64]:
    data = np.asarray(histogram, dtype=np.float64)
    if data.ndim != 1 or len(data) == 0 or (data < 0).any() or not math.isclose(data.sum(), 1.0):
        raise DataError("histogram must be one-dimensional, non-negative and sum to 1. Use Grid.histogram.")
    return data


def _checked_query(query: ArrayLike, size: int) -> NDArray[np.float64]:
    f = np.asarray(query, dtype=np.float64)
    if f.shape != (size,) or f.min() < 0.0 or f.max() > 1.0:
        raise PlanError(
            f"a query must give a number in [0, 1] at each of the {size} points of the domain, for its "
            "sensitivity rests on that; found one that does not. Evaluate it at Grid.points() and scale it."
        )
    return f


def _check_budget(rows: int, *, epsilon: float, threshold: float) -> None:
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise BudgetError(f"epsilon must be positive and finite; found {epsilon}. Give another budget.")
    if rows < 1 or not 0.0 < threshold <= 1.0:
        raise PlanError(f"rows must be at least 1 and threshold in (0, 1]; found {rows} and {threshold}. Correct them.")
