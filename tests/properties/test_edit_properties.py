"""Random rules that some row keeps: published rows keep every one of them, from any points of the cube, also as CSV."""

import datetime
import io
import operator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv

import smoothsynth as ss
from smoothsynth.model.edits import keep_edits, swapped_to_keep
from smoothsynth.model.exact_rows import exact_rows

SIGNS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
DAY = datetime.date(2020, 1, 1)
LEVELS = ("a", "b", "c", "it's")


@st.composite
def columns(draw):
    """Return a column and a value of it, None for a missing cell."""
    kind, nullable = (
        draw(st.sampled_from(["category", "integer", "number", "log", "boolean", "date"])),
        draw(st.booleans()),
    )
    if kind == "category":
        made, value = ss.Category(LEVELS, nullable=nullable), draw(st.sampled_from(LEVELS))
    elif kind == "integer":
        made, value = ss.Integer(-5, 20, nullable=nullable), draw(st.integers(-5, 20))
    elif kind == "boolean":
        made, value = ss.Boolean(nullable=nullable), draw(st.booleans())
    elif kind == "date":
        made = ss.Date(DAY, DAY + datetime.timedelta(40), nullable=nullable)
        value = DAY + datetime.timedelta(draw(st.integers(0, 40)))
    else:
        options = {"transform": "log"} if kind == "log" else {}
        made, value = ss.Number(0.1, 20.0, nullable=nullable, **options), draw(st.integers(1, 200)) / 10.0
    return made, None if nullable and draw(st.integers(0, 2)) == 0 else value


def literal(value):
    if isinstance(value, bool):
        return str(value).lower()
    return f"""'{str(value).replace("'", "''")}'""" if isinstance(value, (str, datetime.date)) else repr(value)


def constants(column):
    """Return a strategy of values that a column can take."""
    if column.kind == "category":
        return st.sampled_from(LEVELS)
    if column.kind == "boolean":
        return st.booleans()
    if column.kind == "date":
        return st.integers(0, 40).map(lambda days: DAY + datetime.timedelta(days))
    return st.integers(-5, 20) if column.kind == "integer" else st.integers(1, 200).map(lambda tenth: tenth / 10.0)


@st.composite
def comparisons(draw, schema):
    """Return the text of a comparison, its columns, and what it says of a row."""
    name = draw(st.sampled_from(sorted(schema)))
    column = schema[name]
    alike = [
        n for n, c in schema.items() if n != name and c.kind == column.kind and c.kind in ("integer", "date", "number")
    ]
    kind = draw(st.sampled_from(["null", "in", "sign", "sign", "pair"]))
    if kind == "null" and column.nullable:
        turned = draw(st.booleans())
        return f"{name} is {'not ' if turned else ''}null", lambda row: (row[name] is None) != turned
    if kind == "in":
        some = draw(st.lists(constants(column), min_size=1, max_size=3))
        listed = ", ".join(map(literal, some))
        return f"{name} in ({listed})", lambda row: row[name] is not None and row[name] in some
    if kind == "pair" and alike:
        other, sign = draw(st.sampled_from(alike)), draw(st.sampled_from(["<", "<=", ">", ">="]))
        return (
            f"{name} {sign} {other}",
            lambda row: None not in (row[name], row[other]) and SIGNS[sign](row[name], row[other]),
        )
    signs = ["=", "!="] if column.kind in ("category", "boolean") else sorted(SIGNS)
    sign, value = draw(st.sampled_from(signs)), draw(constants(column))
    return f"{name} {sign} {literal(value)}", lambda row: row[name] is not None and SIGNS[sign](row[name], value)


@st.composite
def conditions(draw, schema):
    parts = draw(st.lists(comparisons(schema), min_size=1, max_size=2))
    every = draw(st.booleans())
    text = (" and " if every else " or ").join(part for part, _ in parts)
    return text, lambda row: (all if every else any)(holds(row) for _, holds in parts)


@st.composite
def ruled(draw):
    """Return a schema with rules that one row keeps, and what each rule says of a row."""
    made = draw(st.lists(columns(), min_size=2, max_size=6))
    schema = {f"c{i}": column for i, (column, _) in enumerate(made)}
    kept = {f"c{i}": value for i, (_, value) in enumerate(made)}
    texts, rules = [], []
    for _ in range(draw(st.integers(1, 6))):
        (left, condition), (right, consequent) = draw(conditions(schema)), draw(conditions(schema))
        if condition(kept) and not consequent(kept):
            # The row keeps the rule the other way round, or it is left out.
            (left, condition), (right, consequent) = (right, consequent), (left, condition)
        only_missing = " is null" in right and " or " not in right and not schema[right.split()[0]].nullable
        if (condition(kept) and not consequent(kept)) or only_missing:
            continue
        texts.append(f"{left} implies {right}" if draw(st.booleans()) else f"{right} where {left}")
        rules.append((condition, consequent))
    return ss.Schema(schema, texts), rules


def points_of(schema, seed):
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1.0, 1.0, (60, schema.dimensions))
    for value, indicator in schema.missing:
        points[:, indicator] = rng.random(len(points)) < 0.2
        points[points[:, indicator] == 1.0, value] = 0.0
    return schema.snap(points), rng


def check(table, rules):
    for row in table.to_pylist():
        for condition, consequent in rules:
            assert consequent(row) or not condition(row)


def read_again(table):
    """Return what the rows are after they were written as CSV and read."""
    text = io.BytesIO()
    csv.write_csv(table, text)
    options = csv.ConvertOptions(column_types=table.schema, strings_can_be_null=True, quoted_strings_can_be_null=False)
    return csv.read_csv(io.BytesIO(text.getvalue()), convert_options=options)


def holds_for_all(made, seed):
    schema, rules = made
    points, rng = points_of(schema, seed)
    kept = keep_edits(schema, swapped_to_keep(schema, points, generator=rng), generator=rng)
    table = pa.table(schema.from_unit(kept))
    assert np.array_equal(schema.snap(kept), kept)
    check(table, rules)
    check(read_again(table), rules)
    # What keeps all rules is left alone.
    assert np.array_equal(keep_edits(schema, kept, generator=rng), kept)


@settings(max_examples=80, deadline=None)
@given(ruled(), st.integers(0, 2**32))
def test_published_rows_keep_every_rule(made, seed):
    holds_for_all(made, seed)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(ruled(), st.integers(0, 2**32))
def test_a_thousand_random_sets_of_rules_are_kept(made, seed):
    holds_for_all(made, seed)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["a + b = c", "a <= b <= c", "2*a + b <= c"]))
def test_rules_and_relations_hold_together(seed, relation):
    number = ss.Number(0, 100, nullable=True)
    schema = ss.Schema(
        {"a": number, "b": ss.Number(0, 100), "c": ss.Number(0, 200), "k": ss.Category(["x", "y"])},
        [relation, "a <= 10 where k = 'x'", "a is null or b >= 5 where k = 'y'"],
    )
    points, rng = points_of(schema, seed)
    kept = keep_edits(schema, schema.snap(exact_rows(schema, points)), generator=rng)
    (linear, *_), rows = schema.rules.relations, pa.table(schema.from_unit(kept)).to_pylist()
    for row in rows:
        assert row["k"] == "y" or (row["a"] is not None and row["a"] <= 10)
        assert row["k"] == "x" or row["a"] is None or row["b"] >= 5
        if row["a"] is not None:
            values = [sum(f * row[n] for n, f in r.coefficients) - float(r.bound) for r in schema.rules.relations]
            assert all(value == 0 if linear.equal else value <= 0 for value in values)
