"""A mixed table beside MST: group means and two-way tables of categories, at the same budget.

    python -m benchmarks mixed [--rows 2000 10000] [--rounds 5] [--peers] [--methods dpmm-mst ...] [--limit 600]
                               [--epsilon 1] [--delta 1e-6] [--shipped]

The table is made of public formulae: an age, an income over three orders of magnitude, a body mass index that is missing
for some, three categories and a truth value, with dependence between them. MST sees numbers as 32 bins (the income in
logarithms, one more bin for a missing value) and categories as they are. Errors are means over all groups or pairs.
Two packages draw rows that do not follow their model (peers/rounding.py); --shipped shows them as they are.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
from rich.table import Table

import smoothsynth as ss
from benchmarks.peers.environments import PEERS, PYTHON
from benchmarks.peers.run import CACHE, run_peer
from benchmarks.results import Console

BINS = 32
REGIONS, EDUCATION, SEXES = list("ABCDEF"), ["none", "school", "college", "degree"], ["f", "m"]
SCHEMA = ss.Schema(
    {
        "age": ss.Number(0, 120),
        "region": ss.Category(REGIONS),
        "education": ss.Category(EDUCATION),
        "income": ss.Number(1_000, 1_000_000, transform="log"),
        "smoker": ss.Boolean(),
        "bmi": ss.Number(10, 60, nullable=True),
        "sex": ss.Category(SEXES),
    }
)
CATEGORIES = {"region": REGIONS, "education": EDUCATION, "sex": SEXES, "smoker": [False, True]}
NUMBERS = {"age": (0.0, 120.0), "income": (np.log(1e3), np.log(1e6)), "bmi": (10.0, 60.0)}
METHODS = ("smartnoise-mst", "opendp-mst", "dpmm-mst")
NOT_PRIVATE = ("bins only (not private)", "bootstrap (not private)")


def people(rows: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw the table."""
    age = np.clip(rng.normal(48, 17, rows), 18, 95)
    region = rng.choice(6, rows, p=[0.30, 0.25, 0.20, 0.12, 0.08, 0.05])
    wealth = np.array([0.0, 0.2, -0.3, 0.5, 0.8, -0.6])[region]
    school = np.digitize(rng.normal(size=rows) + 0.3 * wealth - 0.01 * (age - 48), [-1.2, 0.1, 1.0])
    income = np.exp(9.8 + 0.35 * school + 0.4 * wealth + 0.01 * (age - 48) + 0.5 * rng.normal(size=rows))
    smoker = rng.random(rows) < 1 / (1 + np.exp(1.2 + 0.5 * school))
    bmi = 22 + 0.08 * (age - 48) + 3.5 * rng.normal(size=rows) + 2 * ~smoker
    bmi[rng.random(rows) < 0.08 + 0.15 * (school == 0)] = np.nan
    return {
        "age": age,
        "region": np.array(REGIONS, dtype=object)[region],
        "education": np.array(EDUCATION, dtype=object)[school],
        "income": np.clip(income, 1e3, 1e6),
        "smoker": smoker,
        "bmi": bmi,
        "sex": np.array(SEXES, dtype=object)[rng.integers(0, 2, rows)],
    }


def errors(real: dict[str, np.ndarray], made: dict[str, np.ndarray]) -> tuple[float, float, float]:
    """Return the errors of group means (in deviations of the column), of two-way tables and of shares (half L1)."""
    means = []
    for (name, levels), number in itertools.product(CATEGORIES.items(), NUMBERS):
        unit = np.nanstd(real[number])
        means += [abs(_mean(real, name, level, number) - _mean(made, name, level, number)) / unit for level in levels]
    tables = [
        sum(abs(np.mean((real[a] == x) & (real[b] == y)) - np.mean((made[a] == x) & (made[b] == y)))
            for x in CATEGORIES[a] for y in CATEGORIES[b]) / 2
        for a, b in itertools.combinations(CATEGORIES, 2)
    ]  # fmt: skip
    shares = [sum(abs(np.mean(real[a] == x) - np.mean(made[a] == x)) for x in CATEGORIES[a]) / 2 for a in CATEGORIES]
    return float(np.mean(means)), float(np.mean(tables)), float(np.mean(shares))


def ours(
    real: dict[str, np.ndarray], seed: int, given: argparse.Namespace
) -> tuple[dict[str, np.ndarray], float, float]:
    """Make a release of the table and time it."""
    import pandas as pd

    frame, started, clock = pd.DataFrame(real), time.process_time(), time.perf_counter()
    made = ss.release(frame, schema=SCHEMA, epsilon=given.epsilon, delta=given.delta, seed=seed)
    seconds, wall = time.process_time() - started, time.perf_counter() - clock
    return {name: made.to_pandas()[name].to_numpy() for name in SCHEMA.names}, seconds, wall


