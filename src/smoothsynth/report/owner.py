"""What the owner of the data may see beside a release: values of the private rows, for a page that is not released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

NOT_FOR_RELEASE = "NOT FOR RELEASE"


class Comparison(Protocol):
    """Statistics of the private rows: as secret as the rows themselves."""

    @property
    def answers(self) -> Sequence[float]:
        """The true answers to the typical questions."""

    @property
    def correlation(self) -> NDArray[np.float64]:
        """The correlations of the private rows."""

    def as_dict(self) -> dict[str, Any]:
        """Return `curves` (kernel averages of each column), `correlations` (lower half) and `answers`."""
