"""Answers about categories and columns with missing values: what they mean, what is proved, what is refused."""

import numpy as np
import pandas as pd
import pytest

import smoothsynth as ss
from smoothsynth.answer.columns import Used
from smoothsynth.answer.evidence import evidence_of
from smoothsynth.answer.query import Query
from smoothsynth.answer.worst_case_interval import states, worst_case_of_column, worst_case_ratio

ROWS = 3000
# A test that may fail by chance shows little.
SURE = 0.9999
SCHEMA = ss.Schema(
    {
        "age": ss.Number(0, 120),
        "region": ss.Category(["A", "B", "C", "D"], other="D"),
        "bmi": ss.Number(10, 60, nullable=True),
        "ward": ss.Category(["north", "south", "it's odd"], nullable=True),
        "smoker": ss.Boolean(nullable=True),
        "grade": ss.Category([1, 2, 3]),
        "born": ss.Date("1900-01-01", "2020-12-31", nullable=True),
        "well": ss.Boolean(),
    }
)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(4)
    age = np.clip(rng.normal(50, 15, ROWS), 0, 120)
    region = rng.choice(list("ABCD"), ROWS, p=[0.4, 0.3, 0.2, 0.1])
    bmi = 20 + 0.1 * age + 2.0 * (region == "A") + rng.normal(0, 3, ROWS)
    bmi[rng.random(ROWS) < 0.1 + 0.2 * (region == "B")] = np.nan
    smoker = pd.array(rng.random(ROWS) < 0.3, dtype="boolean")
    smoker[rng.random(ROWS) < 0.2] = pd.NA
    born = pd.Series(pd.to_datetime("1950-01-01") + pd.to_timedelta(rng.integers(0, 9000, ROWS), "D"))
    return pd.DataFrame(
        {
            "age": age,
            "region": region,
            "bmi": bmi.clip(10, 60),
            "ward": rng.choice(
                np.array(["north", "south", "it's odd", None], dtype=object), ROWS, p=[0.5, 0.2, 0.2, 0.1]
            ),
            "smoker": smoker,
            "grade": rng.integers(1, 4, ROWS),
            "born": born.where(rng.random(ROWS) < 0.9),
            "well": rng.random(ROWS) < 0.7,
        }
    )


@pytest.fixture(scope="module")
def release(people):
    return ss.release(people, schema=SCHEMA, epsilon=8.0, delta=1e-6, seed=1)


@pytest.fixture(scope="module")
def exact(people):
    return ss.release(people, schema=SCHEMA, epsilon=2e3, seed=1)


def truths(t):
    """The private answers, computed by pandas without the library."""
    included, ward, smoker = t["bmi"].notna(), t["ward"].notna(), t["smoker"].notna()
    return {
        "avg(region = 'A')": (t["region"] == "A").mean(),
        "avg(region <> 'A')": (t["region"] != "A").mean(),
        "avg(region in ('A', 'C'))": t["region"].isin(["A", "C"]).mean(),
        "avg(ward = 'it''s odd')": (t["ward"][ward] == "it's odd").mean(),
        "avg(ward is null)": (~ward).mean(),
        "avg(born is null)": t["born"].isna().mean(),
        "avg(bmi is not null)": included.mean(),
        "avg(smoker)": t["smoker"][smoker].astype(float).mean(),
        "avg(smoker = false)": 1.0 - t["smoker"][smoker].astype(float).mean(),
        "avg(grade = 2)": (t["grade"] == 2).mean(),
        "avg(well = true)": t["well"].mean(),
        "avg(bmi)": t["bmi"].mean(),
        "avg(exp(-power((bmi - 25) / 6, 2)))": np.exp(-(((t["bmi"] - 25) / 6) ** 2)).mean(),
        "avg(bmi > 25)": (t["bmi"][included] > 25).mean(),
        "avg(age * bmi)": (t["age"] * t["bmi"]).mean(),
        "avg(age where region = 'A')": t["age"][t["region"] == "A"].mean(),
        "avg(bmi where region = 'B')": t["bmi"][t["region"] == "B"].mean(),
        "avg(region = 'B' where bmi is null)": (t["region"][~included] == "B").mean(),
        "avg(bmi where region = 'A') - avg(bmi where region = 'B')": t["bmi"][t["region"] == "A"].mean()
        - t["bmi"][t["region"] == "B"].mean(),
        "avg(region = 'A' and age > 50)": ((t["region"] == "A") & (t["age"] > 50)).mean(),
        "avg(case when region = 'A' then age else 0 end)": (t["age"] * (t["region"] == "A")).mean(),
        "sqrt(avg(bmi * bmi) - avg(bmi) ** 2)": t["bmi"].std(ddof=0),
        "avg(region = 'A' and ward = 'north')": ((t["region"] == "A") & (t["ward"] == "north"))[ward].mean(),
    }


