"""Pairs of columns are found that the model has most wrong, and only those are measured: from the plan to the last check."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import smoothsynth as ss
from smoothsynth.accounting.ledger import Ledger
from smoothsynth.errors import BudgetError, PlanError
from smoothsynth.methods.layout import Shape
from smoothsynth.model.sampling import generator
from smoothsynth.pipeline.release import sha256
from smoothsynth.pipeline.rounds import Rounds
from smoothsynth.private import measure, noise
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.families import PairwiseFourier
from smoothsynth.queries.measurement import Measurement, NoisyMoments
from smoothsynth.queries.selection import PRODUCTS, PairSelection
from smoothsynth.queries.transformation import Transformation

COLUMNS, ROWS = 8, 4_000
SCHEMA = ss.Schema({f"c{i}": ss.Number(-1, 1) for i in range(COLUMNS)})
BUDGET = {"epsilon": 4.0, "delta": 1e-6}


def numbers(columns):
    return ss.Schema({f"c{i}": ss.Number(0, 1) for i in range(columns)})


@pytest.fixture(scope="module")
def rings():
    """Columns 2 and 5 on a ring, all others independent."""
    rng = np.random.default_rng(0)
    rows, angle = rng.normal(0, 0.3, (ROWS, COLUMNS)), rng.uniform(0, 2 * np.pi, ROWS)
    rows[:, 2], rows[:, 5] = 0.7 * np.cos(angle), 0.7 * np.sin(angle)
    return pd.DataFrame(np.clip(rows, -1, 1), columns=list(SCHEMA.names))


@pytest.fixture(scope="module")
def released(rings):
    return ss.release(rings, schema=SCHEMA, seed=1, method=ss.methods.Adaptive(selected_pairs=4), **BUDGET)


def learned(moments):
    return Rounds.released(SCHEMA, moments, rows=moments[0].rows).after(*moments).model


def pairs_of(noisy):
    return {tuple(wave // 2 for wave, _ in feature.terms[0]) for feature in noisy.features}


def test_wide_tables_have_pairs_chosen_where_rows_allow():
    def chosen(rows, columns, **choices):
        planned = ss.plan(numbers(columns), rows, epsilon=1.0, **{"delta": 1e-6, **choices})
        return [m.choice.count for m in planned.measurements if m.choice is not None]

    assert chosen(20_000, 100) == [5, 5]
    assert chosen(3_000, 100) == [], "none would stand out"
    assert chosen(10**6, 100) == [16, 16], "no more than are worth it"
    assert chosen(20_000, 6) == [], "all pairs are measured"
    assert chosen(10**6, 201) == [], "too many to sum"
    assert chosen(20_000, 100, method=ss.methods.Adaptive(selected_pairs=0)) == []
    assert chosen(20_000, 6, method=ss.methods.Adaptive(selected_pairs=3)) == [2, 1]
    assert chosen(20_000, 100, delta=0.0) == []
    assert chosen(20_000, 100, method=ss.methods.Adaptive(candidates="hypercube")) == []


def test_the_plan_states_all_of_it_beforehand():
    planned = ss.plan(numbers(60), 20_000, epsilon=1.0, delta=1e-6)
    assert planned.cost.epsilon <= 1.0
    choices = [charge for charge in planned.charges if charge.mechanism == "noisy maxima"]
    shapes = [m for m in planned.measurements if m.choice is not None]
    assert [charge.coordinates for charge in choices] == [6, 6]
    assert [m.charge().coordinates for m in shapes] == [PRODUCTS * 6] * 2
    inverse = sum(charge.multiplier**-2 for charge in planned.charges)
    used = sum(charge.multiplier**-2 for m in shapes for charge in m.charges)
    assert used / inverse == pytest.approx(0.03, rel=1e-6)
    text = str(planned)
    assert "which 6 pairs" in text
    assert "1,770" not in text, "what can be chosen is not what is released"
    described = planned.as_dict()["measurements"]
    assert len(described) == len(planned.charges)
    # A pair is told from 1,770 if its products are off by 0.12 in length.
    scale = choices[0].scale / 2**16 / 20_000
    assert 0.09 < scale * math.log(1770) <= 0.12


@pytest.mark.parametrize("asked", [-1, 1.5, True, "3", 15, 10**9])
def test_a_number_of_pairs_that_cannot_be_is_refused(asked):
    with pytest.raises(PlanError, match="selected_pairs"):
        ss.plan(SCHEMA, ROWS, method=ss.methods.Adaptive(selected_pairs=asked), **BUDGET)


@pytest.mark.parametrize(
    ("budget", "options"), [({"delta": 0.0}, {}), ({}, {"fit": "linear program"}), ({}, {"candidates": "grid"})]
)
def test_pairs_are_chosen_with_a_delta_and_for_rows_of_the_model(budget, options):
    with pytest.raises(PlanError, match="selected_pairs"):
        ss.plan(SCHEMA, ROWS, method=ss.methods.Adaptive(selected_pairs=3, **options), **{**BUDGET, **budget})


def test_the_pair_that_is_wrong_is_found_and_put_right(rings, released):
    first, second = released.moments[-2:]
    assert (2, 5) in pairs_of(first)
    assert not pairs_of(first) & pairs_of(second), "no pair is measured twice"
    assert [len(noisy.features) for noisy in (first, second)] == [8, 8]
    assert first.measurement.transformation == second.measurement.transformation

    def inside(moments):
        rows = learned(moments).rows(ROWS, generator=generator(0))
        return float(np.mean(np.hypot(rows[:, 2], rows[:, 5]) < 0.5))

    assert np.hypot(rings["c2"], rings["c5"]).min() > 0.5
    assert inside(released.moments) < 0.6 * inside(released.moments[:-2])


def test_every_choice_is_charged_before_what_was_chosen(released):
    mechanisms = [charge.mechanism for charge in released.receipt.charges]
    assert mechanisms[-4:] == ["noisy maxima", "discrete gaussian"] * 2
    planned = ss.plan(SCHEMA, ROWS, method=ss.methods.Adaptive(selected_pairs=4), **BUDGET)
    assert tuple(released.receipt.charges) == planned.charges
    sentence = released.receipt.charges[-2].sentence()
    assert "2 largest of all scores" in sentence
    assert "131075" in sentence


def measured(rings, budget):
    """Choose two pairs, all of which are expected to be 0, and measure them."""
    planned = ss.plan(SCHEMA, ROWS, method=ss.methods.Adaptive(selected_pairs=4), **BUDGET)
    offered = next(m for m in planned.measurements if m.choice is not None)
    choice = PairSelection(2, offered.choice.multiplier, expected=np.zeros((2 * COLUMNS,) * 2, dtype=np.int64))
    ledger = Ledger(budget)
    offered = replace(offered, transformation=Transformation.straight(COLUMNS, PairwiseFourier()), choice=choice)
    return measure.measure(open_table(rings, SCHEMA), offered, engine=LocalEngine(), ledger=ledger)


def test_nothing_is_chosen_once_the_budget_is_spent(rings, monkeypatch):
    """The ledger refuses the choice itself: no score is looked at, no noise is drawn."""
    drawn = []
    monkeypatch.setattr(noise, "noisy_maxima", lambda *_, **__: drawn.append)
    with pytest.raises(BudgetError, match="No noise was drawn"):
        measured(rings, ss.Budget(1e-3, 1e-9))
    assert not drawn


def test_a_choice_that_fails_says_nothing_of_the_scores(rings, monkeypatch):
    seen = []

    def broken(scores):
        seen.extend(scores)
        raise ValueError(f"cannot compare {scores}")

    monkeypatch.setattr(noise, "noisy_maxima", lambda *_, **__: broken)
    with pytest.raises(PlanError, match="failed after it was charged") as raised:
        measured(rings, ss.Budget(4.0, 1e-6))
    assert len(seen) == COLUMNS * (COLUMNS - 1) // 2
    assert raised.value.__context__ is None
    names = [value for entry in raised.traceback for value in entry.locals.values() if value is not seen]
    assert not any(isinstance(value, list) and value[:3] == seen[:3] for value in names)


def test_a_release_with_chosen_pairs_can_be_read_verified_and_asked(released, tmp_path):
    folder = released.write(tmp_path / "out")
    loaded = ss.load(folder)
    assert loaded.moments == released.moments
    found = ss.verify(folder)
    assert found.passed
    assert {check.name: check.outcome for check in found.checks}["transformations"] == "passed"
    assert {check.name: check.outcome for check in found.checks}["reproduction"] == "passed"
    page = (folder / "report.html").read_text()
    assert "which 2 pairs" in page
    assert "Of 28 pairs of columns of numbers 4 were selected" in page
    assert "looked at more closely: c2 with c5," in page, "the pair that was most wrong comes first"
    assert loaded.sample(50, seed=3).num_rows == 50


def forged(folder, change):
    document = json.loads((folder / "moments.json").read_text())
    change(document["moments"][-1])
    (folder / "moments.json").write_text(json.dumps(document))
    receipt = json.loads((folder / "receipt.json").read_text())
    receipt["sha256"]["moments.json"] = sha256(folder / "moments.json")
    (folder / "receipt.json").write_text(json.dumps(receipt))
    return {check.name for check in ss.verify(folder).failures}


def expect_more(moments):
    moments["choice"]["expected"][0][3] += 5_000


def choose_for_less(moments):
    moments["choice"]["multiplier"] *= 2


def choose_more(moments):
    moments["choice"]["count"] = 1


def choose_what_is_known(moments):
    moments["features"] = [[[[4 + a, 1], [10 + b, 1]]] for a in (0, 1) for b in (0, 1)] + moments["features"][4:]


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (expect_more, "transformations"),
        (choose_for_less, "charges"),
        (choose_more, "charges"),
        (choose_what_is_known, "transformations"),
    ],
)
def test_another_choice_than_the_one_that_was_paid_for_is_caught(change, check, released, tmp_path):
    assert check in forged(released.write(tmp_path / "out"), change)


def test_an_update_measures_the_chosen_pairs_again_without_choosing(rings, tmp_path):
    key, store = tmp_path / "own.key", tmp_path / "sums"
    ss.federated.make_key(key)
    first = ss.release(
        rings, schema=SCHEMA, seed=1, method=ss.methods.Adaptive(selected_pairs=4), keep=store, key=key, **BUDGET
    )
    again = ss.update(store, rings.iloc[:500] * 0.9, key=key, seed=2, **BUDGET)
    assert [pairs_of(noisy) for noisy in again.moments[-2:]] == [pairs_of(noisy) for noisy in first.moments[-2:]]
    assert {charge.mechanism for charge in again.receipt.charges} == {"discrete gaussian"}
    assert again.receipt.rows == ROWS + 500
    assert ss.verify(again.write(tmp_path / "out")).passed


def test_a_study_of_several_sites_chooses_nothing(tmp_path):
    ss.federated.make_key(tmp_path / "own.key")
    site = {"north": ss.federated.Site(40_000, tmp_path / "own.pub")}
    start = {"schema": numbers(60), "sites": site, "key": tmp_path / "own.key", "epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(PlanError, match="cannot select"):
        ss.federated.start(tmp_path / "a", method=ss.methods.Adaptive(selected_pairs=4), **start)
    ss.federated.start(tmp_path / "b", **start)
    charges = json.loads((tmp_path / "b" / "request-1.json").read_text())
    assert "noisy maxima" not in json.dumps(charges)


def test_pairs_that_are_known_are_not_offered_again(released):
    *before, first, second = released.moments
    model = learned(before)
    planned = ss.plan(SCHEMA, ROWS, method=ss.methods.Adaptive(selected_pairs=4), **BUDGET)
    offered = model.update(first).offer(
        Measurement(
            "",
            planned.measurements[-1].features,
            "discrete gaussian",
            multiplier=1.0,
            transformation=first.measurement.transformation,
            choice=PairSelection(2, 1.0),
        )
    )
    assert len(offered.features) == PRODUCTS * (COLUMNS * (COLUMNS - 1) // 2 - 2)
    assert pairs_of(second) <= pairs_of(NoisyMoments(offered, 1, (0,) * len(offered.features)))
    expected = offered.choice.expected / 2**16
    assert np.abs(expected).max() <= 1.0
    np.testing.assert_array_equal(expected, expected.T)


@pytest.mark.parametrize(
    "wrong",
    [
        {"features": Shape.of(SCHEMA).waves()},
        {"transformation": Transformation.straight(COLUMNS)},
        {"weights": (1,) * 112},
        {"choice": PairSelection(29, 1.0)},
        {"choice": PairSelection(2, 1.0, rows_per_person=2)},
        {"choice": PairSelection(2, 1.0, expected=np.zeros((4, 4), dtype=np.int64))},
    ],
    ids=["not fours", "no waves", "weights", "more than there are", "another person", "other waves"],
)
def test_choices_that_the_proof_does_not_cover_are_refused(wrong):
    features = Shape.of(SCHEMA).pairs_of_waves()
    right = {
        "features": features,
        "multiplier": 1.0,
        "transformation": Transformation.straight(COLUMNS, PairwiseFourier()),
        "choice": PairSelection(2, 1.0),
    }
    Measurement(purpose="", mechanism="discrete gaussian", **right)
    with pytest.raises(PlanError):
        Measurement(purpose="", mechanism="discrete gaussian", **{**right, **wrong})


def test_what_is_expected_is_read_only_whole_numbers_in_range():
    choice = PairSelection(1, 1.0, expected=np.zeros((4, 4), dtype=np.int64))
    with pytest.raises(ValueError, match="read-only"):
        choice.expected[0, 0] = 1
    assert choice == PairSelection(1, 1.0, expected=np.zeros((4, 4), dtype=np.int64))
    assert choice != PairSelection(1, 1.0)
    assert choice != PairSelection(1, 1.0, expected=np.ones((4, 4), dtype=np.int64))
    assert hash(choice) == hash(PairSelection(1, 1.0))
    for wrong in (np.zeros((4, 3)), np.full((2, 2), 2**17)):
        with pytest.raises(PlanError, match="expected"):
            PairSelection(1, 1.0, expected=wrong.astype(np.int64))
    with pytest.raises(PlanError, match="at least 1"):
        PairSelection(0, 1.0)
