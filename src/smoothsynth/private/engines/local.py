"""The engine of one machine: a few threads, each with its own buffers, over Arrow batches."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothsynth.blas import one_thread
from smoothsynth.errors import PlanError
from smoothsynth.private.engine import SealedSums
from smoothsynth.private.engines.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from smoothsynth.basis import Feature
    from smoothsynth.private.table import Table
    from smoothsynth.view import View

# Cells of a batch, and rows that are worth a thread.
_BATCH_CELLS = 2**20
_THREAD_ROWS = 2**15
_MOST_THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEngine:
    """Sums features over Arrow batches; neither argument changes the result."""

    batch_rows: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("batch_rows", self.batch_rows), ("threads", self.threads)):
            if value is not None and value < 1:
                raise PlanError(f"{name} must be at least 1; it is {value}.")

    def sums(
        self,
        table: Table,
        features: Sequence[Feature],
        *,
        view: View | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> SealedSums:
        """Return the exact sum of each feature over all rows."""
        kernel = Kernel(table.schema, features, view)
        batch_rows = self.batch_rows or min(2**16, max(2**10, _BATCH_CELLS // table.schema.dimensions))
        threads = self.threads or min(_cores(), _MOST_THREADS, -(-table.rows // _THREAD_ROWS))
        shared = _Shared(table._batches(batch_rows), table.rows, progress)
        with one_thread():
            if threads == 1:
                return SealedSums(features, _work(shared, kernel))
            with ThreadPoolExecutor(threads) as pool:
                try:
                    parts = [pool.submit(_work, shared, kernel) for _ in range(threads)]
                    totals = [part.result() for part in parts]
                finally:
                    shared.stopped = True
        return SealedSums(features, [sum(column) for column in zip(*totals, strict=True)])


class _Shared:
    """The batches that all threads take from, one at a time, so that few are in memory at once."""

    def __init__(
        self, batches: Iterator[pa.RecordBatch], rows: int, progress: Callable[[int, int], None] | None
    ) -> None:
        self._batches, self._rows, self._progress = batches, rows, progress
        self._done = 0
        self._lock = threading.Lock()
        self.stopped = False

    def take(self) -> pa.RecordBatch | None:
        """Return the next batch, or None at the end or when another thread has failed."""
        with self._lock:
            if self.stopped:
                return None
            try:
                return next(self._batches, None)
            except BaseException:
                self.stopped = True
                raise

    def report(self, rows: int) -> None:
        """Say that so many more rows are done."""
        with self._lock:
            self._done += rows
            if self._progress is not None:
                self._progress(self._done, self._rows)


def _work(shared: _Shared, kernel: Kernel) -> list[int]:
    sums = kernel.start()
    try:
        while (batch := shared.take()) is not None:
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
