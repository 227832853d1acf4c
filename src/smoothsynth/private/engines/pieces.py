"""Files cut into pieces of about equal size, so that many machines can each read their own."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from smoothsynth.errors import DataError
from smoothsynth.private import parquet_files
from smoothsynth.private.comma_separated import CsvSource
from smoothsynth.private.ipc_files import IpcSource
from smoothsynth.private.parquet_files import ParquetSource
from smoothsynth.private.reading import ManySource
from smoothsynth.private.stored import Stamp, arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from smoothsynth.private.table import Source

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
            yield from parquet_files._read(file.path, file.stamp, self.names, batch_rows, groups=groups)


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
        return [piece for pieces in found for piece in pieces or ()]
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
        metadata = arrow(file.path, partial(parquet_files._metadata, file.path))
        for group in range(metadata.num_row_groups):
            yield metadata.row_group(group).num_rows, replace(file, groups=(group,))


def _all_groups(path: Path) -> range:
    return range(arrow(path, partial(parquet_files._metadata, path)).num_row_groups)


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
