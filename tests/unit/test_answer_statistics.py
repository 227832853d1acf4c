"""Statistics with intervals, jumps, arithmetic on averages, and the command."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(8)
    age = np.clip(rng.normal(50, 15, 6000), 0, 120)
    return pd.DataFrame(
        {"age": age, "cost": np.clip(20 + 0.5 * age + rng.normal(0, 8, 6000), 0, 150), "flat": rng.uniform(0, 1, 6000)}
    )


@pytest.fixture(scope="module")
def release(people):
    schema = ss.Schema({"age": ss.Number(0, 120), "cost": ss.Number(0, 150), "flat": ss.Number(0, 1)})
    return ss.release(people, schema=schema, epsilon=4.0, delta=1e-6, seed=2)


# A test that may fail by chance shows little: coverage at 95 % is for benchmarks/coverage/intervals.py.
SURE = 0.9999


def holds(estimate, truth):
    return estimate.low <= truth <= estimate.high


def test_values_are_those_of_the_synthetic_rows(release):
    rows = release.to_pandas()
    assert release.mean("age").value == pytest.approx(rows["age"].mean())
    assert release.covariance("age", "cost").value == pytest.approx(np.cov(rows["age"], rows["cost"], bias=True)[0, 1])
    assert release.covariance("age", "age").value == pytest.approx(rows["age"].var(ddof=0))
    assert release.correlation("age", "cost").value == pytest.approx(rows[["age", "cost"]].corr().iloc[0, 1])
    assert release.quantile("age", 0.3).value == pytest.approx(rows["age"].quantile(0.3))
    slope, intercept = np.polyfit(rows["age"], rows["cost"], 1)
    fitted = release.regress("cost", on=["age"])
    assert fitted.slopes["age"].value == pytest.approx(slope)
    assert fitted.intercept.value == pytest.approx(intercept)
    assert "age" in str(fitted)
    shares = [one.share.value for one in release.histogram("age", bins=6)]
    np.testing.assert_allclose(shares, np.histogram(rows["age"], bins=6, range=(0, 120))[0] / 6000)


def test_intervals_hold_the_private_figures_of_an_ample_budget(release, people):
    assert holds(release.mean("age", confidence=SURE), people["age"].mean())
    assert holds(
        release.covariance("age", "cost", confidence=SURE), np.cov(people["age"], people["cost"], bias=True)[0, 1]
    )
    assert holds(release.correlation("age", "cost", confidence=SURE), people[["age", "cost"]].corr().iloc[0, 1])
    assert holds(release.correlation("age", "flat", confidence=SURE), people[["age", "flat"]].corr().iloc[0, 1])
    slope, intercept = np.polyfit(people["age"], people["cost"], 1)
    fitted = release.regress("cost", on=["age", "flat"], confidence=SURE)
    assert holds(fitted.slopes["age"], slope)
    assert fitted.slopes["age"].half_width < slope
    assert holds(fitted.intercept, intercept)
    for q in (0.1, 0.5, 0.9):
        found = release.quantile("age", q, confidence=SURE)
        assert holds(found, people["age"].quantile(q))
        assert found.half_width < 30
    for one in release.histogram("flat", bins=[0, 0.2, 0.5, 1], confidence=SURE):
        assert holds(one.share, people["flat"].between(one.lower, one.upper).mean())


def test_a_correlation_stays_within_its_limits_and_says_when_it_cannot_tell(people, release):
    poor = ss.release(people[:300], schema=release.schema, epsilon=0.3, seed=2)
    found = poor.correlation("age", "cost")
    assert -1 <= found.low <= found.high <= 1
    assert "cannot tell" in found.in_words()


def test_a_count_is_answered_between_envelopes(release, people):
    found = release.answer("avg(age >= 40 and age < 60)", confidence=SURE)
    rows = release.to_pandas()["age"]
    assert found.value == ((rows >= 40) & (rows < 60)).mean()
    assert found.kind == "envelopes"
    assert "jumps" in found.in_words()
    assert holds(found, ((people["age"] >= 40) & (people["age"] < 60)).mean())
    smooth = release.answer("avg(exp(-power((age-50)/10, 2)))", confidence=SURE)
    assert found.low >= 0
    assert found.high <= 1
    assert found.half_width > smooth.half_width


def test_arithmetic_on_averages(release, people):
    found = release.answer("avg(age * cost) / avg(cost)", confidence=SURE)
    assert found.kind == "linearised"
    rows = release.to_pandas()
    assert found.value == pytest.approx((rows["age"] * rows["cost"]).mean() / rows["cost"].mean())
    assert holds(found, (people["age"] * people["cost"]).mean() / people["cost"].mean())
    spread = release.answer("sqrt(avg(age * age) - avg(age) ** 2)", confidence=SURE)
    assert spread.value == pytest.approx(rows["age"].std(ddof=0))
    assert holds(spread, people["age"].std(ddof=0))
    assert spread.half_width < 5
    jumps = release.answer("avg(case when age > 50 then cost else 0 end) / avg(age > 50)", confidence=SURE)
    assert holds(jumps, people.loc[people["age"] > 50, "cost"].mean())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda r: r.mean("agee"), "Did you mean 'age'"),
        (lambda r: r.quantile("age", 1.5), "between 0 and 1"),
        (lambda r: r.histogram("age", bins=0), "1 to 200"),
        (lambda r: r.histogram("age", bins=[3, 2, 1]), "rise"),
        (lambda r: r.regress("age", on=[]), "at least one other"),
        (lambda r: r.regress("age", on=["age"]), "at least one other"),
        (lambda r: r.answer("avg(avg(age))"), "average of an average"),
        (lambda r: r.answer("avg(age) + age"), "inside avg"),
        (lambda r: r.answer("1 + 1"), "inside avg"),
        (lambda r: r.answer("avg(age and cost > 1)"), "needs comparisons"),
        (lambda r: r.answer("avg(case when age then 1 else 0 end)"), "needs comparisons"),
        (lambda r: r.answer("sqrt(-avg(age))"), "not a finite number"),
        (lambda r: r.answer("avg(ln(age - 200))"), "finite"),
        (lambda r: r.answer("avg(tanh(5000 * (age - 50)))"), "not smooth in 'age'"),
        (lambda r: r.answer("1 / avg(age > 119.9)"), "zero"),
        (lambda r: r.answer("avg(ln(age - 200) > 1)"), "comparison must be finite"),
    ],
)
def test_what_cannot_be_answered_is_said(release, call, words):
    with pytest.raises(ss.SmoothsynthError, match=words):
        call(release)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_far_beyond_the_values_do_not_make_intervals_narrow(seed):
    """Noise is then most of each variance that is divided by, and of what stands below the root."""
    rng = np.random.default_rng(seed)
    e = rng.exponential(1.0, 8000)
    table = {"e": e, "f": e * rng.uniform(0.5, 1.5, 8000)}
    schema = ss.Schema({"e": ss.Number(0, 270), "f": ss.Number(0, 270)})
    release = ss.release(pa.table(table), schema=schema, epsilon=1.0, delta=1e-6)
    asked = {
        "corr(e, f)": np.corrcoef(e, table["f"])[0, 1],
        "sqrt(avg(e * e) - power(avg(e), 2))": e.std(),
        "(avg(e * f) - avg(e) * avg(f)) / (avg(e * e) - power(avg(e), 2))": np.polyfit(e, table["f"], 1)[0],
    }
    for question, truth in asked.items():
        found = release.answer(question)
        assert found.low <= truth <= found.high, question
    slope = release.regress("f", on=["e"]).slopes["e"]
    assert slope.low <= np.polyfit(e, table["f"], 1)[0] <= slope.high


def test_the_command(release, tmp_path):
    release.write(tmp_path / "out")
    runner = CliRunner()
    shown = runner.invoke(app, ["answer", str(tmp_path / "out"), "avg(age)"])
    assert shown.exit_code == 0
    assert "95 %" in shown.stdout
    assert "noise" in shown.stdout
    asked = runner.invoke(app, ["answer", str(tmp_path / "out"), "avg(age)", "--json", "--confidence", "0.8"])
    found = json.loads(asked.stdout)
    assert found["low"] <= found["value"] <= found["high"]
    assert found["confidence"] == 0.8
    assert found["value"] == pytest.approx(release.mean("age").value)
    wrong = runner.invoke(app, ["answer", str(tmp_path / "out"), "avg(agee)"])
    assert wrong.exit_code == 1
    assert "Did you mean 'age'?" in wrong.stderr
    unended = runner.invoke(app, ["answer", str(tmp_path / "out"), "avg(age"])
    assert unended.stderr.splitlines()[1:3] == ["    avg(age", "           ^"]
