"""Logarithms that have the same bits on every machine: made of single IEEE operations, unlike those of numpy.

    log v = e log 2 + 2 artanh((m - 1)/(m + 1)),   v = m 2^e,  m in [sqrt(1/2), sqrt(2))
    artanh s = s (1 + z/3 + z^2/5 + ...),  z = s^2 <= 0.0295:  what is left out after z^10 is below 2^-54

Numpy's own may differ in the last bit with the processor and with the place of a value in an array; then sums over the
same rows would not be the same integers everywhere (docs/proofs/exactness.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
