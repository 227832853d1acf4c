"""Survey weights: a fact of the schema, and answers about the population that the rows stand for."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app
from smoothsynth.errors import PlanError, SchemaError
from smoothsynth.queries.soft_tables import Cells
from smoothsynth.report.contents import contents

COLUMNS = {
    "age": ss.Number(0, 100),
    "income": ss.Number(0, 100),
    "region": ss.Category(["north", "south"]),
    "weight of row": ss.Integer(0, 60),
}
WEIGHT = "weight of row"
SCHEMA = ss.Schema(COLUMNS, weight=WEIGHT)
ROWS = 3000


def make_survey(seed=1, rows=ROWS):
    """Return a survey that asked the old and the north more often, with the weights that make up for it."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(50, 16, rows), 0, 100)
    north = rng.random(rows) < 0.6
    weight = np.rint(np.clip(14 * np.exp(-(age - 50) / 30) * np.where(north, 0.7, 1.5), 1, 60))
    income = np.clip(20 + 0.6 * age + 8 * north + rng.normal(0, 8, rows), 0, 100)
    region = np.where(north, "north", "south")
    return pd.DataFrame({"age": age, "income": income, "region": region, WEIGHT: weight.astype(int)})


def weighted_mean(values, weights):
    return float(np.average(np.asarray(values, dtype=float), weights=weights))


@pytest.fixture(scope="module")
def survey():
    return make_survey()


@pytest.fixture(scope="module")
def release(survey):
    return ss.release(survey, schema=SCHEMA, epsilon=20.0, delta=1e-6, seed=1)


def test_a_schema_keeps_its_weight():
    assert "weight" not in ss.Schema(COLUMNS).facts()
    for again in (
        ss.Schema.parse(SCHEMA.to_toml()),
        ss.Schema.from_facts(json.loads(json.dumps(SCHEMA.facts()))),
        pickle.loads(pickle.dumps(SCHEMA)),
    ):
        assert again == SCHEMA
        assert again.weight == WEIGHT
        assert again != ss.Schema(COLUMNS)


@pytest.mark.parametrize(
    ("columns", "weight", "words"),
    [
        ({"x": ss.Number(0, 1)}, "y", "no column 'y'"),
        ({"x": ss.Number(0, 1)}, 3, "name of the column"),
        ({"x": ss.Number(-1, 1)}, "x", "at least 0"),
        ({"x": ss.Number(0, "private")}, "x", "public bounds"),
        ({"x": ss.Number("private", 9)}, "x", "public bounds"),
        ({"x": ss.Number(0, 1, nullable=True)}, "x", "nullable"),
        ({"x": ss.Boolean()}, "x", "must be numbers"),
        ({"x": ss.Category(["a", "b"])}, "x", "must be numbers"),
    ],
)
def test_what_is_no_weight_is_refused(columns, weight, words):
    with pytest.raises(SchemaError, match=words):
        ss.Schema(columns, weight=weight)


def test_values_are_weighted_statistics_of_the_synthetic_rows(release):
    rows = release.to_pandas()
    w, age, income = (rows[name].to_numpy(float) for name in (WEIGHT, "age", "income"))
    north = (rows["region"] == "north").to_numpy()
    cov = np.cov(age, income, aweights=w, ddof=0)
    design = np.column_stack([np.ones(len(rows)), age])
    slopes = np.linalg.lstsq(design * np.sqrt(w)[:, None], income * np.sqrt(w), rcond=None)[0]
    fit = release.regress("income", on=["age"], weighted=True)
    below = release.quantile("age", 0.3, weighted=True).value
    found = {
        "mean": (release.mean("age", weighted=True).value, weighted_mean(age, w)),
        "text": (release.answer("avg(age)", weighted=True).value, weighted_mean(age, w)),
        "function": (
            release.answer(lambda t: t["age"] * t["income"], columns=["age", "income"], weighted=True).value,
            weighted_mean(age * income, w),
        ),
        "share of a level": (release.answer("avg(region = 'north')", weighted=True).value, weighted_mean(north, w)),
        "levels of a function": (
            release.answer(lambda t: t["region"] == "north", columns=["region"], weighted=True).value,
            weighted_mean(north, w),
        ),
        "group": (
            release.answer("avg(income where region = 'north')", weighted=True).value,
            weighted_mean(income[north], w[north]),
        ),
        "count": (release.answer("avg(age >= 60)", weighted=True).value, weighted_mean(age >= 60, w)),
        "quotient": (
            release.answer("avg(income) / avg(age)", weighted=True).value,
            weighted_mean(income, w) / weighted_mean(age, w),
        ),
        "combined": (
            release.answer("avg(age > 60) - avg(age > 70)", weighted=True).value,
            weighted_mean(age > 60, w) - weighted_mean(age > 70, w),
        ),
        "weight itself": (release.answer(f'avg("{WEIGHT}")', weighted=True).value, weighted_mean(w, w)),
        "covariance": (release.covariance("age", "income", weighted=True).value, cov[0, 1]),
        "correlation": (
            release.correlation("age", "income", weighted=True).value,
            cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1]),
        ),
        "slope": (fit.slopes["age"].value, slopes[1]),
        "intercept": (fit.intercept.value, slopes[0]),
        "bin": (
            release.histogram("age", bins=[0, 40, 100], weighted=True)[0].share.value,
            weighted_mean(age < 40, w),
        ),
        "quantile": (weighted_mean(age <= below, w), pytest.approx(0.3, abs=0.01)),
    }
    for name, (value, truth) in found.items():
        assert value == (truth if name == "quantile" else pytest.approx(truth, rel=1e-9)), name


