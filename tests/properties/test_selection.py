"""Noisy maxima: what the proof says of ranges and slopes, and that no row moves the score of a pair farther than stated."""

import itertools
import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsynth.accounting.charges import MAXIMA, Charge, maxima_scale
from smoothsynth.errors import BudgetError
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.queries.bases import LATTICE, WAVES, term_feature
from smoothsynth.queries.families import PairwiseFourier
from smoothsynth.queries.measurement import Measurement, coarse_sums
from smoothsynth.queries.selection import PRODUCTS, PairSelection
from smoothsynth.queries.sensitivity import fourier_l2
from smoothsynth.queries.transformation import Transformation
from smoothsynth.schema import Number, Schema

NORMAL = NormalDist()
SLOPE = math.sqrt(2.0 * math.pi) / 4.0


def h(x):
    """The normal quantile of a probability with log-odds x; by the smaller side, so that nothing is lost near 1."""
    return NORMAL.inv_cdf(1.0 / (1.0 + math.exp(-x))) if x < 0 else -NORMAL.inv_cdf(1.0 / (1.0 + math.exp(x)))


def test_the_slope_of_normal_quantiles_by_log_odds_is_largest_in_the_middle():
    x = np.linspace(-30.0, 30.0, 6001)
    slopes = np.diff([h(one) for one in x]) / np.diff(x)
    assert slopes.max() <= SLOPE * (1 + 1e-9)
    assert slopes.max() > SLOPE * 0.9999, "the constant is the least there is"


@given(
    st.lists(st.integers(-6, 6), min_size=2, max_size=6),
    st.lists(st.integers(-3, 3), min_size=6, max_size=6),
    st.floats(0.5, 20.0),
)
def test_no_event_tells_neighbours_apart_better_than_the_gaussian_of_the_claim(scores, moves, scale):
    """All events of one maximum, by brute force: Phi^-1(P) - Phi^-1(P') <= sqrt(pi/2) D / s."""
    moves = moves[: len(scores)]
    most = max(map(abs, moves)) or 1
    laws = []
    for side in (np.array(scores, float), np.array(scores, float) + moves):
        weights = np.exp((side - side.max()) / scale)
        laws.append(weights / weights.sum())
    claim = math.sqrt(math.pi / 2.0) * most / scale
    for size in range(1, len(scores)):
        for event in itertools.combinations(range(len(scores)), size):
            often, rarely = (float(law[list(event)].sum()) for law in laws)
            if min(often, rarely) > 1e-6 and max(often, rarely) < 1 - 1e-6:
                assert abs(NORMAL.inv_cdf(often) - NORMAL.inv_cdf(rarely)) <= claim * (1 + 1e-6) + 1e-9


@given(st.floats(1.0, 1e9), st.floats(1e-2, 1e6), st.integers(1, 200))
def test_the_scale_is_what_the_theorem_asks_for_and_no_less(sensitivity, multiplier, count):
    scale = maxima_scale(sensitivity, multiplier, count=count)
    facts = {"purpose": "", "mechanism": MAXIMA, "norm": "linf", "sensitivity": sensitivity, "coordinates": count}
    Charge(**facts, scale=scale, epsilon=None, multiplier=multiplier)
    exact = math.pi / 2.0 * count * (multiplier * sensitivity) ** 2
    assert 1.0 <= float(Fraction(scale) ** 2) / exact < 1.0 + 1e-6
    with pytest.raises(BudgetError, match="too small"):
        Charge(**facts, scale=scale * (1 - 1e-6), epsilon=None, multiplier=multiplier)


D = 3
UNIT = Schema({f"x{i}": Number(-1, 1) for i in range(D)})
PAIRS = tuple(
    term_feature((WAVES * one + a, 1), (WAVES * other + b, 1))
    for one, other in itertools.combinations(range(D), 2)
    for a in range(WAVES)
    for b in range(WAVES)
)


def choosing(expected, count=1, rows_per_person=1):
    choice = PairSelection(count, 5.0, rows_per_person, expected)
    settings = {
        "multiplier": 5.0,
        "transformation": Transformation.straight(D, PairwiseFourier()),
        "rows_per_person": rows_per_person,
    }
    return Measurement("", PAIRS, "discrete gaussian", choice=choice, **settings)


def scores_of(rows, measurement):
    kernel = Kernel(UNIT, PAIRS, measurement.transformation)
    sums = kernel.start()
    sums.add_columns(list(np.ascontiguousarray(rows.T)), len(rows))
    return np.array(measurement.choice.scores(coarse_sums(sums.totals(), measurement), PAIRS, len(rows)))


@pytest.mark.parametrize("together", [1, 2])
def test_no_rows_of_a_person_move_a_score_farther_than_stated(together):
    """All rows on a small lattice, beside rows and expectations off the lattice, so that floors count, and on it."""
    rng = np.random.default_rng(0)
    grid = np.array(list(itertools.product((-1.0, -2 / 3, -1 / 3, 0.1, 2 / 3, 1.0), repeat=D)))
    moved = []
    for expected, stay in (
        (rng.integers(-LATTICE, LATTICE, (2 * D, 2 * D)), rng.uniform(-1, 1, (4, D))),
        (np.zeros((2 * D, 2 * D), dtype=np.int64), np.full((4, D), 2 / 3)),
    ):
        measurement = choosing(expected, rows_per_person=together)
        rows = [np.concatenate([stay, np.tile(row, (together, 1))]) for row in grid]
        found = np.array([scores_of(one, measurement) for one in rows])
        moved.append(int((found.max(axis=0) - found.min(axis=0)).max()))
    assert max(moved) <= measurement.choice.sensitivity
    assert max(moved) > 0.999 * measurement.choice.sensitivity, "a row that moves a score so far is among them"


def test_the_score_is_the_length_of_what_is_not_expected():
    rng = np.random.default_rng(1)
    rows, expected = rng.uniform(-1, 1, (50, D)), np.zeros((2 * D, 2 * D), dtype=np.int64)
    measurement = choosing(expected)
    exact = measurement.evaluate(rows).mean(axis=0).reshape(-1, PRODUCTS)
    np.testing.assert_allclose(scores_of(rows, measurement) / (50 * LATTICE), np.linalg.norm(exact, axis=1), atol=1e-3)
    seen = measurement.transformation.of(rows)
    known = choosing(np.rint(seen.T @ seen / 50 * LATTICE).astype(np.int64))
    assert scores_of(rows, known).max() < 50 * 3, "what is expected has no score"


@given(st.integers(2, 6), st.data())
def test_few_pairs_move_less_than_all(columns, data):
    """Points of the disc on all corners: the squared move of any set of pairs is within the bound."""
    edges = list(itertools.combinations(range(columns), 2))
    chosen = data.draw(st.lists(st.sampled_from(edges), min_size=1, unique=True))
    features = [term_feature((WAVES * i + a, 1), (WAVES * j + b, 1)) for i, j in chosen for a in (0, 1) for b in (0, 1)]
    bound = fourier_l2(features, [1.0] * len(features), {})
    signs = itertools.product((1, -1), repeat=columns)
    farthest = max(math.sqrt(sum(2 * (1 - s[i] * s[j]) for i, j in chosen)) for s in signs)
    assert farthest <= bound <= min(2.0 * math.sqrt(len(chosen)), columns) * (1 + 1e-9)
