"""How far noise alone reaches: what a sum of noisy counts must exceed before it is taken for rows."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from smoothsynth.accounting.charges import Charge


def reach(charge: Charge, terms: int, chance: float) -> int:
    """Return the least whole x, in units of the noisy numbers, with  P(sum of `terms` noises >= x) <= chance.

        Gaussian   sigma sqrt(terms) z,                                            P(N >= z) = chance
        Laplace    the least x with  min_t (1 - (b t)^2)^-terms e^(-t x) <= chance;   b ln(1 / (2 chance)) for one term

    Integer noise is no wider: sinh(s)/sinh(a) <= s/a for s <= a puts the discrete Laplace transform below the other
    (docs/proofs/private-schema.md, section 2).
    """
    unit = _gaussian(chance) * math.sqrt(terms) if charge.multiplier is not None else _laplace(terms, chance)
    return math.ceil(charge.scale * unit)


@functools.lru_cache(maxsize=1024)
def _gaussian(chance: float) -> float:
    return _least(lambda z: 0.5 * math.erfc(z / math.sqrt(2.0)) <= chance)


@functools.lru_cache(maxsize=4096)
def _laplace(terms: int, chance: float) -> float:
    if terms == 1:
        return -math.log(min(2.0 * chance, 1.0))

    def rare(x: float) -> bool:
        # The best t solves  2 terms t / (1 - t^2) = x,  here with b = 1.
        t = x / (terms + math.hypot(terms, x))
        return -terms * math.log1p(-t * t) - t * x <= math.log(chance)

    return _least(rare)


def _least(holds: Callable[[float], bool]) -> float:
    """Bisect for the least number from which on a condition holds."""
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
