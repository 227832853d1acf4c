"""The synthetic rows as text inside the page, so that a browser can answer questions from them without a network.

Rows that fit are written as doubles, bit for bit. Larger tables are rounded to 2^16 places between the bounds of each
column, and tables larger still are thinned to every k-th row; the page says which.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.report.columns import own_units
from smoothsynth.schema.valued import to_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.release import Release

_PLACES = 2**16 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """Which rows and columns the page holds, how exactly, and their bytes, one column after another."""

    encoding: str
    chosen: NDArray[np.int64]
    rows: int
    columns: int
    data: bytes

    @property
    def whole(self) -> bool:
        """Whether the page holds every row to the last bit."""
        return self.encoding == "float64" and len(self.chosen) == self.rows

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for the page."""
        return {
            "encoding": self.encoding,
            "held": len(self.chosen),
            "rows": self.rows,
            "base64": base64.b64encode(self.data).decode("ascii"),
        }


def embed(release: Release, names: Sequence[str], *, most_bytes: int) -> Embedding:
    """Choose the most exact form of the rows that fits into `most_bytes`, before base64, which adds a third."""
    rows = release.table.num_rows
    if 8 * rows * len(names) <= most_bytes:
        chosen = np.arange(rows)
        parts = [own_units(release, name).astype("<f8").tobytes() for name in names]
        return Embedding("float64", chosen, rows, len(names), b"".join(parts))
    held = min(rows, max(1, most_bytes // (2 * max(1, len(names)))))
    # The middle row of each of `held` equal parts.
    chosen = ((2 * np.arange(held) + 1) * rows) // (2 * held)
    parts = []
    for name in names:
        column = release.schema.columns[name]
        unit = to_unit(own_units(release, name)[chosen], column)  # type: ignore[arg-type]
        parts.append(np.rint((unit + 1.0) / 2.0 * _PLACES).astype("<u2").tobytes())
    return Embedding("uint16", chosen, rows, len(names), b"".join(parts))
