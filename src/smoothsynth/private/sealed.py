"""Sums and counts that are sealed until noise is added, and what an engine is.

The contract of an engine: where exact sums of features over private rows are computed.

Every engine returns the same integers, whatever the order of the rows, the size of the batches, the
machine or the number of workers (docs/proofs/exactness.md).

How often each value of a column occurs: exact counts, sealed until noise is added.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np

from smoothsynth.discovery.levels import LONGEST_LEVEL
from smoothsynth.errors import PlanError, SmoothsynthError
from smoothsynth.private.table import in_words
from smoothsynth.queries.soft_tables import Cells
from smoothsynth.schema.category import labelled
from smoothsynth.schema.reading import prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from smoothsynth.private.table import Table
    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.transformation import Transformation


# |B_r| <= 2^30 rows x 2^32 x the terms of a feature: far below 2^127. With one width for all, no length tells of a sum.
SUM_BYTES = 16


class SealedSums:
    """Exact sums B_r of features, in units of S^2, before any noise: they show nothing and cannot be copied.

    Sums of the same features over different rows add up. Those over the averages of persons are in units of S^2 over a
    `denominator`, which is public.
    """

    __slots__ = ("_features", "_totals", "denominator")

    def __init__(self, features: Sequence[Feature], totals: Sequence[int], *, denominator: int = 1) -> None:
        self.denominator = denominator
        self._features = features if isinstance(features, Cells) else tuple(features)
        self._totals = tuple(map(int, totals))
        if len(self._features) != len(self._totals):
            raise PlanError("There must be one sum for each feature.")

    def __repr__(self) -> str:
        return "<sealed sums>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Sealed sums cannot be copied or pickled.")

    def __add__(self, other: SealedSums) -> SealedSums:
        if not isinstance(other, SealedSums):
            return NotImplemented
        if self._features != other._features or self.denominator != other.denominator:
            raise PlanError("Only sums of the same features, in the same order and units, can be added.")
        pairs = zip(self._totals, other._totals, strict=True)
        return SealedSums(self._features, [mine + others for mine, others in pairs], denominator=self.denominator)

    def only(self, features: Sequence[Feature]) -> SealedSums:
        """Return the sums of some of the features."""
        if isinstance(features, Cells) and isinstance(self._features, Cells):
            where = dict(self._features.places())
            totals = [total for table in features.tables for total in self._totals[where[table]]]
        else:
            place = {feature: number for number, feature in enumerate(self._features)}
            totals = [self._totals[place[feature]] for feature in features]
        return SealedSums(features, totals, denominator=self.denominator)

    def by_table(self) -> dict[tuple[int, ...], SealedSums]:
        """Return the sums of each table by itself."""
        cells = self._features
        if not isinstance(cells, Cells):
            raise PlanError("Only sums of tables come apart by tables.")
        return {
            table: SealedSums(cells.only([table]), self._totals[where], denominator=self.denominator)
            for table, where in cells.places()
        }

    @classmethod
    def joined(cls, features: Sequence[Feature], parts: Sequence[SealedSums]) -> SealedSums:
        """Seal the sums of several parts of the features together, in their order."""
        totals = [total for part in parts for total in part._totals]
        return cls(features, totals, denominator=parts[0].denominator)

    def unseal(self) -> tuple[int, ...]:
        """Return the exact sums. Only private/measure.py may call this."""
        return self._totals

    def packed(self) -> bytes:
        """Return the exact sums as integers of one width. Only private/sites/envelope.py may call this, to encrypt them."""
        if self.denominator != 1:
            raise PlanError("Sums over persons cannot be kept: new rows may be of the same persons.")
        return b"".join(total.to_bytes(SUM_BYTES, "little", signed=True) for total in self._totals)

    @classmethod
    def unpacked(cls, features: Sequence[Feature], packed: bytes) -> SealedSums:
        """Seal again what `packed` wrote."""
        starts = range(0, len(packed), SUM_BYTES)
        return cls(features, [int.from_bytes(packed[s : s + SUM_BYTES], "little", signed=True) for s in starts])


class Engine(Protocol):
    """Computes exact sums."""

    def sums(
        self,
        table: Table,
        features: Sequence[Feature],
        *,
        transformation: Transformation | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> SealedSums:
        """Return the exact sum of each feature over all rows, seen through a transformation if one is given.

        `progress` is told the rows done and the rows in all.
        """


class Recalling:
    """An engine that sums each table of soft cells of the same rows once: candidates are looked at in several rounds."""

    __slots__ = ("_engine", "_known")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[Transformation, dict[tuple[int, ...], SealedSums]] = {}

    def __repr__(self) -> str:
        return "<engine that recalls sealed sums>"

    def sums(
        self,
        table: Table,
        features: Sequence[Feature],
        *,
        transformation: Transformation | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> SealedSums:
        """Return the exact sum of each feature over all rows; of tables, those that are known are not summed again."""
        if not isinstance(features, Cells) or transformation is None:
            return self._engine.sums(table, features, transformation=transformation, progress=progress)
        known = self._known.setdefault(transformation, {})
        new = features.only([one for one in features.tables if one not in known])
        if new.tables:
            found = self._engine.sums(table, new, transformation=transformation, progress=progress)
            known |= found.by_table()
        return SealedSums.joined(features, [known[one] for one in features.tables])


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
    except (SmoothsynthError, pa.ArrowException, MemoryError) as error:
        # Frames in which an error arises hold rows; a crash reporter shall not find them.
        failed = in_words(error)
    raise failed


def _counted(table: Table, names: Sequence[str], progress: Callable[[int, int], None] | None) -> list[SealedCounts]:
    sealed, done = [SealedCounts() for _ in names], 0
    for batch in table._batches(_BATCH_ROWS):
        for name, counts in zip(names, sealed, strict=True):
            counts.add(prepared(batch.column(name), table.schema.columns[name]))
        done += batch.num_rows
        # A callback that fails must not find rows among the names of the frame that called it.
        del batch
        if progress is not None and table.telling:
            progress(done, table.rows)
    return sealed
