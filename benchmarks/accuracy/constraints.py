"""Constraints: how many rows break them without, and what they do to accuracy.

    python -m benchmarks constraints [--rows 10000] [--rounds 10] [--tables pressures taxes]

Four tables made of public formulae. Each is released twice at the same budget, with and without its constraints. Means and
W1 (the Wasserstein distance of a column) are in deviations of the column, on coordinates of the cube; correlations are of
coordinates. Figures are means over columns or pairs and rounds; `worst` is the largest of any round.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.table import Table
from scipy.stats import wasserstein_distance

import smoothsynth as ss
from benchmarks.results import Console
from smoothsynth.schema.constraints import broken

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPSILON, DELTA = 1.0, 1e-6
AMOUNT = {"transform": "asinh", "scale": 1000.0}
HEADINGS = ("table", "constraints", "rows that break one", "means", "W1", "correlations", "worst", "seconds")


def pressures(rows: int, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """Draw two blood pressures and an age."""
    systolic = np.clip(rng.normal(128, 18, rows), 80, 220)
    diastolic = np.clip(systolic * 0.62 + rng.normal(0, 7, rows) - rng.gamma(1.0, 3.0, rows), 40, systolic - 1)
    age = np.clip(rng.normal(50, 15, rows) + 0.2 * (systolic - 128), 18, 95)
    return {"age": age, "systolic": systolic, "diastolic": diastolic}


def taxes(rows: int, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """Draw a heavy-tailed income and its two parts."""
    gross = np.exp(rng.normal(10.3, 0.7, rows)).clip(100, 5e6)
    tax = gross * np.clip(rng.beta(3, 9, rows) + 0.02 * np.log(gross / 3e4), 0, 0.6)
    return {"net": gross - tax, "tax": tax, "gross": gross}


def events(rows: int, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """Draw the ages at three events, one after the other."""
    first = rng.gamma(6, 4, rows).clip(0, 80)
    second = (first + rng.gamma(1.5, 4, rows)).clip(0, 110)
    return {"first": first, "second": second, "third": (second + rng.gamma(1, 6, rows)).clip(0, 110)}


def counts(rows: int, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """Draw two counts and their sum."""
    visits = rng.poisson(4, rows).clip(0, 40)
    tests = rng.poisson(2 + 0.5 * visits).clip(0, 40)
    return {"visits": visits, "tests": tests, "all": visits + tests}


AGES = ss.Number(0, 110)
TABLES: dict[str, tuple[Any, dict[str, Any], list[str]]] = {
    "pressures": (
        pressures,
        {"age": ss.Number(18, 100), "systolic": ss.Number(60, 260), "diastolic": ss.Number(30, 200)},
        ["diastolic <= systolic"],
    ),
    "taxes": (
        taxes,
        {"net": ss.Number(0, 5e6, **AMOUNT), "tax": ss.Number(0, 3e6, **AMOUNT), "gross": ss.Number(0, 5e6, **AMOUNT)},
        ["net + tax = gross"],
    ),
    "events": (events, {"first": AGES, "second": AGES, "third": AGES}, ["first <= second <= third"]),
    "counts": (
        counts,
        {"visits": ss.Integer(0, 40), "tests": ss.Integer(0, 40), "all": ss.Integer(0, 80)},
        ["visits + tests = all", "sum(visits) = {visits}"],
    ),
}


def scores(real: NDArray[np.float64], made: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the errors of means and W1, in deviations, and of correlations."""
    spread = real.std(axis=0)
    means = np.abs(real.mean(axis=0) - made.mean(axis=0)) / spread
    distances = [wasserstein_distance(r, m) / s for r, m, s in zip(real.T, made.T, spread, strict=True)]
    pairs = np.triu_indices(real.shape[1], 1)
    correlations = np.abs(np.corrcoef(real.T) - np.corrcoef(made.T))[pairs]
    return float(means.mean()), float(np.mean(distances)), float(correlations.mean())


def release(frame: pd.DataFrame, schema: ss.Schema, kept: ss.Schema, seed: int) -> tuple[float, ...]:
    """Release a table; return the share of rows that break a constraint of `kept`, the errors, and the time."""
    started = time.process_time()
    made = ss.release(frame, schema=schema, epsilon=EPSILON, delta=DELTA, seed=seed).to_arrow()
    seconds = time.process_time() - started
    columns = {name: made[name] for name in schema.names}
    wrong = np.any([broken(r, columns, schema.columns) for r in kept.rules.relations], axis=0)
    real = schema.to_unit({name: frame[name].to_numpy() for name in schema.names})
    return float(wrong.mean()), *scores(real, schema.to_unit(columns)), seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    given = parser.parse_args()
    shown = Table(title=f"{given.rows:,} rows, epsilon {EPSILON:g}, delta {DELTA:g}, {given.rounds} rounds")
    for heading in HEADINGS:
        shown.add_column(heading, justify="left" if heading in HEADINGS[:2] else "right")
    for name in given.tables:
        make, columns, texts = TABLES[name]
        found: dict[str, list[tuple[float, ...]]] = {"without": [], "with": []}
        for seed in range(given.rounds):
            frame = pd.DataFrame(make(given.rows, np.random.default_rng(seed)))
            totals = {column: int(values.sum()) for column, values in frame.items()}
            kept = ss.Schema(columns, [text.format(**totals) for text in texts])
            found["without"].append(release(frame, ss.Schema(columns), kept, seed))
            found["with"].append(release(frame, kept, kept, seed))
        for which, lines in found.items():
            wrong, means, distance, correlation, seconds = np.mean(lines, axis=0)
            worst = max(line[3] for line in lines)
            figures = (means, distance, correlation, worst)
            shown.add_row(name, which, f"{100 * wrong:.2f} %", *(f"{x:.4f}" for x in figures), f"{seconds:.2f}")
    Console(width=110).print(shown)
