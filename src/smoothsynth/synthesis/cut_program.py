"""The dual of the l1 fit on some of the candidates, as cuts in HiGHS, kept warm while cuts are added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

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
