"""Tables of any content, in files and in memory: sums, or a DataError that shows nothing of them."""

import traceback

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import smoothsynth as ss
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import total_degree

SENTINEL = "8675309.125"
SCHEMA = ss.Schema({"age": ss.Number(0, 120), "income": ss.Number(0, 1e6), "visits": ss.Integer(0, 20)})
CELLS = st.sampled_from(["", "1", "-3.5", "1e400", "nan", "inf", "NULL", "true", SENTINEL, f'"{SENTINEL}"', '"', "\0", "+1",
                         "0x10", " 7 ", "1_000", "1,5", "é", "٣", "2026-01-01", "9" * 400]) | st.text(max_size=6)  # fmt: skip
LINES = st.lists(CELLS, min_size=1, max_size=5).map(",".join)
ENDS = st.sampled_from(["\n", "\r\n", "\r", "\n\n", ""])
HEADS = st.sampled_from(["age,income,visits", "visits,income,age,age", '"age",income,visits', "age;income;visits", ""])
NUMBERS = (pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.decimal128(38, 5), pa.null(),
           pa.string())  # fmt: skip
OTHERS = (pa.binary(), pa.date32(), pa.timestamp("us"), pa.list_(pa.float64()))
TYPES = st.sampled_from(NUMBERS) | st.sampled_from(NUMBERS + OTHERS)


def csv_text(head, lines, end):
    return end.join([head, *lines]) + end


def try_file(path):
    from benchmarks.robustness.fuzz import use_table

    refused = None
    try:
        use_table(path)
    except ss.DataError as error:
        refused = error
    if refused is not None:
        assert SENTINEL not in "".join(traceback.format_exception(refused))
        assert refused.__cause__ is refused.__context__ is None


@given(head=HEADS, lines=st.lists(LINES, max_size=6), end=ENDS, encoding=st.sampled_from(["utf-8", "utf-16", "cp1252"]))
def test_csv_of_any_cells(head, lines, end, encoding, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "cells.csv"
    path.write_bytes(csv_text(head, lines, end).encode(encoding, "replace"))
    try_file(path)


@settings(max_examples=60)
@given(cells=st.lists(CELLS.filter(lambda c: not set(c) & set(',"\r\n')), min_size=1, max_size=8))
def test_every_cell_has_a_value(cells, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "column.csv"
    path.write_bytes(("age,income,visits\n" + "".join(f"{cell},2,3\n" for cell in cells)).encode())
    totals = LocalEngine().sums(open_table(path, SCHEMA), total_degree(2, 3)).unseal()
    assert all(abs(total) <= len(cells) * 2**32 for total in totals)


@settings(max_examples=60)
@given(content=st.binary(max_size=200), suffix=st.sampled_from([".csv", ".csv.gz", ".parquet", ".arrow", ".feather"]))
def test_files_of_any_content(content, suffix, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_bytes(content)
    try_file(path)


@settings(max_examples=60)
@given(types=st.lists(TYPES, min_size=3, max_size=3), rows=st.integers(0, 5), data=st.data())
def test_tables_of_any_types(types, rows, data, tmp_path_factory):
    arrays = [array_of(type_, rows, data) for type_ in types]
    table = pa.table(arrays, names=["age", "income", "visits"])
    path = tmp_path_factory.getbasetemp() / "types.parquet"
    parquet.write_table(table, path)
    readable = rows > 0 and not set(types) & set(OTHERS)
    for source in (table, path):
        if readable:
            totals = LocalEngine().sums(open_table(source, SCHEMA), total_degree(2, 3)).unseal()
            assert all(abs(total) <= rows * 2**32 for total in totals)
        else:
            with pytest.raises(ss.DataError):
                open_table(source, SCHEMA)


def array_of(type_, rows, data):
    empty = pa.nulls(rows, type_)
    if not pa.types.is_integer(type_) and not pa.types.is_floating(type_):
        return empty
    kind = np.dtype(type_.to_pandas_dtype())
    content = data.draw(st.binary(min_size=rows * kind.itemsize, max_size=rows * kind.itemsize))
    return pa.array(np.frombuffer(content, kind), type_)


@pytest.mark.slow
@settings(max_examples=10_000)
@given(head=HEADS, lines=st.lists(LINES, max_size=6), end=ENDS, encoding=st.sampled_from(["utf-8", "utf-16", "cp1252"]))
def test_many_csv_files(head, lines, end, encoding, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "many.csv"
    path.write_bytes(csv_text(head, lines, end).encode(encoding, "replace"))
    try_file(path)
