"""Equal-width bins between public bounds: what the marginal mechanisms need of a numeric table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def to_bins(points: NDArray[np.float64], *, bins: int) -> NDArray[np.int64]:
    """Return the bin 0..bins-1 of every coordinate of rows in the cube; the bin of x is floor((x + 1) / 2 * bins)."""
    return np.clip((points + 1) / 2 * bins, 0, bins - 1).astype(np.int64)


def from_bins(numbers: NDArray[np.int64], *, bins: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return rows of the cube, each coordinate uniform inside its bin."""
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < bins:
        message = f"Bin numbers must be in 0..{bins - 1}; found {numbers.min()}..{numbers.max()}."
        raise ValueError(message)
    return (numbers + rng.uniform(0, 1, numbers.shape)) / bins * 2 - 1
