"""What a study costs, in the ledgers of its sites and of its coordinator: recorded whole, before anything leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothsynth.accounting.ledger import LedgerFile
from smoothsynth.errors import BudgetError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from smoothsynth.accounting.charges import Budget, Charge
    from smoothsynth.study import Study


@dataclass(frozen=True, slots=True)
class StudyAccount:
    """The charges of one study upon a ledger file, all of them or none.

    A site records the whole study before its first answer (round 0): from then on the coordinator can draw noise without
    asking again. The coordinator records it with its first round, each round that it draws, and a round that is drawn once
    more, as from a copied folder, as a further charge.
    """

    path: str | Path
    study: Study
    number: int = 0

    def refuse(self) -> None:
        """Raise BudgetError if what this round has still to be charged does not fit."""
        statement = LedgerFile(self.path).read()
        due = statement.due(self.study.identity, self.number, self.study.charges)
        if due:
            statement.refuse(due, rows_per_person=self.study.rows_per_person)

    def record(self) -> None:
        """Record durably what this round has still to be charged."""
        LedgerFile(self.path).charge_study(
            self.study.identity,
            self.number,
            self.study.charges,
            label=self.study.label,
            rows_per_person=self.study.rows_per_person,
        )

    @property
    def budget(self) -> Budget:
        """The total of the data set."""
        return LedgerFile(self.path).budget

    @property
    def charges(self) -> Sequence[Charge]:
        """What the study may spend."""
        return self.study.charges

    def charge(self, charge: Charge) -> None:
        """Record this round before its noise is drawn; a charge that the study has not planned for it is refused."""
        planned = self.study.charges[self.number - 1]
        if (charge.epsilon, charge.multiplier, charge.delta) != (planned.epsilon, planned.multiplier, planned.delta):
            raise BudgetError("A study can be charged only for what it planned; this is something else.")
        self.record()
