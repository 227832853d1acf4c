"""Public monotone transforms (log, asinh, public quantiles), bit-identical on all machines.

Logarithms that have the same bits on every machine: made of single IEEE operations, unlike those of numpy.

    log v = e log 2 + 2 artanh((m - 1)/(m + 1)),   v = m 2^e,  m in [sqrt(1/2), sqrt(2))
    artanh s = s (1 + z/3 + z^2/5 + ...),  z = s^2 <= 0.0295:  what is left out after z^10 is below 2^-54

Numpy's own may differ in the last bit with the processor and with the place of a value in an array; then sums over the
same rows would not be the same integers everywhere (docs/proofs/exactness.md).

Public monotone maps that give crowded values more room in the cube: log, asinh, ranks among public quantiles.

A transform is a fact of the schema like a bound, so it costs nothing. Values are clipped to the bounds first; then

    log                          g(v) = log v                      lower > 0
    asinh                        g(v) = asinh(v / scale)           straight near 0, like a logarithm far from it
    rank-to-public-quantiles     g(q_i) = i,  straight between     lower = q_0 < q_1 < ... < q_m = upper

and [g(lower), g(upper)] is mapped to [-1, 1]. All are made of single IEEE operations, so that a row has the same place on
every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from smoothsynth.schema import valued

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]


_TERMS = 11
# log 2 in two parts: the first times any exponent of a double is exact.
_LOG_2_HIGH, _LOG_2_LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
_ROOT = float.fromhex("0x1.6a09e667f3bcdp-1")
# Below the first, asinh is computed without a loss of digits; above the second, a^2 is not needed, and may overflow.
_SMALL, _LARGE = 0.35, 2.0**28


def log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the natural logarithm of positive numbers; NaN stays NaN."""
    s, e = _parts(values)
    return _sum(s, e)


