"""What a ledger says to people and to other accountants.

What a ledger holds, what that adds up to, and what is left.

Charges as events of the dp_accounting library, so that another accountant can check the sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from smoothsynth.accounting.charges import (
    EPSILON_RANGE,
    HALF_PI,
    Budget,
    Charge,
    Usage,
    gaussian_epsilon,
    gaussian_multiplier,
    rounded_below,
)
from smoothsynth.accounting.filter import admitted
from smoothsynth.errors import BudgetError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from smoothsynth.accounting.filter import PrivacyFilter


# Bisections stop at one part in 1e8; with this much less, what is said to be left can be had.
_GAUSSIAN_CAUTION = 1e-6
_ROUNDING = 1e-12
_LEAST_GAUSSIAN = EPSILON_RANGE[0]
_RAISE = "Ask for less, or raise the total (in a terminal: smoothsynth ledger set FILE --epsilon E --delta D --raise)."


@dataclass(frozen=True, slots=True)
class Line:
    """One recorded charge: when, for which release, and what."""

    time: str
    label: str
    charge: Charge


@dataclass(frozen=True, slots=True)
class Statement:
    """What a ledger holds: the total in force, how many rows of a person it protects, and every charge."""

    total: Budget
    rows_per_person: int
    lines: tuple[Line, ...]
    parts: PrivacyFilter | None = None
    pure_epsilon: float = 0.0
    rounds: tuple[tuple[str, int], ...] = ()

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every charge, in order."""
        return tuple(line.charge for line in self.lines)

    @property
    def used(self) -> Usage:
        """What all charges have used of each kind."""
        return self._counted(self.charges)

    def _counted(self, charges: Sequence[Charge]) -> Usage:
        return Usage.of(charges) if self.parts is None else self.parts.use(charges)

    @property
    def spent(self) -> tuple[float, float]:
        """Epsilon and delta of what was used, as if nothing more were to come; the promise is the total."""
        if not self.lines:
            return 0.0, 0.0
        cost = self.used.cost(self.total.delta)
        return cost.epsilon, cost.delta

    @property
    def left(self) -> float:
        """The largest pure epsilon that still fits, rounded down."""
        used = self.used
        if self.parts is not None:
            pure = Fraction(self.parts.epsilon) - used.epsilon
            gaussian = math.sqrt((self.parts.mu_squared - used.mu_squared) / HALF_PI) * (1 - _GAUSSIAN_CAUTION)
            return max(rounded_below(pure), gaussian)
        left = Fraction(self.total.epsilon) - Fraction(self.spent[0])
        # A ledger of mixed charges that was never divided: what is divided off is rounded otherwise than what is left.
        return rounded_below(max(left - Fraction(_ROUNDING) if used.mu_squared else left, Fraction(0)))

    @property
    def left_for_gaussian(self) -> float:
        """The largest epsilon, at the ledger's delta, of Gaussian noise that still fits; none without delta.

        1/m^2 = 1/m_all^2 - sum 1/m_i^2  with m_all the multiplier that all Gaussians together may have.
        """
        if not self.total.delta:
            return 0.0
        left = float(self._gaussian_part() - self.used.mu_squared) * (1 - _GAUSSIAN_CAUTION)
        if left <= _GAUSSIAN_CAUTION * float(self.used.mu_squared):
            return 0.0
        epsilon = gaussian_epsilon(left**-0.5, self.total.delta) * (1 - _GAUSSIAN_CAUTION)
        return epsilon if epsilon > _LEAST_GAUSSIAN else 0.0

    def _gaussian_part(self) -> Fraction:
        """Return the mu^2 that all Gaussian charges may have, were the next one of that kind."""
        if self.parts is not None:
            return self.parts.mu_squared
        used = self.used
        room = rounded_below(Fraction(self.total.epsilon) - max(used.epsilon, Fraction(self.pure_epsilon)))
        delta = rounded_below(Fraction(self.total.delta) - used.delta)
        if delta <= 0.0 or room < _LEAST_GAUSSIAN:
            return Fraction(0)
        return 1 / Fraction(gaussian_multiplier(min(room, EPSILON_RANGE[1]), delta)) ** 2

    def left_in_words(self) -> str:
        """Say what a further release may cost, rounded down."""
        text = f"epsilon = {rounded_down(self.left)}"
        if self.left_for_gaussian > self.left:
            gaussian = rounded_down(self.left_for_gaussian)
            text += f" (for Gaussian noise at delta = {self.total.delta:g}: epsilon = {gaussian})"
        return text

    def refuse(
        self, charges: Sequence[Charge], *, rows_per_person: int = 1, planned: Sequence[Charge] = ()
    ) -> PrivacyFilter | None:
        """Raise BudgetError if these charges would exceed the total, or protect fewer rows together than it does.

        Return the parts into which the total is divided once they are made, as `admitted` has it.
        """
        self._refuse_fewer_rows(rows_per_person)
        if not self.total.delta and any(c.multiplier is not None or c.delta for c in (*charges, *planned)):
            raise BudgetError(_needs_delta())
        try:
            return admitted(
                self.total, self.parts, self.charges, charges, planned=planned, pure_epsilon=self.pure_epsilon
            )
        except BudgetError:
            excess = self._excess([*self.charges, *charges])
        raise BudgetError(f"{excess} Left: {self.left_in_words()}. No noise was drawn for it. {_RAISE}")

    def _excess(self, charges: Sequence[Charge]) -> str:
        """Say what charges would exceed: the total, or the part of it that is for their kind of noise."""
        cost = min((Usage.of(charges), self._counted(charges)), key=lambda used: used.cost(self.total.delta).epsilon)
        return self._too_much(cost.cost(self.total.delta))

    def _too_much(self, cost: Budget) -> str:
        if cost.delta > self.total.delta:
            return f"This would bring the ledger to delta = {cost.delta:g}; its total is delta = {self.total.delta:g}."
        if cost.epsilon > self.total.epsilon or self.parts is None:
            return (
                f"This would bring the ledger to epsilon = {rounded_up(cost.epsilon)}; its total is epsilon = "
                f"{self.total.epsilon:g}."
            )
        return f"This is more than the part of the total for this kind of noise. {self.parts_in_words()}"

    def parts_in_words(self) -> str:
        """Say how the total is divided."""
        if self.parts is None:
            return "Not divided yet between kinds of noise."
        deltas = f" and delta = {self.parts.delta:g}" if self.parts.delta else ""
        return (
            f"Divided before the first Gaussian charge: epsilon = {rounded_down(self.parts.epsilon)}{deltas} for pure "
            f"noise, the rest for Gaussian noise (multiplier {rounded_up(self.parts.multiplier)} in all)."
        )

    def due(self, study: str, number: int, charges: Sequence[Charge]) -> Sequence[Charge]:
        """Return what a round of a study has still to be charged: all of it at first, a round that was drawn before again.

        Round 0 is that of a site, which draws no noise: what it gives covers the whole study, however often it is asked.
        """
        if not any(recorded == study for recorded, _ in self.rounds):
            return charges
        return [charges[number - 1]] if number and (study, number) in self.rounds else ()

    def refuse_release(self, budget: Budget, *, rows_per_person: int) -> None:
        """Raise BudgetError if public facts alone show that a release cannot be charged here."""
        self._refuse_fewer_rows(rows_per_person)
        if budget.delta and not self.total.delta:
            raise BudgetError(_needs_delta())
        room = max(self.left, self.left_for_gaussian) if budget.delta else self.left
        if not room or (not budget.delta and budget.epsilon > room):
            raise BudgetError(
                f"This release asks for epsilon = {budget.epsilon:g}; the ledger's total is epsilon = "
                f"{self.total.epsilon:g}. Left: {self.left_in_words()}. No data was read."
            )

    def _refuse_fewer_rows(self, rows_per_person: int) -> None:
        if rows_per_person < self.rows_per_person:
            raise BudgetError(
                f"The ledger protects persons with up to {self.rows_per_person} rows; this release would protect "
                f"{rows_per_person} together. Say rows_per_person={self.rows_per_person}."
            )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        epsilon, delta = self.spent
        return {
            "total": {"epsilon": self.total.epsilon, "delta": self.total.delta},
            "rows_per_person": self.rows_per_person,
            "spent": {"epsilon": epsilon, "delta": delta},
            "left": {"pure": self.left, "gaussian": self.left_for_gaussian},
            "parts": None if self.parts is None else self.parts.as_dict(),
            "charges": [{"time": n.time, "label": n.label, **n.charge.as_dict()} for n in self.lines],
        }


