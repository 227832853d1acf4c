"""Bad input: a clear error or a documented behaviour, and never a private value in any message."""

import datetime
import decimal
import gzip
import os
import pickle
import re
import traceback
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import smoothsynth as ss
from smoothsynth.errors import DataError
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import total_degree
from smoothsynth.queries.measurement import LATTICE as S
from smoothsynth.schema import Number, Schema

SCHEMA = Schema({"age": Number(0, 100), "dose": Number(-1, 1)})
# Values that must never be seen outside: as text, as a number, and cut in two by a separator.
SENTINELS = ("SECRETTEXT", "424242.75", "987654321")
TEXT, NUMBER, WHOLE = SENTINELS


def sums(data, schema=SCHEMA, degree=2):
    return LocalEngine().sums(open_table(data, schema), total_degree(degree, schema.dimensions)).unseal()


def refusal(data, schema=SCHEMA):
    """Return the message of the refusal, after a search of the whole chain of errors for a secret."""
    with pytest.raises(DataError) as caught:
        sums(data, schema)
    error, seen = caught.value, []
    while error is not None:
        seen += [str(error), repr(error), "".join(traceback.format_exception(error))]
        assert error.__cause__ is None
        error = error.__context__
    assert len(seen) == 3, "an error of another library hangs on ours"
    for secret in SENTINELS:
        assert not any(secret in text for text in seen)
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args
    return str(caught.value)


