"""Every way to name the same rows gives the same integers; what cannot be read again and again is refused."""

import gzip
import os
import traceback

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from smoothsynth.errors import DataError
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.owner import draft_schema
from smoothsynth.private.table import BASE, LEAST, open_table
from smoothsynth.queries.bases import term_feature, total_degree
from smoothsynth.queries.transformation import Transformation
from smoothsynth.schema import Integer, Number, Schema

SCHEMA = Schema({"age": Number(0, 100), "visits": Integer(0, 9), 'a "b"': Number(-1, 1)})
ROWS = 3000
FEATURES = total_degree(3, 3)


def make_table(rows=ROWS, seed=1):
    rng = np.random.default_rng(seed)
    age = pa.array(rng.normal(50, 30, rows), mask=rng.random(rows) < 0.1)
    return pa.table({"other": ["x"] * rows, "age": age, 'a "b"': rng.normal(size=rows), "visits": rng.poisson(3, rows)})


TABLE = make_table()


def sums(data, **settings):
    return LocalEngine(**settings).sums(open_table(data, SCHEMA), FEATURES).unseal()


EXPECTED = sums(TABLE)


def write_stream(table, path, chunk=700):
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=chunk)


def write_csv(table, path):
    table.to_pandas().to_csv(path, index=False)


def write_groups(table, path):
    pq.write_table(table, path, row_group_size=100)


