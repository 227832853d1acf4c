"""Arrow data of other software: bytes that are no text change their cell alone, and damage is refused in words."""

import decimal
import struct
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.robustness.fuzz import Count, in_children

import smoothsynth as ss
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.sources import validation
from smoothsynth.private.sources.validation import safe_batches, validated
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import total_degree

SCHEMA = ss.Schema({"c": ss.Category(["x", "y"]), "a": ss.Number(0, 100)})
ROWS = 40
TEXTS = {"string": pa.string(), "large_string": pa.large_string(), "dictionary": pa.dictionary(pa.int8(), pa.string())}
if hasattr(pa, "string_view"):
    TEXTS["string_view"] = pa.string_view()


def sums(data, schema=SCHEMA):
    return LocalEngine().sums(open_table(data, schema), total_degree(2, schema.dimensions)).unseal()


def text(kind, cells):
    """Return cells of bytes as an array of text, whatever they are."""
    values = pa.array(cells, pa.binary())
    if kind == "dictionary":
        places = pa.array([None if cell is None else number for number, cell in enumerate(cells)], pa.int8())
        return pa.DictionaryArray.from_arrays(places, text("string", [cell or b"" for cell in cells]))
    stored = {"large_string": pa.large_binary, "string_view": getattr(pa, "binary_view", None)}.get(kind, pa.binary)()
    return values.cast(stored).view(TEXTS[kind])


