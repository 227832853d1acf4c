"""Partial sums, and pieces of files, which every cluster engine ships."""

import itertools
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsynth.errors import DataError
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.engines.partial import Partial, Work, cut, sealed, total
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import term_feature, total_degree
from smoothsynth.queries.families import RankHistogram
from smoothsynth.queries.soft_tables import SoftTables, TableColumn
from smoothsynth.queries.transformation import Transformation, knot_places
from smoothsynth.schema import Number, Schema

SCHEMA = Schema({"a": Number(0, 1), "b": Number(0, 1)})
WHOLE = st.integers(-(2**126), 2**126)


@given(st.integers(0, 2**30), st.lists(WHOLE, max_size=5), st.text(max_size=5))
def test_bytes_keep_integers_of_any_size(rows, totals, refusal):
    part = Partial(rows, tuple(totals), refusal)
    assert Partial.from_bytes(part.to_bytes(), refusal) == part


@given(st.lists(st.tuples(st.integers(0, 2**20), st.tuples(WHOLE, WHOLE)), max_size=6))
def test_a_total_is_the_sum_of_its_parts(facts):
    whole = total((Partial(rows, totals) for rows, totals in facts), Partial(0, (0, 0)))
    assert whole.rows == sum(rows for rows, _ in facts)
    assert whole.totals == tuple(sum(totals[i] for _, totals in facts) for i in range(2))


def test_one_refusal_refuses_the_whole():
    parts = [Partial(1, (5,)), Partial(0, (), "first"), Partial(1, (7,)), Partial(0, (), "second")]
    for order in itertools.permutations(parts):
        assert total(order, Partial(0, (0,))).refusal in ("first", "second")


def table_of(tmp_path, sizes, group):
    rng = np.random.default_rng(0)
    for i, size in enumerate(sizes):
        pq.write_table(
            pa.table({"a": rng.random(size), "b": rng.random(size)}), tmp_path / f"{i:03}.parquet", row_group_size=group
        )
    return open_table(tmp_path, SCHEMA)


@pytest.mark.parametrize("count", [1, 3, 16])
@pytest.mark.parametrize(("sizes", "group"), [([1000], 10), ([5] * 70, 3), ([1, 900, 1, 300], 100), ([7], 100)])
def test_pieces_hold_every_row_once(count, sizes, group, tmp_path):
    table = table_of(tmp_path, sizes, group)
    pieces = cut(table._source, count)
    assert 1 <= len(pieces) <= count
    features = total_degree(2, 2)
    work = Work.checked(table, features, None)
    parts = [work.over_piece(piece) for piece in pieces]
    assert sum(part.rows for part in parts) == table.rows
    whole = total(parts, work.nothing)
    assert sealed(table, features, whole).unseal() == LocalEngine().sums(table, features).unseal()
    # Nobody has much more than a fair share, as far as row groups can be shared out.
    assert max(part.rows for part in parts) <= table.rows / count + 3 * group


BENT = np.tile(np.tanh(2 * knot_places()), (2, 1))
TABLES, RANKS = SoftTables((TableColumn(0, 5), TableColumn(1, 3, (0,))), 2), RankHistogram(7)
BENT_WORK = {
    "tables": (TABLES.cells(((0, 1),)), Transformation.from_values(BENT, TABLES)),
    "ranks": ([term_feature((c, j)) for c in (0, 1) for j in range(1, 8)], Transformation.from_values(BENT, RANKS)),
}


@pytest.mark.parametrize("kind", BENT_WORK)
def test_many_small_parts_share_one_kernel_and_what_it_knows(kind, tmp_path, monkeypatch):
    """A cluster sends the work once for each part: what is public of it is made ready once for all of them."""
    made, of = [], Kernel.__init__
    monkeypatch.setattr(Kernel, "__init__", lambda self, *given, **named: made.append(1) or of(self, *given, **named))
    features, transformation = BENT_WORK[kind]
    table = table_of(tmp_path, [90_000], 10_000)
    work = Work.checked(table, features, transformation)
    parts = [pickle.loads(pickle.dumps(work)).over_piece(piece) for piece in cut(table._source, 9)]
    assert len(made) <= 2
    whole = total(parts, work.nothing)
    # Fewer rows than a part would need to know all lattice values.
    alone = [Kernel(SCHEMA, features, transformation).start() for _ in parts]
    for sums, piece in zip(alone, cut(table._source, 9), strict=True):
        for batch in piece.batches(4096):
            sums.add(batch)
    assert whole.totals == tuple(map(sum, zip(*(sums.totals() for sums in alone), strict=True)))


def test_other_work_has_another_kernel(tmp_path):
    table = table_of(tmp_path, [10], 10)
    one, other = (Work.checked(table, total_degree(degree, 2), None) for degree in (1, 2))
    piece = cut(table._source, 1)[0]
    lengths = [len(work.over_piece(piece).totals) for work in (one, other, one)]
    assert lengths == [2, 5, 2]


def test_a_part_that_fails_answers_in_words(tmp_path):
    table = table_of(tmp_path, [10], 10)
    work = Work.checked(table, total_degree(1, 2), None)

    def fail():
        raise ValueError("SENTINELTEXT")
        yield

    part = work.over(fail)
    assert "ValueError" in part.refusal
    assert "SENTINELTEXT" not in part.refusal
    with pytest.raises(DataError, match="must be readable on the machine") as caught:
        sealed(table, work.features, part + work.nothing)
    assert caught.value.__context__ is None


def test_rows_that_are_missing_or_counted_twice_are_refused(tmp_path):
    table = table_of(tmp_path, [10], 10)
    work = Work.checked(table, total_degree(1, 2), None)
    part = work.over_piece(cut(table._source, 1)[0])
    for wrong in (work.nothing, part + part):
        with pytest.raises(DataError, match="had 10 rows when it was opened"):
            sealed(table, work.features, wrong)


def test_rows_in_memory_are_not_cut():
    assert cut(open_table(pa.table({"a": [0.5], "b": [0.5]}), SCHEMA)._source, 4) is None
