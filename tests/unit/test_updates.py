"""New rows after a release: the bits of one table with the kept transformations, fresh noise, and its cost said before."""

import json
import stat
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import smoothsynth as ss
from smoothsynth.accounting.ledger import Ledger, LedgerFile
from smoothsynth.pipeline import run as pipeline
from smoothsynth.pipeline import update as updates
from smoothsynth.private import measure as door
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.sites.keys import read_key
from smoothsynth.private.sites.store import read_store, write_store
from smoothsynth.private.table import open_table

MONTHS = (0, 1500, 2100, 2400)
GAUSSIAN, PURE = {"epsilon": 1.0, "delta": 1e-6}, {"epsilon": 4.0}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(12)
    n = MONTHS[-1]
    return pd.DataFrame(
        {"age": rng.normal(50, 15, n), "income": rng.lognormal(11, 0.6, n), "visits": rng.poisson(3, n)}
    )


@pytest.fixture
def key(tmp_path):
    ss.federated.make_key(tmp_path / "owner.key")
    return tmp_path / "owner.key"


@pytest.fixture
def store(tmp_path):
    return tmp_path / "people.sums"


def month(people, number):
    return people[MONTHS[number] : MONTHS[number + 1]]


def first_release(people, schema, store, key, **settings):
    return ss.release(month(people, 0), schema=schema, seed=3, keep=store, key=key, **{**GAUSSIAN, **settings})


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE])
def test_stored_sums_are_those_of_one_table_seen_in_the_same_way(budget, people, schema, store, key):
    made = first_release(people, schema, store, key, **{"delta": 0.0, **budget})
    transformations = [m.measurement.transformation for m in made.moments]
    assert len(transformations) > 2
    assert transformations[-1] is not None
    assert any(transformation is not None and transformation.family.shares for transformation in transformations), (
        "soft counts are kept too"
    )
    for number in (1, 2):
        again = ss.update(store, month(people, number), key=key, seed=3, **budget)
        assert again.receipt.rows == MONTHS[number + 1]
        assert [m.measurement.transformation for m in again.moments] == transformations
        assert [m.features for m in again.moments] == [m.features for m in made.moments]
        whole = open_table(people[: MONTHS[number + 1]], schema)
        stored = read_store(store, key=read_key(key))
        for noisy, sums in zip(again.moments, stored.sums, strict=True):
            exact = LocalEngine().sums(whole, noisy.features, transformation=noisy.measurement.transformation)
            assert sums.unseal() == exact.unseal()
        assert stored.kept.rows == MONTHS[number + 1]


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE])
def test_without_noise_an_update_is_the_release_of_all_rows_with_these_transformations(
    budget, people, schema, store, key, monkeypatch
):
    monkeypatch.setattr(door, "_draw_noise", lambda count, _measurement: [0] * count)
    made = first_release(people, schema, store, key, **{"delta": 0.0, **budget})
    again = ss.update(store, month(people, 1), key=key, seed=3, **budget)
    stored = read_store(store, key=read_key(key)).kept
    planned = updates._plan(stored, MONTHS[2], ss.Budget(**budget), size=None, rows_per_person=None)
    table = open_table(people[: MONTHS[2]], schema)
    alone = pipeline.carry_out(planned, table, engine=LocalEngine(), seed=3, earlier=made.moments)
    assert alone.moments == again.moments
    assert alone.to_arrow().equals(again.to_arrow())
    assert alone.receipt == again.receipt


def test_an_update_has_fresh_noise_of_its_own_budget(people, schema, store, key):
    first_release(people, schema, store, key)
    one, two = (ss.update(store, key=key, epsilon=2.0, delta=1e-7) for _ in range(2))
    assert one.receipt.rows == two.receipt.rows == MONTHS[1]
    assert one.receipt.budget == ss.Budget(2.0, 1e-7)
    assert 1.99 < one.receipt.spent.epsilon <= 2.0
    assert one.receipt.spent.delta == 1e-7
    for a, b in zip(one.moments, two.moments, strict=True):
        assert a.integers != b.integers
        assert a.measurement == b.measurement


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE])
def test_the_budget_is_shared_in_the_same_proportions(budget, people, schema, store, key):
    made = first_release(people, schema, store, key, **{"delta": 0.0, **budget})
    again = ss.update(store, key=key, **{**budget, "epsilon": 2 * budget["epsilon"]})
    costs = [[m.measurement.multiplier or 1 / m.measurement.epsilon for m in r.moments] for r in (made, again)]
    ratios = np.array(costs[1]) / np.array(costs[0])
    assert np.allclose(ratios, ratios[0], rtol=1e-9)
    assert ratios[0] < 0.6


