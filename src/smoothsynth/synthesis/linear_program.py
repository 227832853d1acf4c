"""The paper's fit: the weights whose moments are closest to the noisy ones in l1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth._threads import one_thread_if_small
from smoothsynth.synthesis.column_generation import Generated, Priced, generate_columns
from smoothsynth.synthesis.fit import Fit, check_problem
from smoothsynth.synthesis.outcomes import NEAREST, NOT_NEAREST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.synthesis.fit import Progress

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
