"""What a study costs, in the ledgers of its sites and of its coordinator: recorded whole, before anything leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothsynth.errors import BudgetError
from smoothsynth.private.ledger_file import LedgerFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from smoothsynth.privacy import Budget, Charge
    from smoothsynth.study import Study


@dataclass(frozen=True, slots=True)
class StudyAccount:
    """The charges of one study upon a ledger file, all of them or none.

    A site records the whole study before its first answer: from then on the coordinator can draw noise without asking
    again. Later answers, and answers given again, are covered.
    """

    path: str | Path
    study: Study
    covered: bool = True

    def refuse(self) -> None:
        """Raise BudgetError if the study is not recorded and does not fit."""
        if not self._recorded():
            self._file.read().refuse(self.study.charges, rows_per_person=self.study.rows_per_person)

    def record(self) -> None:
        """Record the whole study durably, unless it is."""
        if not self._recorded():
            self._file.charge_together(
                self.study.charges, label=self.study.label, rows_per_person=self.study.rows_per_person
            )

    @property
    def budget(self) -> Budget:
        """The total of the data set."""
        return self._file.budget

    @property
    def charges(self) -> Sequence[Charge]:
        """What the study may spend."""
        return self.study.charges

    def charge(self, charge: Charge) -> None:
        """Record the study before its noise is drawn; a charge that it does not have is refused."""
        costs = [(planned.epsilon, planned.multiplier) for planned in self.study.charges]
        if (charge.epsilon, charge.multiplier) not in costs:
            raise BudgetError("A study can be charged only for what it planned; this is something else.")
        self.record()

    @property
    def _file(self) -> LedgerFile:
        return LedgerFile(self.path)

    def _recorded(self) -> bool:
        return self.covered and any(line.label == self.study.label for line in self._file.read().lines)
