"""Tables are found that the rows have most wrong, and only those are measured: from the plan to the last check."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import smoothsynth as ss
from smoothsynth.accounting.charges import MAXIMA, PURE_MAXIMA
from smoothsynth.accounting.ledger import Ledger
from smoothsynth.errors import BudgetError, PlanError
from smoothsynth.pipeline.release import sha256
from smoothsynth.pipeline.rounds import Rounds
from smoothsynth.private import measure, noise
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.measurement import NoisyMoments

ROWS = 1_500
SCHEMA = ss.Schema(
    {
        "east": ss.Number(-1, 1),
        "alone": ss.Number(0, 1, nullable=True),
        "north": ss.Number(-1, 1),
        "side": ss.Category(["west", "east"]),
    }
)
BUDGETS = {"gaussian": {"epsilon": 4.0, "delta": 1e-6}, "pure": {"epsilon": 16.0}}
CHOOSE = ss.methods.Adaptive(tables=2)


def is_table(noisy):
    return noisy.measurement.family.name == "soft tables" and noisy.measurement.family.order > 1


@pytest.fixture(scope="module")
def rings():
    """Two columns on a ring, one of which tells the level; the other column is alone."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, ROWS)
    east, alone = 0.8 * np.cos(angle), np.where(rng.random(ROWS) < 0.1, np.nan, rng.random(ROWS))
    side = np.where(east > 0, "east", "west")
    return pd.DataFrame({"east": east, "alone": alone, "north": 0.8 * np.sin(angle), "side": side})


