"""Where the rows are, from noisy counts in intervals: the intervals where they stand out most, and those farther out.

A window of w intervals stands out if its noisy count is above what noise alone reaches (reach.py). The bounds are the outer
ends of the outermost windows that stand out, going inwards from both ends to the window that stands out most.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from smoothsynth.discovery.reach import reach

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from smoothsynth.accounting.charges import Charge

    # The chance to give an interval outside a peak [first, after) to be taken for one with rows by noise alone.
    Chance = Callable[[int, int, int], float]


@dataclass(frozen=True, slots=True)
class Counts:
    """Noisy counts in intervals, each the sum of so many `terms` that a charge describes."""

    numbers: tuple[int, ...]
    charge: Charge
    terms: int

    def plus(self, other: Counts) -> Counts:
        """Add the counts of a further round in the same intervals; of two scales of noise the larger one is taken."""
        pairs = zip(self.numbers, other.numbers, strict=True)
        wider = max(self.charge, other.charge, key=lambda charge: charge.scale)
        return Counts(tuple(mine + others for mine, others in pairs), wider, self.terms + other.terms)

    def reach(self, windows: int, chance: float) -> int:
        """Return what the noise of so many intervals together reaches with this chance."""
        return reach(self.charge, self.terms * windows, chance)


def hull(counts: Counts, widths: Sequence[int], *, peak_chance: float, chance: Chance) -> tuple[int, int] | None:
    """Return the first interval with rows and the one after the last; None if nothing stands out.

    `peak_chance` is that of taking noise for the peak, over all windows of these widths.
    """
    sums = [0, *accumulate(counts.numbers)]
    peak = _peak(counts, sums, widths, peak_chance / (len(counts.numbers) * len(widths)))
    if peak is None:
        return None
    first, after = peak

    def stands_out(inner: int, outwards: int) -> int | None:
        """Return the outer end of the narrowest window from `inner` outwards that stands out."""
        for width in widths:
            outer = inner + outwards * (width - 1)
            if not 0 <= outer < len(counts.numbers):
                break
            low, high = min(inner, outer), max(inner, outer) + 1
            if sums[high] - sums[low] > counts.reach(width, chance(inner, first, after) / len(widths)):
                return outer
        return None

    below = next((found for i in range(first) if (found := stands_out(i, -1)) is not None), first)
    last = len(counts.numbers) - 1
    above = next((found for i in range(last, after - 1, -1) if (found := stands_out(i, 1)) is not None), after - 1)
    return below, above + 1


def _peak(counts: Counts, sums: Sequence[int], widths: Sequence[int], chance: float) -> tuple[int, int] | None:
    """Return the window that exceeds what noise reaches by the largest factor, the first of several."""
    best, found = 1.0, None
    for width in widths:
        needed = counts.reach(width, chance)
        for low in range(len(counts.numbers) - width + 1):
            factor = (sums[low + width] - sums[low]) / needed
            if factor > best:
                best, found = factor, (low, low + width)
    return found
