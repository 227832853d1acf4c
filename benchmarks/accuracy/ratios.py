"""Our errors over those of the best private baseline, measure by measure, for any tables (kinds.py, tables.py)."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

import smoothsynth as ss
from benchmarks.accuracy.baselines import PRIVATE_BASELINES, bootstrap
from benchmarks.accuracy.metrics import Judge
from benchmarks.peers.bins import from_bins, to_bins
from benchmarks.peers.environments import PEERS, PYTHON
from benchmarks.peers.run import CACHE, run_peer
from benchmarks.results import Console

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    Points = NDArray[np.float64]

# Peers see numbers as so many bins.
BINS = 32
NOT_OTHERS = ("ours", "bootstrap")
MEASURES = {
    "rel_2": "kernels, width 2",
    "rel_4": "width 4",
    "narrow": "narrow kernels",
    "ridge": "ridge functions",
    "polynomial": "polynomials",
    "w1": "Wasserstein",
    "corr": "correlations",
}


def parser(description: str | None, *, rounds: int, queries: int | None = None) -> argparse.ArgumentParser:
    """Return a command line with the choices that all such runs have."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--epsilon", type=float, default=1.0)
    made.add_argument("--delta", type=float, nargs="+", default=[0.0, 1e-6])
    made.add_argument("--rounds", type=int, default=rounds)
    made.add_argument("--peers", nargs="*", default=[], help="methods of benchmarks/peers, where delta is not 0")
    made.add_argument("--model-mb", type=float, default=5, help="largest model of AIM, in MB")
    made.add_argument("--bins", type=int, default=BINS, help="bins in which peers see a number")
    made.add_argument(
        "--replacing", action="store_true", help="OpenDP's peers with the noise of our promise, for replacing a row"
    )
    made.add_argument("--limit", type=float, default=600, help="processor seconds per run of a peer")
    made.add_argument("--memory", type=float, default=8192, help="MB per run of a peer")
    made.add_argument("--python", default=PYTHON, help="interpreter for the peers' environments")
    made.add_argument("--cache", type=Path, default=CACHE, help="folder of the peers' environments")
    if queries is not None:
        made.add_argument("--queries", type=int, default=queries, help="for each kernel width and round")
    return made


def scores(
    frame: pd.DataFrame, real: Points, schema: ss.Schema, given: argparse.Namespace, *, delta: float, seed: int
) -> dict[str, list[float]]:
    """Return the errors of one release, of each baseline and of a bootstrap; `real` are the rows of the frame in the cube."""
    judge, rng = Judge(real, queries=given.queries, seed=seed), np.random.default_rng(seed)
    made = ss.release(frame, schema=schema, epsilon=given.epsilon, delta=delta, seed=seed)
    tables = {"ours": made.unit_rows(), "bootstrap": bootstrap(real, rng)}
    for name, baseline in PRIVATE_BASELINES.items():
        tables[name] = baseline(real, rng, epsilon=given.epsilon, delta=delta)
    found = {name: judge(rows).as_row() for name, rows in tables.items()}
    measured = {name: [row[measure] for measure in MEASURES] for name, row in found.items()}
    job = {"epsilon": given.epsilon, "delta": delta, "bins": given.bins, "round": seed, "replacing": given.replacing}
    for method in given.peers if delta else ():
        rows = peer_rows(method, to_bins(real, bins=given.bins), job, given)
        decoded = None if rows is None else schema.snap(from_bins(rows, bins=given.bins, rng=rng))
        row = None if decoded is None else judge(decoded).as_row()
        measured[method] = [math.nan if row is None else row[measure] for measure in MEASURES]
    return measured


def peer_rows(
    method: str, numbers: NDArray[np.int64], job: dict[str, Any], given: argparse.Namespace
) -> NDArray[np.int64] | None:
    """Return the rows of bin numbers that a peer makes, or None after saying how it failed."""
    peer = next(peer for peer in PEERS if method in peer.methods)
    ending, rows = run_peer(peer, method, numbers=numbers, job={**job, "model_mb": given.model_mb}, given=given)
    if rows is None:
        Console(stderr=True).print(f"{method}: {ending.status}", highlight=False)
    return rows


def ratios(rounds: Sequence[dict[str, list[float]]]) -> tuple[Points, Points]:
    """Return our mean errors over those of the best of the others, and over those of a bootstrap, measure by measure."""
    means = {name: np.mean([one[name] for one in rounds], axis=0) for name in rounds[0]}
    best = np.fmin.reduce([mean for name, mean in means.items() if name not in NOT_OTHERS])
    return means["ours"] / best, means["ours"] / means["bootstrap"]


class Shown:
    """A table of ratios, a line for each table; below, geometric means and how often ours is worse."""

    def __init__(self, given: argparse.Namespace, *, delta: float) -> None:
        title = f"epsilon = {given.epsilon:g}, delta = {delta:g}: over the best of the others (over a bootstrap)"
        self._table = Table("table", "rows", "columns", *MEASURES.values(), title=title)
        self._best: list[Points] = []

    def add(self, name: str, rows: int, columns: int, best: Points, chance: Points) -> None:
        """Add the ratios of one table."""
        figures = [f"{b:.2f} ({c:.1f})" for b, c in zip(best, chance, strict=True)]
        self._table.add_row(name, f"{rows:,}", str(columns), *figures)
        self._best.append(best)

    def ended(self) -> Table:
        """Return the table with its last lines."""
        found = np.array(self._best)
        self._table.add_section()
        means = (f"{math.exp(mean):.2f}" for mean in np.mean(np.log(found), axis=0))
        self._table.add_row("geometric mean", "", "", *means)
        self._table.add_row("worse than the best", "", "", *(f"{share:.0%}" for share in np.mean(found > 1.0, axis=0)))
        return self._table
