"""BLR: the exponential mechanism over all small databases (Blum, Ligett and Roth 2008).

For study, on public or synthetic data: floating-point arithmetic, not for release.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import BudgetError, DataError, PlanError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MOST_DATABASES = 500_000


@dataclass(frozen=True, slots=True, eq=False)
class SmallDatabases:
    """Every database of size m over the domain, with the probability of releasing it."""

    databases: NDArray[np.int64]  # (count, m) numbers of domain points, rising in each row
    probabilities: NDArray[np.float64]

    def draw(self, generator: np.random.Generator) -> NDArray[np.int64]:
        """Draw one database."""
        chosen: NDArray[np.int64] = self.databases[generator.choice(len(self.databases), p=self.probabilities)]
        return chosen


def small_databases(
    histogram: ArrayLike, queries: ArrayLike, *, rows: int, size: int, epsilon: float
) -> SmallDatabases:
    """Return the exact output distribution of BLR for queries given as a (queries, domain) matrix.

        P(Y) proportional to exp(-eps/(2 D) max_q |q(data) - q(Y)|),   D = max_q range_q / n

    over all multisets Y of `size` points. A replaced row moves the score by at most D, and the normaliser
    by a factor of at most e^(eps/2), so the choice is epsilon-private (McSherry and Talwar 2007). There
    are C(|X| + m - 1, m) databases: the reason why it cannot scale.
    """
    data = np.asarray(histogram, dtype=np.float64)
    matrix = np.asarray(queries, dtype=np.float64)
    if data.ndim != 1 or matrix.ndim != 2 or matrix.shape[1] != len(data) or matrix.shape[0] == 0:
        raise DataError(
            "histogram must have shape (domain,) and queries (queries, domain); "
            f"found {data.shape} and {matrix.shape}. Evaluate the queries at Grid.points()."
        )
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise BudgetError(f"epsilon must be positive and finite; found {epsilon}. Give another budget.")
    databases = _multisets(len(data), size)
    answers = np.zeros((len(matrix), len(databases)))
    for position in range(size):
        answers += matrix[:, databases[:, position]] / size
    worst = np.abs((matrix @ data)[:, None] - answers).max(axis=0)
    sensitivity = float(np.ptp(matrix, axis=1).max()) / rows
    exponents = -epsilon * worst / (2.0 * sensitivity) if sensitivity > 0 else np.zeros(len(worst))
    shares = np.exp(exponents - exponents.max())
    return SmallDatabases(databases, shares / shares.sum())


def database_count(domain: int, size: int) -> int:
    """Return C(|X| + m - 1, m), the number of databases that BLR must weigh."""
    if domain < 1 or size < 1:
        raise PlanError(f"domain and size must be at least 1; found {domain} and {size}. Correct them.")
    return math.comb(domain + size - 1, size)


def _multisets(domain: int, size: int) -> NDArray[np.int64]:
    count = database_count(domain, size)
    if count > MOST_DATABASES:
        digits = (math.lgamma(domain + size) - math.lgamma(size + 1) - math.lgamma(domain)) / math.log(10)
        raise PlanError(
            f"BLR weighs every database of {size} rows over {domain} points, about 10^{digits:.1f} of them; "
            f"at most {MOST_DATABASES:,} are enumerated here. Take a smaller domain or size."
        )
    flat = itertools.chain.from_iterable(itertools.combinations_with_replacement(range(domain), size))
    return np.fromiter(flat, dtype=np.int64, count=count * size).reshape(count, size)
