"""The engine of Dask: partitions or files are summed by its workers, and only integer sums travel.

    rows of a frame      each partition becomes one partial sum
    files                their names are sent, and each worker reads its own row groups
    partial sums         added on workers in a tree

The work is a graph of delayed calls, so it runs wherever Dask runs: on the workers of the client in use, or else on
threads of this process. A worker that is lost has its parts summed again by another; each counts once.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from glob import has_magic
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from smoothsynth.errors import DataError, EngineError, PlanError, SmoothsynthError
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.engines.partial import BATCH_ROWS, Partial, Work, cut, not_readable, sealed, total
from smoothsynth.private.persons import TAKEN, count_persons, take
from smoothsynth.private.sources.files import is_part
from smoothsynth.private.sources.foreign import STOPPED
from smoothsynth.private.sources.frames import PandasSource, open_pandas
from smoothsynth.queries.measurement import MOST_AVERAGED
from smoothsynth.schema import Integer

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

T = TypeVar("T")

LIBRARY = "dask"
_ID, _REST, _ORDER = "id", "rest of id", "order"
# Partial sums that one call adds.
_FAN = 16
_PIECES = 2
_THREADS = 8
CONNECT_SECONDS = 20.0
# What Dask raises where the cluster, not the data, has failed.
_GONE = frozenset({"CommClosedError", "TimeoutError", "CancelledError", "FutureCancelledError", "ClosedClientError",
                   "ConnectionRefusedError", "StreamClosedError", "FutureLostError"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class DaskEngine:
    """Sums features on the workers of a client; without one, wherever Dask would compute."""

    client: Any = None

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
        whole = _attempt(lambda: self._whole(table._source, work), client=self.client)
        if whole is None:
            # Rows in the memory of this process are summed where they are.
            return LocalEngine().sums(table, features, transformation=transformation, progress=progress)
        sums = sealed(table, features, whole)
        if progress is not None:
            progress(table.rows, table.rows)
        return sums

    def read(self, address: str) -> Any:
        """Return the frame of Parquet files at an address that Dask knows how to read."""
        from dask import dataframe

        return _attempt(lambda: dataframe.read_parquet(_files(address)), reading=address)

    def _whole(self, source: Source, work: Work) -> Partial | None:
        import dask

        if isinstance(source, (DaskSource, DaskPersonSource)):
            over = dask.delayed(_over_frame, pure=False)
            parts = [over(part, work) for part in source.frame.to_delayed()]
        elif (pieces := cut(source, _PIECES * self._cores())) is not None:
            over = dask.delayed(_over_piece, pure=False)
            parts = [over(piece, work) for piece in pieces]
        else:
            return None
        return self._compute(_tree(parts, dask.delayed(_add, pure=False), work))

    def _compute(self, whole: Any) -> Partial:
        import dask

        if self.client is None:
            return dask.compute(whole)[0]
        return self.client.compute(whole).result()

    def _cores(self) -> int:
        return _THREADS if self.client is None else sum(self.client.ncores().values()) or _THREADS


@dataclass(frozen=True, slots=True, repr=False)
class DaskSource:
    """Rows of a Dask frame, which stay on its cluster."""

    frame: Any
    rows: int

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Refuse: rows of a cluster are not brought here."""
        raise PlanError("The rows of a Dask frame stay on its cluster; sum them with engine='dask'.")


@dataclass(frozen=True, slots=True, repr=False)
class DaskPersonSource:
    """The taken rows of persons in a Dask frame, which stay on its cluster."""

    frame: Any
    rows: int
    taken: int
    averaged: int
    batches = DaskSource.batches


def open_frame(data: Any, columns: Mapping[str, Column], persons: Persons | None = None) -> Source:
    """Return the source of rows for a Dask frame; its rows are counted where it is computed."""
    if not hasattr(data, "to_delayed") or not hasattr(data, "columns"):
        raise DataError(f"A Dask table must be a DataFrame; this is a {type(data).__name__}. Convert it first.")
    # The empty frame that Dask keeps has the names and types of all partitions.
    open_pandas(data._meta, columns)
    chosen = data[list(columns)]
    if persons is None:
        return DaskSource(chosen, _attempt(lambda: len(chosen)))
    frame = _attempt(lambda: _of_persons(chosen, persons))
    counts = frame[TAKEN].value_counts()
    times = _attempt(lambda: {int(taken): int(rows) for taken, rows in counts.compute().items()})
    return DaskPersonSource(frame, count_persons(times), sum(times.values()), persons.most)


def _of_persons(frame: Any, persons: Persons) -> Any:
    """Bring the rows of each person together by the digest of the id, and take some; ids themselves go nowhere."""
    marked = frame.map_partitions(_marked, persons, meta=_marked(frame._meta, persons))
    # Other ways to shuffle turn cells into the type of their column, which may fail because of one of them.
    together = marked.shuffle(on=[_ID], shuffle_method="tasks")
    return together.map_partitions(_taken, persons, meta=_taken(marked._meta, persons))


