"""What a fit hands back: weights on the candidates, and in words whether they are the ones asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    # Told the step, the most steps there can be (or None) and a line of text.
    Progress = Callable[[int, int | None, str], object]


@dataclass(frozen=True, slots=True)
class Fit:
    """Weights on the candidates and how they were reached.

    `residual` is the l1 optimum of the linear program, or the relative norm of the dual gradient of the
    maximum-entropy fit. `outcome` is a sentence for the user, with the remedy where the fit did not converge.
    """

    weights: NDArray[np.float64]
    method: str
    converged: bool
    outcome: str
    steps: int
    residual: float
    dual: NDArray[np.float64]

    def __post_init__(self) -> None:
        self.weights.setflags(write=False)
        self.dual.setflags(write=False)


def check_problem(matrix: NDArray[np.floating], target: NDArray[np.floating]) -> None:
    """Refuse a matrix of features and a target that do not belong together or are not finite."""
    if matrix.ndim != 2 or target.shape != matrix.shape[1:] or 0 in matrix.shape:
        raise PlanError(
            f"the matrix must be (candidates, moments), neither of them 0, with one target per moment; found a "
            f"matrix of shape {matrix.shape} and a target of shape {target.shape}: pass the features of the "
            f"candidates as rows, and the noisy moments in the same order"
        )
    # A sum is finite only if every entry is, and needs no copy of a large matrix.
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.isfinite(matrix.sum()) and np.isfinite(target.sum())
    if not finite:
        raise PlanError(
            "the features of the candidates and the moments must be finite; found one that is not: "
            "candidates must lie in [-1, 1] and moments must come from a measurement"
        )
