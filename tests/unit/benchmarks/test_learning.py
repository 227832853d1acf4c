"""benchmarks/accuracy/learning.py: models that learn from rows what the rows know, and nothing from scrambled ones."""

import gzip

import numpy as np
import pandas as pd
import pytest
from benchmarks.accuracy import learning

import smoothsynth as ss

ROWS = 1_000
SCHEMA = ss.Schema(
    {
        "age": ss.Number(0, 100),
        "job": ss.Category(["a", "b", "c"]),
        "pay": ss.Number(0, 10, nullable=True),
        "y": ss.Category(["no", "yes"]),
    }
)


def people(rng, *, blind=False):
    age, job, pay = rng.uniform(0, 100, ROWS), rng.choice(["a", "b", "c"], ROWS), rng.uniform(0, 10, ROWS)
    yes = rng.random(ROWS) < 1 / (1 + np.exp(-(age - 50) / 8 - 2.0 * (job == "b")))
    yes = rng.permutation(yes) if blind else yes
    pay[rng.random(ROWS) < 0.2] = np.nan
    return pd.DataFrame({"age": age, "job": job, "pay": pay, "y": np.where(yes, "yes", "no")})


@pytest.fixture(scope="module")
def task():
    private, held = (learning.unit_points(people(np.random.default_rng(i)), SCHEMA) for i in (0, 1))
    return learning.Task(SCHEMA, "y", "yes", private, held)


def test_models_tell_informed_rows_from_scrambled_ones(task):
    judge = learning.Judge(task)
    made = {
        blind: learning.unit_points(people(np.random.default_rng(2), blind=blind), SCHEMA) for blind in (False, True)
    }
    same, fresh, blind = (
        dict(zip(learning.FIGURES, judge(p), strict=True)) for p in (task.real, made[False], made[True])
    )
    assert same["coefficients"] == same["subgroups"] == same["two-way"] == 0.0
    assert same["signs"] == 1.0
    assert min(fresh["boosting"], fresh["logistic"]) > 0.85
    assert max(blind["boosting"], blind["logistic"]) < 0.75
    assert fresh["coefficients"] < 0.4 < blind["coefficients"]
    assert fresh["subgroups"] < blind["subgroups"]
    assert fresh["two-way"] < blind["two-way"]


def test_the_target_is_in_no_column_that_models_see(task):
    flipped = task.real.copy()
    place = SCHEMA.coordinates_of("y")
    flipped[:, place] = 1.0 - flipped[:, place]
    np.testing.assert_array_equal(task.columns(flipped)[0], task.columns(task.real)[0])
    np.testing.assert_array_equal(task.design(flipped), task.design(task.real))
    assert (task.truth(flipped) != task.truth(task.real)).all()


def test_rows_of_one_class_teach_nothing(task):
    only = task.real[task.truth(task.real)]
    assert learning.Judge(task)(only)[:2] == [0.5, 0.5]


def test_rows_are_split_the_same_way_each_time():
    private, held = learning.split(100)
    assert len(held) == 20
    assert sorted([*private, *held]) == list(range(100))
    np.testing.assert_array_equal(held, learning.split(100)[1])


def test_the_command_prints_each_budget_and_says_what_is_missing(tmp_path, capsys):
    SCHEMA.save(tmp_path / "bank.toml")
    with gzip.open(tmp_path / "bank.csv.gz", "wt") as file:
        people(np.random.default_rng(0)).to_csv(file, index=False)
    learning.main(["--data", str(tmp_path), "--rounds", "1"])
    shown = capsys.readouterr().out
    assert "adult is not in" in shown
    assert "delta = 0" in shown
    assert "delta = 1e-06" in shown
    assert shown.count(learning.REAL) == 2
