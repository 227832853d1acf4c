"""The privacy filter: a division of a total that lets each charge be chosen after the outcomes of earlier ones.

Pure epsilon and Gaussian noise each add up however charges are chosen. A mixture does only if the division of the total
between the two is fixed before the first Gaussian charge: docs/proofs/composition.md has the theorem.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from smoothsynth.accounting.charges import (
    EPSILON_RANGE,
    HALF_PI,
    Budget,
    Usage,
    gaussian_epsilon,
    gaussian_multiplier,
    root_below,
    rounded_above,
    rounded_below,
)
from smoothsynth.errors import BudgetError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from smoothsynth.accounting.charges import Charge


_ROUNDING = 1e-12
_MOST_TIMES = 1e6
_TOO_MUCH = "These charges cost more than the total."


@dataclass(frozen=True, slots=True)
class PrivacyFilter:
    """The parts of a total: pure epsilon, deltas of charges, and one Gaussian that all Gaussian charges share.

        epsilon + gaussian_epsilon(multiplier, total delta - delta) <= total epsilon

    Each part is filtered by itself: a charge is refused if what its kind has used would exceed its part. A pure charge for
    which the pure part has no room may count as Gaussian privacy, mu^2 = pi/2 epsilon^2 (docs/proofs/noisy-maxima.md).
    """

    epsilon: float
    delta: float
    multiplier: float

    @classmethod
    def divide(
        cls, total: Budget, before: Sequence[Charge], planned: Sequence[Charge], *, pure_epsilon: float = 0.0
    ) -> PrivacyFilter:
        """Divide a total in the proportions of the first release with Gaussian noise, all of whose charges are `planned`.

        So as many equal releases fit as could be planned together. The pure part is at least `pure_epsilon`. BudgetError
        if what is planned does not fit.
        """
        return _divided(total, tuple(before), tuple(planned), pure_epsilon)

    def raised(self, total: Budget) -> PrivacyFilter:
        """Return the parts of a larger total: all that was added is for Gaussian noise."""
        return _parts(total, Fraction(self.epsilon), Fraction(self.delta), self.mu_squared) or self

    def within(self, total: Budget) -> bool:
        """Whether all parts together cost no more than a total."""
        return _fits(total, Usage(Fraction(self.epsilon), Fraction(self.delta), self.mu_squared))

    @property
    def mu_squared(self) -> Fraction:
        """What all Gaussian charges may use."""
        return 1 / Fraction(self.multiplier) ** 2

    def use(self, charges: Sequence[Charge]) -> Usage:
        """Return what charges use of the parts, in order."""
        used = Usage()
        for charge in charges:
            used += self._counted(charge, used)
        return used

    def holds(self, charges: Sequence[Charge]) -> bool:
        """Whether charges exceed no part."""
        used = self.use(charges)
        pure = used.epsilon <= Fraction(self.epsilon) and used.delta <= Fraction(self.delta)
        return pure and used.mu_squared <= self.mu_squared

    def _counted(self, charge: Charge, used: Usage) -> Usage:
        plain = Usage.of([charge])
        if charge.delta or used.epsilon + plain.epsilon <= Fraction(self.epsilon):
            return plain
        return Usage(mu_squared=plain.mu_squared + HALF_PI * plain.epsilon**2)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> PrivacyFilter:
        """Read what `as_dict` wrote."""
        return cls(*(float(fields[name]) for name in cls.__slots__))


# The audit divides the same budget thousands of times, and what has a delta takes a while.
@lru_cache(maxsize=16)
def _divided(
    total: Budget, before: tuple[Charge, ...], planned: tuple[Charge, ...], pure_epsilon: float
) -> PrivacyFilter:
    used, wanted = Usage.of(before), Usage.of(planned)
    needed, proportional = used + wanted, used + wanted * _most_times(total, used, wanted)
    for part in (proportional, needed):
        epsilon = max(part.epsilon, Fraction(pure_epsilon))
        if (parts := _parts(total, epsilon, part.delta, needed.mu_squared)) is not None:
            return parts
    raise BudgetError(_TOO_MUCH)


def admitted(
    total: Budget,
    parts: PrivacyFilter | None,
    before: Sequence[Charge],
    charges: Sequence[Charge],
    *,
    planned: Sequence[Charge] = (),
    pure_epsilon: float = 0.0,
) -> PrivacyFilter | None:
    """Return the parts of a total in force once these charges are made; BudgetError if they may not be.

    Without Gaussian noise there are none, and epsilons and deltas add up to at most the total. Before the first Gaussian
    charge the total is divided, in the proportions of the release to which it belongs: these charges, or all `planned`.
    """
    everything = [*before, *charges]
    if parts is None and all(charge.multiplier is None for charge in (*everything, *planned)):
        if not _fits(total, Usage.of(everything)):
            raise BudgetError(_TOO_MUCH)
        return None
    if parts is None:
        parts = PrivacyFilter.divide(total, before, planned or charges, pure_epsilon=pure_epsilon)
    if not parts.holds(everything):
        raise BudgetError("These charges exceed the part of the total that is left for their kind of noise.")
    return parts


def _most_times(total: Budget, used: Usage, wanted: Usage) -> Fraction:
    """Return how often what is wanted fits, at least 1; it matters only where Gaussian noise is not all that is wanted."""
    low, high = 1.0, _MOST_TIMES
    if not wanted.epsilon and not wanted.delta:
        return Fraction(low)
    while high > low * (1.0 + 1e-6):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _fits(total, used + wanted * Fraction(middle)) else (low, middle)
    return Fraction(low)


def _fits(total: Budget, used: Usage) -> bool:
    try:
        cost = used.cost(total.delta)
    except BudgetError:
        return False
    return cost.epsilon <= total.epsilon and cost.delta <= total.delta


def _parts(total: Budget, epsilon: Fraction, delta: Fraction, mu_squared: Fraction) -> PrivacyFilter | None:
    """Give all that is left to Gaussian noise; None if that is not even what is needed of it."""
    pure, own = rounded_above(epsilon), rounded_above(delta)
    left, rest = (rounded_below(Fraction(a) - Fraction(b)) for a, b in ((total.epsilon, pure), (total.delta, own)))
    if left < EPSILON_RANGE[0] or rest <= 0.0:
        return None
    multiplier = gaussian_multiplier(min(left, EPSILON_RANGE[1]), rest)
    if 1 / Fraction(multiplier) ** 2 < mu_squared:
        # What was planned to the last bit is rounded otherwise than what is left to the last bit, and than what is planned
        # again for the same cost.
        multiplier = root_below(1 / mu_squared) * (1.0 - _ROUNDING)
        if gaussian_epsilon(multiplier, rest) > left:
            return None
    return PrivacyFilter(pure, own, multiplier)