def test_sums_that_an_earlier_version_kept_are_updated(people, schema, store, key):
    first_release(people, schema, store, key)
    owner = read_key(key)
    stored = read_store(store, key=owner)
    assert "focus" not in stored.kept.choices
    kept = replace(stored.kept, choices={**stored.kept.choices, "focus": "balanced"})
    write_store(store, replace(stored, kept=kept), key=owner, replace_it=True)
    assert ss.update(store, month(people, 1), key=key, **GAUSSIAN).receipt.method == "auto"


def with_ball(noisy):
    """Return moments as an earlier version released them, which had noise of the ball for products."""
    pairs = noisy.measurement.mechanism == "wishart"
    return replace(noisy, measurement=replace(noisy.measurement, mechanism="ball")) if pairs else noisy


def test_products_that_an_earlier_version_measured_have_todays_noise(people, schema, store, key, tmp_path):
    made = first_release(people, schema, store, key, **{"delta": 0.0, **PURE})
    owner = read_key(key)
    stored = read_store(store, key=owner)
    earlier = tuple(with_ball(noisy) for noisy in made.moments)
    write_store(store, replace(stored, kept=replace(stored.kept, earlier=earlier)), key=owner, replace_it=True)
    again = ss.update(store, month(people, 1), key=key, **PURE)
    mechanisms = [
        (old.measurement.mechanism, new.measurement.mechanism)
        for old, new in zip(again.earlier, again.moments, strict=True)
    ]
    assert ("ball", "wishart") in mechanisms
    again.write(tmp_path / "out")
    assert ss.load(tmp_path / "out").moments == again.moments
    found = {check.name: check.outcome for check in ss.verify(tmp_path / "out").checks}
    assert {found[name] for name in ("charges", "sensitivities", "search", "noise", "budget", "words")} == {"passed"}


def test_noise_of_the_ball_is_read_and_no_longer_drawn(people, schema, store, key):
    made = first_release(people, schema, store, key, **{"delta": 0.0, **PURE})
    old = next(one.measurement for one in map(with_ball, made.moments) if one.measurement.mechanism == "ball")
    charge, count = old.charge(), len(old.features)
    assert charge.norm == "l2"
    assert charge.deviation == pytest.approx(old.sensitivity / old.epsilon * np.sqrt(count + 1))
    ledger = Ledger(ss.Budget(100.0))
    with pytest.raises(ss.PlanError, match="no longer drawn"):
        door.measure(open_table(month(people, 0), schema), old, engine=LocalEngine(), ledger=ledger)
    assert ledger.charges == ()


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE])
def test_an_updated_release_can_be_verified_and_read(budget, people, schema, store, key, tmp_path):
    made = first_release(people, schema, store, key, **{"delta": 0.0, **budget})
    again = ss.update(store, month(people, 1), key=key, seed=4, **budget)
    again.write(tmp_path / "out")
    found = {check.name: check for check in ss.verify(tmp_path / "out").checks}
    assert [c.name for c in found.values() if c.outcome in ("failed", "warning")] == []
    assert "those of an earlier release" in found["transformations"].sentence
    assert "not here" in found["earlier"].sentence
    assert found["reproduction"].outcome == "passed"
    loaded = ss.load(tmp_path / "out")
    assert loaded.earlier == made.moments
    assert loaded.moments == again.moments


def test_transformations_that_do_not_come_from_the_earlier_moments_are_caught(people, schema, store, key, tmp_path):
    first_release(people, schema, store, key)
    again = ss.update(store, month(people, 1), key=key, seed=4, **GAUSSIAN)
    low = again.earlier[0]
    forged = replace(low, integers=tuple(-z for z in low.integers))
    replace(again, earlier=(forged, *again.earlier[1:])).write(tmp_path / "out")
    found = {check.name: check.outcome for check in ss.verify(tmp_path / "out").checks}
    assert found["transformations"] == "failed"
    replace(again, earlier=again.earlier[1:]).write(tmp_path / "out2")
    with pytest.raises(ss.ReleaseError, match="what the earlier ones did"):
        ss.load(tmp_path / "out2")


def far(m):
    return replace(m, integers=(*m.integers[:-1], 2**200))


EARLIER = {
    "a sum of any size": (far, "range"),
    "no noise": (lambda m: replace(m, measurement=replace(m.measurement, multiplier=1e-3)), "moments"),
    "another purpose": (lambda m: replace(m, measurement=replace(m.measurement, purpose="row 17 has it")), "moments"),
    "other weights": (lambda m: replace(m, measurement=replace(m.measurement, weights=(7,) * len(m.features))), "moments"),
    "other rows": (lambda m: replace(m, rows=17), "moments"),
    "another person": (lambda m: replace(m, measurement=replace(m.measurement, rows_per_person=2)), "moments"),
}  # fmt: skip


@pytest.fixture
def updated(people, schema, store, key):
    first_release(people, schema, store, key)
    return ss.update(store, month(people, 1), key=key, seed=4, **GAUSSIAN)


