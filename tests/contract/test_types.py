"""Columns of every type, from every kind of table and in every engine: the same integers, ==, as by hand."""

import csv
import datetime as dt
import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from smoothsynth.errors import DataError
from smoothsynth.private.engines.dask import DaskEngine
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.engines.spark import SparkEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import LATTICE as S
from smoothsynth.queries.bases import Feature, pooled, term_feature
from smoothsynth.queries.measurement import Measurement
from smoothsynth.queries.transformation import KNOTS, Transformation
from smoothsynth.schema import Boolean, Category, Date, Datetime, Integer, Number, Schema

SEX, WARD = ["female", "male", "NA"], [1, 2, 3, 70]
DAYS = dt.date(2019, 3, 1), dt.date(2021, 11, 30)
TIMES = dt.datetime(2020, 1, 1), dt.datetime(2020, 12, 31, 12, 30)
SCHEMA = Schema(
    {
        "age": Number(0, 120, nullable=True),
        "income": Number(0, 1e7, transform="asinh", scale=100.0),
        "visits": Integer(1, 500, transform="log", nullable=True),
        "sex": Category(SEX, other="NA", nullable=True),
        "ward": Category(WARD),
        "smoker": Boolean(nullable=True),
        "born": Date(*DAYS),
        "seen": Datetime(*TIMES, nullable=True),
        "score": Number(-1, 9, transform="rank-to-public-quantiles", quantiles=[0, 1, 4]),
    }
)
ROWS, D = 143, SCHEMA.dimensions
assert D == 2 + 1 + 2 + 3 + 4 + 2 + 1 + 2 + 1


def some(rng, values, share=0.2):
    """Values of which some are missing."""
    return [None if rng.random() < share else v for v in values]


def make_rows(seed=5):
    rng = np.random.default_rng(seed)
    days = [DAYS[0] + dt.timedelta(days=int(n)) for n in rng.integers(-200, 1400, ROWS)]
    times = [TIMES[0] + dt.timedelta(seconds=int(n)) for n in rng.integers(-(10**6), 4 * 10**7, ROWS)]
    return {
        "age": some(rng, rng.normal(50, 40, ROWS).round(3).tolist()),
        "income": rng.lognormal(9, 3, ROWS).round(2).tolist(),
        "visits": some(rng, rng.integers(-3, 700, ROWS).tolist()),
        "sex": some(rng, rng.choice([*SEX, "unknown", " male "], ROWS).tolist()),
        "ward": rng.choice([*WARD, 4, 7], ROWS).tolist(),
        "smoker": some(rng, rng.choice([True, False], ROWS).tolist()),
        "born": days,
        "seen": some(rng, times),
        "score": rng.normal(1, 3, ROWS).round(4).tolist(),
    }


TABLE = make_rows()


def between(value, lower, upper):
    return 0.0 if value is None else (2 * min(max(value, lower), upper) - lower - upper) / (upper - lower)


def rank(value):
    knots = [-1, 0, 1, 4, 9]
    value = min(max(value, -1), 9)
    piece = next(i for i in range(4) if value <= knots[i + 1])
    return (piece + (value - knots[piece]) / (knots[piece + 1] - knots[piece])) / 2 - 1


def coordinates_by_hand(row):
    """The coordinates of a row in plain Python."""
    visits = None if row["visits"] is None else math.log(min(max(row["visits"], 1), 500))
    sex = None if row["sex"] is None else row["sex"].strip()
    sex = sex if sex in (*SEX, None) else "NA"
    seen = None if row["seen"] is None else (row["seen"] - TIMES[0]).total_seconds()
    return [
        between(row["age"], 0, 120), row["age"] is None,
        between(math.asinh(min(max(row["income"], 0), 1e7) / 100), 0, math.asinh(1e5)),
        between(visits, 0, math.log(500)), visits is None,
        *[sex == level for level in SEX],
        *[row["ward"] == level for level in WARD],
        between(row["smoker"], 0, 1), row["smoker"] is None,
        between((row["born"] - DAYS[0]).days, 0, (DAYS[1] - DAYS[0]).days),
        between(seen, 0, (TIMES[1] - TIMES[0]).total_seconds()), seen is None,
        rank(row["score"]),
    ]  # fmt: skip


LATTICE = [
    [round(S * float(x)) for x in coordinates_by_hand(dict(zip(TABLE, row, strict=True)))]
    for row in zip(*TABLE.values(), strict=True)
]


def factor(x, degree):
    before, last = 1.0, x / S
    for _ in range(degree - 1):
        before, last = last, 2 * (x / S) * last - before
    return x if degree == 1 else round(S * last)


