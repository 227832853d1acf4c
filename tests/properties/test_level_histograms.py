"""Histograms of levels: a row lies in one node of each, nothing moves them farther than stated, engines sum them exactly."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsynth.errors import PlanError
from smoothsynth.model.levels import drawn_levels, level_shares
from smoothsynth.model.sampling import generator
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.engines.partial import Work, total
from smoothsynth.private.table import open_table
from smoothsynth.queries.level_histograms import LevelHistogram, LevelHistograms
from smoothsynth.queries.measurement import FULL_WEIGHT, Measurement, NoisyMoments, coarse_sums
from smoothsynth.queries.transformation import Transformation
from smoothsynth.schema import Category, Schema

LETTERS = "ABCDEFGHIJKL"
CODES = [f"{letter}{block}{code}" for letter in LETTERS for block in range(5) for code in range(6)]
SCHEMA = Schema(
    {
        "a": Category(CODES, parents=[1, 2]),
        "b": Category([f"p{i:03}" for i in range(300)], nullable=True),
        "c": Category(["x", "y"]),
    }
)
# Tiers below the cube: of `a` blocks (60) and codes (360), of `b`, which has runs, its 300 levels.
FAMILY = LevelHistograms((LevelHistogram(0, 1, 60), LevelHistogram(0, 2, 360), LevelHistogram(1, 1, 300)))
SIZES = [61, 361, 301]


def measurement(mechanism="discrete laplace", **settings):
    cost = {"multiplier": 1.0} if mechanism == "discrete gaussian" else {"epsilon": 1.0}
    seen = Transformation.straight(SCHEMA.dimensions, FAMILY)
    return Measurement("", FAMILY.cells(), mechanism, transformation=seen, **cost, **settings)


def rows(a, b):
    return pa.table({"a": pa.array(a, pa.string()), "b": pa.array(b, pa.string()), "c": ["x"] * len(a)})


def sums(table, engine=None):
    m = measurement()
    found = (engine or LocalEngine()).sums(open_table(table, SCHEMA), m.features, transformation=m.transformation)
    return np.array(coarse_sums(found.unseal(), m))


cells = st.tuples(
    st.sampled_from([*CODES, "nothing of these", None]), st.sampled_from(["p000", "p007", "p299", "?", None])
)


@settings(max_examples=40, deadline=None)
@given(st.lists(cells, min_size=2, max_size=6), cells)
def test_replacing_a_row_moves_the_sums_no_farther_than_stated(table, other):
    one, two = (sums(rows(*zip(*t, strict=True))) for t in (table, [other, *table[1:]]))
    assert np.abs(one - two).sum() <= measurement().sensitivity
    assert np.linalg.norm(one - two) <= measurement("discrete gaussian").sensitivity
    assert np.abs(one - two).max() <= FULL_WEIGHT


def test_sensitivities_are_attained_and_no_larger():
    one, two = sums(rows(["A00", "B00"], ["p000", "p000"])), sums(rows(["L45", "B00"], [None, "p000"]))
    assert np.abs(one - two).sum() == 6 * FULL_WEIGHT == measurement().sensitivity
    assert measurement("discrete gaussian").sensitivity == math.ceil(np.linalg.norm(one - two))
    assert measurement(rows_per_person=3).sensitivity == 18 * FULL_WEIGHT


def test_engines_count_exactly_whatever_the_batches():
    draw = np.random.default_rng(0)
    a = draw.choice([*CODES, " A00 ", "unknown"], 2000).tolist()
    b = [None if u < 0.1 else f"p{int(300 * u * u):03}" for u in draw.random(2000)]
    table, known = rows(a, b), set(CODES)
    found = np.split(sums(table) // FULL_WEIGHT, np.cumsum(SIZES)[:-1])
    trimmed = [cell.strip() for cell in a]
    assert found[1].tolist() == [trimmed.count(code) for code in CODES] + [sum(c not in known for c in trimmed)]
    assert found[0][:60].tolist() == found[1][:360].reshape(60, 6).sum(axis=1).tolist()
    assert found[2][-1] == b.count(None)
    assert [part.sum() for part in found] == [2000] * 3
    for engine in (LocalEngine(batch_rows=7, threads=3), LocalEngine(batch_rows=1999, threads=1)):
        assert (sums(table, engine) == sums(table)).all()


def test_parts_of_a_cluster_add_up_to_the_same():
    table, m = rows(CODES, [f"p{i % 300:03}" for i in range(360)]), measurement()
    work = Work.checked(open_table(table, SCHEMA), m.features, m.transformation)
    parts = [work.over(lambda at=at: table.slice(at, 90).to_batches()) for at in range(0, 360, 90)]
    assert (np.array(coarse_sums(total(parts, work.nothing).totals, m)) == sums(table)).all()


def test_moments_are_written_and_read_back_the_same():
    noisy = NoisyMoments(measurement(), 10, tuple(range(sum(SIZES))))
    assert NoisyMoments.from_dict(noisy.as_dict()) == noisy


@pytest.mark.parametrize(
    "histograms", [((0, 1, 60), (0, 1, 60)), ((0, 0, 12),), ((0, 1, 61),), ((2, 1, 2),), ((7, 0, 1),), ()]
)
def test_tiers_that_a_schema_does_not_have_are_refused(histograms):
    with pytest.raises(PlanError, match="Histograms of levels"):
        LevelHistograms(tuple(LevelHistogram(*one) for one in histograms)).check_schema(SCHEMA)


def noisy_counts(seed, noise, gaussian):
    draw, m = np.random.default_rng(seed), measurement("discrete gaussian" if gaussian else "discrete laplace")
    counts = draw.poisson(3.0, sum(SIZES)) * draw.integers(0, 50, sum(SIZES))
    blurred = np.rint((counts + noise * draw.standard_normal(sum(SIZES))) * FULL_WEIGHT).astype(int)
    return NoisyMoments(m, 10_000, tuple(blurred.tolist()))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 10.0, 1e4]), st.booleans())
def test_shares_are_positive_and_add_up_in_every_node(seed, noise, gaussian):
    shares = level_shares(SCHEMA, [noisy_counts(seed, noise, gaussian)])
    assert set(shares) == {"a", "b"}
    for name, own in shares.items():
        tiers = SCHEMA.columns[name].hierarchy
        assert own.min() > 0.0
        assert np.bincount(tiers.places[tiers.cube], weights=own) == pytest.approx(1.0)


def test_what_was_not_counted_is_shared_alike():
    assert level_shares(SCHEMA, [])["a"] == pytest.approx(1 / 30)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 400))
def test_levels_are_drawn_within_their_node_and_have_their_share_up_to_a_row(seed, count):
    shares, tiers = level_shares(SCHEMA, [noisy_counts(seed, 10.0, gaussian=True)]), SCHEMA.columns["b"].hierarchy
    nodes = np.random.default_rng(seed).integers(-1, len(tiers.nodes[0]), count)
    points = np.zeros((count, SCHEMA.dimensions))
    there = np.flatnonzero(nodes >= 0)
    points[there, SCHEMA.coordinates_of("b").start + nodes[there]] = 1.0
    drawn = drawn_levels(SCHEMA, shares, points, generator=generator(seed % 1000))
    again = drawn_levels(SCHEMA, shares, points, generator=generator(seed % 1000))
    assert all((drawn[name] == again[name]).all() for name in drawn)
    assert (np.append(tiers.places[0], -1)[drawn["b"]] == nodes).all()
    rows_of = np.bincount(nodes[there], minlength=len(tiers.nodes[0]))
    expected = shares["b"] * rows_of[tiers.places[0]]
    assert np.abs(np.bincount(drawn["b"][there], minlength=300) - expected).max() < 1.0 + 1e-6