def rounded_down(value: float) -> str:
    """Write at most six significant digits, never more than the value."""
    return _digits(value, ROUND_FLOOR)


def rounded_up(value: float) -> str:
    """Write at most six significant digits, never less than the value."""
    return _digits(value, ROUND_CEILING)


def _digits(value: float, rounding: str) -> str:
    return f"{float(Context(prec=6, rounding=rounding).create_decimal(repr(value))):g}"


def _needs_delta() -> str:
    return (
        "The ledger's total has delta = 0, so only releases without delta can be charged to it. Ask for delta = 0, "
        "or raise the total's delta (in a terminal: smoothsynth ledger set FILE --epsilon E --delta D --raise)."
    )


def accounting_events(charges: Iterable[Charge]) -> list[dict[str, Any]]:
    """Name for each charge the event that it is or that dominates it, with the arguments of its constructor.

    For an accountant with the relation ADD_OR_REMOVE_ONE, where a multiplier is noise over the sensitivity of
    the sum; the sensitivity in a charge is already that of replacing rows. A discrete Laplace of sensitivity 1
    and parameter epsilon has the losses -epsilon and epsilon only: it is randomised response, which dominates
    every mechanism that is epsilon-private, so it stands for cube, Wishart and Laplace noise on many sums too
    (Kairouz, Oh and Viswanath 2015). A charge with a delta of its own is an event of its kind but for that probability:
    `plus_delta` is no argument, and has to be added to the delta of all others (docs/proofs/private-schema.md, section 5).
    """
    return [_event(charge) for charge in charges]


def _event(charge: Charge) -> dict[str, Any]:
    event: dict[str, Any] = {"event": "DiscreteLaplaceDpEvent", "noise_parameter": charge.epsilon, "sensitivity": 1}
    if charge.multiplier is not None:
        event = {"event": "GaussianDpEvent", "noise_multiplier": charge.multiplier}
    return {**event, "plus_delta": charge.delta} if charge.delta else event
