"""Places for a layered drawing: rooms in rows, and lanes between them for arrows that pass a row.

Sweeps put each item at the mean place of those it is joined to; the order with the fewest crossings is kept, and bettered by
swaps of neighbours (Sugiyama, Tagawa and Toda 1981). Places are integers: the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LEFT = 48
BOX, GAP, LANE = 144, 24, 24
SWEEPS = 60
STRAIGHT = 8  # how much more two lanes of one arrow pull each other than rooms do


@dataclass(slots=True, eq=False)
class Item:
    """A room (or, without a name, the place where an arrow passes a row) and the items it is joined to."""

    name: str | None
    x: int = 0
    above: list[Item] = field(default_factory=list)
    below: list[Item] = field(default_factory=list)

    @property
    def half(self) -> int:
        """Half of its width."""
        return BOX // 2 if self.name else 0

    def apart(self, other: Item) -> int:
        """Return how far the centre of the next item has to be from its own."""
        return self.half + other.half + (GAP if self.name or other.name else LANE)


def placed(
    layers: Sequence[Sequence[str]], edges: Sequence[tuple[str, str]]
) -> tuple[list[list[Item]], list[list[Item]]]:
    """Return the rows of items from the lowest up, and the items on the way of each edge, which goes down."""
    rows = [[Item(name) for name in layer] for layer in layers]
    rooms = {item.name: (level, item) for level, row in enumerate(rows) for item in row}
    paths = []
    for start, end in edges:
        (high, first), (low, last) = rooms[start], rooms[end]
        lanes = [Item(None) for _ in range(high - low - 1)]
        for level, lane in zip(range(high - 1, low, -1), lanes, strict=True):
            rows[level].append(lane)
        paths.append([first, *lanes, last])
        for upper, lower in pairwise(paths[-1]):
            upper.below.append(lower)
            lower.above.append(upper)
    for row in rows:
        _spread(row, [0] * len(row))
    _order(rows)
    for _ in range(SWEEPS):
        for row in rows:
            _spread(row, [_mean(item, [*item.above, *item.below]) for item in row])
    shift = LEFT - min(item.x - item.half for row in rows for item in row)
    for item in (item for row in rows for item in row):
        item.x += shift
    return rows, paths


def _order(rows: list[list[Item]]) -> None:
    """Sweep down and up, and keep the order that crosses least."""
    best, kept = _crossings(rows), [list(row) for row in rows]
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 else reversed(rows):
            aims = {item: _mean(item, item.below if sweep % 2 else item.above) for item in row}
            row.sort(key=aims.__getitem__)
            _spread(row, [aims[item] for item in row])
        if (found := _crossings(rows)) < best:
            best, kept = found, [list(row) for row in rows]
    for row, order in zip(rows, kept, strict=True):
        row[:] = order
    while any(_swapped(rows, row, i) for row in rows for i in range(len(row) - 1)):
        pass


def _swapped(rows: list[list[Item]], row: list[Item], i: int) -> bool:
    """Swap two neighbours of a row if fewer arrows cross then; tell whether."""
    before, kept = _crossings(rows), row[i : i + 2]
    row[i : i + 2] = kept[::-1]
    if _crossings(rows) < before:
        return True
    row[i : i + 2] = kept
    return False


def _crossings(rows: list[list[Item]]) -> int:
    count = 0
    for lower, upper in pairwise(rows):
        place = {item: i for row in (lower, upper) for i, item in enumerate(row)}
        edges = [(place[item], place[other]) for item in upper for other in item.below]
        count += sum((a - c) * (b - d) < 0 for (a, b), (c, d) in combinations(edges, 2))
    return count


def _mean(item: Item, others: list[Item]) -> int:
    weights = [1 if item.name or other.name else STRAIGHT for other in others]
    total = sum(weight * other.x for weight, other in zip(weights, others, strict=True))
    return total // sum(weights) if others else item.x


def _spread(row: list[Item], aims: list[int]) -> None:
    """Put the items of a row near their aims, in their order and apart: half-way between two one-sided answers."""
    right, left = list(aims), list(aims)
    for i in range(1, len(row)):
        right[i] = max(aims[i], right[i - 1] + row[i - 1].apart(row[i]))
    for i in range(len(row) - 2, -1, -1):
        left[i] = min(aims[i], left[i + 1] - row[i].apart(row[i + 1]))
    for item, a, b in zip(row, right, left, strict=True):
        item.x = (a + b) // 2
