"""The method on one page; the only module that sees both sides of the wall."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from smoothsynth.plan import Plan, plan
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.ledger import Ledger
from smoothsynth.private.ledger_file import LedgerFile
from smoothsynth.private.measure import measure
from smoothsynth.private.subspace import measure_subspace
from smoothsynth.private.table import open_table
from smoothsynth.release import Receipt, Release
from smoothsynth.synthesis.model import empty_model
from smoothsynth.synthesis.sample import generator
from smoothsynth.synthesis.synthesise import Synthesis, rows_of_model, synthesise
from smoothsynth.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from smoothsynth.moments import NoisyMoments
    from smoothsynth.private.table import Table
    from smoothsynth.schema import Schema
    from smoothsynth.subspace import NoisySubspace

    Progress = Callable[[str, int, int | None], None]


def release(
    data: Any,
    *,
    schema: Schema,
    epsilon: float,
    delta: float = 0.0,
    seed: int | None = None,
    method: str = "auto",
    progress: Progress | None = None,
    ledger: str | Path | None = None,
    label: str = "",
    **choices: Any,
) -> Release:
    """Make a differentially private synthetic table of `data`.

    `data` is a pandas or polars frame, an Arrow table, or a path to CSV or Parquet. `delta=0` means pure
    epsilon. `seed` seeds the drawing of rows, never the noise. `ledger` names the file with the total budget of
    the data set (docs/ledger.md); the release is recorded there, under `label`, before any noise is drawn. The
    other choices are those of `plan`.
    """
    # Misuse surfaces first: nothing is spent on a release that cannot be made.
    generator(seed)
    together = choices.get("rows_per_person", 1)
    fewest = together if type(together) is int and together > 0 else 1
    planned = plan(schema, fewest, epsilon=epsilon, delta=delta, method=method, **choices)
    file = None if ledger is None else LedgerFile(ledger)
    if file is not None:
        file.read().refuse_release(planned.budget, rows_per_person=planned.rows_per_person)
    table = open_table(data, schema)
    del data  # a crash reporter that shows the names of a frame shall not find the rows here
    planned = plan(schema, table.rows, epsilon=epsilon, delta=delta, method=method, **choices)
    return carry_out(planned, table, seed=seed, progress=progress, file=file, label=label)


def carry_out(
    planned: Plan,
    table: Table,
    *,
    seed: int | None = None,
    progress: Progress | None = None,
    file: LedgerFile | None = None,
    label: str = "",
) -> Release:
    """Measure what the plan says, fit, draw rows, and write the receipt."""
    upon = None
    if file is not None:
        upon = file.reserve(planned.charges, label=label, rows_per_person=planned.rows_per_person)
    ledger, engine = Ledger(planned.budget, upon=upon), LocalEngine()
    model, moments = empty_model(planned.schema), []
    for look, measurement in zip(planned.looks, planned.measurements, strict=True):
        seen = replace(measurement, view=model.look(look))
        noisy = measure(table, seen, engine=engine, ledger=ledger, progress=_stage(progress, measurement.purpose))
        model = model.learn(look, noisy) if planned.adaptive else model
        moments.append(noisy)
    subspace = _subspace(planned, table, engine=engine, ledger=ledger, seed=seed)
    if planned.modelled:
        made = rows_of_model(planned.schema, model, planned.synthetic_rows, seed=seed)
    else:
        made = _weighed(planned, moments, subspace, seed=seed, progress=_fit_stage(progress))
    return _release(planned, ledger, tuple(moments), subspace, made=made, seed=seed)


def _weighed(
    planned: Plan,
    moments: Sequence[NoisyMoments],
    subspace: NoisySubspace | None,
    *,
    seed: int | None,
    progress: Callable[[int, int | None, str], None] | None,
) -> Synthesis:
    """Draw candidates and weigh them by all moments: the paper's way, and that of a chosen fit."""
    return synthesise(
        planned.schema,
        moments,
        subspace=subspace,
        fitted=planned.fitted,
        levels=planned.levels,
        candidates=planned.candidates,
        candidate_count=planned.candidate_count,
        fit=planned.fit,
        rows=planned.synthetic_rows,
        seed=seed,
        progress=progress,
    )


def _subspace(
    planned: Plan, table: Table, *, engine: LocalEngine, ledger: Ledger, seed: int | None
) -> NoisySubspace | None:
    """Carry out the subspace iteration, if the plan has one, from a public random start."""
    if planned.subspace is None:
        return None
    start = generator(seed).standard_normal((planned.subspace.dimensions, planned.subspace.rank))
    return measure_subspace(table, planned.subspace, start=start, engine=engine, ledger=ledger)


def _release(
    planned: Plan,
    ledger: Ledger,
    moments: tuple[NoisyMoments, ...],
    subspace: NoisySubspace | None,
    *,
    made: Synthesis,
    seed: int | None,
) -> Release:
    import pyarrow

    receipt = Receipt(
        schema=planned.schema,
        rows=planned.rows,
        rows_per_person=planned.rows_per_person,
        budget=planned.budget,
        charges=tuple(ledger.charges),
        method=planned.method,
        candidates=made.origin,
        fit=made.fit.method,
        converged=made.fit.converged,
        outcome=made.fit.outcome,
        seed=seed,
        synthetic_rows=planned.synthetic_rows,
        version=VERSION,
    )
    return Release(pyarrow.table(planned.schema.from_unit(made.points)), moments, receipt, subspace)


def _stage(progress: Progress | None, name: str) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    report = progress
    return lambda done, total: report(name, done, total)


def _fit_stage(progress: Progress | None) -> Callable[[int, int | None, str], None] | None:
    if progress is None:
        return None
    report = progress
    return lambda step, total, _text: report("fitting", step, total)