def term_by_hand(x, term):
    if len(term) == 1:
        ((c, k),) = term
        return 2 * x[c] ** 2 - S * S if k == 2 else factor(x[c], k) * S
    first, *middle, last = [factor(x[c], k) for c, k in term]
    for t in middle:
        assert first * t % S == 0, "one of two is a mark"
        first = first * t // S
    return first * last


def sums_by_hand(features, rows):
    return tuple(sum(term_by_hand(x, term) for x in rows for term in f.terms) for f in features)


LEVELS, VALUES = SCHEMA.binary, tuple(c for c, role in enumerate(SCHEMA.roles) if role == "value")
FEATURES = {
    "coordinates": [term_feature((c, 1)) for c in range(D)],
    "pairs": [term_feature((a, 1), (b, 1)) for a, b in itertools.combinations(range(D), 2)],
    "degrees by level": [
        term_feature(*sorted(((c, 1), (v, k)))) for c in LEVELS for v in VALUES for k in (1, 2, 5)
    ],
    "means in cells": [
        term_feature((a, 1), (b, 1), (14, k)) for a, b in itertools.product(*SCHEMA.exclusive) for k in (1, 3)
    ],
    "counted": [term_feature((c, k)) for c in range(D) for k in ((1, 2, 7) if c in VALUES else (1,))],
    "pooled": [pooled(1, LEVELS), Feature((((5, 1),), ((8, 1), (14, 1))))],
}  # fmt: skip


def arrow_table():
    types = {"visits": pa.int32(), "ward": pa.int16(), "born": pa.date32(), "seen": pa.timestamp("ms")}
    return pa.table({name: pa.array(cells, types.get(name)) for name, cells in TABLE.items()})


def text(cell):
    return "" if cell is None else str(cell)


def write_csv(path, show=text):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(TABLE)
        writer.writerows([show(cell) for cell in row] for row in zip(*TABLE.values(), strict=True))
    return path


def written(table, path, write):
    write(table, path)
    return path


def coded(table):
    words = {name: table[name].combine_chunks().dictionary_encode() for name in ("sex", "ward", "born")}
    return pa.table({name: words.get(name, table[name]) for name in table.column_names})


def retyped(table, **types):
    return table.cast(pa.schema([pa.field(f.name, types.get(f.name, f.type)) for f in table.schema]))


def in_a_zone(table):
    """The same moments, told by the clocks of a zone."""
    seen = table["seen"].cast(pa.timestamp("us")).combine_chunks()
    zoned = pa.Array.from_buffers(pa.timestamp("us", "Asia/Tokyo"), len(seen), seen.buffers())
    return table.set_column(table.column_names.index("seen"), "seen", zoned)


INPUTS = {
    "csv": lambda p: write_csv(p / "rows.csv"),
    "csv in other words": lambda p: write_csv(
        p / "rows.csv",
        lambda cell: f" {str(cell).upper()}\t" if isinstance(cell, bool) else
        cell.isoformat() + "Z" if isinstance(cell, dt.datetime) else text(cell),
    ),
    "arrow": lambda p: arrow_table(),
    "arrow dictionary": lambda p: coded(arrow_table()),
    "arrow in other types": lambda p: retyped(
        arrow_table(), sex=pa.large_string(), ward=pa.string(), smoker=pa.int8(), born=pa.timestamp("ns"), visits=pa.float32()
    ),
    "arrow in text": lambda p: retyped(arrow_table(), smoker=pa.string(), born=pa.string(), seen=pa.string()),
    "arrow in a zone": lambda p: in_a_zone(arrow_table()),
    "arrow stream": lambda p: arrow_table().to_reader(max_chunksize=40),
    "pandas": lambda p: arrow_table().to_pandas(),
    "pandas objects": lambda p: pd.DataFrame(TABLE).astype(dict.fromkeys(["sex", "smoker", "born", "seen", "ward"], object)),
    "pandas category": lambda p: arrow_table().to_pandas().astype({"sex": "category", "ward": "category"}),
    "pandas arrow": lambda p: arrow_table().to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda p: pl.from_arrow(arrow_table()),
    "polars categorical": lambda p: pl.from_arrow(arrow_table()).lazy().with_columns(pl.col("sex").cast(pl.Categorical)),
    "parquet": lambda p: written(arrow_table(), p / "rows.parquet", lambda t, to: pq.write_table(t, to, row_group_size=50)),
    "feather": lambda p: written(coded(arrow_table()), p / "rows.feather", pa.feather.write_feather),
}  # fmt: skip

ENGINES = {
    "local": (LocalEngine, ""),
    "local, in threads and small batches": (lambda: LocalEngine(batch_rows=31, threads=2), ""),
    "dask": (DaskEngine, "dask_client"),
    "spark": (SparkEngine, "spark"),
}


