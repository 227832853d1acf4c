"""A ledger of what has been spent: in memory, and in a file that never forgets.

The budget of one release, charged before noise is drawn.

The durable ledger of a data set: its total budget and every charge of every release, in one file.

The file is a privacy filter: whatever is charged after whatever was seen, all releases together keep to its total. Pure
epsilons add up, all Gaussians together are one Gaussian, and the division of the total between the two is recorded
before the first Gaussian charge (docs/proofs/composition.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from smoothsynth.accounting import ledger_store
from smoothsynth.accounting.charges import Budget, Charge, compose
from smoothsynth.accounting.filter import PrivacyFilter, admitted
from smoothsynth.accounting.statement import Line, Statement
from smoothsynth.errors import BudgetError, LedgerError, SmoothsynthError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.accounting.ledger_store import Book, Entry


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


class LedgerFile:
    """A ledger in a file; every charge is on the disk before `charge` returns."""

    __slots__ = ("_path",)

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self.read()

    @classmethod
    def create(
        cls, path: str | Path, total: Budget, *, rows_per_person: int = 1, pure_epsilon: float = 0.0
    ) -> LedgerFile:
        """Make a new ledger that only its owner can read; an existing file is refused.

        Of a total with delta, at least `pure_epsilon` is kept for releases without delta.
        """
        if not 0.0 <= pure_epsilon <= total.epsilon:
            raise BudgetError(f"pure_epsilon must be from 0 to the total, {total.epsilon:g}; found {pure_epsilon}.")
        if type(rows_per_person) is not int or rows_per_person < 1:
            raise BudgetError(f"rows_per_person must be a whole number of at least 1, not {rows_per_person!r}.")
        ledger_store.create(Path(path), "total", _total_document(total, rows_per_person, pure_epsilon))
        return cls(path)

    @property
    def budget(self) -> Budget:
        """The total of the data set."""
        return self.read().total

    @property
    def charges(self) -> Sequence[Charge]:
        """Every charge of every release, in order."""
        return self.read().charges

    def read(self) -> Statement:
        """Check the file and say what it holds."""
        with ledger_store.opened(self._path) as book:
            return self._statement(book.entries)

    def charge(self, charge: Charge) -> None:
        """Record one charge durably, or refuse it if the total would be exceeded."""
        self.charge_together([charge])

    def charge_together(
        self,
        charges: Sequence[Charge],
        *,
        label: str = "",
        rows_per_person: int = 1,
        planned: Sequence[Charge] = (),
    ) -> None:
        """Record all charges durably in one transaction, or none of them.

        They may be the first of a release that has all those of `planned`, in whose proportions the total is divided.
        """
        with ledger_store.opened(self._path, write=True) as book:
            now = self._statement(book.entries)
            parts = now.refuse(charges, rows_per_person=rows_per_person, planned=planned)
            _add(book, charges, parts if parts != now.parts else None, label=label, rows_per_person=rows_per_person)

    def charge_study(
        self, study: str, number: int, charges: Sequence[Charge], *, label: str, rows_per_person: int
    ) -> None:
        """Record a whole study once, and the charges of a round again each time that its noise is drawn again."""
        with ledger_store.opened(self._path, write=True) as book:
            now = self._statement(book.entries)
            due = now.due(study, number, charges)
            if due:
                parts = now.refuse(due, rows_per_person=rows_per_person)
                _add(book, due, parts if parts != now.parts else None, label=label, rows_per_person=rows_per_person)
            book.add("round", {"study": study, "round": number}, label=label)

    def raise_total(self, total: Budget) -> None:
        """Put a larger total in force; epsilon and delta can grow, never shrink."""
        with ledger_store.opened(self._path, write=True) as book:
            now = self._statement(book.entries)
            if total == now.total or total.epsilon < now.total.epsilon or total.delta < now.total.delta:
                raise BudgetError(
                    f"A total can only be raised; it is epsilon = {now.total.epsilon:g}, delta = {now.total.delta:g}."
                )
            book.add("total", _total_document(total, now.rows_per_person, now.pure_epsilon))
            if now.parts is not None:
                book.add("parts", now.parts.raised(total).as_dict())

    def reserve(
        self,
        charges: Sequence[Charge],
        *,
        label: str = "",
        rows_per_person: int = 1,
        planned: Sequence[Charge] = (),
    ) -> Reservation:
        """Check that a whole release fits, all charges of `planned`; its first charge will record those of `charges`."""
        planned = tuple(planned or charges)
        self.read().refuse(planned, rows_per_person=rows_per_person)
        return Reservation(self, charges, label=label, rows_per_person=rows_per_person, planned=planned)

    def _statement(self, entries: Sequence[Entry]) -> Statement:
        try:
            return _understood(entries)
        except (SmoothsynthError, KeyError, TypeError, ValueError):
            raise LedgerError(
                f"The ledger {self._path} holds an entry that this version does not know. Update smoothsynth."
            ) from None


class Reservation:
    """The charges of one release upon a ledger file, recorded together before any of its noise is drawn.

    Recording them one by one would let two releases that race for the last epsilon spend it half each,
    and neither would be made. A later charge is covered by the recorded one of the same cost.
    """

    __slots__ = ("_all", "_charges", "_file", "_label", "_open", "_planned", "_rows_per_person")

    def __init__(
        self,
        file: LedgerFile,
        first: Sequence[Charge],
        *,
        label: str,
        rows_per_person: int,
        planned: Sequence[Charge],
    ) -> None:
        self._file, self._planned, self._label, self._rows_per_person = file, tuple(first), label, rows_per_person
        self._all = tuple(planned)
        self._open: list[Charge] = []
        self._charges: list[Charge] = []

    @property
    def budget(self) -> Budget:
        """The total of the data set."""
        return self._file.budget

    @property
    def charges(self) -> Sequence[Charge]:
        """What the release has recorded, in order."""
        return tuple(self._charges)

    def charge(self, charge: Charge) -> None:
        """Record the whole plan with its first charge, and on its own whatever the plan does not cover."""
        if self._planned:
            self._record(self._planned)
            self._open, self._planned = list(self._planned), ()
        costs = (charge.epsilon, charge.multiplier, charge.delta)
        covered = next((c for c in self._open if (c.epsilon, c.multiplier, c.delta) == costs), None)
        if covered is None:
            self._record([charge])
        else:
            self._open.remove(covered)

    def plan_further(self, charges: Sequence[Charge]) -> None:
        """Record these charges, too, with the first of them: they were not known before the earlier ones were made."""
        self._planned = tuple(charges)

    def _record(self, charges: Sequence[Charge]) -> None:
        self._file.charge_together(charges, label=self._label, rows_per_person=self._rows_per_person, planned=self._all)
        self._all = ()
        self._charges += charges


def _add(
    book: Book, charges: Sequence[Charge], parts: PrivacyFilter | None, *, label: str, rows_per_person: int
) -> None:
    """Add charges to a file, after the division of the total that they need, if it is new."""
    if parts is not None:
        book.add("parts", parts.as_dict(), label=label)
    for charge in charges:
        book.add("charge", {**charge.as_dict(), "rows_per_person": rows_per_person}, label=label)


def _total_document(total: Budget, rows_per_person: int, pure_epsilon: float) -> dict[str, Any]:
    kept = {"pure_epsilon": float(pure_epsilon)} if pure_epsilon else {}
    return {"epsilon": total.epsilon, "delta": total.delta, "rows_per_person": rows_per_person, **kept}


def _understood(entries: Sequence[Entry]) -> Statement:
    total: dict[str, Any] = {}
    parts: PrivacyFilter | None = None
    lines, rounds = [], []
    for entry in entries:
        if entry.kind == "total":
            total = dict(entry.document)
        elif entry.kind == "parts":
            parts = PrivacyFilter.from_dict(entry.document)
        elif entry.kind == "round":
            rounds.append((str(entry.document["study"]), int(entry.document["round"])))
        elif entry.kind == "charge":
            lines.append(Line(entry.time, entry.label, Charge.from_dict(entry.document)))
        else:
            raise ValueError("another kind of entry")
    budget = Budget(total["epsilon"], total["delta"])
    if parts is not None and not parts.within(budget):
        raise ValueError("parts that are more than the whole")
    pure_epsilon = float(total.get("pure_epsilon", 0.0))
    return Statement(budget, int(total["rows_per_person"]), tuple(lines), parts, pure_epsilon, tuple(rounds))
