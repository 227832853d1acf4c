"""The paper's printed tables as data (not private as printed).

Source: Jin et al., Table 2 (data sets), Tables 3 and 4 (PSI ellipsoid), Tables 5 and 6 (hypercube).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from smoothsynth.paper.printed import DELTA, NOT_PRIVATE, SIGMAS, PrintedResult

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
