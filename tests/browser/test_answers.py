"""The page and the library give the same answers."""

import numpy as np
import pytest

import smoothsynth as ss

EXPRESSIONS = [
    "avg(age)",
    "avg(exp(-power((age - 50) / 10, 2)))",
    "avg(exp(-power((age - 50) / 10, 2) - power((income - 30000) / 20000, 2)))",
    'avg(exp(-power((age-40)/15, 2) - power((visits-3)/2, 2) - power(("dose (mg)"-2)/1.5, 2)))',
    "avg(tanh((income - 5e4) / 2e4))",
    "avg(age * income)",
    "avg(logistic((age - 60) / 5))",
    'avg(erf(age / 80) + atan(visits) - log10(income + 2e4) * sqrt(1 + "dose (mg)"))',
    "avg(income * exp(-power((age - 60) / 10, 2))) / avg(exp(-power((age - 60) / 10, 2)))",
    "sqrt(avg(power(age, 2)) - avg(age) ** 2)",
    "avg(age >= 50)",
    "avg(age between 40 and 60 and not visits = 3)",
    "avg(case when age > 60 then income when visits < 2 then -1e4 else 0 end)",
    "avg(floor(age / 10) * 10 + round(visits / 3))",
    "avg(age > 50) / avg(visits > 1)",
    "avg(visits in (2, 3))",
    "avg(visits not in (2, 3, 4))",
    "avg(3)",
]

REFUSED = [
    "",
    "avg(agee)",
    "age",
    "avg(age",
    "avg(avg(age))",
    "avg(age and visits)",
    "avg(1 / (age - age))",
    "avg(sin(1000 * age))",
    "avg(1 / (age - age) > 2)",
    "expp(age)",
    "avg(age) ; drop",
    "avg(power(age))",
    "1 / avg(age - age)",
    "(" * 50 + "age" + ")" * 50,
    "avg(age)" * 500,
]


@pytest.mark.parametrize("kind", ["gaussian", pytest.param("pure", marks=pytest.mark.slow)])
def test_answers_are_those_of_the_library(visit, folders, kind):
    opened, release = visit(folders[kind] / "report.html"), ss.load(folders[kind])
    bases = {m.measurement.family.basis.name for m in release.moments}
    assert ("hat cosines" in bases) is (kind == "gaussian")
    for expression in EXPRESSIONS:
        expected = release.answer(expression)
        value, low, high = opened.ask(expression)
        assert value == pytest.approx(expected.value, rel=1e-9), expression
        size = max(abs(expected.low), abs(expected.high))
        assert low == pytest.approx(expected.low, rel=1e-6, abs=1e-6 * size), expression
        assert high == pytest.approx(expected.high, rel=1e-6, abs=1e-6 * size), expression


def test_tables_of_three_columns_are_weighed_whole_and_summed_up_to_two(visit, people, tmp_path):
    some = people[["age", "visits", "dose (mg)"]].assign(paid=np.where(people["age"] < 45, 0.0, people["income"]))
    bounds = {"age": (0, 120), "dose (mg)": (0, 12), "paid": (0, 4e5)}
    schema = ss.Schema({"visits": ss.Integer(0, 20), **{name: ss.Number(*ends) for name, ends in bounds.items()}})
    method = ss.methods.Adaptive(workload=[["age", "visits", "paid"]])
    release = ss.release(some, schema=schema, epsilon=8.0, delta=1e-6, seed=7, method=method)
    tables = [m.measurement.family for m in release.moments if m.measurement.family.name == "soft tables"]
    assert 3 in [family.order for family in tables]
    assert any(column.atoms for family in tables for column in family.columns)
    release.write(tmp_path / "made")
    opened = visit(tmp_path / "made" / "report.html")
    for expression in (
        "avg(exp(-power((age - 50) / 10, 2) - power((paid - 3e4) / 3e4, 2)))",
        "avg(exp(-power((age - 50) / 10, 2) - power((paid - 3e4) / 3e4, 2) - power((visits - 2) / 3, 2)))",
        "avg(paid)",
    ):
        expected = release.answer(expression)
        assert opened.ask(expression) == pytest.approx((expected.value, expected.low, expected.high), rel=1e-6), (
            expression
        )


def test_what_the_library_refuses_the_page_refuses_in_words(visit, folders):
    opened, release = visit(folders["gaussian"] / "report.html"), ss.load(folders["gaussian"])
    for expression in REFUSED:
        with pytest.raises(ss.SmoothsynthError):
            release.answer(expression)
        opened.page.evaluate("document.getElementById('expression').removeAttribute('aria-invalid')")
        opened.page.fill("#expression", expression)
        opened.until("() => document.getElementById('expression').getAttribute('aria-invalid') === 'true'")
        assert len(opened.page.inner_text("#expression-error")) > 20, expression


