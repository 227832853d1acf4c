"""Search for private bounds: dyadic grid, refinement, noise tail bounds.

Public intervals in which rows are counted: powers of two at first, then equal steps of few digits.

Every edge is a power of two or a decimal of few digits, made without rounding, so that everybody finds the same.

How far noise alone reaches: what a sum of noisy counts must exceed before it is taken for rows.

Where the rows are, from noisy counts in intervals: the intervals where they stand out most, and those farther out.

A window of w intervals stands out if its noisy count is above what noise alone reaches (reach.py). The bounds are the outer
ends of the outermost windows that stand out, going inwards from both ends to the window that stands out most.

The search for the bounds of one column: powers of two, then equal steps, and what the noisy counts show.

Round 1 counts rows between powers of two and finds the magnitude. Rounds 2 and 3 count them in equal steps over what was
found: if they lie in few of them, round 3 has finer steps; if not, its counts are added to those of round 2.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, cast

from smoothsynth.queries.measurement import FULL_WEIGHT
from smoothsynth.schema.category import Intervals
from smoothsynth.schema.date import CALENDAR
from smoothsynth.schema.unresolved import Searched, public_bounds, with_bounds
from smoothsynth.schema.valued import POWERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from smoothsynth.accounting.charges import Charge

    Chance = Callable[[int, int, int], float]


# Intervals of a grid of equal steps; the first and the last are open.
CELLS = 64
STEPS = CELLS - 2
_DIGITS = (1, 2, 5)

Side = float | None


def doubling_edges(kind: str, lower: Side, upper: Side) -> tuple[float, ...]:
    """Return 0 and plus and minus the powers of two of a kind of column, between its public bounds."""
    least, most = POWERS[kind]
    powers = [2.0**k for k in range(least, most + 1)]
    edges = [*(-power for power in reversed(powers)), 0.0, *powers]
    return tuple(e for e in edges if (lower is None or e > lower) and (upper is None or e < upper))


@dataclass(frozen=True, slots=True)
class Grid:
    """STEPS equal steps of  digit 10^power,  from `start` steps on: the edges  start, start + 1, ..., start + STEPS.

    `covered` are the intervals, first and after the last, of what the grid was laid over.
    """

    digit: int
    power: int
    start: int = 0
    covered: tuple[int, int] = (1, CELLS - 1)

    @property
    def edges(self) -> tuple[float, ...]:
        """The edges."""
        return tuple(self.at(self.start + i) for i in range(STEPS + 1))

    @property
    def step(self) -> Fraction:
        """The width of a step."""
        return Fraction(10) ** self.power * self.digit

    def at(self, place: int) -> float:
        """Return the edge at so many steps from 0, the double nearest to that decimal."""
        return float(f"{place * self.digit}e{self.power}")

    def below(self, value: Fraction) -> int:
        """Return the last place that is not above a value."""
        return math.floor(value / self.step)

    def above(self, value: Fraction) -> int:
        """Return the first place that is not below a value."""
        return math.ceil(value / self.step)


def grid_over(low: float, high: float, *, lower: Side, upper: Side, whole: bool) -> Grid:
    """Return the finest grid that covers [low, high], within public sides, in whole steps if need be.

    Steps that are left over go to both sides, or to the open one.
    """
    first, last = Fraction(low), Fraction(high)
    for digit, power in _rising_steps((last - first) / STEPS, whole=whole):
        grid = Grid(digit, power)
        # The first edge lies inside a public bound: what is beyond counts in the open interval.
        least = None if lower is None else grid.below(Fraction(lower)) + 1
        most = None if upper is None else grid.above(Fraction(upper)) - 1 - STEPS
        start, end = grid.below(first), grid.above(last)
        if end - start <= STEPS:
            placed = start - (STEPS - (end - start)) // 2
            placed = placed if least is None else max(placed, least)
            placed = placed if most is None else min(placed, most)
            return Grid(digit, power, placed, (max(start - placed + 1, 0), min(end - placed + 1, CELLS)))
    raise AssertionError("steps rise without end")


def _rising_steps(width: Fraction, *, whole: bool) -> Iterator[tuple[int, int]]:
    """Yield digits and powers of ten of rising steps, from one that is not above `width`."""
    power = max(math.floor(math.log10(width)) - 1, 0) if whole else math.floor(math.log10(width)) - 1
    while True:
        yield from ((digit, power) for digit in _DIGITS)
        power += 1


def reach(charge: Charge, terms: int, chance: float) -> int:
    """Return the least whole x, in units of the noisy numbers, with  P(sum of `terms` noises >= x) <= chance.

        Gaussian   sigma sqrt(terms) z,                                            P(N >= z) = chance
        Laplace    the least x with  min_t (1 - (b t)^2)^-terms e^(-t x) <= chance;   b ln(1 / (2 chance)) for one term

    Integer noise is no wider: sinh(s)/sinh(a) <= s/a for s <= a puts the discrete Laplace transform below the other
    (docs/proofs/private-schema.md, section 2).
    """
    unit = _gaussian(chance) * math.sqrt(terms) if charge.multiplier is not None else _laplace(terms, chance)
    return math.ceil(charge.scale * unit)


@functools.lru_cache(maxsize=1024)
def _gaussian(chance: float) -> float:
    return _least(lambda z: 0.5 * math.erfc(z / math.sqrt(2.0)) <= chance)


@functools.lru_cache(maxsize=4096)
def _laplace(terms: int, chance: float) -> float:
    if terms == 1:
        return -math.log(min(2.0 * chance, 1.0))

    def rare(x: float) -> bool:
        # The best t solves  2 terms t / (1 - t^2) = x,  here with b = 1.
        t = x / (terms + math.hypot(terms, x))
        return -terms * math.log1p(-t * t) - t * x <= math.log(chance)

    return _least(rare)


def _least(holds: Callable[[float], bool]) -> float:
    """Bisect for the least number from which on a condition holds."""
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


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


def likeliest(counts: Counts, widths: Sequence[int]) -> tuple[int, int]:
    """Return the window that comes nearest to standing out, where none does."""
    sums, chance = [0, *accumulate(counts.numbers)], PEAK_CHANCE / len(counts.numbers)
    return cast("tuple[int, int]", _peak(counts, sums, widths, chance, least=-math.inf))


def _peak(
    counts: Counts, sums: Sequence[int], widths: Sequence[int], chance: float, *, least: float = 1.0
) -> tuple[int, int] | None:
    """Return the window that exceeds what noise reaches by the largest factor, the first of several."""
    best, found = least, None
    for width in widths:
        needed = counts.reach(width, chance)
        for low in range(len(counts.numbers) - width + 1):
            factor = (sums[low + width] - sums[low]) / needed
            if factor > best:
                best, found = factor, (low, low + width)
    return found


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
    # Why the bounds may be far from the rows, in words.
    doubt: str = ""

    @classmethod
    def of(cls, name: str, column: Searched, searched: int) -> BoundsSearch:
        """Begin the search in a column, one of so many that are searched together."""
        return cls(name, column, searched, *public_bounds(column))

    @property
    def intervals(self) -> Intervals:
        """The intervals in which rows are counted next."""
        edges = doubling_edges(self.column.kind, self.floor, self.ceiling) if self.grid is None else self.grid.edges
        return Intervals(edges, self.column.kind, self.column)

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
        """Take the powers of two between which rows stand out; where none do, those where it is likeliest.

        A budget is spent by now, so whatever the counts are, bounds follow from them.
        """
        intervals = self.intervals
        chance = PEAK_CHANCE / self.searched
        found = hull(counts, DOUBLING_WIDTHS, peak_chance=chance, chance=_Magnitudes(intervals.edges).chance)
        if found is None and self.floor is None and self.ceiling is None:
            found = _both_signs(counts, chance)
        doubt = (
            "" if found is not None else "no interval between powers of two has enough rows to stand out of the noise"
        )
        low, high, beyond = self._powers(intervals.edges, *(found or likeliest(counts, DOUBLING_WIDTHS)))
        if beyond and not doubt:
            doubt = f"many values are beyond {intervals.edges[-1]:.3g}, where no bounds are looked for"
        if self.column.kind == "number" and max(abs(low), abs(high)) <= 2.0 ** POWERS["number"][0]:
            doubt = "nothing but zeros stands out of the noise"
            low, high = _near(self.floor, self.ceiling)
        low = 0.0 if 0.0 < low <= high / _NEAR_ZERO and self.floor is None else low
        high = 0.0 if 0.0 > high >= low / _NEAR_ZERO and self.ceiling is None else high
        floor = 0.0 if self.floor is None and low >= 0.0 else self.floor
        ceiling = 0.0 if self.ceiling is None and high <= 0.0 else self.ceiling
        return replace(self, span=(low, high), floor=floor, ceiling=ceiling, done=1, doubt=doubt)._closer()

    def _powers(self, edges: Sequence[float], first: int, after: int) -> tuple[float, float, bool]:
        """Return the ends of some intervals, and whether they went on beyond the last power of two."""
        least, most = int(self.floor is None), len(edges) + int(self.ceiling is not None)
        low, high = max(min(first, most - 1), least), min(max(after, least + 1), most)
        ends = (self.floor, *edges, self.ceiling)
        return cast("float", ends[low]), cast("float", ends[high]), (low, high) != (first, after)

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

    @property
    def remark(self) -> str | None:
        """What readers should know of the bounds, if they were not found."""
        if not self.doubt:
            return None
        return (
            f"Column {self.name!r}: {self.doubt}, so its bounds are a guess from noisy counts, and values beyond them are "
            "clipped. Declare public bounds for it, or take more rows, a larger epsilon or bounds_share."
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


def _near(floor: Side, ceiling: Side) -> tuple[float, float]:
    """Return bounds of numbers that are all 0, or as near to it as public sides allow."""
    return max(-1.0, -1.0 if floor is None else floor), min(1.0, 1.0 if ceiling is None else ceiling)


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