def csv_file(tmp_path, content, name="rows.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# Newer versions of Arrow have them.
SHORT = [(getattr(pa, name)(9, 3), 75) for name in ("decimal32", "decimal64") if hasattr(pa, name)]
GOOD = f"age,dose\n{NUMBER},{WHOLE}\n50,0\n"


@pytest.mark.parametrize("content", ["", "\n", "age,dose", "age,dose\n", "age,dose\n\n\n"])
def test_a_csv_without_rows(content, tmp_path):
    assert re.search("at least one row|no rows", refusal(csv_file(tmp_path, content)))


@pytest.mark.parametrize("bad", [f"{TEXT},1,2", TEXT, f'"{NUMBER},1', '"', f'"{TEXT}",,', ",,", f"9,{'9' * 2**20}"])
@pytest.mark.parametrize("before", [0, 300_000])
def test_a_line_with_another_number_of_cells_or_too_long_has_no_cells(bad, before, tmp_path):
    content = "age,dose\n" + "100,1\n" * before + bad + "\n" + "100,1\n"
    table = open_table(csv_file(tmp_path, content), SCHEMA)
    assert table.rows == before + 2
    assert sums(tmp_path / "rows.csv")[:2] == ((before + 1) * S * S,) * 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("place", ["name", "cell", "other cell"])
def test_a_csv_that_is_not_utf8(encoding, place, tmp_path):
    name, cell, other = [("ä" if place == p else "") for p in ("name", "cell", "other cell")]
    content = f"age,dose,note{name}\n{NUMBER}{cell},{WHOLE},{TEXT}{other}\n"
    said = refusal(csv_file(tmp_path, content.encode(encoding)))
    assert "UTF-8" in said
    assert "cp1252" not in said


def test_bytes_that_are_not_utf8_change_their_cell_alone(tmp_path):
    assert "UTF-8" in refusal(csv_file(tmp_path, "age,dose,größe\n1,2,3\n".encode("latin-1")))
    found = sums(csv_file(tmp_path, "age,dose,note\n100ä,1,x\n100,1,ä\n100,1,x\n".encode("latin-1")))
    assert found[:2] == (2 * S * S, 3 * S * S)


def test_a_byte_order_mark_is_skipped(tmp_path):
    assert sums(csv_file(tmp_path, b"\xef\xbb\xbf" + GOOD.encode())) == sums(csv_file(tmp_path, GOOD, "b.csv"))


def test_a_csv_without_names_does_not_show_its_first_row(tmp_path):
    assert "line of column names" in refusal(csv_file(tmp_path, f"{NUMBER},{TEXT}\n1,2\n"))
    assert "line of column names" in refusal(csv_file(tmp_path, f"{WHOLE},{WHOLE}\n1,2\n"))
    # One cell is called like a column; `refusal` looks for the others in the message.
    assert "no column 'dose'" in refusal(csv_file(tmp_path, f"age,{NUMBER},{TEXT}\n1,2,3\n"))


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_a_truncated_gzip(cut, tmp_path):
    whole = gzip.compress(GOOD.encode() * 10)
    assert "Write it again" in refusal(csv_file(tmp_path, whole[:-cut], "rows.csv.gz"))
    assert "Write it again" in refusal(csv_file(tmp_path, GOOD, "plain.csv.gz"))


def test_names_that_never_end(tmp_path):
    assert "line of names" in refusal(csv_file(tmp_path, "age,dose," + "a" * 2**20 + "\n1,2,3\n"))


def test_a_line_that_never_ends_is_one_row_and_not_kept(tmp_path):
    path = csv_file(tmp_path, gzip.compress(b"age,dose\n100,1\n" + b"9" * 30_000_000 + b"\n100,1\n", 1), "rows.csv.gz")
    tracemalloc.start()
    assert sums(path)[:2] == (2 * S * S,) * 2
    assert tracemalloc.get_traced_memory()[1] < 12_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_empty_cell_of_the_only_column_is_a_row(end, tmp_path):
    schema = Schema({"age": Number(0, 100)})
    path = csv_file(tmp_path, end.join(["", "age", "100", "", "100", "", ""]))
    assert open_table(path, schema).rows == 4
    assert sums(path, schema)[0] == 2 * S * S
    csv_file(tmp_path, end.join(["age", "100", "100"]))
    assert "end with a line break" in refusal(path, schema)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blank_lines_are_no_rows_of_several_columns(end, tmp_path):
    path = csv_file(tmp_path, end.join(["", "age,dose", "", "100,1", "", "", "100,1"]))
    assert open_table(path, SCHEMA).rows == 2
    assert sums(path)[:2] == (2 * S * S,) * 2


def test_a_return_within_a_line_is_no_line_break(tmp_path):
    path = csv_file(tmp_path, 'age,dose,note\n100,1,a\rb\n100,1,"a\rb"\r\n100,1,\n')
    assert open_table(path, SCHEMA).rows == 3
    assert sums(path)[:2] == (3 * S * S,) * 2


def test_cells_that_are_not_numbers_are_missing(tmp_path):
    rows = [TEXT, "", "NA", "nan", "1,5", "0x10", "1_0", "1e", "--1", "yes", "1 2", "\uff11", "ä", "-", "+", "."]
    content = "age,dose\n" + "".join(f'"{cell}",1\n' for cell in rows)
    # The centre of age is 50, so X = 0; dose is at its upper end.
    n = len(rows)
    assert sums(csv_file(tmp_path, content)) == (0, n * S * S, -n * S * S, 0, n * S * S)


@pytest.mark.parametrize("cell", ["75", " 75", "75 ", "+75", "\t75", "7.5e1", "75.", "0.75E+2", " +75.0 ", "0075"])
@pytest.mark.parametrize("company", ["25", TEXT])
def test_a_number_is_read_whatever_stands_beside_it(cell, company, tmp_path):
    content = f'age,dose\n"{cell}",0\n{company},0\n'
    age = S // 2 * S + (-S // 2 * S if company == "25" else 0)
    assert sums(csv_file(tmp_path, content))[0] == age


@pytest.mark.parametrize(("cell", "end"), [("inf", 1), ("-Infinity", -1), ("1e999", 1), ("-1e999", -1), ("+inf", 1)])
def test_infinite_cells_go_to_the_bounds(cell, end, tmp_path):
    for company in ("50", TEXT):
        assert sums(csv_file(tmp_path, f"age,dose\n{cell},0\n{company},0\n"))[0] == end * S * S


def frame_kinds(columns):
    yield pa.table(columns)
    yield pd.DataFrame({n: c.to_pandas() for n, c in columns.items()})
    yield pl.from_arrow(pa.table(columns))


def arrays(age, dose=(0.5, 0.5, 0.5)):
    return {"age": pa.array(age), "dose": pa.array(dose)}


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        ([100.0, 100.0, 100.0], 3 * S * S),
        ([50.0, 50.0, 50.0], 0),
        ([1e300, 2e9, 101.0], 3 * S * S),
        ([-1.0, -1e308, -0.001], -3 * S * S),
        ([np.nan, np.nan, np.nan], 0),
        ([np.inf, np.nan, -np.inf], 0),
        ([np.inf, np.nan, np.inf], 2 * S * S),
        ([None, 100.0, 100.0], 2 * S * S),
    ],
)
def test_every_value_has_a_place(age, expected):
    for data in frame_kinds(arrays(age)):
        assert sums(data)[0] == expected


