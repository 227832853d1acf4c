"""Broken variants of the mechanisms, each a mistake that is easy to make. The audit must catch every one of them.

A mutant is a patch of the library and the cases of the audit that are run while it is broken. Two more break `verify`:
each has a forgery that tells of the private rows, which `verify` refuses, and passes while it is broken. Run as a script,
this prints what caught which.
"""

import contextlib
import json
import math
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import smoothsynth as ss
from smoothsynth.accounting import ledger
from smoothsynth.accounting.charges import MAXIMA, PURE_MAXIMA, compose, gaussian_multiplier
from smoothsynth.accounting.ledger import Ledger
from smoothsynth.audit import mechanisms, releases
from smoothsynth.audit import releases as adaptive
from smoothsynth.audit import releases as choosing
from smoothsynth.audit import releases as found
from smoothsynth.audit.case import Case, Finding
from smoothsynth.audit.neighbours import EDGE, pair
from smoothsynth.audit.run import examine_all
from smoothsynth.discovery.levels import LevelsMeasurement
from smoothsynth.methods.paper import NoisySubspace, SubspaceMeasurement, on_lattice
from smoothsynth.pipeline import documents
from smoothsynth.pipeline import run as pipeline
from smoothsynth.pipeline.release import as_text, sha256
from smoothsynth.private import noise, persons
from smoothsynth.queries import measurement as moments
from smoothsynth.queries import selection as choice
from smoothsynth.queries.soft_tables import SoftTables, TableColumn
from smoothsynth.queries.transformation import Transformation
from smoothsynth.schema import cells
from smoothsynth.verification import charges as arithmetic

ALPHA = 1e-6


@dataclass(frozen=True)
class Mutant:
    name: str
    broken: Callable[[], AbstractContextManager]
    cases: Callable[[], list[Case]]
    trials: int = 1_500


def noise_cases(mechanism):
    return [case for case in mechanisms._noise_cases() if case.mechanism.startswith(mechanism)]


def small_release():
    corners = pair((1.0, 1.0), (-EDGE, -EDGE), rows=2)
    return [releases.release_case("automatic", corners, epsilon=1.0)]


def three_products():
    tables = pair((EDGE,), (-1.0,), rows=50, stay=-1.0)
    return [mechanisms.subspace_case(SubspaceMeasurement(1, 1, 3, epsilon=1.0), tables)]


def half_noise(name):
    """Draw with half the scale that was charged for."""
    draw = getattr(noise, name)
    return patch.object(noise, name, lambda count, scale: draw(count, scale / 2))


def half_sensitivity():
    """Say that a row moves a feature by 1, not by 2: right for adding a row, wrong for replacing one."""
    exact = moments.Measurement.sensitivity.fget
    return patch.object(moments.Measurement, "sensitivity", property(lambda self: math.ceil(exact(self) / 2)))


def half_choice():
    """The same for how far the score of a table moves."""
    exact = choice.TableSelection.sensitivity
    return patch.object(
        choice.TableSelection, "sensitivity", lambda self, unit, **more: math.ceil(exact(self, unit, **more) / 2)
    )


def all_rows():
    """Give each row the weight of one of those that are taken, and take all: a person with many rows weighs more than 1."""
    take = persons.take
    return patch.object(persons, "take", lambda ids, order, most: np.minimum(take(ids, order, 255), most))


def one_table():
    """Scale for how far one table moves, however many are released: right for tables that are measured one by one."""
    bound = {"l1": SoftTables.l1, "l2": SoftTables.l2}

    def first(norm):
        return lambda self, cells, *rest: bound[norm](self, cells.only(cells.tables[:1]), *rest)

    return patch.multiple(SoftTables, l1=first("l1"), l2=first("l2"))


def half_pure_maxima():
    """Take the exponential mechanism for one whose scores all move the same way: half the noise."""
    scale = noise.pure_maxima_scale
    return patch.object(noise, "pure_maxima_scale", lambda *one, **other: scale(*one, **other) / 2)


def chosen_table(*, pure=False):
    start = f"{PURE_MAXIMA if pure else MAXIMA}: a chosen table"
    return [case for case in choosing.choosing_cases() if case.mechanism.startswith(start)]


def pure_maxima():
    """One score rises and all others fall: the odds of naming it move by nearly all that a row can move them."""
    return [choosing.maxima_case([[3, *[0] * 20], [0, *[3] * 20]], count=1, share=4.0, pure=True)]


