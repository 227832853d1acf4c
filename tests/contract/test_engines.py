"""What every engine must do: the same integers, ==, for every input, feature, transformation, order, batch and thread count.

An engine joins by one line in ENGINES.
"""

import copy
import functools
import gzip
import itertools
import math
import pickle
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from smoothsynth.errors import DataError, PlanError
from smoothsynth.private.engines.dask import DaskEngine
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.engines.spark import SparkEngine
from smoothsynth.private.sealed import SealedSums
from smoothsynth.private.table import Table, open_table
from smoothsynth.queries.bases import Feature, lowest, pooled, tensor, term_feature, total_degree
from smoothsynth.queries.families import ClippedSecondMoments, RankHistogram, RowNorms
from smoothsynth.queries.measurement import LATTICE as S
from smoothsynth.queries.soft_tables import BITS, Cells, SoftTables, TableColumn
from smoothsynth.queries.transformation import KNOTS, PIECE, Transformation
from smoothsynth.schema import Integer, Number, Schema

SCHEMA = Schema(
    {
        "height": Number(120.0, 210.0),
        "income": Number(-1e3, 1e6),
        "visits": Integer(0, 17),
        "ratio": Number(-0.1, 0.7),
    }
)
ROWS = 257


def make_rows(rows=ROWS, seed=3):
    rng = np.random.default_rng(seed)
    values = np.stack(
        [rng.normal(165, 25, rows), rng.lognormal(10, 2, rows), rng.poisson(4, rows), rng.normal(0.3, 0.3, rows)]
    )
    values[0, ::7] = np.nan
    values[1, 3::11] = np.inf
    values[3, 5::13] = -np.inf
    return values


def lattice_by_hand(values):
    """S x of each coordinate, one row at a time, from the schema alone."""
    columns = list(SCHEMA.columns.values())
    return [
        [round(S * float(c.to_unit(np.array([float(v)]))[0])) for c, v in zip(columns, row, strict=True)]
        for row in values.T
    ]


@functools.cache
def factor(x, degree):
    before, last = 1.0, x / S
    for _ in range(degree - 1):
        before, last = last, 2 * (x / S) * last - before
    return x if degree == 1 else max(-S, min(S, round(S * last)))


def rounded_quotient(p):
    """The integer nearest to p / S, ties to even, without a float."""
    q, rest = divmod(p, S)
    return q + (2 * rest > S or (2 * rest == S and q % 2 == 1))


def term_by_hand(x, term):
    if len(term) == 1:
        ((c, k),) = term
        return 2 * x[c] ** 2 - S * S if k == 2 else factor(x[c], k) * S
    first, *middle, last = [factor(x[c], k) for c, k in term]
    for t in middle:
        first = rounded_quotient(first * t)
    return first * last


