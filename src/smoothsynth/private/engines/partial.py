"""Exact sums over a part of the rows, computed on any machine: what every cluster engine ships and adds.

A part that cannot be summed answers with a sentence instead of an exception. A cluster writes the text of
exceptions into its logs and tries the part again; the text of a foreign exception may quote a row.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothsynth._threads import one_thread
from smoothsynth.errors import DataError, SmoothsynthError
from smoothsynth.private.engine import SealedSums
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.private.table import changed_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from smoothsynth.private.engines.pieces import Piece
    from smoothsynth.private.table import Table
    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.transformation import View
    from smoothsynth.schema import Schema

_HEAD = struct.Struct("<Q")
# |B_r| <= 2^30 rows x 2^32 x the terms of a feature: far below 2^127.
_WIDTH = 16
# As many rows at a time as the local engine reads of twenty columns.
BATCH_ROWS = 2**16


@dataclass(frozen=True, slots=True, repr=False)
class Partial:
    """The number of rows of a part and the exact sums over them, or the reason why there are none."""

    rows: int
    totals: tuple[int, ...]
    refusal: str = ""

    def __add__(self, other: Partial) -> Partial:
        if self.refusal or other.refusal:
            return self if self.refusal else other
        pairs = zip(self.totals, other.totals, strict=True)
        return Partial(self.rows + other.rows, tuple(mine + others for mine, others in pairs))

    def to_bytes(self) -> bytes:
        """Write rows and sums as integers of fixed width; a refusal travels beside them."""
        parts = (total.to_bytes(_WIDTH, "little", signed=True) for total in self.totals)
        return _HEAD.pack(self.rows) + b"".join(parts)

    @classmethod
    def from_bytes(cls, packed: bytes, refusal: str = "") -> Partial:
        """Read what `to_bytes` wrote."""
        (rows,) = _HEAD.unpack_from(packed)
        starts = range(_HEAD.size, len(packed), _WIDTH)
        return cls(rows, tuple(int.from_bytes(packed[s : s + _WIDTH], "little", signed=True) for s in starts), refusal)


@dataclass(frozen=True, slots=True)
class Work:
    """What is summed: public, and sent to every machine, where the kernel is made from it."""

    schema: Schema
    features: tuple[Feature, ...]
    view: View | None

    @classmethod
    def checked(cls, table: Table, features: Sequence[Feature], view: View | None) -> Work:
        """Describe the pass, after the kernel has refused here what it would refuse everywhere."""
        Kernel(table.schema, features, view)
        return cls(table.schema, tuple(features), view)

    @property
    def nothing(self) -> Partial:
        """The sums over no rows."""
        return Partial(0, (0,) * len(self.features))

    def over(self, batches: Callable[[], Iterable[pa.RecordBatch]]) -> Partial:
        """Add up batches that have the columns of the schema, with the kernel of the local engine."""
        try:
            with one_thread():
                sums, rows = Kernel(self.schema, self.features, self.view).start(), 0
                for batch in batches():
                    sums.add(batch)
                    rows += batch.num_rows
                return Partial(rows, tuple(sums.totals()))
        except SmoothsynthError as error:
            refusal = str(error)
        except Exception as error:
            refusal = (
                f"A part of the table must be readable on the machine of the cluster that was given it, and was not "
                f"({type(error).__name__}). Try the release with the local engine on a part of the table to see why."
            )
        return Partial(0, (), refusal)

    def over_piece(self, piece: Piece) -> Partial:
        """Add up all rows of a piece of files that this machine can read."""
        return self.over(lambda: piece.batches(BATCH_ROWS))


def total(parts: Iterable[Partial], nothing: Partial) -> Partial:
    """Add parts, of which there may be none."""
    for part in parts:
        nothing = nothing + part
    return nothing


def sealed(table: Table, features: Sequence[Feature], whole: Partial) -> SealedSums:
    """Seal the sums over the whole table, if every row of it was counted just once."""
    if whole.refusal:
        raise DataError(whole.refusal)
    if whole.rows != table.rows:
        raise changed_rows(table.rows)
    return SealedSums(features, whole.totals)


def not_readable(address: str) -> DataError:
    """Say that there is no table at an address."""
    return DataError(
        f"{address} must hold Parquet files that the cluster can read, and holds none. Check the address, and that the "
        "cluster may read it."
    )
