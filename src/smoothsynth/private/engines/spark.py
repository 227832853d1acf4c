"""The engine of an Apache Spark cluster: executors sum Arrow batches, and only integer sums travel.

    rows of a frame      mapInArrow over its partitions, each of which becomes one partial sum
    files                their names are sent, and each executor reads its own row groups
    partial sums         added on executors in a tree; the driver is given the total alone

A partial sum is the result of a task, never an accumulator, so a task that runs twice counts once.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import DataError, EngineError, PlanError
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.engines.partial import Partial, Work, cut, sealed, total
from smoothsynth.private.engines.spark_jobs import attempt, packed_package, run
from smoothsynth.private.persons import TAKEN, count_persons, spread
from smoothsynth.private.sources.cells import check_names, check_types, numbers
from smoothsynth.private.sources.validation import safe_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from smoothsynth.private.engines.partial import Piece
    from smoothsynth.private.persons import Persons
    from smoothsynth.private.sealed import SealedSums
    from smoothsynth.private.table import Source, Table
    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.transformation import Transformation
    from smoothsynth.schema import Column

LIBRARY = "pyspark"
_ANSWER = "sums binary, refusal string"
_ID, _ORDER, _PLACE, _TAKEN = "id", "order", "place", "taken"
# Partial sums that one task adds.
_FAN = 32
# Pieces of files for each core: a core that was slow at first is not waited for.
_PIECES = 2
_UNKNOWN_CORES = 16
_MAGIC = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Sums features on the executors of a Spark session."""

    session: Any

    def sums(
        self,
        table: Table,
        features: Sequence[Feature],
        *,
        transformation: Transformation | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> SealedSums:
        """Return the exact sum of each feature over all rows."""
        work = Work.checked(table, features, transformation)
        source, cores = table._source, attempt(lambda: _cores(self.session))
        if isinstance(source, (SparkSource, SparkPersonSource)):
            answer = partial(_over_frame, source, work, cores)
        elif (pieces := cut(source, _PIECES * cores)) is not None:
            answer = partial(_over_pieces, self.session, pieces, work, cores)
        else:
            # Rows in the memory of this process are summed where they are.
            return LocalEngine().sums(table, features, transformation=transformation, progress=progress)
        attempt(lambda: _ship_package(self.session))
        job = partial(_collected, answer, work)
        whole = run(_context(self.session), job, loggers=_loggers(), rows=table.rows, progress=progress)
        sums = sealed(table, features, whole)
        if progress is not None:
            progress(table.rows, table.rows)
        return sums

    def read(self, address: str) -> Any:
        """Return the frame of Parquet files at an address that Spark knows how to read."""
        return attempt(lambda: _visible(self.session.read.parquet(address), address), reading=address)


@dataclass(frozen=True, slots=True, repr=False)
class SparkSource:
    """Rows of a Spark frame, which stay on its cluster."""

    frame: Any
    names: tuple[str, ...]
    rows: int

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Refuse: rows of a cluster are not brought here."""
        raise PlanError("The rows of a Spark frame stay on its cluster; sum them with engine='spark'.")


@dataclass(frozen=True, slots=True, repr=False)
class SparkPersonSource:
    """The taken rows of persons in a Spark frame, which stay on its cluster."""

    frame: Any
    names: tuple[str, ...]
    rows: int
    taken: int
    averaged: int
    batches = SparkSource.batches


def open_frame(data: Any, columns: Mapping[str, Column], persons: Persons | None = None) -> Source:
    """Return the source of rows for a Spark frame (also of pandas on Spark); its rows are counted on the cluster."""
    frame = _frame(data)
    if not hasattr(frame, "mapInArrow"):
        raise DataError(f"A Spark table must be a DataFrame; this is a {type(data).__name__}. Convert it with toDF().")
    fields = attempt(lambda: list(frame.schema.fields))
    names = tuple(columns)
    check_names(names, [field.name for field in fields], where="The Spark frame")
    found = [field.name for field in fields]
    types = [_arrow_type(fields[found.index(name)].dataType) for name in names]
    check_types(columns, types, where="the Spark frame")
    # Names with dots, and names that differ only in case, mean something else to Spark: go by position.
    renamed = attempt(lambda: frame.toDF(*(f"c{i}" for i in range(len(found)))))
    chosen = attempt(lambda: renamed.select(*(f"c{found.index(name)}" for name in names)))
    context, loggers = _context(frame.sparkSession), _loggers()
    if persons is None:
        return SparkSource(chosen, names, int(run(context, chosen.count, loggers=loggers)))
    attempt(lambda: _ship_package(frame.sparkSession))
    taken = run(context, lambda: _of_persons(chosen, names, persons), loggers=loggers)
    counted = run(context, taken.groupBy(_TAKEN).count().collect, loggers=loggers)
    times = {int(row[0]): int(row[1]) for row in counted}
    return SparkPersonSource(taken, (*persons.columns, TAKEN), count_persons(times), sum(times.values()), persons.most)


def _of_persons(frame: Any, names: tuple[str, ...], persons: Persons) -> Any:
    """Bring the rows of each person together by the digest of the id, and take some; ids themselves go nowhere."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f
    from pyspark.sql.types import BinaryType, LongType, StructType

    kept = [field for field, name in zip(frame.schema.fields, names, strict=True) if name != persons.column]
    shape = StructType([*kept]).add(_ID, BinaryType()).add(_ORDER, LongType())
    marked = frame.mapInArrow(_mark(persons, names), shape)
    copy = f.row_number().over(Window.partitionBy(_ID, _ORDER).orderBy(_ORDER)) - f.lit(1)
    marked = marked.withColumn(_PLACE, copy.cast("long")).mapInArrow(_spread, shape)
    together = Window.partitionBy(_ID)
    place = f.row_number().over(together.orderBy(_ORDER))
    size = f.least(f.count(f.lit(1)).over(together), f.lit(persons.most))
    ranked = marked.withColumn(_PLACE, place).withColumn(_TAKEN, size).where(f.col(_PLACE) <= persons.most)
    return ranked.select(*(field.name for field in kept), _TAKEN)


def _spread(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give copies of a row places of their own."""
    import pyarrow as pa

    for batch in batches:
        order = spread(numbers(batch.column(_ORDER)), numbers(batch.column(_PLACE)))
        kept = batch.drop_columns([_ORDER, _PLACE])
        yield kept.append_column(_ORDER, pa.array(order))


def _mark(persons: Persons, names: tuple[str, ...]) -> Any:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _marked(batch, persons, names)

    return task


def _marked(batch: pa.RecordBatch, persons: Persons, names: tuple[str, ...]) -> pa.RecordBatch:
    """Put the digest of its id, and its place in the order of its person, to each row that has an id."""
    import pyarrow as pa

    ids, order = persons.digests_of(lambda: safe_batches([batch.rename_columns(list(names))]))
    kept = [column for column, name in zip(batch.schema.names, names, strict=True) if name != persons.column]
    digests = pa.array([one.tobytes() for one in ids], pa.binary())
    marked = batch.select(kept).append_column(_ID, digests).append_column(_ORDER, pa.array(order))
    return marked.filter(pa.array(ids.any(axis=1)))


def _visible(frame: Any, address: str) -> Any:
    """Leave out files in folders that are no part of a table: Spark does so itself, but for those that match a pattern."""
    fixed = list(takewhile(lambda name: not _MAGIC.search(name), address.rstrip("/").split("/")))
    if not _MAGIC.search(address):
        return frame
    hidden = rf"/\Q{fixed[-1]}\E/(.*/)?([.]|_[^/=]*/)"
    return frame.where(~frame["_metadata.file_path"].rlike(hidden))


def _frame(data: Any) -> Any:
    return data.to_spark() if hasattr(data, "to_spark") else data


def open_engine(cluster: str | None, data: Any = None) -> SparkEngine:
    """Return an engine on the session of a frame, the session in use, or a new one with the cluster at an address."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise EngineError("The engine 'spark' needs PySpark: pip install 'smoothsynth[spark]'.") from None
    session = SparkSession.getActiveSession() if data is None else _frame(data).sparkSession
    if session is None:
        return SparkEngine(attempt(lambda: _new_session(SparkSession.builder, cluster)))
    master = attempt(lambda: session.conf.get("spark.master"))
    if cluster not in (None, master):
        raise EngineError(
            f"A Spark session with the master {master} is in use, and {cluster} is asked for. Stop that session first."
        )
    return SparkEngine(session)


def _new_session(builder: Any, cluster: str | None) -> Any:
    if (cluster or "local").startswith("local"):
        # Without this, executors on this machine take the first python3 they find.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = builder.appName("smoothsynth").config("spark.ui.showConsoleProgress", "false")
    return (builder if cluster is None else builder.master(cluster)).getOrCreate()


def _arrow_type(type_: Any) -> pa.DataType:
    """Return the type that a column has in the batches that executors are given."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        return to_arrow_type(type_)
    except Exception:
        # A type of the user's own; no column can be read from it.
        return pa.struct([])


def _over_frame(source: SparkSource | SparkPersonSource, work: Work, cores: int) -> Any:
    return _added(source.frame.mapInArrow(_sum_rows(work, source.names), _ANSWER), work, cores)


def _over_pieces(session: Any, pieces: list[Piece], work: Work, cores: int) -> Any:
    """Return the sums over pieces; each is a partition of one row, the number of the piece."""
    count = len(pieces)
    parts = session.range(0, count, 1, count).mapInArrow(_sum_pieces(work, pieces), _ANSWER)
    return _added(parts, work, cores) if count > 1 else parts


def _collected(answer: Callable[[], Any], work: Work) -> Partial:
    """Compute the answer; no frame that can fail later has a name for numbers that show themselves."""
    rows = answer().collect()
    return total((Partial.from_bytes(bytes(row.sums), row.refusal) for row in rows), work.nothing)


def _added(parts: Any, work: Work, cores: int) -> Any:
    """Add partial sums on executors: first in as many tasks as there are cores, if they are many, then in one."""
    add = _add_sums(work)
    if cores > _FAN:
        parts = parts.repartition(cores).mapInArrow(add, _ANSWER)
    return parts.repartition(1).mapInArrow(add, _ANSWER)


def _sum_rows(work: Work, names: tuple[str, ...]) -> Any:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _answer(work.over(lambda: safe_batches(batch.rename_columns(list(names)) for batch in batches)))

    return task


def _sum_pieces(work: Work, pieces: list[Piece]) -> Any:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = (pieces[number] for batch in batches for number in batch.column(0).to_pylist())
        yield _answer(total(map(work.over_piece, mine), work.nothing))

    return task


def _add_sums(work: Work) -> Any:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        yield _answer(total((Partial.from_bytes(row["sums"], row["refusal"]) for row in rows), work.nothing))

    return task


def _answer(part: Partial) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [pa.array([part.to_bytes()], pa.binary()), pa.array([part.refusal], pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=["sums", "refusal"])


def _cores(session: Any) -> int:
    context = _context(session)
    return _UNKNOWN_CORES if context is None else int(context.defaultParallelism)


def _context(session: Any) -> Any:
    """Return the Spark context; a session of Spark Connect has none."""
    try:
        return session.sparkContext
    except Exception:
        return None


def _loggers() -> list[logging.Logger]:
    """Return Python's loggers that repeat what Spark says of a failed task."""
    plain = [logging.getLogger(name) for name in ("py4j", "pyspark")]
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # before Spark 4
        return plain
    # They are of a class of their own, so they must not be made as plain ones.
    return plain + [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")]


def _ship_package(session: Any) -> None:
    """Send this package to the executors, once for each session, so that they run the very same kernel."""
    context = _context(session)
    if context is None:
        session.addArtifacts(str(packed_package()), pyfile=True)
    elif (archive := packed_package()).name not in context._python_includes:
        context.addPyFile(str(archive))
