"""The search for the bounds of one column: powers of two, then equal steps, and what the noisy counts show.

Round 1 counts rows between powers of two and finds the magnitude. Rounds 2 and 3 count them in equal steps over what was
found: if they lie in few of them, round 3 has finer steps; if not, its counts are added to those of round 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from smoothsynth.discovery.grids import CELLS, STEPS, doubling_edges, grid_over
from smoothsynth.discovery.hull import Counts, hull
from smoothsynth.errors import DataError
from smoothsynth.queries.measurement import FULL_WEIGHT
from smoothsynth.schema.category import Intervals
from smoothsynth.schema.date import CALENDAR
from smoothsynth.schema.unresolved import Searched, public_bounds, with_bounds
from smoothsynth.schema.valued import POWERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.accounting.charges import Charge
    from smoothsynth.discovery.grids import Grid, Side

ROUNDS = 3
# Chances that noise alone makes a peak, over all columns of a round, and an outlier on one side of one column. In the first
# round an outlier may cost a factor of two for each power of two, so it has to stand out the more the farther it is.
PEAK_CHANCE, FAR_CHANCE, SIDE_CHANCE = 0.01, 0.005, 0.2
STEP_CHANCE = SIDE_CHANCE / (CELLS // 2)
# Before the last round an outlier would keep the search from looking closer.
CAUTION = 0.1
DOUBLING_WIDTHS, STEP_WIDTHS = (1, 2, 4), (1, 2, 4, 8, 16, 32)
# Rows in at most so many steps are looked at more closely; found spans that reach down to an eighth of their end go to 0.
FEW_STEPS = STEPS // 8
_NEAR_ZERO = 8
# Bounds are moved out by as many times the share of rows that can hide in the noise, of what was found.
OUTWARDS = 6


@dataclass(frozen=True, slots=True)
class BoundsSearch:
    """How far the search for the bounds of a column is: the span found so far, and the intervals counted next."""

    name: str
    column: Searched
    searched: int
    floor: Side
    ceiling: Side
    span: tuple[float, float] | None = None
    grid: Grid | None = None
    counts: Counts | None = None
    done: int = 0

    @classmethod
    def of(cls, name: str, column: Searched, searched: int) -> BoundsSearch:
        """Begin the search in a column, one of so many that are searched together."""
        return cls(name, column, searched, *public_bounds(column))

    @property
    def intervals(self) -> Intervals:
        """The intervals in which rows are counted next."""
        edges = doubling_edges(self.column.kind, self.floor, self.ceiling) if self.grid is None else self.grid.edges
        return Intervals(edges, self.column.kind)

    def after(self, numbers: Sequence[int], charge: Charge) -> BoundsSearch:
        """Return the search after the noisy counts of a round."""
        counts = Counts(tuple(numbers), charge, 1)
        if self.grid is None:
            return self._located(counts)
        counts = counts if self.counts is None else self.counts.plus(counts)
        last = self.done + 1 == ROUNDS
        chance = _Steps(*self.grid.covered, 1.0 if last else CAUTION).chance
        found = hull(counts, STEP_WIDTHS, peak_chance=PEAK_CHANCE / self.searched, chance=chance)
        # What was found before still holds where nothing stands out in finer steps.
        first, after = (1, CELLS - 1) if found is None else found
        span = self._ends(self.grid.edges, first, after)
        kept = replace(self, span=span, counts=counts, done=self.done + 1)
        closer = found is not None and after - first <= FEW_STEPS
        return kept._closer() if closer and not last else kept

    def _ends(self, edges: Sequence[float], first: int, after: int) -> tuple[float, float]:
        """Return the ends of some intervals; an open one ends at a public bound, or at the grid's end."""
        low = self.floor if first == 0 and self.floor is not None else edges[min(max(first, 1), STEPS) - 1]
        high = self.ceiling if after == CELLS and self.ceiling is not None else edges[max(min(after, CELLS - 1), 2) - 1]
        return low, high

    def _located(self, counts: Counts) -> BoundsSearch:
        """Take the powers of two between which rows stand out."""
        intervals = self.intervals
        chance = PEAK_CHANCE / self.searched
        found = hull(counts, DOUBLING_WIDTHS, peak_chance=chance, chance=_Magnitudes(intervals.edges).chance)
        if found is None and self.floor is None and self.ceiling is None:
            found = _both_signs(counts, chance)
        if found is None:
            raise self._not_found("no interval between powers of two has enough rows to stand out of the noise")
        ends = (self.floor, *intervals.edges, self.ceiling)
        low, high = ends[found[0]], ends[found[1]]
        if low is None or high is None:
            raise self._not_found(f"many values are beyond {intervals.edges[-1]:.3g}, where no bounds are looked for")
        if self.column.kind == "number" and max(abs(low), abs(high)) <= 2.0 ** POWERS["number"][0]:
            raise self._not_found("nothing but zeros stands out of the noise")
        low = 0.0 if 0.0 < low <= high / _NEAR_ZERO and self.floor is None else low
        high = 0.0 if 0.0 > high >= low / _NEAR_ZERO and self.ceiling is None else high
        floor = 0.0 if self.floor is None and low >= 0.0 else self.floor
        ceiling = 0.0 if self.ceiling is None and high <= 0.0 else self.ceiling
        return replace(self, span=(low, high), floor=floor, ceiling=ceiling, done=1)._closer()

    def _closer(self) -> BoundsSearch:
        """Lay equal steps over the span."""
        low, high = self._span
        whole = self.column.kind != "number"
        grid = grid_over(low, high, lower=self.floor, upper=self.ceiling, whole=whole)
        return replace(self, grid=grid, counts=None)

    def closed(self, rows: int) -> Searched:
        """Return the column with the bounds found, moved out by what can hide in the noise."""
        low, high = map(Fraction, self._span)
        grid, counts = self.grid, self.counts
        if grid is None or counts is None:
            raise AssertionError("not all rounds have been")
        hidden = Fraction(counts.reach(1, STEP_CHANCE), counts.terms * FULL_WEIGHT)
        out = (high - low) * min(OUTWARDS * hidden / rows, Fraction(1))
        lower, upper = grid.at(grid.below(low - out)), grid.at(grid.above(high + out))
        # The last whole number of a step is the one before its end.
        upper = upper if self.column.kind == "number" else max(upper - 1.0, lower + 1.0)
        floor, ceiling = _farthest(self.column.kind, self.floor, self.ceiling)
        least = 0.0 if self.column.kind == "number" else 1.0
        lower, upper = max(min(lower, ceiling - least), floor), min(max(upper, floor + least), ceiling)
        return with_bounds(self.column, lower, upper)

    @property
    def _span(self) -> tuple[float, float]:
        if self.span is None:
            raise AssertionError("the first round has not been")
        return self.span

    def _not_found(self, why: str) -> DataError:
        return DataError(
            f"Column {self.name!r}: its private bounds were not found: {why}. What was measured so far is spent. Declare "
            "public bounds for it, or take more rows, a larger epsilon, a larger bounds_share or fewer private columns."
        )


