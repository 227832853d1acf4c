"""Sums of Gaussian kernels over rows, at the speed of the matrix product and of exp.

    s_c = sum_i w_i exp(-|x_i - c|^2 / (2 sigma^2))

An exponent is one inner product of d + 2 numbers, [x, -|x|^2/2, 1] . [c, 1, -|c|^2/2] / sigma^2, so a block of
them is one matrix product, followed by exp in place and one weighted sum.

The smooth queries of the paper's experiments: mixtures of Gaussian kernels.

    f(x)   = sum_j alpha_j exp(-|x - c_j|^2 / (2 sigma^2))
    q_f(D) = (1/n) sum_{x in D} f(x)

Source: Jin et al., section 2 (Proposition 2.1) and section 4 (J = 10, 10,000 queries per round).
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from smoothsynth.errors import DataError, PlanError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]


Precision: TypeAlias = Literal["double", "single"]

# A block of 256 x 512 doubles is 1 MiB: it stays in the L2 cache between the product, exp and the sum.
ROWS_PER_BLOCK = 256
CENTRES_PER_BLOCK = 512

# A block is a stack of tiles whose products stay below the size (rows * centres * terms) from which OpenBLAS
# starts threads of its own: on a busy machine those made the whole about ten times slower.
ROWS_PER_TILE = 32
MOST_MULTIPLICATIONS = 2**18

_DTYPES: dict[Precision, type[np.floating[Any]]] = {"double": np.float64, "single": np.float32}


@dataclass(frozen=True, slots=True, eq=False)
class _Tiles:
    rows: NDArray[np.floating[Any]]  # (row tiles, 1, rows per tile, terms)
    shares: NDArray[np.floating[Any]]  # (row tiles, 1, 1, rows per tile)
    centres: NDArray[np.floating[Any]]  # (blocks, tiles per block, terms, centres per tile)


def kernel_sums(
    rows: NDArray[np.float64],
    centres: NDArray[np.float64],
    *,
    sigma: float,
    weights: NDArray[np.float64],
    precision: Precision = "double",
    threads: int = 2,
) -> NDArray[np.float64]:
    """Return s_c for every centre; `threads` streams share the blocks of centres."""
    if len(centres) == 0:
        return np.zeros(0)
    tiles = _cut(rows, centres, sigma=sigma, weights=weights, dtype=_DTYPES[precision])
    with ThreadPoolExecutor(max(1, threads)) as pool:
        sums = list(pool.map(lambda block: _block_sums(tiles, block), range(len(tiles.centres))))
    return np.concatenate(sums)[: len(centres)]


def exponent_factors(
    rows: NDArray[np.float64], centres: NDArray[np.float64], *, sigma: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (rows, d + 2) and (centres, d + 2) arrays whose inner products are -|x - c|^2 / (2 sigma^2)."""
    row_norms = -0.5 * np.einsum("ij,ij->i", rows, rows)[:, None]
    centre_norms = -0.5 * np.einsum("ij,ij->i", centres, centres)[:, None]
    left = np.concatenate([rows, row_norms, np.ones((len(rows), 1))], axis=1)
    right = np.concatenate([centres, np.ones((len(centres), 1)), centre_norms], axis=1) / sigma**2
    return left, right