def theirs(real: dict[str, np.ndarray], method: str, seed: int, given: argparse.Namespace) -> object:
    """Run a peer on bin numbers; return its table and times, or how it ended."""
    codes, counts = _codes(real)
    job = {"epsilon": given.epsilon, "delta": given.delta, "bins": counts, "round": seed}
    job |= {"model_mb": given.model_mb, "shipped": given.shipped}
    peer = next(peer for peer in PEERS if method in peer.methods)
    ending, rows = run_peer(peer, method, numbers=codes, job=job, given=given)
    made = None if rows is None else _decoded(rows, np.random.default_rng(seed))
    return ending.status if made is None else (made, ending.seconds, ending.wall)


def _codes(real: dict[str, np.ndarray]) -> tuple[np.ndarray, list[int]]:
    columns, counts = [], []
    for name, values in real.items():
        if name in CATEGORIES:
            columns.append([CATEGORIES[name].index(v) for v in values])
            counts.append(len(CATEGORIES[name]))
        else:
            low, high = NUMBERS[name]
            place = ((np.log(values) if name == "income" else values) - low) / (high - low) * BINS
            found = np.clip(np.nan_to_num(place, nan=BINS), 0, BINS if name == "bmi" else BINS - 1)
            columns.append(np.floor(np.where(np.isnan(place), BINS, np.minimum(found, BINS - 1))).astype(int))
            counts.append(BINS + (name == "bmi"))
    return np.array(columns).T, counts


def _decoded(rows: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    made = {}
    for column, name in zip(rows.T, SCHEMA.names, strict=True):
        if name in CATEGORIES:
            made[name] = np.array(CATEGORIES[name], dtype=object)[column]
        else:
            low, high = NUMBERS[name]
            values = low + (column + rng.random(len(column))) / BINS * (high - low)
            made[name] = np.where(column >= BINS, np.nan, np.exp(values) if name == "income" else values)
    return made


def _mean(table: dict[str, np.ndarray], name: str, level: object, number: str) -> float:
    values = table[number][table[name] == level].astype(float)
    values = values[~np.isnan(values)]
    return float(np.mean(values)) if len(values) else 0.0


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000, 10_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--peers", action="store_true", help="run MST too, installing it into environments of its own")
    parser.add_argument("--methods", nargs="+", default=METHODS, help="methods of the peers")
    parser.add_argument("--shipped", action="store_true", help="leave the peers' own draw of rows as it is")
    parser.add_argument("--model-mb", type=float, default=80, help="largest model of AIM, in MB")
    parser.add_argument("--limit", type=float, default=600, help="processor seconds per run of a peer")
    parser.add_argument("--memory", type=float, default=8192, help="MB per run of a peer")
    parser.add_argument("--python", default=PYTHON, help="interpreter for the peers' environments")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of the peers' environments")
    given, console = parser.parse_args(), Console()
    shown = Table(title=f"epsilon = {given.epsilon:g}, delta = {given.delta:g}, {given.rounds} rounds")
    for heading in ("rows", "method", "group means (sd)", "two-way tables", "shares", "processor s", "wall s"):
        shown.add_column(heading)
    for rows in given.rows:
        tables = [people(rows, np.random.default_rng([rows, seed])) for seed in range(given.rounds)]
        for method in ("smoothsynth", *(given.methods if given.peers else ()), *NOT_PRIVATE):
            shown.add_row(f"{rows:,}", method, *_figures(tables, method, given))
    console.print(shown)


def _figures(tables: list[dict[str, np.ndarray]], method: str, given: argparse.Namespace) -> list[str]:
    found = []
    for seed, real in enumerate(tables):
        if method == "smoothsynth":
            made: object = ours(real, seed, given)
        elif method == NOT_PRIVATE[0]:
            made = _decoded(_codes(real)[0], np.random.default_rng(seed)), 0.0, 0.0
        elif method == NOT_PRIVATE[1]:
            picked = np.random.default_rng(seed).integers(0, len(real["age"]), len(real["age"]))
            made = {name: values[picked] for name, values in real.items()}, 0.0, 0.0
        else:
            made = theirs(real, method, seed, given)
        if isinstance(made, str):
            return [made, "", "", "", ""]
        found.append((*errors(real, made[0]), *made[1:]))
    mean = np.mean(found, axis=0)
    return [*(f"{value:.4f}" for value in mean[:3]), *(f"{value:.1f}" for value in mean[3:])]
