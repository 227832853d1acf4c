"""What the proofs of private bounds and levels claim, by brute force and by exact enumeration."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smoothsynth as ss
from smoothsynth.accounting.charges import (
    Charge,
    compose,
    gaussian_delta,
    gaussian_sigma,
    laplace_scale,
    split_delta,
    stable_threshold,
)
from smoothsynth.accounting.ledger import Ledger
from smoothsynth.discovery.bounds import CELLS, STEPS, grid_over, reach
from smoothsynth.discovery.levels import LENGTH, LevelsMeasurement
from smoothsynth.discovery.search import Search, plan_discovery
from smoothsynth.pipeline.plan import plan
from smoothsynth.private import measure
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.measurement import FULL_WEIGHT
from smoothsynth.schema.category import Intervals

CELLS_TO_TRY = [-7.0, -1.0, 0.0, 0.5, 3.0, 3e40, np.inf, -np.inf, np.nan]


def test_replacing_a_row_moves_counts_by_two_in_each_column_and_no_more():
    schema = ss.Schema({"x": ss.Number("private", "private"), "y": ss.Integer("private", "private")})
    search = Search.of(schema)
    rows = list(itertools.product(CELLS_TO_TRY, CELLS_TO_TRY[:5]))
    x, y = (np.array(values) for values in zip(*rows, strict=True))
    marks = _indicators(search, x, y)
    assert set(marks.ravel()) == {0.0, 1.0}
    moves = np.abs(marks[:, None] - marks[None])
    assert moves.sum(axis=2).max() == 4.0
    assert np.sqrt((moves**2).sum(axis=2)).max() == 2.0
    for discovery in (_planned(schema, 0.0), _planned(schema, 1e-6)):
        for measurement in discovery.rounds:
            least = 4.0 if measurement.mechanism == "discrete laplace" else 2.0
            assert least <= measurement.sensitivity / FULL_WEIGHT <= least * 1.01


def _indicators(search, x, y):
    columns = search.schema.columns
    codes = [columns["x"].codes(x), columns["y"].codes(y)]
    return np.concatenate(
        [(c[:, None] == np.arange(columns[n].dimensions)).astype(float) for n, c in zip("xy", codes, strict=True)],
        axis=1,
    )


def _planned(schema, delta):
    return plan_discovery(
        schema, ss.Budget(1.0, delta), bounds_share=0.1, levels_share=0.1, rows_per_person=1, gaussian=bool(delta)
    )


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9, unique=True), st.floats(allow_infinity=True, allow_nan=True)
)
def test_every_number_lies_in_one_interval_and_a_missing_one_in_none(edges, value):
    column = Intervals(tuple(sorted(edges)), "number")
    (place,) = column.codes(np.array([value]))
    ends = (-math.inf, *column.edges, math.inf)
    inside = [
        i for i, (low, high) in enumerate(itertools.pairwise(ends)) if low <= value < high or value == high == math.inf
    ]
    assert inside[-1:] == ([] if math.isnan(value) else [place])
    assert bool(place == -1) == math.isnan(value)


@settings(deadline=None)
@given(st.floats(-1e30, 1e30), st.floats(1e-30, 1e30), st.booleans(), st.booleans())
def test_grids_cover_what_they_are_laid_over(low, width, whole, nonnegative):
    low = abs(low) if nonnegative else low
    high = low + width
    if not high > low:
        return
    grid = grid_over(low, high, lower=0.0 if nonnegative else None, upper=None, whole=whole)
    assert len(grid.edges) == STEPS + 1
    if grid.step > Fraction(max(abs(low), abs(high))) * Fraction(1, 2**45):
        assert list(grid.edges) == sorted(set(grid.edges))
    first, last = grid.step * grid.start, grid.step * (grid.start + STEPS)
    assert last >= Fraction(high)
    assert first <= Fraction(low) or (nonnegative and grid.start == 1)
    assert 0 <= grid.covered[0] < grid.covered[1] <= CELLS
    assert not whole or grid.step.denominator == 1
    # No finer step of few digits would do.
    assert (grid.step * STEPS < 5 * (Fraction(high) - Fraction(low)) + 4 * grid.step) or (whole and grid.step == 1)


def laplace_law(scale, most):
    q = math.exp(-1.0 / scale)
    return np.array([(1 - q) / (1 + q) * q ** abs(z) for z in range(-most, most + 1)])


@pytest.mark.parametrize("terms", [1, 2, 4, 9])
@pytest.mark.parametrize("chance", [0.1, 1e-3, 1e-6])
def test_noise_alone_reaches_no_farther(terms, chance):
    charge = Charge("counts", "discrete laplace", "l1", 2.0, 6.0, 1, 0.34, None)
    law, total = laplace_law(6.0, 400), np.array([1.0])
    for _ in range(terms):
        total = np.convolve(total, law)
    tail = total[len(total) // 2 + reach(charge, terms, chance) :].sum()
    # One count: the double is rounded to the next whole number; several: Chernoff's bound is not tight.
    assert tail <= chance * (1.1 if terms == 1 else 1.0)
    assert tail >= chance / 60
    gaussian = Charge("counts", "discrete gaussian", "l2", 2.0, gaussian_sigma(2, 3.0), 1, None, 3.0)
    z = reach(gaussian, terms, chance) / (gaussian.scale * math.sqrt(terms))
    assert 0.5 * math.erfc(z / math.sqrt(2)) <= chance
    assert 0.5 * math.erfc((z - 1.1 / gaussian.scale) / math.sqrt(2)) >= chance


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 2.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_the_threshold_keeps_delta_and_one_less_would_not(epsilon, delta):
    scale = laplace_scale(2, epsilon)
    threshold = stable_threshold(scale, delta)
    with localcontext() as context:
        context.prec = 60
        q = (Decimal(-1) / Decimal(scale)).exp()

        def shown(at):
            return q ** (at - 1) / (1 + q)

        rare = min(Decimal(delta), 1 - q)
        assert shown(threshold) <= rare
        assert threshold == 2 or shown(threshold - 1) > rare


def outcomes(counts, epsilon, threshold, most=400):
    """Return the law of what is shown of each value: nothing (first), or a count from the threshold on."""
    laws = []
    for count in counts:
        law = np.zeros(most)
        if count:
            noise = laplace_law(laplace_scale(2, epsilon), 2 * most)
            shown = {count + z: p for z, p in zip(range(-2 * most, 2 * most + 1), noise, strict=True)}
            law[1:] = [shown[threshold + i] for i in range(most - 1)]
        law[0] = 1.0 - law[1:].sum()
        laws.append(law)
    return laws


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-4, 0.02])
def test_levels_are_private_by_exact_enumeration(epsilon, delta):
    """P(S) <= e^eps P'(S) + delta for the worst S, over all tables of four rows with two values, both ways."""
    threshold = LevelsMeasurement("x", epsilon, delta).threshold
    worst = 0.0
    for a in range(5):
        # The other rows, if any, have a third value that does not change; or the row goes missing.
        for one, other in (((a, 4 - a), (a - 1, 5 - a)), ((a, 0), (a - 1, 0)), ((a, 0), (a - 1, 1))):
            if a == 0 or min(*one, *other) < 0:
                continue
            for first, second in ((one, other), (other, one)):
                p, r = (np.multiply.outer(*outcomes(counts, epsilon, threshold)) for counts in (first, second))
                worst = max(worst, float(np.maximum(p - math.exp(epsilon) * r, 0.0).sum()))
    assert worst <= delta * (1 + 1e-9)
    # The bound is attained up to the rounding of the threshold, so a threshold that is too low would be seen.
    q = math.exp(-epsilon / 2)
    assert worst >= q * min(delta, 1 - q) * 0.99 / math.exp(epsilon / 2) or threshold == 2