def test_intervals_hold_the_weighted_figure_and_not_the_plain_one(release, survey):
    w = survey[WEIGHT]
    for found, values in (
        (release.mean("age", weighted=True), survey["age"]),
        (release.mean("income", weighted=True), survey["income"]),
        (release.answer("avg(region = 'north')", weighted=True), survey["region"] == "north"),
    ):
        assert found.low <= weighted_mean(values, w) <= found.high
        assert not found.low <= values.mean() <= found.high
        assert found.high - found.low < 0.25 * float(np.ptp(values.astype(float)))


QUESTIONS = {
    "avg(age)": lambda t: t["age"],
    "avg(region = 'north')": lambda t: t["region"] == "north",
    "avg(age > 60)": lambda t: t["age"] > 60,
    "avg(exp(-power((age - 40) / 15, 2)))": lambda t: np.exp(-(((t["age"] - 40) / 15) ** 2)),
    "avg(age * income)": lambda t: t["age"] * t["income"],
}


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_weighted_answers_are_covered(delta):
    """Over fresh tables and releases; narrower intervals, and those of rows without weights, are caught."""
    held, narrow, plain = [], [], []
    for seed in range(8):
        private = make_survey(seed, 1500)
        made = ss.release(private, schema=SCHEMA, epsilon=2.0, delta=delta, seed=seed)
        for text, values in QUESTIONS.items():
            truth = weighted_mean(values(private), private[WEIGHT])
            found = made.answer(text, weighted=True)
            held.append(found.low <= truth <= found.high)
            found = made.answer(text, weighted=True, confidence=0.1)
            narrow.append(found.low <= truth <= found.high)
            found = made.answer(text)
            plain.append(found.low <= truth <= found.high)
    assert np.mean(held) >= 0.9
    assert np.mean(narrow) < 0.9
    assert np.mean(plain) < 0.6


def test_answers_without_weights_are_those_of_rows(release):
    assert release.mean("age").value == pytest.approx(release.to_pandas()["age"].mean())
    assert release.mean("age").value != pytest.approx(release.mean("age", weighted=True).value, rel=1e-3)


def with_weight(release, weight):
    """Return the release, all of whose synthetic rows have this weight."""
    return replace(release, table=release.table.set_column(3, WEIGHT, [[weight] * release.table.num_rows]))


def test_weights_that_are_all_the_same_change_no_value(release):
    flat = with_weight(release, 30)
    for text in ("avg(age)", "avg(age > 50)", "avg(income where region = 'north')"):
        assert flat.answer(text, weighted=True).value == pytest.approx(flat.answer(text).value, rel=1e-12)


def test_rows_without_weight_have_no_average(release):
    with pytest.raises(PlanError, match="weight above 0"):
        with_weight(release, 0).mean("age", weighted=True)


