"""The paper's parameters and printed results, exactly as printed: NOT PRIVATE AS PRINTED.

Nothing here may reach a release: the constants understate the noise that the stated epsilon needs (see
docs/proofs), so what they make is marked and has no receipt. Source: Jin et al., Algorithm 1 (step 1,
step 9), section 3.2, Algorithm 2 with Theorem 3.6, the rule for R of the last appendix, and Tables 2 to 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from smoothsynth.errors import PlanError

NOT_PRIVATE = "not private as printed"

EPSILON = 1.0
DELTA = 1e-10
CANDIDATES = 10_000
QUERIES = 10_000
ROUNDS = 20
SIGMAS = (2, 4, 6, 8, 10)
C_TILDE = 0.5


@dataclass(frozen=True, slots=True)
class Parameters:
    """Step 1 of Algorithm 1 and the scale of step 9, as printed (not private as printed)."""

    degrees: int  # t: degrees 0..t-1 per column, so t^d moments
    levels: int  # N: grid levels per column
    rows: int  # m: rows of the synthetic table
    lattice: int  # L: numbers are rounded to multiples of 1/L
    laplace_scale: float  # step 9
    privacy: str = field(default=NOT_PRIVATE, init=False)


@dataclass(frozen=True, slots=True)
class PrintedResult:
    """One line of a printed result table: worst-case errors at each sigma, and seconds at the worst sigma."""

    absolute: dict[int, float]
    relative: dict[int, float]
    seconds: float
    privacy: str = field(default=NOT_PRIVATE, init=False)


def parameters(rows: int, dimensions: int, *, order: int, epsilon: float, delta: float = 0.0) -> Parameters:
    """Return the parameters of Theorem 1 (delta = 0) or Theorem 2 (delta > 0) as printed.

    Theorem 1, with s = 2d + K:
        t = ceil(n^(1/s))  N = ceil(n^(K/s))  m = ceil(n^(1 + (K+1)/s))  L = ceil(n^((d+K)/s))
        noise Lap(t^d / (n eps))
    Theorem 2, with s = 3d + 2K and v = n^2 / log(1/delta):
        t = ceil(v^(1/s))  N = ceil(v^(K/s))  m = ceil(v^((2d+2K+1)/s))  L = ceil(v^((d+K)/s))
        noise Lap(sqrt(t^d log(1/delta)) / (n eps))
    """
    _check(rows, dimensions, order=order, epsilon=epsilon, delta=delta)
    n, d, K = rows, dimensions, order
    if delta == 0.0:
        base, s, size = float(n), 2 * d + K, 2 * d + 2 * K + 1
    else:
        base, s, size = n**2 / math.log(1 / delta), 3 * d + 2 * K, 2 * d + 2 * K + 1
    t = _ceil_power(base, 1, s)
    return Parameters(
        degrees=t,
        levels=_ceil_power(base, K, s),
        rows=_ceil_power(base, size, s),
        lattice=_ceil_power(base, d + K, s),
        laplace_scale=moment_noise_scale(t**d, n, epsilon=epsilon, delta=delta),
    )


def moment_noise_scale(count: int, rows: int, *, epsilon: float, delta: float = 0.0) -> float:
    """Return the Laplace scale of step 9 for `count` moments, as printed (not private as printed).

    delta = 0:  count / (n eps)                          the paper prints count = t^d
    delta > 0:  sqrt(count log(1/delta)) / (n eps)

    The accelerated version measures R functions in place of t^d; the paper does not restate the scale.
    """
    if delta == 0.0:
        return count / (rows * epsilon)
    return math.sqrt(count * math.log(1 / delta)) / (rows * epsilon)


def basis_count(
    rows: int,
    dimensions: int,
    *,
    sigma: float,
    delta: float = 0.0,
    rounding: Literal["ceil", "round", "floor"] = "ceil",
) -> int:
    """Return R, the number of basis functions of the accelerated version, without the constant.

        R = 0.5 n^(d/(2d + sigma^2))       delta = 0
        R = 0.5 n^(2d/(3d + 2 sigma^2))    delta > 0

    The paper says neither how R is rounded nor whether the constant is one of the R. Here R is rounded
    up, as step 1 rounds, and the constant, whose moment is always 1, is not counted.
    """
    d, K = dimensions, sigma**2
    exponent = d / (2 * d + K) if delta == 0.0 else 2 * d / (3 * d + 2 * K)
    value = C_TILDE * math.exp(exponent * math.log(rows))
    whole = {"ceil": math.ceil(value), "round": round(value), "floor": math.floor(value)}[rounding]
    return max(1, whole)


def subspace_noise_scale(
    rows: int, dimensions: int, *, rank: int, iterations: int, epsilon: float, delta: float = 0.0
) -> float:
    """Return sigma of Algorithm 2 as printed (not private as printed).

    Gaussian, delta > 0:  5 d sqrt(4 k L log(1/delta)) / (n eps)
    Laplace,  delta = 0:  50 d^(3/2) k L / (n eps)
    """
    n, d, k, L = rows, dimensions, rank, iterations
    if delta == 0.0:
        return 50 * d * math.sqrt(d) * k * L / (n * epsilon)
    return 5 * d * math.sqrt(4 * k * L * math.log(1 / delta)) / (n * epsilon)


def _ceil_power(base: float, numerator: int, denominator: int) -> int:
    """Return ceil(base^(numerator/denominator)), deaf to rounding errors above an exact integer."""
    value = base ** (numerator / denominator)
    nearest = round(value)
    return int(nearest if math.isclose(value, nearest, rel_tol=1e-12) else math.ceil(value))


def _check(rows: int, dimensions: int, *, order: int, epsilon: float, delta: float) -> None:
    if rows < 1 or dimensions < 1 or order < 1:
        raise PlanError(
            f"rows, dimensions and order must be at least 1; found {rows}, {dimensions} and {order}. "
            "Correct the arguments."
        )
    if not epsilon > 0 or not 0.0 <= delta < 1.0:
        raise PlanError(
            f"epsilon must be positive and delta in [0, 1); found {epsilon} and {delta}. Correct the budget."
        )
