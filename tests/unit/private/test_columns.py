"""What the columns of a file hold, by their types, and what is imported to find out."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from smoothsynth._runtime import _controls, one_thread
from smoothsynth.errors import DataError
from smoothsynth.private.owner import draft_schema
from smoothsynth.private.sources.cells import numbers
from smoothsynth.private.sources.files import column_kinds
from smoothsynth.schema.schema import tomllib

TABLE = pa.table(
    {
        "whole": pa.array([1, 2], pa.int16()),
        "real": [0.5, 1.5],
        "word": ["a", "b"],
        "coded": pa.array(["a", "b"]).dictionary_encode(),
        "code": pa.array([1, 2]).dictionary_encode(),
        "day": pa.array([0, 1], pa.date32()),
        "flag": [True, False],
        "empty": pa.nulls(2),
    }
)
KINDS = ["integer", "number", "category", "category", "integer", "date", "boolean", "nothing"]


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_kinds_of_typed_files(suffix, tmp_path):
    path = tmp_path / f"rows.{suffix}"
    pq.write_table(TABLE, path) if suffix == "parquet" else pa.feather.write_feather(TABLE, path)
    assert column_kinds(path) == list(zip(TABLE.column_names, KINDS, strict=True))
    if suffix == "parquet":
        assert column_kinds(str(tmp_path)) == column_kinds(path)


def test_kinds_of_a_csv_are_guessed_from_its_first_rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("whole,real,word,day,flag,empty\n1,0.5,a,2020-01-31,true,\n2,1,b,2021-01-31,false,\n")
    kinds = ["integer", "number", "category", "date", "boolean", "nothing"]
    assert [kind for _, kind in column_kinds(path)] == kinds


def test_a_draft_names_types_and_leaves_facts_open(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        "whole,real,word,day,at,flag,hour,empty\n1,0.5,SECRET,2020-01-31,2020-01-31T12:00:00,true,12:00:00,\n"
    )
    draft = draft_schema(path)
    sections = tomllib.loads(draft)["columns"]
    assert tomllib.loads(draft)["drop"] == ["hour", "empty"]
    kinds = {
        "whole": "integer",
        "real": "number",
        "word": "category",
        "day": "date",
        "at": "datetime",
        "flag": "boolean",
    }
    assert sections == {name: {"type": kind} for name, kind in kinds.items()}
    assert "# lower" in draft
    assert "# levels" in draft
    assert '[columns."empty"]   holds nothing' in draft
    assert '[columns."hour"]   holds times of day' in draft
    assert "SECRET" not in draft
    assert "2020-01-31" not in draft


def test_text_is_refused_by_its_type_and_not_by_a_cell():
    with pytest.raises(DataError, match="type is string") as caught:
        numbers(pa.array(["SECRET"]))
    assert "SECRET" not in str(caught.value)


def test_numbers_without_missing_ones_are_not_copied():
    values = np.arange(5.0)
    assert np.shares_memory(numbers(pa.array(values)[1:]), values)
    assert numbers(pa.array([1, None, 3], pa.int8())[1:]).tolist()[1:] == [3.0]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_files_are_read_without_pandas_and_polars(suffix, tmp_path):
    path = tmp_path / f"rows.{suffix}"
    if suffix == "csv":
        path.write_text("a,b\n1,\nx,3\n")
    else:
        write = pq.write_table if suffix == "parquet" else pa.feather.write_feather
        write(pa.table({"a": [1, None], "b": pa.array([1, 2], pa.decimal128(5, 1))}), path)
    code = f"""
import sys
import smoothsynth as ss
from smoothsynth.queries.bases import total_degree
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
table = open_table({str(path)!r}, ss.Schema({{"a": ss.Number(0, 1), "b": ss.Number(0, 1)}}))
LocalEngine().sums(table, total_degree(3, 2))
print(sorted({{"pandas", "polars", "scipy"}} & set(sys.modules)))
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_one_thread_is_for_a_while_only():
    get, set_ = _controls()
    before = get()
    set_(2)
    if get() != 2:
        pytest.skip("the matrix library of this numpy cannot be told, or has one thread")
    try:
        with one_thread():
            with one_thread():
                assert get() == 1
            assert get() == 1
        assert get() == 2
        with pytest.raises(KeyError), one_thread():
            raise KeyError
        assert get() == 2
    finally:
        set_(before)
