"""The budget of one release, charged before noise is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from smoothsynth.errors import BudgetError
from smoothsynth.privacy import Budget, Charge, compose

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    """A budget and the charges against it, in memory; what fits is charged `upon` another ledger first, if given."""

    __slots__ = ("_budget", "_charges", "_upon")

    def __init__(self, budget: Budget, *, upon: Spending | None = None) -> None:
        self._budget, self._upon = budget, upon
        self._charges: list[Charge] = []

    @property
    def budget(self) -> Budget:
        """What may be spent in all."""
        return self._budget

    @property
    def charges(self) -> Sequence[Charge]:
        """What has been spent, in order."""
        return tuple(self._charges)

    def charge(self, charge: Charge) -> None:
        """Record a charge, or refuse it if the total would exceed the budget."""
        total = compose([*self._charges, charge], delta=self._budget.delta)
        if total.epsilon > self._budget.epsilon or total.delta > self._budget.delta:
            raise BudgetError(
                f"This would cost epsilon={total.epsilon:.6g} (delta={total.delta:.3g}) in all; the budget is "
                f"epsilon={self._budget.epsilon:.6g} (delta={self._budget.delta:.3g}). Nothing was measured."
            )
        if self._upon is not None:
            self._upon.charge(charge)
        self._charges.append(charge)
