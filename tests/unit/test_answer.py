"""Answers to smooth questions, and what is said where there is none."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import smoothsynth as ss
from smoothsynth.answer.columns import chebyshev_coefficients, rough_column
from smoothsynth.answer.evidence import Evidence, Round, evidence_of, joint_misfit
from smoothsynth.answer.model_interval import basis_of, components_of, heavy_quantile, orthonormal, quantile
from smoothsynth.answer.worst_case_interval import worst_case
from smoothsynth.queries.bases import Chebyshev, feature_values, term_feature
from smoothsynth.queries.families import RowNorms
from smoothsynth.queries.measurement import Measurement, NoisyMoments
from smoothsynth.queries.transformation import Transformation


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    age = np.clip(rng.normal(50, 15, 4000), 0, 120)
    return pd.DataFrame(
        {
            "age": age,
            "blood pressure": np.clip(80 + 0.8 * age + rng.normal(0, 12, 4000), 40, 260),
            "visits": rng.poisson(4, 4000).clip(0, 20),
        }
    )


@pytest.fixture(scope="module")
def release(people):
    schema = ss.Schema({"age": ss.Number(0, 120), "blood pressure": ss.Number(40, 260), "visits": ss.Integer(0, 20)})
    return ss.release(people, schema=schema, epsilon=2.0, delta=1e-6, seed=1)


def kernel(t):
    return np.exp(-(((t["age"] - 50) / 10) ** 2))


def test_the_value_is_the_mean_over_the_synthetic_rows(release):
    rows = release.to_pandas()
    found = release.answer(kernel, columns=["age"])
    assert found.value == pytest.approx(kernel(rows).mean(), abs=1e-12)
    assert found.low <= found.value <= found.high
    assert release.answer("avg(exp(-power((age-50)/10, 2)))").value == pytest.approx(found.value, abs=1e-12)


def test_text_and_function_have_the_same_interval(release):
    one = release.answer(lambda t: np.tanh((t["blood pressure"] - t["age"]) / 60), columns=["age", "blood pressure"])
    other = release.answer('avg(tanh(("blood pressure" - age) / 60))')
    assert other.as_dict() == pytest.approx(one.as_dict())


def test_a_sum_of_parts_gives_the_interval(release):
    found = release.answer('avg(age * "blood pressure")')
    half = np.hypot(np.hypot(found.noise, found.unseen), found.sampling)
    assert found.high == pytest.approx(max(found.value, found.value + found.fit + half))
    assert found.low == pytest.approx(min(found.value, found.value + found.fit - half))
    assert found.unseen_is == "estimated"
    assert found.noise > 0


def test_more_confidence_is_wider_and_more_budget_is_narrower(release, people):
    assert release.answer("avg(age)", confidence=0.99).half_width > 1.2 * release.answer("avg(age)").half_width
    poor = ss.release(people, schema=release.schema, epsilon=0.1, delta=1e-6, seed=1)
    assert poor.answer("avg(age)").half_width > 5 * release.answer("avg(age)").half_width


def test_a_mean_of_a_pure_release_is_bounded_by_noise_alone(people):
    schema = ss.Schema({"age": ss.Number(0, 120), "blood pressure": ss.Number(40, 260), "visits": ss.Integer(0, 20)})
    sure = worst_case(Evidence(ss.release(people, schema=schema, epsilon=1.0)), 0, lambda x: x, confidence=0.95)
    assert sure.unseen < 1e-3
    assert abs(sure.centre - schema.columns["age"].to_unit(people["age"].to_numpy()).mean()) < 4 * sure.noise


def test_the_bounded_interval_holds_with_no_noise_for_any_function(people, release):
    exact = ss.release(people, schema=release.schema, epsilon=2e4, seed=1)
    unit = release.schema.columns["age"].to_unit(people["age"].to_numpy())
    for function in (np.abs, lambda x: np.sign(x - 0.1), lambda x: np.cos(40 * x)):
        sure = worst_case(evidence_of(exact), 0, function, confidence=0.95)
        assert abs(sure.centre - function(unit).mean()) <= sure.unseen + 2 * sure.noise + 1e-4


def test_a_constant_is_certain(release):
    found = release.answer("avg(3)")
    assert (found.value, found.low, found.high) == (3.0, pytest.approx(3.0), pytest.approx(3.0))


def test_the_quantiles():
    assert quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
    # P(|Laplace| > x sd) = exp(-sqrt(2) x)
    assert heavy_quantile(0.99) == pytest.approx(-np.log(0.01) / np.sqrt(2))
    assert heavy_quantile(0.5) == quantile(0.5)


def test_the_weights_minimise_noise_and_unseen_variance(release):
    known = evidence_of(release)
    basis = basis_of(known, (0, 1))
    values = np.tanh(known.rows[:, 0] + known.rows[:, 1])
    best = components_of(basis, values, synthetic_rows=4000)
    design, squared = basis.design, basis.scales**2
    rng = np.random.default_rng(0)
    for _ in range(50):
        weights = 0.05 * rng.normal(size=len(design.variances))
        left = values - values.mean() - design.matrix @ weights
        own = basis.functions.T @ left / len(left)
        rest = left - basis.functions @ own
        unseen = squared @ own**2 + 0.1**2 * np.mean(rest**2)
        assert best.noise**2 + best.unseen**2 <= weights**2 @ design.variances + unseen + 1e-12


def test_a_measured_function_is_seen_and_another_is_not(people, release):
    exact = ss.release(people, schema=release.schema, epsilon=5e3, delta=1e-6, seed=1)
    known = evidence_of(exact)
    basis = basis_of(known, (0,))
    seen = components_of(basis, known.rows[:, 0], synthetic_rows=4000)
    assert seen.unseen < 1e-3 * known.rows[:, 0].std()
    other = components_of(basis, np.sign(np.sin(300 * known.rows[:, 0])), synthetic_rows=4000)
    assert other.unseen > 0.05


def test_residuals_no_larger_than_noise_are_shrunk_to_nothing(release):
    known = evidence_of(release)
    basis = basis_of(known, (0,))
    assert components_of(basis, np.zeros(len(known.rows)), synthetic_rows=4000).fit == 0.0
    found = components_of(basis, known.rows[:, 0], synthetic_rows=4000)
    weighted = abs(found.fit)
    assert weighted <= np.abs(basis.design.residuals).max() * len(basis.design.residuals)


def test_orthonormal_functions():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    basis = orthonormal(np.column_stack([x, x[:, 0] + 2 * x[:, 1], np.ones(300)]))
    np.testing.assert_allclose(basis.T @ basis / 300, np.diag([1, 1, 1, 1, 0, 0]), atol=1e-9)
    np.testing.assert_allclose(basis.mean(axis=0), 0, atol=1e-12)


def test_features_are_those_that_were_measured(release):
    points = release.unit_rows()[:50]
    for noisy in release.moments:
        expected, family = noisy.measurement.evaluate(points), noisy.measurement.family
        seen = family.basis.factors(noisy.measurement.seen(points))
        for factors in (seen, noisy.measurement.factors(points)):
            ours = np.stack([feature_values(f, factors) for f in noisy.features], axis=1)
            np.testing.assert_allclose(ours, expected, atol=1e-9)
        for block, *_ in family.blocks(noisy.features, points.shape[1]):
            means = family.means(noisy.measurement.factors(points), block)
            np.testing.assert_allclose(means, expected[:, block.places[:, 0]].mean(axis=0), atol=1e-9)
    x = np.linspace(-1, 1, 21)
    table = Chebyshev().factors(x[:, None])
    np.testing.assert_allclose(table.of(0, 7), np.cos(7 * np.arccos(x)), atol=1e-12)
    np.testing.assert_allclose(table.of(0, 0), 1)


@pytest.mark.parametrize("count", [1, 3, 30])
def test_few_synthetic_rows_are_not_taken_for_all_that_can_be(people, release, count):
    """What one row says is next to nothing, and one row alone has no spread that would tell so."""
    few = ss.release(people, schema=release.schema, epsilon=2.0, delta=1e-6, seed=1, synthetic_rows=count)
    query = {
        "avg(age)": people["age"],
        "avg(exp(-power((age - 50) / 10, 2)))": np.exp(-(((people["age"] - 50) / 10) ** 2)),
        'avg(tanh(("blood pressure" - 120) / 20))': np.tanh((people["blood pressure"] - 120) / 20),
        "avg(age * visits)": people["age"] * people["visits"],
        'avg(exp(-power((age - 40) / 15, 2) - power(("blood pressure" - 110) / 20, 2)))': np.exp(
            -(((people["age"] - 40) / 15) ** 2) - ((people["blood pressure"] - 110) / 20) ** 2
        ),
    }
    found = [few.answer(text, confidence=0.999) for text in query]
    held = [e.low <= float(np.mean(truth)) <= e.high for e, truth in zip(found, query.values(), strict=True)]
    assert sum(held) >= len(query) - 1
    assert Evidence(few).rows.shape == Evidence(release).rows.shape


def test_test_rows_are_blurred_where_little_is_known(people, release):
    poor = Evidence(ss.release(people, schema=release.schema, epsilon=0.05, delta=1e-9, seed=1))
    assert np.all(poor.blur > 3 * evidence_of(release).blur)
    assert np.all(np.abs(poor.rows) <= 1)
    whole = release.schema.columns["visits"].from_unit(poor.rows[:, 2])
    np.testing.assert_allclose(
        release.schema.columns["visits"].to_unit(whole.astype(float)), poor.rows[:, 2], atol=1e-12
    )


def test_a_release_is_prepared_once(release):
    assert evidence_of(release) is evidence_of(release)


def test_chebyshev_coefficients_of_known_functions():
    nodes = np.cos(np.pi * np.arange(65) / 64)
    wanted = np.zeros(65)
    wanted[[0, 3, 10]] = 0.5, 2.0, -1.0
    values = 0.5 + 2 * np.cos(3 * np.arccos(nodes)) - np.cos(10 * np.arccos(nodes))
    np.testing.assert_allclose(chebyshev_coefficients(values), wanted, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "rough"),
    [
        (lambda x: np.exp(-(x[:, 0] ** 2) / (2 * 0.05**2)), False),
        (lambda x: np.abs(x[:, 0] - 0.2), False),
        (lambda x: x[:, 0] ** 3 - x[:, 1], False),
        (lambda x: np.where(x[:, 0] > 0.2, 1.0, 0.0), True),
        (lambda x: np.tanh(1000 * (x[:, 0] - 0.2)), True),
        (lambda x: np.floor(3 * x[:, 1]), True),
        (lambda x: np.zeros(len(x)), False),
    ],
)
def test_what_is_smooth(function, rough):
    rows = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    assert (rough_column(function, rows, (0, 1)) is not None) is rough


@pytest.mark.parametrize(
    ("question", "columns", "words"),
    [
        (lambda t: t["age"] > 50, ["age"], "condition"),
        (lambda t: np.where(t["age"] > 50, 1.0, 0.0), ["age"], "not smooth in 'age'"),
        (lambda t: t["age"], None, "Name the columns"),
        (lambda t: t["age"], "age", "Name the columns"),
        (lambda t: t["age"], ["agee"], "Did you mean 'age'"),
        (lambda t: t["age"][:3], ["age"], "one number for each row"),
        (lambda t: 1 / (t["age"] * 0), ["age"], "finite"),
        (lambda t: np.array(["a"] * len(t["age"])), ["age"], "one number for each row"),
        (5, ["age"], "must be a text"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_what_cannot_be_answered_is_said(release, question, columns, words):
    with pytest.raises(ss.SmoothsynthError, match=words):
        release.answer(question, columns=columns)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, "high", None, True, float("nan")])
def test_a_confidence_is_a_probability(release, confidence):
    with pytest.raises(ss.PlanError, match="between 0 and 1"):
        release.answer("avg(age)", confidence=confidence)


def test_an_estimate_speaks(release):
    found = release.answer("avg(age)", confidence=0.9)
    assert f"{found.low:.4g}" in found.in_words()
    assert "90 %" in found.in_words()
    assert repr(found).startswith("Estimate(")
    json.dumps(found.as_dict(), allow_nan=False)
    with pytest.raises(AttributeError):
        found.value = 3


def test_the_paper_method_is_answered_too(people, release):
    made = ss.release(
        people, schema=release.schema, epsilon=5.0, method=ss.methods.Paper(candidates="hypercube", features=9)
    )
    found = made.answer('avg(age) - avg("blood pressure")', confidence=0.9999)
    assert found.low <= people["age"].mean() - people["blood pressure"].mean() <= found.high


def test_a_table_of_one_column():
    rng = np.random.default_rng(1)
    values = rng.beta(2, 5, 3000)
    made = ss.release(pd.DataFrame({"x": values}), schema=ss.Schema({"x": ss.Number(0, 1)}), epsilon=1.0, seed=0)
    found = made.answer("avg(x * x)", confidence=0.9999)
    assert found.low <= np.mean(values**2) <= found.high


@pytest.mark.parametrize("count", [4, 8, 32])
def test_surprise_about_lengths_does_not_fade_with_the_number_of_cosines(count):
    """Clusters show in the first cosines: a mean over 32 of them made intervals too narrow there."""
    features = tuple(term_feature((0, k)) for k in range(1, count + 1))
    measurement = Measurement("lengths", features, "cube", 1.0, transformation=Transformation.straight(1, RowNorms()))
    stage = Round.of(NoisyMoments(measurement, 1000, (0,) * count), 1)
    clustered = replace(stage, values=np.where(np.arange(count) < 4, 0.2, 0.0), deviations=np.zeros(count))
    assert joint_misfit([clustered]) == pytest.approx(0.2 * np.sqrt(2.0))
    assert joint_misfit([replace(clustered, deviations=np.full(count, 0.2))]) == 0.0
    assert joint_misfit([]) is None


HUGE = ("avg(floor(1e300 * age))", "avg(1e300)", "avg(1e308) * 0", "avg(age < 1e999)", "avg(1e300 = visits)",
        "avg(age) / .5 * 1e308", "avg(case when age > 50 then 2 else 1e154 end)", "avg(1 / 1e-300)",
        "exp(exp(avg(age)))", "avg(power(age, 300))", "atan(avg(0.5 + 1e300 * (age < 50)))")  # fmt: skip


@pytest.mark.parametrize("question", HUGE)
def test_numbers_that_no_interval_can_hold_are_refused_in_words(question, release):
    with pytest.raises(ss.PlanError, match=r"at most 1e\+100"):
        release.answer(question)


@pytest.mark.parametrize("question", ["avg(1e-300 * age)", "cos(avg(2))", "avg(1e99)", "1e-320 * avg(age)"])
def test_small_and_large_numbers_are_answered(question, release):
    found = release.answer(question)
    assert found.low <= found.value <= found.high


MISUSES = {
    "columns": lambda r: r.answer(lambda _: 1.0, columns=3),
    "an array of columns": lambda r: r.answer(lambda _: 1.0, columns=np.array([1, 2])),
    "bins": lambda r: r.histogram("age", bins=1.5),
    "bins in words": lambda r: r.histogram("age", bins=["ten"]),
    "on": lambda r: r.regress("age", on=3),
    "where": lambda r: r.sample(5, where="age > 3"),
    "where of another shape": lambda r: r.sample(5, where=lambda _: True),
    "a schema by its path": lambda _: ss.plan("schema.toml", 100, epsilon=1.0),
    "a list of columns": lambda _: ss.Schema(["age"]),
}


@pytest.mark.parametrize("name", MISUSES)
def test_a_misuse_is_answered_in_words(name, release):
    with pytest.raises(ss.SmoothsynthError):
        MISUSES[name](release)
