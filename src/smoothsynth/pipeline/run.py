"""The method on one page; the only module that sees both sides of the wall."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from smoothsynth._runtime import VERSION
from smoothsynth.accounting.ledger import Ledger, LedgerFile
from smoothsynth.errors import PlanError
from smoothsynth.methods.options import chosen_method
from smoothsynth.model.contradictions import compared, remarks
from smoothsynth.model.sampling import generator
from smoothsynth.model.synthesis import Synthesis, rows_of_model, synthesise
from smoothsynth.pipeline.given_rows import public_prior, unit_rows
from smoothsynth.pipeline.plan import Plan, check_choices, plan, plan_found
from smoothsynth.pipeline.release import Receipt, Release
from smoothsynth.pipeline.rounds import Rounds
from smoothsynth.pipeline.terminal import watched
from smoothsynth.private.engines import open_engine, read_address
from smoothsynth.private.measure import check_engine, discover, measure, measure_subspace
from smoothsynth.private.sealed import Recalling
from smoothsynth.private.sites.keys import check_new, read_key
from smoothsynth.private.sites.store import Keeping, Kept, Owner, Store
from smoothsynth.private.table import open_table
from smoothsynth.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow

    from smoothsynth.accounting.charges import Charge
    from smoothsynth.accounting.ledger import Reservation
    from smoothsynth.discovery.search import Found
    from smoothsynth.methods.options import Method
    from smoothsynth.methods.paper import NoisySubspace
    from smoothsynth.private.sealed import Engine
    from smoothsynth.private.table import Table
    from smoothsynth.queries.measurement import NoisyMoments

    Progress = Callable[[str, int, int | None], None]


# The last phase of a release: fitting what is left to fit, and drawing rows.
_DRAWING = "drawing rows"


def release(
    data: Any,
    *,
    schema: Schema | Mapping[str, Any] | str | Path,
    epsilon: float,
    delta: float = 0.0,
    seed: int | None = None,
    method: str | Method = "auto",
    progress: Progress | bool | None = None,
    ledger: str | Path | None = None,
    label: str = "",
    engine: str | Engine | None = None,
    cluster: str | None = None,
    memory: str | int | None = None,
    keep: str | Path | None = None,
    key: str | Path | None = None,
    prior: Any = None,
    **choices: Any,
) -> Release:
    """Make a differentially private synthetic table of `data`.

    `data` is a pandas or polars frame, an Arrow table, a path to CSV or Parquet, or a frame of Spark or Dask, whose
    rows stay on their cluster. `delta=0` means pure epsilon. `seed` seeds the drawing of rows, never the noise.
    `ledger` names the file with the total budget of the data set (docs/ledger.md); the release is recorded there,
    under `label`, before any noise is drawn. `engine="spark"` or `"dask"` lets the cluster at the address `cluster` (by
    default the one in use) read a path. `memory`, such as "512MB", bounds what the local engine holds at once, whatever
    the size of the table (docs/scaling.md). `keep` names a file for the exact sums, sealed for the owner of `key`, to
    which `update` can add new rows later (docs/federated.md). `prior` is a *public* table with the same columns, such as last
    year's release: the model begins with its dependence and learns what differs; it is published with the release.
    `method` and the other choices are those of `plan`. `progress=True` shows a bar in a terminal or a notebook.
    """
    # Misuse surfaces first: nothing is spent on a release that cannot be made.
    check_seed(seed)
    schema = Schema.of(schema)
    method, choices = chosen_method(method, choices, called=[release, plan])
    budget = check_choices(schema, epsilon=epsilon, delta=delta, method=method, **choices)
    public = None if prior is None else public_prior(prior, schema, data, method, keep=keep)
    owner = None if keep is None else _owner(keep, key)
    file = None if ledger is None else LedgerFile(ledger)
    if file is not None:
        together = protected_rows(schema, choices.get("rows_per_person", 1), file)
        file.read().refuse_release(budget, rows_per_person=together)
    summing = open_engine(engine, data, cluster=cluster, memory=memory)
    most = choices.get("rows_per_person", 1)
    table = open_table(read_address(data, summing), schema, memory=memory, rows_per_person=most)
    del data  # a crash reporter that shows the names of a frame shall not find the rows here
    planned = plan(schema, table.rows, epsilon=epsilon, delta=delta, method=method, **choices)
    if owner is not None and schema.person is not None:
        raise PlanError(
            "Sums over persons cannot be kept: new rows may be of the same persons. Leave out keep=, and release all rows "
            "together when new ones come."
        )
    if owner is not None and planned.design.subspace is not None:
        raise PlanError("The sums of the paper's subspace iteration cannot be kept. Choose other candidates.")
    if planned.discovery is not None:
        planned.discovery.refuse(table.rows)
        check_engine(planned.discovery, summing)
    if planned.misses_target:
        from smoothsynth.pipeline.forecast import MISSED_TARGET

        _tell([MISSED_TARGET])
    upon = None if file is None else _reserve(planned, file, label)
    spending = Ledger(planned.budget, planned=planned.charges, upon=upon)
    found = None
    with watched(progress) as told:
        if planned.discovery is not None:
            found = discover(table, planned.discovery, engine=summing, ledger=spending, progress=told)
            planned = plan_found(planned, found.schema())
            table = table.seen_as(planned.schema)
            _tell(found.remarks())
            if upon is not None:
                upon.plan_further(planned.charges[len(found.charges) :])
        settings: dict[str, Any] = {"seed": seed, "progress": told, "ledger": spending, "found": found, "prior": public}
        recalling = Recalling(summing)
        if owner is None:
            return carry_out(planned, table, engine=recalling, **settings)
        keeping = Keeping(recalling)
        made = carry_out(planned, table, engine=keeping, **settings)
    owner.keep(_store(planned, made, keeping))
    return made


def _tell(remarks: Sequence[str]) -> None:
    """Warn of what was not found, which noisy counts tell everybody; a budget is spent, so no filter makes an error of it."""
    for remark in remarks:
        try:
            warnings.warn(remark, UserWarning, stacklevel=3)
        except UserWarning:
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                warnings.warn(remark, UserWarning, stacklevel=3)


def check_seed(seed: int | None) -> None:
    """Refuse what cannot seed the drawing of rows."""
    generator(seed)


def carry_out(
    planned: Plan,
    table: Table,
    *,
    engine: Engine,
    seed: int | None = None,
    progress: Progress | None = None,
    ledger: Ledger | None = None,
    earlier: Sequence[NoisyMoments] = (),
    found: Found | None = None,
    prior: pyarrow.Table | None = None,
) -> Release:
    """Measure what the plan says, fit, draw rows, and write the receipt; keep the transformations of `earlier`, if given."""
    ledger = Ledger(planned.budget, planned=planned.charges) if ledger is None else ledger
    rounds = Rounds.planned(planned, earlier=earlier, prior=None if prior is None else unit_rows(prior, planned.schema))
    while (seen := rounds.next) is not None:
        phase = f"{len(rounds.moments) + 1} of {len(rounds.measurements)}"
        told = _told(progress, f"measuring {phase}")
        noisy = measure(table, seen, engine=engine, ledger=ledger, progress=told)
        with _at_work(progress, f"fitting {phase}"):
            rounds = rounds.after(noisy)
    subspace = _subspace(planned, table, engine=engine, ledger=ledger, seed=seed)
    settings: dict[str, Any] = {
        "subspace": subspace,
        "seed": seed,
        "progress": progress,
        "found": found,
        "prior": prior,
    }
    return finish(planned, rounds, ledger.charges, **settings)


def finish(
    planned: Plan,
    rounds: Rounds,
    charges: Sequence[Charge],
    *,
    subspace: NoisySubspace | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    found: Found | None = None,
    prior: pyarrow.Table | None = None,
) -> Release:
    """Fit and draw rows once all is measured; costs nothing."""
    with _at_work(progress, _DRAWING):
        told = _told_fit(progress)
        if planned.modelled:
            made = rows_of_model(planned.schema, rounds.model, planned.synthetic_rows, seed=seed, progress=told)
        else:
            made = _weighed(planned, rounds.moments, subspace, seed=seed, progress=told)
    return _release(planned, rounds, charges, subspace=subspace, made=made, seed=seed, found=found, prior=prior)


def _weighed(
    planned: Plan,
    moments: Sequence[NoisyMoments],
    subspace: NoisySubspace | None,
    *,
    seed: int | None,
    progress: Callable[[int, int | None, str], None] | None,
) -> Synthesis:
    """Draw candidates and weigh them by all moments: the paper's way, and that of a chosen fit."""
    design = planned.design
    return synthesise(
        planned.schema,
        moments,
        subspace=subspace,
        fitted=design.fitted,
        levels=design.levels,
        candidates=design.candidates,
        candidate_count=design.candidate_count,
        fit=design.fit,
        rows=planned.synthetic_rows,
        seed=seed,
        progress=progress,
    )


