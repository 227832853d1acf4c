"""Method "minimax": tensor Chebyshev moments whose noise grows with the degree, for tables of at most three columns.

Moment r of {0 .. T-1}^d has the weight |r|^-p, |r| its Euclidean length: one row moves all weighted sums by at most D, so

    s_r = |r|^p  D  (noise of a unit of sensitivity) / n,        p = K/2 (Gaussian, D in L2),  p = 2K/3 (Laplace, D in L1)

which is the p that makes  sqrt(sum |r|^(-2K) s_r^2),  what K-smooth queries feel of the noise, smallest. T is the least
degree whose bias T^-K is not above it. Ding, He and Zhu, COLT 2026 (arXiv 2602.01607); docs/proofs/minimax.md.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from smoothsynth._display import shown_as_call
from smoothsynth.accounting.charges import gaussian_multiplier
from smoothsynth.errors import PlanError, arguments_in_words
from smoothsynth.methods.layout import LEAST_SQUARES, NOISES, TENSOR, Design, check_count, check_noise, check_one_of
from smoothsynth.queries.bases import good_length, tensor
from smoothsynth.queries.measurement import MOST_DEGREE, Measurement, whole_weights
from smoothsynth.schema.unresolved import is_open

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.accounting.charges import Budget
    from smoothsynth.schema import Schema


MOST_COLUMNS = 3
# Beyond this order two degrees are all that any table has.
MOST_ORDER = 16
# More moments than this make a release, and each answer of it, slow.
MOST_MOMENTS = 5_000
# Nodes per degree of the grid of rows, by columns: with two, the grid itself is the largest error. And nodes in all.
NODES_PER_DEGREE = {1: 6, 2: 3, 3: 3}
MOST_NODES = 2_000_000


@arguments_in_words
@shown_as_call
@dataclass(frozen=True, slots=True)
class Minimax:
    """The options of method="minimax": the best rate for K-smooth queries, for tables of one to three columns of numbers.

    `smoothness` is K: queries with bounded derivatives up to this order are those whose error falls fastest as the table
    grows. `noise` is "gaussian", the default with a delta, or "pure".
    """

    smoothness: int = 2
    noise: str | None = None

    name: ClassVar[str] = "minimax"

    def __post_init__(self) -> None:
        check_count("smoothness", self.smoothness, MOST_ORDER)
        check_one_of("noise", self.noise or NOISES[0], NOISES)

    def check(self, schema: Schema, budget: Budget) -> None:
        """Refuse a schema that the theorem does not cover, and options that this budget cannot have."""
        check_noise(self.noise, budget)
        if is_open(schema):
            raise PlanError(
                "method='minimax' needs public bounds, levels and codes. Declare them, or take method='auto', which finds "
                "them."
            )
        if len(schema.names) > MOST_COLUMNS:
            raise PlanError(
                f"method='minimax' is for at most {MOST_COLUMNS} columns; the schema has {len(schema.names)}. Leave out "
                "columns, or take method='auto'."
            )
        if schema.binary:
            raise PlanError(
                "method='minimax' is for columns of numbers without missing values; the schema has a category, or a "
                "column that is nullable. Leave it out, or take method='auto'."
            )
        if schema.constraints:
            raise PlanError("method='minimax' cannot keep constraints. Leave them out, or take method='auto'.")

    def design(self, schema: Schema, rows: int, budget: Budget, *, rows_per_person: int, size: int) -> Design:
        """Measure as many degrees as pay; rows lie on a grid of Chebyshev nodes."""
        noise, d = Weighting.of(self.smoothness, rows, budget, rows_per_person=rows_per_person), schema.dimensions
        degrees = noise.degrees(d, most=min(1 + MOST_DEGREE // d, _root(MOST_MOMENTS, d)))
        features, pure = tensor(degrees, d), not budget.delta
        sizes = [math.hypot(*(k for _, k in feature.terms[0])) for feature in features]
        measured = Measurement(
            purpose=TENSOR.format(degrees - 1),
            features=features,
            mechanism="discrete laplace" if pure else "discrete gaussian",
            epsilon=budget.epsilon if pure else None,
            multiplier=None if pure else gaussian_multiplier(budget.epsilon, budget.delta),
            weights=whole_weights([size**-noise.power for size in sizes]),
            rows_per_person=rows_per_person,
        )
        nodes = grid_nodes(degrees, d, order=self.smoothness)
        return Design((measured,), "grid", nodes**d, LEAST_SQUARES, levels=nodes)


@dataclass(frozen=True, slots=True)
class Weighting:
    """Weights |r|^-power for queries of smoothness `order`, and what noise they need.

    `norm` is that of the sensitivity, 1 or 2, and `unit` the deviation of the noise of a moment for a sensitivity of 1.
    """

    order: int
    power: float
    norm: int
    unit: float

    @classmethod
    def of(cls, order: int, rows: int, budget: Budget, *, rows_per_person: int = 1) -> Weighting:
        """Return the weights that make the noise felt by smooth queries smallest: Gaussian with a delta, Laplace without."""
        if budget.delta:
            multiplier = gaussian_multiplier(budget.epsilon, budget.delta)
            return cls(order, order / 2.0, 2, rows_per_person * multiplier / rows)
        return cls(order, 2.0 * order / 3.0, 1, rows_per_person * math.sqrt(2.0) / (budget.epsilon * rows))

    def felt(self, degrees: int, dimensions: int) -> float:
        """Return sqrt(sum |r|^(-2K) s_r^2) for a sensitivity of at most 2 |w|: the error due to noise."""
        sizes = index_norms(degrees, dimensions).ravel()[1:]
        weights = sizes**-self.power
        moved = 2.0 * float(np.linalg.norm(weights, ord=self.norm))
        return self.unit * moved * float(np.linalg.norm(sizes**-self.order / weights))

    def degrees(self, dimensions: int, *, most: int) -> int:
        """Return the smallest T from 2 to `most` whose bias T^-K is not above the error due to noise: public facts only."""
        low, high = 1, 2
        while high < most and self._pays(high, dimensions):
            low, high = high, min(2 * high, most)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._pays(middle, dimensions) else (low, middle)
        return high

    def _pays(self, degrees: int, dimensions: int) -> bool:
        return float(degrees) ** -self.order > self.felt(degrees, dimensions)


@functools.lru_cache(maxsize=4)
def index_norms(degrees: int, dimensions: int) -> NDArray[np.float64]:
    """Return |r|, the Euclidean length of every multi-index, with 1 in place of the 0 of the constant."""
    squares = functools.reduce(np.add.outer, [np.arange(degrees, dtype=np.float64) ** 2] * dimensions)
    sizes = np.asarray(np.sqrt(squares))
    sizes.flat[0] = 1.0
    sizes.setflags(write=False)
    return sizes


def grid_nodes(degrees: int, dimensions: int, *, order: int) -> int:
    """Return the nodes of an axis: a few for each degree, and T^(K/2), beyond which rounding to nodes is below the bias."""
    least = max(NODES_PER_DEGREE[dimensions] * degrees, math.ceil(degrees ** (order / 2.0)))
    return good_length(min(least, _root(MOST_NODES, dimensions)))


def _root(number: int, dimensions: int) -> int:
    """Return the largest whole number whose power is not above the number."""
    return int(number ** (1.0 / dimensions) + 1e-9)
