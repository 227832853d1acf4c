"""Levels that nobody knows: the frequent ones are found, the rare ones leave no trace, and it is paid for."""

import copy
import json
import pickle
import warnings

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.accounting.ledger import Ledger, LedgerFile
from smoothsynth.discovery import search
from smoothsynth.discovery.levels import LONGEST_LEVEL, MOST_FOUND, LevelsMeasurement, NoisyLevels
from smoothsynth.pipeline.plan import plan, plan_found
from smoothsynth.private.measure import measure_levels
from smoothsynth.private.sealed import count_values
from smoothsynth.private.table import open_table
from smoothsynth.schema.unresolved import NONE_FOUND, with_levels

ROWS = 4000
OPEN = ss.Category("private")
BUDGET = {"epsilon": 10.0, "delta": 1e-6, "seed": 1}
RARE = "Ruritania"


def cities(rows=ROWS):
    drawn = np.random.default_rng(4).choice(["Rome", "Oslo", "Bern"], rows, p=[0.6, 0.3, 0.1]).tolist()
    drawn[7] = RARE
    return drawn


def released(values, column=OPEN, **settings):
    return ss.release(pa.table({"x": values}), schema=ss.Schema({"x": column}), **{**BUDGET, **settings})


def test_frequent_values_are_found_in_the_order_of_the_alphabet():
    made = released(cities())
    assert made.schema.columns["x"] == ss.Category(["Bern", "Oslo", "Rome", "other"], other="other")
    assert released(cities()[::-1]).schema == made.schema
    shares = made.to_pandas()["x"].value_counts(normalize=True)
    assert shares["Rome"] == pytest.approx(0.6, abs=0.03)
    assert RARE not in json.dumps(made.found.as_dict())


