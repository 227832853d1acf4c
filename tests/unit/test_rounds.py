"""The loop that learns: one fold over moments, whoever goes through it; and sensitivities that are computed once."""

import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import smoothsynth as ss
from smoothsynth.accounting.charges import Charge
from smoothsynth.pipeline.rounds import Rounds
from smoothsynth.queries.bases import term_feature
from smoothsynth.queries.measurement import Measurement, NoisyMoments

ROWS = 4_000
NUMBERS = ss.Schema({name: ss.Number(-1, 1) for name in "abc"})
MIXED = ss.Schema({"a": ss.Number(0, 1, nullable=True), "b": ss.Integer(0, 9), "c": ss.Category(["x", "y", "z"])})
DELTA = {"epsilon": 1.0, "delta": 1e-6}


def noisy(measurement, seed, rows=ROWS):
    """Return the moments of some rows, with about the noise of the measurement."""
    rng = np.random.default_rng(seed)
    points = np.clip(np.random.default_rng(0).normal(0.2, 0.3, (ROWS, 3)), -1, 1)
    values = measurement.evaluate(points).mean(axis=0)
    values += measurement.deviations(rows) * rng.standard_normal(len(values))
    return NoisyMoments(measurement, rows, tuple(map(int, np.rint(values * rows * np.array(measurement.weights)))))


def carried_out(rounds, *, seed, rows=ROWS):
    while (seen := rounds.next) is not None:
        rounds = rounds.after(noisy(seen, seed, rows))
    return rounds


def same(one, other):
    columns = np.array_equal(one.columns.masses, other.columns.masses)
    return columns and np.array_equal(one.correlation, other.correlation) and one.tables == other.tables


def test_a_release_is_learned_again_from_its_moments():
    made = carried_out(Rounds.planned(ss.plan(NUMBERS, ROWS, **DELTA)), seed=1)
    assert made.done
    assert len(made.moments) > 3
    again = Rounds.released(NUMBERS, made.moments, rows=ROWS)
    for moments in made.moments:
        assert again.proposed == moments.measurement.transformation
        again = again.after(moments)
    assert again.done
    assert again.next is None
    assert same(again.model, made.model)
    assert again.origin is again.model


def test_kept_transformations_follow_from_the_earlier_moments():
    first = carried_out(Rounds.planned(ss.plan(NUMBERS, ROWS, **DELTA)), seed=1)
    planned = ss.plan(NUMBERS, 2 * ROWS, **DELTA)
    design = replace(planned.design, measurements=tuple(m.measurement for m in first.moments))
    planned = replace(planned, design=design)
    second = carried_out(Rounds.planned(planned, earlier=first.moments), seed=2, rows=2 * ROWS)
    assert [m.measurement.transformation for m in second.moments] == [
        m.measurement.transformation for m in first.moments
    ]
    assert same(second.origin, first.model)
    assert not same(second.model, first.model)
    again = Rounds.released(NUMBERS, second.moments, rows=2 * ROWS, earlier=first.moments)
    for moments in second.moments:
        assert again.proposed == moments.measurement.transformation
        again = again.after(moments)
    assert same(again.model, second.model)


def test_what_is_not_adaptive_learns_nothing():
    planned = ss.plan(NUMBERS, ROWS, epsilon=1.0, method=ss.methods.Paper(candidates="hypercube"))
    made = carried_out(Rounds.planned(planned), seed=1)
    assert made.done
    assert not made.model.low
    again = Rounds.released(NUMBERS, made.moments, rows=ROWS, adaptive=False).after(*made.moments)
    assert again.moments == made.moments
    assert not again.model.low


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, DELTA])
def test_sensitivities_and_charges_are_computed_once(budget, monkeypatch):
    """Once 93 sensitivities and 87 charges were computed in such a release, of 9 different measurements."""
    computed, validated = Counter(), []
    most_moved, check = Measurement._most_moved, Charge.__post_init__
    monkeypatch.setattr(Measurement, "_most_moved", lambda self: (computed.update([self]), most_moved(self))[1])
    monkeypatch.setattr(Charge, "__post_init__", lambda self: (validated.append(self), check(self))[1])
    rows = pd.DataFrame(np.random.default_rng(1).uniform(-1, 1, (300, 3)), columns=list("abc"))
    made = ss.release(rows, schema=NUMBERS, seed=1, **budget)
    assert len(made.moments) > 1
    assert max(computed.values()) == 1
    assert len(validated) <= len(computed)


def test_what_was_computed_is_no_part_of_a_measurement():
    measurement = Measurement("means", (term_feature((0, 1)),), "discrete laplace", epsilon=1.0)
    shown, fresh = repr(measurement), replace(measurement)
    found = measurement.charge()
    assert measurement.charge() is found
    assert (measurement == fresh, hash(measurement) == hash(fresh), repr(measurement) == shown) == (True, True, True)
    copied = pickle.loads(pickle.dumps(measurement))
    assert (copied, copied.charge()) == (measurement, found)
    twice = replace(measurement, rows_per_person=2)
    assert twice.sensitivity > measurement.sensitivity
    assert twice.charge().sensitivity == twice.sensitivity
