"""A public way of looking at a row before its features are taken: each coordinate bent, the whole row kept short.

Later measurements can use what earlier ones released: rank-like coordinates spread a spike over the whole cube,
standardised ones put noise in units of correlation. A transformation is made of released or public numbers only, it is
whole-number arithmetic on the lattice, and it maps every row into the cube, so all sensitivities stay true.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.queries.bases import LATTICE
from smoothsynth.queries.families import ClippedSecondMoments, QueryFamily, RankHistogram, RowNorms
from smoothsynth.queries.level_histograms import LevelHistograms
from smoothsynth.queries.soft_tables import SoftTables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


# A coordinate is bent by a chain of straight pieces, each 2^8 lattice steps wide.
PIECE = 2**8
KNOTS = 2 * LATTICE // PIECE + 1


@dataclass(frozen=True, slots=True, eq=False)
class Transformation:
    """Lattice values at the knots of each coordinate, (lines, KNOTS), and the query family that sees what is bent.

    With X + S = 256 j + f:  y = floor((knot_j (256 - f) + knot_{j+1} f) / 256).
    """

    knots: NDArray[np.int64]
    family: QueryFamily = field(default_factory=RankHistogram)

    def __post_init__(self) -> None:
        knots = np.array(self.knots, dtype=np.int64)
        if knots.ndim != 2 or knots.shape[1] != KNOTS or np.abs(knots).max(initial=0) > LATTICE:
            raise PlanError(f"A view needs {KNOTS} knots within [-{LATTICE}, {LATTICE}] for each coordinate.")
        if self.family.lines(len(knots)) != len(knots):
            raise PlanError(f"A view of {self.family.name} has one coordinate; there are {len(knots)}.")
        knots.setflags(write=False)
        object.__setattr__(self, "knots", knots)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transformation):
            return NotImplemented
        return self.family == other.family and np.array_equal(self.knots, other.knots)

    def __hash__(self) -> int:
        return hash((self.knots.tobytes(), self.family))

    def sees(self, dimensions: int, coordinates: Iterable[int]) -> bool:
        """Whether the transformation is one of rows with so many coordinates, and what it sees of them has these."""
        most = self.family.coordinates(dimensions)
        return len(self.knots) == self.family.lines(dimensions) and all(0 <= c < most for c in coordinates)

    @classmethod
    def from_values(cls, values: NDArray[np.float64], family: QueryFamily | None = None) -> Transformation:
        """Make a transformation from the values in [-1, 1] that the coordinates shall have at their knots."""
        return cls(np.rint(np.clip(values, -1.0, 1.0) * LATTICE).astype(np.int64), family or RankHistogram())

    @classmethod
    def straight(cls, dimensions: int, family: QueryFamily | None = None) -> Transformation:
        """Return the transformation that bends nothing: what a plan knows before the first release."""
        family = family or RankHistogram()
        return cls.from_values(np.tile(knot_places(), (family.lines(dimensions), 1)), family)

    def bend(self, coordinate: int, lattice: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the bent lattice values of one coordinate; whole numbers in, whole numbers out."""
        shifted = lattice.astype(np.int64) + LATTICE
        piece = np.minimum(shifted // PIECE, KNOTS - 2)
        inside = shifted - piece * PIECE
        knots = self.knots[coordinate]
        return ((knots[piece] * (PIECE - inside) + knots[piece + 1] * inside) // PIECE).astype(np.float64)

    def of(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return points of the cube as they are seen through the transformation."""
        if isinstance(self.family, SoftTables):
            return self.family.hats_of(self, points)
        return self.family.after(self._bent(points)).T / LATTICE

    def of_knots(self, coordinate: int) -> NDArray[np.float64]:
        """Return what one coordinate is seen as at its knots."""
        return self.knots[coordinate] / LATTICE

    def unclipped(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return points of the cube as they are bent, before anything else is made of them."""
        return self._bent(points).T / LATTICE

    def _bent(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        lattice = self.family.before(np.rint(points.T * LATTICE))
        return np.stack([self.bend(c, values) for c, values in enumerate(lattice)])

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for moments.json."""
        return {"knots": self.knots.tolist(), **self.family.facts()}

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Transformation:
        """Read what `as_dict` wrote."""
        family, knots = family_of(facts), np.array(facts["knots"], dtype=np.int64)
        return cls(knots if knots.size else knots.reshape(0, KNOTS), family)


def knot_places() -> NDArray[np.float64]:
    """Return the places of the knots in [-1, 1]."""
    return np.linspace(-1.0, 1.0, KNOTS)


def family_of(facts: dict[str, Any]) -> QueryFamily:
    """Return the family that wrote these facts of a transformation; refuse facts that no family writes."""
    radius, pooled, counts = facts["radius"], facts["pooled"], facts.get("counts")
    listed = ("columns" in facts, "histograms" in facts)
    if sum((radius is not None, bool(pooled), counts is not None, *listed)) > 1:
        raise PlanError(
            "A view has a radius, is pooled, or has soft counts, tables or histograms: at most one of these."
        )
    if "waves" in facts:
        raise PlanError("This release measured waves of pairs of columns, which this version no longer knows.")
    if "columns" in facts:
        return SoftTables.from_facts(facts)
    if "histograms" in facts:
        return LevelHistograms.from_facts(facts)
    if pooled:
        return RowNorms()
    if radius is not None:
        return ClippedSecondMoments(radius)
    return RankHistogram(counts, cosines=facts.get("cosines", False))
