"""Persons with several rows: which are taken, and the same integers, ==, on every engine and for every input."""

import math
import traceback
from collections import Counter
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import smoothsynth as ss
from smoothsynth.errors import DataError
from smoothsynth.private.engines.dask import DaskEngine
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.engines.spark import SparkEngine
from smoothsynth.private.persons import Persons, take
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import term_feature, total_degree
from smoothsynth.queries.families import ClippedSecondMoments, RankHistogram, RowNorms
from smoothsynth.queries.soft_tables import SoftTables, TableColumn
from smoothsynth.queries.transformation import Transformation

COLUMNS = {
    "age": ss.Number(0.0, 100.0),
    "visits": ss.Integer(0, 9, nullable=True),
    "ward": ss.Category(["a", "b", "c"], nullable=True),
}
PLAIN, SCHEMA = ss.Schema(COLUMNS), ss.Schema(COLUMNS, person="id")
KEY = bytes(range(32))
MOST = 4
PERSONS = 60
FAMILY = SoftTables((TableColumn(0, 4), TableColumn(1, 3, (), (2,)), TableColumn(None, levels=(3, 4, 5))), 2)
VIEWS = {
    "as it is": (None, total_degree(3, 6)),
    "of single columns": (None, [term_feature((0, 5)), term_feature((1, 2))]),
    "of levels": (None, [term_feature((3, 1)), term_feature((5, 1))]),
    "shortened": (Transformation.straight(6, ClippedSecondMoments(0.7)), total_degree(2, 6)),
    "pooled": (Transformation.straight(1, RowNorms()), total_degree(3, 1)),
    "soft counts": (Transformation.straight(6, RankHistogram(5)), [term_feature((0, j)) for j in range(1, 6)]),
    "cosines of soft counts": (
        Transformation.straight(6, RankHistogram(5, cosines=True)),
        [term_feature((c, k)) for c in (0, 1) for k in range(1, 5)] + [term_feature((2, 5))],
    ),
    "tables": (Transformation.straight(6, FAMILY), FAMILY.cells(((0, 1), (0, 2), (1, 2)))),
}