def seen_by_hand(x, transformation):
    """A row of the lattice through a transformation, in Python's own arithmetic."""
    if transformation.family == RowNorms():
        x = [2 * sum(v * v for v in x) // (len(x) * S) - S]
    seen = []
    for knots, v in zip(transformation.knots.tolist(), x, strict=True):
        piece = min((v + S) // PIECE, KNOTS - 2)
        inside = v + S - piece * PIECE
        seen.append((knots[piece] * (PIECE - inside) + knots[piece + 1] * inside) // PIECE)
    if not isinstance(transformation.family, ClippedSecondMoments):
        return seen
    share = min(1.0, transformation.family.clip_norm * S / max(math.sqrt(sum(v * v for v in seen)), 1.0))
    return [math.trunc(v * share) for v in seen]


def count_by_hand(y, number, counts):
    """A soft count of a lattice value in units of S: 1 in its middle, falling to 0 in the middle of the next."""
    place = Fraction((y + S) * counts, 2 * S) - Fraction(1, 2)
    place = min(max(place, Fraction(0)), Fraction(counts - 1))
    before = min(math.floor(place), counts - 2)
    beyond = math.floor((place - before) * S)
    return {before: S - beyond, before + 1: beyond}.get(number - 1, 0)


def cosine_by_hand(y, number, counts):
    """A cosine of the soft counts of a lattice value in units of S^2; after the last of these the last count."""
    if number == counts:
        return count_by_hand(y, counts, counts) * S
    angle = math.pi * number / (2 * counts)
    return sum(round(S * math.cos(angle * (2 * j - 1))) * count_by_hand(y, j, counts) for j in range(1, counts + 1))


def cells_by_hand(plain, seen, column, bits):
    """How much a lattice value adds to which cells of a column, in units of 2^-bits: hats first, then single values."""
    unit = 2**bits
    if plain in column.atoms:
        return {column.hats + column.atoms.index(plain): unit}
    place = math.floor(Fraction((seen + S) * (column.hats - 1) * unit, 2 * S) + Fraction(1, 2))
    before = min(place // unit, column.hats - 2)
    return {before: unit * (before + 1) - place, before + 1: place - unit * before}


def tables_by_hand(rows, features, transformation):
    family, found = transformation.family, []
    split = [
        [cells_by_hand(x[c.value], y[c.value], c, family.bits) for c in family.columns]
        for x, y in ((x, seen_by_hand(x, transformation)) for x in rows)
    ]
    for table in features.tables:
        for cells in itertools.product(*(range(family.columns[c].cells) for c in table)):
            adds = (math.prod(row[c].get(cell, 0) for c, cell in zip(table, cells, strict=True)) for row in split)
            found.append(sum(adds) * S * S // 2 ** (family.bits * family.order))
    return tuple(found)


def sums_by_hand(values, features, transformation=None):
    rows = lattice_by_hand(values)
    if isinstance(features, Cells):
        return tables_by_hand(rows, features, transformation)
    if transformation is not None:
        rows = [seen_by_hand(x, transformation) for x in rows]
    if transformation is not None and transformation.family.exact:
        adds = cosine_by_hand if transformation.family.cosines else count_by_hand
        terms, units = [f.terms[0][0] for f in features], 1 if transformation.family.cosines else S
        return tuple(sum(adds(x[c], j, transformation.family.cells) * units for x in rows) for c, j in terms)
    return tuple(sum(term_by_hand(x, term) for x in rows for term in f.terms) for f in features)


FEATURES = {
    "degree 1": total_degree(1, 4),
    "degree 2": total_degree(2, 4),
    "degree 2 alone": total_degree(2, 4)[4:],
    "degree 3": total_degree(3, 4),
    "degree 5": total_degree(5, 4),
    "tensor": tensor(3, 4),
    "single columns": [term_feature((c, k)) for c in (3, 1) for k in (1, 2, 3, 10)],
    "pooled": [pooled(1, range(4)), pooled(2, range(4)), pooled(5, (1, 3))],
    "mixed pool": [Feature((((0, 1), (1, 2), (3, 1)), ((2, 2),), ((2, 7),)))],
    "sparse": [term_feature((0, 1), (1, 1), (2, 1), (3, 1)), term_feature((2, 3)), term_feature((0, 2), (3, 4))],
    "repeated": [term_feature((1, 1)), term_feature((0, 1), (1, 1)), term_feature((1, 1))],
    "lowest": lowest(23, 4),
}


ALL = [feature for features in FEATURES.values() for feature in features]


def bent(coordinates, seed):
    """Knots as a release could have them: rising, far from straight."""
    steps = np.random.default_rng(seed).exponential(size=(coordinates, KNOTS)) ** 3
    heights = np.cumsum(steps, axis=1)
    return 2 * heights / heights[:, -1:] - 1


def tables_view(order):
    """Tables of soft cells, bent, with single values of two columns."""
    columns = (TableColumn(0, 4), TableColumn(1, 2, (-S, S)), TableColumn(2, 3), TableColumn(3, 3, (0,)))
    family = SoftTables(columns, order)
    tables = tuple(itertools.combinations(range(4), order))
    return Transformation.from_values(bent(4, 5 + order), family), family.cells(tables)


# What plans look at, and features that use every coordinate of it.
VIEWS = {
    "as it is": (None, ALL),
    "bent": (Transformation.from_values(bent(4, 1)), ALL),
    "shortened": (Transformation.straight(4, ClippedSecondMoments(0.7)), ALL),
    "bent and shortened": (Transformation.from_values(bent(4, 2), ClippedSecondMoments(0.9)), ALL),
    "pooled": (Transformation.from_values(bent(1, 3), RowNorms()), total_degree(5, 1)),
    "soft counts": (
        Transformation.from_values(bent(4, 4), RankHistogram(7)),
        [term_feature((c, j)) for c in (2, 0, 3) for j in range(1, 8)],
    ),
    "cosines of soft counts": (
        Transformation.from_values(bent(4, 4), RankHistogram(7, cosines=True)),
        [term_feature((c, k)) for c in (2, 0, 3) for k in range(1, 8)],
    ),
    **{f"tables of {order}": tables_view(order) for order in BITS},
}


def arrow_table(values):
    return pa.table(dict(zip(SCHEMA.names, values, strict=True)))


def as_nullable(values):
    columns = {}
    for name, column in zip(SCHEMA.names, values, strict=True):
        columns[name] = pa.array(column, mask=np.isnan(column))
    return pa.table(columns)


def in_pieces(table):
    return pa.concat_tables([table.slice(0, 5), table.slice(5, 0), table.slice(5, 100), table.slice(105)])


def write_csv(table, path):
    frame = table.to_pandas()
    frame["remark"] = 'a, "quoted" remark'
    # One of the quotes is not closed.
    path.write_text(frame.to_csv(index=False).replace('remark"', "remark", 1))
    return path


def zipped(path):
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


def written(table, path, write):
    write(table, path)
    return path


def folder_of_parquet(table, folder):
    (folder / "deep").mkdir(parents=True)
    pq.write_table(table.slice(0, 100), folder / "a.parquet")
    pq.write_table(table.slice(100), folder / "deep" / "b.parquet")
    (folder / "deep" / "_temporary").mkdir()
    pq.write_table(table, folder / "deep" / "_temporary" / "b.parquet")
    (folder / "_b.parquet").write_bytes(b"bookkeeping")
    return folder


INPUTS = {
    "pandas": lambda t, p: t.to_pandas(),
    "pandas with an index and more columns": lambda t, p: (
        t.to_pandas()
        .assign(name="x")[["ratio", "name", "visits", "income", "height"]]
        .set_index(pd.Index(range(1000, 1000 + t.num_rows)))
    ),
    "pandas in one block": lambda t, p: pd.DataFrame(
        np.ascontiguousarray(t.to_pandas().to_numpy()), columns=SCHEMA.names
    ),
    "pandas nullable": lambda t, p: t.to_pandas().astype("Float64"),
    "pandas arrow": lambda t, p: as_nullable(t.to_pandas().to_numpy().T).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas big endian": lambda t, p: t.to_pandas().astype(">f8"),
    "polars": lambda t, p: pl.from_arrow(t),
    "polars lazy": lambda t, p: pl.from_arrow(t).lazy().with_columns(extra=pl.lit("x")),
    "arrow": lambda t, p: t,
    "arrow in pieces": lambda t, p: in_pieces(t),
    "arrow with nulls": lambda t, p: as_nullable(t.to_pandas().to_numpy().T),
    "arrow dictionary": lambda t, p: pa.table({n: t[n].combine_chunks().dictionary_encode() for n in t.column_names}),
    "record batch": lambda t, p: t.combine_chunks().to_batches()[0],
    "stream": lambda t, p: pa.RecordBatchReader.from_batches(t.schema, in_pieces(t).to_batches()),
    "csv": lambda t, p: write_csv(t, p / "rows.csv"),
    "csv as text": lambda t, p: str(write_csv(t, p / "ROWS.CSV")),
    "csv.gz": lambda t, p: zipped(write_csv(t, p / "rows.csv")),
    "parquet": lambda t, p: written(t, p / "rows.parquet", pq.write_table),
    "parquet in groups": lambda t, p: written(
        t, p / "rows.parquet", lambda t, to: pq.write_table(t, to, row_group_size=50, compression="none")
    ),
    "parquet folder": lambda t, p: folder_of_parquet(t, p / "many"),
    "arrow file": lambda t, p: written(
        t, p / "rows.arrow", lambda t, to: pa.feather.write_feather(t, to, compression="uncompressed")
    ),
    "feather": lambda t, p: written(t, p / "rows.feather", lambda t, to: pa.feather.write_feather(t, to, chunksize=60)),
}


class Entry(NamedTuple):
    """An engine: how it is made, the fixture with its cluster, and a frame of its own from a Parquet file."""

    make: object
    cluster: str = ""
    frame: object = None


ENGINES = {
    "local": Entry(LocalEngine),
    "local, in threads and small batches": Entry(lambda: LocalEngine(batch_rows=31, threads=2)),
    "spark": Entry(SparkEngine, "spark", lambda path, spark: spark.read.parquet(str(path)).repartition(3)),
    "dask": Entry(DaskEngine, "dask_client", lambda path, _: dask_frame(path, parts=5)),
    "dask, in threads": Entry(DaskEngine, "", lambda path, _: dask_frame(path, parts=3)),
}


def dask_frame(path, parts):
    from dask import dataframe

    return dataframe.from_pandas(pd.read_parquet(path), npartitions=parts)


@pytest.fixture(scope="session")
def values():
    return make_rows()


@pytest.fixture(scope="session")
def by_hand(values):
    return {name: sums_by_hand(values, features) for name, features in FEATURES.items()}


@pytest.fixture(scope="session")
def seen(values):
    return {name: sums_by_hand(values, features, transformation) for name, (transformation, features) in VIEWS.items()}


@pytest.fixture(params=ENGINES)
def engine(request):
    entry = ENGINES[request.param]
    return entry.make(request.getfixturevalue(entry.cluster)) if entry.cluster else entry.make()


@pytest.mark.parametrize("kind", INPUTS)
def test_every_input_gives_the_sums_computed_by_hand(engine, kind, values, seen, tmp_path):
    table = open_table(INPUTS[kind](arrow_table(values), tmp_path), SCHEMA)
    assert table.rows == ROWS
    # Several times: a table can be read again, which plans of several rounds need. Clusters look at a frame in every way.
    for name in VIEWS if isinstance(engine, LocalEngine) else ("as it is", "tables of 2"):
        transformation, features = VIEWS[name]
        assert engine.sums(table, features, transformation=transformation).unseal() == seen[name], name


# Every cluster sums all of them at once, for every input.
@pytest.mark.parametrize(
    "engine",
    [pytest.param(name, marks=pytest.mark.slow if ENGINES[name].frame else ()) for name in ENGINES],
    indirect=True,
)
@pytest.mark.parametrize("features", FEATURES)
def test_every_kind_of_feature_gives_the_sums_computed_by_hand(engine, features, values, by_hand, tmp_path):
    table = open_table(folder_of_parquet(arrow_table(values), tmp_path / "many"), SCHEMA)
    assert engine.sums(table, FEATURES[features]).unseal() == by_hand[features]


@pytest.mark.parametrize("name", [name for name, entry in ENGINES.items() if entry.frame])
def test_a_frame_of_the_cluster_gives_the_sums_computed_by_hand(name, request, values, seen, tmp_path):
    entry = ENGINES[name]
    cluster = request.getfixturevalue(entry.cluster) if entry.cluster else None
    pq.write_table(arrow_table(values).append_column("note", pa.array(["x"] * ROWS)), tmp_path / "rows.parquet")
    table = open_table(entry.frame(tmp_path / "rows.parquet", cluster), SCHEMA)
    assert table.rows == ROWS
    engine = entry.make(cluster) if cluster else entry.make()
    for view_name, (transformation, features) in VIEWS.items():
        assert engine.sums(table, features, transformation=transformation).unseal() == seen[view_name], view_name


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("batch_rows", [1, 2, 100, 256, 257, 5000])
def test_batches_and_threads_change_nothing(features, batch_rows, threads, values, by_hand):
    table = open_table(arrow_table(values), SCHEMA)
    engine = LocalEngine(batch_rows=batch_rows, threads=threads)
    assert engine.sums(table, FEATURES[features]).unseal() == by_hand[features]


@pytest.mark.parametrize("features", FEATURES)
def test_the_order_of_rows_changes_nothing(features, values, by_hand):
    order = np.random.default_rng(8).permutation(ROWS)
    for shuffled in (values[:, order], values[:, ::-1]):
        table = open_table(arrow_table(shuffled), SCHEMA)
        assert LocalEngine().sums(table, FEATURES[features]).unseal() == by_hand[features]


def test_the_order_of_features_is_kept(values, by_hand):
    features = FEATURES["degree 3"]
    table = open_table(arrow_table(values), SCHEMA)
    assert LocalEngine().sums(table, features[::-1]).unseal() == by_hand["degree 3"][::-1]


@pytest.mark.parametrize("corner", list(itertools.product((-1, 1), repeat=4)))
def test_a_million_rows_in_a_corner_are_exact(corner):
    rows = 1_000_000 if corner in ((1, 1, 1, 1), (1, -1, 1, -1)) else 70_001
    ends = [(c.lower, c.upper) for c in SCHEMA.columns.values()]
    columns = [np.full(rows, float(e[side > 0])) for e, side in zip(ends, corner, strict=True)]
    features = total_degree(3, 4)
    table = open_table(arrow_table(columns), SCHEMA)
    expected = [rows * S * S * math.prod(corner[c] ** k for c, k in f.terms[0]) for f in features]
    assert LocalEngine().sums(table, features).unseal() == tuple(expected)


def test_sums_add_up_over_parts(values, by_hand):
    parts = [open_table(arrow_table(part), SCHEMA) for part in (values[:, :90], values[:, 90:])]
    features = FEATURES["degree 3"]
    first, second = (LocalEngine().sums(part, features) for part in parts)
    assert (first + second).unseal() == by_hand["degree 3"]
    with pytest.raises(PlanError, match="same features"):
        first + LocalEngine().sums(parts[0], features[:3])
    with pytest.raises(TypeError):
        first + 1


def test_every_engine_says_how_far_it_is(engine, values, tmp_path):
    told = []
    table = open_table(folder_of_parquet(arrow_table(values), tmp_path / "many"), SCHEMA)
    engine.sums(table, FEATURES["degree 1"], progress=lambda done, rows: told.append((done, rows)))
    assert told[-1] == (ROWS, ROWS)
    assert told == sorted(told)


@pytest.mark.parametrize(
    ("features", "match"),
    [([], "At least one"), ([term_feature((4, 1))], "coordinate"), ([term_feature((0, 200), (1, 100))], "degree")],
)
def test_every_engine_refuses_features_that_cannot_be_summed(engine, features, match, values, tmp_path):
    table = open_table(folder_of_parquet(arrow_table(values), tmp_path / "many"), SCHEMA)
    with pytest.raises(PlanError, match=match):
        engine.sums(table, features)


def test_every_engine_refuses_files_that_have_changed(engine, values, tmp_path):
    folder = folder_of_parquet(arrow_table(values), tmp_path / "many")
    table = open_table(folder, SCHEMA)
    pq.write_table(arrow_table(values), folder / "deep" / "b.parquet")
    with pytest.raises(DataError, match="nothing writes to it"):
        engine.sums(table, FEATURES["degree 1"])


def test_every_engine_refuses_a_row_group_that_cannot_be_read(engine, values, tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(arrow_table(values), path, row_group_size=50, compression="gzip", use_dictionary=False)
    column = pq.read_metadata(path).row_group(2).column(1)
    start, end = column.data_page_offset + 30, column.data_page_offset + column.total_compressed_size
    content = bytearray(path.read_bytes())
    content[start:end] = (b"SENTINEL" * (end - start))[: end - start]
    path.write_bytes(content)
    table = open_table(path, SCHEMA)
    with pytest.raises(DataError, match="cut short, damaged") as caught:
        engine.sums(table, FEATURES["degree 2"])
    assert caught.value.__context__ is None
    assert "SENTINEL" not in str(caught.value)


def test_progress_ends_with_all_rows(values):
    seen = []
    table = open_table(arrow_table(values), SCHEMA)
    LocalEngine(batch_rows=50, threads=2).sums(
        table, FEATURES["degree 1"], progress=lambda done, rows: seen.append((done, rows))
    )
    assert seen[-1] == (ROWS, ROWS)
    assert seen == sorted(seen)
    assert len(seen) == 6


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_progress_stops_the_pass(threads, values):
    table = open_table(arrow_table(values), SCHEMA)

    def fail(done, rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LocalEngine(batch_rows=1, threads=threads).sums(table, FEATURES["degree 1"], progress=fail)


@pytest.mark.parametrize("shown", ["<private table>", "<sealed sums>"])
def test_private_things_show_nothing_and_cannot_be_copied(shown, values):
    table = open_table(arrow_table(values), SCHEMA)
    thing = table if "table" in shown else LocalEngine().sums(table, FEATURES["degree 1"])
    assert str(thing) == repr(thing) == f"{thing}" == shown
    for take in (copy.copy, copy.deepcopy, pickle.dumps, iter, list, vars, len):
        with pytest.raises(TypeError):
            take(thing)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError):
            pickle.dumps(thing, protocol)


def test_the_classes_are_the_documented_ones(values):
    table = open_table(arrow_table(values), SCHEMA)
    assert isinstance(table, Table)
    assert table.schema is SCHEMA
    assert isinstance(LocalEngine().sums(table, FEATURES["degree 1"]), SealedSums)


@pytest.mark.parametrize("wrong", [{"batch_rows": 0}, {"threads": 0}])
def test_arguments_of_the_engine_are_checked(wrong):
    with pytest.raises(PlanError, match="at least 1"):
        LocalEngine(**wrong)


def test_a_sum_for_each_feature():
    with pytest.raises(PlanError, match="one sum for each"):
        SealedSums(FEATURES["degree 1"], [1])


def test_too_many_rows_are_refused(monkeypatch, values):
    monkeypatch.setattr("smoothsynth.private.table.MOST_ROWS", 100)
    with pytest.raises(DataError, match="between 1 and 100 rows"):
        open_table(arrow_table(values), SCHEMA)


def test_a_table_that_changes_is_refused(values, tmp_path):
    path = tmp_path / "rows.csv"
    arrow_table(values).to_pandas().to_csv(path, index=False)
    table = open_table(path, SCHEMA)
    for part in (values[:, :-1], np.concatenate([values, values], axis=1)):
        arrow_table(part).to_pandas().to_csv(path, index=False)
        for threads in (1, 2):
            with pytest.raises(DataError, match="when it was opened"):
                LocalEngine(threads=threads, batch_rows=100).sums(table, FEATURES["degree 1"])