def holds(estimate, truth):
    return estimate.low <= truth <= estimate.high


def test_values_are_those_of_the_synthetic_rows(release):
    rows = release.to_pandas()
    rows["smoker"] = rows["smoker"].astype("boolean")
    for text, wanted in truths(rows).items():
        assert release.answer(text).value == pytest.approx(wanted, abs=1e-9), text


def test_intervals_hold_the_private_answers_and_are_not_all_there_is(release, people):
    for text, truth in truths(people).items():
        found = release.answer(text, confidence=SURE)
        assert holds(found, truth), text
        assert found.low <= found.value <= found.high
        assert release.answer(text).half_width < found.half_width, text


@pytest.mark.parametrize(
    "text",
    [
        "avg(region = 'A')",
        "avg(region in ('A', 'C'))",
        "avg(ward = 'north')",
        "avg(ward is null)",
        "avg(born is null)",
        "avg(bmi is null)",
        "avg(smoker = true)",
        "avg(grade <> 2)",
    ],
)
def test_shares_are_proved_from_noise_alone(release, text):
    found = release.answer(text)
    assert found.unseen_is == "bounded"
    assert found.unseen < 1e-3 * found.noise
    assert "nothing about the table was assumed" in found.in_words()


def test_the_noise_of_a_share_is_that_of_its_moments(release):
    """No more than the share of one level alone, its moments weighed by 1/noise^2."""
    place = SCHEMA.coordinates.index("region = A")
    precision = 0.0
    for noisy in release.moments:
        transformation = noisy.measurement.transformation
        if transformation is not None and not transformation.family.alone:
            continue
        for feature, deviation in zip(noisy.features, noisy.deviations, strict=True):
            if feature.terms == (((place, 1),),):
                seen = 1.0 if transformation is None else transformation.bend(place, np.array([65536.0]))[0] / 65536
                precision += (seen / deviation) ** 2
    alone = -np.log(0.05) / np.sqrt(2) / np.sqrt(precision)
    assert 0.5 * alone < release.answer("avg(region = 'A')").noise < 1.001 * alone


def test_functions_of_categories_are_sums_of_shares(release):
    text, call = release.answer("avg(region = 'A')"), release.answer(lambda t: t["region"] == "A", columns=["region"])
    assert call.as_dict() == pytest.approx(text.as_dict(), abs=1e-12)
    points = {"A": 3.0, "B": -1.0, "C": 0.5, "D": 10.0}
    found = release.answer(lambda t: np.array([points[one] for one in t["region"]]), columns=["region"])
    assert found.unseen_is == "bounded"
    assert found.value == pytest.approx(release.to_pandas()["region"].map(points).mean())
    grades = release.answer(lambda t: t["grade"] ** 2, columns=["grade"])
    assert grades.value == pytest.approx((release.to_pandas()["grade"] ** 2).mean())


def test_rows_without_a_value_are_left_out_for_functions_too(release):
    found = release.answer(lambda t: np.tanh((t["bmi"] - 25) / 9) * t["age"], columns=["bmi", "age"])
    rows = release.to_pandas()
    assert found.value == pytest.approx((np.tanh((rows["bmi"] - 25) / 9) * rows["age"]).mean())
    both = release.answer(lambda t: np.where(t["ward"] == "north", 1.0, -1.0) * t["age"], columns=["age", "ward"])
    kept = rows.dropna(subset="ward")
    assert both.value == pytest.approx((np.where(kept["ward"] == "north", 1.0, -1.0) * kept["age"]).mean())