def test_a_release_without_weights_cannot_be_asked_for_them(survey):
    made = ss.release(survey[:300], schema=ss.Schema(COLUMNS), epsilon=5.0, delta=1e-6, seed=1)
    for ask in (
        lambda: made.answer("avg(age)", weighted=True),
        lambda: made.mean("age", weighted=True),
        lambda: made.quantile("age", 0.5, weighted=True),
    ):
        with pytest.raises(PlanError, match="names no column of survey weights"):
            ask()


@pytest.mark.parametrize("options", [{}, {"target": "region"}, {"tables": 3}])
def test_every_table_holds_the_weight_or_a_target(options):
    plan = ss.plan(SCHEMA, ROWS, epsilon=5.0, delta=1e-6, method=ss.methods.Adaptive(**options))
    wanted = {3, 2} if options.get("target") else {3}
    sets = [t for m in plan.measurements if isinstance(m.features, Cells) for t in m.features.tables if len(t) > 1]
    assert sets
    assert all(wanted.intersection(table) for table in sets)


def test_sets_of_a_workload_are_left_as_they_are():
    method = ss.methods.Adaptive(workload=(("age", "income"),))
    plan = ss.plan(SCHEMA, ROWS, epsilon=5.0, delta=1e-6, method=method)
    sets = {t for m in plan.measurements if isinstance(m.features, Cells) for t in m.features.tables if len(t) > 1}
    assert sets == {(0, 1)}


def test_weights_change_neither_cost_nor_sensitivity():
    plain, named = (
        ss.plan(schema, ROWS, epsilon=1.0, delta=1e-6, method=ss.methods.Adaptive(target=WEIGHT))
        for schema in (ss.Schema(COLUMNS), SCHEMA)
    )
    assert [c.as_dict() for c in named.charges] == [c.as_dict() for c in plain.charges]


def test_the_minimax_method_answers_with_weights_and_the_paper_refuses_them(survey):
    schema = ss.Schema({name: COLUMNS[name] for name in ("age", WEIGHT)}, weight=WEIGHT)
    made = ss.release(survey[["age", WEIGHT]], schema=schema, epsilon=10.0, delta=1e-6, method="minimax", seed=1)
    found = made.mean("age", weighted=True)
    assert found.low - 0.2 <= weighted_mean(survey["age"], survey[WEIGHT]) <= found.high + 0.2
    assert found.half_width < 2.0
    with pytest.raises(PlanError, match=r"method='paper'.*Leave weight out"):
        ss.plan(schema, ROWS, epsilon=1.0, delta=1e-6, method="paper")


def test_plan_page_and_command_say_what_is_weighted(release, tmp_path):
    plan = ss.plan(SCHEMA, ROWS, epsilon=1.0, delta=1e-6)
    assert plan.as_dict()["weight"] == WEIGHT
    assert f"Survey weights are in '{WEIGHT}'" in " ".join(str(plan).split())
    said = {limit.title: limit.text for limit in contents(release, {}).limits}
    assert f"'{WEIGHT}'" in said["The population of the survey"]
    folder = tmp_path / "out"
    release.write(folder)
    told = CliRunner().invoke(app, ["answer", str(folder), "avg(age)", "--weighted", "--json"])
    assert told.exit_code == 0
    document = json.loads(told.stdout)
    assert document["weighted"] is True
    assert document["value"] == release.mean("age", weighted=True).value
    assert ss.verify(folder).passed


def test_the_mean_over_rows_of_persons_is_weighted_with_their_number():
    """Each row of a person has the number of rows of this person as its weight: every row then counts once."""
    rng = np.random.default_rng(3)
    times = rng.integers(1, 10, 1500)
    who = np.repeat(np.arange(1500), times)
    x = np.clip(8.0 * times[who] + rng.normal(0, 5, len(who)), 0, 100)
    visits = pd.DataFrame({"id": who, "x": x, "visits": times[who]})
    schema = ss.Schema({"x": ss.Number(0, 100), "visits": ss.Integer(1, 12)}, person="id", weight="visits")
    made = ss.release(visits, schema=schema, epsilon=5.0, delta=1e-6, rows_per_person=3, seed=1)
    over_rows, over_persons = x.mean(), visits.groupby("id")["x"].mean().mean()
    found, plain = made.mean("x", weighted=True), made.mean("x")
    assert found.low <= over_rows <= found.high
    assert plain.low <= over_persons <= plain.high
    assert found.low > over_persons
    assert plain.high < over_rows