def make_rows(seed=4, most=9):
    """Persons with 1 to `most` rows, some of them equal, in any order, and rows without an id."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(PERSONS), rng.integers(1, most + 1, PERSONS))
    ids = rng.permutation(np.concatenate([ids, ids[:20]]))
    rows = len(ids)
    names = [f" person-{i}" if i % 2 else str(i) for i in ids]
    return pa.table(
        {
            "ward": pa.array(rng.choice(["a", "b", "c", "d"], rows), mask=rng.random(rows) < 0.1),
            "id": pa.array(names, mask=rng.random(rows) < 0.05),
            "age": np.round(rng.normal(50, 20, rows)),
            "visits": pa.array(rng.integers(0, 10, rows), mask=rng.random(rows) < 0.1),
        }
    )


def persons_of(rows):
    return len(set(rows["id"].drop_null().to_pylist()))


def sums(table, view, engine=None):
    transformation, features = VIEWS[view]
    found = (engine or LocalEngine()).sums(table, features, transformation=transformation)
    return found.unseal(), found.denominator


def averaged(rows, view):
    """The sums of persons of whom all rows are taken, those with k rows by themselves, as plain tables."""
    frame = rows.to_pandas().dropna(subset="id")
    sizes = frame.groupby("id")["id"].transform("size")
    unit, found = math.lcm(*range(1, sizes.max() + 1)), 0
    for k, part in frame.groupby(sizes):
        plain = sums(open_table(pa.Table.from_pandas(part, preserve_index=False), PLAIN), view)[0]
        found = found + np.array(plain, dtype=object) * (unit // k)
    return tuple(found), unit


@pytest.mark.parametrize("view", VIEWS)
def test_a_row_of_k_weighs_one_kth(view):
    rows = make_rows(most=5)
    most = max(Counter(filter(None, rows["id"].to_pylist())).values())
    table = open_table(rows, SCHEMA, rows_per_person=most)
    assert table.rows == persons_of(rows)
    assert sums(table, view) == averaged(rows, view)


def written_csv(rows, path):
    rows.to_pandas().to_csv(path, index=False)
    return path


def written_parquet(rows, path, **options):
    pq.write_table(rows, path, **options)
    return path


INPUTS = {
    "arrow": lambda t, p: t,
    "in another order": lambda t, p: t.take(pa.array(np.random.default_rng(1).permutation(t.num_rows))),
    "pandas": lambda t, p: t.to_pandas(),
    "pandas category": lambda t, p: t.to_pandas().astype({"id": "category"}),
    "polars": lambda t, p: pl.from_arrow(t),
    "polars lazy": lambda t, p: pl.from_arrow(t).lazy().sort("age"),
    "stream": lambda t, p: pa.RecordBatchReader.from_batches(t.schema, t.to_batches()),
    "csv": lambda t, p: written_csv(t, p / "rows.csv"),
    "parquet": lambda t, p: written_parquet(t, p / "rows.parquet", row_group_size=17),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_every_input_and_order_takes_the_same_rows(kind, tmp_path):
    rows = make_rows()
    expected = {view: sums(open_table(rows, SCHEMA, rows_per_person=MOST, key=KEY), view) for view in VIEWS}
    table = open_table(INPUTS[kind](rows, tmp_path), SCHEMA, rows_per_person=MOST, key=KEY)
    assert table.rows == persons_of(rows)
    engine = LocalEngine(batch_rows=7, threads=2)
    assert {view: sums(table, view, engine) for view in VIEWS} == expected


def dask_frame(path, _):
    from dask import dataframe

    return dataframe.from_pandas(pd.read_parquet(path), npartitions=5)


def spark_frame(path, spark):
    # By default a shuffle has 200 parts, of which hardly any has a row here.
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    return spark.read.parquet(str(path)).repartition(3)


CLUSTERS = {
    "dask": (DaskEngine, "dask_client", dask_frame),
    "dask, in threads": (DaskEngine, "", dask_frame),
    "spark": (SparkEngine, "spark", spark_frame),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n == "spark" else ()) for n in CLUSTERS])
def test_a_frame_of_a_cluster_takes_the_same_rows(name, request, tmp_path):
    make, fixture, frame = CLUSTERS[name]
    cluster = [request.getfixturevalue(fixture)] if fixture else []
    rows, told = make_rows(), []
    path = written_parquet(rows, tmp_path / "rows.parquet")
    table = open_table(frame(path, *(cluster or [None])), SCHEMA, rows_per_person=MOST, key=KEY)
    assert table.rows == persons_of(rows)
    local = open_table(rows, SCHEMA, rows_per_person=MOST, key=KEY)
    transformation, features = VIEWS["tables"]
    found = make(*cluster).sums(table, features, transformation=transformation, progress=lambda *n: told.append(n))
    assert (found.unseal(), found.denominator) == sums(local, "tables")
    # How far a pass is is told in persons.
    assert {every for _, every in told} == {persons_of(rows)}
    if name == "spark":
        cluster[0].conf.unset("spark.sql.shuffle.partitions")


def test_the_key_decides_and_nothing_else():
    rows = make_rows()
    same, other = (open_table(rows, SCHEMA, rows_per_person=2, key=key) for key in (KEY, bytes(32)))
    again = open_table(rows, SCHEMA, rows_per_person=2, key=KEY)
    assert sums(same, "as it is") == sums(again, "as it is") != sums(other, "as it is")
    drawn = [sums(open_table(rows, SCHEMA, rows_per_person=1), "as it is") for _ in range(2)]
    assert drawn[0] != drawn[1]


def test_other_persons_have_no_say():
    """Which rows of a person are taken stays the same whatever the rows of all others are."""
    rows = make_rows().to_pandas()
    mine, others = rows[rows["id"] == "4"], rows[rows["id"] != "4"]
    persons = Persons.of(SCHEMA, 2)

    def taken(frame):
        batch = pa.Table.from_pandas(frame, preserve_index=False).combine_chunks().to_batches()[0]
        marks = take(*persons.digests(batch), 2)
        return frame[(marks > 0) & (frame["id"] == "4")].sort_values(list(COLUMNS)).reset_index(drop=True)

    alone = taken(mine)
    assert len(alone) == 2
    for crowd in (others, others.iloc[:3], others.assign(age=7.0)):
        pd.testing.assert_frame_equal(taken(pd.concat([crowd, mine])), alone)


def test_every_row_of_a_person_is_as_likely_to_be_taken():
    """Also where most rows of a person are the same: 9 of 10 are, so one taken of 10 is one of them 9 times of 10."""
    frame = pd.DataFrame({"id": np.repeat(np.arange(2000), 10), "x": np.tile([1.0, *[0.0] * 9], 2000)})
    schema = ss.Schema({"x": ss.Number(-1.0, 1.0)}, person="id")
    for most in (1, 3):
        table = open_table(frame, schema, rows_per_person=most)
        found = LocalEngine().sums(table, [term_feature((0, 1))])
        mean = found.unseal()[0] / (found.denominator * 2**32 * 2000)
        # Five deviations of a share of 2,000 draws.
        assert abs(mean - 0.1) < 5 * math.sqrt(0.09 / 2000 / most)


@pytest.mark.parametrize(
    ("ids", "persons"),
    [
        (["7", 7, 7.0, " 7 ", "07", "7.0"], 2),
        ([1, 2, 2, None, None, float("nan")], 2),
        (["a", "A", "a ", "", "  ", "nan"], 2),
        ([True, "true", "TRUE", False, None, "no"], 3),
        ([UUID(int=1), UUID(int=2), str(UUID(int=2)), None, "a", UUID(int=1)], 3),
    ],
)
def test_what_is_the_same_id(ids, persons):
    frame = pd.DataFrame({"id": pd.Series(ids, dtype=object), "x": [0.0] * 6})
    table = open_table(frame, ss.Schema({"x": ss.Number(0, 1)}, person="id"))
    assert table.rows == persons


def test_no_message_tells_of_ids_or_of_how_many_rows_persons_have(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,x\n" + "SENTINEL,1\n" * 77)
    schema = ss.Schema({"x": ss.Number(0, 1)}, person="id")
    told = []
    table = open_table(path, schema, rows_per_person=32)
    assert (table.rows, repr(table)) == (1, "<private table>")
    LocalEngine().sums(table, [term_feature((0, 1))], progress=lambda *numbers: told.append(numbers))
    assert told == []
    with path.open("a") as file:
        file.write("SENTINEL,2\n")
    with pytest.raises(DataError) as raised:
        LocalEngine().sums(table, [term_feature((0, 1))])
    shown = "".join(traceback.format_exception(raised.value))
    assert not any(word in shown.replace(str(path), "") for word in ("SENTINEL", "77", "78", "32"))
    path.write_text("id,x\n,1\n,2\n")
    with pytest.raises(DataError, match="no persons"):
        open_table(path, schema)