def test_one_row():
    assert sums(pa.table(arrays([25.0], [1.0]))) == (-S // 2 * S, S * S, S * S // 2 - S * S, -S // 2 * S, S * S)


@pytest.mark.parametrize("data", [pa.table(arrays([], [])), pd.DataFrame({"age": [], "dose": []}, dtype=float)])
def test_no_rows(data):
    assert "no rows" in refusal(data)


@pytest.mark.parametrize(
    ("type_", "value"),
    [(pa.int8(), 75), (pa.uint64(), 75), (pa.float16(), 75.0), (pa.float32(), 75.0), (pa.decimal128(9, 3), 75), *SHORT],
)
def test_every_type_of_number_is_read(type_, value):
    value = decimal.Decimal(value) if pa.types.is_decimal(type_) else value
    value = np.float16(value) if pa.types.is_float16(type_) else value
    age = pa.array([value, None], type_)
    assert sums(pa.table({"age": age, "dose": [0.0, 0.0]}))[0] == S // 2 * S
    assert sums(pa.table({"age": age[:1], "dose": [0.0]}))[0] == S // 2 * S
    if not pa.types.is_float16(type_) and (type_, value) not in SHORT:  # older Arrow cannot encode it
        assert sums(pa.table({"age": age.dictionary_encode(), "dose": [0.0, 0.0]}))[0] == S // 2 * S


def test_numbers_of_single_precision_are_not_rounded_again():
    schema = Schema({"age": Number(-3, 4.5), "dose": Number(-1, 1)})
    # Rounding the difference to single precision would move about one value in a thousand.
    single = np.linspace(-1, 1, 20_001, dtype=np.float32)
    double = single.astype(np.float64)
    assert sums(pa.table(arrays(single, double)), schema) == sums(pa.table(arrays(double, double)), schema)


def test_truth_values_and_empty_columns():
    schema = Schema({"age": Number(0, 1), "dose": Number(-1, 1)})
    data = pa.table({"age": pa.array([True, False, True, None]), "dose": pa.nulls(4)})
    for kind in (data, pl.from_arrow(data), data.to_pandas().astype({"age": "boolean", "dose": float})):
        assert sums(kind, schema)[:2] == (S * S, 0)


def test_large_integers_do_not_fail():
    data = pa.table({"age": pa.array([2**64 - 1, 2**53 + 1], pa.uint64()), "dose": [0.0, 0.0]})
    assert sums(data)[0] == 2 * S * S
    assert sums(data.to_pandas())[0] == 2 * S * S


BAD_COLUMNS = {
    "dates": [datetime.date(2020, 1, 1)],
    "times": [datetime.datetime(2020, 1, 1)],
    "lists": [[987654321]],
    "bytes": [TEXT.encode()],
}


@pytest.mark.parametrize("kind", BAD_COLUMNS)
def test_a_column_that_is_not_numbers_is_named_with_its_type(kind, tmp_path):
    table = pa.table({"age": BAD_COLUMNS[kind], "dose": [424242.75]})
    pq.write_table(table, tmp_path / "rows.parquet")
    pa.feather.write_feather(table, tmp_path / "rows.arrow")
    for data in (table, pl.from_arrow(table), tmp_path / "rows.parquet", tmp_path / "rows.arrow"):
        message = refusal(data)
        assert "'age'" in message
        assert "Convert it" in message


def test_text_is_read_cell_by_cell_in_every_container(tmp_path):
    cells = [" +75.0 ", "True", TEXT, None]
    table = pa.table({"age": cells, "dose": [0.0] * 4})
    pq.write_table(table, tmp_path / "rows.parquet")
    coded = table.set_column(0, "age", table["age"].dictionary_encode())
    numbers = sums(pa.table({"age": [75.0, 1.0, None, None], "dose": [0.0] * 4}))
    kinds = [table.to_pandas().astype({"age": kind}) for kind in ("object", "string", "category")]
    for data in (table, coded, pl.from_arrow(table), tmp_path / "rows.parquet", *kinds):
        assert sums(data) == numbers


@pytest.mark.parametrize(
    ("column", "type_name"),
    [
        (pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"]).astype("category")), "category"),
        (pd.Series([1j, 987654321j]), "complex128"),
        (pd.Series(pd.arrays.SparseArray([0.0, 424242.75])), "Sparse"),
    ],
)
def test_columns_of_pandas_that_are_not_numbers(column, type_name):
    message = refusal(pd.DataFrame({"age": column, "dose": [0.0, 1.0]}))
    assert "'age'" in message
    assert type_name in message


def test_objects_of_polars_are_not_numbers():
    assert "'age'" in refusal(pl.DataFrame({"age": pl.Series([object()], dtype=pl.Object), "dose": [1.0]}))
    wide = pl.DataFrame({"age": pl.Series([987654321], dtype=pl.Int128), "dose": [1.0]})
    assert "Float64" in refusal(wide)


def test_a_polars_query_that_fails():
    query = pl.LazyFrame({"age": [TEXT], "dose": [1.0]}).with_columns(pl.col("age").cast(pl.Float64))
    assert "computable" in refusal(query)
    assert "valid schema" in refusal(pl.LazyFrame({"age": [1.0]}).with_columns(pl.col("nowhere")))


def test_a_stream_that_breaks():
    good = pa.record_batch({"age": [1.0], "dose": [424242.75]})

    def batches():
        yield good
        raise ValueError(TEXT)

    assert "to its end" in refusal(pa.RecordBatchReader.from_batches(good.schema, batches()))

    class Broken:
        def __arrow_c_stream__(self, requested_schema=None):
            raise ValueError(TEXT)

    assert "readable" in refusal(Broken())


def test_a_missing_column_is_named_with_the_nearest(tmp_path):
    table = pa.table({"age": [424242.75], "doses": [987654321]})
    pq.write_table(table, tmp_path / "rows.parquet")
    pa.feather.write_feather(table, tmp_path / "rows.feather")
    csv = csv_file(tmp_path, f"age,doses\n{NUMBER},{WHOLE}\n")
    for data in (table, table.to_pandas(), pl.from_arrow(table), csv, *sorted(tmp_path.iterdir())):
        assert "There is no column 'dose'. Did you mean 'doses'?" in refusal(data)


def test_a_column_that_occurs_twice_is_named(tmp_path):
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0]), pa.array([3.0])], ["age", "dose", "age"])
    pq.write_table(table, tmp_path / "rows.parquet")
    frame = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["age", "dose", "age"])
    for data in (table, frame, tmp_path / "rows.parquet", csv_file(tmp_path, "age,dose,age\n1,2,3\n")):
        assert "more than one column 'age'" in refusal(data)
    # Columns that are not in the schema may be called anything.
    assert sums(csv_file(tmp_path, "age,x,dose,x\n100,2,0,3\n"))[0] == S * S


