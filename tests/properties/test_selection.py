"""Noisy maxima: what the proof says of ranges and slopes, and that no row moves the score of a table farther than stated."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsynth.accounting.charges import MAXIMA, PURE_MAXIMA, Charge, maxima_scale, pure_maxima_scale
from smoothsynth.errors import BudgetError, PlanError
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.queries.measurement import FULL_WEIGHT, Measurement, coarse_sums
from smoothsynth.queries.selection import TableSelection
from smoothsynth.queries.soft_tables import SoftTables, TableColumn
from smoothsynth.queries.transformation import Transformation
from smoothsynth.schema import Category, Number, Schema

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


@given(st.floats(1.0, 1e9), st.floats(1e-3, 50.0), st.integers(1, 200))
def test_the_pure_scale_is_what_exponential_mechanisms_ask_for_and_no_less(sensitivity, epsilon, count):
    scale = pure_maxima_scale(sensitivity, epsilon, count=count)
    facts = {"purpose": "", "mechanism": PURE_MAXIMA, "norm": "linf", "sensitivity": sensitivity, "coordinates": count}
    Charge(**facts, scale=scale, epsilon=epsilon, multiplier=None)
    assert 1.0 <= scale * epsilon / (2.0 * count * sensitivity) * (1 + 1e-12) < 1.0 + 1e-6
    for wrong in (scale * (1 - 1e-6), scale / 2):
        with pytest.raises(BudgetError, match="too small"):
            Charge(**facts, scale=wrong, epsilon=epsilon, multiplier=None)


@given(st.lists(st.integers(-4, 4), min_size=3, max_size=5), st.lists(st.integers(-2, 2), min_size=5, max_size=5))
def test_no_two_pure_maxima_tell_neighbours_apart_by_more_than_epsilon(scores, moves):
    """All outcomes of two maxima in a row, by brute force."""
    scale = pure_maxima_scale(2, 1.0, count=2)

    def law(side):
        weights = np.exp(np.array(side, float) / scale)
        return {
            (i, j): weights[i] / weights.sum() * weights[j] / (weights.sum() - weights[i])
            for i, j in itertools.permutations(range(len(side)), 2)
        }

    here, there = law(scores), law([s + m for s, m in zip(scores, moves, strict=False)])
    assert max(abs(math.log(here[one] / there[one])) for one in here) <= 1.0 + 1e-9


UNIT = Schema({"a": Number(-1, 1), "b": Number(-1, 1, nullable=True), "k": Category(["p", "q"])})
COLUMNS = (TableColumn(0, 3), TableColumn(1, 2, (0,), (2,)), TableColumn(None, levels=(3, 4)))
PAIRS = tuple(itertools.combinations(range(3), 2))
# Every row of a coarse table: a cell of no level is place -1, a missing one is not a number.
GRID = [
    (a, b, float(k)) for a in (-1.0, -0.4, 0.0, 0.7, 1.0) for b in (-1.0, 0.0, 0.3, 1.0, math.nan) for k in (-1, 0, 1)
]


def choosing(expected=None, count=1, rows_per_person=1, order=2, pure=False):
    family = SoftTables(COLUMNS, order)
    cost = {"epsilon": 1.0} if pure else {"multiplier": 5.0}
    return Measurement(
        "",
        family.cells(tuple(itertools.combinations(range(3), order))),
        "discrete laplace" if pure else "discrete gaussian",
        rows_per_person=rows_per_person,
        transformation=Transformation.straight(UNIT.dimensions, family),
        choice=TableSelection(count, rows_per_person=rows_per_person, expected=expected, **cost),
        **cost,
    )


def sums_of(rows, measurement):
    kernel = Kernel(UNIT, measurement.features, measurement.transformation)
    sums, columns = kernel.start(), dict(zip(UNIT.names, np.array(rows).T, strict=True))
    sums.add_columns([np.ascontiguousarray(columns[name]) for name in kernel.names], len(rows))
    return coarse_sums(sums.totals(), measurement)


@pytest.mark.parametrize("together", [1, 2])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_no_rows_of_a_person_move_a_score_farther_than_stated(together, order):
    """All rows of a coarse table, beside rows that stay; expected is nothing, what the rows have, and anything."""
    rng = np.random.default_rng(order)
    stay = [GRID[place] for place in rng.integers(0, len(GRID), 4)]
    plain = choosing(order=order)
    cells, moved = len(plain.features), []
    for expected in (
        np.zeros(cells, dtype=np.int64),
        np.array(sums_of(stay, plain)) + FULL_WEIGHT * (np.arange(cells) == 0) * together,
        rng.integers(0, 3 * FULL_WEIGHT, cells),
    ):
        measurement = choosing(expected, rows_per_person=together, order=order)
        found = np.array(
            [
                measurement.choice.scores(
                    sums_of([*stay, *[row] * together], measurement), measurement.features, allowance=0.3
                )
                for row in GRID
            ]
        )
        moved.append(int((found.max(axis=0) - found.min(axis=0)).max()))
    assert max(moved) <= measurement.choice.sensitivity(FULL_WEIGHT) == 2 * FULL_WEIGHT * together
    assert max(moved) == 2 * FULL_WEIGHT * together, "a row that moves a score so far is among them"


def test_the_score_is_what_lies_in_wrong_cells_less_what_noise_would_add():
    rows = [GRID[place] for place in np.random.default_rng(1).integers(0, len(GRID), 50)]
    sums = sums_of(rows, choosing())
    expected = np.roll(np.array(sums), 1)
    scores = choosing(expected).choice.scores(sums, choosing().features, allowance=2.5)
    for (_, where), score in zip(choosing().features.places(), scores, strict=True):
        gap = np.abs(np.array(sums) - expected)[where].sum()
        assert score == gap - math.ceil(2.5 * (where.stop - where.start))
    known = choosing(np.array(sums)).choice.scores(sums, choosing().features, allowance=0.0)
    assert known == [0, 0, 0], "what is expected has no score"


@pytest.mark.parametrize("pure", [False, True])
def test_choosing_and_measuring_are_charged_each_for_as_many_tables_as_are_chosen(pure):
    measurement = choosing(count=2, pure=pure)
    choice, released = measurement.charges
    assert choice.mechanism == (PURE_MAXIMA if pure else MAXIMA)
    assert choice.coordinates == 2
    assert choice.sensitivity == 2 * FULL_WEIGHT
    if pure:
        assert (choice.epsilon, released.epsilon) == (1.0, 1.0)
        assert choice.scale == 2 * 2 * 2 * FULL_WEIGHT
        assert released.sensitivity == 4 * FULL_WEIGHT
    else:
        assert (choice.multiplier, released.multiplier) == (5.0, 5.0)
        assert choice.scale == pytest.approx(math.sqrt(math.pi / 2 * 2) * 5.0 * 2 * FULL_WEIGHT)
        assert released.sensitivity == 2 * FULL_WEIGHT
    chosen = measurement.chosen((2, 0))
    assert chosen.features.tables == (PAIRS[0], PAIRS[2])
    assert chosen.sensitivity == measurement.sensitivity, "whichever they are"
    assert len(chosen.features) <= released.coordinates


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": 0, "multiplier": 1.0},
        {"count": 1.0, "multiplier": 1.0},
        {"count": True, "multiplier": 1.0},
        {"count": 1, "epsilon": 1.0, "multiplier": 1.0},
        {"count": 1},
    ],
)
def test_choices_that_cannot_be_are_refused(wrong):
    with pytest.raises(PlanError):
        TableSelection(**wrong)


def test_choices_that_the_proof_does_not_cover_are_refused():
    right = choosing(count=2)
    for wrong in (
        TableSelection(4, 5.0),
        TableSelection(2, 5.0, rows_per_person=2),
        TableSelection(2, epsilon=1.0),
    ):
        with pytest.raises(PlanError):
            replace(right, choice=wrong)
    with pytest.raises(PlanError, match="expected"):
        right.choice.scores([0] * len(right.features), right.features, allowance=0.0)
    with pytest.raises(PlanError, match="expected"):
        choosing(np.zeros(3, dtype=np.int64)).choice.scores([0] * 9, right.features, allowance=0.0)
