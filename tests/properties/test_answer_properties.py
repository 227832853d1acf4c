"""Whatever is typed, a question is a tree or one sentence; whatever is asked, envelopes lie around it."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smoothsynth as ss
from smoothsynth.answer.evaluate import bounds, exact, scales_of
from smoothsynth.answer.language import Apply, Column, Number, parse, walk
from smoothsynth.errors import PlanError, SmoothsynthError

TABLE = {"a": np.linspace(-2, 3, 23), "b": np.cos(np.arange(23.0))}


def conditions(inner):
    comparison = st.tuples(st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), inner, inner)
    one = comparison.map(lambda t: Apply(t[0], t[1:]))
    return st.one_of(
        one,
        one.map(lambda c: Apply("not", (c,))),
        st.tuples(st.sampled_from(["and", "or"]), one, one).map(lambda t: Apply(t[0], t[1:])),
    )


numbers = st.floats(0, 5, allow_nan=False).map(lambda v: Number(abs(round(v, 3))))
leaves = st.one_of(st.sampled_from([Column("a"), Column("b")]), numbers)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+-*"), inner, inner).map(lambda t: Apply(t[0], t[1:])),
        st.tuples(st.sampled_from(["tanh", "abs", "floor", "ceil", "round"]), inner).map(lambda t: Apply(t[0], t[1:])),
        st.tuples(st.sampled_from(["least", "greatest"]), inner, inner).map(lambda t: Apply(t[0], t[1:])),
        st.tuples(conditions(inner), inner, inner).map(lambda t: Apply("case", t)),
        conditions(inner),
    ),
    max_leaves=8,
)


@given(values, st.sampled_from([0.05, 0.5, 3.0]))
def test_envelopes_lie_around_every_expression(tree, width):
    low, high = bounds(tree, TABLE, scales=scales_of(tree, TABLE), width=width)
    value = exact(tree, TABLE)
    slack = 1e-9 * (1 + np.abs(value))
    assert np.all(low <= value + slack)
    assert np.all(value <= high + slack)


def tree_or_sentence(text):
    try:
        return parse(text)
    except PlanError as error:
        return str(error)


@given(st.text(max_size=80))
def test_any_text_is_a_tree_or_a_sentence(text):
    found = tree_or_sentence(text)
    assert found.endswith((".", "?")) if isinstance(found, str) else list(walk(found))


pieces = st.sampled_from(
    ["avg(", "(", ")", "a", '"b c"', "1.5", "+", "-", "*", "/", "**", "<", ">=", "and", "or", "not", "between", "case",
     "when", "then", "else", "end", ",", "exp(", "power(", " ", "corr(", "median(", "quantile(", "0.5", "where", "group",
     "by", "is", "null", "in", "'2020-01-31'", "'f'", "select", "sum("]
)  # fmt: skip


@given(st.lists(pieces, max_size=25).map(" ".join))
def test_any_row_of_words_is_a_tree_or_a_sentence(text):
    found = tree_or_sentence(text)
    assert not isinstance(found, str) or len(found) < 600


@pytest.fixture(scope="module")
def release():
    rng = np.random.default_rng(3)
    schema = ss.Schema(
        {
            "a": ss.Number(-2, 3),
            "b c": ss.Integer(0, 9, nullable=True),
            "sex": ss.Category(["f", "m"], nullable=True),
            "day": ss.Date("2020-01-01", "2020-12-31"),
            "ill": ss.Boolean(),
        }
    )
    table = pd.DataFrame(
        {
            "a": rng.normal(0, 1, 400),
            "b c": rng.integers(0, 10, 400),
            "sex": rng.choice(["f", "m"], 400),
            "day": pd.to_datetime("2020-03-01") + pd.to_timedelta(rng.integers(0, 200, 400), "D"),
            "ill": rng.random(400) < 0.3,
        }
    )
    return ss.release(table, schema=schema, epsilon=2.0, delta=1e-6, seed=1)


columns = st.sampled_from(["a", '"b c"', "sex", "day", "ill", "nobody"])
terms = st.one_of(
    columns, st.sampled_from(["1", "a * a", "a > 0", "sex = 'f'", "exp(a)", "'2020-05-01'", "day - '2020-05-01'"])
)
tests = st.tuples(columns, st.sampled_from([" > 0", " = 'f'", " is null", " < '2020-05-01'", " in ('m', 1)", ""])).map(
    "".join
)
where = st.one_of(st.just(""), tests.map(" where {}".format))
aggregates = st.one_of(
    st.tuples(st.just("avg"), terms, st.just(""), where),
    st.tuples(st.just("corr"), terms, terms.map(", {}".format), where),
    st.tuples(st.just("quantile"), terms, st.sampled_from([", 0.5", ", 0.99", ", 0", ", a"]), where),
).map(lambda parts: f"{parts[0]}({parts[1]}{parts[2]}{parts[3]})")
questions = st.tuples(
    aggregates,
    st.one_of(st.just(""), aggregates.map(" / {}".format)),
    st.one_of(st.just(""), columns.map(" group by {}".format)),
).map("".join)


@settings(max_examples=25, deadline=None)
@given(questions)
def test_any_question_has_an_estimate_or_a_sentence(release, text):
    try:
        found = release.answer(text)
    except SmoothsynthError:
        return
    for one in [found] if isinstance(found, ss.Estimate) else found:
        assert one.low <= one.value <= one.high


@given(values)
def test_what_is_written_is_read_back(tree):
    assert parse(written(tree)) == tree


def written(node):
    if isinstance(node, Number):
        return repr(node.value)
    if isinstance(node, Column):
        return node.name
    parts = [written(argument) for argument in node.arguments]
    if node.name == "case":
        return f"(case when {parts[0]} then {parts[1]} else {parts[2]} end)"
    if node.name == "not":
        return f"(not {parts[0]})"
    if node.name.isalpha() and node.name not in ("and", "or"):
        return f"{node.name}({', '.join(parts)})"
    return f"({parts[0]} {node.name} {parts[1]})"