@pytest.fixture(scope="module", autouse=True)
def _few_expected_rows():
    """What is expected of tables is read off fewer rows: it is no part of what is stated, and the tests are quicker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("smoothsynth.model.model._EXPECTED_ROWS", 2_000)
        yield


@pytest.fixture(scope="module", params=BUDGETS)
def released(rings, request):
    return ss.release(rings, schema=SCHEMA, seed=1, method=CHOOSE, **BUDGETS[request.param])


@pytest.fixture
def folder(released, tmp_path):
    return released.write(tmp_path / "out")


def test_the_table_that_is_wrong_is_found_and_put_right(rings, released):
    first, second = filter(is_table, released.moments)
    assert [m.measurement.choice.count for m in (first, second)] == [1, 1]
    assert first.features.tables == ((0, 2),)
    assert second.measurement.family.order == 3
    assert {0, 2} <= set(second.features.tables[0]), "triples hold a pair that is known"
    rows = released.unit_rows()
    assert np.mean(np.hypot(rows[:, 0], rows[:, 3]) < 0.5) < 0.1, "independent columns have a quarter there"
    assert np.hypot(rings["east"], rings["north"]).min() > 0.5


def test_every_choice_is_charged_before_what_was_chosen(released):
    charges = released.receipt.charges
    pure = released.receipt.budget.delta == 0.0
    chosen = [PURE_MAXIMA, "discrete laplace"] if pure else [MAXIMA, "discrete gaussian"]
    assert [charge.mechanism for charge in charges][-4:] == chosen * 2
    planned = ss.plan(SCHEMA, ROWS, method=CHOOSE, **BUDGETS["pure" if pure else "gaussian"])
    for stated, charge in zip(planned.charges, charges, strict=True):
        # Before tables are chosen their cells are at most so many; nothing of the noise depends on that.
        assert charge == replace(stated, coordinates=charge.coordinates)
        assert charge.coordinates <= stated.coordinates
    sentence = charges[-2].sentence()
    assert "the 1 largest of all scores" in sentence
    assert "131072" in sentence
    assert planned.cost.epsilon <= released.receipt.budget.epsilon


def offered(budget):
    """The first choice of a plan; of all tables nothing is expected."""
    planned = ss.plan(SCHEMA, ROWS, method=CHOOSE, **BUDGETS["gaussian"])
    found = next(m for m in planned.measurements if m.choice is not None)
    expected = np.zeros(len(found.features), dtype=np.int64)
    return replace(found, choice=replace(found.choice, expected=expected)), Ledger(budget)


def test_nothing_is_chosen_once_the_budget_is_spent(rings, monkeypatch):
    """The ledger refuses the choice itself: no score is looked at, no noise is drawn."""
    drawn = []
    monkeypatch.setattr(noise, "noisy_maxima", lambda *_, **__: drawn.append)
    measurement, ledger = offered(ss.Budget(1e-3, 1e-9))
    with pytest.raises(BudgetError, match="No noise was drawn"):
        measure.measure(open_table(rings, SCHEMA), measurement, engine=LocalEngine(), ledger=ledger)
    assert not drawn


def test_a_choice_that_fails_says_nothing_of_the_scores(rings, monkeypatch):
    seen = []

    def broken(scores):
        seen.extend(scores)
        raise ValueError(f"cannot compare {scores}")

    monkeypatch.setattr(noise, "noisy_maxima", lambda *_, **__: broken)
    measurement, ledger = offered(ss.Budget(4.0, 1e-6))
    with pytest.raises(PlanError, match="failed after it was charged") as raised:
        measure.measure(open_table(rings, SCHEMA), measurement, engine=LocalEngine(), ledger=ledger)
    assert len(seen) == 6
    assert [charge.mechanism for charge in ledger.charges] == [MAXIMA]
    assert raised.value.__context__ is None
    names = [value for entry in raised.traceback for value in entry.locals.values() if value is not seen]
    assert not any(isinstance(value, list) and value[:3] == seen[:3] for value in names)


def test_tables_that_are_known_are_not_offered_again(released):
    planned = ss.plan(SCHEMA, ROWS, method=ss.methods.Adaptive(tables=4), **BUDGETS["gaussian"])
    *before, first, _ = released.moments
    model = Rounds.released(SCHEMA, before, rows=ROWS).after(*before).model
    measurement = next(m for m in planned.measurements if m.choice is not None)
    seen = measurement.through(first.measurement.transformation)
    assert len(model.offer(seen, ROWS).features.tables) == 6
    offer = model.update(first).offer(seen, ROWS)
    assert set(offer.features.tables) == set(measurement.features.tables) - {(0, 2)}
    expected = offer.choice.expected
    for _, where in offer.features.places():
        assert expected[where].sum() == pytest.approx(ROWS * 2**16, abs=where.stop)


def test_a_release_can_be_read_verified_asked_and_sampled(rings, released, folder):
    loaded = ss.load(folder)
    assert loaded.moments == released.moments
    found = ss.verify(folder)
    assert found.passed
    outcomes = {check.name: check.outcome for check in found.checks}
    assert {outcomes[name] for name in ("transformations", "reproduction", "charges", "range")} == {"passed"}
    rows = loaded.sample(60, where={"side": "east"}, seed=3)
    assert set(rows["side"].to_pylist()) == {"east"}
    assert np.mean(np.array(rows["east"]) > -0.2) > 0.8, "the table of the two columns"
    mean = loaded.answer("avg(alone)", confidence=0.9999)
    assert mean.low <= rings["alone"].mean() <= mean.high
    inside = loaded.answer("avg(exp(-10*(east*east+north*north)))", confidence=0.9999)
    assert inside.low <= np.exp(-6.4) <= inside.high
    assert loaded.to_arrow().equals(released.to_arrow())


def forged(folder, change, place=-1):
    """Change one measurement of a release, put the right hashes in, and name the checks that fail."""
    document = json.loads((folder / "moments.json").read_text())
    change(document["moments"][place])
    (folder / "moments.json").write_text(json.dumps(document))
    receipt = json.loads((folder / "receipt.json").read_text())
    receipt["sha256"] = {name: sha256(folder / name) for name in receipt["sha256"]}
    (folder / "receipt.json").write_text(json.dumps(receipt))
    return {check.name for check in ss.verify(folder).checks if check.outcome == "failed"}


def one_more(moments):
    moments["integers"][0] += 2**16 * 40


def another_table(moments):
    moments["tables"] = [[0, 1, 3]] if moments["tables"] != [[0, 1, 3]] else [[0, 1, 2]]


def choose_more(moments):
    moments["choice"]["count"] = 2


def choose_for_less(moments):
    cost = "multiplier" if moments["choice"]["epsilon"] is None else "epsilon"
    moments["choice"][cost] *= 2


def no_choice(moments):
    del moments["choice"]


def measure_with_less_noise(moments):
    cost = "multiplier" if moments["epsilon"] is None else "epsilon"
    moments[cost] *= 0.5 if cost == "multiplier" else 2


def other_hats(moments):
    moments["view"]["columns"][0]["hats"] += 1


def other_order(moments):
    moments["view"]["order"] = 2


CHANGES = [
    one_more,
    another_table,
    choose_more,
    choose_for_less,
    no_choice,
    measure_with_less_noise,
    other_hats,
    other_order,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_was_not_measured_so_is_caught(change, released, tmp_path):
    if released.receipt.budget.delta == 0.0 and change not in (choose_for_less, measure_with_less_noise):
        pytest.skip("the same for both kinds of noise")
    assert forged(released.write(tmp_path / "out"), change)


def test_as_many_tables_are_released_as_were_chosen(released):
    """Noise is that of as many tables as the choice names: more of them would be protected by less."""
    last = released.moments[-1]
    both = last.measurement.family.cells(((0, 1, 2), (0, 2, 3)))
    with pytest.raises(PlanError, match="As many tables"):
        NoisyMoments(replace(last.measurement, features=both), ROWS, (0,) * len(both))


def test_an_update_measures_the_chosen_tables_again_without_choosing(rings, tmp_path):
    key, store = tmp_path / "own.key", tmp_path / "sums"
    ss.federated.make_key(key)
    budget = BUDGETS["gaussian"]
    first = ss.release(rings, schema=SCHEMA, seed=1, method=CHOOSE, keep=store, key=key, **budget)
    again = ss.update(store, rings.iloc[:300], key=key, seed=2, **budget)
    tables = [[m.features.tables for m in filter(is_table, one.moments)] for one in (first, again)]
    assert tables[0] == tables[1]
    assert {charge.mechanism for charge in again.receipt.charges} == {"discrete gaussian"}
    assert again.receipt.rows == ROWS + 300
    assert ss.verify(again.write(tmp_path / "out")).passed


def test_a_study_of_several_sites_has_no_tables(tmp_path):
    ss.federated.make_key(tmp_path / "own.key")
    site = {"north": ss.federated.Site(40_000, tmp_path / "own.pub")}
    start = {"schema": SCHEMA, "sites": site, "key": tmp_path / "own.key", "epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(PlanError, match="tables"):
        ss.federated.start(tmp_path / "a", method=ss.methods.Adaptive(tables=4), **start)
    ss.federated.start(tmp_path / "b", **start)
    assert "noisy maxima" not in (tmp_path / "b" / "request-1.json").read_text()


def test_a_workload_is_measured_and_nothing_else(rings, tmp_path):
    method = ss.methods.Adaptive(workload=[["side", "alone"], ["north", "east", "side"]])
    made = ss.release(rings, schema=SCHEMA, seed=1, method=method, **BUDGETS["gaussian"])
    pairs, triples = filter(is_table, made.moments)
    assert pairs.features.tables == ((1, 3), (0, 2), (0, 3), (2, 3))
    assert triples.features.tables == ((0, 2, 3),)
    assert ss.verify(made.write(tmp_path / "out")).passed
    assert not any(charge.mechanism in (MAXIMA, PURE_MAXIMA) for charge in made.receipt.charges)


def test_constraints_hold_in_rows_with_tables():
    rng, rows = np.random.default_rng(2), 400
    net, place = rng.gamma(2.0, 12.0, rows).clip(0, 100), rng.choice(["a", "b"], rows)
    tax = np.where(place == "a", 0.1, 0.4) * net
    table = pd.DataFrame({"net": net, "tax": tax, "gross": net + tax, "place": place, "age": rng.uniform(20, 80, rows)})
    columns = {"net": ss.Number(0, 100), "tax": ss.Number(0, 50), "gross": ss.Number(0, 150)}
    schema = ss.Schema(
        {**columns, "place": ss.Category(["a", "b"]), "age": ss.Number(0, 100)},
        constraints=["net + tax = gross", "tax <= net"],
    )
    method = ss.methods.Adaptive(workload=[["place", "age"], ["place", "tax"], ["net", "age"]])
    made = ss.release(table, schema=schema, seed=1, method=method, epsilon=20.0, delta=1e-6)
    assert sum(map(is_table, made.moments)) == 1
    for found in (made.to_pandas(), made.sample(50, seed=5).to_pandas()):
        np.testing.assert_allclose(found["net"] + found["tax"], found["gross"], atol=1e-9)
        assert (found["tax"] <= found["net"] + 1e-9).all()
    rates = made.to_pandas().groupby("place")["tax"].mean()
    assert rates["b"] > 1.5 * rates["a"], "levels are swapped until their tables agree"


def test_an_interruption_while_tables_are_chosen_leaves_no_frame_with_exact_scores(monkeypatch):
    """Ctrl-C may come at any time: who catches it finds neither scores nor sums in the frames that it went through."""

    def interrupted(*_given, **_named):
        def sampler(_scores):
            raise KeyboardInterrupt

        return sampler

    monkeypatch.setattr("smoothsynth.private.noise.noisy_maxima", interrupted)
    rows = np.random.default_rng(0).uniform(-1, 1, (20_000, 8))
    columns = {f"c{i}": ss.Number(-1, 1) for i in range(8)}
    frame = pd.DataFrame(rows, columns=list(columns))
    with pytest.raises(KeyboardInterrupt) as caught:
        ss.release(frame, schema=ss.Schema(columns), epsilon=2.0, delta=1e-6, seed=1)
    names = [entry.name for entry in caught.traceback]
    assert "_choose" in names
    assert not {"_largest", "sampler"} & set(names)
