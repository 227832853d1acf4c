"""A point in R dimensions with density proportional to exp(-|z|_2 / scale), rounded to whole numbers, exactly.

The point is a function of uniform numbers of which only the first digits are drawn. Every step is computed as an interval
that contains the true value. If an interval does not tell which whole number is nearest, more digits are drawn of the same
numbers. So what comes out is the rounded point itself and not an approximation (docs/proofs/ball-mechanism.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_FLOOR,
    Context,
    Decimal,
    DecimalException,
    DivisionByZero,
    InvalidOperation,
    Overflow,
)
from functools import reduce
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Below = Callable[[int], int]

# Digits drawn beyond those of the largest sum, and digits that a computation carries beyond those drawn.
_SPARE, _GUARD = 15, 10
_ONE, _HALF = Decimal(1), Decimal("0.5")


class UndecidedError(ArithmeticError):
    """More digits must be drawn before a computation can go on."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Two numbers between which the true one lies."""

    low: Decimal
    high: Decimal


@dataclass(frozen=True, slots=True)
class Uniform:
    """A number between 0 and 1 of which the first `digits` decimal places are drawn."""

    drawn: int
    digits: int

    @classmethod
    def of(cls, digits: int, below: Below) -> Uniform:
        """Draw the first digits."""
        return cls(below(10**digits), digits)

    def longer(self, digits: int, below: Below) -> Uniform:
        """Draw further digits of the same number."""
        return Uniform(self.drawn * 10**digits + below(10**digits), self.digits + digits)

    @property
    def unit(self) -> Interval:
        """Where it lies between 0 and 1."""
        return Interval(_shifted(self.drawn, self.digits), _shifted(self.drawn + 1, self.digits))

    @property
    def signed(self) -> Interval:
        """Where twice the number less one lies, between -1 and 1."""
        whole = 10**self.digits
        return Interval(
            _shifted(2 * self.drawn - whole, self.digits), _shifted(2 * self.drawn + 2 - whole, self.digits)
        )


def draw_ball(count: int, scale: float, *, below: Below) -> list[int]:
    """Draw a direction and a length, and round their product to the nearest whole numbers.

    `below` draws a whole number from 0 up to, and not including, the one that it is given.
    """
    if not count:
        return []
    digits = max(1, math.ceil(math.log10(scale) + math.log10(count + 1)) + _SPARE)
    turned = [_in_the_disc(digits, below) for _ in range((count + 1) // 2)]
    length = [Uniform.of(digits, below) for _ in range(count)]
    while True:
        try:
            return _rounded(turned, length, count, scale)
        except UndecidedError:
            turned = [(one.longer(digits, below), other.longer(digits, below)) for one, other in turned]
            length = [one.longer(digits, below) for one in length]


def _in_the_disc(digits: int, below: Below) -> tuple[Uniform, Uniform]:
    """Draw a point of the square until it lies in the disc."""
    while True:
        pair = Uniform.of(digits, below), Uniform.of(digits, below)
        while True:
            square = _Arithmetic(pair[0].digits).square(pair)
            if square.high < 1:
                return pair
            if square.low >= 1:
                break
            pair = pair[0].longer(digits, below), pair[1].longer(digits, below)


def _rounded(turned: list[tuple[Uniform, Uniform]], length: list[Uniform], count: int, scale: float) -> list[int]:
    """Round  scale Gamma G / |G|:  Gamma = -log of a product of uniforms, G normal by Marsaglia's polar method.

    A point (u, v) of the disc with q = u^2 + v^2 gives two independent normal numbers  u f, v f  with  f^2 = -log(q) / q,
    up to a common factor.
    """
    do = _Arithmetic(turned[0][0].digits)
    normal = [part for pair in turned for part in do.normal(pair)][:count]
    square = reduce(do.add, (do.times(part, part) for part in normal))
    gamma = do.log(reduce(do.times, (one.unit for one in length)))
    factor = do.times(Interval(Decimal(scale), Decimal(scale)), do.over(gamma, do.root(square)))
    return [do.nearest(do.times(factor, part)) for part in normal]


class _Arithmetic:
    """Intervals rounded outwards, with some digits more than the numbers have that were drawn."""

    def __init__(self, digits: int) -> None:
        self._down, self._up = _context(digits, ROUND_FLOOR), _context(digits, ROUND_CEILING)

    def add(self, a: Interval, b: Interval) -> Interval:
        return Interval(self._down.add(a.low, b.low), self._up.add(a.high, b.high))

    def times(self, a: Interval, b: Interval) -> Interval:
        ends = [(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return Interval(min(self._down.multiply(*two) for two in ends), max(self._up.multiply(*two) for two in ends))

    def over(self, a: Interval, b: Interval) -> Interval:
        """Divide numbers that are greater than 0."""
        if a.low <= 0 or b.low <= 0:
            raise UndecidedError
        return Interval(self._down.divide(a.low, b.high), self._up.divide(a.high, b.low))

    def root(self, a: Interval) -> Interval:
        """Take the square root of what is greater than 0. Decimal rounds it to the nearest, whatever the context says."""
        if a.low <= 0:
            raise UndecidedError
        return Interval(self._down.next_minus(self._down.sqrt(a.low)), self._up.next_plus(self._up.sqrt(a.high)))

    def log(self, a: Interval) -> Interval:
        """Take minus the logarithm of a number between 0 and 1. Decimal rounds it to the nearest."""
        if a.low <= 0:
            raise UndecidedError
        low, high = self._down.ln(min(a.high, _ONE)), self._up.ln(a.low)
        return Interval(self._down.next_minus(low.copy_negate()), self._up.next_plus(high.copy_negate()))

    def square(self, pair: tuple[Uniform, Uniform]) -> Interval:
        """Return where the square of a point's distance from the middle of the disc lies."""
        u, v = pair[0].signed, pair[1].signed
        return self.add(self.times(u, u), self.times(v, v))

    def normal(self, pair: tuple[Uniform, Uniform]) -> tuple[Interval, Interval]:
        square = self.square(pair)
        factor = self.root(self.over(self.log(square), square))
        return self.times(pair[0].signed, factor), self.times(pair[1].signed, factor)

    def nearest(self, a: Interval) -> int:
        low, high = math.floor(self._down.add(a.low, _HALF)), math.floor(self._up.add(a.high, _HALF))
        if low != high:
            raise UndecidedError
        return low


def _shifted(whole: int, digits: int) -> Decimal:
    """Return whole / 10^digits, which is exact."""
    return Decimal(whole).scaleb(-digits, _context(digits, ROUND_FLOOR))


def _context(digits: int, rounding: str) -> Context:
    """Return how Decimal shall compute, whatever a user has set for all of Python."""
    wrong: list[type[DecimalException]] = [InvalidOperation, DivisionByZero, Overflow]
    return Context(digits + _GUARD, rounding, MIN_EMIN, MAX_EMAX, capitals=1, clamp=0, flags=[], traps=wrong)
