"""A public prior: the model begins with its dependence, keeps what was released, and is verified with it."""

import json

import numpy as np
import pandas as pd
import pytest

import smoothsynth as ss
from smoothsynth.errors import DataError, PlanError, ReleaseError, SchemaError

SCHEMA = ss.Schema({"kind": ss.Category(["a", "b", "c"]), "x": ss.Number(-1, 1), "y": ss.Number(-1, 1, nullable=True)})


def table(rows, seed, *, shift=0.0, dependent=True):
    """x depends on the kind, y on x by a wave that no correlation tells; a tenth of y is missing, most of it in kind c."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2])
    x = 0.2 * rng.normal(size=rows) + 0.4 * (kind == "a")
    y = 0.5 * np.sin(8 * x) + 0.1 * rng.normal(size=rows) + shift
    y[(kind == "c") & (rng.random(rows) < 0.5)] = np.nan
    made = pd.DataFrame({"kind": kind, "x": np.clip(x, -1, 1), "y": np.clip(y, -1, 1)})
    return made if dependent else made.apply(lambda column: column.sample(frac=1.0, random_state=seed).to_numpy())


def wave(frame):
    """Return the mean of y where x has one sign, less that where it has the other, along the wave."""
    return float((frame["y"] * np.sin(8 * frame["x"])).mean())


def missing_in_c(frame):
    return float(frame.loc[frame["kind"] == "c", "y"].isna().mean())


def made(prior, **named):
    return ss.release(table(700, 1), schema=SCHEMA, epsilon=0.4, delta=1e-6, seed=1, prior=prior, **named)


def test_rows_begin_with_the_dependence_of_a_prior():
    """What 700 rows at epsilon = 0.4 cannot tell is taken from the prior; the levels of columns are those released."""
    true = table(200_000, 3)
    without, begun = made(None).to_pandas(), made(table(5_000, 2, shift=0.1)).to_pandas()
    assert abs(wave(begun) - wave(true)) < 0.3 * abs(wave(without) - wave(true))
    assert abs(missing_in_c(begun) - missing_in_c(true)) < 0.15
    assert sorted(begun["kind"].unique()) == ["a", "b", "c"]


def test_a_prior_that_contradicts_what_was_released_is_not_begun_with():
    """Where correlations are clear, a prior without any dependence changes nothing but chance."""
    private = table(20_000, 1)
    settings = {"schema": SCHEMA, "epsilon": 2.0, "delta": 1e-6, "seed": 1}
    misled = ss.release(private, prior=table(5_000, 2, dependent=False), **settings).to_pandas()
    means = misled.groupby("kind")["x"].mean()
    assert means["a"] - means["b"] == pytest.approx(0.4, abs=0.05)


def test_a_release_with_a_prior_is_verified_loaded_and_sampled(tmp_path):
    release = made(table(3_000, 2))
    release.write(tmp_path / "out")
    verified = ss.verify(tmp_path / "out")
    assert verified.passed
    assert "public by the word of its owner" in str(verified)
    assert "to the bit" in str(verified)
    again = ss.load(tmp_path / "out")
    assert again.prior.equals(release.prior)
    assert again.receipt.prior_rows == 3_000
    assert again.sample(50, seed=3).equals(release.sample(50, seed=3))


@pytest.mark.parametrize("forgery", ["another prior", "no prior", "not named"])
def test_a_forged_prior_is_refuted(tmp_path, forgery):
    made(table(500, 2)).write(tmp_path / "out")
    if forgery == "another prior":
        made(table(500, 4)).write(tmp_path / "other")
        (tmp_path / "other" / "prior.parquet").replace(tmp_path / "out" / "prior.parquet")
    elif forgery == "no prior":
        (tmp_path / "out" / "prior.parquet").unlink()
    else:
        path = tmp_path / "out" / "receipt.json"
        facts = json.loads(path.read_text())
        del facts["prior_rows"]
        path.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    with pytest.raises(ReleaseError):
        ss.load(tmp_path / "out")
    assert not ss.verify(tmp_path / "out").passed


def test_a_prior_may_be_a_file_or_an_earlier_release(tmp_path):
    table(400, 2).to_csv(tmp_path / "last_year.csv", index=False)
    assert made(tmp_path / "last_year.csv").prior.num_rows == 400
    earlier = ss.release(table(600, 5), schema=SCHEMA, epsilon=1.0, seed=1)
    earlier.write(tmp_path / "earlier")
    assert made(tmp_path / "earlier").prior.equals(earlier.table)
    assert made(earlier).prior.equals(earlier.table)


def test_a_large_prior_is_thinned_evenly(monkeypatch):
    monkeypatch.setattr("smoothsynth.pipeline.given_rows._MOST_PRIOR", 100)
    assert made(table(1_000, 2)).prior.num_rows == 100


def test_what_cannot_be_a_prior_is_refused_before_anything_is_spent(tmp_path):
    private = table(300, 1)
    with pytest.raises(PlanError, match="would be published"):
        ss.release(private, schema=SCHEMA, epsilon=1.0, prior=private)
    private.to_csv(tmp_path / "private.csv", index=False)
    with pytest.raises(PlanError, match="would be published"):
        ss.release(str(tmp_path / "private.csv"), schema=SCHEMA, epsilon=1.0, prior=tmp_path / "private.csv")
    with pytest.raises(SchemaError, match="every column"):
        made(table(300, 2)[["kind", "x"]])
    with pytest.raises(DataError, match="levels"):
        made(table(300, 2).assign(kind="z"))
    with pytest.raises(PlanError, match="method='auto'"):
        made(table(300, 2), method="paper")
    with pytest.raises(PlanError, match="updates"):
        made(table(300, 2), keep=tmp_path / "sums")
    private_bounds = ss.Schema({**SCHEMA.columns, "x": ss.Number("private", "private")})
    with pytest.raises(PlanError, match="public bounds"):
        ss.release(private, schema=private_bounds, epsilon=1.0, delta=1e-6, prior=table(300, 2))


@pytest.mark.parametrize("named", ["a list", "a pattern", "another name", "a folder"])
def test_a_file_of_the_private_table_is_no_prior_under_any_name(tmp_path, named):
    path = tmp_path / "rows" / "private.parquet"
    path.parent.mkdir()
    table(300, 1).to_parquet(path)
    data, prior = path, path
    if named == "another name":
        prior = tmp_path / "public.parquet"
        prior.hardlink_to(path)
    elif named != "a list":
        data = path.parent / "*.parquet" if named == "a pattern" else path.parent
    with pytest.raises(PlanError, match="would be published"):
        ss.release([data] if named == "a list" else data, schema=SCHEMA, epsilon=1.0, prior=prior)


def test_a_prior_is_cut_to_the_columns_of_the_schema_and_that_is_said():
    with pytest.warns(UserWarning, match=r"The prior has columns that the schema has not: 'id'. They are left out"):
        release = made(table(300, 2).assign(id=7))
    assert release.prior.column_names == list(SCHEMA.names)
    with pytest.raises(DataError, match="The prior must have at least one row and one column of the schema"):
        made(pd.DataFrame({"id": [7]}))
    with pytest.raises(DataError, match="of column 'x' of the prior are not within its bounds"):
        made(table(300, 2).assign(x=3.0))
