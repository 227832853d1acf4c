"""How far two one-dimensional distributions are apart for K-smooth queries: the dual norm of the class.

    |mu|_K = sup { integral of f dmu :  |f^(j)| <= 1 on [-1, 1] for j = 0 .. K },      mu = one minus the other

Taylor at 0 splits f into  sum_{0<j<K} f^(j)(0) x^j / j!  and a remainder that is an integral over f^(K), so with
p_K(s) = integral of (x - s)^(K-1) / (K-1)! dmu(x)  over x > s  for s > 0 (over x < s, up to its sign, for s < 0)

    integral |p_K| ds   <=   |mu|_K   <=   sum_{0<j<K} |integral x^j / j! dmu|  +  integral |p_K| ds   <=   K |mu|_K

because x^j / j! and every remainder are themselves in the class (|x| <= 1). The upper bound is what is computed. For
K = 1 both bounds are the same and  |mu|_1 = integral |F - F'|,  the Wasserstein-1 distance.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

# Points of mass 0 that are added so that a step of the trapezoid rule is never long; one of them is 0.
_MESH = np.linspace(-1.0, 1.0, 4097)


def smooth_distance(points: Array, masses: Array, *, order: int) -> float:
    """Return the upper bound above for the signed masses at the points, which must sum to 0; exact for K = 1."""
    if order < 1 or points.shape != masses.shape or points.ndim != 1 or abs(float(masses.sum())) > 1e-6:
        raise PlanError(
            f"the distance needs order >= 1 and masses at points that sum to 0; found order={order}, shapes "
            f"{points.shape} and {masses.shape}, total {float(masses.sum()):.3g}: subtract one distribution from another"
        )
    where = np.concatenate([points, _MESH])
    # Stable sorting is a merge, and so takes no time to speak of, where the points come in sorted runs.
    ranks = np.argsort(where, kind="stable")
    where, mass = where[ranks], np.concatenate([masses, np.zeros(len(_MESH))])[ranks]
    polynomial = sum(abs(float(masses @ points**j)) / math.factorial(j) for j in range(1, order))
    left, right = where <= 0.0, where >= 0.0
    remainder = _remainder(where[left], mass[left], order=order)
    remainder += _remainder(-where[right][::-1], mass[right][::-1], order=order)
    return polynomial + remainder


def _remainder(where: Array, mass: Array, *, order: int) -> float:
    """Integrate |p_K| over the half of the points on the left of 0; the other half is handed in mirrored."""
    gaps = np.diff(where)
    steps = np.cumsum(mass)[:-1]
    if order == 1:
        return float(np.abs(steps) @ gaps)
    values = np.concatenate([[0.0], np.cumsum(steps * gaps)])
    for _ in range(order - 2):
        values = np.concatenate([[0.0], np.cumsum((values[1:] + values[:-1]) / 2.0 * gaps)])
    sizes = np.abs(values)
    return float((sizes[1:] + sizes[:-1]) / 2.0 @ gaps)
