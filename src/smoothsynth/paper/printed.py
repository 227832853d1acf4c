"""The paper's parameters and printed results, exactly as printed: NOT PRIVATE AS PRINTED.

Nothing here may reach a release: the constants understate the noise that the stated epsilon needs (see
docs/proofs), so what they make is marked and has no receipt. Source: Jin et al., Algorithm 1 (step 1,
step 9), section 3.2, Algorithm 2 with Theorem 3.6, the rule for R of the last appendix, and Tables 2 to 6.

The paper's printed tables as data (not private as printed).

Source: Jin et al., Table 2 (data sets), Tables 3 and 4 (PSI ellipsoid), Tables 5 and 6 (hypercube).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from smoothsynth.errors import PlanError

NOT_PRIVATE = "not private as printed"

EPSILON = 1.0
DELTA = 1e-10
CANDIDATES = 10_000
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


Candidates: TypeAlias = Literal["ellipsoid", "hypercube"]


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set of the paper: its name there, rows and continuous columns."""

    name: str
    rows: int
    dimensions: int


@dataclass(frozen=True, slots=True)
class PrintedTable:
    """A printed table of worst-case errors: 10,000 queries a round, mean of 20 rounds, epsilon = 1."""

    caption: str
    candidates: Candidates
    delta: float
    results: dict[str, PrintedResult]
    privacy: str = NOT_PRIVATE


DATA_SETS = (
    DataSet("CRM", 1993, 100),
    DataSet("CTG", 2126, 20),
    DataSet("PAM", 20000, 40),
    DataSet("PKS", 5875, 20),
    DataSet("WDBC", 569, 30),
)

_Line: TypeAlias = tuple[tuple[float, ...], tuple[float, ...], float]


def _table(caption: str, *, candidates: Candidates, delta: float, lines: dict[str, _Line]) -> PrintedTable:
    results = {
        name: PrintedResult(dict(zip(SIGMAS, absolute, strict=True)), dict(zip(SIGMAS, relative, strict=True)), seconds)
        for name, (absolute, relative, seconds) in lines.items()
    }
    return PrintedTable(caption, candidates, delta, results)


ELLIPSOID_PURE = _table(
    "Worst-case error of epsilon-differential privacy (C = 10^4)",
    candidates="ellipsoid",
    delta=0.0,
    lines={
        "CRM": ((0.001, 0.035, 0.033, 0.022, 0.020), (1.084, 0.256, 0.083, 0.037, 0.027), 1.1),
        "CTG": ((0.046, 0.041, 0.027, 0.014, 0.005), (0.209, 0.063, 0.033, 0.015, 0.006), 1.1),
        "PAM": ((0.007, 0.006, 0.004, 0.001, 0.004), (0.058, 0.011, 0.006, 0.001, 0.004), 1.2),
        "PKS": ((0.006, 0.007, 0.001, 0.007, 0.004), (0.059, 0.013, 0.002, 0.008, 0.004), 0.9),
        "WDBC": ((0.037, 0.059, 0.039, 0.011, 0.012), (0.329, 0.110, 0.053, 0.013, 0.014), 1.0),
    },
)

ELLIPSOID_APPROXIMATE = _table(
    "Worst-case error of (epsilon, delta)-differential privacy (C = 10^4)",
    candidates="ellipsoid",
    delta=DELTA,
    lines={
        "CRM": ((0.001, 0.018, 0.034, 0.020, 0.020), (0.631, 0.126, 0.083, 0.034, 0.028), 7.5),
        "CTG": ((0.042, 0.030, 0.023, 0.014, 0.008), (0.192, 0.045, 0.028, 0.016, 0.008), 1.1),
        "PAM": ((0.012, 0.020, 0.006, 0.003, 0.001), (0.089, 0.033, 0.007, 0.003, 0.002), 6.9),
        "PKS": ((0.015, 0.002, 0.003, 0.001, 0.006), (0.109, 0.003, 0.003, 0.001, 0.007), 1.4),
        "WDBC": ((0.045, 0.032, 0.019, 0.018, 0.011), (0.388, 0.061, 0.026, 0.021, 0.013), 1.2),
    },
)

HYPERCUBE_PURE = _table(
    "Worst-case error of epsilon-differential privacy (hypercube)",
    candidates="hypercube",
    delta=0.0,
    lines={
        "CRM": ((0.001, 0.028, 0.035, 0.031, 0.031), (1.721, 0.226, 0.101, 0.051, 0.046), 7.2),
        "CTG": ((0.089, 0.075, 0.050, 0.028, 0.017), (0.796, 0.139, 0.066, 0.033, 0.019), 1.8),
        "PAM": ((0.111, 0.160, 0.097, 0.062, 0.043), (0.646, 0.255, 0.121, 0.070, 0.047), 9.7),
        "PKS": ((0.071, 0.079, 0.050, 0.027, 0.017), (0.655, 0.154, 0.068, 0.032, 0.019), 3.4),
        "WDBC": ((0.040, 0.062, 0.029, 0.019, 0.015), (0.309, 0.137, 0.037, 0.022, 0.017), 2.7),
    },
)

HYPERCUBE_APPROXIMATE = _table(
    "Worst-case error of (epsilon, delta)-differential privacy (hypercube)",
    candidates="hypercube",
    delta=DELTA,
    lines={
        "CRM": ((0.001, 0.027, 0.041, 0.034, 0.027), (1.773, 0.258, 0.093, 0.054, 0.039), 14.5),
        "CTG": ((0.103, 0.075, 0.042, 0.024, 0.019), (0.884, 0.140, 0.055, 0.028, 0.021), 2.6),
        "PAM": ((0.101, 0.158, 0.104, 0.067, 0.042), (0.595, 0.253, 0.128, 0.076, 0.046), 15.3),
        "PKS": ((0.099, 0.086, 0.048, 0.027, 0.022), (0.924, 0.165, 0.065, 0.032, 0.025), 3.2),
        "WDBC": ((0.040, 0.046, 0.040, 0.021, 0.019), (0.340, 0.099, 0.057, 0.026, 0.021), 3.3),
    },
)

TABLES = (ELLIPSOID_PURE, ELLIPSOID_APPROXIMATE, HYPERCUBE_PURE, HYPERCUBE_APPROXIMATE)


def printed_table(candidates: Candidates, *, delta: float) -> PrintedTable:
    """Return the printed table for these candidates, pure (delta = 0) or (epsilon, delta)."""
    pure, approximate = {
        "ellipsoid": (ELLIPSOID_PURE, ELLIPSOID_APPROXIMATE),
        "hypercube": (HYPERCUBE_PURE, HYPERCUBE_APPROXIMATE),
    }[candidates]
    return pure if delta == 0.0 else approximate