def _cut(
    rows: NDArray[np.float64],
    centres: NDArray[np.float64],
    *,
    sigma: float,
    weights: NDArray[np.float64],
    dtype: type[np.floating[Any]],
) -> _Tiles:
    """Cut both sides into equal tiles, padded with rows of weight 0 and with centres that are dropped later."""
    left, right = exponent_factors(rows, centres, sigma=sigma)
    terms = left.shape[1]
    width = min(max(8, MOST_MULTIPLICATIONS // (terms * ROWS_PER_TILE)), CENTRES_PER_BLOCK, len(centres))
    stack = max(1, CENTRES_PER_BLOCK // width)
    left, right = _padded(left, ROWS_PER_TILE), _padded(right, width * stack)
    shares = np.concatenate([weights, np.zeros(len(left) - len(weights))])
    return _Tiles(
        left.astype(dtype).reshape(-1, 1, ROWS_PER_TILE, terms),
        shares.astype(dtype).reshape(-1, 1, 1, ROWS_PER_TILE),
        np.ascontiguousarray(right.astype(dtype).reshape(-1, stack, width, terms).swapaxes(2, 3)),
    )


def _block_sums(tiles: _Tiles, block: int) -> NDArray[np.float64]:
    centres = tiles.centres[block]
    stack, _, width = centres.shape
    height = ROWS_PER_BLOCK // ROWS_PER_TILE
    buffer = np.empty((height, stack, ROWS_PER_TILE, width), dtype=centres.dtype)
    total = np.zeros((stack, width))
    for start in range(0, len(tiles.rows), height):
        rows = tiles.rows[start : start + height]
        kernels = buffer[: len(rows)]
        np.matmul(rows, centres, out=kernels)
        np.exp(kernels, out=kernels)
        total += np.matmul(tiles.shares[start : start + height], kernels).sum(axis=0)[:, 0]
    return total.ravel()


def _padded(array: NDArray[np.float64], multiple: int) -> NDArray[np.float64]:
    missing = -len(array) % multiple
    return np.concatenate([array, np.zeros((missing, array.shape[1]))])


@dataclass(frozen=True, slots=True, eq=False)
class GaussianMixtureQueries:
    """A family of `count` queries of `terms` kernels each, of one width sigma, on [-1, 1]^d."""

    centres: Array  # (count, terms, dimensions)
    weights: Array  # (count, terms)
    sigma: float

    def __post_init__(self) -> None:
        centres = np.array(self.centres, dtype=np.float64)
        weights = np.array(self.weights, dtype=np.float64)
        if centres.ndim != 3 or weights.shape != centres.shape[:2]:
            raise PlanError(
                "centres must have shape (queries, terms, dimensions) and weights (queries, terms); "
                f"found {centres.shape} and {weights.shape}. Reshape them."
            )
        if not (math.isfinite(self.sigma) and self.sigma > 0):
            raise PlanError(f"sigma must be a positive number; found {self.sigma}. Give the kernel a width.")
        for array in (centres, weights):
            array.setflags(write=False)
        object.__setattr__(self, "centres", centres)
        object.__setattr__(self, "weights", weights)

    @property
    def count(self) -> int:
        """How many queries there are."""
        return int(self.centres.shape[0])

    @property
    def dimensions(self) -> int:
        """How many columns a query reads."""
        return int(self.centres.shape[2])


@dataclass(frozen=True, slots=True)
class Errors:
    """The worst error over a family of queries, absolute and relative to the true answer."""

    absolute: float
    relative: float


def random_queries(
    count: int, dimensions: int, *, sigma: float, terms: int = 10, generator: np.random.Generator
) -> GaussianMixtureQueries:
    """Draw queries as the paper does, with the weights of each query scaled to sum to 1.

    alpha_j uniform on [0, 1] then divided by their sum (so |alpha|_1 = 1, as Proposition 2.1 asks);
    c_j uniform on [-1, 1]^d.
    """
    weights = generator.uniform(0.0, 1.0, (count, terms))
    centres = generator.uniform(-1.0, 1.0, (count, terms, dimensions))
    return GaussianMixtureQueries(centres, weights / weights.sum(axis=1, keepdims=True), sigma)


def answers(
    queries: GaussianMixtureQueries,
    points: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    precision: Precision = "double",
    threads: int = 2,
) -> Array:
    """Answer every query on rows of [-1, 1]^d, weighted or not.

        a_q = sum_i w_i f_q(x_i),    w_i = 1/n unless given

    `single` halves the time and errs by at most `single_precision_bound`, relative to the answer.
    """
    rows = _checked_points(queries, points)
    sums = kernel_sums(
        rows,
        queries.centres.reshape(-1, queries.dimensions),
        sigma=queries.sigma,
        weights=_checked_weights(weights, len(rows)),
        precision=precision,
        threads=threads,
    )
    result: Array = np.einsum("qj,qj->q", queries.weights, sums.reshape(queries.weights.shape))
    return result


def values(queries: GaussianMixtureQueries, points: ArrayLike) -> Array:
    """Return f_q(x_i) for every query and row, shape (queries, rows): for small domains only."""
    rows = _checked_points(queries, points)
    centres = queries.centres.reshape(-1, queries.dimensions)
    left, right = exponent_factors(rows, centres, sigma=queries.sigma)
    kernels = np.exp(left @ right.T).reshape(len(rows), *queries.weights.shape)
    result: Array = np.einsum("qj,iqj->qi", queries.weights, kernels)
    return result


def worst_errors(true: ArrayLike, synthetic: ArrayLike) -> Errors:
    """Return max_q |a_q - b_q| and max_q |a_q - b_q| / |a_q|, with a the true answers."""
    a, b = np.asarray(true, dtype=np.float64), np.asarray(synthetic, dtype=np.float64)
    if a.shape != b.shape or a.size == 0:
        raise DataError(
            f"answers must be two non-empty arrays of one shape; found {a.shape} and {b.shape}. "
            "Answer the same queries on both tables."
        )
    gap = np.abs(a - b)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(gap == 0.0, 0.0, gap / np.abs(a))
    return Errors(float(gap.max()), float(relative.max()))


def smoothness_norm_bound(sigma: float, order: int, coefficients: ArrayLike) -> float:
    """Bound every partial derivative up to `order` of a mixture of Gaussian kernels (Proposition 2.1).

        |f|_K <= |alpha|_1 max_{0 <= k <= K} sqrt(k!) / sigma^k

    which is at most 1 when K <= sigma^2 and |alpha|_1 <= 1. From |H_k(x)| <= sqrt(2^k k!) e^(x^2/2)
    (Indritz 1961) and prod k_j! <= |k|!.
    """
    if not sigma > 0 or order < 0:
        raise PlanError(
            f"sigma must be positive and order at least 0; found {sigma} and {order}. Correct the arguments."
        )
    exponent = max(0.5 * math.lgamma(k + 1) - k * math.log(sigma) for k in range(order + 1))
    return float(np.abs(np.asarray(coefficients, dtype=np.float64)).sum()) * math.exp(exponent)


def single_precision_bound(dimensions: int, sigma: float) -> float:
    """Bound the relative error of `answers(..., precision="single")` for non-negative weights.

        expm1( u ((d + 4) 2 d / sigma^2 + ROWS_PER_BLOCK + 8) ),   u = 2^-24

    On the cube the terms of an exponent sum to at most 2d/sigma^2 in absolute value, each rounded at
    most d + 4 times; exp costs a few units and a block is summed in single precision. Kernel values
    below 1e-38 underflow to zero, which the bound does not cover.
    """
    roundings = (dimensions + 4) * 2.0 * dimensions / sigma**2 + ROWS_PER_BLOCK + 8
    return math.expm1(2.0**-24 * roundings)


def _checked_points(queries: GaussianMixtureQueries, points: ArrayLike) -> Array:
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != queries.dimensions or len(rows) == 0:
        raise DataError(
            f"points must have shape (rows, {queries.dimensions}) with at least one row; found {rows.shape}. "
            "Pass the columns that the queries were drawn for."
        )
    return rows


def _checked_weights(weights: ArrayLike | None, rows: int) -> Array:
    if weights is None:
        return np.full(rows, 1.0 / rows)
    shares = np.asarray(weights, dtype=np.float64)
    if shares.shape != (rows,):
        raise DataError(f"weights must have shape ({rows},); found {shares.shape}. Give one per row.")
    return shares