def test_the_last_earlier_moments_are_not_free(updated, tmp_path):
    """Nothing follows from them, so nothing else would notice."""
    for name, (change, noticed) in EARLIER.items():
        folder = tmp_path / name
        replace(updated, earlier=(*updated.earlier[:-1], change(updated.earlier[-1]))).write(folder)
        assert noticed in {check.name for check in ss.verify(folder).failures}, name
        with pytest.raises(ss.ReleaseError):
            ss.load(folder)


def test_earlier_moments_of_more_rows_or_of_a_budget_far_off_are_refused(updated, tmp_path):
    for number, change in enumerate(
        (
            lambda m: replace(m, rows=updated.receipt.rows + 1),
            lambda m: replace(m, measurement=replace(m.measurement, multiplier=1e6 * m.measurement.multiplier)),
        )
    ):
        replace(updated, earlier=tuple(map(change, updated.earlier))).write(tmp_path / str(number))
        with pytest.raises(ss.ReleaseError, match="arlier moments"):
            ss.load(tmp_path / str(number))


def test_an_updated_release_is_close_to_the_rows(people, schema, store, key):
    """The model learns rightly through transformations that were made of other rows: here of younger people."""
    young = people[people["age"] < 45][:600]
    ss.release(young, schema=schema, keep=store, key=key, epsilon=20.0, delta=1e-6)
    again = ss.update(store, people, key=key, seed=1, epsilon=20.0, delta=1e-6)
    every = pd.concat([young, people])
    for name, bound in (("age", 1.5), ("visits", 0.3), ("income", 12_000)):
        assert abs(again.to_pandas()[name].mean() - every[name].mean()) < bound, name


# ---- what it costs ----


def test_the_cost_is_said_before_anything_is_read(people, schema, store, key, tmp_path):
    path = tmp_path / "people.ledger"
    file = LedgerFile.create(path, ss.Budget(2.0, 1e-6))
    first_release(people, schema, store, key, ledger=path)
    said = []

    class Unread:
        def __getattr__(self, name):
            raise AssertionError("rows were read")

    def stop(cost):
        said.append(cost)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ss.update(store, Unread(), key=key, ledger=path, cost=stop, **GAUSSIAN)
    assert said[0] == ss.update_cost(store, key=key, ledger=path, **GAUSSIAN)
    assert 0.99 < said[0].before.epsilon <= 1.0
    assert said[0].total == ss.Budget(2.0, 1e-6)
    ss.update(store, month(people, 1), key=key, ledger=path, label="february", **GAUSSIAN)
    assert file.read().spent[0] == said[0].after.epsilon
    assert {line.label for line in file.read().lines} == {"", "february"}
    text = str(said[0])
    assert "spends both" in text
    assert "allows epsilon = 2 in all" in text


def test_without_a_ledger_the_store_knows_what_it_released(people, schema, store, key):
    first_release(people, schema, store, key)
    before = ss.update_cost(store, key=key, **GAUSSIAN)
    ss.update(store, key=key, **GAUSSIAN)
    after = ss.update_cost(store, key=key, **GAUSSIAN)
    assert after.before == before.after
    assert after.before.epsilon > 1.4
    assert "nothing keeps a total" in str(after)


def test_an_update_that_does_not_fit_changes_nothing(people, schema, store, key, tmp_path):
    path = tmp_path / "people.ledger"
    file = LedgerFile.create(path, ss.Budget(1.2, 1e-6))
    first_release(people, schema, store, key, ledger=path)
    content, charges = store.read_bytes(), list(file.charges)
    with pytest.raises(ss.BudgetError, match=r"its total is epsilon = 1\.2"):
        ss.update(store, month(people, 1), key=key, ledger=path, **GAUSSIAN)
    assert store.read_bytes() == content
    assert list(file.charges) == charges


def test_rows_added_twice_are_noticed_and_cost_nothing(people, schema, store, key, tmp_path):
    path = tmp_path / "people.ledger"
    file = LedgerFile.create(path, ss.Budget(9.0, 1e-6))
    first_release(people, schema, store, key)
    ss.update(store, month(people, 1), key=key, **GAUSSIAN)
    content = store.read_bytes()
    for number in (0, 1):
        shuffled = month(people, number).sample(frac=1.0, random_state=1)
        with pytest.raises(ss.FederatedError, match="added before"):
            ss.update(store, shuffled, key=key, ledger=path, **GAUSSIAN)
    assert store.read_bytes() == content
    assert not file.charges


def test_gaussian_sums_need_a_delta(people, schema, store, key):
    first_release(people, schema, store, key)
    with pytest.raises(ss.BudgetError, match="give a delta greater than 0"):
        ss.update(store, month(people, 1), key=key, epsilon=1.0)


