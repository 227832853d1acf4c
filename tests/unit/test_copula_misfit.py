"""What a released table says of other functions of its pair: scales of its own, and narrower intervals that hold."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.answer.evidence import Evidence, gaussian_copula_rows
from smoothsynth.answer.model_interval import LEAST, MOST, PAIR_MISFIT, joint_scale, pair_scale

SCHEMA = ss.Schema({name: ss.Number(-1, 1) for name in ("bent", "over", "one", "other")})


@pytest.fixture(scope="module")
def rows():
    """The second column is high where the first is far out; the third and the fourth are normal and correlated."""
    rng = np.random.default_rng(4)
    bent = rng.uniform(-1, 1, 20_000)
    over = np.clip(2 * bent**2 - 1 + 0.2 * rng.normal(size=20_000), -1, 1)
    one = rng.normal(size=20_000)
    other = 0.8 * one + 0.6 * rng.normal(size=20_000)
    return np.column_stack([bent, over, np.clip(0.25 * one, -1, 1), np.clip(0.25 * other, -1, 1)])


@pytest.fixture(scope="module")
def release(rows):
    table = pa.table(dict(zip(SCHEMA.names, rows.T, strict=True)))
    method = ss.methods.Adaptive(workload=[["bent", "over"], ["one", "other"], ["bent", "one"]])
    return ss.release(table, schema=SCHEMA, epsilon=1.0, delta=1e-6, seed=3, method=method, synthetic_rows=5_000)


@pytest.fixture(scope="module")
def without(release):
    """The same release, had no tables of pairs been measured."""
    kept = tuple(m for m in release.moments if getattr(m.measurement.family, "order", 1) == 1)
    assert len(kept) == len(release.moments) - 1
    return replace(release, moments=kept)


def scores(rows):
    ranks = np.argsort(np.argsort(rows, axis=0), axis=0)
    drawn = np.sort(np.random.default_rng(0).normal(size=len(rows)))
    return drawn[ranks]


def test_rows_set_in_a_copula_keep_columns_and_correlations_and_nothing_else(rows):
    placed = gaussian_copula_rows(rows[:8000])
    np.testing.assert_array_equal(np.sort(placed, axis=0), np.sort(rows[:8000], axis=0))
    before, after = (np.corrcoef(scores(points).T) for points in (rows[:8000], placed))
    assert np.abs(before - after).max() < 0.04
    assert np.corrcoef(rows[:8000, 0] ** 2, rows[:8000, 1])[0, 1] > 0.8
    assert abs(np.corrcoef(placed[:, 0] ** 2, placed[:, 1])[0, 1]) < 0.05


def test_columns_of_one_value_can_be_set_too():
    placed = gaussian_copula_rows(np.column_stack([np.zeros(50), np.linspace(-1, 1, 50)]))
    assert np.all(placed[:, 0] == 0)
    np.testing.assert_array_equal(np.sort(placed[:, 1]), np.linspace(-1, 1, 50))


def test_a_curved_pair_has_a_copula_misfit_and_a_normal_one_has_not(release):
    known = Evidence(release)
    assert set(known.pair_misfit) == {frozenset((0, 1)), frozenset((2, 3)), frozenset((0, 2))}
    curved = known.pair_misfit[frozenset((0, 1))]
    assert all(misfit < 0.3 * curved for pair, misfit in known.pair_misfit.items() if pair != {0, 1})
    assert (
        pair_scale(known, 1, 0) == pair_scale(known, 0, 1) == PAIR_MISFIT * known.pair_misfit[frozenset((0, 1))] < MOST
    )
    assert LEAST <= pair_scale(known, 2, 3) < joint_scale(known)


def test_noise_is_never_taken_for_plainness(release):
    """With so much noise in tables that they say nothing, the misfit of a pair is as large as the noise."""
    known = Evidence(release)
    last = release.moments[-1]
    poor = replace(last, measurement=replace(last.measurement, multiplier=1000.0))
    noisy = Evidence(replace(release, moments=(*release.moments[:-1], poor)))
    assert min(noisy.pair_misfit.values()) > poor.deviations[-1] > known.pair_misfit[frozenset((2, 3))]


def test_without_tables_all_is_as_it_was(without):
    known = Evidence(without)
    assert known.pair_misfit == {}
    assert pair_scale(known, 0, 1) == joint_scale(known)


QUESTIONS = {
    "bent and over": lambda t: np.exp(-((t["bent"] - 0.7) ** 2 + (t["over"] - 0.5) ** 2) / 0.5),
    "one and other": lambda t: np.tanh(3 * t["one"] - 2 * t["other"] + 0.3),
    "bent and one": lambda t: np.exp(-((t["bent"] - 0.2) ** 2 + (t["one"] - 0.1) ** 2) / 0.3),
}


@pytest.mark.parametrize("names", QUESTIONS)
def test_intervals_of_two_columns_are_narrower_and_hold(rows, release, without, names):
    columns = names.split(" and ")
    question = QUESTIONS[names]
    truth = float(np.mean(question({n: rows[:, SCHEMA.names.index(n)] for n in columns})))
    told, untold = (one.answer(question, columns=columns, confidence=0.9999) for one in (release, without))
    assert told.low <= truth <= told.high
    # A pair that is far from a copula may be as far in functions finer than its cells.
    assert told.half_width < (1.0 if names == "bent and over" else 0.75) * untold.half_width


def test_pairs_without_misfit_have_narrower_intervals_for_it(release, monkeypatch):
    question, columns = QUESTIONS["bent and one"], ["bent", "one"]
    told = release.answer(question, columns=columns)
    monkeypatch.setattr("smoothsynth.answer.evidence.pair_misfits", lambda *_: {})
    # The table itself says most; its misfit says how far to believe in what is finer than its cells.
    assert told.half_width < 0.99 * replace(release).answer(question, columns=columns).half_width


def test_intervals_of_one_column_do_not_change(release, without):
    told, untold = (one.answer("avg(exp(-power(bent - 0.3, 2)))") for one in (release, without))
    assert told == untold
