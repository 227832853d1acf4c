"""Correlations, medians, conditions on numbers, dates and groups, as text; and errors that teach the language."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app

ROWS = 3000
# A test that may fail by chance shows little.
SURE = 0.9999
SCHEMA = ss.Schema(
    {
        "age": ss.Number(0, 120),
        "cost": ss.Number(0, 150, nullable=True),
        "sex": ss.Category(["f", "m", "never"]),
        "smoker": ss.Boolean(nullable=True),
        "visit": ss.Date("2000-01-01", "2030-12-31"),
        "seen": ss.Datetime("2020-01-01", "2021-01-01", nullable=True),
    }
)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(8)
    age = np.clip(rng.normal(50, 15, ROWS), 0, 120)
    sex = np.where(rng.random(ROWS) < 0.6, "f", "m")
    cost = np.clip(20 + 0.5 * age + 10 * (sex == "f") + rng.normal(0, 8, ROWS), 0, 150)
    visit = pd.Series(pd.to_datetime("2015-01-01") + pd.to_timedelta((rng.beta(2, 3, ROWS) * 3000).astype(int), "D"))
    seen = pd.Series(pd.to_datetime("2020-03-01") + pd.to_timedelta(rng.integers(0, 10_000_000, ROWS), "s"))
    return pd.DataFrame(
        {
            "age": age,
            "cost": np.where(rng.random(ROWS) < 0.1, np.nan, cost),
            "sex": sex,
            "smoker": pd.array(np.where(rng.random(ROWS) < 0.1, None, rng.random(ROWS) < 0.3), dtype="boolean"),
            "visit": visit.dt.date,
            "seen": seen.where(rng.random(ROWS) < 0.8),
        }
    )


@pytest.fixture(scope="module")
def release(people):
    return ss.release(people, schema=SCHEMA, epsilon=8.0, delta=1e-6, seed=2)


def holds(estimate, truth):
    return estimate.low <= truth <= estimate.high


def days(dates):
    return (pd.to_datetime(dates) - pd.Timestamp("1970-01-01")).dt.days


QUESTIONS = {
    "corr(age, cost)": lambda t: t["age"].corr(t["cost"]),
    "corr(age, cost where sex = 'f')": lambda t: t[t.sex == "f"]["age"].corr(t[t.sex == "f"]["cost"]),
    "corr(age, cost where age > 40)": lambda t: t[t.age > 40]["age"].corr(t[t.age > 40]["cost"]),
    "corr(age, sex = 'f')": lambda t: t["age"].corr((t["sex"] == "f").astype(float)),
    "median(cost)": lambda t: t["cost"].median(),
    "quantile(age, 0.9)": lambda t: t["age"].quantile(0.9),
    "quantile(age, 0.25 where sex = 'm')": lambda t: t[t.sex == "m"]["age"].quantile(0.25),
    "median(cost where age >= 60)": lambda t: t[t.age >= 60]["cost"].median(),
    "avg(cost where age >= 60)": lambda t: t[t.age >= 60]["cost"].mean(),
    "avg(cost where sex = 'f' and age between 30 and 60)": lambda t: t[(t.sex == "f") & t.age.between(30, 60)][
        "cost"
    ].mean(),
    "avg(cost > 40 where age >= 60)": lambda t: (t[(t.age >= 60) & t.cost.notna()]["cost"] > 40).mean(),
    "avg(visit < '2018-06-30')": lambda t: (pd.to_datetime(t["visit"]) < "2018-06-30").mean(),
    "avg(visit)": lambda t: days(t["visit"]).mean(),
    "median(visit)": lambda t: days(t["visit"]).median(),
    "avg(visit - '2015-01-01')": lambda t: (days(t["visit"]) - 16436).mean(),
    "avg(age where visit >= '2018-01-01')": lambda t: t[pd.to_datetime(t["visit"]) >= "2018-01-01"]["age"].mean(),
    "avg(seen is null)": lambda t: t["seen"].isna().mean(),
    "avg(seen < '2020-05-01T12:00:00')": lambda t: (t["seen"].dropna() < "2020-05-01T12:00:00").mean(),
    "median(age) - avg(age)": lambda t: t["age"].median() - t["age"].mean(),
    "corr(age, cost) + avg(smoker = true)": lambda t: t["age"].corr(t["cost"]) + t["smoker"].dropna().mean(),
}


@pytest.mark.parametrize("text", QUESTIONS)
def test_the_value_is_that_of_the_rows_and_the_interval_holds_the_private_one(release, people, text):
    found = release.answer(text, confidence=SURE)
    assert found.value == pytest.approx(QUESTIONS[text](release.to_pandas()), rel=1e-6)
    assert holds(found, QUESTIONS[text](people))
    assert release.answer(text, confidence=0.5).half_width <= found.half_width


def test_answers_are_narrow_where_the_release_knows(release):
    assert release.answer("corr(age, cost)").half_width < 0.25
    assert release.answer("median(cost)").half_width < 6.0
    assert release.answer("avg(cost where age >= 40)").half_width < 25.0
    assert release.answer("avg(visit)").half_width < 150.0


def test_methods_say_what_texts_say(release):
    assert release.corr("age", "cost") == release.correlation("age", "cost")
    assert release.median("age") == release.quantile("age", 0.5)
    for method, text in ((release.corr("age", "cost"), "corr(age, cost)"), (release.median("cost"), "median(cost)")):
        asked = release.answer(text)
        assert (asked.low, asked.value, asked.high) == pytest.approx((method.low, method.value, method.high))


def test_days_and_moments_are_shown_as_such(release):
    found = release.answer("avg(visit)")
    assert found.scale == "date"
    assert "20" in found.as_dict()["low_date"]
    assert str(pd.Timestamp(found.value, unit="D").year) in found.in_words()
    assert release.mean("visit").as_dict() == found.as_dict()
    assert release.answer("median(seen)").shown(0.0) == "1970-01-01 00:00:00"
    assert "scale" not in release.answer("avg(age)").as_dict()


def test_groups(release, people):
    found = release.answer("avg(cost) group by sex", confidence=SURE)
    assert list(found.estimates)[:2] == [("f",), ("m",)]
    rows = release.to_pandas()
    for level, estimate in zip("fm", found, strict=False):
        assert found[level] is estimate
        assert estimate.value == pytest.approx(rows[rows.sex == level]["cost"].mean())
        assert holds(estimate, people[people.sex == level]["cost"].mean())
    assert found._repr_html_().count("<tr") == 4
    assert len(str(found).splitlines()) == 3


def test_groups_without_rows_have_no_answer(release):
    found = release.answer("avg(cost where sex = 'f') group by sex")
    assert list(found.estimates) == [("f",)]
    assert found.empty == (("m",), ("never",))
    assert "never: no synthetic row" in found.in_words()
    assert found.as_dict()["empty"] == [["m"], ["never"]]


def test_groups_of_two_columns_and_of_arithmetic(release):
    found = release.answer("avg(age where cost > 40) - avg(age) group by sex, smoker")
    assert set(found.estimates) >= {("f", "true"), ("f", "false"), ("m", "true"), ("m", "false")}
    assert len(found) + len(found.empty) == 6
    one = release.answer(
        "avg(age where cost > 40 and sex = 'f' and smoker = true) - avg(age where sex = 'f' and smoker = true)"
    )
    assert (found["f", "true"].low, found["f", "true"].high) == pytest.approx((one.low, one.high))


def test_a_small_group_has_a_wide_interval():
    rng = np.random.default_rng(1)
    sex = np.where(np.arange(1500) < 12, "rare", "often")
    table = pd.DataFrame({"sex": sex, "cost": np.where(sex == "rare", 90.0, rng.normal(30, 5, 1500))})
    schema = ss.Schema({"sex": ss.Category(["often", "rare"]), "cost": ss.Number(0, 100)})
    released = ss.release(table, schema=schema, epsilon=1.0, delta=1e-6, seed=1)
    found = released.answer("avg(cost) group by sex")
    assert found["often"].half_width < 10.0
    assert ("rare",) in found.empty or found["rare"].half_width > 30.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("avg(age) group sex", "'by' must stand"),
        ("avg(age) group by", "a column must stand"),
        ("avg(age) group by 3", "a column must stand"),
        ("avg(age) group by age", "with where"),
        ("avg(age) group by sexx", "Did you mean 'sex'"),
        ("avg(visit < 'soon')", "such as '2020-01-31', not 'soon'"),
        ("avg(seen < 'soon')", "2020-01-31T12:00:00"),
        ("avg(age > '2020-01-31')", "category or a date"),
        ("quantile(age, 2)", "between 0 and 1"),
        ("quantile(age + 1, 0.5)", "one of a column"),
        ("quantile(age, age)", "one of a column"),
        ("median(sex)", "compare it with a level"),
        ("corr(age)", "takes 2 arguments"),
        ("corr(age, 3)", "does not vary"),
        ("corr(age, avg(cost))", "average of an average"),
        ("sum(cost)", "times avg"),
        ("count(age)", "a share"),
        ("max(age)", "quantile"),
        ("stddev(age)", "sqrt"),
        ("select avg(age) from t", "smoothsynth sql"),
        ("avg(age where age)", "needs comparisons"),
        ("avg(age where age > 200)", "too small"),
    ],
)
def test_errors_teach(release, text, words):
    with pytest.raises(ss.SmoothsynthError, match=words):
        release.answer(text)


def test_an_error_points_at_the_place():
    from smoothsynth.answer.language import parse

    with pytest.raises(ss.PlanError) as caught:
        parse("avg(age) + 3 cost * 2")
    lines = str(caught.value).splitlines()
    assert lines[1][lines[2].index("^") :].startswith("cost")
    assert lines[3].startswith("For example: avg(age)")


def test_the_command_shows_groups(release, tmp_path):
    release.write(tmp_path / "out", csv=False)
    told = CliRunner().invoke(app, ["answer", str(tmp_path / "out"), "avg(cost) group by sex"])
    assert told.exit_code == 0
    assert "never" in told.output
    told = CliRunner().invoke(app, ["answer", str(tmp_path / "out"), "avg(visit) group by sex", "--json"])
    made = json.loads(told.output)
    assert [group["group"] for group in made["groups"]][:2] == [{"sex": "f"}, {"sex": "m"}]
    assert made["groups"][0]["value_date"].startswith("20")