@pytest.mark.parametrize("function", [np.abs, np.sign, lambda x: np.cos(4 * x), lambda x: x])
def test_the_bounded_ratio_holds_with_no_noise_for_any_function(people, exact, function):
    known, column = evidence_of(exact), SCHEMA.columns["bmi"]
    query = Query.of(exact, ["bmi"])
    place = SCHEMA.coordinates_of("bmi").start
    found = worst_case_ratio(known, "bmi", lambda p: function(p[:, place]), query.included, confidence=SURE)
    unit = column.to_unit(people["bmi"].dropna().to_numpy())
    assert found.low - 1e-4 <= function(unit).mean() <= found.high + 1e-4
    assert found.high - found.low < 1.5


def test_a_ratio_knows_how_many_are_missing(people, exact):
    """The mean over all rows, with missing values at the centre, is another one; it must not be held."""
    query = Query.of(exact, ["bmi"])
    place = SCHEMA.coordinates_of("bmi").start
    found = worst_case_ratio(evidence_of(exact), "bmi", lambda p: p[:, place], query.included, confidence=SURE)
    column = SCHEMA.columns["bmi"]
    with_centre = column.to_unit(people["bmi"].to_numpy()).mean()
    assert not found.low <= with_centre <= found.high
    assert found.low <= column.to_unit(people["bmi"].dropna().to_numpy()).mean() <= found.high


def test_a_ratio_of_nothing_measured_is_all_that_is_possible(people):
    poor = ss.release(people[:100], schema=SCHEMA, epsilon=0.01, seed=1)
    query = Query.of(poor, ["bmi"])
    place = SCHEMA.coordinates_of("bmi").start
    found = worst_case_ratio(evidence_of(poor), "bmi", lambda p: p[:, place], query.included, confidence=0.95)
    # Noise is drawn afresh, and may leave a little room at an end.
    assert (found.low, found.high) == pytest.approx((-1.0, 1.0), abs=1e-3)


def test_a_mean_of_a_group_stays_within_the_public_bounds(people):
    poor = ss.release(people, schema=SCHEMA, epsilon=1.0, seed=1)
    found = poor.answer("avg(bmi where region = 'A')", confidence=SURE)
    assert 10 <= found.low <= found.value <= found.high <= 60


def test_states_are_those_that_rows_can_have(people):
    for name, column in SCHEMA.columns.items():
        own = states(column)
        assert own.shape[1] == column.dimensions
        cells = SCHEMA.to_unit({n: people[n].array for n in SCHEMA.names})[:, SCHEMA.coordinates_of(name)]
        binary = [k for k, role in enumerate(column.roles) if role != "value"]
        if binary:
            assert {tuple(row) for row in cells[:, binary]} <= {tuple(row) for row in own[:, binary]}


def test_columns_in_their_own_units(release):
    used = Used.of(SCHEMA, ["region", "bmi", "ward"])
    rows, included = used.of_table(release.table)
    points = release.unit_rows()
    np.testing.assert_array_equal(included, used.included(points) > 0.5)
    at = used.at(points)
    np.testing.assert_array_equal(rows["region"], at["region"])
    np.testing.assert_allclose(rows["bmi"][included], at["bmi"][included])
    np.testing.assert_array_equal(rows["ward"][included], at["ward"][included])
    assert used.partial
    assert not Used.of(SCHEMA, ["age", "region", "well"]).partial
    assert Used.of(SCHEMA, ["grade"]).partial
    assert not Used.of(SCHEMA, ["bmi"], only_missing=["bmi"]).partial


def test_statistics_of_columns_with_missing_values(release, people):
    rows = release.to_pandas()
    assert release.mean("bmi").value == pytest.approx(rows["bmi"].mean())
    assert release.correlation("age", "bmi").value == pytest.approx(rows[["age", "bmi"]].corr().iloc[0, 1])
    assert holds(release.correlation("age", "bmi", confidence=SURE), people[["age", "bmi"]].corr().iloc[0, 1])
    assert holds(release.quantile("bmi", 0.5, confidence=SURE), people["bmi"].median())
    kept = people.dropna(subset="bmi")
    slope = np.polyfit(kept["age"], kept["bmi"], 1)[0]
    assert holds(release.regress("bmi", on=["age"], confidence=SURE).slopes["age"], slope)
    shares = [one.share.value for one in release.histogram("bmi", bins=[10, 20, 30, 60])]
    assert sum(shares) == pytest.approx(1.0)


