"""The nearest points of a polytope, for many rows at once.

    minimise  sum_i ((x_i - w_i)/s_i)^2   subject to   a_j.x <= b_j,   e_j.x = f_j,   lower <= x <= upper

by Hildreth's method: the relations in turn, each with its multiplier, which never becomes negative (Hildreth, Naval
Research Logistics Quarterly 4, 1957; for half-spaces it is the method of Dykstra). Every row has its own s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

# Rows are moved to the border to the last digit where they are published, roughly while the model learns.
_MOST_ROUNDS, _FEW_ROUNDS = 200, 12
_CLOSE, _ROUGH = 1e-7, 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Polytope:
    """Relations  factors x <= bounds  (= where equal), (relations, columns), and bounds of the columns."""

    factors: Array
    bounds: Array
    equal: NDArray[np.bool_]
    lower: Array
    upper: Array

    def nearest(self, wanted: Array, scale: Array) -> Array:
        """Return the nearest point to each row of `wanted`, distances in units of `scale`, (rows, columns)."""
        bounds = np.broadcast_to(self.bounds, (len(wanted), len(self.bounds)))
        return self._hildreth(wanted, scale, bounds, rounds=_MOST_ROUNDS, tolerance=_CLOSE)

    def mirrored(self, wanted: Array, scale: Array) -> Array:
        """Return points about as far inside of each inequality as rows were outside, as nearly as that can be."""
        excess = np.where(self.equal, 0.0, np.maximum(wanted @ self.factors.T - self.bounds, 0.0))
        return self._hildreth(wanted, scale, self.bounds - excess, rounds=_FEW_ROUNDS, tolerance=_ROUGH)

    def _hildreth(self, wanted: Array, scale: Array, bounds: Array, *, rounds: int, tolerance: float) -> Array:
        found = np.clip(wanted, self.lower, self.upper)
        allowed = tolerance * (np.abs(self.factors) @ (self.upper - self.lower))
        live = np.flatnonzero(self._broken(found, bounds, allowed))
        # Only rows that break something are ever touched; those that no longer do are put back.
        x, square, edges = wanted[live], scale[live] ** 2, bounds[live]
        weights = [square @ factors**2 for factors in self.factors]
        multipliers, pulls = np.zeros((len(live), len(self.bounds))), np.zeros_like(x)
        for _ in range(rounds):
            if not len(live):
                break
            for j, factors in enumerate(self.factors):
                change = (x @ factors - edges[:, j]) / weights[j]
                if not self.equal[j]:
                    change = np.maximum(change, -multipliers[:, j])
                    multipliers[:, j] += change
                x -= change[:, None] * (square * factors)
            # Bounds are relations too: one multiplier for both, negative at the lower one.
            x += pulls
            kept = np.minimum(np.maximum(x, self.lower), self.upper)
            pulls, x = x - kept, kept
            found[live] = x
            still = np.flatnonzero(self._broken(x, edges, allowed))
            if len(still) < 0.8 * len(live):
                live, x, square, edges, pulls = live[still], x[still], square[still], edges[still], pulls[still]
                multipliers, weights = multipliers[still], [weight[still] for weight in weights]
        return found

    def _broken(self, points: Array, bounds: Array, allowed: Array) -> NDArray[np.bool_]:
        excess = points @ self.factors.T - bounds
        if self.equal.any():
            excess[:, self.equal] = np.abs(excess[:, self.equal])
        return np.asarray((excess > allowed).any(axis=1))
