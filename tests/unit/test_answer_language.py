"""The language of questions: what it means, what it refuses, and what lies around its jumps."""

import numpy as np
import pytest

import smoothsynth as ss
from smoothsynth.answer.columns import groups_of, settle
from smoothsynth.answer.evaluate import bounds, exact, has_jumps, scales_of, smooth_step
from smoothsynth.answer.language import Apply, Column, Number, Text, aggregates_of, columns_of, parse

TABLE = {"a": np.linspace(-2, 3, 41), "b": np.linspace(4, 1, 41), "odd name": np.linspace(0, 1, 41)}
A, B, ODD = TABLE["a"], TABLE["b"], TABLE["odd name"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1 + 2 * 3 - 4 / 2", 5.0),
        ("2 ** 3 ** 2", 512.0),
        ("-2 ** 2", -4.0),
        ("2 ^ -1", 0.5),
        ("(1 + 2) * 3", 9.0),
        ("--3", 3.0),
        ("1e3 + .5 + 2.", 1002.5),
        ("a - b - 1", A - B - 1),
        ("a / b / 2", A / B / 2),
        ('"odd name" * 2', ODD * 2),
        ("power(a, 2) + sqrt(b)", A**2 + np.sqrt(B)),
        ("exp(a) + ln(b) + log10(b) + log(b)", np.exp(A) + 2 * np.log(B) + np.log10(B)),
        ("sin(a) + cos(a) * tan(a) - tanh(a) + atan(a)", np.sin(A) + np.cos(A) * np.tan(A) - np.tanh(A) + np.arctan(A)),
        ("logistic(a) + sigmoid(a)", 2 / (1 + np.exp(-A))),
        ("erf(0.5)", 0.5204998778130465),
        ("abs(a) + floor(a) + ceil(a) + round(a)", np.abs(A) + np.floor(A) + np.ceil(A) + np.round(A)),
        ("least(a, b, 0) + greatest(a, 1)", np.minimum(np.minimum(A, B), 0) + np.maximum(A, 1)),
        ("a >= 1 and b < 3", (A >= 1) & (B < 3)),
        ("a < 0 or a > 1 and b > 2", (A < 0) | ((A > 1) & (B > 2))),
        ("not a < 0", A >= 0),
        ("not not a < 0", A < 0),
        ("a between 0 and 1", (A >= 0) & (A <= 1)),
        ("a not between 0 and 1", (A < 0) | (A > 1)),
        ("0 <= a < 1", (A >= 0) & (A < 1)),
        ("a = 0 or a <> 0", np.ones(41)),
        ("case when a < 0 then b when a < 1 then 2 else a end", np.where(A < 0, B, np.where(A < 1, 2, A))),
        ("EXP(a) * (CASE WHEN a > 0 THEN 1 ELSE 0 END)", np.exp(A) * (A > 0)),
    ],
)
def test_meaning(text, wanted):
    np.testing.assert_allclose(exact(parse(text), TABLE), wanted, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("avg(", "the question ends"),
        ("avg(age))", "character 9"),
        ("avg(age", "'\\)' must stand"),
        ("age age", "an operator, where, group by .after where. or the end"),
        ("1 + * 2", "character 5"),
        ("foo(3)", "no function 'foo'"),
        ("expp(3)", "Did you mean 'exp'"),
        ("power(3)", "takes 2 arguments"),
        ("least(3)", "2 to 8"),
        ("a # b", "'#' means nothing"),
        ("case when a > 1 then 2 end", "'else' must stand"),
        ("case 1 end", "when must stand"),
        ("a between 1", "'and' must stand"),
        ("and", "a number, a column or a function"),
        ("(" * 60 + "a" + ")" * 60, "nested"),
        ("2" + "**2" * 60, "nested"),
        ("a + " * 400 + "a", "numbers, names and signs"),
        ("a" * 3000, "3,000"),
        ('"odd', "means nothing"),
        ("__import__('os')", "no function|means nothing"),
    ],
)
def test_what_cannot_be_read_is_said_and_shown(text, words):
    with pytest.raises(ss.PlanError, match=words) as caught:
        parse(text)
    assert len(str(caught.value)) < 600


def test_levels_and_missing_values():
    region = Apply("=", (Column("region"), Text("it's")))
    assert parse("region = 'it''s'") == region
    assert parse("bmi is null") == Apply("is null", (Column("bmi"),))
    assert parse("bmi is not null") == Apply("not", (Apply("is null", (Column("bmi"),)),))
    either = Apply("or", (Apply("=", (Column("r"), Text("a"))), Apply("=", (Column("r"), Number(2.0)))))
    assert parse("r in ('a', 2)") == either
    assert parse("r not in ('a', 2)") == Apply("not", (either,))
    assert parse("avg(age where region = 'it''s')") == Apply("avg", (Apply("where", (Column("age"), region)),))
    # Words of the new phrases are still names of columns elsewhere.
    assert columns_of(parse("avg(null + where) + avg(is)")) == ("null", "where", "is")


