"""Sums through a transformation, by whole blocks and by counting, are those of the transformation itself, row by row."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsynth.private.engines.blocks import BlockTransformation
from smoothsynth.private.engines.histogram import only_counts
from smoothsynth.private.engines.kernel import Kernel, Products
from smoothsynth.queries.bases import Feature, pooled, term_feature, total_degree
from smoothsynth.queries.families import ClippedSecondMoments, RankHistogram, RowNorms
from smoothsynth.queries.measurement import LATTICE as S
from smoothsynth.queries.transformation import KNOTS, Transformation
from smoothsynth.schema import Number, Schema

D = 3
UNIT = Schema({f"x{i}": Number(-1, 1) for i in range(D)})
SINGLE = [term_feature((c, k)) for c in range(D) for k in (1, 2, 3, 7)]
seeds = st.integers(0, 2**32 - 1)


def make_transformation(seed, *, radius=None, pooled=False, wild=True):
    rng = np.random.default_rng(seed)
    shape = (1 if pooled else D, KNOTS)
    family = RowNorms() if pooled else RankHistogram() if radius is None else ClippedSecondMoments(radius)
    if wild:
        return Transformation(rng.choice([-S, S, 0, 1, -1, S - 1], size=shape), family)
    return Transformation(np.sort(rng.integers(-S, S + 1, size=shape), axis=1), family)


def lattice(seed, rows):
    rng = np.random.default_rng(seed)
    values = rng.integers(-S, S + 1, size=(D, rows))
    # The ends, the knots and their neighbours are where a piece could be mistaken for the next.
    special = np.concatenate([np.arange(-S, S + 1, 256), np.arange(-S, S, 256) + 255])
    values[:, : rows // 2] = rng.choice(special, size=(D, rows // 2))
    return values


def term_value(x, term):
    """A term of one row in big integers, in units of S^2; at most two factors, each of any degree."""
    values = []
    for c, k in term:
        before, last = 1.0, x[c] / S
        for _ in range(k - 1):
            before, last = last, 2 * (x[c] / S) * last - before
        values.append(int(x[c]) if k == 1 else max(-S, min(S, round(S * last))))
    if len(values) == 2:
        return values[0] * values[1]
    return 2 * int(x[term[0][0]]) ** 2 - S * S if term[0][1] == 2 else values[0] * S


def by_hand(transformation, features, values):
    seen = np.rint(transformation.of(values.T / S) * S).astype(np.int64)
    return [sum(term_value(x, term) for x in seen for term in f.terms) for f in features]


def kernel_sums(transformation, features, values, way=None):
    kernel = Kernel(UNIT, features, transformation)
    if way is not None:
        kernel.counted = way
    sums = kernel.start()
    order = [UNIT.names.index(name) for name in kernel.names]
    half = values.shape[1] // 3
    for part in (values[:, :half], values[:, half:]):
        sums.add_columns([part[c] / S for c in order], part.shape[1])
    return sums.totals()


@given(seed=seeds, rows=st.integers(1, 60), wild=st.booleans())
@settings(max_examples=25, deadline=None)
def test_bent_rows(seed, rows, wild):
    transformation, values = make_transformation(seed, wild=wild), lattice(seed, rows)
    assert kernel_sums(transformation, total_degree(2, D), values) == by_hand(
        transformation, total_degree(2, D), values
    )
    expected = by_hand(transformation, SINGLE, values)
    assert kernel_sums(transformation, SINGLE, values, way=True) == expected
    assert kernel_sums(transformation, SINGLE, values, way=False) == expected


@given(seed=seeds, rows=st.integers(1, 60), radius=st.sampled_from([0.001, 0.5, 1.0, 1.3, 2.0]))
@settings(max_examples=25, deadline=None)
def test_shortened_rows(seed, rows, radius):
    transformation, values = make_transformation(seed, radius=radius, wild=False), lattice(seed, rows)
    assert kernel_sums(transformation, total_degree(2, D), values) == by_hand(
        transformation, total_degree(2, D), values
    )


@given(seed=seeds, rows=st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_pooled_rows(seed, rows):
    transformation, values = make_transformation(seed, pooled=True), lattice(seed, rows)
    features = [term_feature((0, k)) for k in range(1, 5)]
    assert kernel_sums(transformation, features, values) == by_hand(transformation, features, values)


def test_every_value_of_the_lattice_is_bent_as_the_view_says():
    every = np.arange(-S, S + 1, dtype=np.float64)
    for seed in range(3):
        transformation = make_transformation(seed)
        chunk = np.tile(every, (2, 1))
        BlockTransformation(transformation, (2, 0), len(every)).at(chunk, chunk)
        assert np.array_equal(chunk[0], transformation.bend(2, every))
        assert np.array_equal(chunk[1], transformation.bend(0, every))


def test_missing_and_infinite_values_have_their_place_in_every_way():
    values = np.tile([np.nan, np.inf, -np.inf, 0.25, 7.0], (D, 700))
    clean = np.tile([0.0, 1.0, -1.0, 0.25, 1.0], (D, 700)) * S
    for transformation, features in (
        (make_transformation(1, wild=False), SINGLE),
        (make_transformation(1, wild=False), total_degree(2, D)),
        (make_transformation(2, radius=1.0), total_degree(2, D)),
        (make_transformation(3, pooled=True), [term_feature((0, 1)), term_feature((0, 2))]),
        (None, SINGLE),
        (None, total_degree(3, D)),
        (None, [pooled(2, range(D))]),
    ):
        for way in {False, Kernel(UNIT, features, transformation).counted}:
            assert kernel_sums(transformation, features, values * S, way) == kernel_sums(
                transformation, features, clean, way
            )


@given(rows=st.lists(st.integers(0, 9000), min_size=1, max_size=5))
@settings(max_examples=15, deadline=None)
def test_batches_of_any_size_fill_blocks_alike(rows):
    values = np.random.default_rng(0).uniform(-1, 1, size=(D, sum(rows)))
    features = total_degree(2, D)
    whole, parts = Kernel(UNIT, features).start(), Kernel(UNIT, features).start()
    whole.add_columns(list(values), sum(rows))
    start = 0
    for size in rows:
        parts.add_columns(list(values[:, start : start + size]), size)
        start += size
    assert parts.totals() == whole.totals()
    x = np.rint(values * S).astype(np.int64)
    assert whole.totals()[D + 1] == int((x[0] * x[1]).sum())


def test_what_is_counted():
    bent, short = make_transformation(0), make_transformation(0, radius=1.0)
    assert only_counts(SINGLE, None, D)
    assert only_counts(SINGLE[:2], bent, D)
    assert not only_counts(SINGLE[:2], None, D), "means and squares are cheaper as a product"
    assert not only_counts(SINGLE, short, D), "the length of a row is that of all its coordinates"
    assert not only_counts(SINGLE, None, 1000), "the counts of a thousand columns take half a gigabyte"
    assert not only_counts([*SINGLE, Feature((((0, 1), (1, 1)),))], None, D)
    assert not isinstance(Kernel(UNIT, SINGLE).start()._way, Products)