def table(kind, odd):
    cells = [b"x", b"y", b"longer than twelve bytes", None] * (ROWS // 4)
    cells[0] = odd
    return pa.table({"c": text(kind, cells), "a": np.linspace(0, 100, ROWS)})


class Stream:
    def __init__(self, data):
        self.data = data

    def __arrow_c_stream__(self, requested_schema=None):
        return self.data.__arrow_c_stream__(requested_schema)


def forms(data, folder):
    """Yield the same table in every form in which Arrow data comes in."""
    yield from (data, Stream(data), pa.RecordBatchReader.from_batches(data.schema, data.to_batches()))
    with pa.ipc.new_file(folder / "rows.arrow", data.schema) as writer:
        writer.write_table(data)
    with pa.ipc.new_stream(folder / "rows.arrows", data.schema) as writer:
        writer.write_table(data)
    pq.write_table(data, folder / "rows.parquet", use_dictionary=False)
    yield from sorted(folder.iterdir())


@pytest.mark.parametrize("kind", TEXTS)
def test_bytes_that_are_not_utf8_change_their_cell_alone(kind, tmp_path):
    expected = sums(table("string", b"z"))
    for data in forms(table(kind, b"\xff\xfex secret"), tmp_path):
        assert sums(data) == expected, data


def test_bytes_that_are_not_utf8_are_replaced_one_by_one():
    batch = pa.record_batch({"c": text("string", [b"\xffx", None, b"y", b"\xc3"])[1:]})
    assert validated(batch).column(0).to_pylist() == [None, "y", "\ufffd"]
    whole = pa.record_batch({"c": ["x", None]})
    assert validated(whole).equals(whole)


def damaged(array, number, content):
    """Return an array with other bytes at the beginning of one of its buffers."""
    buffers = array.buffers()
    buffers[number] = pa.py_buffer(content + buffers[number].to_pybytes()[len(content) :])
    return pa.Array.from_buffers(array.type, len(array), buffers, array.null_count)


PLACES = pa.array([0, 1] * (ROWS // 2), pa.int32())
BROKEN = {
    "an offset beyond the end": damaged(pa.array(["x"] * ROWS), 1, struct.pack("<3i", 0, 10**6, 2)),
    "an offset below zero": damaged(pa.array(["x"] * ROWS), 1, struct.pack("<3i", 0, -5, 2)),
    "a place beyond the dictionary": pa.DictionaryArray.from_arrays(
        damaged(PLACES, 1, struct.pack("<i", 99)), pa.array(["x", "y"]), safe=False
    ),
    "a place before the dictionary": pa.DictionaryArray.from_arrays(
        damaged(PLACES, 1, struct.pack("<i", -9)), pa.array(["x", b"\xff".decode("latin-1")]), safe=False
    ),
    "nulls that are not there": pa.Array.from_buffers(
        pa.int32(), ROWS, [pa.py_buffer(b"\xff" * 8), PLACES.buffers()[1]], null_count=3
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_damaged_arrays_are_refused_in_words(kind):
    data = pa.table({"c": BROKEN[kind], "a": np.zeros(ROWS)})
    with pytest.raises(ss.DataError, match="must be whole") as caught:
        sums(data)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_what_a_cell_holds_is_no_reason_to_refuse_its_table():
    # More digits than the type says, and a date with hours.
    wide = pa.array([decimal.Decimal(10**20)] * 2, pa.decimal128(30, 0))
    short = pa.Array.from_buffers(pa.decimal128(5, 0), 2, wide.buffers())
    hours = pa.array([10**12 + 1, 0], pa.int64()).view(pa.date64())
    batch = pa.record_batch({"a": short, "t": hours})
    assert validated(batch).equals(batch)
    schema = ss.Schema({"a": ss.Number(0, 100), "t": ss.Date("2000-01-01", "2020-01-01")})
    assert sums(pa.table(batch), schema)[0] == 2 * 2**32


@pytest.mark.skipif(not hasattr(pa, "decimal32"), reason="Arrow before 18 has no short decimals")
@pytest.mark.parametrize("kind", ["decimal32", "decimal64"])
def test_short_decimals_are_numbers_and_levels(kind, tmp_path):
    schema = ss.Schema({"c": ss.Category([1, 2]), "a": ss.Number(0, 100)})
    values = pa.array([decimal.Decimal(i % 3) for i in range(ROWS)], getattr(pa, kind)(5, 2))
    expected = sums(pa.table({"c": values.cast(pa.float64()), "a": values.cast(pa.float64())}), schema)
    for data in forms(pa.table({"c": values, "a": values}), tmp_path):
        assert sums(data, schema) == expected


CHILD = """
import os, sys
for number in range(int(sys.argv[1]), int(sys.argv[2])):
    if number % 5 == 3:
        os.abort()
    print("accepted" if number % 2 else "refused", flush=True)
"""


def test_a_process_that_ends_is_noticed():
    count = in_children(Count("any"), [sys.executable, "-c", CHILD], 12)
    assert (count.inputs, count.accepted, count.refused, sum(count.unhandled.values())) == (12, 5, 5, 2)


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_damaged_files_do_not_end_the_process(kind):
    command = [sys.executable, "-m", "benchmarks.robustness.fuzz_files", kind, "3"]
    count = in_children(Count(kind), command, 200)
    assert not count.unhandled, count.unhandled
    assert count.accepted > 10
    assert count.refused > 10


def test_a_text_that_is_too_long_is_missing_in_its_cell_alone():
    long = "a" * (2**20 + 1)
    for type_ in (pa.string(), pa.large_string()):
        batch = pa.RecordBatch.from_arrays([pa.array(["x", long, "y"], type_)], names=["a"])
        (found,) = safe_batches([batch])
        assert found.column(0).to_pylist() == ["x", None, "y"]


def test_a_batch_of_more_text_than_arrow_counts_is_cut(monkeypatch):
    monkeypatch.setattr(validation, "_MOST_BYTES", 10)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["abcd"] * 7, pa.large_string()), pa.array(range(7))], names=["a", "b"]
    )
    found = list(safe_batches([batch.slice(1)]))
    assert len(found) > 1
    assert [value for one in found for value in one.column(1).to_pylist()] == [1, 2, 3, 4, 5, 6]
    assert all(one.column(0).buffers()[2].size <= 64 for one in found)


@pytest.mark.skipif(not hasattr(pa, "string_view"), reason="of later versions of Arrow")
def test_dictionaries_of_string_views_are_read():
    values = pa.array(["x", "y"]).cast(pa.string_view())
    batch = pa.RecordBatch.from_arrays([pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), values)], names=["a"])
    (found,) = safe_batches([batch])
    assert found.column(0).dictionary_decode().to_pylist() == ["x", "y", "x"]


@pytest.mark.skipif(not hasattr(pa, "string_view"), reason="of later versions of Arrow")
@pytest.mark.parametrize("offset", [0, 3])
def test_the_view_of_a_missing_cell_is_not_looked_at(offset):
    # Arrow validates no view of a missing cell, and ends the process when it casts one of a negative length.
    cells = ["x", None, "a text of more than twelve letters", None, "y"] * 4
    validity, places, *texts = pa.array(cells, pa.string_view()).buffers()
    damaged = bytearray(places.to_pybytes())
    for missing in (1, 3, 18):
        damaged[16 * missing : 16 * missing + 16] = struct.pack("<iiii", -(2**31), 0, 7, 10**9)
    array = pa.Array.from_buffers(pa.string_view(), 20, [validity, pa.py_buffer(bytes(damaged)), *texts])[offset:]
    batch = pa.record_batch({"c": array})
    assert [part["c"].to_pylist() for part in safe_batches([batch])] == [cells[offset:]]