@pytest.fixture(params=ENGINES)
def engine(request):
    make, cluster = ENGINES[request.param]
    return make(request.getfixturevalue(cluster)) if cluster else make()


@pytest.fixture(scope="module")
def by_hand():
    return {name: sums_by_hand(features, LATTICE) for name, features in FEATURES.items()}


def check(engine, data, by_hand):
    table = open_table(data, SCHEMA)
    assert table.rows == ROWS
    for name, features in FEATURES.items():
        assert engine.sums(table, features).unseal() == by_hand[name], name


@pytest.mark.parametrize("kind", INPUTS)
def test_every_input_gives_the_sums_computed_by_hand(engine, kind, by_hand, tmp_path):
    check(engine, INPUTS[kind](tmp_path), by_hand)


def test_duckdb_with_an_enumeration(by_hand):
    duckdb = pytest.importorskip("duckdb")
    rows = arrow_table()
    connection = duckdb.connect()
    connection.register("rows", rows)
    connection.execute("create type kind as enum ('female', 'male', 'NA', 'unknown', ' male ')")
    check(LocalEngine(), connection.sql("select * replace (sex::kind as sex) from rows"), by_hand)


def test_frames_of_spark(spark, by_hand, tmp_path):
    pq.write_table(arrow_table(), tmp_path / "rows.parquet")
    check(SparkEngine(spark), spark.read.parquet(str(tmp_path / "rows.parquet")).repartition(3), by_hand)


def test_frames_of_dask(by_hand):
    from dask import dataframe

    check(DaskEngine(), dataframe.from_pandas(arrow_table().to_pandas(), npartitions=3), by_hand)


def test_transformations_map_levels_like_any_coordinate():
    heights = np.sort(np.random.default_rng(2).uniform(-1, 1, (D, KNOTS)), axis=1)
    transformation = Transformation.from_values(heights)
    seen = [[int(transformation.bend(c, np.array([float(v)]))[0]) for c, v in enumerate(row)] for row in LATTICE]
    table = open_table(arrow_table(), SCHEMA)
    for name in ("coordinates", "pairs"):
        sums = LocalEngine().sums(table, FEATURES[name], transformation=transformation).unseal()
        assert sums == sums_by_hand(FEATURES[name], seen), name


def test_the_schema_has_the_same_points():
    points = SCHEMA.to_unit({name: arrow_table()[name] for name in SCHEMA.names})
    assert np.rint(points * S).astype(int).tolist() == LATTICE
    plain = {name: np.array(cells, dtype=object) for name, cells in TABLE.items()}
    assert np.array_equal(SCHEMA.to_unit(plain), points)


@pytest.mark.parametrize(
    ("name", "cells", "held"),
    [
        ("age", [b"1"], "numbers"),
        ("age", [dt.date(2020, 1, 1)], "numbers"),
        ("smoker", [dt.datetime(2020, 1, 1)], "true and false"),
        ("born", [20200101], "dates"),
        ("seen", [15], "dates or times"),
        ("seen", [dt.time(1, 2)], "dates or times"),
        ("sex", [b"female"], "text or whole numbers"),
        ("ward", [[1, 2]], "text or whole numbers"),
    ],
)
def test_a_type_that_cannot_be_read_is_refused_before_any_cell_is(name, cells, held):
    table = arrow_table().slice(0, 1).drop_columns([name]).append_column(name, pa.array(cells))
    with pytest.raises(DataError, match=f"Column '{name}' of the table must hold {held}; its type is") as caught:
        open_table(table, SCHEMA)
    assert str(cells[0]) not in str(caught.value)


def test_one_row_moves_the_sums_by_no_more_than_the_sensitivity():
    """Exact sums of tables that differ in one row, for features of all kinds."""
    features = [*FEATURES["coordinates"], *FEATURES["degrees by level"], *FEATURES["pairs"]]
    table = arrow_table()
    alone = [LocalEngine().sums(open_table(table.slice(i, 1), SCHEMA), features).unseal() for i in range(40)]
    moved = np.array(alone, dtype=float) / S**2
    weights = (1000,) * len(features)
    for mechanism, order in (("cube", math.inf), ("discrete laplace", 1), ("discrete gaussian", 2)):
        noise = {"multiplier": 1.0} if order == 2 else {"epsilon": 1.0}
        bare = Measurement("test", tuple(features), mechanism, **noise, weights=weights)
        known = replace(bare, exclusive=SCHEMA.exclusive, binary=SCHEMA.binary)
        farthest = max(float(np.linalg.norm(moved - one, ord=order, axis=1).max()) for one in moved)
        assert 1000 * farthest <= known.sensitivity
        assert order == math.inf or known.sensitivity < 0.7 * bare.sensitivity
