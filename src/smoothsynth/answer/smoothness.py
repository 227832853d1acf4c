"""Whether a function is smooth enough for a release to answer it: its Chebyshev coefficients must fall fast.

A jump makes the k-th coefficient fall like 1/k, a kink like 1/k^2, a kernel of width w like exp(-(k w)^2 / 2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

NODES = 512
# The largest coefficient beyond degree NODES/4, over the largest of all: a jump has 0.005 and more, a kink 0.0001.
MOST_TAIL = 2e-3
_ANCHORS = 4


def chebyshev_coefficients(values: Array) -> Array:
    """Return the coefficients of the interpolant at x_j = cos(pi j / N), j = 0..N, by a cosine transform."""
    nodes = len(values) - 1
    mirrored = np.concatenate([values, values[-2:0:-1]])
    coefficients = np.fft.rfft(mirrored).real / nodes
    coefficients[[0, -1]] /= 2.0
    return np.asarray(coefficients)


def rough_column(function: Callable[[Array], Array], rows: Array, columns: Sequence[int]) -> int | None:
    """Return a column in which a function (of unit rows) is not smooth along lines through some rows, or None."""
    line = np.cos(np.pi * np.arange(NODES + 1) / NODES)
    anchors = rows[np.linspace(0, len(rows) - 1, _ANCHORS).astype(np.int64)]
    spread = float(np.std(function(rows))) + 1e-300
    for column in columns:
        for anchor in anchors:
            moved = np.tile(anchor, (NODES + 1, 1))
            moved[:, column] = line
            sizes = np.abs(chebyshev_coefficients(function(moved)))
            if sizes[NODES // 4 : NODES // 2].max() > MOST_TAIL * max(float(sizes[1:].max()), 1e-6 * spread):
                return column
    return None