def three_tables():
    """Three tables of two columns at once, on rows in opposite corners."""
    family = SoftTables(tuple(TableColumn(c, 2) for c in range(3)), 2)
    measurement = moments.Measurement(
        "three tables of soft cells",
        family.cells(((0, 1), (0, 2), (1, 2))),
        "discrete gaussian",
        multiplier=gaussian_multiplier(mechanisms.GAUSSIAN_EPSILON, mechanisms.DELTA),
        transformation=Transformation.straight(3, family),
    )
    return [mechanisms.measurement_case(measurement, pair((1.0, 1.0, 1.0), (-1.0, -1.0, -1.0), rows=2))]


def free_choice():
    """Charge only for what is measured, not for finding out what to measure."""
    charge = Ledger.charge
    return patch.object(Ledger, "charge", lambda self, one: None if "maxima" in one.mechanism else charge(self, one))


def independent_cube():
    """Scale for the largest move of one sum, but draw each sum for itself."""
    return patch.object(noise, "_draw_cube", noise._draw_laplace)


def float_noise():
    """Draw textbook noise in doubles."""

    def add(sums, *, sensitivity, epsilon):
        return (np.array(sums, dtype=float) + np.random.laplace(0.0, sensitivity / epsilon, len(sums))).tolist()

    return patch.object(noise, "add_laplace_noise", add)


