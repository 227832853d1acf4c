"""How often each value of a column occurs: exact counts, sealed until noise is added."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from smoothsynth.discovery.levels import LONGEST_LEVEL
from smoothsynth.errors import SmoothsynthError
from smoothsynth.private.table import in_words
from smoothsynth.schema.category import labelled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from smoothsynth.private.table import Table

_BATCH_ROWS = 2**16


class SealedCounts:
    """The values of a column and how often each occurs: they show nothing and cannot be copied.

    A row counts at one value or at none, and which one depends on its cell alone.
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __repr__(self) -> str:
        return "<sealed counts>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Sealed counts cannot be copied or pickled.")

    @property
    def values(self) -> int:
        """How many values occur: for as many noise is drawn."""
        return len(self._counts)

    def add(self, cells: object) -> None:
        """Count the cells of a batch; missing ones and texts that are too long count nowhere."""
        texts, places = labelled(cells)
        times = np.bincount(places + 1, minlength=len(texts) + 1)[1:].tolist()
        for text, often in zip(texts, times, strict=True):
            if text and len(text) <= LONGEST_LEVEL and often:
                self._counts[text] += often

    def unseal(self) -> dict[str, int]:
        """Return the exact counts. Only private/measure.py may call this."""
        return dict(self._counts)


def count_values(
    table: Table, names: Sequence[str], *, progress: Callable[[int, int], None] | None = None
) -> list[SealedCounts]:
    """Count the values of some columns in one pass."""
    import pyarrow as pa

    try:
        return _counted(table, names, progress)
    except (SmoothsynthError, pa.ArrowException) as error:
        # Frames in which an error arises hold rows; a crash reporter shall not find them.
        failed = in_words(error)
    raise failed


def _counted(table: Table, names: Sequence[str], progress: Callable[[int, int], None] | None) -> list[SealedCounts]:
    sealed, done = [SealedCounts() for _ in names], 0
    for batch in table._batches(_BATCH_ROWS):
        for name, counts in zip(names, sealed, strict=True):
            counts.add(batch.column(name))
        done += batch.num_rows
        # A callback that fails must not find rows among the names of the frame that called it.
        del batch
        if progress is not None:
            progress(done, table.rows)
    return sealed