def asinh(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inverse of sinh,  sign(v) log(a + sqrt(a^2 + 1)) with a = |v|;  NaN stays NaN."""
    size = np.abs(values)
    middle = np.minimum(size, _LARGE)
    square = middle * middle
    root = np.sqrt(square + 1.0)
    # a + sqrt(a^2 + 1) = 1 + x without the loss of digits, and log(1 + x) = 2 artanh(x / (2 + x)).
    x = middle + square / (root + 1.0)
    s, e = _parts(np.where(size < _LARGE, middle + root, size))
    e += size >= _LARGE
    small = x < _SMALL
    np.copyto(s, x / (x + 2.0), where=small)
    np.copyto(e, 0.0, where=small)
    return np.copysign(_sum(s, e), values)


def _parts(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return s and e of  log v = e log 2 + 2 artanh s."""
    m, exponent = np.frexp(values)
    e = exponent.astype(np.float64)
    low = m < _ROOT
    np.multiply(m, 2.0, out=m, where=low)
    e -= low
    return (m - 1.0) / (m + 1.0), e


def _sum(s: NDArray[np.float64], e: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return  e log 2 + 2 artanh s,  the smallest parts first."""
    z = s * s
    total = np.full_like(z, 1.0 / (2 * _TERMS - 1))
    for k in range(_TERMS - 2, 0, -1):
        total *= z
        total += 1.0 / (2 * k + 1)
    total *= z
    s *= 2.0
    total *= s
    total += s
    total += e * _LOG_2_LOW
    total += e * _LOG_2_HIGH
    return total


NAMES = ("log", "asinh", "rank-to-public-quantiles")
MOST_QUANTILES = 1000


class Transform(Protocol):
    """A rising map of the values between two bounds, and its inverse."""

    def __hash__(self) -> int: ...

    def up(self, values: Array) -> Array:
        """Return g(v) for values between the bounds; NaN stays NaN."""

    def down(self, levels: Array) -> Array:
        """Return v from g(v)."""


@dataclass(frozen=True, slots=True)
class Log:
    """g(v) = log v."""

    def up(self, values: Array) -> Array:
        """Return log v."""
        return log(values)

    def down(self, levels: Array) -> Array:
        """Return exp of the levels."""
        return np.exp(levels)


@dataclass(frozen=True, slots=True)
class Asinh:
    """g(v) = asinh(v / scale)."""

    scale: float

    def up(self, values: Array) -> Array:
        """Return asinh(v / scale)."""
        return asinh(values / self.scale)

    def down(self, levels: Array) -> Array:
        """Return scale sinh of the levels."""
        return np.sinh(levels) * self.scale


@dataclass(frozen=True, slots=True)
class Ranks:
    """g(q_i) = i, straight between: the rank of a value among public quantiles."""

    quantiles: tuple[float, ...]

    def up(self, values: Array) -> Array:
        """Return the ranks; np.interp may fuse a product and a sum, which is another bit on some machines."""
        knots = np.array(self.quantiles)
        piece = np.clip(np.searchsorted(knots, values, side="right") - 1, 0, len(knots) - 2)
        low, half = knots[piece] / 2.0, np.diff(knots / 2.0)[piece]
        return np.clip((values / 2.0 - low) / half, 0.0, 1.0) + piece

    def down(self, levels: Array) -> Array:
        """Return the values at some ranks."""
        knots = np.array(self.quantiles)
        piece = np.clip(np.nan_to_num(np.floor(levels)), 0, len(knots) - 2).astype(np.intp)
        inside = levels - piece
        return knots[piece] * (1.0 - inside) + knots[piece + 1] * inside


def transform_of(
    name: str, *, lower: float, upper: float, scale: float | None, quantiles: Sequence[float] | None
) -> Transform:
    """Return the map that a column names."""
    if name == "log":
        return Log()
    if name == "asinh":
        return Asinh(float(scale or 1.0))
    inner = [float(q) for q in quantiles or () if lower < q < upper]
    return Ranks((lower, *inner, upper))


def transform_problem(
    name: object, *, lower: float, upper: float, scale: object, quantiles: object = None, known: tuple[str, ...] = NAMES
) -> str | None:
    """Say what is wrong with a transform between bounds that were checked, in words, or None."""
    if name is not None and (not isinstance(name, str) or name not in known):
        return f"transform is {valued.shown(name)}; it must be one of {', '.join(known)}"
    if scale is not None and name != "asinh":
        return "scale is for transform = 'asinh' only: leave it out"
    if (quantiles is not None) != (name == NAMES[2]):
        return "quantiles and transform = 'rank-to-public-quantiles' go together: give both or none"
    if name == "log":
        return _log_problem(lower, upper)
    if name == "asinh":
        return _asinh_problem(scale, lower, upper)
    return _quantiles_problem(quantiles, lower, upper) if name is not None else None


def open_transform_problem(
    name: object, *, lower: object, scale: object, quantiles: object = None, known: tuple[str, ...] = NAMES
) -> str | None:
    """Say what is wrong with a transform of a column of which a bound is still to be found, in words, or None."""
    if name == NAMES[2]:
        return f"transform = {name!r} needs public bounds: public quantiles lie between them. Give lower and upper"
    if name == "log" and lower == valued.PRIVATE:
        return "transform = 'log' needs a public lower bound above 0; give one, or take 'asinh', which goes through 0"
    low = 1.0 if lower == valued.PRIVATE else float(lower)  # type: ignore[arg-type]
    # Whatever upper bound is found, it leaves more room than this.
    high = low + max(abs(low), 1.0)
    return transform_problem(name, lower=low, upper=high, scale=scale, quantiles=quantiles, known=known)


def _log_problem(lower: float, upper: float) -> str | None:
    if lower <= 0.0:
        return f"transform = 'log' needs lower > 0, and lower is {lower:g}; take 'asinh', which goes through 0"
    return _room_problem(Log(), lower, upper)


def _asinh_problem(scale: object, lower: float, upper: float) -> str | None:
    if scale is None:
        return _room_problem(Asinh(1.0), lower, upper)
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 1e-300 <= scale <= 1e300:
        return f"scale must be a positive number, not {valued.shown(scale)}"
    if max(abs(lower / 2**20), abs(upper / 2**20)) > 1e300 * scale:
        return f"scale = {scale!r} is too small for these bounds"
    return _room_problem(Asinh(float(scale)), lower, upper)


def _room_problem(transform: Transform, lower: float, upper: float) -> str | None:
    low, high = transform.up(np.array([lower, upper])).tolist()
    return "the transform leaves no room between lower and upper" if valued.too_close(low, high) else None


def _quantiles_problem(quantiles: object, lower: float, upper: float) -> str | None:
    if not isinstance(quantiles, tuple) or not 1 <= len(quantiles) <= MOST_QUANTILES:
        return f"quantiles must be a list of 1 to {MOST_QUANTILES} numbers"
    if any(isinstance(q, bool) or not isinstance(q, (int, float)) for q in quantiles):
        return "quantiles must be numbers"
    if not all(lower <= q <= upper for q in quantiles) or not any(lower < q < upper for q in quantiles):
        return "quantiles must be between lower and upper, at least one of them strictly"
    knots = [float(lower), *[float(q) for q in quantiles if lower < q < upper], float(upper)]
    if list(quantiles) != sorted(set(quantiles)) or any(map(valued.too_close, knots[:-1], knots[1:])):
        return "quantiles must rise, and be far enough apart to be told apart"
    return None
