"""What was released first is believed where later stages contradict it beyond noise.

Ranks and cut rows tell shapes well, but not where a column crowds on one value: a spike is narrower than cosines of ranks
can tell, and a share that is left flat moves its mean. The first release has the mean and the mean square of each column,
neither bent nor cut. With many rows it knows them better than all that follows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.synthesis.columns import tilt
from smoothsynth.synthesis.low_moments import UNKNOWN, first_moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.synthesis.columns import Columns

    Array = NDArray[np.float64]

# So many deviations off is not noise. A little less may still be what later stages know better.
_BEYOND_NOISE = 6.0
# No place is impossible for a column that was put on the wrong one.
_KEPT_FLAT = 1e-3


def hold_first(columns: Columns, low: Sequence[NoisyMoments]) -> Columns:
    """Tilt columns whose mean or mean square is further from the first release than noise explains, and no others.

    The moment that is off is moved to where it was released; the other stays where later stages have it.
    """
    released, noise = first_moments(columns, low)
    functions = np.stack([columns.places, 2.0 * columns.places**2 - 1.0], axis=1)
    found = np.einsum("dqg,dg->dq", functions, columns.masses)
    off = np.abs(found - released) > _BEYOND_NOISE * noise
    moved = off.any(axis=1, keepdims=True)
    if not moved.any():
        return columns
    wanted = np.where(off, released, found)
    tilted = tilt(columns.mixed(_KEPT_FLAT), functions, wanted, np.where(moved, noise, UNKNOWN))
    return replace(tilted, masses=np.where(moved, tilted.masses, columns.masses))