@pytest.mark.parametrize("keep", [0, 3, 8, 200, -1, -9])
def test_a_truncated_parquet(keep, tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(arrays([424242.75] * 1000, [1.0] * 1000)), path, store_schema=False)
    path.write_bytes(path.read_bytes()[:keep])
    assert "Write it again" in refusal(path)


def test_a_parquet_that_is_damaged_inside(tmp_path):
    path = tmp_path / "rows.parquet"
    noise = np.random.default_rng(0).normal(size=5000)
    pq.write_table(pa.table(arrays(noise, noise)), path, use_dictionary=False, compression="zstd")
    content = bytearray(path.read_bytes())
    content[100:3000] = b"\x00" * 2900
    path.write_bytes(bytes(content))
    assert "Write it again" in refusal(path)


@pytest.mark.parametrize("keep", [0, 10, 300])
def test_a_truncated_arrow_file(keep, tmp_path):
    path = tmp_path / "rows.arrow"
    pa.feather.write_feather(pa.table(arrays([424242.75] * 1000, [1.0] * 1000)), path)
    path.write_bytes(path.read_bytes()[:keep])
    assert "Write it again" in refusal(path)


def test_paths_that_lead_nowhere(tmp_path):
    assert "Check the path" in refusal(tmp_path / "nothing.csv")
    assert "not a path" in refusal("rows\0.csv")
    assert "holds none" in refusal(tmp_path)
    assert ".feather" in refusal(csv_file(tmp_path, GOOD, "rows.docx"))
    assert ".parquet" in refusal(csv_file(tmp_path, GOOD, "rows"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser can read every file")
def test_a_file_that_may_not_be_read(tmp_path):
    path = csv_file(tmp_path, GOOD)
    path.chmod(0)
    assert "cannot be read" in refusal(path)


def test_a_refused_file(tmp_path, monkeypatch):
    path = csv_file(tmp_path, GOOD)

    def refuse(self, mode):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(type(path), "open", refuse)
    assert "Permission denied" in refusal(path)


@pytest.mark.parametrize("data", [None, 3, [[1.0, 2.0]], {"age": [1.0]}, np.ones((2, 2)), b"rows.csv"])
def test_data_of_another_kind(data):
    assert "pandas or polars frame" in refusal(data)


@pytest.mark.parametrize("first", ["1", "\n1"])
def test_lines_that_end_with_a_carriage_return_alone_are_refused(tmp_path, first):
    path = csv_file(tmp_path, f"age,dose\r{first},2\r3,4\r".replace("\r\n", "\r"))
    with pytest.raises(ss.DataError, match="must end with"):
        ss.release(path, schema=ss.Schema({"age": ss.Number(0, 9), "dose": ss.Number(0, 9)}), epsilon=1.0)
