"""Confidence bounds on a probability, from counts alone: Clopper and Pearson 1934, without any approximation.

With K of n trials in an event of probability p:  P(K >= k) = I_p(k, n - k + 1),  the regularised incomplete
beta function. The lower bound at confidence 1 - alpha is the p at which P(K >= k) = alpha, the upper one the p at
which P(K <= k) = alpha.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# The continued fraction of beta_tail converges after about sqrt(n) steps; 10^8 trials need 10^4 of them.
_MOST_STEPS = 100_000
_TINY = 1e-300
_RELATIVE = 1e-10


def proportion_at_least(hits: int, trials: int, *, alpha: float) -> float:
    """Bound a probability from below: at most alpha of all such bounds are too high."""
    if hits == 0:
        return 0.0
    low, _ = _bisect(lambda p: beta_tail(p, hits, trials - hits + 1) <= alpha)
    return low * (1.0 - _RELATIVE)


def proportion_at_most(hits: int, trials: int, *, alpha: float) -> float:
    """Bound a probability from above: at most alpha of all such bounds are too low."""
    if hits == trials:
        return 1.0
    _, high = _bisect(lambda p: beta_tail(1.0 - p, trials - hits, hits + 1) > alpha)
    return min(1.0, high * (1.0 + _RELATIVE))


def beta_tail(x: float, a: float, b: float) -> float:
    """Return I_x(a, b), by the continued fraction of DLMF 8.17.22 on the side where it converges fast."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - beta_tail(1.0 - x, b, a)
    log_front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_front) / a / _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """Evaluate  1 + d_1/(1 + d_2/(1 + ...))  with Lentz's method.

    d_2m = m (b - m) x / ((a + 2m - 1)(a + 2m)),   d_2m+1 = -(a + m)(a + b + m) x / ((a + 2m)(a + 2m + 1)).
    """
    value, above, below = 1.0, 1.0, 0.0
    for step in range(1, _MOST_STEPS):
        m = step // 2
        if step % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        below = 1.0 / _away_from_zero(1.0 + d * below)
        above = _away_from_zero(1.0 + d / above)
        value *= above * below
        if abs(above * below - 1.0) < 1e-15:
            return value
    raise ArithmeticError("The incomplete beta function did not converge; the bound would not be one.")


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _bisect(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Enclose where a condition that holds near 0 ceases to hold, to the last bits of a float."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
