"""How good private bounds are: the width found over the 99.8 % range, and the rows clipped.

Five columns of one law are searched together, with the default share of the budget.

    python -m benchmarks private-bounds                 the table of docs/how-to/choose-bounds.md
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa

import smoothsynth as ss
from smoothsynth.accounting.ledger import Ledger
from smoothsynth.pipeline.plan import plan
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.measure import discover
from smoothsynth.private.table import open_table

TOGETHER = 5
LAWS = {
    "normal": lambda rng, n: rng.normal(50.0, 10.0, n),
    "uniform": lambda rng, n: -rng.random(n) * 1e-12,
    "log-normal": lambda rng, n: np.exp(rng.normal(10.0, 1.0, n)),
    "Cauchy": lambda rng, n: 1e15 * rng.standard_cauchy(n),
    "standard normal": lambda rng, n: rng.normal(0.0, 1.0, n),
    "years": lambda rng, n: rng.integers(1990, 2025, n).astype(np.float64),
}
BUDGETS = ((1.0, 0.0), (1.0, 1e-6))


def once(
    law: str, rows: int, budget: tuple[float, float], rng: np.random.Generator
) -> list[tuple[float, float]] | None:
    """Return the width found over the 99.8 % range, and the share of rows clipped, of five columns; None if it failed."""
    table = pa.table({f"{law} {i}": LAWS[law](rng, rows) for i in range(TOGETHER)})
    schema = ss.Schema({name: ss.Number("private", "private") for name in table.column_names})
    planned = plan(schema, rows, epsilon=budget[0], delta=budget[1])
    try:
        planned.discovery.refuse(rows)
        ledger = Ledger(planned.budget)
        found = discover(open_table(table, schema), planned.discovery, engine=LocalEngine(threads=1), ledger=ledger)
    except ss.PlanError:
        return None
    if found.remarks():
        return None
    columns = found.schema().columns
    return [_quality(table[name].to_numpy(), *columns[name].bounds) for name in schema.names]


def _quality(values: np.ndarray, lower: float, upper: float) -> tuple[float, float]:
    low, high = np.quantile(values, [0.001, 0.999])
    return (upper - lower) / (high - low), float(np.mean((values < lower) | (values > upper)))


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seed", type=int, default=7, help="of the tables; the noise has none")
    chosen = parser.parse_args()
    print(f"| budget | rows | {' | '.join(LAWS)} |")
    print("|---|---|" + "---|" * len(LAWS))
    for budget in BUDGETS:
        for rows in chosen.rows:
            rng = np.random.default_rng(chosen.seed)
            cells = [_cell([once(law, rows, budget, rng) for _ in range(chosen.repeats)]) for law in LAWS]
            pure = f"epsilon {budget[0]:g}" + (f", delta {budget[1]:g}" if budget[1] else "")
            print(f"| {pure} | {rows:,} | {' | '.join(cells)} |", flush=True)


def _cell(made: list[list[tuple[float, float]] | None]) -> str:
    found = [columns for columns in made if columns is not None]
    if not found:
        return "not found"
    width, clipped = np.median(np.array(found).reshape(-1, 2), axis=0)
    often = "" if len(found) == len(made) else f", found {len(found)} times in {len(made)}"
    return f"{width:.2f} ({clipped:.1%} clipped{often})"
