"""Whatever can be constrained at all: published rows keep every relation and every bound, from any points of the cube."""

from fractions import Fraction

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import smoothsynth as ss
from smoothsynth.model.constraints import Polytope
from smoothsynth.model.exact_rows import exact_rows
from smoothsynth.schema.constraints import Relation, broken
from smoothsynth.schema.encoding import as_numbers
from smoothsynth.schema.integer_points import near_solution, short_basis, whole_solutions

COEFFICIENTS = st.sampled_from(["1", "-1", "2", "-3", "0.5"])


@st.composite
def columns(draw):
    """Return a column and a value of it."""
    lower = draw(st.integers(-50, 50))
    width = draw(st.integers(1, 500))
    nullable = draw(st.booleans())
    kind = draw(st.sampled_from(["integer", "number", "asinh", "log"]))
    if kind == "integer":
        return ss.Integer(lower, lower + width, nullable=nullable), Fraction(draw(st.integers(lower, lower + width)))
    low = Fraction(abs(lower) + 1) if kind == "log" else Fraction(lower)
    inside = low + Fraction(draw(st.integers(0, 64)), 64) * width
    options = {} if kind == "number" else {"transform": kind}
    return ss.Number(float(low), float(low + width), nullable=nullable, **options), inside


@st.composite
def schemas(draw):
    """Return a schema with relations that one point keeps, so that they can hold."""
    made = draw(st.lists(columns(), min_size=2, max_size=5))
    names = [f"c{i}" for i in range(len(made))]
    values = dict(zip(names, (value for _, value in made), strict=True))
    texts = []
    for _ in range(draw(st.integers(1, 3))):
        used = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        factors = [draw(COEFFICIENTS) for _ in used]
        side = sum((Fraction(f) * values[n] for f, n in zip(factors, used, strict=True)), Fraction(0))
        relation = draw(st.sampled_from(["<=", ">=", "="]))
        room = Fraction(draw(st.integers(0, 40)), 4) * {"<=": 1, ">=": -1, "=": 0}[relation]
        left = " + ".join(f"{f}*{n}" for f, n in zip(factors, used, strict=True))
        texts.append(f"{left} {relation} {float(side + room)!r}")
    schema = {name: column for name, (column, _) in zip(names, made, strict=True)}
    try:
        return ss.Schema(schema, texts)
    except ss.SchemaError as error:
        words = str(error)
    # Equalities that leave single points, none of which is found on the lattice, may be refused; nothing else may.
    assume(not ("were found" in words and "=" in words))
    raise AssertionError(words)


def points_of(schema, seed):
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1.0, 1.0, (60, schema.dimensions))
    points[:2] = [[-1.0] * schema.dimensions, [1.0] * schema.dimensions]
    for value, indicator in schema.missing:
        points[:, indicator] = rng.random(len(points)) < 0.2
        points[points[:, indicator] == 1.0, value] = 0.0
    return points


@settings(max_examples=80)
@given(schemas(), st.integers(0, 2**32))
def test_published_rows_keep_every_relation_and_bound(schema, seed):
    points = points_of(schema, seed)
    kept = schema.snap(exact_rows(schema, points))
    table = schema.from_unit(kept)
    numbers = {name: np.asarray(as_numbers(schema.columns[name], table[name]), float) for name in schema.names}
    for relation in schema.rules.relations:
        assert not broken(relation, table, schema.columns).any()
        found = sum(Fraction(c) * _exact(numbers[name]) for name, c in relation.coefficients) - relation.bound
        there = [x for x, ok in zip(found, ~np.isnan(sum(numbers[n] for n in relation.names)), strict=True) if ok]
        # All constants here are multiples of 1/128: relations hold in exact arithmetic.
        assert all(x == 0 if relation.equal else x <= 0 for x in there)
    for name, column in schema.columns.items():
        present = numbers[name][~np.isnan(numbers[name])]
        assert np.all((present >= column.bounds[0]) & (present <= column.bounds[1]))
    for value, indicator in schema.missing:
        assert np.array_equal(kept[:, indicator], points[:, indicator])
        assert np.all(kept[kept[:, indicator] == 1.0, value] == 0.0)


