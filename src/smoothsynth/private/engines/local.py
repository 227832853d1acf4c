"""The engine of one machine: a few threads, each with its own buffers, over Arrow batches."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothsynth._runtime import one_thread
from smoothsynth.errors import PlanError, SmoothsynthError
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.private.persons import weight_unit
from smoothsynth.private.sealed import SealedSums
from smoothsynth.private.table import in_words, parse_memory, share_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from smoothsynth.private.table import Table
    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.transformation import Transformation

# Rows that are worth a thread.
_THREAD_ROWS = 2**15


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEngine:
    """Sums features over Arrow batches in at most so much memory; none of the arguments changes the result."""

    batch_rows: int | None = None
    threads: int | None = None
    memory: str | int | None = None

    def __post_init__(self) -> None:
        for name, value in (("batch_rows", self.batch_rows), ("threads", self.threads)):
            if value is not None and value < 1:
                raise PlanError(f"{name} must be at least 1; it is {value}.")
        parse_memory(self.memory)

    def sums(
        self,
        table: Table,
        features: Sequence[Feature],
        *,
        transformation: Transformation | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> SealedSums:
        """Return the exact sum of each feature over all rows."""
        import pyarrow as pa

        kernel = Kernel(table.schema, features, transformation, averaged=table.averaged)
        wanted = min(_cores(), -(-table.rows // _THREAD_ROWS))
        columns = len(table.schema.names)
        threads, rows = share_memory(self.memory, columns=columns, held=kernel.bytes, threads=wanted)
        threads, rows = self.threads or threads, self.batch_rows or rows
        shared = _Shared(table._parts(rows, threads), table, progress)
        try:
            with one_thread():
                totals = [_work(shared, kernel)] if threads == 1 else _in_threads(shared, kernel, threads)
        except (SmoothsynthError, pa.ArrowException, MemoryError) as error:
            # Frames in which an error arises hold rows; a crash reporter shall not find them.
            failed = in_words(error)
        else:
            return _sealed(features, totals, shared, table)
        raise failed


def _sealed(features: Sequence[Feature], totals: list[list[int]], shared: _Shared, table: Table) -> SealedSums:
    if shared.done != table._summed:
        raise table.changed()
    whole = [sum(column) for column in zip(*totals, strict=True)]
    return SealedSums(features, whole, denominator=weight_unit(table.averaged))


class _Shared:
    """The parts that all threads take from, one at a time, so that few are in memory at once."""

    def __init__(
        self, parts: Iterator[Iterable[pa.RecordBatch]], table: Table, progress: Callable[[int, int], None] | None
    ) -> None:
        self._parts, self._table, self._progress = parts, table, progress
        self._lock = threading.Lock()
        self.done, self.stopped = 0, False

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of parts that no other thread has, until there are none or another thread has failed."""
        while (part := self._take()) is not None:
            for batch in part:
                if self.stopped:
                    return
                yield batch

    def _take(self) -> Iterable[pa.RecordBatch] | None:
        with self._lock:
            return None if self.stopped else next(self._parts, None)

    def report(self, rows: int) -> None:
        """Say that so many more rows are done."""
        with self._lock:
            self.done += rows
            if self.done > self._table._summed:
                raise self._table.changed()
            if self._progress is not None and self._table.telling:
                self._progress(self.done, self._table.rows)


def _in_threads(shared: _Shared, kernel: Kernel, threads: int) -> list[list[int]]:
    with ThreadPoolExecutor(threads) as pool:
        try:
            parts = [pool.submit(_work, shared, kernel) for _ in range(threads)]
            return [part.result() for part in parts]
        finally:
            # Also when the user interrupts: each thread ends with the batch that it has.
            shared.stopped = True


def _work(shared: _Shared, kernel: Kernel) -> list[int]:
    sums = kernel.start()
    try:
        for batch in shared.batches():
            sums.add(batch)
            rows = batch.num_rows
            # A callback that fails must not find rows among the names of the frame that called it.
            del batch
            shared.report(rows)
        return sums.totals()
    except BaseException:
        shared.stopped = True
        raise


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
