"""Tables to compare with that need no thought: uniform rows, the mean row, a non-private bootstrap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def uniform_rows(real: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw rows uniformly from the cube: knows nothing of the data."""
    return rng.uniform(-1, 1, real.shape)


def mean_row(real: NDArray[np.float64], _rng: np.random.Generator) -> NDArray[np.float64]:
    """Repeat the true mean row (not private): what knowing the means alone is worth."""
    return np.repeat(real.mean(axis=0, keepdims=True), 2, axis=0)


def bootstrap(real: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw real rows with replacement (not private): the sampling error of a table of this size."""
    return real[rng.integers(0, len(real), len(real))]


BASELINES = {
    "uniform rows": uniform_rows,
    "mean row (not private)": mean_row,
    "bootstrap (not private)": bootstrap,
}