@pytest.mark.parametrize(
    "text", ["bmi is", "bmi is not", "bmi is 3", "r in 'a'", "r in ()", "r in ('a'", "exp(a where b = 1)"]
)
def test_half_phrases_are_refused(text):
    with pytest.raises(ss.PlanError, match="must stand"):
        parse(text)


def test_quoted_names():
    assert parse('"say ""hi"""') == Column('say "hi"')
    assert columns_of(parse("avg(b * a) / avg(b)")) == ("b", "a")
    assert aggregates_of(parse("avg(b) / avg(b) + mean(a)")) == (
        Apply("avg", (Column("b"),)),
        Apply("avg", (Column("a"),)),
    )


@pytest.mark.parametrize("width", [0.05, 0.3, 2.0])
@pytest.mark.parametrize(
    "text",
    [
        "a >= 1 and b < 3",
        "a < 0 or a > 1",
        "not (a between 0 and 1)",
        "a = 1",
        "a != 1",
        "case when a > 1 then b when a > 0 then -3 else a end",
        "floor(a) * b - ceil(a) / b + round(a)",
        "abs(floor(a))",
        "power(floor(a), 2) + exp(a > 1) + sqrt(b > 2)",
        "greatest(a > 1, b > 3) - least(floor(a), 1)",
        "(a > 1) * (b > 2) - (a > 0) * b",
    ],
)
def test_envelopes_lie_around(text, width):
    tree = parse(text)
    low, high = bounds(tree, TABLE, scales=scales_of(tree, TABLE), width=width)
    value = exact(tree, TABLE)
    assert has_jumps(tree)
    assert np.all(low <= value + 1e-12)
    assert np.all(value <= high + 1e-12)


def test_envelopes_close_in_as_steps_get_steep():
    tree = parse("a >= 1 and b < 3")
    scales = scales_of(tree, TABLE)
    gaps = []
    for width in (1.0, 0.3, 0.01):
        low, high = bounds(tree, TABLE, scales=scales, width=width)
        gaps.append(np.mean(high - low))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.06


def test_smooth_step():
    u = np.linspace(-1, 2, 3001)
    s = smooth_step(u)
    assert s[0] == 0
    assert s[-1] == 1
    assert np.all(np.diff(s) >= 0)
    second = np.diff(s, 2) / (u[1] - u[0]) ** 2
    assert np.abs(np.diff(second)).max() < 0.1


def test_a_quotient_with_zero_within_its_bounds_is_refused():
    tree = parse("1 / (a > 1)")
    with pytest.raises(ss.PlanError, match="zero"):
        bounds(tree, TABLE, scales=scales_of(tree, TABLE), width=0.5)


def test_what_cannot_be_bounded_is_refused():
    tree = parse("sin(floor(a))")
    with pytest.raises(ss.PlanError, match="cannot be bounded"):
        bounds(tree, TABLE, scales=scales_of(tree, TABLE), width=0.5)


def test_numbers_are_what_they_look_like():
    assert parse("0.25") == Number(0.25)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("avg(a) where b > 1", "avg(a where b > 1)"),
        ("avg(a) / corr(a, b where a > 0) where b > 1", "avg(a where b > 1) / corr(a, b where a > 0 and b > 1)"),
        ("median(a) WHERE b > 1 or a > 1 group by r", "median(a where b > 1 or a > 1) group by r"),
        ("avg(a) group by r, r", "avg(a) group by r"),
    ],
)
def test_a_condition_behind_a_question_is_one_of_all_its_averages(text, meant):
    assert parse(text) == parse(meant)


def test_days_and_moments_are_not_compared_as_numbers():
    schema = ss.Schema(
        {"Day": ss.Date("2020-01-01", "2020-12-31"), "at": ss.Datetime("2020-01-01T00:00:00", "2020-12-31T00:00:00")}
    )
    for text in ("avg(Day < at)", "avg(at - Day)", "avg(Day + at)", "median(Day where at = Day)"):
        with pytest.raises(ss.PlanError, match=r"at - 86400 \* Day"):
            settle(parse(text), schema)
    settle(parse("avg(at - 86400 * Day) + avg(Day) + avg(at)"), schema)
    with pytest.raises(ss.SchemaError, match="Did you mean 'Day'"):
        settle(parse("avg(DAY)"), schema)
    with pytest.raises(ss.PlanError, match="'at' holds moments"):
        groups_of(Column("at"), schema)