WRITERS = {
    "rows.parquet": pq.write_table,
    "groups.parquet": write_groups,
    "rows.csv": write_csv,
    "rows.arrow": pa.feather.write_feather,
    "rows.feather": pa.feather.write_feather,
    "rows.ipc": pa.feather.write_feather,
    "rows.arrows": write_stream,
    # A stream under the name of a file, which pyarrow and others write too.
    "stream.arrow": write_stream,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("settings", [{}, {"threads": 3, "batch_rows": 64}, {"threads": 2, "batch_rows": 1000}])
def test_every_kind_of_file(name, settings, tmp_path):
    WRITERS[name](TABLE, str(tmp_path / name))
    assert sums(tmp_path / name, **settings) == EXPECTED


@pytest.fixture
def folder(tmp_path):
    """Three files of different kinds and sizes, in two folders, and what other tools leave behind."""
    (tmp_path / "data" / "deep").mkdir(parents=True)
    write_groups(TABLE.slice(0, 1500), tmp_path / "data" / "2024-01.parquet")
    pq.write_table(TABLE.slice(1500, 1000), tmp_path / "data" / "2024-02.parquet")
    write_csv(TABLE.slice(2500), tmp_path / "data" / "2024-03.csv")
    pq.write_table(TABLE.slice(2500), tmp_path / "data" / "deep" / "2025-01.parquet")
    (tmp_path / "data" / "_SUCCESS").write_text("")
    (tmp_path / "data" / ".hidden.parquet").write_text("")
    for name in ("_temporary/0", ".ipynb_checkpoints", "deep/_temporary"):
        (tmp_path / "data" / name).mkdir(parents=True)
        pq.write_table(TABLE, tmp_path / "data" / name / "2024-01.parquet")
    return tmp_path / "data"


def test_patterns_lists_and_folders(folder):
    assert sums(folder) == EXPECTED
    assert sums(str(folder / "2024-*")) == EXPECTED
    assert sums(folder / "2024-*") == EXPECTED
    assert sums([folder / "2024-0[12].parquet", str(folder / "2024-03.csv")]) == EXPECTED
    assert sums((folder / "deep", folder / "2024-01.parquet", folder / "2024-02.parquet"), threads=3) == EXPECTED
    assert open_table(folder / "2024-0[12].parquet", SCHEMA).rows == 2500
    assert sums(str(folder / "**" / "2*.parquet")) == EXPECTED
    assert sums(str(folder / "*" / "*.parquet")) == sums(folder / "deep")
    assert sums(str(folder / "_temp*" / "*" / "*.parquet")) == sums(folder / "_temporary") == EXPECTED
    (folder / "deep").rename(folder / "_year=2025")
    assert sums(folder) == EXPECTED


def test_a_name_with_a_star_in_it_is_a_name_first(tmp_path):
    pq.write_table(TABLE, tmp_path / "a[1].parquet")
    pq.write_table(TABLE.slice(5), tmp_path / "a1.parquet")
    assert sums(tmp_path / "a[1].parquet") == EXPECTED


def test_a_draft_of_a_pattern_is_that_of_its_first_file(folder):
    assert '[columns."visits"]\ntype = "integer"' in draft_schema(str(folder / "2024-*.parquet"))


def refusal(data, **settings):
    with pytest.raises(DataError) as caught:
        sums(data, **settings)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return str(caught.value)


def test_paths_that_stand_for_nothing_or_for_too_much(folder):
    assert "matches none" in refusal(str(folder / "2023-*.parquet"))
    assert "named more often" in refusal([folder, folder / "deep" / "2025-01.parquet"])
    assert "Check the path" in refusal([folder / "2024-01.parquet", folder / "2024-09.parquet"])
    assert "must end in" in refusal([folder / "_SUCCESS"])
    assert "pandas or polars" in refusal([])
    assert "pandas or polars" in refusal([folder, 3])


CHANGES = {
    "missing": (lambda t: t.drop_columns(["age"]), "no column 'age'"),
    "renamed": (lambda t: t.rename_columns(["other", "Age", 'a "b"', "visits"]), "Did you mean 'Age'"),
    "bytes": (lambda t: t.set_column(1, "age", pa.array([b"SECRET"] * t.num_rows)), "must hold numbers"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_in_the_middle_that_differs_is_named(change, folder):
    make, match = CHANGES[change]
    pq.write_table(make(TABLE.slice(1500, 1000)), folder / "2024-02.parquet")
    for data in (folder, [folder], str(folder / "*.parquet"), str(folder / "2024*")):
        message = refusal(data)
        assert match in message
        assert "2024-02.parquet" in message
        assert "SECRET" not in message


def test_another_type_of_number_in_the_middle_is_still_a_number(folder):
    part = TABLE.slice(1500, 1000)
    part = part.set_column(3, "visits", part["visits"].cast(pa.float32()))
    pq.write_table(part, folder / "2024-02.parquet")
    assert sums(folder) == EXPECTED


@pytest.mark.parametrize("threads", [1, 3])
def test_a_damaged_row_group_in_the_middle_is_named(threads, folder):
    path = folder / "2024-01.parquet"
    pq.write_table(TABLE.slice(0, 1500), path, row_group_size=100, compression="zstd", write_page_checksum=True)
    column = pq.read_metadata(path).row_group(7).column(1)
    start = column.data_page_offset
    content = bytearray(path.read_bytes())
    content[start + 40 : start + column.total_compressed_size - 10] = bytes(column.total_compressed_size - 50)
    path.write_bytes(content)
    message = refusal(folder, threads=threads, batch_rows=64)
    assert "2024-01.parquet" in message
    assert "damaged" in message


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_in_the_middle_of_the_rows_holds_no_row(threads, tmp_path):
    def batches(*, broken):
        yield pa.record_batch({name: np.full(100, 4.2424242) for name in SCHEMA.names})
        if broken:
            raise ValueError("4.2424242")

    def reader(*, broken=True):
        kinds = pa.schema([(name, pa.float64()) for name in SCHEMA.names])
        return pa.RecordBatchReader.from_batches(kinds, batches(broken=broken))

    class Late(Again):
        def __arrow_c_stream__(self, requested_schema=None):
            self.times -= 1
            return reader(broken=self.times < 1).__arrow_c_stream__(requested_schema)

    path = tmp_path / "rows.csv.gz"
    whole = gzip.compress(('age,visits,"a ""b"""\n' + "4.2424242,1,0\n" * 300_000).encode(), 1)
    path.write_bytes(whole[: len(whole) // 2])
    for data in (reader(), Late(None, 3), path):
        with pytest.raises(DataError) as caught:
            sums(data, threads=threads, batch_rows=10)
        told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        inside = [frame for frame in told.stack if "smoothsynth/" in frame.filename and "tests" not in frame.filename]
        assert inside
        assert "4.24242" not in str([frame.locals for frame in inside])


@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_one_wrong_bit_is_found_where_the_file_has_checksums(compression, tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(TABLE, path, compression=compression, use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(0).column(2)
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    path.write_bytes(content)
    assert "damaged" in refusal(path)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_change_between_two_passes_are_refused(name, threads, tmp_path):
    path = tmp_path / name
    WRITERS[name](TABLE, str(path))
    table = open_table(path, SCHEMA)
    engine = LocalEngine(threads=threads, batch_rows=500)
    assert engine.sums(table, FEATURES).unseal() == EXPECTED
    # As many rows, and another value.
    WRITERS[name](make_table(seed=2), str(path))
    os.utime(path, ns=(0, 1))
    with pytest.raises(DataError, match=f"{name} must stay as it was when it was opened"):
        engine.sums(table, FEATURES)
    path.unlink()
    with pytest.raises(DataError, match=f"{name} must stay as it was"):
        engine.sums(table, FEATURES)


def test_a_file_that_changes_during_a_pass_is_refused(tmp_path):
    path = tmp_path / "rows.parquet"
    write_groups(TABLE, path)
    table = open_table(path, SCHEMA)

    def touch(done, rows):
        os.utime(path, ns=(0, 1))

    with pytest.raises(DataError, match=r"rows\.parquet must stay as it was"):
        LocalEngine(threads=1, batch_rows=100).sums(table, FEATURES, progress=touch)


def test_a_duckdb_relation_is_read_again_at_each_pass(tmp_path):
    connection = duckdb.connect()
    connection.register("rows", TABLE)
    table = open_table(connection.sql("select * from rows"), SCHEMA)
    assert table.rows == ROWS
    for settings in ({}, {"threads": 2, "batch_rows": 100}):
        assert LocalEngine(**settings).sums(table, FEATURES).unseal() == EXPECTED
    wrong = connection.sql("select age, visits, case when age is null then 1 else 0 end as b from rows")
    assert "no column" in refusal(wrong)
    assert "must hold numbers" in refusal(connection.sql('select age, visits, [other] as "a ""b""" from rows'))


def test_a_duckdb_relation_that_fails_shows_nothing():
    failing = duckdb.sql('select 1 as age, 2 as visits, cast(\'SECRET\' || range as double) as "a ""b""" from range(9)')
    assert "SECRET" not in refusal(failing)


def test_a_polars_query_is_computed_in_batches(tmp_path):
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    query = pl.scan_parquet(tmp_path / "rows.parquet").with_columns(extra=pl.col("age") * 2)
    table = open_table(query, SCHEMA)
    for settings in ({}, {"threads": 2, "batch_rows": 100}):
        assert LocalEngine(**settings).sums(table, FEATURES).unseal() == EXPECTED


class Again:
    """Gives a new stream at each call, as most libraries do."""

    def __init__(self, table, times=9):
        self.table, self.times = table, times

    def __arrow_c_stream__(self, requested_schema=None):
        self.times -= 1
        if self.times < 0:
            raise ValueError("SECRET")
        return self.table.__arrow_c_stream__(requested_schema)


def test_an_object_with_a_stream_is_read_again_at_each_pass():
    data = Again(TABLE)
    assert sums(data, threads=2, batch_rows=100) == EXPECTED
    assert data.times == 9 - 3
    message = refusal(Again(TABLE, times=2))
    assert "at every pass" in message
    assert "SECRET" not in message


class Shrinking(Again):
    def __arrow_c_stream__(self, requested_schema=None):
        self.times -= 1
        return self.table.slice(0, 100 * self.times).__arrow_c_stream__(requested_schema)


def test_an_object_that_gives_other_rows_at_the_next_pass_is_refused():
    assert "another number" in refusal(Shrinking(TABLE))


def test_a_stream_that_can_be_read_once_is_kept_within_the_memory():
    def reader(rows):
        batch = pa.record_batch({name: np.zeros(rows) for name in SCHEMA.names})
        return pa.RecordBatchReader.from_batches(batch.schema, (batch for _ in range(60)))

    assert open_table(reader(10), SCHEMA, memory=LEAST).rows == 600
    with pytest.raises(DataError, match=f"the {(LEAST - BASE) / 1e6:,.0f} MB that are left") as caught:
        open_table(reader(50_000), SCHEMA, memory=LEAST)
    assert "Parquet" in str(caught.value)


def test_views_and_single_columns_from_files(tmp_path):
    write_groups(TABLE, tmp_path / "rows.parquet")
    features = [term_feature((c, k)) for c in range(3) for k in range(1, 9)]
    for transformation in (None, Transformation.from_values(np.sin(np.linspace(-1, 1, 513)) * np.ones((3, 1)))):
        expected = (
            LocalEngine(threads=1).sums(open_table(TABLE, SCHEMA), features, transformation=transformation).unseal()
        )
        for settings in ({"threads": 3, "batch_rows": 100}, {"threads": 2}):
            table = open_table(tmp_path / "rows.parquet", SCHEMA)
            assert LocalEngine(**settings).sums(table, features, transformation=transformation).unseal() == expected
