"""A finite domain: the grid of cell centres that stands in for the cube [-1, 1]^d.

The Laplace mechanism on the queries themselves (Dwork, McSherry, Nissim and Smith 2006).

For study, on public or synthetic data: floating-point noise, not for release.

Private multiplicative weights (Hardt and Rothblum 2010): answers online, no table.

For study, on public or synthetic data: floating-point noise, not for release.

BLR: the exponential mechanism over all small databases (Blum, Ligett and Roth 2008).

For study, on public or synthetic data: floating-point arithmetic, not for release.

The synopsis of Wang, Fan, Zhang and Wang (2013): answers from noisy Chebyshev moments, no table.

For study, on public or synthetic data: floating-point noise, not for release.

Other private mechanisms for smooth queries, small and honest, for study and tests.

For public or synthetic data: the noise is floating point from a seeded generator, so none of this is fit
for release. The privacy accounting of each is correct in real arithmetic and given in its docstring.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial import chebyshev

from smoothsynth.errors import BudgetError, DataError, PlanError
from smoothsynth.fit.candidates import grid
from smoothsynth.paper.queries import GaussianMixtureQueries, answers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import ArrayLike, NDArray

    Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]


MOST_CELLS = 1_000_000


@dataclass(frozen=True, slots=True)
class Grid:
    """The points a_k = (2k + 1 - N)/N, k = 0..N-1, in each of d coordinates (Algorithm 1, notations)."""

    levels: int
    dimensions: int

    def __post_init__(self) -> None:
        if self.levels < 1 or self.dimensions < 1:
            raise PlanError(
                f"levels and dimensions must be at least 1; found {self.levels} and {self.dimensions}. "
                "Correct the grid."
            )
        if self.levels**self.dimensions > MOST_CELLS:
            raise PlanError(
                f"a grid may have at most {MOST_CELLS:,} points; {self.levels}^{self.dimensions} is more. "
                "Take fewer levels or columns."
            )

    @property
    def size(self) -> int:
        """The number of points N^d."""
        return int(self.levels**self.dimensions)

    def points(self) -> NDArray[np.float64]:
        """Return all points, shape (N^d, d), the last coordinate fastest."""
        return grid(self.levels, self.dimensions).points

    def cells(self, points: ArrayLike) -> NDArray[np.int64]:
        """Return the number of the nearest grid point of each row (ties go up, for every row alike)."""
        rows = np.asarray(points, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dimensions:
            raise DataError(
                f"points must have shape (rows, {self.dimensions}); found {rows.shape}. Pass these columns."
            )
        levels = np.floor((np.clip(rows, -1.0, 1.0) + 1.0) * self.levels / 2.0).astype(np.int64)
        levels = np.minimum(levels, self.levels - 1)
        strides = self.levels ** np.arange(self.dimensions - 1, -1, -1, dtype=np.int64)
        result: NDArray[np.int64] = levels @ strides
        return result

    def histogram(self, points: ArrayLike) -> NDArray[np.float64]:
        """Return the share of rows at each grid point, shape (N^d,)."""
        cells = self.cells(points)
        return np.bincount(cells, minlength=self.size) / len(cells)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyAnswers:
    """Answers with the scale of the noise that is in each of them."""

    values: NDArray[np.float64]
    scale: float
    noise: str


def laplace_answers(
    queries: GaussianMixtureQueries,
    points: ArrayLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    generator: np.random.Generator,
) -> NoisyAnswers:
    """Answer k named queries with noise on each answer, epsilon- or (epsilon, delta)-private.

        delta = 0:  q + Lap(b),      b = sum_q range_q / (n eps)
        delta > 0:  q + N(0, s^2),   s = sqrt(sum_q range_q^2) / (n sqrt(2 rho)),
                    rho = (sqrt(log(1/delta) + eps) - sqrt(log(1/delta)))^2

    A replaced row moves answer q by at most range_q/n, so the sums are the L1 and L2 sensitivities of all
    answers together; rho-zCDP gives (rho + 2 sqrt(rho log(1/delta)), delta) (Bun and Steinke 2016). The
    error grows with k, where the synthetic table's does not.
    """
    if not (math.isfinite(epsilon) and epsilon > 0) or not 0.0 <= delta < 1.0:
        raise BudgetError(
            f"epsilon must be positive and finite and delta in [0, 1); found {epsilon} and {delta}. "
            "Give another budget."
        )
    exact = answers(queries, points)
    rows, ranges = len(np.asarray(points)), query_ranges(queries)
    if delta == 0.0:
        scale = float(ranges.sum()) / (rows * epsilon)
        return NoisyAnswers(exact + generator.laplace(0.0, scale, exact.shape), scale, "laplace")
    log = math.log(1.0 / delta)
    rho = (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
    scale = float(np.sqrt((ranges**2).sum())) / (rows * math.sqrt(2.0 * rho))
    return NoisyAnswers(exact + generator.normal(0.0, scale, exact.shape), scale, "gaussian")


def query_ranges(queries: GaussianMixtureQueries) -> NDArray[np.float64]:
    """Bound max f_q - min f_q on the cube, from public facts about the query alone.

        range_q <= sum_j |alpha_j| (exp(-near_j^2 / 2 sigma^2) - exp(-far_j^2 / 2 sigma^2))

    with near_j and far_j the distances from c_j to the nearest and the farthest point of the cube.
    """
    distance = np.abs(queries.centres)
    near = (np.maximum(distance - 1.0, 0.0) ** 2).sum(axis=2)
    far = ((distance + 1.0) ** 2).sum(axis=2)
    swing = np.exp(-near / (2 * queries.sigma**2)) - np.exp(-far / (2 * queries.sigma**2))
    result: NDArray[np.float64] = (np.abs(queries.weights) * swing).sum(axis=1)
    return result


@dataclass(frozen=True, slots=True, eq=False)
class OnlineAnswers:
    """The answers in the order of the queries, and the public hypothesis they came from."""

    values: NDArray[np.float64]
    updated: NDArray[np.bool_]  # where the data were asked and the hypothesis moved
    hypothesis: NDArray[np.float64]  # the last distribution over the domain
    exhausted: bool  # all updates were used: the answers after that are unchecked


def multiplicative_weights(
    histogram: ArrayLike,
    queries: Iterable[ArrayLike],
    *,
    rows: int,
    epsilon: float,
    threshold: float,
    updates: int | None = None,
    generator: np.random.Generator,
) -> OnlineAnswers:
    """Answer queries f: domain -> [0, 1] one after the other, epsilon-private for replaced rows.

    With x the hypothesis, p the data's histogram, D = 1/n the sensitivity of a query and c = `updates`:

        rho = Lap(D/e1) once;  for each query:
          |f.p - f.x| + Lap(2 c D/e2) <  T + rho:  answer f.x
          else                                  :  answer a = f.p + Lap(c D/e3),
                                                   x <- x exp(sign(a - f.x) f T/2), scaled to sum 1
        after c updates: answer f.x without looking at the data

    Privacy, e1 + e2 + e3 = epsilon (a third each). Fix the outputs so far: they fix x, so each query's value
    |f.p - f.x| moves by at most D between neighbours. Shift rho by D: probability e^e1; every "below" stays
    below. Each of at most c "above" needs its noise shifted by at most 2D: e^(e2/c). Each of at most c
    answers moves by D: e^(e3/c). The product is e^epsilon (the sparse vector proof; Dwork and Roth 2014,
    section 3.6; Lyu, Su and Li 2017, Algorithm 1).

    The default c = ceil(5 log|X| / T^2) is never reached while the noise of a comparison and of an answer
    stays below T/2: an update then lowers KL(p || x) <= log|X| by at least (T/2)^2 - (T/2)^2/8 > T^2/5.
    """
    data = _checked_histogram(histogram)
    _check_budget(rows, epsilon=epsilon, threshold=threshold)
    most = math.ceil(5 * math.log(max(2, len(data))) / threshold**2) if updates is None else updates
    share = epsilon / 3.0
    bar = threshold + generator.laplace(0.0, 1.0 / (rows * share))
    hypothesis = np.full(len(data), 1.0 / len(data))
    values: list[float] = []
    updated: list[bool] = []
    for query in queries:
        f = _checked_query(query, len(data))
        guess = float(f @ hypothesis)
        above = sum(updated) < most and (
            abs(float(f @ data) - guess) + generator.laplace(0.0, 2.0 * most / (rows * share)) >= bar
        )
        if above:
            answer = float(f @ data) + generator.laplace(0.0, most / (rows * share))
            hypothesis = hypothesis * np.exp(math.copysign(threshold / 2.0, answer - guess) * f)
            hypothesis /= hypothesis.sum()
        values.append(answer if above else guess)
        updated.append(above)
    return OnlineAnswers(np.array(values), np.array(updated), hypothesis, exhausted=sum(updated) >= most)


def _checked_histogram(histogram: ArrayLike) -> NDArray[np.float64]:
    data = np.asarray(histogram, dtype=np.float64)
    if data.ndim != 1 or len(data) == 0 or (data < 0).any() or not math.isclose(data.sum(), 1.0):
        raise DataError("histogram must be one-dimensional, non-negative and sum to 1. Use Grid.histogram.")
    return data


def _checked_query(query: ArrayLike, size: int) -> NDArray[np.float64]:
    f = np.asarray(query, dtype=np.float64)
    if f.shape != (size,) or f.min() < 0.0 or f.max() > 1.0:
        raise PlanError(
            f"a query must give a number in [0, 1] at each of the {size} points of the domain, for its "
            "sensitivity rests on that; found one that does not. Evaluate it at Grid.points() and scale it."
        )
    return f


def _check_budget(rows: int, *, epsilon: float, threshold: float) -> None:
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise BudgetError(f"epsilon must be positive and finite; found {epsilon}. Give another budget.")
    if rows < 1 or not 0.0 < threshold <= 1.0:
        raise PlanError(f"rows must be at least 1 and threshold in (0, 1]; found {rows} and {threshold}. Correct them.")


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


MOST_DIMENSIONS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Synopsis:
    """The noisy moments of the full tensor {0..t-1}^d, with the Laplace scale of every moment but b_0 = 1."""

    moments: NDArray[np.float64]  # shape (t,) * d
    scale: float

    def answer(self, function: Function, *, nodes: int | None = None) -> float:
        """Answer the query of a smooth function given at rows of [-1, 1]^d.

        q_f ~ sum_r c_r b_r,   c_r the Chebyshev coefficients of f
        """
        degrees, dimensions = self.moments.shape[0], self.moments.ndim
        coefficients = chebyshev_coefficients(function, dimensions, degrees=degrees, nodes=nodes)
        return float((coefficients * self.moments).sum())


def synopsis(points: ArrayLike, *, degrees: int, epsilon: float, generator: np.random.Generator) -> Synopsis:
    """Measure all products of degrees 0..t-1 per column, epsilon-private for replaced rows.

        b_r = mean of prod_i T_{r_i}(x_i) + Lap(S / (n eps)),   S = t^(d-1) (t + m_t)

    S is the exact L1 sensitivity of the sums (`tensor_sensitivity`), where the paper uses t^d.
    """
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim != 2 or not 1 <= rows.shape[1] <= MOST_DIMENSIONS or len(rows) == 0:
        raise DataError(
            f"points must have shape (rows, d) with at least one row and d from 1 to {MOST_DIMENSIONS}; "
            f"found {rows.shape}. The full tensor is for few columns."
        )
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise BudgetError(f"epsilon must be positive and finite; found {epsilon}. Give another budget.")
    count, dimensions = rows.shape
    scale = tensor_sensitivity(degrees, dimensions) / (count * epsilon)
    moments = _tensor_moments(np.clip(rows, -1.0, 1.0), degrees)
    moments += generator.laplace(0.0, scale, moments.shape) if scale > 0 else 0.0
    moments[(0,) * dimensions] = 1.0
    return Synopsis(moments, scale)


def tensor_sensitivity(degrees: int, dimensions: int) -> float:
    """Return the L1 sensitivity of the sums of all t^d - 1 products, for replaced rows.

        max_z sum_r (1 - phi_r(z)) = t^d - min_z prod_i D(z_i) = t^(d-1) (t + m_t)
        D(s) = sum_{r < t} cos(r s), with largest value t and smallest value -m_t

    The first step is Theorem 1 of the sensitivity proof (|a - b| <= 1 - ab and the product formula).
    """
    if degrees < 1 or dimensions < 1:
        raise PlanError(f"degrees and dimensions must be at least 1; found {degrees} and {dimensions}. Correct them.")
    if degrees == 1:
        return 0.0
    series = np.ones(degrees)
    stationary = chebyshev.chebroots(chebyshev.chebder(series)) if degrees > 2 else np.zeros(0)
    real = stationary[np.abs(np.imag(stationary)) < 1e-9].real
    lowest = float(chebyshev.chebval(np.append(np.clip(real, -1.0, 1.0), [-1.0, 1.0]), series).min())
    return float(degrees ** (dimensions - 1)) * (degrees - lowest)


def chebyshev_coefficients(
    function: Function, dimensions: int, *, degrees: int, nodes: int | None = None
) -> NDArray[np.float64]:
    """Return c_r for r in {0..t-1}^d by Gauss-Chebyshev quadrature with Q >= t nodes per column.

    c_r = prod_i (2 - [r_i = 0])/Q  sum_k f(x_k) prod_i T_{r_i}(x_{k_i}),   x_k = cos(pi (k + 1/2)/Q)
    """
    count = max(64, 2 * degrees) if nodes is None else nodes
    if count < degrees or not 1 <= dimensions <= MOST_DIMENSIONS:
        raise PlanError(
            f"nodes must be at least degrees and dimensions at most {MOST_DIMENSIONS}; "
            f"found {count}, {degrees} and {dimensions}. Take more nodes or fewer columns."
        )
    angles = math.pi * (np.arange(count) + 0.5) / count
    mesh = np.meshgrid(*[np.cos(angles)] * dimensions, indexing="ij")
    rows = np.stack([coordinate.ravel() for coordinate in mesh], axis=1)
    table = np.asarray(function(rows), dtype=np.float64).reshape((count,) * dimensions)
    transform = np.cos(np.outer(np.arange(degrees), angles)) * (2.0 / count)
    transform[0] /= 2.0
    for _ in range(dimensions):
        # Contracting the first axis puts its degree last, so d turns restore the order.
        table = np.tensordot(table, transform, axes=([0], [1]))
    return table


def _tensor_moments(rows: NDArray[np.float64], degrees: int) -> NDArray[np.float64]:
    count, dimensions = rows.shape
    products = np.ones((count, 1))
    for column in range(dimensions):
        factors = chebyshev.chebvander(rows[:, column], degrees - 1)
        products = (products[:, :, None] * factors[:, None, :]).reshape(count, -1)
    result: NDArray[np.float64] = products.mean(axis=0).reshape((degrees,) * dimensions)
    return result