def _exact(values):
    return np.array([Fraction(0) if np.isnan(x) else Fraction(float(x)) for x in values], dtype=object)


@settings(max_examples=40)
@given(schemas(), st.integers(0, 2**32))
def test_rows_that_keep_everything_stay_and_survive_the_cube(schema, seed):
    once = schema.snap(exact_rows(schema, points_of(schema, seed)))
    assert np.allclose(exact_rows(schema, once), once, atol=1e-9)
    table = schema.from_unit(once)
    again = schema.from_unit(schema.snap(schema.to_unit(table)))
    for name in schema.rules.steps():
        first, second = (np.asarray(as_numbers(schema.columns[name], t[name]), float) for t in (table, again))
        assert np.array_equal(first, second, equal_nan=True)


@given(st.lists(st.lists(st.integers(-6, 6), min_size=4, max_size=4), min_size=1, max_size=3), st.data())
def test_whole_solutions_are_solutions_and_all_of_them(matrix, data):
    solution = data.draw(st.lists(st.integers(-9, 9), min_size=4, max_size=4))
    bounds = [sum(a * x for a, x in zip(row, solution, strict=True)) for row in matrix]
    start, basis = whole_solutions(matrix, bounds)
    weight = [1] * 4
    basis = short_basis(basis, weight)
    assert [sum(a * x for a, x in zip(row, start, strict=True)) for row in matrix] == bounds
    assert all(sum(a * x for a, x in zip(row, v, strict=True)) == 0 for row in matrix for v in basis)
    assert len(basis) == 4 - np.linalg.matrix_rank(np.array(matrix, dtype=float))
    # The known solution is reached from the start along the basis: nothing of it is left over.
    if basis:
        steps, *_ = np.linalg.lstsq(np.array(basis, float).T, np.array(solution) - np.array(start, float), rcond=None)
        whole = np.rint(steps).astype(int)
        assert np.array_equal(np.array(start) + whole @ np.array(basis), solution)
    near = near_solution(start, basis, solution, weight)
    assert [sum(a * x for a, x in zip(row, near, strict=True)) for row in matrix] == bounds


def test_equations_without_whole_solutions():
    assert whole_solutions([[2, 4]], [3]) is None
    assert whole_solutions([[1, 1], [1, 1]], [1, 2]) is None


def test_the_nearest_points_are_the_nearest():
    """Against a projection that is known: onto x + y = 1 and y >= 0 in other units."""
    polytope = Polytope(
        np.array([[1.0, 1.0]]), np.array([1.0]), np.array([True]), np.array([-9.0, 0.0]), np.array([9.0, 9.0])
    )
    wanted = np.array([[0.0, 0.0], [3.0, -1.0], [2.0, 2.0]])
    found = polytope.nearest(wanted, np.tile([1.0, 2.0], (3, 1)))
    assert np.allclose(found, [[0.2, 0.8], [1.0, 0.0], [1.0, 0.0]], atol=1e-5)


@given(st.integers(0, 2**32))
def test_an_order_is_kept_as_by_pooling(seed):
    """The nearest rising row has the means of its runs (pool adjacent violators)."""
    rng = np.random.default_rng(seed)
    wanted = rng.uniform(-1.0, 1.0, (20, 2))
    polytope = Polytope(np.array([[1.0, -1.0]]), np.zeros(1), np.array([False]), np.full(2, -2.0), np.full(2, 2.0))
    found = polytope.nearest(wanted, np.ones((20, 2)))
    pooled = np.where((wanted[:, 0] > wanted[:, 1])[:, None], wanted.mean(axis=1, keepdims=True), wanted)
    assert np.allclose(found, pooled, atol=1e-6)
    assert isinstance(ss.Schema({"a": ss.Number(0, 1)}, ["a <= 1"]).rules.relations[0], Relation)