def coarse_noise():
    """Draw noise in steps of 16: its law is nearly the same, and the residues of the sums shine through."""
    draw = noise._draw_laplace
    return patch.object(noise, "_draw_laplace", lambda count, scale: [16 * (z // 16) for z in draw(count, scale)])


def truncated_noise():
    """Cut noise at four scales, to spare the reader strange values."""
    draw = noise._draw_laplace

    def cut(count, scale):
        return [max(-int(4 * scale), min(int(4 * scale), z)) for z in draw(count, scale)]

    return patch.object(noise, "_draw_laplace", cut)


@contextlib.contextmanager
def seeded_noise():
    """Let the seed of a release seed its noise too, so that results can be repeated."""
    seeded, carry_out = [np.random.default_rng(0)], pipeline.carry_out

    def carry_out_seeded(planned, table, *, seed=None, **settings):
        seeded[0] = np.random.default_rng(seed)
        return carry_out(planned, table, seed=seed, **settings)

    def draw(count, scale):
        return np.rint(seeded[0].laplace(0.0, scale, count)).astype(int).tolist()

    class Secrets:
        @staticmethod
        def randbelow(bound):
            return int(seeded[0].integers(bound))

    with (
        patch.object(pipeline, "carry_out", carry_out_seeded),
        patch.object(noise, "_draw_laplace", draw),
        patch.object(noise, "secrets", Secrets),
    ):
        yield


def not_charged():
    """Measure without telling the ledger."""
    return patch.object(Ledger, "charge", lambda _self, _charge: None)


def charged_once():
    """Charge the first of several measurements only."""
    charge = Ledger.charge
    return patch.object(Ledger, "charge", lambda self, one: None if self.charges else charge(self, one))


def bare_eigenvalues():
    """Compute eigenvalues as the paper does, lambda = sqrt(x' A^2 x), with the covariance without noise."""
    measure_subspace = mechanisms.measure_subspace

    class Bare(NoisySubspace):
        __slots__ = ("covariance",)

        def eigenvalues(self):
            return np.linalg.norm(self.covariance @ on_lattice(self.directions()), axis=0)

    def measured(table, measurement, **settings):
        made = measure_subspace(table, measurement, **settings)
        rows = np.concatenate([np.column_stack(batch.columns) for batch in table._batches(10**6)])
        bare = Bare(made.measurement, made.rows, made.start, made.products)
        object.__setattr__(bare, "covariance", np.cov(rows.T, bias=True))
        return bare

    return patch.object(mechanisms, "measure_subspace", measured)


def own_bounds():
    """Take the bounds of each column from the data."""
    release = releases.release

    def with_own_bounds(data, *, schema, **choices):
        columns = {name: data[name].to_numpy(zero_copy_only=False) for name in schema.names}
        bounds = {name: ss.Number(float(values.min()), float(values.max())) for name, values in columns.items()}
        return release(data, schema=ss.Schema(bounds), **choices)

    return patch.object(releases, "release", with_own_bounds)


def refused_outliers():
    """Refuse a table with a value out of bounds, in place of moving the value to the bound."""
    measure = mechanisms.measure

    def strict(table, measurement, **settings):
        for batch in table._batches(10**6):
            if any(np.abs(column.to_numpy(zero_copy_only=False)).max() > 1.0 for column in batch.columns):
                raise ss.DataError("A value is out of bounds.")
        return measure(table, measurement, **settings)

    return patch.object(mechanisms, "measure", strict)


def no_threshold():
    """Show every value whose noisy count is more than one: a value of a single row shows that the row is there."""
    return patch.object(LevelsMeasurement, "threshold", property(lambda _: 2))


def mixed_charges():
    """Let kinds of charges be chosen as outcomes come, and add up what they would cost had they been planned."""

    def planned_rule(total, _parts, before, charges, **_):
        cost = compose([*before, *charges], delta=total.delta)
        if cost.epsilon > total.epsilon or cost.delta > total.delta:
            raise ss.BudgetError("too much")

    return patch.object(ledger, "admitted", planned_rule)


def inferred_types():
    """Read a column as numbers if all of its cells are: one odd cell turns everybody's number into a missing one."""
    release, texts_of = releases.release, cells.texts_of

    def inferred(column):
        whole = all(isinstance(cell, float) for cell in column)
        return texts_of(column) if whole else [cell if isinstance(cell, str) else None for cell in column]

    def of_objects(data, **choices):
        frame = data.to_pandas().astype(object)
        return release(frame.where(frame.notna(), "odd"), **choices)

    broken = contextlib.ExitStack()
    broken.enter_context(patch.object(cells, "texts_of", inferred))
    broken.enter_context(patch.object(releases, "release", of_objects))
    return broken


def odd_cell():
    return [releases.release_case("automatic", pair((math.nan,), (1.0,), rows=24), epsilon=1.0)]


MUTANTS = [
    Mutant("half the noise, Laplace", lambda: half_noise("_draw_laplace"), lambda: noise_cases("discrete laplace")),
    Mutant("half the noise, cube", lambda: half_noise("_draw_cube"), lambda: mechanisms._cube_cases()[:2], 2_500),
    Mutant("half the noise, Gaussian", lambda: half_noise("_draw_gaussian"), lambda: noise_cases("discrete gaussian")),
    Mutant("half the noise, Wishart", lambda: half_noise("_draw_wishart"), lambda: noise_cases("wishart")[:1], 12_000),
    Mutant("half the sensitivity, Wishart", half_sensitivity, mechanisms._wishart_cases, 12_000),
    Mutant("half the sensitivity, Laplace", half_sensitivity, mechanisms._laplace_cases),
    Mutant("half the sensitivity, hat functions", half_sensitivity, lambda: mechanisms._laplace_cases()[-1:], 6_000),
    Mutant(
        "half the sensitivity, Gaussian counts", half_sensitivity, lambda: mechanisms._gaussian_cases()[-3:-2], 6_000
    ),
    Mutant(
        "half the sensitivity, cosines of counts", half_sensitivity, lambda: mechanisms._gaussian_cases()[-2:-1], 6_000
    ),
    Mutant("half the sensitivity, missing values", half_sensitivity, lambda: [mechanisms.missing_case()], 3_000),
    Mutant("half the sensitivity, tables", half_sensitivity, lambda: mechanisms._gaussian_cases()[-1:], 6_000),
    Mutant("half the sensitivity, levels", half_sensitivity, lambda: mechanisms._histogram_cases()[:1], 3_000),
    Mutant("all rows of a person", all_rows, lambda: mechanisms.person_cases()[:1], 800),
    Mutant("half the sensitivity, persons", half_sensitivity, mechanisms.person_cases, 3_000),
    Mutant("half the noise, tables", lambda: half_noise("_draw_gaussian"), three_tables, 6_000),
    Mutant("the sensitivity of one table for three", one_table, three_tables, 6_000),
    Mutant("half the sensitivity, cube", half_sensitivity, lambda: mechanisms._cube_cases()[:2], 2_500),
    Mutant("half the sensitivity, Gaussian", half_sensitivity, lambda: mechanisms._gaussian_cases()[:2]),
    Mutant("cube noise drawn sum by sum", independent_cube, lambda: mechanisms._cube_cases()[:2], 4_000),
    Mutant("noise in doubles", float_noise, lambda: noise_cases("discrete laplace")),
    Mutant("noise in steps of 16", coarse_noise, lambda: noise_cases("discrete laplace")),
    Mutant("noise cut at four scales", truncated_noise, lambda: noise_cases("discrete laplace")),
    Mutant("noise from the seed", seeded_noise, small_release, 3_000),
    Mutant("nothing charged", not_charged, mechanisms._laplace_cases, 500),
    Mutant("only the first of three charged", charged_once, three_products, 1_500),
    Mutant("eigenvalues without noise", bare_eigenvalues, mechanisms._subspace_cases, 700),
    Mutant("bounds from the data", own_bounds, small_release, 3_000),
    Mutant("outliers refused", refused_outliers, mechanisms._cube_cases, 1_000),
    Mutant("half the noise, maxima", lambda: half_noise("_maxima_sampler"), lambda: choosing.choosing_cases()[:2]),
    Mutant("half the noise, pure maxima", half_pure_maxima, pure_maxima),
    Mutant("half the sensitivity of a choice", half_choice, chosen_table),
    Mutant("half the sensitivity of a pure choice", half_choice, lambda: chosen_table(pure=True), 6_000),
    Mutant("a choice that is not charged", free_choice, chosen_table),
    Mutant("kinds of charges chosen as outcomes come", mixed_charges, adaptive.adaptive_cases, 15_000),
    Mutant("a reader that infers a column's type", inferred_types, odd_cell, 3_000),
    Mutant("every level shown", no_threshold, lambda: found.found_cases()[:1], 4_000),
    Mutant("every level shown, Gaussian noise", no_threshold, lambda: found.found_cases()[2:3], 4_000),
]


@dataclass(frozen=True)
class LaxCheck:
    name: str
    broken: Callable[[], AbstractContextManager]
    forge: Callable[[Path, str], None]


@contextlib.contextmanager
def free_text():
    """Read the keys that are known and the words that are wanted, and look at nothing else."""
    with (
        patch.object(documents, "check_form", lambda *_, **__: None),
        patch.object(arithmetic, "strange_sentences", lambda *_: ()),
    ):
        yield


def page_not_compared():
    """Check that the page has its hash, and no more."""
    checks = sys.modules["smoothsynth.verification.verify"]
    return patch.object(checks, "_CHECKS", tuple(check for check in checks._CHECKS if check[0] != "page"))


def edit_receipt(folder, change):
    document = json.loads((folder / "receipt.json").read_text(encoding="utf-8"))
    change(document)
    document["sha256"] = {name: sha256(folder / name) for name in document["sha256"]}
    (folder / "receipt.json").write_text(as_text(document), encoding="utf-8", newline="\n")


def unknown_key(folder, private):
    edit_receipt(folder, lambda d: d.update(note=private))


def other_outcome(folder, private):
    edit_receipt(folder, lambda d: d["fit"].update(outcome=private))
    made = sys.modules["smoothsynth.verification.folder"].read_evidence(folder).release()
    (folder / "report.html").write_text(made.page(folder), encoding="utf-8", newline="\n")
    edit_receipt(folder, lambda _: None)


def other_page(folder, private):
    (folder / "report.html").write_text(f"<p>{private}</p>", encoding="utf-8")
    edit_receipt(folder, lambda _: None)


LAX_CHECKS = [
    LaxCheck("free text in a receipt, unknown key", free_text, unknown_key),
    LaxCheck("free text in a receipt, outcome", free_text, other_outcome),
    LaxCheck("a page that is not compared", page_not_compared, other_page),
]


def passes(lax: LaxCheck, *, broken: bool) -> bool:
    """Whether `verify` passes a release that tells of a private row: as it is, or broken."""
    table = pa.table({"age": np.linspace(20.0, 90.0, 60)})
    with tempfile.TemporaryDirectory() as place:
        made = ss.release(table, schema=ss.Schema({"age": ss.Number(0, 100)}), epsilon=1.0, seed=1)
        folder = made.write(Path(place) / "out")
        lax.forge(folder, f"row 17 is {table['age'][17]}")
        with lax.broken() if broken else contextlib.nullcontext():
            return ss.verify(folder).passed


def attack(mutant: Mutant) -> Finding:
    """Return the finding that exceeds its claim most, or the highest one if none does."""
    with mutant.broken():
        found = examine_all(mutant.cases(), trials=mutant.trials, alpha=ALPHA)
    return max(found, key=lambda finding: finding.bound - finding.claimed)


def main():
    from rich.console import Console

    from smoothsynth.audit.run import as_terminal_table

    findings = [attack(mutant) for mutant in MUTANTS]
    named = [
        replace(finding, mechanism=mutant.name, pair=f"{finding.mechanism}, {finding.pair}", reach=None)
        for mutant, finding in zip(MUTANTS, findings, strict=True)
    ]
    table = as_terminal_table(
        named, title="Broken on purpose", verdicts=("MISSED", "caught"), names=("mutant", "caught in")
    )
    screen = Console(width=170)
    screen.print(table)
    caught = [passes(lax, broken=True) and not passes(lax, broken=False) for lax in LAX_CHECKS]
    for lax, noticed in zip(LAX_CHECKS, caught, strict=True):
        screen.print(f"{lax.name}: {'caught' if noticed else 'MISSED'} by verify")
    sys.exit(0 if all(finding.exceeds for finding in findings) and all(caught) else 1)


if __name__ == "__main__":
    main()
