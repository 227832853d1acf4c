"""A public way of looking at a row before its features are taken: each coordinate bent, the whole row kept short.

Later measurements can use what earlier ones released: rank-like coordinates spread a spike over the whole cube,
standardised ones put noise in units of correlation. A view is made of released or public numbers only, it is
whole-number arithmetic on the lattice, and it maps every row into the cube, so all sensitivities stay true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.queries.bases import FEWEST_COUNTS, LATTICE, MOST_COUNTS, WAVES, evaluate, evaluate_counts, waves_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Feature


# A coordinate is bent by a chain of straight pieces, each 2^8 lattice steps wide.
PIECE = 2**8
KNOTS = 2 * LATTICE // PIECE + 1


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Lattice values at the knots of each coordinate, (dimensions, KNOTS), and the longest a row may be.

    With X + S = 256 j + f:  y = floor((knot_j (256 - f) + knot_{j+1} f) / 256).  Then, if `radius` is given
    (in units of the cube) and |y| > radius, the row is cut:  y = trunc(y radius / |y|).  A `pooled` view sees one
    coordinate only, the mean of T_2 over the row,  X = floor(2 sum X_i^2 / (d S)) - S,  bent by its only line.

    With a number of `counts`, a factor (c, j) of a term is not T_j of coordinate c but the j-th of its soft counts.
    A view of `waves` sees two coordinates in place of each, its waves (both: smoothsynth.queries.bases).
    """

    knots: NDArray[np.int64]
    radius: float | None = None
    pooled: bool = False
    counts: int | None = None
    waves: bool = False

    def __post_init__(self) -> None:
        knots = np.array(self.knots, dtype=np.int64)
        if knots.ndim != 2 or knots.shape[1] != KNOTS or np.abs(knots).max(initial=0) > LATTICE:
            raise PlanError(f"A view needs {KNOTS} knots within [-{LATTICE}, {LATTICE}] for each coordinate.")
        if self.pooled and (len(knots) != 1 or self.radius is not None):
            raise PlanError("A pooled view has one coordinate and no radius.")
        if self.radius is not None and not 0.0 < self.radius < 1e6:
            raise PlanError("The radius of a view must be a positive number.")
        if self.counts is not None and (self.pooled or self.radius is not None):
            raise PlanError("A view of soft counts is neither pooled nor has it a radius.")
        if self.counts is not None and not (type(self.counts) is int and FEWEST_COUNTS <= self.counts <= MOST_COUNTS):
            raise PlanError(f"There can be {FEWEST_COUNTS} to {MOST_COUNTS} soft counts of a coordinate.")
        if type(self.waves) is not bool or (self.waves and self.kind[:3] != (None, False, None)):
            raise PlanError("A view of waves has neither soft counts nor a radius, and is not pooled.")
        knots.setflags(write=False)
        object.__setattr__(self, "knots", knots)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View):
            return NotImplemented
        return self.kind == other.kind and np.array_equal(self.knots, other.knots)

    def __hash__(self) -> int:
        return hash((self.knots.tobytes(), self.kind))

    @property
    def kind(self) -> tuple[float | None, bool, int | None, bool]:
        """All that makes a view but its knots."""
        return self.radius, self.pooled, self.counts, self.waves

    @property
    def by_column(self) -> bool:
        """Whether each coordinate that is seen is one of the schema's, neither their length nor one of several waves."""
        return not (self.pooled or self.waves)

    def sees(self, dimensions: int, coordinates: Iterable[int]) -> bool:
        """Whether the view is one of rows with so many coordinates, and what it sees of them has these."""
        lines = 1 if self.pooled else dimensions
        most = lines * WAVES if self.waves else lines
        return len(self.knots) == lines and all(0 <= c < most for c in coordinates)

    @classmethod
    def from_values(
        cls,
        values: NDArray[np.float64],
        radius: float | None = None,
        *,
        pooled: bool = False,
        counts: int | None = None,
        waves: bool = False,
    ) -> View:
        """Make a view from the values in [-1, 1] that the coordinates shall have at their knots."""
        return cls(np.rint(np.clip(values, -1.0, 1.0) * LATTICE).astype(np.int64), radius, pooled, counts, waves)

    @classmethod
    def straight(
        cls,
        dimensions: int,
        radius: float | None = None,
        *,
        pooled: bool = False,
        counts: int | None = None,
        waves: bool = False,
    ) -> View:
        """Return the view that bends nothing: what a plan knows before the first release."""
        lines = np.tile(knot_places(), (dimensions, 1))
        return cls.from_values(lines, radius, pooled=pooled, counts=counts, waves=waves)

    def bend(self, coordinate: int, lattice: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the bent lattice values of one coordinate; whole numbers in, whole numbers out."""
        shifted = lattice.astype(np.int64) + LATTICE
        piece = np.minimum(shifted // PIECE, KNOTS - 2)
        inside = shifted - piece * PIECE
        knots = self.knots[coordinate]
        return ((knots[piece] * (PIECE - inside) + knots[piece + 1] * inside) // PIECE).astype(np.float64)

    def shorten(self, lattice: NDArray[np.float64]) -> None:
        """Cut columns of lattice values (coordinates x rows) that are longer than the radius, in place."""
        if self.radius is None:
            return
        longest = self.radius * LATTICE
        length = np.sqrt(np.einsum("ij,ij->j", lattice, lattice))
        lattice *= np.minimum(1.0, longest / np.maximum(length, 1.0))
        np.trunc(lattice, out=lattice)

    def pool(self, lattice: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the pooled coordinate of columns of lattice values (coordinates x rows)."""
        squares = np.einsum("ij,ij->j", lattice, lattice)
        return np.asarray(np.floor(2.0 * squares / (len(lattice) * LATTICE)) - LATTICE)

    def of(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return points of the cube as they are seen through the view."""
        seen = self._bent(points)
        if self.waves:
            seen = waves_of(seen)
        self.shorten(seen)
        return seen.T / LATTICE

    def of_knots(self, coordinate: int) -> NDArray[np.float64]:
        """Return what one coordinate is seen as at its knots."""
        return self.knots[coordinate] / LATTICE

    def uncut(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return points of the cube as they would be seen if no row were cut."""
        return self._bent(points).T / LATTICE

    def _bent(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        lattice = np.rint(points.T * LATTICE)
        if self.pooled:
            lattice = self.pool(lattice)[None, :]
        return np.stack([self.bend(c, values) for c, values in enumerate(lattice)])

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for moments.json; soft counts and waves only if there are any."""
        facts = {"knots": self.knots.tolist(), "radius": self.radius, "pooled": self.pooled}
        facts |= {} if self.counts is None else {"counts": self.counts}
        return {**facts, "waves": True} if self.waves else facts

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> View:
        """Read what `as_dict` wrote."""
        knots = np.array(facts["knots"], dtype=np.int64)
        return cls(knots, facts["radius"], bool(facts["pooled"]), facts.get("counts"), facts.get("waves", False))


def evaluate_through(
    view: View | None, features: Sequence[Feature], points: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the (points, features) matrix of feature values at points of the cube, seen through a view if there is one."""
    if view is None:
        return evaluate(features, points)
    seen = view.of(points)
    return evaluate(features, seen) if view.counts is None else evaluate_counts(features, seen, view.counts)


def knot_places() -> NDArray[np.float64]:
    """Return the places of the knots in [-1, 1]."""
    return np.linspace(-1.0, 1.0, KNOTS)
