"""Categories and missing values in the model: shares, dependence level by level, rows."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.model import sampling as placing
from smoothsynth.model.marginal_moments import hold_shares, measured_shares, where_there
from smoothsynth.model.marginals import flat_marginals
from smoothsynth.model.model import empty_model
from smoothsynth.model.sampling import choose_levels, place, scores
from smoothsynth.pipeline.rounds import Rounds
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.queries.bases import LATTICE, term_feature
from smoothsynth.queries.measurement import Measurement, NoisyMoments
from smoothsynth.queries.missing import without_missing


def even(count):
    return np.full(count, 1.0 / count)


@pytest.mark.parametrize("wanted", [[0.5, 0.5], [0.9, 0.07, 0.03], [0.998, 0.001, 0.001]])
@pytest.mark.parametrize("none", [False, True])
def test_levels_have_their_shares(wanted, none):
    drawn = np.random.default_rng(1).standard_normal((4000, len(wanted) - none))
    indicators = choose_levels(drawn, np.array(wanted), even(4000))
    np.testing.assert_allclose(indicators.mean(axis=0), wanted[: len(wanted) - none], atol=1e-3)
    assert set(np.unique(indicators)) <= {0.0, 1.0}
    assert indicators.sum(axis=1).max() <= 1.0
    if not none:
        assert indicators.sum(axis=1).min() == 1.0


def test_a_level_follows_its_score():
    rng = np.random.default_rng(2)
    drawn = rng.standard_normal((5000, 3))
    indicators = choose_levels(drawn, np.array([0.2, 0.3, 0.5]), even(5000))
    for level in range(3):
        assert drawn[indicators[:, level] == 1.0, level].mean() > drawn[indicators[:, level] == 0.0, level].mean() + 0.8


def test_columns_that_are_sorted_ahead_are_placed_the_same(monkeypatch):
    schema = ss.Schema(
        {"a": ss.Number(0, 1), "b": ss.Number(0, 1, nullable=True), "c": ss.Number(0, 1), "d": ss.Number(0, 1)}
    )
    columns = flat_marginals(schema).with_shares({2: 0.25})
    drawn = scores(2000, 5, generator=np.random.default_rng(0))
    one_by_one = place(drawn, columns, generator=np.random.default_rng(1))
    monkeypatch.setattr(placing, "_MANY", 100)
    np.testing.assert_array_equal(place(drawn, columns, generator=np.random.default_rng(1)), one_by_one)


def test_rows_of_a_flat_model_obey_the_schema():
    schema = ss.Schema({"a": ss.Category(["x", "y", "z"], nullable=True), "b": ss.Number(0, 1, nullable=True)})
    columns = flat_marginals(schema).with_shares({0: 0.2, 1: 0.3, 2: 0.1, 4: 0.25})
    rows = place(scores(2000, 5, generator=np.random.default_rng(0)), columns)
    np.testing.assert_allclose(rows[:, [0, 1, 2, 4]].mean(axis=0), [0.2, 0.3, 0.1, 0.25], atol=2e-3)
    assert np.all(rows[rows[:, 4] == 1.0, 3] == 0.0)
    np.testing.assert_array_equal(schema.snap(rows), rows)


def test_moments_where_a_value_is_there():
    values = np.concatenate([np.full(30, 0.0), np.full(70, 0.8)])  # thirty are missing
    squares = 2 * values**2 - 1
    value, noise = where_there(float(squares.mean()), 0.07, missing=0.3, centre=-1.0)
    assert value == pytest.approx(2 * 0.8**2 - 1)
    assert noise == pytest.approx(0.1)


def test_an_engine_counts_levels_beside_soft_counts():
    """The sums of all rows are those of the measurement, and those of a level how often it is there."""
    schema = ss.Schema({"x": ss.Number(-1, 1, nullable=True), "c": ss.Category(["a", "b", "c"], nullable=True)})
    plan = ss.plan(schema, 300, epsilon=1.0, delta=1e-6)
    measured = plan.measurements[plan.families.index("rank histogram")]
    rng = np.random.default_rng(4)
    x, c = rng.uniform(-1, 1, 300), rng.choice(["a", "b", None], 300)
    x[rng.random(300) < 0.2] = np.nan
    batch = pa.record_batch({"x": pa.array(x, from_pandas=True), "c": pa.array(c)})
    sums = Kernel(schema, measured.features, measured.transformation).start()
    sums.add(batch)
    found = np.array(without_missing(sums.totals(), measured), dtype=float) / LATTICE**2
    points = schema.to_unit({name: batch.column(name) for name in schema.names})
    np.testing.assert_allclose(found, measured.evaluate(points).sum(axis=0), atol=1e-9)
    assert found[-4:].tolist() == [np.isnan(x).sum(), (c == "a").sum(), (c == "b").sum(), 0]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    ward = rng.choice(["a", "b", "c"], 6000, p=[0.5, 0.3, 0.2])
    urgent = rng.random(6000) < np.where(ward == "c", 0.8, 0.2)
    stay = rng.normal(5, 1, 6000) + 3 * (ward == "b")
    stay[rng.random(6000) < 0.2] = np.nan
    return pd.DataFrame({"ward": ward, "urgent": urgent, "stay": stay})


SCHEMA = ss.Schema(
    {"ward": ss.Category(["a", "b", "c"]), "urgent": ss.Boolean(), "stay": ss.Number(0, 20, nullable=True)}
)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_mixed_release_keeps_shares_group_means_and_pairs(table, delta):
    made = ss.release(table, schema=SCHEMA, epsilon=20.0, delta=delta, seed=1).to_pandas()
    for ward in "abc":
        real, synthetic = table[table.ward == ward], made[made.ward == ward]
        assert len(synthetic) / 6000 == pytest.approx(len(real) / 6000, abs=0.02)
        # The groups are 3 and 0.6 apart; without dependence the errors would be 2 and 0.48.
        assert synthetic.stay.mean() == pytest.approx(real.stay.mean(), abs=1.0)
        assert synthetic.urgent.astype(float).mean() == pytest.approx(real.urgent.mean(), abs=0.15)
    assert made.stay.isna().mean() == pytest.approx(0.2, abs=0.02)


def test_a_table_of_categories_only(table):
    schema = ss.Schema({"ward": SCHEMA.columns["ward"]})
    plan = ss.plan(schema, 6000, epsilon=1.0, delta=1e-6)
    assert len(plan.measurements) == 1
    made = ss.release(table[["ward"]], schema=schema, epsilon=1.0, seed=1).to_pandas()
    shares = made.ward.value_counts(normalize=True)
    assert shares["a"] == pytest.approx(0.5, abs=0.03)


def test_a_mean_square_of_columns_of_which_one_is_half_missing():
    """Once all columns were taken to be there alike, and half of a far one missing left no spread to any (0.0025 for 0.2)."""
    schema = ss.Schema({"a": ss.Number(-1, 1, nullable=True), "b": ss.Number(-1, 1)})
    rng, rows = np.random.default_rng(1), 40_000
    missing = rng.random(rows) < 0.5
    a = np.where(missing, 0.0, rng.normal(0.5, 0.1, rows))
    points = np.stack([a, missing.astype(float), rng.normal(0.0, 0.2, rows)], axis=1)
    plan = ss.plan(schema, rows, epsilon=50.0)
    model = empty_model(schema)
    for measurement in plan.measurements[:2]:
        exact = measurement.evaluate(points).mean(axis=0) * rows * np.array(measurement.weights)
        model = model.update(NoisyMoments(measurement, rows, tuple(map(int, np.rint(exact)))))
    columns = model.columns
    assert columns.means() == pytest.approx([0.5, 0.5, 0.0], abs=0.01)
    # Only their mean square is known: together the spreads are right.
    deviations = columns.deviations()[[0, 2]]
    assert 0.5 * deviations[0] ** 2 + deviations[1] ** 2 == pytest.approx(0.5 * 0.1**2 + 0.2**2, rel=0.1)
    assert deviations.min() > 0.1


GRADES = ss.Schema({"grade": ss.Category([str(level) for level in range(10)]), "ward": ss.Category(["a", "b"])})


def released(shares, rows):
    """Shares as they might be released, with a noise of 2 rows."""
    measurement = Measurement("", [term_feature((c, 1)) for c in range(12)], "discrete gaussian", multiplier=1.0)
    scale = rows * measurement.weights[0]
    return NoisyMoments(measurement, rows, tuple(round(share * scale) for share in shares))


@pytest.fixture
def known():
    truth = np.append(np.full(10, 0.1), [0.7, 0.3])
    return truth, released(truth, 2_000), flat_marginals(GRADES)


def test_shares_that_agree_within_noise_are_weighed_by_it(known):
    truth, noisy, columns = known
    (_, noise), *_ = measured_shares(columns, [noisy]).values()
    off = np.append(np.tile([1.0, -1.0], 5), [1.0, -1.0]) * noise
    found = columns.with_shares(dict(enumerate(truth + off)))
    for cut, kept in ((noise, 0.5), (noise / 3.0, 0.9), (3.0 * noise, 0.1)):
        held = hold_shares(found, [noisy], cut_noise=np.full(12, cut))
        np.testing.assert_allclose(held.means() - truth, kept * off, atol=0.02 * noise)


def test_shares_that_a_cut_put_off_go_back_to_what_was_released(known):
    truth, noisy, columns = known
    off = np.append(np.tile([0.05, -0.05], 5), [0.1, -0.1])
    found = columns.with_shares(dict(enumerate(truth + off)))
    noise = np.full(12, next(iter(measured_shares(columns, [noisy]).values()))[1])
    held = hold_shares(found, [noisy], cut_noise=noise / 3.0)
    assert np.abs(held.means() - truth).max() < 0.05 * np.abs(off).max()
    assert hold_shares(found, [], cut_noise=noise) is found, "nothing was released to hold them to"


def test_a_level_of_rows_far_out_keeps_its_share():
    """Rows of level c are six times as long as others: when they were cut, the level had lost a tenth of its share."""
    rng = np.random.default_rng(1)
    level, normal = rng.choice(3, 20_000, p=[0.6, 0.3, 0.1]), rng.normal(size=(20_000, 3))
    values = normal * np.where(level == 2, 6.0, 1.0)[:, None]
    points = np.column_stack([values / np.abs(values).max(axis=0), np.eye(3)[level]])
    numbers = {f"x{i}": ss.Number(-1, 1) for i in range(3)}
    schema = ss.Schema({**numbers, "level": ss.Category(["a", "b", "c"])})
    rounds, learned = Rounds.planned(ss.plan(schema, len(points), epsilon=1.0, delta=1e-6)), []
    while (measurement := rounds.next) is not None:
        exact = measurement.evaluate(points).mean(axis=0) * len(points) * np.array(measurement.weights)
        rounds = rounds.after(NoisyMoments(measurement, len(points), tuple(int(z) for z in np.rint(exact))))
        learned.append(rounds.model.columns.means()[3:])
    np.testing.assert_allclose(learned[-1], points[:, 3:].mean(axis=0), atol=0.001)
    np.testing.assert_allclose(learned[-1], learned[-2], atol=1e-12, err_msg="lengths of rows tell nothing of shares")
