"""The one source of noise: discrete Laplace and Gaussian, cube and Wishart noise, noisy maxima.

The difference of two Wishart matrices is rounded to whole numbers, exactly: it is a function of uniform numbers of which
only the first digits are drawn, and every step is computed as an interval that contains the true value. If an interval does
not tell which whole number is nearest, more digits are drawn of the same numbers. So what comes out is the rounded matrix
itself and not an approximation (docs/proofs/wishart-mechanism.md).

The only source of privacy noise: exact integer draws from the entropy of the operating system, no seed.

Noise is drawn before and apart from the sums it is added to, so nothing here depends on a private value, but for noisy
maxima. Discrete Laplace and Gaussian draws and noisy maxima are OpenDP's; `secrets` gives the uniform integers of the cube
and the digits of Wishart matrices.
"""

from __future__ import annotations

import math
import operator
import re
import secrets
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
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.accounting.charges import (
    columns_of_products,
    cube_scale,
    gaussian_sigma,
    laplace_scale,
    maxima_scale,
    pure_maxima_scale,
    wishart_scale,
)
from smoothsynth.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Below = Callable[[int], int]


# Digits drawn beyond those of the largest sum, and digits that a computation carries beyond those drawn.
_SPARE, _GUARD = 15, 10
_ONE = Decimal(1)


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
    def ends(self) -> tuple[int, int]:
        """Whole numbers between which twice the number less one lies, in units of its digits."""
        low = 2 * self.drawn - 10**self.digits
        return low, low + 2

    @property
    def signed(self) -> Interval:
        """Where twice the number less one lies, between -1 and 1."""
        low, high = self.ends
        return Interval(_shifted(low, self.digits), _shifted(high, self.digits))


def draw_wishart(columns: int, scale: float, *, below: Below) -> list[int]:
    """Draw the difference of two Wishart matrices of one more line than columns, and round it to whole numbers.

    `below` draws a whole number from 0 up to, and not including, the one that it is given.
    """
    lines = columns + 1
    digits = max(1, math.ceil(math.log10(scale) + math.log10(lines)) + _SPARE)
    turned = [_in_the_disc(digits, below) for _ in range(lines * (lines + 1) if columns else 0)]
    while turned:
        try:
            return _rounded(turned, lines, scale)
        except UndecidedError:
            turned = [(one.longer(digits, below), other.longer(digits, below)) for one, other in turned]
    return []


def _in_the_disc(digits: int, below: Below) -> tuple[Uniform, Uniform]:
    """Draw a point of the square until it lies in the disc."""
    while True:
        pair = Uniform.of(digits, below), Uniform.of(digits, below)
        while True:
            low, high = _square(pair)
            if high < 10 ** (2 * pair[0].digits):
                return pair
            if low >= 10 ** (2 * pair[0].digits):
                break
            pair = pair[0].longer(digits, below), pair[1].longer(digits, below)


def _square(pair: tuple[Uniform, Uniform]) -> tuple[int, int]:
    """Return whole numbers between which the square of a point's distance from the middle lies, in units of its digits."""
    ends = [[end * end for end in part.ends] for part in pair]
    nearest = [0 if part.ends[0] < 0 < part.ends[1] else min(own) for part, own in zip(pair, ends, strict=True)]
    return sum(nearest), sum(map(max, ends))


