"""Sums of Gaussian kernels over rows, at the speed of the matrix product and of exp.

    s_c = sum_i w_i exp(-|x_i - c|^2 / (2 sigma^2))

An exponent is one inner product of d + 2 numbers, [x, -|x|^2/2, 1] . [c, 1, -|c|^2/2] / sigma^2, so a block of
them is one matrix product, followed by exp in place and one weighted sum.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
