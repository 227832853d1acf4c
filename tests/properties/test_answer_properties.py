"""Whatever is typed, a question is a tree or one sentence; whatever is asked, envelopes lie around it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from smoothsynth.answer.evaluate import bounds, exact, scales_of
from smoothsynth.answer.language import Apply, Column, Number, parse, walk
from smoothsynth.errors import PlanError

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
     "when", "then", "else", "end", ",", "exp(", "power(", " "]
)  # fmt: skip


@given(st.lists(pieces, max_size=25).map(" ".join))
def test_any_row_of_words_is_a_tree_or_a_sentence(text):
    found = tree_or_sentence(text)
    assert not isinstance(found, str) or len(found) < 300


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
