"""A symmetric matrix under noise: what many entries say together, what single entries say, and which of the two holds.

Dependence may be spread (a few factors move all columns) or sparse (a few pairs of columns, each on its own). Spread
dependence shows in eigenvalues though no entry stands out, sparse dependence in entries though no eigenvalue does. Both
readings are of the same released matrix, and so is the choice between them: none costs any budget.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.synthesis.sample import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

# Either end of the spectrum passes this with a probability of about 0.5 %.
_TRACY_WIDOM = 2.4
# The probability that noise alone makes any entry stand out.
_BY_CHANCE = 0.05
_SPLITS, _SPLIT = 6, 0.5
# What is kept is made no larger than so: if more is lacking, it is not of this kind.
_MOST_SCALED = 1.25


def denoise(matrix: Array, noise: float, *, normal: bool = True) -> Array:
    """Return what is left of a matrix with noise of that deviation off the diagonal, by the reading that predicts better.

    Normal noise can be split: with e as large as the noise and independent of it, Y + a e and Y - e/a are independent
    of each other, so what is read from the first may be judged by the second (Oliveira, Lei and Tibshirani 2021).
    """
    if not normal or len(matrix) < 3:
        return _as_large(spread(matrix, noise), matrix, noise)
    drawing, off = generator(0), ~np.eye(len(matrix), dtype=bool)
    losses = np.zeros(2)
    for _ in range(_SPLITS):
        extra = np.triu(drawing.normal(0.0, noise, matrix.shape), 1)
        extra += extra.T
        seen, other = matrix + _SPLIT * extra, matrix - extra / _SPLIT
        for i, read in enumerate((spread, sparse)):
            losses[i] += np.mean((read(seen, noise * math.hypot(1.0, _SPLIT)) - other)[off] ** 2)
    read = spread if losses[0] <= losses[1] else sparse
    return _as_large(read(matrix, noise), matrix, noise)


def _as_large(kept: Array, matrix: Array, noise: float) -> Array:
    """Scale what is kept to the sum of squares that the matrix has without its noise, never down.

    Shrinking makes each entry nearest to the truth and all of them together too small, and kernels of many columns hang on
    how large they are together: all would err to the same side.
    """
    off = ~np.eye(len(matrix), dtype=bool)
    own = float(np.sum(kept[off] ** 2))
    if own == 0.0:
        return kept
    without_noise = float(np.sum(matrix[off] ** 2)) - noise**2 * int(np.sum(off))
    return np.asarray(kept * min(math.sqrt(max(without_noise / own, 1.0)), _MOST_SCALED))


def spread(matrix: Array, noise: float) -> Array:
    """Shrink the eigenvalues of a symmetric matrix with noise of deviation s off the diagonal.

    Nothing is kept unless some eigenvalue is beyond what noise alone reaches once in a hundred times (its largest
    eigenvalue is 2 s sqrt(d) + s d^(-1/6) TW, with TW of Tracy and Widom 1996). Then

        l_i -> l_i - 2 s^2 sum_j (l_i - l_j) / ((l_i - l_j)^2 + s^2)

    never beyond 0: the best for eigenvectors as they are, whether few directions carry the signal or all (Bun, Allez,
    Bouchaud and Potters 2016, section IV; the sum is their Hilbert transform, smoothed over the spacing s).
    """
    values, vectors = np.linalg.eigh(matrix)
    d = len(matrix)
    if np.abs(values).max() <= noise * (2.0 * math.sqrt(d) + _TRACY_WIDOM * d ** (-1.0 / 6.0)):
        return np.zeros_like(matrix)
    apart = values[:, None] - values
    shrunk = values - 2.0 * noise**2 * np.sum(apart / (apart**2 + noise**2), axis=1)
    shrunk = np.sign(values) * np.clip(shrunk * np.sign(values), 0.0, np.abs(values))
    kept = np.asarray((vectors * shrunk) @ vectors.T)
    np.fill_diagonal(kept, 0.0)
    return kept


def sparse(matrix: Array, noise: float) -> Array:
    """Keep the entries that noise alone would not reach anywhere in the matrix, and read the rest as `spread` does."""
    d = len(matrix)
    standing_out = np.abs(matrix) > noise * NormalDist().inv_cdf(1.0 - _BY_CHANCE / (d * (d - 1)))
    np.fill_diagonal(standing_out, val=False)
    return np.where(standing_out, matrix, spread(np.where(standing_out, 0.0, matrix), noise))
