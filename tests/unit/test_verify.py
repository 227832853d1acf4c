"""A third party checks a release: honest ones pass, and every kind of tampering is caught by the check that is for it."""

import io
import json
import math
import os
import shutil

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app
from smoothsynth.model.contradictions import remarks
from smoothsynth.pipeline.metadata import METADATA_FILES
from smoothsynth.pipeline.release import as_text, sha256
from smoothsynth.verification.charges import gaussian_delta_by_integral
from smoothsynth.verification.folder import read_evidence

RECEIPT, MOMENTS, ROWS, PAGE = "receipt.json", "moments.json", "synthetic.parquet", "report.html"
KINDS = {
    "pure": {"epsilon": 1.0, "seed": 7},
    "gaussian": {"epsilon": 2.0, "delta": 1e-6, "seed": 7},
    "subspace": {"epsilon": 3.0, "method": ss.methods.Paper(features=9), "seed": 7},
    "several rows of a person": {"epsilon": 2.0, "delta": 1e-6, "rows_per_person": 3, "seed": 7},
    "no seed": {"epsilon": 1.0, "delta": 1e-6},
    "weighed": {"epsilon": 5.0, "delta": 1e-6, "method": ss.methods.Adaptive(candidates="hypercube"), "seed": 7},
    "another size": {"epsilon": 1.0, "synthetic_rows": 1234, "seed": 7},
    "soft counts": {"epsilon": 60.0, "seed": 7},
    "tables": {"epsilon": 40.0, "delta": 1e-6, "method": ss.methods.Adaptive(tables=1), "seed": 7},
    "grid": {"epsilon": 5.0, "method": ss.methods.Paper(candidates="grid", smoothness=4), "seed": 7},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders that were made already: each kind once, with noise of its own, whichever test asks first."""
    return tmp_path_factory.mktemp("made"), {}


@pytest.fixture
def make(made, frame, schema, tmp_path, noise_of):
    place, folders = made

    def release(kind="gaussian", **writing):
        name = repr((kind, writing))
        if name not in folders:
            with noise_of(name):
                new = ss.release(frame, schema=schema, **KINDS[kind])
            folders[name] = new.write(place / str(len(folders)), **writing)
        return shutil.copytree(folders[name], tmp_path / "out")

    return release


def reseal(folder):
    """Put the right hashes into the receipt, as a forger would."""
    receipt = json.loads((folder / RECEIPT).read_text())
    receipt["sha256"] = {p.name: sha256(p) for p in sorted(folder.iterdir()) if p.name != RECEIPT}
    (folder / RECEIPT).write_bytes(as_text(receipt).encode())


def redraw(folder):
    """Write what follows from the rows again, as a forger would who has the software."""
    if (folder / PAGE).exists():
        release = read_evidence(folder).release()
        (folder / PAGE).write_bytes(release.page(folder).encode())
        for name in METADATA_FILES:
            (folder / name).unlink(missing_ok=True)
        release._write_metadata(folder)
        reseal(folder)


def edit(folder, name, change):
    document = json.loads((folder / name).read_text())
    change(document)
    (folder / name).write_bytes(as_text(document).encode())
    reseal(folder)


def failed(folder):
    found = ss.verify(folder)
    assert found.passed is (not found.failures)
    return {check.name for check in found.failures}


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.mark.parametrize("kind", KINDS)
def test_honest_releases_pass(make, kind):
    found = ss.verify(make(kind, csv=kind == "pure"))
    assert found.passed, str(found)
    assert not [c for c in found.checks if c.outcome == "warning"], str(found)
    assert ("csv" in [c.name for c in found.checks]) is (kind == "pure")
    assert found["reproduction"].outcome == ("note" if kind in ("no seed", "weighed", "subspace", "grid") else "passed")
    assert all(c.sentence.endswith(".") and len(c.sentence) < 400 for c in found.checks)


def test_transformations_are_replayed_exactly(make):
    assert (
        ss.verify(make())["transformations"].sentence
        == "Each of 3 transformations is exactly what follows from earlier releases."
    )


def flip(folder):
    content = bytearray((folder / ROWS).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / ROWS).write_bytes(content)


def test_a_flipped_byte(make):
    folder = make()
    flip(folder)
    assert "hashes" in failed(folder)


def test_missing_and_extra_files(make, tmp_path):
    folder = make()
    (folder / "private.csv").write_text("age\n47\n")
    assert failed(folder) == {"files"}
    reseal(folder)
    assert failed(folder) == {"files", "words"}
    (folder / "private.csv").unlink()
    reseal(folder)
    assert failed(folder) == set()
    (folder / MOMENTS).rename(tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", folder / MOMENTS)
    assert {"files", "hashes", "moments"} <= failed(folder)
    (folder / MOMENTS).unlink()
    assert {"files", "hashes", "moments"} <= failed(folder)


def budget(**changes):
    def change(d):
        d["budget"].update(changes)

    return change


def reworded(change):
    """Make a change of figures and the promise that goes with them, as a careful forger would."""

    def both(d):
        before = d["budget"]["epsilon"]
        change(d)
        d["promise"] = d["promise"].replace(f"epsilon = {before:g}", f"epsilon = {d['budget']['epsilon']:g}")

    return both


def scaled(name, factor, i=0):
    return lambda d: d["charges"][i].update({name: d["charges"][i][name] * factor})


def moment(i, **changes):
    return lambda d: d["moments"][i].update({k: f(d["moments"][i][k]) for k, f in changes.items()})


def knots(step):
    def change(d):
        lines = d["moments"][1]["view"]["knots"]
        lines[0][100] += step if lines[0][100] < 0 else -step

    return change


def counts(change):
    def changed(d):
        (counted,) = [m for m in d["moments"] if m["view"] and "counts" in m["view"]]
        change(counted)

    return changed


def tables(order, change):
    def changed(d):
        (found,) = [m for m in d["moments"] if m["view"] and m["view"].get("order") == order]
        change(found)

    return changed


def choice(**changes):
    return tables(2, lambda m: m["choice"].update(changes))


def unpaid_choice(d):
    d["charges"] = [one for one in d["charges"] if one["mechanism"] != "noisy maxima"]


def swap_transformation(d):
    d["moments"][1]["view"]["knots"] = [[int(k) for k in np.linspace(-65536, 65536, 513)]] * 3


# What is changed (in which kind of release and file), and the checks that must notice.
FORGERIES = {
    "a smaller epsilon": ("gaussian", RECEIPT, reworded(budget(epsilon=1.0)), {"budget"}),
    "a smaller pure epsilon": ("pure", RECEIPT, reworded(budget(epsilon=0.5)), {"budget"}),
    "a hair below": ("pure", RECEIPT, budget(epsilon=1.0 - 1e-9), {"budget"}),
    "a larger epsilon": ("gaussian", RECEIPT, budget(epsilon=4.0), {"words"}),
    "a smaller delta": ("gaussian", RECEIPT, budget(delta=1e-9), {"budget", "words"}),
    "pure after all": ("gaussian", RECEIPT, budget(delta=0.0), {"budget", "words"}),
    "less spent": ("gaussian", RECEIPT, lambda d: d["spent"].update(epsilon=0.1), {"budget"}),
    "another promise": ("pure", RECEIPT, lambda d: d.update(promise=d["promise"].replace("= 1", "= 0.1")), {"words"}),
    "no promise": ("pure", RECEIPT, lambda d: d.pop("promise"), {"words"}),
    "other neighbours": ("pure", RECEIPT, lambda d: d.update(neighbours="No two tables."), {"words"}),
    "another sentence": ("pure", RECEIPT, lambda d: d["charges"][0].update(in_words="Nothing."), {"words"}),
    "another way to make rows": ("pure", RECEIPT, lambda d: d.update(candidates="the private rows"), {"words"}),
    "another method": ("pure", RECEIPT, lambda d: d.update(method="best"), {"words"}),
    "a charge dropped": ("gaussian", RECEIPT, lambda d: d["charges"].pop(), {"charges", "budget"}),
    "no charges": ("gaussian", RECEIPT, lambda d: d["charges"].clear(), {"charges", "budget"}),
    "a measurement dropped": ("gaussian", MOMENTS, lambda d: d["moments"].pop(), {"charges"}),
    "a multiplier": ("gaussian", RECEIPT, scaled("multiplier", 1.5), {"charges", "noise"}),
    "a multiplier with its noise": (
        "gaussian", RECEIPT, lambda d: [scaled(n, 1.5)(d) for n in ("multiplier", "scale")], {"charges", "budget"}),
    "a multiplier everywhere": ("gaussian", MOMENTS, moment(0, multiplier=lambda m: m / 2), {"charges"}),
    "a pure share": ("pure", RECEIPT, scaled("epsilon", 0.5), {"charges", "noise"}),
    "a share of nothing": ("pure", RECEIPT, scaled("epsilon", 0.0), {"charges", "noise", "budget"}),
    "a sensitivity": ("pure", RECEIPT, scaled("sensitivity", 0.5), {"sensitivities", "noise"}),
    "a sensitivity with its noise": (
        "gaussian", RECEIPT, lambda d: [scaled(n, 0.5)(d) for n in ("sensitivity", "scale")], {"sensitivities"}),
    "less noise": ("gaussian", RECEIPT, scaled("scale", 0.9), {"noise", "budget", "words"}),
    "more noise": ("gaussian", RECEIPT, scaled("scale", 1.1), {"noise"}),
    "another mechanism": ("pure", RECEIPT, lambda d: d["charges"][0].update(mechanism="discrete laplace"), {"charges"}),
    "weights": ("gaussian", MOMENTS, moment(0, weights=lambda w: [2 * x for x in w]), {"sensitivities"}),
    "weights of a cube": ("pure", MOMENTS, moment(0, weights=lambda w: [2 * x for x in w]), {"sensitivities"}),
    "more features": (
        "pure", MOMENTS, moment(0, features=lambda f: f * 2, weights=lambda w: w * 2, integers=lambda z: z * 2),
        {"charges"}),
    "other features": ("gaussian", MOMENTS, moment(0, features=lambda f: [*f[:-1], [[[0, 1], [1, 1]]]]), {"sensitivities"}),
    "a column that is not there": ("gaussian", MOMENTS, moment(0, features=lambda f: [[[[9, 1]]], *f[1:]]), {"charges"}),
    "more rows": ("gaussian", RECEIPT, lambda d: d.update(rows=4000), {"charges"}),
    "fewer rows of a person": ("several rows of a person", RECEIPT, lambda d: d.update(rows_per_person=1), {"charges"}),
    "rows of a person everywhere": (
        "several rows of a person", MOMENTS,
        lambda d: [m.update(rows_per_person=1) for m in d["moments"]], {"charges", "sensitivities"}),
    "a sum out of reach": ("gaussian", MOMENTS, moment(0, integers=lambda z: [10**12, *z[1:]]), {"range"}),
    "a transformation": ("gaussian", MOMENTS, knots(400), {"transformations"}),
    "another transformation": ("gaussian", MOMENTS, swap_transformation, {"transformations"}),
    "a transformation under pure epsilon": (
        "pure", MOMENTS, moment(0, view=lambda _: {"knots": [list(range(513))] * 3, "radius": None, "pooled": False}),
        {"transformations"}),
    "cosines for soft counts": ("soft counts", MOMENTS, counts(lambda m: m["view"].pop("counts")), {"sensitivities"}),
    "soft counts of nothing": ("soft counts", MOMENTS, counts(lambda m: m["view"].update(counts=1)), {"moments"}),
    "a word for a number": ("soft counts", MOMENTS, counts(lambda m: m["view"].update(counts="12")), {"moments"}),
    "products of soft counts": (
        "soft counts", MOMENTS, counts(lambda m: m["features"].__setitem__(0, [[[0, 1], [1, 1]]])), {"moments"}),
    "weights of soft counts": (
        "soft counts", MOMENTS, counts(lambda m: m.update(weights=[2 * w for w in m["weights"]])), {"sensitivities"}),
    "soft counts for cosines of them": (
        "tables", MOMENTS, counts(lambda m: m["view"].pop("cosines")), {"sensitivities", "words"}),
    "a word for cosines": ("tables", MOMENTS, counts(lambda m: m["view"].update(cosines="yes")), {"moments"}),
    "weights of cosines": (
        "tables", MOMENTS, counts(lambda m: m.update(weights=[m["weights"][0]] * len(m["weights"]))), {"sensitivities"}),
    "a single value that no schema names": (
        "tables", MOMENTS, tables(1, lambda m: m["view"]["columns"][0]["atoms"].__setitem__(0, 777)), {"words"}),
    "single values in another order": (
        "tables", MOMENTS, tables(1, lambda m: m["view"]["columns"][0]["atoms"].reverse()), {"words"}),
    "a cell of a table for a single value": (
        "tables", MOMENTS, tables(2, lambda m: m["view"]["columns"][m["tables"][0][0]].update(
            hats=m["view"]["columns"][m["tables"][0][0]]["hats"] - 1, atoms=[777])), {"transformations"}),
    "columns of tables in another order": (
        "tables", MOMENTS, tables(2, lambda m: m["view"]["columns"].reverse()), {"moments"}),
    "more tables chosen than there are": ("tables", MOMENTS, choice(count=2), {"moments"}),
    "a choice that costs less": ("tables", MOMENTS, choice(multiplier=100.0), {"charges"}),
    "a choice with two costs": ("tables", MOMENTS, choice(epsilon=1.0), {"moments"}),
    "what was expected of a choice": ("tables", MOMENTS, choice(expected=[1, 2, 3]), {"form"}),
    "no choice": ("tables", MOMENTS, tables(2, lambda m: m.pop("choice")), {"charges"}),
    "a choice that is not paid for": ("tables", RECEIPT, unpaid_choice, {"charges"}),
    "a table twice": ("tables", MOMENTS, tables(2, lambda m: m.update(tables=m["tables"] * 2)), {"moments"}),
    "weights of tables": ("tables", MOMENTS, tables(2, lambda m: m.update(weights=[1])), {"form"}),
    "a cell of a table out of reach": (
        "tables", MOMENTS, tables(2, lambda m: m["integers"].__setitem__(0, 10**12)), {"range"}),
    "moments that lead elsewhere": ("gaussian", MOMENTS, moment(0, integers=lambda z: [-x for x in z]), {"transformations"}),
    "another start": ("subspace", MOMENTS, lambda d: d["subspace"].update(start=[[0.5] * 3] * 3), {"transformations"}),
    "products out of reach": (
        "subspace", MOMENTS, lambda d: d["subspace"]["products"][0].__setitem__(0, 10**15), {"range"}),
    "an iteration without charge": ("subspace", RECEIPT, lambda d: d["charges"].pop(), {"charges"}),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_with_the_right_hashes_is_caught(name, make):
    kind, file, change, noticed = FORGERIES[name]
    folder = make(kind)
    edit(folder, file, change)
    found = failed(folder)
    assert noticed <= found, str(ss.verify(folder))
    assert not {"files", "hashes"} & found


@pytest.mark.parametrize("kind", ["gaussian", "tables"])
def test_what_an_earlier_format_measured_and_nothing_learns_from_is_charged_too(make, kind):
    """Once, and once more where there was a choice, as of tables."""
    folder = make(kind)

    def older(document):
        document["format"] = 3
        document["moments"][-1]["view"]["waves"] = True

    edit(folder, MOMENTS, older)
    edit(folder, RECEIPT, lambda d: d.update(format=3))
    assert not {"charges", "form"} & failed(folder)
    assert {"charges", "form"} <= set(ss.verify(folder).unchecked)
    edit(folder, RECEIPT, lambda d: d["charges"].pop())
    assert "charges" in failed(folder)
    with pytest.raises(ss.ReleaseError, match=r"one for one|add up"):
        ss.load(folder)
    edit(folder, MOMENTS, lambda d: d.update(rows=[[1.0]]))
    assert {"charges", "form"} <= failed(folder)


def other_rows(folder, change):
    table = parquet.read_table(folder / ROWS)
    out = io.BytesIO()
    parquet.write_table(change(table), out, compression="zstd")
    (folder / ROWS).write_bytes(out.getvalue())
    reseal(folder)


def first_value(name, value):
    return lambda t: t.set_column(
        t.column_names.index(name), name, pa.array([value, *t[name].to_pylist()[1:]], t[name].type)
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (first_value("age", 120.5), "1 values are not within 0 to 120"),
        (first_value("visits", -1), "1 values are not within 0 to 20"),
        (first_value("income", math.nan), "1 values are not within"),
        (first_value("age", None), "1 values are missing"),
        (lambda t: t.slice(1), "has 399 rows; the receipt says 400"),
        (lambda t: t.set_column(2, "visits", t["visits"].cast(pa.float64())), "columns and types"),
        (lambda t: t.append_column("name", pa.array(["x"] * 400)), "columns and types"),
        (lambda t: t.append_column("age", t["age"]), "columns and types"),
        (lambda t: t.select(["income", "age", "visits"]), "columns and types"),
    ],
)
def test_rows_that_the_schema_does_not_allow(make, change, words):
    folder = make()
    other_rows(folder, change)
    assert "rows" in failed(folder)
    assert words in ss.verify(folder)["rows"].sentence


def test_rows_that_cannot_be_read_leave_the_other_checks(make):
    folder = make()
    (folder / ROWS).write_bytes(b"PAR1")
    reseal(folder)
    assert failed(folder) == {"rows", "metadata"}
    assert ss.verify(folder)["transformations"].outcome == "passed"


def test_other_rows_that_contradict_the_moments_fail_unless_the_outcome_says_so(make):
    folder = make(csv=False)
    rng = np.random.default_rng(1)
    other_rows(folder, lambda t: pa.table({"age": rng.uniform(0, 120, 400), "income": rng.uniform(0, 1e6, 400),
                                           "visits": rng.integers(0, 21, 400)}))  # fmt: skip
    redraw(folder)
    found = ss.verify(folder)
    assert found["moments"].sentence == "The outcome does not say what rows and moments show of each other."
    assert found["reproduction"].outcome == "warning"
    receipt = json.loads((folder / "receipt.json").read_text(encoding="utf-8"))
    loaded = ss.load(folder)
    unit = loaded.schema.to_unit({name: loaded.to_arrow()[name] for name in loaded.schema.names})
    receipt["fit"]["outcome"] += f" {remarks(loaded.schema, loaded.moments, unit)}"
    (folder / "receipt.json").write_text(as_text(receipt), encoding="utf-8")
    redraw(folder)
    found = ss.verify(folder)
    assert found.passed
    assert found["moments"].outcome == "warning"
    assert "'income'" in found["moments"].sentence


def test_one_changed_row_is_not_what_the_seed_draws(make):
    folder = make(csv=False)
    other_rows(folder, first_value("age", 47.0))
    assert failed(folder) == {"page", "metadata"}
    redraw(folder)
    assert ss.verify(folder)["reproduction"].outcome == "warning"


def test_knots_that_differ_in_the_last_digits_are_called_close(make):
    folder = make("gaussian")
    edit(folder, MOMENTS, knots(3))
    found = ss.verify(folder)["transformations"]
    assert found.outcome == "warning"
    assert "at most 3 of 65,536" in found.sentence


def test_a_csv_with_other_rows(make):
    folder = make("pure", csv=True)
    text = (folder / "synthetic.csv").read_text().splitlines()
    for lines in ([*text[:-1], "1,1,1"], text[:-1], [*text, text[-1]], ["a,b,c", *text[1:]], ["age", "1"], []):
        (folder / "synthetic.csv").write_text("\n".join(lines))
        reseal(folder)
        assert failed(folder) == {"csv", "metadata"}


def test_the_search_catches_a_bound_that_is_too_small(make, monkeypatch):
    """The recomputed bound is trusted by the other checks: if it were wrong, the search must say so."""
    from smoothsynth.queries.measurement import Measurement

    folder = make()
    right = Measurement.sensitivity.fget
    monkeypatch.setattr(Measurement, "sensitivity", property(lambda self: round(right(self) * 0.9)))
    assert "Two rows were found" in ss.verify(folder)["search"].sentence


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("mu", [0.02, 0.17, 1.0, 3.0])
def test_the_integral_agrees_with_independent_accountants(mu, epsilon):
    from scipy.stats import norm

    found = gaussian_delta_by_integral(mu, epsilon)
    exact = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert found == pytest.approx(exact, rel=1e-6, abs=1e-15)
    if exact > 1e-12:
        from dp_accounting import dp_event
        from dp_accounting.pld import PLDAccountant

        accountant = PLDAccountant().compose(dp_event.GaussianDpEvent(1 / mu))
        assert accountant.get_delta(epsilon) == pytest.approx(found, rel=0.02)


def test_dp_accounting_confirms_the_budget_of_a_receipt(make):
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    facts = json.loads((make() / RECEIPT).read_text())
    accountant = PLDAccountant()
    for charge in facts["charges"]:
        accountant.compose(dp_event.GaussianDpEvent(charge["multiplier"]))
    assert accountant.get_epsilon(facts["budget"]["delta"]) == pytest.approx(facts["spent"]["epsilon"], rel=2e-3)


@pytest.mark.parametrize(
    "harm", ["nothing", "empty", "a file", "no receipt", "text", "a list", "other format", "no keys"]
)
def test_what_is_no_release_is_refused_in_a_sentence(make, tmp_path, harm):
    folder = make()
    if harm == "nothing":
        folder = tmp_path / "nowhere"
    elif harm == "empty":
        folder = tmp_path / "empty"
        folder.mkdir()
    elif harm == "a file":
        folder = folder / ROWS
    elif harm == "no receipt":
        (folder / RECEIPT).unlink()
    else:
        texts = {"text": "hello", "a list": "[]", "other format": '{"format": 99}', "no keys": '{"format": 1}'}
        (folder / RECEIPT).write_text(texts[harm])
    with pytest.raises(ss.ReleaseError):
        ss.verify(folder)
    shown = run("verify", folder)
    assert shown.exit_code == 1
    assert "Error:" in shown.stderr
    assert shown.stdout == ""


def test_the_command_says_it_with_ticks_and_an_exit_code(make):
    folder = make()
    good = run("verify", folder)
    assert good.exit_code == 0
    assert good.stdout.count("✓") == len(ss.verify(folder).checks)
    assert "Nothing was refuted" in good.stdout
    assert sha256(folder / RECEIPT) in good.stdout.replace("\n", "")
    flip(folder)
    bad = run("verify", folder)
    assert bad.exit_code == 3
    assert "✗" in bad.stdout
    assert "checks failed" in bad.stderr
    document = json.loads(run("verify", folder, "--json").stdout)
    assert document["passed"] is False
    assert {"name", "passed", "outcome", "sentence"} == set(document["checks"][0])


def test_names_in_a_folder_are_not_read_as_markup(make):
    folder = make()
    (folder / "[red]x[").write_text("")
    shown = run("verify", folder)
    assert shown.exit_code == 3
    assert "[red]x[" in shown.stdout