def test_other_can_be_named_and_missing_cells_kept():
    values = [None if i % 4 == 0 else city for i, city in enumerate(cities())]
    made = released(values, ss.Category("private", other="elsewhere", nullable=True))
    column = made.schema.columns["x"]
    assert column.levels == ("Bern", "Oslo", "Rome", "elsewhere")
    assert 800 < made.to_arrow()["x"].null_count < 1200


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([i % 3 for i in range(ROWS)], ("0", "1", "2")),
        ([float(i % 2) for i in range(ROWS)], ("0", "1")),
        ([" a " if i % 2 else "a" for i in range(ROWS)], ("a",)),
        (["other" if i % 2 else "a" for i in range(ROWS)], ("a",)),
        (["b" * (LONGEST_LEVEL + i % 2) for i in range(ROWS)], ("b" * LONGEST_LEVEL,)),
        (pa.array(["u", "v"] * (ROWS // 2)).dictionary_encode(), ("u", "v")),
    ],
)
def test_values_of_any_type_are_found_as_text(values, found):
    assert released(values).schema.columns["x"].levels == (*found, "other")


def test_of_too_many_values_the_most_frequent_are_taken():
    often = {f"v{i:03}": 60 if i < 200 else 30 for i in range(300)}
    table = pa.table({"x": [text for text, times in often.items() for _ in range(times)]})
    schema = ss.Schema({"x": OPEN})
    measurement = LevelsMeasurement("x", 50.0, 1e-3)
    (noisy,) = measure_levels(open_table(table, schema), [measurement], ledger=Ledger(ss.Budget(50.0, 1e-3)))
    texts = [text for text, _ in noisy.counts]
    assert len(texts) == MOST_FOUND
    assert set(texts) >= {f"v{i:03}" for i in range(200)}
    assert texts == sorted(texts)
    assert len(with_levels(OPEN, texts).levels) == MOST_FOUND + 1


@pytest.mark.parametrize("values", [[f"{RARE} {i}" for i in range(ROWS)], pa.array([None] * ROWS, pa.string())])
def test_where_no_level_is_found_all_cells_are_other_and_that_is_said(values, tmp_path):
    with pytest.warns(UserWarning, match="Column 'x': no value stands out of the noise") as caught:
        made = released(values)
    assert RARE not in str(caught[0].message)
    assert made.schema.columns["x"] == ss.Category([NONE_FOUND, "other"], other="other")
    assert made.to_pandas()["x"].eq("other").mean() > 0.95
    checked = ss.verify(made.write(tmp_path / "out"))
    assert checked.passed, str(checked)
    assert "no value stands out" in str(checked)


def test_a_filter_of_warnings_does_not_lose_what_is_spent():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("error")
        made = released([f"{RARE} {i}" for i in range(ROWS)])
    assert [str(one.message) for one in told] == made.found.remarks() != []


def test_more_private_levels_than_can_be_measured_are_refused_before_anything_is_spent():
    schema = ss.Schema({f"x{i}": OPEN for i in range(20)})
    with pytest.raises(ss.PlanError, match="20 columns have private levels"):
        plan(schema, ROWS, epsilon=1.0, delta=1e-6)
    assert plan(ss.Schema({f"x{i}": OPEN for i in range(19)}), ROWS, epsilon=1.0, delta=1e-6).dimensions == 19 * 8


def test_rare_values_are_nowhere_in_a_release(tmp_path):
    path = released(cities()).write(tmp_path / "out", csv=True)
    for file in path.iterdir():
        assert RARE.encode() not in file.read_bytes(), file.name
    checked = ss.verify(path)
    assert checked.passed, str(checked)


def test_sealed_counts_show_nothing():
    (sealed,) = count_values(open_table(pa.table({"x": cities()}), ss.Schema({"x": OPEN})), ["x"])
    assert repr(sealed) == "<sealed counts>"
    for action in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied"):
            action(sealed)


def test_what_is_planned_is_charged(tmp_path):
    schema = ss.Schema({"x": OPEN, "y": OPEN, "age": ss.Number("private", "private")})
    rng = np.random.default_rng(1)
    table = pa.table({"x": cities(), "y": cities()[::-1], "age": rng.normal(50.0, 10.0, ROWS)})
    LedgerFile.create(tmp_path / "l", ss.Budget(20.0, 1e-5))
    planned = ss.plan(schema, ROWS, epsilon=10.0, delta=1e-6)
    made = ss.release(table, schema=schema, ledger=tmp_path / "l", **BUDGET)
    first = planned.discovery.charges
    assert made.receipt.charges[: len(first)] == first
    assert made.receipt.spent.epsilon <= 10.0
    assert made.receipt.spent.epsilon >= 9.99
    assert made.receipt.spent.delta == 1e-6
    # Recorded once each, although the rest was planned anew for the levels that were found.
    assert LedgerFile(tmp_path / "l").charges == made.receipt.charges
    statement = LedgerFile(tmp_path / "l").read()
    assert 0.0 < statement.left_for_gaussian < 20.0
    assert "the levels of column 'x'" in " ".join(str(planned).split())


def test_the_rest_fits_whatever_number_of_levels_is_found():
    schema = ss.Schema({"x": OPEN, "age": ss.Number("private", "private"), "z": ss.Number(0, 1)})
    for rows, epsilon, delta in ((500, 1.0, 1e-6), (10**5, 1.0, 1e-12), (10**4, 0.1, 1e-6), (3000, 4.0, 1e-9)):
        planned = plan(schema, rows, epsilon=epsilon, delta=delta)
        for count in (1, 7, 100):
            columns = {
                "x": with_levels(OPEN, [f"l{i}" for i in range(count)]),
                "age": ss.Number(0, 1),
                "z": ss.Number(0, 1),
            }
            again = plan_found(planned, ss.Schema(columns))
            assert again.charges[:4] == planned.discovery.charges
            assert again.cost.epsilon <= epsilon
            assert again.cost.delta <= delta


REFUSED = {
    "pure": ({"delta": 0.0}, ss.PlanError, "need delta > 0"),
    "several rows": ({"rows_per_person": 2}, ss.PlanError, "protect single rows"),
    "no share": ({"levels_share": 0}, ss.PlanError, "levels_share must be"),
    "a small table": ({"epsilon": 0.01}, ss.PlanError, "Nothing was spent"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_before_anything_is_spent(kind, tmp_path):
    settings, error, words = REFUSED[kind]
    LedgerFile.create(tmp_path / "l", ss.Budget(20.0, 1e-5))
    with pytest.raises(error, match=words):
        released(cities(), ledger=tmp_path / "l", **settings)
    assert not LedgerFile(tmp_path / "l").charges


def test_levels_are_not_counted_on_a_cluster():
    class Elsewhere:
        def sums(self, *_arguments, **_options):
            raise AssertionError

    with pytest.raises(ss.PlanError, match="counted by the local engine only"):
        released(cities(), engine=Elsewhere())


def test_a_ledger_without_delta_takes_no_levels(tmp_path):
    LedgerFile.create(tmp_path / "l", ss.Budget(20.0))
    with pytest.raises(ss.BudgetError, match="delta = 0"):
        released(cities(), ledger=tmp_path / "l")


def test_a_ledger_counts_deltas(tmp_path):
    file = LedgerFile.create(tmp_path / "l", ss.Budget(20.0, 1e-6))
    charge = LevelsMeasurement("x", 1.0, 6e-7).charge()
    file.charge(charge)
    assert file.read().spent == (1.0, 6e-7)
    with pytest.raises(ss.BudgetError, match="delta"):
        file.charge(charge)
    assert ss.Charge.from_dict(charge.as_dict()) == charge


def forge(folder, change):
    from smoothsynth.pipeline.release import sha256

    document = json.loads((folder / "moments.json").read_text())
    change(document["found"]["levels"][0])
    (folder / "moments.json").write_text(json.dumps(document))
    receipt = json.loads((folder / "receipt.json").read_text())
    receipt["sha256"] = {p.name: sha256(p) for p in sorted(folder.iterdir()) if p.name != "receipt.json"}
    (folder / "receipt.json").write_text(json.dumps(receipt))


@pytest.mark.parametrize(
    "change",
    [
        lambda levels: levels["counts"].append(["Zion", 5000]),
        lambda levels: levels["counts"].pop(),
        lambda levels: levels["counts"].reverse(),
        lambda levels: levels["counts"][0].__setitem__(1, 1),
        lambda levels: levels.update(delta=1e-9),
        lambda levels: levels.update(rows=1),
        lambda levels: levels.update(column="y"),
    ],
)
def test_forged_levels_are_caught(change, tmp_path):
    path = released(cities()).write(tmp_path / "out")
    forge(path, change)
    assert not ss.verify(path).passed
    with pytest.raises(ss.ReleaseError):
        ss.load(path)


def test_levels_are_read_as_they_were_written():
    noisy = NoisyLevels(LevelsMeasurement("x", 1.0, 1e-6), 500, (("a", 300), ("b", 200)))
    assert NoisyLevels.from_dict(json.loads(json.dumps(noisy.as_dict()))) == noisy


def test_gaussian_levels_are_read_as_they_were_written():
    noisy = NoisyLevels(LevelsMeasurement("x", None, 1e-6, 3.0), 500, (("a", 300), ("b", 200)))
    assert NoisyLevels.from_dict(json.loads(json.dumps(noisy.as_dict()))) == noisy
    assert ss.Charge.from_dict(noisy.measurement.charge().as_dict()) == noisy.measurement.charge()
    with pytest.raises(ss.PlanError, match="not both"):
        NoisyLevels.from_dict({**noisy.as_dict(), "epsilon": 1.0})


def test_a_folder_of_an_earlier_version_is_verified(tmp_path, monkeypatch):
    """Levels had Laplace noise, and all else Gaussian noise."""
    planned = search._levels
    monkeypatch.setattr(search, "_levels", lambda *given, **told: planned(*given, **{**told, "gaussian": False}))
    made = released(cities(), method=ss.methods.Adaptive(noise="gaussian"))
    monkeypatch.undo()
    first, *others = made.receipt.charges
    assert first.epsilon == 1.0
    assert all(charge.multiplier is not None for charge in others)
    path = made.write(tmp_path / "out")
    checked = ss.verify(path)
    assert checked.passed, str(checked)
    assert ss.load(path).found == made.found


def test_with_pure_noise_for_all_else_levels_have_laplace_noise():
    schema, pure = ss.Schema({"x": OPEN, "z": ss.Number(0, 1)}), ss.methods.Adaptive(noise="pure")
    planned = plan(schema, ROWS, epsilon=2.0, delta=1e-6, method=pure)
    assert {charge.multiplier for charge in planned.charges} == {None}
    assert planned.discovery.levels[0].epsilon == pytest.approx(0.2)
    assert planned.cost == ss.Budget(planned.cost.epsilon, 1e-7)
    assert planned.cost.epsilon <= 2.0


def test_a_typing_error_is_refused():
    for column, words in (
        (ss.Category("privat"), 'or "private" to be found'),
        (ss.Category("private", other=3), "must be a text"),
    ):
        with pytest.raises(ss.SchemaError, match=words):
            ss.Schema({"x": column})


def test_from_a_csv_file(tmp_path):
    (tmp_path / "t.csv").write_text("x\n" + "\n".join("NA" if i % 5 == 0 else c for i, c in enumerate(cities())) + "\n")
    made = ss.release(tmp_path / "t.csv", schema=ss.Schema({"x": OPEN}), **BUDGET)
    assert made.schema.columns["x"].levels == ("Bern", "Oslo", "Rome", "other")


def test_another_accountant_agrees_with_the_sum():
    pld = pytest.importorskip("dp_accounting.pld")
    from dp_accounting import dp_event

    from smoothsynth.accounting.statement import accounting_events

    schema = ss.Schema({"x": OPEN, "age": ss.Number("private", "private"), "z": ss.Number(0, 1)})
    charges = plan(schema, 10**5, epsilon=1.0, delta=1e-6).charges
    accountant, delta = pld.PLDAccountant(), 1e-6
    for event in accounting_events(charges):
        delta -= event.pop("plus_delta", 0.0)
        accountant.compose(getattr(dp_event, event.pop("event"))(**event))
    assert delta == pytest.approx(9e-7)
    # Nothing is given away: levels count as Gaussian noise, like all else.
    assert 0.999 < accountant.get_epsilon(delta) <= 1.0 + 1e-3


def test_a_ledger_shows_the_delta_of_a_charge(tmp_path):
    from typer.testing import CliRunner

    from smoothsynth.cli.main import app

    file = LedgerFile.create(tmp_path / "l", ss.Budget(20.0, 1e-6))
    file.charge(LevelsMeasurement("x", 1.0, 6e-7).charge())
    shown = CliRunner().invoke(app, ["ledger", "show", str(tmp_path / "l")], env={"COLUMNS": "160"})
    assert "delta 6e-07" in " ".join(shown.output.split())


@pytest.mark.parametrize("levels", [2, 6, 40, 200])
def test_a_plan_made_again_for_the_levels_found_keeps_to_the_division_of_the_first(levels):
    schema = ss.Schema({"a": ss.Number(0.0, 1.0), "b": ss.Category("private", other="other")})
    planned = ss.plan(schema, 20_000, epsilon=1.0, delta=1e-6)
    found = ss.Category([*(f"l{i}" for i in range(levels)), "other"], other="other")
    again = plan_found(planned, ss.Schema({"a": ss.Number(0.0, 1.0), "b": found}))
    assert {m.mechanism for m in again.measurements} == {m.mechanism for m in planned.measurements}
    ledger = Ledger(planned.budget, planned=planned.charges)
    for charge in again.charges:
        ledger.charge(charge)
    with pytest.raises(ss.BudgetError):
        ledger.charge(again.charges[-1])


def test_levels_found_do_not_change_the_kind_of_noise():
    """With one column of few levels a pure plan would be better; the division was fixed before they were found."""
    schema = ss.Schema({"b": ss.Category("private", other="other")})
    planned = ss.plan(schema, 2_000, epsilon=1.0, delta=1e-6, method=ss.methods.Adaptive(noise="gaussian"))
    again = plan_found(planned, ss.Schema({"b": ss.Category(["x", "other"], other="other")}))
    assert all(m.multiplier is not None for m in again.measurements)


def test_pure_noise_can_be_asked_for_with_private_levels():
    schema = ss.Schema({"a": ss.Number(0.0, 1.0), "b": ss.Category("private", other="other")})
    planned = ss.plan(schema, 20_000, epsilon=1.0, delta=1e-6, method=ss.methods.Adaptive(noise="pure"))
    assert all(charge.multiplier is None for charge in planned.charges)
    assert planned.cost.delta < 1e-6
