"""Columns of 20,000 codes: half L1 distance of codes and chapters beside flat histograms; time and memory.

Made-up codes of four tiers, like those of ICD-10: 22 chapters, about 260 blocks, 2,100 categories, 20,000 codes. Shares fall
by Zipf's law among the children of every node. A flat histogram has the whole budget for one tier; what is negative in it is
set to 0, and the rest is scaled to the number of rows.

    python -m benchmarks hierarchy                 the table of docs/how-to/many-levels.md
    python -m benchmarks hierarchy --no-size       without the release of 10^6 rows x 3 columns
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import smoothsynth as ss
from smoothsynth.accounting.charges import gaussian_multiplier

CHILDREN = (22, 12, 8, 10)
# Characters of a code that name its chapter, block and category.
PREFIXES = (1, 4, 8)
BUDGETS = ((1.0, 1e-6), (0.5, 1e-6), (2.0, 1e-6), (1.0, 0.0))


@dataclass(frozen=True, slots=True)
class Codes:
    """Codes in order, the chapter of each, and its share of the rows."""

    names: np.ndarray
    chapters: np.ndarray
    shares: np.ndarray

    def drawn(self, rng: np.random.Generator, rows: int) -> np.ndarray:
        """Return the places of the codes of some rows."""
        return rng.choice(len(self.names), size=rows, p=self.shares)

    def column(self) -> ss.Category:
        """Return the category with all tiers."""
        return ss.Category(self.names.tolist(), parents=PREFIXES)


def made_up(rng: np.random.Generator, zipf: float, children: tuple[int, ...] = CHILDREN) -> Codes:
    """Return codes whose shares fall like k^-zipf among the children of each node, in random order."""
    shares, places = np.ones(1), []
    for number, mean in enumerate(children):
        counts = np.maximum(2, rng.poisson(mean, len(shares))) if number else np.array([mean])
        parents = np.repeat(np.arange(len(shares)), counts)
        own = np.concatenate([rng.permutation(np.arange(1.0, count + 1.0) ** -zipf) for count in counts])
        shares = shares[parents] * own / np.bincount(parents, weights=own)[parents]
        places = [above[parents] for above in places] + [np.arange(len(parents))]
    named = zip(*places, strict=True)
    names = np.array([f"{chr(65 + c)}{b:03}{k:04}.{code:05}" for c, b, k, code in named])
    return Codes(names, places[0], shares)


def flat(counts: np.ndarray, budget: tuple[float, float], rng: np.random.Generator) -> np.ndarray:
    """Return a histogram with the whole budget: Gaussian noise, or Laplace noise if there is no delta."""
    epsilon, delta = budget
    if delta:
        noise = rng.normal(0.0, math.sqrt(2.0) * gaussian_multiplier(epsilon, delta), len(counts))
    else:
        noise = rng.laplace(0.0, 2.0 / epsilon, len(counts))
    kept = np.maximum(counts + noise, 0.0)
    return kept * counts.sum() / kept.sum()


def distances(codes: Codes, rows: int, budget: tuple[float, float], rng: np.random.Generator) -> np.ndarray:
    """Return half L1 distances: chapters and codes of a release, of flat histograms, and of such with Laplace noise."""
    epsilon, delta = budget
    drawn, column = codes.drawn(rng, rows), codes.column()
    table, schema = pa.table({"code": codes.names[drawn]}), ss.Schema({"code": column})
    made = ss.release(table, schema=schema, epsilon=epsilon, delta=delta, seed=1)
    real = np.bincount(drawn, minlength=len(codes.names))
    found = np.bincount(column.level_codes(made.table["code"]), minlength=len(codes.names))
    above = [np.bincount(codes.chapters, weights=one) for one in (real, found)]
    pairs = [(above[0], above[1]), (real, found)]
    for kind in (budget, (epsilon, 0.0)):
        pairs += [(above[0], flat(above[0], kind, rng)), (real, flat(real, kind, rng))]
    return np.array([np.abs(one - other).sum() / (2.0 * rows) for one, other in pairs])


def size(rows: int, zipf: float, columns: int = 3) -> str:
    """Release a large table, and say how long it took and the most memory that this process ever had."""
    tables, known = {}, {}
    for number in range(columns):
        rng = np.random.default_rng(number)
        codes = made_up(rng, zipf)
        known[f"code {number}"] = codes.column()
        tables[f"code {number}"] = pa.array(codes.names[codes.drawn(rng, rows)])
    table, start = pa.table(tables), time.perf_counter()
    ss.release(table, schema=ss.Schema(known), epsilon=1.0, delta=1e-8, seed=1)
    seconds, memory = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return f"{rows:,} rows x {columns} columns of 20,000 codes: {seconds:.0f} s, {memory:.2f} GiB (at most 60 s, 2 GB)"


def main() -> None:
    """Print a table in Markdown, and a line on time and memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--zipf", type=float, nargs="+", default=[1.2, 1.5])
    parser.add_argument("--no-size", action="store_true")
    chosen = parser.parse_args()
    print("| Zipf | budget | chapters | flat | ratio | codes | flat | ratio | flat, Laplace: chapters | codes |")
    print("|---|---|" + "---|" * 8)
    for zipf in chosen.zipf:
        for budget in BUDGETS:
            rng = np.random.default_rng(7)
            runs = [distances(made_up(rng, zipf), chosen.rows, budget, rng) for _ in range(chosen.repeats)]
            c, k, flat_c, flat_k, other_c, other_k = np.mean(runs, axis=0)
            figures = f"{c:.5f} | {flat_c:.5f} | {c / flat_c:.2f} | {k:.3f} | {flat_k:.3f} | {k / flat_k:.2f}"
            words = f"epsilon {budget[0]:g}" + (f", delta {budget[1]:g}" if budget[1] else "")
            print(f"| {zipf:g} | {words} | {figures} | {other_c:.5f} | {other_k:.3f} |", flush=True)
    if not chosen.no_size:
        print(f"\n{size(1_000_000, chosen.zipf[-1])}")


if __name__ == "__main__":
    main()
