"""Cells that no value of their column stands for: other columns are as if there were none."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.model.marginal_moments import learn_shares, opened, unmatched, with_levels
from smoothsynth.model.marginals import fit_independent, flat_marginals
from smoothsynth.model.sampling import generator
from smoothsynth.queries.bases import term_feature
from smoothsynth.queries.measurement import FULL_WEIGHT, Measurement, NoisyMoments

ROWS = 6_000
THREE = ss.Category(["A", "B", "C"])
NAMES = ["A", "B", "C"]


def cells(kind, share, rng):
    strange = rng.random(ROWS) < share
    if kind == "boolean":
        return np.where(strange, "?", rng.choice(["true", "false"], ROWS))
    if kind == "two numbers":
        return np.where(strange, np.nan, rng.integers(0, 2, ROWS))
    return np.where(strange, None if kind == "missing" else "typo", rng.choice(NAMES, ROWS, p=[0.5, 0.3, 0.2]))


COLUMNS = {"no level": THREE, "missing": THREE, "boolean": ss.Boolean(), "two numbers": ss.Integer(0, 1)}


@pytest.mark.parametrize(
    ("kind", "share", "delta"),
    [
        *((kind, 0.43, 1e-6) for kind in COLUMNS),
        ("no level", 0.1, 1e-6),
        ("no level", 1.0, 0.0),
        ("missing", 0.43, 0.0),
        ("boolean", 1.0, 0.0),
    ],
)
def test_cells_that_are_no_value_of_their_column_touch_no_other_column(kind, share, delta):
    rng = np.random.default_rng(1)
    values = {
        "g": np.where(rng.random(ROWS) < 0.1, np.nan, rng.normal(5.5, 1, ROWS)),
        "u": rng.random(ROWS),
        "c": cells(kind, share, rng).tolist(),
    }
    schema = ss.Schema({"g": ss.Number(0, 16, nullable=True), "u": ss.Number(0, 1), "c": COLUMNS[kind]})
    release = ss.release(pa.table(values), schema=schema, epsilon=4.0, delta=delta, seed=1, synthetic_rows=3_000)
    rows = release.to_pandas()
    assert 0.85 < rows["g"].std() < 1.35
    assert rows["u"].std() == pytest.approx(12**-0.5, rel=0.08)
    assert (rows["g"] > 6.5).mean() / 0.9 == pytest.approx(0.159, abs=0.03)
    if kind in ("no level", "missing"):
        assert unmatched(schema, release.moments)["c"] == pytest.approx(share, abs=0.02)
    if isinstance(COLUMNS[kind], ss.Category) and share < 1.0:
        shares = rows["c"].value_counts(normalize=True)[NAMES].to_numpy()
        np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=0.03)


def test_weighed_candidates_have_rows_without_a_level_too():
    rng = np.random.default_rng(2)
    values = {"x": rng.normal(5, 1, 4_000), "c": np.where(rng.random(4_000) < 0.5, "typo", rng.choice(NAMES, 4_000))}
    schema = ss.Schema({"x": ss.Number(0, 10), "c": THREE})
    made = ss.release(
        pa.table(values),
        schema=schema,
        epsilon=5.0,
        delta=1e-6,
        seed=1,
        method=ss.methods.Adaptive(candidates="model", fit="linear program"),
    ).to_pandas()
    assert made["x"].mean() == pytest.approx(5.0, abs=0.3)
    assert made["x"].std() == pytest.approx(1.0, abs=0.3)
    np.testing.assert_allclose(made["c"].value_counts(normalize=True)[NAMES], [1 / 3] * 3, atol=0.05)


def released(shares, rows=1_000):
    features = tuple(term_feature((c, 1)) for c in range(len(shares)))
    measurement = Measurement("shares", features, "discrete gaussian", multiplier=20.0, binary=(0, 1, 2))
    return NoisyMoments(measurement, rows, tuple(round(share * rows * FULL_WEIGHT) for share in shares))


def test_rows_may_lack_a_level_where_noise_does_not_explain_what_shares_leave():
    schema = ss.Schema({"c": THREE})
    noise = np.sqrt(3) * released([0.5, 0.3, 0.2]).deviations[0]
    for left, lacking in ((0.0, False), (3.9 * noise, False), (4.1 * noise, True)):
        moments = [released([0.5 - left, 0.3, 0.2])]
        found = learn_shares(flat_marginals(schema), moments)
        assert found.groups.whole == (not lacking,)
        assert unmatched(schema, moments) == ({"c": pytest.approx(left, abs=1e-6)} if lacking else {})
        assert opened(schema, moments).columns["c"].nullable is lacking
        total = sum(found.share(c) for c in range(3))
        assert total == pytest.approx(1.0 - left if lacking else 1.0)
    nullable = ss.Schema({"c": ss.Category(NAMES, nullable=True)})
    assert unmatched(nullable, [released([0.1, 0.1, 0.1])]) == {}


def test_a_level_is_drawn_as_often_as_other_rows_have_it_and_only_where_one_lacks():
    schema = ss.Schema({"x": ss.Number(0, 1), "c": THREE})
    rows = np.zeros((1_000, 4))
    rows[:300, 1] = rows[300:400, 3] = 1.0
    rows[:, 0] = np.linspace(-1, 1, 1_000)
    found = with_levels(schema, rows, generator=generator(1))
    np.testing.assert_array_equal(found[:400], rows[:400])
    np.testing.assert_array_equal(found[:, 0], rows[:, 0])
    np.testing.assert_allclose(found[:, 1:].sum(axis=0), [750, 0, 250], atol=1)
    assert abs(np.corrcoef(found[400:, 0], found[400:, 1])[0, 1]) < 0.15
    whole = with_levels(schema, found, generator=None)
    assert whole is found
    # Where no row has any, all are alike.
    even = with_levels(schema, np.zeros((300, 4)), generator=generator(1))[:, 1:]
    np.testing.assert_allclose(even.sum(axis=0), 100, atol=1)


def test_a_density_stays_one_where_moments_pull_it_to_places_that_are_impossible():
    columns = flat_marginals(ss.Schema({"x": ss.Number(0, 1)}))
    middle = replace(columns, base=np.where(np.abs(columns.places) < 0.02, columns.base, 0.0))
    far = fit_independent(middle, [term_feature((0, 2))], np.ones(1), np.full(1, 1e-4), there=np.ones(1))
    assert far.masses.sum() == pytest.approx(1.0)
    assert far.masses[0, np.abs(columns.places[0]) < 0.02].sum() == pytest.approx(1.0)
