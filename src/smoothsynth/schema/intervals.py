"""Which of some public intervals a number lies in: one coordinate for each interval, as for the levels of a category.

Only for looking for bounds (smoothsynth.discovery): such a column is measured and never released.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.schema.value import plain

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Intervals:
    """The intervals (-inf, e_0), [e_0, e_1), ..., [e_m, inf) of a column of some kind; a missing cell lies in none."""

    edges: tuple[float, ...]
    kind: str

    nullable = True

    @property
    def dimensions(self) -> int:
        """The number of coordinates: one for each interval."""
        return len(self.edges) + 1

    @property
    def roles(self) -> tuple[str, ...]:
        """What each coordinate is."""
        return ("level",) * self.dimensions

    def problem(self) -> str | None:
        """Say what is wrong with the edges, in words, or None."""
        rising = all(low < high for low, high in zip(self.edges, self.edges[1:], strict=False))
        return None if self.edges and rising else "the edges of intervals must rise"

    def facts(self) -> dict[str, Any]:
        """Return plain values."""
        return {"type": "intervals", "kind": self.kind, "edges": list(self.edges)}

    def codes(self, values: Any) -> NDArray[np.int16]:
        """Return the place of each cell among the intervals, -1 for a missing one."""
        numbers = plain(values, self.kind)
        places = np.searchsorted(np.array(self.edges), numbers, side="right").astype(np.int16)
        places[np.isnan(numbers)] = -1
        return places