def test_more_rows_of_a_person_cost_more_noise(people, schema, store, key):
    made = first_release(people, schema, store, key)
    again = ss.update(store, key=key, rows_per_person=3, synthetic_rows=50, **GAUSSIAN)
    assert again.receipt.rows_per_person == 3
    assert again.table.num_rows == 50
    for old, new in zip(made.moments, again.moments, strict=True):
        assert 2.5 < new.measurement.sensitivity / old.measurement.sensitivity <= 3.0


# ---- the store ----


def test_the_store_is_private_and_says_so(people, schema, store, key):
    made = first_release(people, schema, store, key)
    assert stat.S_IMODE(store.stat().st_mode) == 0o600
    text = store.read_text()
    assert all(line.startswith("PRIVATE") for line in text.splitlines())
    ss.update(store, key=key, **GAUSSIAN)
    assert stat.S_IMODE(store.stat().st_mode) == 0o600
    assert len({p.name for p in store.parent.iterdir()}) == 3, "nothing is left beside it"
    facts = json.loads(read_store(store, key=read_key(key)).kept.to_bytes())
    assert len(facts["spent"]) == 2 * len(made.receipt.charges)


@pytest.mark.parametrize("what", ["tampered", "stranger", "answer", "none"])
def test_a_store_that_cannot_be_opened_is_refused(what, people, schema, store, key, tmp_path):
    first_release(people, schema, store, key)
    words = "changed or cut off, or belongs to another key"
    if what == "tampered":
        text = store.read_text()
        store.write_text(text.replace("PRIVATE rows 1500", "PRIVATE rows 1501"))
    elif what == "stranger":
        ss.federated.make_key(tmp_path / "stranger.key")
        key = tmp_path / "stranger.key"
    elif what == "answer":
        store.write_text(store.read_text().replace("PRIVATE store sums-of-a-release\n", ""))
        words = "is not a store of sums"
    else:
        store, words = tmp_path / "none", "There is no file"
    with pytest.raises(ss.FederatedError, match=words):
        ss.update(store, key=key, **GAUSSIAN)


def test_sums_that_cannot_be_kept_are_refused_before_anything_is_spent(people, schema, store, key, tmp_path):
    path = tmp_path / "people.ledger"
    file = LedgerFile.create(path, ss.Budget(9.0, 1e-6))
    settings = {"schema": schema, "ledger": path, **GAUSSIAN}
    with pytest.raises(ss.PlanError, match="name it as key="):
        ss.release(people, keep=store, **settings)
    with pytest.raises(ss.PlanError, match="cannot be kept"):
        ss.release(people, keep=store, key=key, method=ss.methods.Paper(features=9), **settings)
    store.write_text("something else")
    with pytest.raises(ss.FederatedError, match="exists already"):
        ss.release(people, keep=store, key=key, **settings)
    with pytest.raises(ss.FederatedError, match="There is no key"):
        ss.release(people, keep=tmp_path / "x.sums", key=tmp_path / "none.key", **settings)
    assert not file.charges
    assert store.read_text() == "something else"


def test_a_release_is_not_lost_if_its_sums_cannot_be_kept(people, schema, store, key, monkeypatch):
    from smoothsynth.private.sites import store as stores

    def full(*_args, **_kwargs):
        raise ss.FederatedError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(stores, "write_new", full)
        with pytest.warns(RuntimeWarning, match=r"could not be kept.*is not there: the disk is full"):
            made = first_release(people, schema, store, key)
    assert made.table.num_rows == MONTHS[1]
    first_release(people, schema, store, key)
    before = store.read_bytes()
    monkeypatch.setattr(stores, "write_new", full)
    with pytest.warns(RuntimeWarning, match="still holds what it held before"):
        ss.update(store, month(people, 1), key=key, **GAUSSIAN)
    assert store.read_bytes() == before


@pytest.mark.parametrize("choice", [{"rows_per_person": 0}, {"synthetic_rows": -1}, {"epsilon": -1.0}, {"seed": -1}])
def test_what_cannot_be_planned_is_refused_first(choice, people, schema, store, key):
    first_release(people, schema, store, key)
    before = store.read_bytes()
    with pytest.raises(ss.SmoothsynthError, match=r"must be"):
        ss.update(store, month(people, 1), key=key, **{**GAUSSIAN, **choice})
    assert store.read_bytes() == before


def test_keeping_sums_changes_nothing_in_the_release(people, schema, store, key, monkeypatch):
    monkeypatch.setattr(door, "_draw_noise", lambda count, _measurement: [0] * count)
    kept = first_release(people, schema, store, key)
    plain = ss.release(month(people, 0), schema=schema, seed=3, **GAUSSIAN)
    assert kept.moments == plain.moments
    assert kept.to_arrow().equals(plain.to_arrow())
