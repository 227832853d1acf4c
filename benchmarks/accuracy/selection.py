"""All pairs measured at once, beside pairs that are noisily chosen first (docs/notes/0005).

    python -m benchmarks selection [--data DIR] [--rounds 5]

Both have the same share of the same budget and see the same standardised rows. "All pairs": every product of rows cut to
length sqrt(0.6 d), read as the model reads them (model/copula.py). "Chosen": k rounds of report-noisy-max on
|sum y_i y_j|, each value clipped to 2.5, then those k products measured; the number k and the part of the share that
goes into choosing are the best in hindsight, which favours it. Figures are the mean absolute error of a correlation, and
after the stroke that of the true correlations beyond 0.3. Study code: noise is drawn in floating point.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from rich.console import Console
from rich.table import Table

from smoothsynth.accounting.charges import gaussian_multiplier
from smoothsynth.model.copula import denoise
from smoothsynth.paper.reproduction import available, data_folder

EPSILON, DELTA, SHARE = 1.0, 1e-10, 0.48
SHORT, CLIP, MEANS, STRONG = 0.6, 2.5, 1.3, 0.3
PARTS, COUNTS = (0.1, 0.25, 0.5), (0.1, 0.25, 0.5, 1.0)
# Made-up tables: rows, columns, columns in a block; within a block columns share a factor.
BLOCKS = ((2_000, 300, 4), (20_000, 300, 4), (20_000, 300, 2), (20_000, 100, 2), (100_000, 300, 2))


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the data sets [SMOOTHSYNTH_DATA or ../shared/data]")
    parser.add_argument("--rounds", type=int, default=5)
    given, console = parser.parse_args(), Console()
    rng = np.random.default_rng(0)
    found, _ = available(data_folder(given.data))
    tables = {one.label: one.points for one in found}
    tables |= {f"blocks of {size}: {n:,} x {d}": _blocks(n, d, size, rng) for n, d, size in BLOCKS}
    shown = Table(title=f"mean absolute error of a correlation, epsilon = {EPSILON:g}, delta = {DELTA:g}")
    for heading in ("table", "rows", "columns", "none measured", "all pairs", "chosen pairs (best k, part)"):
        shown.add_column(heading)
    for name, points in tables.items():
        shown.add_row(name, *study(points, given.rounds, rng))
    console.print(shown)


def study(points: np.ndarray, rounds: int, rng: np.random.Generator) -> tuple[str, ...]:
    """Return the figures of one table as text."""
    n, d = points.shape
    spread = points.std(axis=0)
    kept = points[:, spread > 1e-9]
    y = (kept - kept.mean(axis=0)) / kept.std(axis=0)
    true, d = np.corrcoef(y.T), y.shape[1]
    multiplier = gaussian_multiplier(EPSILON, DELTA) / math.sqrt(SHARE)
    everything = np.mean([_errors(true, _all_pairs(y, multiplier, rng)) for _ in range(rounds)], axis=0)
    tried = []
    for k, part in ((max(1, round(d * c)), part) for c in COUNTS for part in PARTS):
        errors = np.mean([_errors(true, _chosen(y, multiplier, k, part, rng)) for _ in range(rounds)], axis=0)
        tried.append((*errors, k, part))
    best = min(tried)
    nothing = _errors(true, np.eye(d))
    return (
        f"{n:,}",
        str(d),
        f"{nothing[0]:.4f} / {nothing[1]:.2f}",
        f"{everything[0]:.4f} / {everything[1]:.2f}",
        f"{best[0]:.4f} / {best[1]:.2f} ({best[2]}, {best[3]:g})",
    )


def _all_pairs(y: np.ndarray, multiplier: float, rng: np.random.Generator) -> np.ndarray:
    n, d = y.shape
    lengths = np.linalg.norm(y, axis=1, keepdims=True)
    short = y * np.minimum(1.0, math.sqrt(SHORT * d) / np.maximum(lengths, 1e-9))
    noise = MEANS * SHORT * d * multiplier / n
    drawn = np.triu(rng.normal(0.0, noise, (d, d)), 1)
    moments = short.T @ short / n
    scale = np.sqrt(np.diag(moments))
    rest = moments + drawn + drawn.T
    np.fill_diagonal(rest, 0.0)
    return np.clip(denoise(rest, noise) / np.outer(scale, scale), -1.0, 1.0)


def _chosen(y: np.ndarray, multiplier: float, k: int, part: float, rng: np.random.Generator) -> np.ndarray:
    """Choose k pairs and measure them; an epsilon-DP choice is mu-GDP with mu = 2 Phi^-1(e^eps/(1 + e^eps)) ~ 1.25 eps."""
    n, d = y.shape
    clipped = np.clip(y, -CLIP, CLIP)
    sums = clipped.T @ clipped
    i, j = np.triu_indices(d, 1)
    k = min(k, len(i))
    epsilon = math.sqrt(part) / multiplier / math.sqrt(k) / 1.2534
    scores = np.abs(sums[i, j]) + 0.0
    taken: list[int] = []
    for _ in range(k):
        noisy = scores + rng.laplace(0.0, 2.0 * (2.0 * CLIP**2) / epsilon, len(scores))
        taken.append(int(np.argmax(noisy)))
        scores[taken[-1]] = -np.inf
    noise = 2.0 * CLIP**2 * math.sqrt(k) * multiplier / math.sqrt(1.0 - part)
    found = np.eye(d)
    measured = (sums[i, j][taken] + rng.normal(0.0, noise, k)) / n
    found[i[taken], j[taken]] = found[j[taken], i[taken]] = np.clip(measured, -1.0, 1.0)
    return found


def _errors(true: np.ndarray, found: np.ndarray) -> tuple[float, float]:
    off = ~np.eye(len(true), dtype=bool)
    difference = np.abs(true - found)
    return float(difference[off].mean()), float(difference[off & (np.abs(true) > STRONG)].mean())


def _blocks(n: int, d: int, size: int, rng: np.random.Generator) -> np.ndarray:
    factors = np.repeat(rng.normal(size=(n, d // size)), size, axis=1)
    return np.sqrt(0.7) * factors + np.sqrt(0.3) * rng.normal(size=(n, d))