def needed_rows(charge: Charge, intervals: int, searched: int) -> int:
    """Return how many rows between two powers of two stand out of the noise of the first round."""
    chance = PEAK_CHANCE / (searched * intervals * len(DOUBLING_WIDTHS))
    return math.ceil(_rows(charge, chance))


def hidden_rows(charge: Charge) -> int:
    """Return about how many rows beyond a bound can hide in the noise of the last round."""
    return math.ceil(_rows(charge, STEP_CHANCE))


def _rows(charge: Charge, chance: float) -> Fraction:
    return Fraction(Counts((), charge, 1).reach(1, chance), FULL_WEIGHT)


def _farthest(kind: str, floor: Side, ceiling: Side) -> tuple[float, float]:
    """Return what bounds cannot go beyond: known sides, whole numbers that doubles can tell apart, the calendar."""
    most = math.inf if kind == "number" else 2.0 ** POWERS[kind][1]
    first, last = CALENDAR.get(kind, (-most, most))
    return (first if floor is None else floor), (last if ceiling is None else ceiling)


@dataclass(frozen=True, slots=True)
class _Steps:
    """How far equal steps are from those that the grid was laid over."""

    covered: int
    after: int
    caution: float

    def chance(self, inner: int, _first: int, _after: int) -> float:
        """Give every covered step the same chance; beyond them a quarter, and a quarter for each further width of them."""
        beyond = max(self.covered - inner, inner - self.after + 1, 0)
        return self.caution * STEP_CHANCE * (0.25 ** (1.0 + beyond / (self.after - self.covered)) if beyond else 1.0)


def _both_signs(counts: Counts, chance: float) -> tuple[int, int] | None:
    """Find the magnitude of values of both signs, of which neither stands out by itself."""
    half = len(counts.numbers) // 2
    pairs = zip(reversed(counts.numbers[:half]), counts.numbers[half:], strict=True)
    together = replace(counts, numbers=tuple(minus + plus for minus, plus in pairs), terms=2 * counts.terms)
    found = hull(together, DOUBLING_WIDTHS, peak_chance=chance, chance=_far_chance)
    return None if found is None else (half - found[1], half + found[1])


def _far_chance(inner: int, first: int, after: int) -> float:
    """Halve the chance for each power of two between an interval and the peak."""
    return FAR_CHANCE * 0.5 ** min(max(first - inner, inner - after + 1) + 1, 60)


@dataclass(frozen=True, slots=True)
class _Magnitudes:
    """How far apart intervals between powers of two are: by magnitude; values of the other sign are as near as their own."""

    edges: tuple[float, ...]

    def chance(self, inner: int, first: int, after: int) -> float:
        """Halve the chance for each power of two between an interval and the peak; zero is near, and none is impossible."""
        peak = [self._magnitude(place) for place in range(first, after)]
        own = self._magnitude(inner)
        away = 2 if self._holds_zero(inner) else max(min(peak) - own, own - max(peak), 0)
        return FAR_CHANCE / 2.0 * max(0.5 ** (away + 1), 1.0 / len(self.edges))

    def _holds_zero(self, place: int) -> bool:
        low, high = (-math.inf, *self.edges, math.inf)[place : place + 2]
        return low <= 0.0 < high

    def _magnitude(self, place: int) -> int:
        """Return the exponent of the end of an interval that is farther from zero."""
        ends = self.edges[max(place - 1, 0) : place + 1]
        return math.frexp(max(map(abs, ends)))[1]