def gaussian_law(sigma, most):
    law = np.exp(-(np.arange(-most, most + 1.0) ** 2) / (2.0 * sigma * sigma))
    return law / law.sum()


@pytest.mark.parametrize("multiplier", [0.05, 0.7, 4.0, 40.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_the_gaussian_threshold_keeps_delta_and_a_lower_one_would_not(multiplier, delta):
    assert Fraction(LENGTH) ** 2 > 2
    measurement = LevelsMeasurement("x", None, delta, multiplier)
    most = 60 * math.ceil(measurement.scale)
    law = gaussian_law(measurement.scale, most)

    def shown(at):
        return law[most + at - 1 :].sum()

    assert shown(measurement.threshold) <= delta < shown(measurement.threshold - 3)


@pytest.mark.parametrize("multiplier", [0.6, 1.5])
@pytest.mark.parametrize("delta", [1e-4, 0.02])
def test_gaussian_levels_are_private_by_exact_enumeration(multiplier, delta):
    """For the worst S, and at every epsilon, P exceeds e^eps P' by no more than delta and what one Gaussian does."""
    measurement = LevelsMeasurement("x", None, delta, multiplier)
    tables = [((a, 9 - a), (a - 1, 10 - a)) for a in range(1, 10)] + [((a, 0), (a - 1, 0)) for a in (1, 2, 9)]
    worst = 0.0
    for first, second in [*tables, *((b, a) for a, b in tables)]:
        p, r = (np.multiply.outer(*gaussian_outcomes(counts, measurement)) for counts in (first, second))
        for epsilon in (0.0, 0.2, 1.0, 3.0):
            excess = float(np.maximum(p - math.exp(epsilon) * r, 0.0).sum())
            bound = delta + gaussian_delta(multiplier, max(epsilon, 1e-6))
            assert excess <= bound * (1 + 1e-9)
            worst = max(worst, excess / bound)
    # Discrete noise has 4 more of variance than the continuous one, and a threshold that hides half of all counts.
    assert worst > 0.2
    sums = compose([measurement.charge()], delta=0.05)
    assert gaussian_delta(multiplier, sums.epsilon) + delta <= 0.05


def gaussian_outcomes(counts, measurement, most=120):
    laws = []
    for count in counts:
        law = np.zeros(most)
        if count:
            noise = gaussian_law(measurement.scale, 2 * most)
            law[1:] = noise[2 * most + measurement.threshold - count :][: most - 1]
        law[0] = 1.0 - law[1:].sum()
        laws.append(law)
    return laws


def test_levels_under_gaussian_noise_cost_nothing_pure():
    levels, rounds = ss.Category("private"), ss.Number("private", "private")
    for columns in ({"c": levels}, {"c": levels, "e": levels, "x": rounds}):
        planned = plan(ss.Schema({**columns, "z": ss.Number(0, 1)}), 10**5, epsilon=1.0, delta=1e-6)
        found = [charge for charge in planned.charges if charge.delta]
        assert [charge.epsilon for charge in planned.charges] == [None] * len(planned.charges)
        assert sum(Fraction(charge.delta) for charge in found) <= Fraction(1e-6) * Fraction(101, 1000)
        whole = sum(charge.multiplier**-2 for charge in planned.charges)
        assert sum(charge.multiplier**-2 for charge in found) == pytest.approx(0.1 * whole, rel=1e-6)
        # 310 and more with Laplace noise beside Gaussian noise.
        assert max(m.threshold for m in planned.discovery.levels) <= 150


def test_a_lower_threshold_would_be_caught():
    epsilon, delta = 1.0, 1e-3
    threshold = LevelsMeasurement("x", epsilon, delta).threshold - 2
    p, r = (np.multiply.outer(*outcomes(counts, epsilon, threshold)) for counts in ((1, 3), (0, 4)))
    assert np.maximum(p - math.exp(epsilon) * r, 0.0).sum() > delta


@given(st.floats(1e-300, 0.999), st.floats(0.001, 0.999))
def test_parts_of_delta_never_exceed_it(delta, share):
    part, rest = split_delta(delta, share)
    assert Fraction(part) + Fraction(rest) <= Fraction(delta)
    assert part + rest == pytest.approx(delta)


@settings(deadline=None, max_examples=40)
@given(
    epsilon=st.floats(0.05, 20.0),
    delta=st.sampled_from([0.0, 1e-12, 1e-6, 1e-3]),
    bounds_share=st.floats(0.01, 0.9),
    levels_share=st.floats(0.01, 0.9),
    searched=st.integers(0, 3),
    categories=st.integers(0, 3),
)
def test_plans_cost_no_more_than_the_budget(epsilon, delta, bounds_share, levels_share, searched, categories):
    columns = {"public": ss.Number(0, 1), **{f"x{i}": ss.Number("private", "private") for i in range(searched)}}
    if delta:
        columns |= {f"c{i}": ss.Category("private") for i in range(categories)}
    shares = {"bounds_share": bounds_share, "levels_share": levels_share}
    planned = plan(ss.Schema(columns), 10**6, epsilon=epsilon, delta=delta, **shares)
    assert planned.cost.epsilon <= epsilon
    assert planned.cost.delta <= delta
    assert planned.cost.epsilon >= epsilon * 0.999


CODED = {
    "a": [None, "x", "y", "no level"],
    "b": [None, "u", "v", "w"],
    "c": [None, True, False],
}
CODED_COLUMNS = {
    "a": ss.Category(["x", "y"]),
    "b": ss.Category(["u", "v", "w"], nullable=True),
    "c": ss.Boolean(nullable=True),
}
coded_rows = st.tuples(*map(st.sampled_from, CODED.values()))


@settings(deadline=None, max_examples=40)
@given(st.lists(coded_rows, min_size=1, max_size=6), coded_rows, st.sampled_from([0.0, 1e-6]), st.integers(1, 2))
def test_replacing_a_row_moves_counts_of_pairs_by_what_is_charged(rows, other, delta, count):
    """The real measuring code without its noise: in L1 by 2 for each table, in L2 by the root of that, or not at all."""
    rules = ["a -> b", "a -> c"][:count]
    schema = ss.Schema(CODED_COLUMNS, rules, dict.fromkeys(rules, "private"))
    planned = _planned(schema, delta)
    before, after = (_pairs_counted(schema, planned, table) for table in (rows, [other, *rows[1:]]))
    move = np.array(after, dtype=float) - np.array(before, dtype=float)
    assert sum(before) == sum(after) == count * len(rows) * FULL_WEIGHT
    places = [("xy".find(row[0] or "-"), row[1], row[2]) for row in (rows[0], other)]
    changed = sum(places[0][0] != places[1][0] or places[0][i] != places[1][i] for i in range(1, count + 1))
    assert np.abs(move).sum() == 2 * FULL_WEIGHT * changed
    assert np.linalg.norm(move) == pytest.approx(math.sqrt(2 * changed) * FULL_WEIGHT)
    # What is charged is the most that occurs, and no more than its rounding above it.
    most = math.sqrt(2 * count) if delta else 2 * count
    assert planned.codes.sensitivity == math.ceil(most * FULL_WEIGHT)


def _pairs_counted(schema, planned, rows):
    columns = dict(zip(CODED, zip(*rows, strict=True), strict=True))
    types = {"a": pa.string(), "b": pa.string(), "c": pa.bool_()}
    table = open_table(pa.table({n: pa.array(cells, types[n]) for n, cells in columns.items()}), schema)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "_draw_noise", lambda size, _measurement: [0] * size)
        ledger = Ledger(ss.Budget(1.0, 1e-6))
        found = measure.discover(table, planned, engine=LocalEngine(), ledger=ledger)
    assert ledger.charges == planned.charges
    return found.codes.integers