def test_levels_and_missing_values_are_left_to_the_library_in_words(visit, tmp_path):
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(5)
    schema = ss.Schema(
        {
            "age": ss.Number(0, 120),
            "sex": ss.Category(["f", "m"]),
            "bmi": ss.Number(10, 60, nullable=True),
            "day": ss.Date("2000-01-01", "2030-01-01"),
        }
    )
    bmi = np.where(rng.random(800) < 0.2, np.nan, rng.normal(25, 4, 800))
    day = pd.to_datetime("2015-01-01") + pd.to_timedelta(rng.integers(0, 2000, 800), "D")
    table = pd.DataFrame({"age": rng.normal(50, 15, 800), "sex": rng.choice(["f", "m"], 800), "bmi": bmi, "day": day})
    release = ss.release(table, schema=schema, epsilon=4.0, delta=1e-6, seed=1)
    release.write(tmp_path / "out")
    opened = visit(tmp_path / "out" / "report.html")
    listed = ("avg(sex = 'f')", "avg(bmi is null)", "avg(bmi)", "avg(age where sex = 'f')", "avg(day where sex = 'm')")
    dated = ("avg(day)", "avg(day < '2017-06-30')", "avg(exp(-power((day - '2018-01-31') / 1500, 2)))")
    for expression in (*listed, *dated):
        expected = release.answer(expression)
        found = opened.ask(expression)
        assert found == pytest.approx((expected.value, expected.low, expected.high), rel=1e-6), expression
    for wrong in ("avg(day < '2017-02-30')", "avg(day < '2017-13-01')"):
        with pytest.raises(ss.SmoothsynthError):
            release.answer(wrong)
        opened.page.fill("#expression", wrong)
        opened.until("() => document.getElementById('expression-error').textContent.includes('it is no day')")
        opened.ask("avg(age)")
    # The name of an axis lies beside its days.
    opened.page.select_option("#pair-y", label="day")
    name = opened.page.locator("#scatter text.name").last.bounding_box()
    days = opened.page.locator("#scatter text:not(.name)").all()
    assert all(one.bounding_box()["x"] >= name["x"] + name["width"] for one in days)
    opened.page.select_option("#stored", label="Mean of age where sex = m")
    opened.until("() => document.getElementById('asked').textContent.includes(\"sex = 'm'\")")
    assert opened.answer()[0] == pytest.approx(release.answer("avg(age where sex = 'm')").value)
    opened.page.select_option("#column-0", label="day")
    opened.until("() => document.getElementById('asked').textContent.includes('day')")
    expected = release.answer(opened.page.input_value("#expression"))
    assert opened.answer() == pytest.approx((expected.value, expected.low, expected.high), rel=1e-6)
    for expression in (
        "avg(sex <> 'f')",
        "avg(bmi is not null)",
        "median(age)",
        "avg(age) group by sex",
        "avg(bmi * age)",
    ):
        release.answer(expression)
        opened.page.evaluate("document.getElementById('expression').removeAttribute('aria-invalid')")
        opened.page.fill("#expression", expression)
        opened.until("() => document.getElementById('expression').getAttribute('aria-invalid') === 'true'")
        assert "without missing values" in opened.page.inner_text("#expression-error"), expression
    expected = release.answer("avg(age)")
    assert opened.ask("avg(age)") == pytest.approx((expected.value, expected.low, expected.high), rel=1e-6)


def test_what_the_sliders_ask_is_what_the_command_answers(visit, folders):
    opened, release = visit(folders["gaussian"] / "report.html"), ss.load(folders["gaussian"])
    page = opened.page
    page.select_option("#column-1", label="dose (mg)")
    opened.until("() => document.getElementById('asked').textContent.includes('dose')")
    expected = release.answer(page.input_value("#expression"))
    value, low, high = opened.answer()
    assert value == pytest.approx(expected.value, rel=1e-9)
    assert (low, high) == pytest.approx((expected.low, expected.high), rel=1e-6)
    assert page.input_value("#expression") in page.text_content("#command")


def test_transformed_and_whole_columns_are_answered_alike(visit, tmp_path):
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(4)
    schema = ss.Schema(
        {
            "income": ss.Number(10, 1e6, transform="log"),
            "sex": ss.Category(["female", "male"]),
            "balance": ss.Number(-1e5, 1e5, transform="asinh", scale=100.0),
            "score": ss.Number(0, 100, transform="rank-to-public-quantiles", quantiles=[20, 50, 60, 70]),
            "smoker": ss.Boolean(),
            "visits": ss.Integer(1, 400, transform="log"),
        }
    )
    rows = pa.table(
        {
            "income": rng.lognormal(10, 1, 900),
            "sex": rng.choice(["female", "male"], 900),
            "balance": rng.normal(0, 2e3, 900),
            "score": rng.normal(55, 15, 900),
            "smoker": rng.random(900) < 0.3,
            "visits": rng.geometric(0.1, 900),
        }
    )
    release = ss.release(rows, schema=schema, epsilon=4.0, delta=1e-6, seed=1)
    release.write(tmp_path / "out")
    opened = visit(tmp_path / "out" / "report.html").drawn()
    assert opened.page.locator("#shapes figure").count() == 6
    for expression in (
        "avg(ln(income))",
        "avg(tanh(balance / 3000) * score)",
        "avg(smoker * tanh(income / 30000))",
        "avg(visits)",
        "avg(score > 50 and smoker > 0)",
        "avg(ln(visits) * ln(income))",
    ):
        expected = release.answer(expression)
        found = opened.ask(expression)
        assert found == pytest.approx((expected.value, expected.low, expected.high), rel=1e-6), expression
