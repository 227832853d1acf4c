"""The budget of one release, charged before noise is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from smoothsynth.errors import BudgetError
from smoothsynth.privacy import compose
from smoothsynth.privacy_filter import PrivacyFilter, admitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.privacy import Budget, Charge


class Spending(Protocol):
    """The contract of every ledger: a budget, and charges that are recorded before noise is drawn, or refused."""

    @property
    def budget(self) -> Budget:
        """What may be spent in all."""

    @property
    def charges(self) -> Sequence[Charge]:
        """What has been spent, in order."""

    def charge(self, charge: Charge) -> None:
        """Record a charge, or raise BudgetError and record nothing if the total would exceed the budget."""


class Ledger:
    """A budget and the charges against it, in memory: a privacy filter, so that each charge may depend on what came before.

    `planned` are the charges that are expected: the budget is divided between kinds of noise in their proportions. What
    fits is charged `upon` another ledger first, if given. What was charged `before` counts.
    """

    __slots__ = ("_budget", "_charges", "_parts", "_upon")

    def __init__(
        self,
        budget: Budget,
        *,
        planned: Sequence[Charge] = (),
        before: Sequence[Charge] = (),
        upon: Spending | None = None,
    ) -> None:
        self._budget, self._upon = budget, upon
        self._charges: list[Charge] = list(before)
        gaussian = any(charge.multiplier is not None for charge in planned)
        self._parts = PrivacyFilter.divide(budget, (), planned) if gaussian else None

    @property
    def budget(self) -> Budget:
        """What may be spent in all."""
        return self._budget

    @property
    def charges(self) -> Sequence[Charge]:
        """What has been spent, in order."""
        return tuple(self._charges)

    def charge(self, charge: Charge) -> None:
        """Record a charge, or refuse it if the total, or the part for its kind of noise, would be exceeded."""
        try:
            parts = admitted(self._budget, self._parts, self._charges, [charge])
        except BudgetError as error:
            cost = compose([*self._charges, charge], delta=self._budget.delta)
            raise BudgetError(
                f"{error} All charges would cost epsilon={cost.epsilon:.6g} (delta={cost.delta:.3g}); the budget is "
                f"epsilon={self._budget.epsilon:.6g} (delta={self._budget.delta:.3g}). No noise was drawn for the last."
            ) from None
        if self._upon is not None:
            self._upon.charge(charge)
        self._charges.append(charge)
        self._parts = parts
