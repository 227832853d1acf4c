import copy

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app
from smoothsynth.model.tables import rows_together
from smoothsynth.pipeline import sample as sampling

SCHEMA = ss.Schema({"age": ss.Number(0, 100), "sex": ss.Category(["f", "m"]), "pulse": ss.Integer(30, 200)})


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    age, sex = rng.uniform(20, 80, 4000), rng.choice(["f", "m"], 4000, p=[0.7, 0.3])
    return pd.DataFrame({"age": age, "sex": sex, "pulse": rng.normal(60, 5, 4000) + 20 * (sex == "f")})


@pytest.fixture(scope="module")
def release(frame):
    return ss.release(frame, schema=SCHEMA, epsilon=20.0, delta=1e-6, seed=1)


def test_more_rows_are_like_the_released_ones(release):
    more = release.sample(9_000, seed=3)
    assert more.num_rows == 9_000
    assert more.schema.names == release.to_arrow().schema.names
    assert np.mean(more["age"].to_numpy()) == pytest.approx(np.mean(release.to_arrow()["age"].to_numpy()), abs=1.0)
    assert more.equals(release.sample(9_000, seed=3))


def test_rows_in_parts_are_as_good_as_rows_at_once(release, monkeypatch):
    monkeypatch.setattr("smoothsynth.model.synthesis.rows_together", lambda _: 2_000)
    parts = list(release.sample_parts(5_000, seed=3))
    assert [part.num_rows for part in parts] == [2_000, 2_000, 1_000]
    together = pa.concat_tables(parts)
    assert together.schema == release.to_arrow().schema
    assert not parts[0].equals(parts[1])
    assert pa.concat_tables(release.sample_parts(5_000, seed=3)).equals(together)
    real, frame = release.to_pandas(), together.to_pandas()
    assert frame["age"].mean() == pytest.approx(real["age"].mean(), abs=1.0)
    pulses = [table.groupby("sex")["pulse"].mean() for table in (real, frame)]
    assert (pulses[0] - pulses[1]).abs().max() < 1.0
    with pytest.raises(ss.PlanError, match="rows"):
        next(release.sample_parts(0))
    with pytest.raises(ss.PlanError, match="sample_parts"):
        release.sample(5_000_000)


@pytest.mark.parametrize("tables", [0, None])
def test_a_release_of_a_wide_table_is_made_in_parts_that_can_be_drawn_again(frame, monkeypatch, tmp_path, tables):
    monkeypatch.setattr("smoothsynth.model.synthesis.rows_together", lambda _: 700)
    method = ss.methods.Adaptive(tables=tables)
    made = ss.release(frame, schema=SCHEMA, epsilon=20.0, delta=1e-6, seed=1, method=method)
    shares = made.to_pandas()["sex"].value_counts(normalize=True)
    assert made.to_arrow().num_rows == len(frame)
    assert np.abs(shares - frame["sex"].value_counts(normalize=True)).max() < 0.03
    made.write(tmp_path / "out")
    assert "to the bit" in str(ss.verify(tmp_path / "out"))


def test_fewer_rows_of_many_levels_are_held_at_once():
    assert rows_together(5) == rows_together(20) == 256_000
    assert 100 * rows_together(100) == 10**7
    assert rows_together(2_000) == rows_together(1_000) == 16_000


def test_the_command_writes_parts_to_one_file(release, monkeypatch, tmp_path):
    monkeypatch.setattr("smoothsynth.model.synthesis.rows_together", lambda _: 40)
    release.write(tmp_path / "out")
    for name in ("more.csv", "more.parquet"):
        shown = CliRunner().invoke(app, ["sample", str(tmp_path / "out"), "--rows", "100", "-o", str(tmp_path / name)])
        assert shown.exit_code == 0, shown.output
        assert "100 rows x 3 columns" in shown.output
    assert len(pd.read_csv(tmp_path / "more.csv")) == len(pd.read_parquet(tmp_path / "more.parquet")) == 100


def test_a_model_is_learned_once(release, monkeypatch):
    first = release.sample(100, seed=1)

    def again(*_):
        raise AssertionError("learned again")

    monkeypatch.setattr("smoothsynth.pipeline.rounds.empty_model", again)
    assert release.sample(100, seed=1).equals(first)
    other = copy.copy(release)
    with pytest.raises(AssertionError, match="learned again"):
        other.sample(100, seed=1)


def test_only_the_last_few_models_are_kept(release):
    for _ in range(6):
        copy.copy(release).sample(10, seed=1)
    assert len(sampling._kept) == sampling._MOST_KEPT


def test_rows_that_fit(release):
    women = release.sample(500, where={"sex": "f", "age": (30, 40)}, seed=1)
    assert women.num_rows == 500
    assert set(women["sex"].to_pylist()) == {"f"}
    ages = women["age"].to_numpy()
    assert 30 <= ages.min() <= ages.max() <= 40
    men = release.sample(500, where=lambda t: np.array(t["sex"].to_pylist()) == "m", seed=1)
    assert np.mean(women["pulse"].to_numpy()) > np.mean(men["pulse"].to_numpy()) + 10


def test_what_cannot_be_drawn_is_said(release):
    with pytest.raises(ss.SchemaError, match="Did you mean 'age'"):
        release.sample(5, where={"aeg": (1, 2)})
    with pytest.raises(ss.PlanError, match="Only 0 of"):
        release.sample(5, where=lambda t: np.zeros(t.num_rows, dtype=bool))
    with pytest.raises(ss.PlanError, match="whole number"):
        release.sample(0)
    paper = ss.release(
        pa.table({"a": [0.1, 0.5] * 50}),
        schema=ss.Schema({"a": ss.Number(0, 1)}),
        epsilon=1.0,
        method=ss.methods.Paper(candidates="hypercube"),
    )
    with pytest.raises(ss.PlanError, match="weighing candidates"):
        paper.sample(5)