def _subspace(planned: Plan, table: Table, *, engine: Engine, ledger: Ledger, seed: int | None) -> NoisySubspace | None:
    """Carry out the subspace iteration, if the plan has one, from a public random start."""
    iteration = planned.design.subspace
    if iteration is None:
        return None
    start = generator(seed).standard_normal((iteration.dimensions, iteration.rank))
    return measure_subspace(table, iteration, start=start, engine=engine, ledger=ledger)


def _release(
    planned: Plan,
    rounds: Rounds,
    charges: Sequence[Charge],
    *,
    subspace: NoisySubspace | None,
    made: Synthesis,
    seed: int | None,
    found: Found | None,
    prior: pyarrow.Table | None,
) -> Release:
    said = remarks(planned.schema, rounds.moments, compared(planned.schema, made.table))
    receipt = Receipt(
        schema=planned.schema,
        rows=planned.rows,
        rows_per_person=planned.rows_per_person,
        budget=planned.budget,
        charges=tuple(charges),
        method=planned.method.name,
        candidates=made.origin,
        fit=made.fit.method,
        converged=made.fit.converged,
        outcome=f"{made.fit.outcome} {said}".rstrip(),
        seed=seed,
        synthetic_rows=planned.synthetic_rows,
        version=VERSION,
        prior_rows=0 if prior is None else prior.num_rows,
    )
    return Release(made.table, rounds.moments, receipt, subspace, rounds.earlier, found, prior)


