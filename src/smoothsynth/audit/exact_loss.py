"""The exact privacy loss of many Laplace draws together, where no sample could reach the tail.

For one draw with shift a in units of the scale, the loss L = log(P(y)/P'(y)) is a with probability 1/2, -a with
probability e^-a/2, and a - 2x with density e^-x/2 for 0 < x < a. Losses of independent draws add up, and

    delta(epsilon) = E max(0, 1 - e^(epsilon - L))

is the least delta for that epsilon (Balle and Wang 2018, theorem 5). Losses are rounded down to a grid, so what is
computed is never above the truth: a lower bound on epsilon, without trials and for any delta.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEPS = 200
# All terms are positive, so rounding errors are relative; far more than they can be is taken off.
_ROUNDING = 1e-9


def laplace_epsilon_at_least(shift: float, draws: int, *, delta: float) -> float:
    """Bound from below the epsilon at `delta` of `draws` Laplace draws whose centres all move by `shift` scales."""
    losses, masses = _sum_of_losses(shift, draws)
    low, high = 0.0, draws * shift
    for _ in range(60):
        middle = 0.5 * (low + high)
        beyond = losses > middle
        least_delta = float(masses[beyond] @ -np.expm1(middle - losses[beyond])) * (1.0 - _ROUNDING)
        low, high = (middle, high) if least_delta > delta else (low, middle)
    return low


def _sum_of_losses(shift: float, draws: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the grid of losses of all draws together and the mass on each, by repeated squaring."""
    total, power, left = np.ones(1), _one_loss(shift), draws
    while left:
        if left % 2:
            total = np.convolve(total, power)
        left //= 2
        power = np.convolve(power, power) if left else power
    return np.arange(-draws * _STEPS, draws * _STEPS + 1) * np.float64(shift / _STEPS), total


def _one_loss(shift: float) -> NDArray[np.float64]:
    """Return the masses at -a, -a + h, ..., a of the loss rounded down to that grid."""
    edges = np.exp(-(shift - np.arange(-_STEPS, _STEPS + 1) * (shift / _STEPS)) / 2.0)
    masses = np.append(np.diff(edges) / 2.0, 0.5)
    masses[0] += math.exp(-shift) / 2.0
    return masses
