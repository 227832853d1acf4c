"""Public intervals in which rows are counted: powers of two at first, then equal steps of few digits.

Every edge is a power of two or a decimal of few digits, made without rounding, so that everybody finds the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from smoothsynth.schema.valued import POWERS

if TYPE_CHECKING:
    from collections.abc import Iterator

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