def test_test_rows_have_levels_that_synthetic_rows_lack(people):
    rare = people.assign(region="A")
    made = ss.release(rare, schema=SCHEMA, epsilon=50.0, delta=1e-6, seed=1)
    levels = evidence_of(made).rows[:, SCHEMA.coordinates_of("region")]
    assert np.all(levels.sum(axis=1) == 1.0)
    assert levels.std(axis=0).min() > 0.0
    found = made.answer("avg(region = 'B')", confidence=SURE)
    assert holds(found, 0.0)
    assert found.high > 0.0


def test_settled_intervals_need_no_estimate(release):
    known = evidence_of(release)
    place = SCHEMA.coordinates_of("bmi").start
    assert worst_case_of_column(known, "bmi", lambda p: p[:, place + 1], confidence=0.95).settled
    assert not worst_case_of_column(known, "bmi", lambda p: p[:, place], confidence=0.95).settled
    assert worst_case_of_column(known, "region", lambda p: p[:, 1], confidence=0.95).settled


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("avg(region)", "compare it with a level, as in region = 'A'"),
        ("avg(region = 'E')", "no level 'E'. There are: 'A'"),
        ("avg(ward = 'nort')", "Did you mean 'north'"),
        ("avg(region > 'A')", "category|beside a category"),
        ("avg(age = 'A')", "beside a category"),
        ("avg('A')", "beside a category"),
        ("avg(region = ward)", "is a category"),
        ("avg(age is null)", "not nullable"),
        ("avg((age + 1) is null)", "Only a column"),
        ("avg(bmi is null or bmi > 3)", "Write two averages"),
        ("avg(well = 'maybe')", "true and false"),
        ("avg(regio = 'A')", "Did you mean 'region'"),
        ("avg(bmi where age)", "needs comparisons"),
        ("avg(age) + region", "is a category"),
    ],
)
def test_what_has_no_meaning_is_said(release, text, words):
    with pytest.raises(ss.SmoothsynthError, match=words):
        release.answer(text)


def test_functions_and_statistics_say_what_they_cannot(release):
    with pytest.raises(ss.PlanError, match="condition"):
        release.answer(lambda t: (t["region"] == "A") & (t["age"] > 50), columns=["region", "age"])
    with pytest.raises(ss.PlanError, match="numbers, truth values and dates; 'region' is a category"):
        release.mean("region")
    with pytest.raises(ss.PlanError, match="not smooth in 'bmi'"):
        release.answer(lambda t: np.where(t["bmi"] > 30, 1.0, 0.0), columns=["bmi"])


def test_a_group_without_rows_is_said(people):
    made = ss.release(people.assign(region="A"), schema=SCHEMA, epsilon=1e3, delta=1e-6, seed=1)
    if "B" not in set(made.to_pandas()["region"]):
        with pytest.raises(ss.PlanError, match="No synthetic row"):
            made.answer("avg(age where region = 'B')")


def test_many_levels_are_asked_for_one_by_one():
    rng = np.random.default_rng(2)
    schema = ss.Schema({"code": ss.Category(list(range(60))), "x": ss.Number(0, 1)})
    table = pd.DataFrame({"code": rng.integers(0, 60, 2000), "x": rng.random(2000)})
    made = ss.release(table, schema=schema, epsilon=5.0, delta=1e-6, seed=1)
    with pytest.raises(ss.PlanError, match="single levels as text"):
        made.answer(lambda t: t["x"] * (t["code"] < 30), columns=["x", "code"])
    assert made.answer("avg(x where code = 7)").half_width > 0.0
    assert made.answer(lambda t: t["code"] < 30, columns=["code"]).unseen_is == "bounded"
