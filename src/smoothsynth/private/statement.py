"""What a ledger holds, what that adds up to, and what is left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import BudgetError
from smoothsynth.privacy import Budget, Charge, compose, gaussian_epsilon, gaussian_multiplier

if TYPE_CHECKING:
    from collections.abc import Sequence

# Bisections stop at one part in 1e8; with this much less, what is said to be left can be had.
_GAUSSIAN_CAUTION = 1e-6
_LEAST_GAUSSIAN = 1e-6


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

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every charge, in order."""
        return tuple(line.charge for line in self.lines)

    @property
    def spent(self) -> tuple[float, float]:
        """Epsilon and delta of all charges together."""
        if not self.lines:
            return 0.0, 0.0
        cost = compose(self.charges, delta=self.total.delta)
        return cost.epsilon, cost.delta

    @property
    def left(self) -> float:
        """The largest pure epsilon that still fits, rounded down."""
        exact = max(Fraction(self.total.epsilon) - Fraction(self.spent[0]), Fraction(0))
        near = float(exact)
        return near if Fraction(near) <= exact else math.nextafter(near, 0.0)

    @property
    def left_for_gaussian(self) -> float:
        """The largest epsilon, at the ledger's delta, of Gaussian noise that still fits; none without delta.

        1/m^2 = 1/m_all^2 - sum 1/m_i^2  with m_all the multiplier that all Gaussians together may have.
        """
        room = self.total.epsilon - math.fsum(c.epsilon for c in self.charges if c.epsilon is not None)
        delta = self.total.delta - math.fsum(c.delta for c in self.charges)
        if delta <= 0.0 or room < _LEAST_GAUSSIAN:
            return 0.0
        used = math.fsum(c.multiplier**-2 for c in self.charges if c.multiplier is not None)
        if not used:
            return self.left
        inverse = gaussian_multiplier(room * (1 - _GAUSSIAN_CAUTION), delta) ** -2 - used
        if inverse <= _GAUSSIAN_CAUTION * used or inverse <= 0:
            return 0.0
        epsilon = gaussian_epsilon(inverse**-0.5, delta) * (1 - _GAUSSIAN_CAUTION)
        return epsilon if epsilon > _LEAST_GAUSSIAN else 0.0

    def left_in_words(self) -> str:
        """Say what a further release may cost, rounded down."""
        text = f"epsilon = {rounded_down(self.left)}"
        if self.left_for_gaussian > self.left:
            gaussian = rounded_down(self.left_for_gaussian)
            text += f" (for Gaussian noise at delta = {self.total.delta:g}: epsilon = {gaussian})"
        return text

    def refuse(self, charges: Sequence[Charge], *, rows_per_person: int = 1) -> None:
        """Raise BudgetError if these charges would exceed the total, or protect fewer rows together than it does."""
        self._refuse_fewer_rows(rows_per_person)
        if not self.total.delta and any(c.multiplier is not None or c.delta for c in charges):
            raise BudgetError(_needs_delta())
        cost = compose([*self.charges, *charges], delta=self.total.delta)
        if cost.delta > self.total.delta:
            raise BudgetError(
                f"This would bring the ledger to delta = {cost.delta:g}; its total is delta = {self.total.delta:g}. Nothing "
                "was measured. Ask for less, or raise the total (smoothsynth ledger set FILE --epsilon E --delta D --raise)."
            )
        if cost.epsilon > self.total.epsilon:
            raise BudgetError(
                f"This would bring the ledger to epsilon = {rounded_up(cost.epsilon)}; its total is epsilon = "
                f"{self.total.epsilon:g}. Left: {self.left_in_words()}. Nothing was measured. Ask for less, or "
                "raise the total (smoothsynth ledger set FILE --epsilon E --raise)."
            )

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
        "or raise the total's delta (smoothsynth ledger set FILE --epsilon E --delta D --raise)."
    )