def _rounded(turned: list[tuple[Uniform, Uniform]], lines: int, scale: float) -> list[int]:
    """Round  scale (G G' - H H'):  G, H of lines x (lines + 1) normal numbers of variance 1/2, by Marsaglia's polar method.

    A point (u, v) of the disc with q = u^2 + v^2 gives two independent normal numbers  u f, v f  with  f^2 = -log(q) / q.
    All lie between whole numbers m and m + wide, in units of 10^-digits, so  sum g h  is off from  sum m m'  by at most
    wide (sum |m| + sum |m'|) + count wide^2.  Diagonals are divided by sqrt(2).
    """
    digits = turned[0][0].digits
    unit, do = 10**digits, _Arithmetic(digits)
    ends = [_whole(part, digits) for pair in turned for part in do.normal(pair)]
    wide = max(high - low for low, high in ends)
    matrices = np.array([low for low, _ in ends], dtype=object).reshape(2, lines, lines + 1)
    sizes = np.abs(matrices).sum(axis=(0, 2))
    middle = matrices[0] @ matrices[0].T - matrices[1] @ matrices[1].T
    off = wide * (sizes[:, None] + sizes) + 2 * (lines + 1) * wide**2
    # 1 / sqrt(2) lies between root and root + 1, in the same units.
    root = math.isqrt(unit * unit // 2)
    diagonal = np.diag_indices(lines)
    middle[diagonal], off[diagonal] = middle[diagonal] * root, off[diagonal] * (root + 1) + np.abs(middle[diagonal])
    above, below = scale.as_integer_ratio()
    units = np.full((lines, lines), 2 * below * unit**2, dtype=object)
    units[diagonal] *= unit
    low, high = ((2 * above * end + units // 2) // units for end in (middle - off, middle + off))
    upper = tuple(part[1:] for part in np.triu_indices(lines))
    if np.any(low[upper] != high[upper]):
        raise UndecidedError
    return [int(one) for one in low[upper]]


def _whole(a: Interval, digits: int) -> tuple[int, int]:
    """Return whole numbers in units of 10^-digits between which an interval lies."""
    far = _context(2 * digits, ROUND_FLOOR)
    return math.floor(a.low.scaleb(digits, far)), math.ceil(a.high.scaleb(digits, far))


class _Arithmetic:
    """Intervals rounded outwards, with some digits more than the numbers have that were drawn."""

    def __init__(self, digits: int) -> None:
        self._down, self._up = _context(digits, ROUND_FLOOR), _context(digits, ROUND_CEILING)

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

    def normal(self, pair: tuple[Uniform, Uniform]) -> tuple[Interval, Interval]:
        low, high = _square(pair)
        down, up = self._down.create_decimal(low), self._up.create_decimal(high)
        square = Interval(*(end.scaleb(-2 * pair[0].digits, self._down) for end in (down, up)))
        factor = self.root(self.over(self.log(square), square))
        return self.times(pair[0].signed, factor), self.times(pair[1].signed, factor)


def _shifted(whole: int, digits: int) -> Decimal:
    """Return whole / 10^digits, which is exact."""
    return Decimal(whole).scaleb(-digits, _context(digits, ROUND_FLOOR))


def _context(digits: int, rounding: str) -> Context:
    """Return how Decimal shall compute, whatever a user has set for all of Python."""
    wrong: list[type[DecimalException]] = [InvalidOperation, DivisionByZero, Overflow]
    return Context(digits + _GUARD, rounding, MIN_EMIN, MAX_EMAX, capitals=1, clamp=0, flags=[], traps=wrong)


# OpenDP answers in 64-bit integers and saturates. A Laplace magnitude from FAR on is redrawn beyond it.
FAR = 2**62
LARGEST_SCALE = 2.0**62
LARGEST_SIGMA = 2.0**52
# The expected number of attempts of the cube's sampler is at most e^(R / (2 scale)) <= e^4 up to here.
MOST_COORDINATES_PER_SCALE = 8
# Older OpenDP samplers are biased: a rational division was wrong (opendp/opendp issue 2638).
FIRST_UNBIASED_OPENDP = (0, 14, 2)


def add_cube_noise(sums: Sequence[int], *, sensitivity: float, epsilon: float) -> list[int]:
    """Add one joint draw z with P(z) proportional to exp(-|z|_inf / scale): exactly epsilon-private.

    scale = sensitivity / epsilon rounded up, sensitivity in the maximum norm. Hardt and Talwar 2010, the
    K-norm mechanism of the cube. Proof: docs/proofs/cube-mechanism.md.
    """
    return _add(sums, _draw_cube(len(sums), cube_scale(sensitivity, epsilon)))


def add_wishart_noise(sums: Sequence[int], *, sensitivity: float, epsilon: float) -> list[int]:
    """Add the difference of two Wishart matrices of density exp(-tr W / scale), rounded: exactly epsilon-private.

    scale = sensitivity / epsilon rounded up, sensitivity in the nuclear norm of the matrix that the sums are the upper
    triangle of, without its first entry, with diagonals over sqrt(2). Proof: docs/proofs/wishart-mechanism.md.
    """
    return _add(sums, _draw_wishart(len(sums), wishart_scale(sensitivity, epsilon)))


def add_laplace_noise(sums: Sequence[int], *, sensitivity: float, epsilon: float) -> list[int]:
    """Add independent draws with P(z) proportional to exp(-|z| / scale): exactly epsilon-private.

    scale = sensitivity / epsilon rounded up, sensitivity in the L1 norm. Canonne, Kamath and Steinke 2020.
    Proof: docs/proofs/discrete-laplace.md.
    """
    return _add(sums, _draw_laplace(len(sums), laplace_scale(sensitivity, epsilon)))


def add_gaussian_noise(sums: Sequence[int], *, sensitivity: float, multiplier: float) -> list[int]:
    """Add independent draws with P(z) proportional to exp(-z^2 / (2 sigma^2)).

    sigma^2 = (multiplier sensitivity)^2 + 4 rounded up, sensitivity in the L2 norm: as private as continuous
    Gaussian noise of `multiplier` times the sensitivity. Proof: docs/proofs/discrete-gaussian.md.
    """
    return _add(sums, _draw_gaussian(len(sums), gaussian_sigma(sensitivity, multiplier)))


def noisy_maxima(count: int, *, sensitivity: float, multiplier: float) -> Callable[[list[int]], list[int]]:
    """Return what names the places of the `count` largest of some whole numbers, each with Gumbel noise of its own.

    scale^2 = pi/2 count (multiplier sensitivity)^2, rounded up, sensitivity in the maximum norm: `count` times the
    exponential mechanism, together as private as Gaussian noise of `multiplier` times a sensitivity. Proof:
    docs/proofs/noisy-maxima.md. It is made apart from the numbers, so that nothing can fail once those are there.
    """
    return _maxima_sampler(count, maxima_scale(sensitivity, multiplier, count=count))


def pure_noisy_maxima(count: int, *, sensitivity: float, epsilon: float) -> Callable[[list[int]], list[int]]:
    """Return the same with scale = 2 count sensitivity / epsilon, rounded up: together exactly epsilon-private."""
    return _maxima_sampler(count, pure_maxima_scale(sensitivity, epsilon, count=count))


def _add(sums: Sequence[int], noise: Sequence[int]) -> list[int]:
    # operator.index refuses anything but integers, and turns fixed-width ones into Python's.
    return [operator.index(exact) + drawn for exact, drawn in zip(sums, noise, strict=True)]


def _draw_cube(count: int, scale: float) -> list[int]:
    """Draw K with P(K) proportional to (2K+1)^R exp(-K / scale), then R integers uniform on {-K..K}."""
    if count > MOST_COORDINATES_PER_SCALE * scale:
        raise PlanError(
            f"Cube noise of scale {scale:g} can serve {MOST_COORDINATES_PER_SCALE * scale:.0f} sums at most; "
            f"found {count}. Use a finer lattice, a smaller epsilon or several measurements."
        )
    radius = sum(_draw_geometric(count + 1, scale))
    while not all(secrets.randbelow(2 * radius + 2 * i) <= 2 * radius for i in range(1, count + 1)):
        radius = sum(_draw_geometric(count + 1, scale))
    return [secrets.randbelow(2 * radius + 1) - radius for _ in range(count)]


def _draw_wishart(count: int, scale: float) -> list[int]:
    """Draw the rounded upper triangle of the difference of two Wishart matrices."""
    return draw_wishart(columns_of_products(count), scale, below=secrets.randbelow)


def _draw_geometric(count: int, scale: float) -> list[int]:
    """Draw integers g >= 0 with P(g) proportional to exp(-g / scale): Laplace draws that are not negative."""
    kept: list[int] = []
    while len(kept) < count:
        missing = count - len(kept)
        kept += [z for z in _draw_laplace(2 * missing + 4 * math.isqrt(missing) + 4, scale) if z >= 0]
    return kept[:count]


def _draw_laplace(count: int, scale: float) -> list[int]:
    """Draw discrete Laplace integers; from FAR on, |z| - FAR is geometric again, which undoes saturation."""
    if scale > LARGEST_SCALE:
        raise PlanError(f"The scale of Laplace or cube noise must be at most 2^62; found {scale:g}.")
    return [z if abs(z) < FAR else _beyond(z, scale) for z in _laplace_sampler(scale)([0] * count)]


def _beyond(far: int, scale: float) -> int:
    magnitude, excess = FAR, -1
    while not 0 <= excess < FAR:
        magnitude += FAR if excess >= FAR else 0
        excess = _laplace_sampler(scale)([0])[0]
    return magnitude + excess if far > 0 else -magnitude - excess


def _draw_gaussian(count: int, sigma: float) -> list[int]:
    """Draw discrete Gaussian integers; with sigma <= 2^52 saturation has probability below e^(-2^20)."""
    if sigma > LARGEST_SIGMA:
        raise PlanError(f"The deviation of Gaussian noise must be at most 2^52; found {sigma:g}.")
    return _gaussian_sampler(sigma)([0] * count)


@lru_cache(maxsize=16)
def _laplace_sampler(scale: float) -> Callable[[list[int]], list[int]]:
    _prepare_opendp()
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance

    sampler: Callable[[list[int]], list[int]] = make_laplace(
        vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=scale
    )
    return sampler


@lru_cache(maxsize=16)
def _gaussian_sampler(sigma: float) -> Callable[[list[int]], list[int]]:
    _prepare_opendp()
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance

    sampler: Callable[[list[int]], list[int]] = make_gaussian(
        vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=sigma
    )
    return sampler


@lru_cache(maxsize=16)
def _maxima_sampler(count: int, scale: float) -> Callable[[list[int]], list[int]]:
    if scale > LARGEST_SCALE:
        raise PlanError(f"The scale of noisy maxima must be at most 2^62; found {scale:g}.")
    _prepare_opendp()
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_top_k
    from opendp.measures import zero_concentrated_divergence
    from opendp.metrics import linf_distance

    sampler: Callable[[list[int]], list[int]] = make_noisy_top_k(
        vector_domain(atom_domain(T="i64")),
        linf_distance(T="i64"),
        zero_concentrated_divergence(),
        k=count,
        scale=scale,
    )
    return sampler


def _prepare_opendp() -> None:
    """Refuse samplers known to be biased, and accept that OpenDP calls these measurements contributed."""
    from opendp.mod import enable_features

    found = version("opendp")
    if tuple(int(part) for part in re.findall(r"\d+", found)[:3]) < FIRST_UNBIASED_OPENDP:
        raise PlanError(f"Noise needs opendp 0.14.2 or later, older samplers are biased; found {found}.")
    enable_features("contrib")
