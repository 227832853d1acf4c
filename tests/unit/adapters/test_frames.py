"""Whatever frame comes in, the same kind goes out."""

import pickle
import sys

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.adapters.frames import Kind, kind_of, like

pytest.importorskip("narwhals", reason="narwhals is not installed: pip install 'smoothsynth[narwhals]'")

TABLE = pa.table({"a": [1.5, 2.5], "b": [1, None], "c": ["x", "y"]})


def frames():
    import pandas as pd
    import polars as pl

    yield pd.DataFrame({"z": [1]})
    yield pl.DataFrame({"z": [1]})
    yield pl.LazyFrame({"z": [1]})
    yield pa.table({"z": [1]})


@pytest.mark.parametrize("frame", list(frames()), ids=lambda frame: f"{type(frame).__module__}.{type(frame).__name__}")
def test_the_same_kind_goes_out(frame):
    made = like(frame, TABLE)
    assert type(made) is type(frame)
    import narwhals

    assert narwhals.from_native(made).lazy().collect().to_arrow().cast(TABLE.schema).equals(TABLE)


def test_duckdb():
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed: pip install duckdb")
    made = like(duckdb.sql("select 1 as z"), TABLE)
    assert isinstance(made, duckdb.DuckDBPyRelation)
    assert made.fetchall() == [(1.5, 1, "x"), (2.5, None, "y")]


def test_dask():
    dask_frames = pytest.importorskip("dask.dataframe", reason="Dask is not installed: pip install 'dask[dataframe]'")
    import pandas as pd

    made = like(dask_frames.from_pandas(pd.DataFrame({"z": [1]}), npartitions=1), TABLE)
    assert isinstance(made, dask_frames.DataFrame)
    assert made["a"].compute().tolist() == [1.5, 2.5]


def test_arrays():
    numbers = pa.table({"a": [1.5, 2.5], "b": [True, False]})
    assert like(np.zeros((1, 2), np.float32), numbers).dtype == np.float32
    assert like(np.zeros((1, 2), np.int64), numbers).tolist() == [[1.5, 1.0], [2.5, 0.0]]
    assert like(np.zeros((1, 3)), TABLE).dtype == object


def test_release_to(frame, schema):
    import polars as pl

    release = ss.release(frame, schema=schema, epsilon=1.0, seed=1)
    made = release.to(pl.DataFrame())
    assert isinstance(made, pl.DataFrame)
    assert made.to_arrow().cast(release.table.schema).equals(release.table)


def test_what_is_kept_is_the_kind_alone():
    import polars as pl

    kind = kind_of(pl.LazyFrame({"secret": [77]}))
    assert kind == Kind("polars", lazy=True)
    assert b"secret" not in pickle.dumps(kind)


@pytest.mark.parametrize("data", [[1, 2], "text", object()])
def test_what_is_no_frame(data):
    with pytest.raises(ss.DataError, match="is no frame that narwhals knows"):
        like(data, TABLE)


def test_a_missing_narwhals_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    import pandas as pd

    with pytest.raises(ss.DataError, match=r"smoothsynth\[narwhals\]"):
        like(pd.DataFrame(), TABLE)
