"""The lattice rule, the sums and the way from cells to numbers, for any table that hypothesis can think of."""

import itertools
import math

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.private.engines.products import _CALL as CALL
from smoothsynth.private.engines.products import recipe
from smoothsynth.queries.bases import Feature, evaluate
from smoothsynth.queries.measurement import LATTICE as S
from smoothsynth.queries.measurement import _rounding
from smoothsynth.schema import Integer, Number, Schema
from smoothsynth.schema.cells import parse_cells

D = 4
terms = st.dictionaries(st.integers(0, D - 1), st.integers(1, 6), min_size=1).map(lambda t: tuple(sorted(t.items())))
features = st.lists(st.lists(terms, min_size=1, max_size=3).map(lambda ts: Feature(tuple(ts))), min_size=1, max_size=12)
points = st.lists(st.lists(st.integers(-S, S), min_size=D, max_size=D), min_size=1, max_size=20)
UNIT = Schema({f"x{i}": Number(-1, 1) for i in range(D)})


def kernel_sums(schema, chosen, columns, splits=()):
    kernel = Kernel(schema, chosen)
    sums = kernel.start()
    order = [schema.names.index(name) for name in kernel.names]
    for part in np.split(np.arange(len(columns[0])), splits):
        sums.add_columns([columns[c][part] for c in order], len(part))
    return sums.totals()


def factor(x, degree):
    before, last = 1.0, x / S
    for _ in range(degree - 1):
        before, last = last, 2 * (x / S) * last - before
    return x if degree == 1 else max(-S, min(S, round(S * last)))


def term_value(x, term):
    if len(term) == 1 and term[0][1] == 2:
        return 2 * x[term[0][0]] ** 2 - S * S
    first, *middle, last = [factor(x[c], k) for c, k in term] + [S] * (len(term) == 1)
    for t in middle:
        quotient, rest = divmod(first * t, S)
        first = quotient + (2 * rest > S or (2 * rest == S and quotient % 2 == 1))
    return first * last


@given(chosen=features, rows=points, cut=st.integers(0, 20))
def test_sums_are_those_of_big_integers(chosen, rows, cut):
    expected = [sum(term_value(x, t) for x in rows for t in f.terms) for f in chosen]
    columns = np.array(rows, dtype=np.float64).T / S
    assert kernel_sums(UNIT, chosen, columns, [min(cut, len(rows))]) == expected


@given(chosen=features, row=points.map(lambda rows: rows[0]))
@example(chosen=[Feature((((0, 3),),))], row=[S - 1, 0, 0, 0])
def test_a_row_is_within_one_and_within_the_rounding_of_the_truth(chosen, row):
    point = np.array([row]) / S
    sums = kernel_sums(UNIT, chosen, point.T)
    for feature, total, truth in zip(chosen, sums, evaluate(chosen, point)[0], strict=True):
        count = len(feature.terms)
        assert abs(total) <= count * S * S
        assert abs(total / (count * S * S) - truth) <= _rounding(feature) + 1e-12


finite = st.floats(allow_nan=False, allow_infinity=False)
bounds = st.one_of(
    st.tuples(finite, finite),
    st.tuples(st.integers(-(2**53), 2**53), st.integers(-(2**53), 2**53)),
    # Narrow and far from zero: the hardest case for the quick way.
    finite.flatmap(lambda c: st.tuples(st.just(c), st.just(c * (1 + 2.0**-38)))),
    st.tuples(st.just(-5e-324), st.just(1e-320)),
)


@given(ends=bounds, values=st.lists(st.floats(width=64), min_size=1, max_size=30))
def test_the_lattice_is_the_unit_coordinate_of_the_schema_rounded(ends, values):
    lower, upper = sorted(ends)
    column = Number(lower, upper)
    if column.problem() is not None:
        return
    half = upper / 2 - lower / 2
    near = [end + step * half for end in (lower, upper, 0.0) for step in (-1e-5, 0.0, 1e-5)]
    with np.errstate(all="ignore"):
        beyond = np.nextafter([lower, upper], [-math.inf, math.inf])
        values = np.array([*values, *near, lower, upper, *beyond])
        unit = column.to_unit(values)
    sums = Kernel(Schema({"v": column}), [Feature((((0, 1),),))]).start()
    running = [0]
    for i in range(len(values)):
        sums.add_columns([values[i : i + 1]], 1)
        running += sums.totals()
    lattice = [after - before for before, after in itertools.pairwise(running)]
    assert lattice == [round(S * float(x)) * S for x in unit]


@given(values=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9))
def test_whole_numbers_and_doubles_agree(values):
    schema = Schema({"v": Integer(-(2**53), 2**52)})
    one = [Feature((((0, 1),),))]
    exact = np.array(values, dtype=np.int64)
    assert kernel_sums(schema, one, [exact]) == kernel_sums(schema, one, [exact.astype(np.float64)])


@given(chosen=features)
def test_products_that_are_joined_never_cost_more_than_those_of_single_prefixes(chosen):
    plan = recipe(chosen, D)
    products = [product for step in plan.steps for product in step.products]
    prefixes = {entry for step in plan.steps for entry in step_prefixes(step)}
    wanted = len(set(plan.places.values()))
    assert plan.size == sum(m * n for m, n in (p.shape for p in products))
    assert plan.size + CALL * len(products) <= wanted + CALL * len(prefixes)
    assert max(plan.places.values()) < plan.size


def step_prefixes(step):
    """Name each prefix of a step that is multiplied with something."""
    for product in step.products:
        rows = range(product.left.start, product.left.stop) if isinstance(product.left, slice) else product.left
        yield from ((id(step), int(row)) for row in rows)


number_like = st.text(alphabet="0123456789+-.eE infaNty_,x()\t", max_size=12)
cells = st.one_of(number_like, st.text(max_size=6), finite.map(repr), st.none(), st.integers().map(str))


@given(column=st.lists(cells, min_size=1, max_size=12))
@example(column=["+1", "1e99999999999999999999", "9" * 400, "." * 3, "1" + "0" * 400 + "e-400", "-0"])
def test_a_cell_never_depends_on_its_company(column):
    array = pa.array(column, pa.string())
    together = parse_cells(array).to_pylist()
    alone = [parse_cells(array[i : i + 1])[0].as_py() for i in range(len(column))]
    beside_text = [parse_cells(pa.array([cell, "text"]))[0].as_py() for cell in column]
    for one, two, three in zip(together, alone, beside_text, strict=True):
        # NaN and missing are the same to the schema.
        meant = [None if v is None or math.isnan(v) else v for v in (one, two, three)]
        assert meant[0] == meant[1] == meant[2]


@given(value=finite)
def test_a_cell_is_the_nearest_double(value):
    for text in (repr(value), f" +{value!r} " if value >= 0 else f"{value!r}\t"):
        assert parse_cells(pa.array([text, "text"]))[0].as_py() == value == parse_cells(pa.array([text]))[0].as_py()
