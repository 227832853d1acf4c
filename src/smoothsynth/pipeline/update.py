"""A further release after new rows came, from stored sums: the rows so far are not read again, and need not exist."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from smoothsynth._display import page
from smoothsynth.accounting.charges import Budget, Charge, compose, gaussian_multiplier, split_epsilon, split_multiplier
from smoothsynth.accounting.ledger import Ledger, LedgerFile
from smoothsynth.accounting.statement import rounded_up
from smoothsynth.errors import BudgetError, PlanError
from smoothsynth.methods.layout import Design
from smoothsynth.methods.options import METHODS
from smoothsynth.pipeline.plan import Plan, plan
from smoothsynth.pipeline.run import carry_out, check_seed
from smoothsynth.private.engines import open_engine, read_address
from smoothsynth.private.sites.answers import table_elsewhere
from smoothsynth.private.sites.keys import check_replaceable, read_key
from smoothsynth.private.sites.store import Keeping, Owner, read_store
from smoothsynth.private.table import open_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from smoothsynth.pipeline.release import Release
    from smoothsynth.private.sealed import Engine
    from smoothsynth.private.sites.store import Kept
    from smoothsynth.queries.measurement import Measurement

    Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True)
class UpdateCost:
    """What a further release costs whoever is in the earlier ones too: spent so far, and after it."""

    before: Budget
    after: Budget
    own: Budget
    total: Budget | None

    def _repr_html_(self) -> str:
        return page("Cost of a further release", [("in words", str(self))])

    def __str__(self) -> str:
        text = (
            f"This release costs epsilon = {rounded_up(self.own.epsilon)}, delta = {self.own.delta:g}. Whoever is in the "
            f"earlier releases too spends both: epsilon = {rounded_up(self.before.epsilon)} so far, "
            f"{rounded_up(self.after.epsilon)} (delta = {self.after.delta:g}) after it."
        )
        if self.total is None:
            return text + " No ledger is named, so nothing keeps a total."
        fits = "" if self.after.epsilon <= self.total.epsilon else ", so this release does not fit"
        return text + f" The ledger allows epsilon = {self.total.epsilon:g} in all{fits}."


def update(
    store: str | Path,
    data: Any = None,
    *,
    epsilon: float,
    delta: float = 0.0,
    key: str | Path,
    seed: int | None = None,
    ledger: str | Path | None = None,
    label: str = "",
    synthetic_rows: int | None = None,
    rows_per_person: int | None = None,
    engine: str | Engine | None = None,
    cluster: str | None = None,
    memory: str | int | None = None,
    progress: Progress | None = None,
    cost: Callable[[UpdateCost], None] | None = None,
) -> Release:
    """Release all rows so far and the new ones, from the sums that an earlier release kept (`release(..., keep=, key=)`).

    `data` holds the new rows only; without it the stored rows are released again. The transformations of the first release
    are kept, so the sums are exactly those of one table with all rows. Fresh noise is drawn, for the budget given here, and
    charged again: `cost` is told, before anything is read, what all releases together cost whoever is in them. In the
    end the store holds the new rows too.
    """
    check_seed(seed)
    owner = Owner(store, read_key(key))
    stored = read_store(store, key=owner.key)
    check_replaceable(store)
    budget = Budget(epsilon, delta)
    stated = _plan(stored.kept, stored.kept.rows, budget, size=synthetic_rows, rows_per_person=rows_per_person)
    file = None if ledger is None else LedgerFile(ledger)
    if cost is not None:
        cost(_cost(stored.kept, stated.charges, budget, file))
    if file is not None:
        file.read().refuse(stated.charges, rows_per_person=stated.rows_per_person)
    summing = open_engine(engine, data, cluster=cluster, memory=memory)
    new = None
    if data is not None:
        new = open_table(read_address(data, summing), stored.kept.schema, memory=memory)
    del data  # as in pipeline.release
    rows = stored.kept.rows + (0 if new is None else new.rows)
    planned = _plan(stored.kept, rows, budget, size=synthetic_rows, rows_per_person=rows_per_person)
    keeping = Keeping(summing, rows=new, before=stored)
    upon = None
    if file is not None:
        upon = file.reserve(planned.charges, label=label, rows_per_person=planned.rows_per_person)
    made = carry_out(
        planned,
        table_elsewhere(rows, planned.schema),
        engine=keeping,
        seed=seed,
        progress=progress,
        ledger=Ledger(budget, planned=planned.charges, upon=upon),
        earlier=stored.kept.earlier,
    )
    owner.keep(stored.after(keeping, rows=rows, charges=made.receipt.charges), replace_it=True)
    return made


def update_cost(
    store: str | Path,
    *,
    epsilon: float,
    delta: float = 0.0,
    key: str | Path,
    ledger: str | Path | None = None,
    rows_per_person: int | None = None,
) -> UpdateCost:
    """Say what a further release would cost, with all earlier ones; nothing is read but the store, nothing is charged."""
    kept, budget = read_store(store, key=read_key(key)).kept, Budget(epsilon, delta)
    planned = _plan(kept, kept.rows, budget, size=None, rows_per_person=rows_per_person)
    return _cost(kept, planned.charges, budget, None if ledger is None else LedgerFile(ledger))


def _cost(kept: Kept, charges: Sequence[Charge], budget: Budget, file: LedgerFile | None) -> UpdateCost:
    """Compose all charges: those in the ledger, or else those of the releases that the store knows of."""
    statement = None if file is None else file.read()
    past = kept.spent if statement is None else (statement.charges or kept.spent)
    delta = budget.delta if statement is None else statement.total.delta
    if not delta and any(charge.multiplier is not None for charge in (*past, *charges)):
        raise BudgetError("An earlier release had Gaussian noise, so a total needs a delta greater than 0.")
    return UpdateCost(
        before=compose(past, delta=delta),
        after=compose([*past, *charges], delta=delta),
        own=compose(charges, delta=budget.delta),
        total=None if statement is None else statement.total,
    )


def _plan(kept: Kept, rows: int, budget: Budget, *, size: int | None, rows_per_person: int | None) -> Plan:
    """Plan the measurements of the first release again, with noise for another budget and more rows."""
    together = kept.choices["rows_per_person"] if rows_per_person is None else rows_per_person
    # Counts and budgets that no release can have are refused as in every plan.
    plan(kept.schema, rows, epsilon=budget.epsilon, delta=budget.delta, synthetic_rows=size, rows_per_person=together)
    # Tables that were chosen are public by now: they are measured again, and not chosen.
    measurements = [
        replace(_with_todays_noise(noisy.measurement), rows_per_person=together, choice=None) for noisy in kept.earlier
    ]
    design = Design(
        _shared(measurements, budget),
        **{name: kept.choices[name] for name in ("candidates", "candidate_count", "fit", "fitted", "levels")},
    )
    return Plan(kept.schema, rows, budget, METHODS[kept.choices["method"]](), design, size or rows, together)


def _with_todays_noise(measurement: Measurement) -> Measurement:
    """Return what an earlier version measured with noise that is no longer drawn, with that which took its place."""
    return replace(measurement, mechanism="wishart") if measurement.mechanism == "ball" else measurement


def _shared(measurements: Sequence[Measurement], budget: Budget) -> tuple[Measurement, ...]:
    """Share another budget between measurements in the same proportions."""
    epsilons = [m.epsilon for m in measurements if m.epsilon is not None]
    multipliers = [m.multiplier for m in measurements if m.multiplier is not None]
    if epsilons and multipliers:
        raise PlanError(
            "A plan with both pure and Gaussian noise cannot be shared anew. Release all rows from the table."
        )
    if epsilons:
        pairs = zip(measurements, split_epsilon(budget.epsilon, epsilons), strict=True)
        return tuple(replace(m, epsilon=epsilon) for m, epsilon in pairs)
    if not budget.delta:
        raise BudgetError("The stored sums are for Gaussian noise: give a delta greater than 0, such as 1e-6.")
    whole = gaussian_multiplier(budget.epsilon, budget.delta)
    parts = split_multiplier(whole, [m**-2 for m in multipliers])
    return tuple(replace(m, multiplier=part) for m, part in zip(measurements, parts, strict=True))
