"""Given rows keep their cells and their places; what they lack follows the law of the donors given what they have."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app
from smoothsynth.pipeline.given_rows import given_rows
from smoothsynth.pipeline.partial_rows import completed

SCHEMA = ss.Schema(
    {
        "x": ss.Number(0, 100),
        "g": ss.Category(["a", "b"]),
        "y": ss.Number(-100, 400),
        "n": ss.Integer(0, 50, nullable=True),
        "day": ss.Date(datetime.date(2020, 1, 1), datetime.date(2020, 12, 31)),
        "ill": ss.Boolean(),
    }
)


def law(count, seed):
    """Rows in which y is a line in x with another intercept for each g, n is missing for b more often, ill is xor."""
    rng = np.random.default_rng(seed)
    x, g = rng.normal(50, 15, count).clip(0, 100), rng.choice(["a", "b"], count, p=[0.8, 0.2])
    n = rng.poisson(10, count).astype(float)
    n[rng.random(count) < np.where(g == "a", 0.05, 0.6)] = np.nan
    days = np.datetime64("2020-01-01") + np.floor(x * 3).astype("timedelta64[D]")
    ill = (x > 50) ^ (g == "b")
    return pa.table(
        {
            "x": x,
            "g": g,
            "y": 2 * x + 30 * (g == "b") + rng.normal(0, 5, count),
            "n": pa.array(n, from_pandas=True).cast(pa.int64()),
            "day": pa.array(days.astype("datetime64[D]")),
            "ill": ill,
        }
    )


DONORS = law(10_000, 1)


def fill(given, schema=SCHEMA, donors=DONORS, seed=2):
    return completed(given_rows(given, schema), donors, schema, generator=np.random.default_rng(seed))


def uniform(count=2000):
    rng = np.random.default_rng(3)
    return pd.DataFrame({"g": rng.choice(["a", "b"], count), "x": rng.uniform(25, 75, count)})


def test_given_cells_stay_as_they_are():
    given = uniform(500)
    found = fill(given)
    assert found.column_names == list(SCHEMA.names)
    assert found["x"].to_pylist() == given["x"].tolist()
    assert found["g"].to_pylist() == given["g"].tolist()
    assert found.schema.field("day").type == pa.date32()
    assert found.equals(fill(given))
    assert not found.equals(fill(given, seed=3))


def test_what_is_filled_in_follows_the_law_given_what_is_there():
    """The given x are uniform, and as many are b as a: the law of y given them is that of the donors all the same."""
    found = fill(uniform()).to_pandas()
    for level, start in (("a", 0.0), ("b", 30.0)):
        rows = found[found["g"] == level]
        slope, intercept = np.polyfit(rows["x"], rows["y"], 1)
        assert slope == pytest.approx(2.0, abs=0.05)
        assert intercept == pytest.approx(start, abs=3.0)
        assert (rows["y"] - slope * rows["x"] - intercept).std() == pytest.approx(5.0, abs=0.5)
    assert found["n"].isna().groupby(found["g"]).mean().to_dict() == pytest.approx({"a": 0.05, "b": 0.6}, abs=0.05)
    away = found[np.abs(found["x"] - 50) > 2]
    assert (away["ill"] == ((away["x"] > 50) ^ (away["g"] == "b"))).mean() > 0.98


def test_what_is_filled_in_belongs_together():
    """Values of one donor: y and day are both functions of its x, which is not given."""
    found = fill(pd.DataFrame({"g": ["a"] * 800})).to_pandas()
    days = pd.to_datetime(found["day"]).dt.day_of_year
    assert np.corrcoef(found["y"], days)[0, 1] > 0.97
    assert found["x"].nunique() > 600
    assert found["x"].mean() == pytest.approx(50.0, abs=2.0)
    assert found["x"].std() == pytest.approx(15.0, abs=1.5)


def test_many_columns_do_not_flatten_a_regression():
    """With ten given columns no donor is near in all of them; it must be near in what they tell about y."""
    rng = np.random.default_rng(4)
    names = [f"x{i}" for i in range(10)]
    schema = ss.Schema({**dict.fromkeys(names, ss.Number(-5, 5)), "y": ss.Number(-30, 30)})
    points = rng.normal(size=(10_000, 10)).clip(-5, 5)
    donors = pa.table({**dict(zip(names, points.T, strict=True)), "y": points.sum(axis=1) + rng.normal(0, 1, 10_000)})
    given = rng.normal(size=(1000, 10)).clip(-5, 5)
    found = fill(pd.DataFrame(given, columns=names), schema, donors)
    slope = np.polyfit(given.sum(axis=1), found["y"].to_numpy(), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.06)


def of_numbers(names, function, *, count=10_000, seed=9):
    """Return a schema, donors and given rows of uniform numbers, of which y is a function up to a little noise."""
    rng = np.random.default_rng(seed)
    schema = ss.Schema({**dict.fromkeys(names, ss.Number(-1, 1)), "y": ss.Number(-3, 3)})
    points, given = (rng.uniform(-1, 1, (size, len(names))) for size in (count, 800))
    rows = dict(zip(names, points.T, strict=True))
    donors = pa.table({**rows, "y": function(points) + rng.normal(0, 0.05, count)})
    return schema, donors, given


def test_a_wave_that_no_regression_sees_is_there():
    schema, donors, given = of_numbers(["x"], lambda points: np.cos(20 * points[:, 0]))
    found = fill(pd.DataFrame(given, columns=["x"]), schema, donors)["y"].to_numpy()
    assert np.corrcoef(found, np.cos(20 * given[:, 0]))[0, 1] > 0.98


def test_a_product_is_there_beside_columns_that_tell_nothing():
    names = [f"x{i}" for i in range(10)]
    schema, donors, given = of_numbers(names, lambda points: points[:, 0] * points[:, 1])
    found = fill(pd.DataFrame(given, columns=names), schema, donors)["y"].to_numpy()
    assert np.corrcoef(found, given[:, 0] * given[:, 1])[0, 1] > 0.9


def test_a_null_is_a_missing_value_and_stays_one():
    given = pd.DataFrame({"n": [np.nan] * 300 + [7.0] * 300})
    found = fill(given).to_pandas()
    assert found["n"].isna().tolist() == [True] * 300 + [False] * 300
    share = (found["g"] == "b").groupby(found["n"].isna()).mean()
    assert share[True] > 0.6
    assert share[False] < 0.2


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "text", "dictionary"])
def test_frames_of_any_kind(kind):
    table = DONORS.select(["day", "g", "n", "ill"]).slice(0, 50)
    frames = {
        "pandas": lambda: table.to_pandas().set_index(pd.Index(range(7, 57), name="other")),
        "polars": lambda: pl.from_arrow(table),
        "arrow": lambda: table,
        "text": lambda: pa.table({name: table[name].cast(pa.string()) for name in table.column_names}),
        "dictionary": lambda: table.set_column(1, "g", table["g"].dictionary_encode()),
    }
    found = fill(frames[kind]())
    assert found.select(table.column_names).equals(table)


def test_whole_rows_are_returned():
    assert fill(DONORS.slice(0, 20)).equals(DONORS.slice(0, 20))


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"x": [101.0, 5.0, -3.0]}, ss.DataError, "2 cells of column 'x' of the given rows are not within its bounds"),
        ({"g": ["a", "c"]}, ss.DataError, "1 cells of column 'g' of the given rows are not one of its levels"),
        ({"x": [1.0, None]}, ss.DataError, "which this column never is"),
        ({"x": ["one"]}, ss.DataError, "Column 'x' of the given rows must hold"),
        ({"n": [1.5]}, ss.DataError, "Column 'n' of the given rows must hold"),
        ({"z": [1]}, ss.SchemaError, "There is no column 'z'"),
        ({"x": []}, ss.DataError, "at least one row"),
        ([1, 2], ss.DataError, "must be a frame"),
    ],
)
def test_what_cannot_be_completed_is_said(given, error, words):
    with pytest.raises(error, match=words):
        fill(pa.table(given) if isinstance(given, dict) else given)


def salaries(count, seed):
    rng = np.random.default_rng(seed)
    gross = rng.uniform(1000, 9000, count)
    tax = gross * rng.uniform(0.1, 0.4, count)
    first = rng.integers(0, 40, count)
    return pa.table(
        {"net": gross - tax, "tax": tax, "gross": gross, "hired": first, "left": first + rng.integers(0, 20, count)}
    )


TIED = ss.Schema(
    {
        "net": ss.Number(0, 10_000),
        "tax": ss.Number(0, 10_000),
        "gross": ss.Number(0, 10_000),
        "hired": ss.Integer(0, 60),
        "left": ss.Integer(0, 60),
    },
    constraints=["net + tax = gross", "hired <= left"],
)


def test_constraints_hold_between_given_and_filled_columns():
    rng = np.random.default_rng(5)
    given = pd.DataFrame({"gross": rng.uniform(1000, 9000, 500), "left": rng.integers(0, 30, 500)})
    found = fill(given, TIED, salaries(5000, 6)).to_pandas()
    assert found["gross"].tolist() == given["gross"].tolist()
    assert found["left"].tolist() == given["left"].tolist()
    assert np.abs(found["net"] + found["tax"] - found["gross"]).max() < 1e-6
    assert (found["hired"] <= found["left"]).all()
    rate = found["tax"] / found["gross"]
    assert 0.08 < rate.min() < rate.max() < 0.42


def test_whole_numbers_are_moved_in_whole_steps():
    schema = ss.Schema(
        {"a": ss.Integer(0, 30), "b": ss.Integer(0, 30), "all": ss.Integer(0, 60)}, constraints=["a + b = all"]
    )
    rng = np.random.default_rng(7)
    a, b = rng.integers(0, 10, 2000), rng.integers(0, 10, 2000)
    # No donor has so many: all that is filled in must be moved.
    found = fill(pd.DataFrame({"all": [0, 25, 37, 60]}), schema, pa.table({"a": a, "b": b, "all": a + b})).to_pandas()
    assert (found["a"] + found["b"]).tolist() == [0, 25, 37, 60]


def test_rows_that_cannot_keep_a_constraint_are_named():
    donors = salaries(2000, 6)
    with pytest.raises(ss.DataError, match=r"Given rows 1, 2 \(the first is 0\) break 'hired <= left'"):
        fill(pd.DataFrame({"hired": [1, 9, 30], "left": [5, 3, 2]}), TIED, donors)
    with pytest.raises(ss.DataError, match=r"No values of 'net'.* given rows 1 \(the first is 0\)"):
        fill(pd.DataFrame({"gross": [3000.0, 2000.0], "tax": [1000.0, 5000.0]}), TIED, donors)


@pytest.fixture(scope="module")
def release():
    schema = ss.Schema({name: SCHEMA.columns[name] for name in ("x", "g", "y", "ill")})
    return ss.release(
        law(1500, 8), schema=schema, epsilon=30.0, delta=1e-6, seed=1, method=ss.methods.Adaptive(tables=0)
    )


@pytest.fixture(autouse=True)
def few_donors(monkeypatch):
    monkeypatch.setattr("smoothsynth.pipeline.sample._FEWEST_DONORS", 3000)


def test_a_release_completes_rows(release):
    given = uniform(1000)
    found = release.sample(given=given, seed=1)
    assert found.schema.equals(release.sample(5, seed=1).schema)
    assert found["x"].to_pylist() == given["x"].tolist()
    rows = found.to_pandas()
    assert np.polyfit(rows["x"], rows["y"], 1)[0] == pytest.approx(2.0, abs=0.25)
    assert found.equals(release.sample(given=given, seed=1))


def test_a_number_of_rows_is_not_given_with_rows(release):
    with pytest.raises(ss.PlanError, match="leave out the number of rows"):
        release.sample(10, given=uniform(10))
    with pytest.raises(ss.PlanError, match="Say how many rows"):
        release.sample()


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_the_command_draws_and_completes(release, tmp_path):
    folder = release.write(tmp_path / "out")
    table = DONORS.select(["g", "ill"]).slice(0, 40)
    csv.write_csv(table, tmp_path / "partial.csv")
    shown = run("sample", folder, "--given", tmp_path / "partial.csv", "-o", tmp_path / "whole.parquet", "--seed", 1)
    assert shown.exit_code == 0, shown.output
    assert "40 rows x 4 columns" in shown.output
    whole = parquet.read_table(tmp_path / "whole.parquet")
    assert whole.select(table.column_names).equals(table)
    assert run("sample", folder, "--rows", 30, "-o", tmp_path / "more.csv").exit_code == 0
    assert csv.read_csv(tmp_path / "more.csv").num_rows == 30
    for output in (folder / "more.csv", tmp_path / "more.csv", tmp_path / "more.txt"):
        assert run("sample", folder, "--rows", 30, "-o", output).exit_code == 1
    refused = run("sample", folder, "--given", tmp_path / "nowhere.csv", "-o", tmp_path / "x.csv")
    assert "cannot be read as given rows" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["more.csv", "out", "partial.csv", "whole.parquet"]


def test_filled_values_keep_rules_over_levels_and_missing_cells():
    """Where the given age is below 15 there is no spouse, and a husband is male; a given row that breaks one is refused."""
    rng = np.random.default_rng(0)
    age = rng.integers(0, 90, 3_000)
    sex = rng.choice(["f", "m"], 3_000)
    relation = np.where((age >= 18) & (sex == "m"), rng.choice(["husband", "other"], 3_000), "other")
    spouse = np.where(age < 15, None, rng.choice(["yes", "no"], 3_000))
    schema = ss.Schema(
        {
            "age": ss.Integer(0, 90),
            "sex": ss.Category(["f", "m"]),
            "relation": ss.Category(["husband", "other"]),
            "spouse": ss.Category(["yes", "no"], nullable=True),
        },
        constraints=["spouse is null where age < 15", "relation = 'husband' implies sex = 'm'"],
    )
    private = pd.DataFrame({"age": age, "sex": sex, "relation": relation, "spouse": spouse})
    release = ss.release(private, schema=schema, epsilon=2.0, delta=1e-6, seed=1)
    given = pd.DataFrame(
        {
            "age": [5, 10, 14, 40, 60] * 20,
            "relation": ["other"] * 60 + ["other", "other", "other", "husband", "husband"] * 8,
        }
    )
    filled = release.sample(given=given, seed=2).to_pandas()
    assert filled.loc[filled["age"] < 15, "spouse"].isna().all()
    assert (filled.loc[filled["relation"] == "husband", "sex"] == "m").all()
    wrong = pd.DataFrame({"sex": ["f"], "relation": ["husband"]})
    with pytest.raises(ss.DataError, match="husband"):
        release.sample(given=wrong)


@pytest.mark.parametrize("near", [3, 200])
def test_a_donor_keeps_the_rules_of_a_schema_without_relations(near):
    """The nearest donors have the level that a rule forbids for the given number; one that keeps it is taken instead."""
    schema = ss.Schema(
        {"x": ss.Number(0, 1), "k": ss.Category(["a", "b"]), "y": ss.Number(0, 1)}, ["x >= 0.9 where k = 'b'"]
    )
    assert schema.rules is None
    x = np.r_[np.full(near, 0.9), np.linspace(0.0, 0.5, 300)]
    donors = pa.table({"x": x, "k": ["b"] * near + ["a"] * 300, "y": x})
    filled = completed(pa.table({"x": [0.89] * 50}), donors, schema, generator=np.random.default_rng(0))
    assert filled["k"].to_pylist() == ["a"] * 50
