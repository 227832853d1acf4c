"""The values t_k of Chebyshev polynomials on the lattice: t_k = rint(S T_k(X / S)), kept within [-S, S]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.queries.bases import LATTICE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


def rising(
    x: NDArray[np.float64], reach: Sequence[int], turns: NDArray[np.float64]
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield k and  S T_k = (2 X / S) S T_{k-1} - S T_{k-2}  for k = 2, 3, ..., not yet rounded.

    Coordinates are the last axis but one of x; reach[k - 1] of them have degree k. `turns` is room for four arrays.
    """
    twice, *rooms = turns
    np.multiply(x[..., : reach[1], :], 2.0 / LATTICE, out=twice)
    before, last = np.full((reach[1], 1), float(LATTICE)), x
    for degree, count in enumerate(reach[1:], start=2):
        new = np.multiply(twice[..., :count, :], last[..., :count, :], out=rooms[degree % 3][..., :count, :])
        new -= before[..., :count, :]
        yield degree, new
        before, last = last, new


def rounded(values: NDArray[np.float64], out: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest whole numbers, kept within [-S, S]."""
    return np.clip(np.rint(values, out=out), -LATTICE, LATTICE, out=out)