def _reserve(planned: Plan, file: LedgerFile, label: str) -> Reservation:
    """Check that the whole release fits; what comes after a search for bounds and levels is recorded after it."""
    first = planned if planned.discovery is None else planned.discovery
    together = protected_rows(planned.schema, planned.rows_per_person, file)
    return file.reserve(first.charges, label=label, rows_per_person=together, planned=planned.charges)


def protected_rows(schema: Schema, rows_per_person: int, file: LedgerFile) -> int:
    """Return how many rows of a person are protected together: with ids all are, so as many as the ledger asks for."""
    return rows_per_person if schema.person is None else max(rows_per_person, file.read().rows_per_person)


def _owner(keep: str | Path, key: str | Path | None) -> Owner:
    """Find out that sums cannot be kept before anything is spent."""
    if key is None:
        raise PlanError("Sums are kept for the owner of a key: name it as key=. ss.federated.make_key makes one.")
    check_new(keep)
    return Owner(keep, read_key(key))


def _store(planned: Plan, made: Release, keeping: Keeping) -> Store:
    """Put together what a further release needs: the sums, and the plain fields of the design."""
    anew = {"measurements", "subspace"}
    design = {field.name: getattr(planned.design, field.name) for field in fields(planned.design)}
    choices = {"method": planned.method.name, "rows_per_person": planned.rows_per_person}
    choices |= {name: value for name, value in design.items() if name not in anew}
    kept = Kept(planned.schema, planned.rows, choices, made.moments, made.receipt.charges, keeping.batches)
    # Of pairs that could be chosen, only those that were are measured again.
    return Store(kept, tuple(s.only(noisy.features) for s, noisy in zip(keeping.kept, made.moments, strict=True)))


def _told(progress: Progress | None, name: str) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    report = progress
    return lambda done, total: report(name, done, total)


def _told_fit(progress: Progress | None) -> Callable[[int, int | None, str], None] | None:
    if progress is None:
        return None
    report = progress
    return lambda step, total, _text: report(_DRAWING, step, total)


@contextmanager
def _at_work(progress: Progress | None, name: str) -> Iterator[None]:
    """Tell that a phase of unknown length has begun, and that it is over."""
    if progress is not None:
        progress(name, 0, None)
    yield
    if progress is not None:
        progress(name, 1, 1)
