"""Partial sums and file pieces for clusters.

Exact sums over a part of the rows, computed on any machine: what every cluster engine ships and adds.

A part that cannot be summed answers with a sentence instead of an exception. A cluster writes the text of
exceptions into its logs and tries the part again; the text of a foreign exception may quote a row.

Files cut into pieces of about equal size, so that many machines can each read their own.
"""

from __future__ import annotations

import heapq
import struct
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from smoothsynth._runtime import one_thread
from smoothsynth.errors import DataError, SmoothsynthError
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.private.persons import weight_unit
from smoothsynth.private.sealed import SealedSums
from smoothsynth.private.sources import arrow_files
from smoothsynth.private.sources.arrow_files import IpcSource, ParquetSource, Stamp, arrow
from smoothsynth.private.sources.csv import CsvSource
from smoothsynth.private.sources.files import ManySource
from smoothsynth.queries.soft_tables import Cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from smoothsynth.private.table import Source, Table
    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.transformation import Transformation
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
    features: Sequence[Feature]
    transformation: Transformation | None
    averaged: int = 1

    def __hash__(self) -> int:
        return hash((self.transformation, len(self.features), self.averaged))

    @classmethod
    def checked(cls, table: Table, features: Sequence[Feature], transformation: Transformation | None) -> Work:
        """Describe the pass, after the kernel has refused here what it would refuse everywhere."""
        Kernel(table.schema, features, transformation)
        wanted = features if isinstance(features, Cells) else tuple(features)
        return cls(table.schema, wanted, transformation, table.averaged)

    @property
    def nothing(self) -> Partial:
        """The sums over no rows."""
        return Partial(0, (0,) * len(self.features))

    def over(self, batches: Callable[[], Iterable[pa.RecordBatch]]) -> Partial:
        """Add up batches that have the columns of the schema, with the kernel of the local engine."""
        try:
            with one_thread():
                sums, rows = _kernel(self).start(), 0
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


@lru_cache(maxsize=1)
def _kernel(work: Work) -> Kernel:
    """Make the kernel once for all parts that a machine sums of one pass; it is as public as the work."""
    return Kernel(work.schema, work.features, work.transformation, averaged=work.averaged)


def total(parts: Iterable[Partial], nothing: Partial) -> Partial:
    """Add parts, of which there may be none."""
    for part in parts:
        nothing = nothing + part
    return nothing


def sealed(table: Table, features: Sequence[Feature], whole: Partial) -> SealedSums:
    """Seal the sums over the whole table, if every row of it was counted just once."""
    if whole.refusal:
        raise DataError(whole.refusal)
    if whole.rows != table._summed:
        raise table.changed()
    return SealedSums(features, whole.totals, denominator=weight_unit(table.averaged))


def not_readable(address: str) -> DataError:
    """Say that there is no table at an address."""
    return DataError(
        f"{address} must hold Parquet files that the cluster can read, and holds none. Check the address, and that the "
        "cluster may read it."
    )


# A machine that is lost costs at most a piece, which should not be hours of work.
_MOST_ROWS = 2**25


@dataclass(frozen=True, slots=True, repr=False)
class RowGroups:
    """Some row groups of a Parquet file; None stands for all of them."""

    path: Path
    stamp: Stamp | None
    groups: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, repr=False)
class ParquetPiece:
    """Row groups of one or more Parquet files."""

    names: tuple[str, ...]
    files: tuple[RowGroups, ...]

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows, on whichever machine this is called."""
        for file in self.files:
            _check_here(file.path)
            groups = list(file.groups if file.groups is not None else _all_groups(file.path))
            yield from arrow_files._read(file.path, file.stamp, self.names, batch_rows, groups=groups)


@dataclass(frozen=True, slots=True, repr=False)
class WholeFile:
    """All rows of a file that has to be read from its beginning to its end."""

    source: CsvSource | IpcSource

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows, on whichever machine this is called."""
        _check_here(self.source.path)
        return self.source.batches(batch_rows)


Piece = ParquetPiece | WholeFile


def cut(source: Source, count: int) -> list[Piece] | None:
    """Cut a source into about `count` pieces that can be sent and read anywhere; None if its rows are not in files."""
    if isinstance(source, ManySource):
        found = [cut(one, 1) for one in source.sources]
        return None if None in found else [piece for pieces in found for piece in pieces or ()]
    if isinstance(source, (CsvSource, IpcSource)):
        return [WholeFile(replace(source, path=source.path.resolve(), stamp=None))]
    if not isinstance(source, ParquetSource):
        return None
    files = [RowGroups(path.resolve(), stamp, None) for path, stamp in source._stamped()]
    count = max(count, -(-source.rows // _MOST_ROWS))
    # Footers are read again only where files are too few to go round.
    parts = [(f.path.stat().st_size, f) for f in files] if len(files) >= 4 * count else list(_row_groups(files))
    return [_piece(source.names, taken) for taken in _share_out(parts, count)]


def _row_groups(files: Iterable[RowGroups]) -> Iterator[tuple[int, RowGroups]]:
    """List all row groups, with their numbers of rows."""
    for file in files:
        metadata = arrow(file.path, partial(arrow_files._metadata, file.path))
        for group in range(metadata.num_row_groups):
            yield metadata.row_group(group).num_rows, replace(file, groups=(group,))


def _all_groups(path: Path) -> range:
    return range(arrow(path, partial(arrow_files._metadata, path)).num_row_groups)


def _share_out(parts: Iterable[tuple[int, RowGroups]], count: int) -> list[list[RowGroups]]:
    """Give each part, the largest first, to the piece that has least so far."""
    loads = [(0, number) for number in range(count)]
    taken: list[list[RowGroups]] = [[] for _ in loads]
    for size, part in sorted(parts, key=lambda pair: -pair[0]):
        load, least = heapq.heappop(loads)
        taken[least].append(part)
        heapq.heappush(loads, (load + size, least))
    return [piece for piece in taken if piece]


def _piece(names: tuple[str, ...], parts: list[RowGroups]) -> ParquetPiece:
    """Put the row groups of the same file together."""
    together: dict[Path, list[RowGroups]] = defaultdict(list)
    for part in parts:
        together[part.path].append(part)
    return ParquetPiece(names, tuple(_joined(same) for same in together.values()))


def _joined(same: list[RowGroups]) -> RowGroups:
    if same[0].groups is None:
        return same[0]
    return replace(same[0], groups=tuple(sorted(group for part in same for group in part.groups or ())))


def _check_here(path: Path) -> None:
    if not path.is_file():
        raise DataError(
            f"{path} must be there under the same name on every machine of the cluster and is not on one of them. "
            "Put it on a file system that all of them see, or pass a frame of the cluster."
        )