def _marked(part: Any, persons: Persons) -> Any:
    """Put the digest of its id, and its place in the order of its person, to each row that has an id."""
    ids, order = persons.digests_of(lambda: PandasSource(part, persons.read).batches(BATCH_ROWS))
    # Names that columns of the schema may have mean nothing here: they go by position.
    kept = part[list(persons.columns)].set_axis(range(len(persons.columns)), axis="columns")
    kept = kept.assign(**{_ID: ids[:, 0], _REST: ids[:, 1], _ORDER: order})
    return kept[ids.any(axis=1)]


def _taken(part: Any, persons: Persons) -> Any:
    """Take rows of each person; all of a person are in one partition."""
    counts = take(part[[_ID, _REST]].to_numpy(), part[_ORDER].to_numpy(), persons.most)
    named = part.drop(columns=[_ID, _REST, _ORDER]).set_axis(list(persons.columns), axis="columns")
    return named.assign(**{TAKEN: counts.astype(np.int64)})[counts > 0]


def open_engine(cluster: str | None, data: Any = None) -> DaskEngine:
    """Return an engine on the cluster at an address, or else on the client in use, if there is one."""
    try:
        import dask  # noqa: F401
        from distributed import Client, default_client
    except ImportError:
        raise EngineError("The engine 'dask' needs Dask: pip install 'smoothsynth[dask]'.") from None
    if cluster is not None:
        return DaskEngine(_attempt(lambda: Client(cluster, timeout=CONNECT_SECONDS), connecting=True))
    with contextlib.suppress(ValueError):
        return DaskEngine(default_client())
    return DaskEngine()


def _files(address: str) -> list[str]:
    """Return the files at an address that are parts of a table; Dask itself would read hidden ones too."""
    from fsspec.core import url_to_fs

    system, root = url_to_fs(address)
    matches = system.glob(root) if has_magic(root) else [root]
    files = [path for match in matches for path in (_inside(system, match) if system.isdir(match) else [match])]
    parts = [path for path in files if is_part(path.split("/"), root.rstrip("/").split("/"))]
    return [system.unstrip_protocol(path) for path in parts]


def _inside(system: Any, folder: str) -> list[str]:
    return sorted(path for path in system.find(folder) if path.endswith(".parquet"))


def _tree(parts: list[Any], add: Any, work: Work) -> Any:
    while len(parts) > 1:
        parts = [add(parts[start : start + _FAN], work.nothing) for start in range(0, len(parts), _FAN)]
    return parts[0]


def _over_frame(part: Any, work: Work) -> Partial:
    # A partition may have other types than the frame says, because of one of its cells: it is read and not refused.
    columns = work.schema.columns
    read = {**columns, TAKEN: Integer(1, MOST_AVERAGED)} if TAKEN in part.columns else columns
    return work.over(lambda: PandasSource(part, read).batches(BATCH_ROWS))


def _over_piece(piece: Piece, work: Work) -> Partial:
    return work.over_piece(piece)


def _add(parts: list[Partial], nothing: Partial) -> Partial:
    return total(parts, nothing)


def _attempt(action: Callable[[], T], *, reading: str = "", connecting: bool = False, client: Any = None) -> T:
    """Do something with Dask; a foreign error, which may quote values, is replaced and not chained.

    Work that was under way when its cluster went away can fail with any error, so the client is asked too.
    """
    logger = logging.getLogger("distributed")
    before, text = logger.level, ""
    # A worker within this process would log the arguments of a call that fails.
    logger.setLevel(logging.CRITICAL + 1)
    try:
        return action()
    except (SmoothsynthError, *STOPPED):
        raise
    except BaseException as error:
        gone = connecting or (client is not None and client.status != "running")
        text = "TimeoutError" if gone else type(error).__name__
    finally:
        logger.setLevel(before)
    raise not_readable(reading) if reading and text not in _GONE else _in_words(text)


def _in_words(kind: str) -> SmoothsynthError:
    if kind == "KilledWorker":
        return EngineError(
            "The workers must live through the pass, and several were lost at the same part. Give them more memory, and "
            "release again; nothing was charged for this pass."
        )
    if kind in _GONE:
        return EngineError(
            "The Dask cluster must be there during the whole pass, and is gone or cannot be reached. Look at its "
            "scheduler, and release again; nothing was charged for this pass."
        )
    if kind in ("ModuleNotFoundError", "ImportError"):
        return EngineError("Every Dask worker must have smoothsynth installed, in this version. Install it there.")
    return DataError(
        "Dask must be able to compute every partition of the frame, and failed. Look at the frame with Dask itself: its "
        "error may quote rows and is not repeated here. Nothing was charged for this pass."
    )
