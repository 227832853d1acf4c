"""Query families: what can be measured of a row. Each has its basis, its sensitivity and its place in a release folder.

A family says what is seen of a row once its coordinates are bent by a transformation (smoothsynth.queries.transformation),
which functions of that are summed, and how far one person moves them. What a model proposes for the next transformation of a
family, and what it learns from its moments, is registered in smoothsynth.model.model.

    family                  what is seen of a row                            basis
    MarginalMoments         its coordinates as they are                      Chebyshev polynomials
    RankHistogram           each coordinate bent to its rank                 hat functions, their cosines, or cosines
    ClippedSecondMoments    standardised, clipped to a norm                  Chebyshev polynomials of degree 1 and 2
    RowNorms                the rank of its mean square                      cosines
    SoftTables              soft cells of columns                            products of one to three
    LevelHistograms         the levels of columns that have many             one count for each
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.queries.bases import (
    FEWEST_CELLS,
    LATTICE,
    MOST_CELLS,
    Chebyshev,
    HatBasis,
    HatCosines,
    check_hats,
    feature_values,
)
from smoothsynth.queries.sensitivity import (
    Indicators,
    clipped_l1,
    clipped_l2,
    clipped_nuclear,
    hat_cosines_l1,
    hat_cosines_l2,
    hat_cosines_size,
    hat_l1,
    hat_l2,
    l1_sensitivity,
    l2_sensitivity,
    linf_sensitivity,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Basis, Factors, Feature
    from smoothsynth.queries.transformation import Transformation

    Array = NDArray[np.float64]
    Features = Sequence[Feature]
    Weights = Sequence[int]
    Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Features that read the same coordinates of a row, each the sum of the measured ones at a line of `places`."""

    read: frozenset[int]
    features: Features
    places: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class QueryFamily:
    """A family of queries on rows: here what holds for most, with Chebyshev polynomials of coordinates.

    `own_coordinates`: each coordinate that is seen is one of the schema's. `alone`: it depends on one coordinate of the
    row only. `local`: a feature depends on no coordinates but those that it reads. `exact`: sums on the lattice need no
    allowance for rounding. `shares`: its moments are shares of the rows.
    """

    name: ClassVar[str] = ""
    own_coordinates: ClassVar[bool] = True
    alone: ClassVar[bool] = True
    local: ClassVar[bool] = True

    @property
    def basis(self) -> Basis:
        """The functions of what is seen."""
        return Chebyshev()

    @property
    def exact(self) -> bool:
        """Whether the lattice values of features are what they stand for."""
        return False

    @property
    def shares(self) -> bool:
        """Whether moments are shares of the rows, from 0 to 1."""
        return False

    def lines(self, dimensions: int) -> int:
        """Return how many coordinates of rows with so many are bent."""
        return dimensions

    def coordinates(self, dimensions: int) -> int:
        """Return how many coordinates are seen of rows with so many."""
        return self.lines(dimensions)

    def read(self, seen: Sequence[int], dimensions: int) -> list[int]:
        """Return the coordinates of a row that those which are seen are made of."""
        return list(seen)

    def blocks(self, features: Features, dimensions: int) -> Iterator[tuple[Block, ...]]:
        """Yield all that was measured, block by block; of alternatives, the largest first, one may be used."""
        for place, feature in enumerate(features):
            seen = sorted({c for term in feature.terms for c, _ in term})
            yield (Block(frozenset(self.read(seen, dimensions)), (feature,), np.array([[place]])),)

    def factors(self, transformation: Transformation, points: Array) -> Factors:
        """Return the factors of features at points of the cube, each computed once it is asked for."""
        return BentFactors(transformation, points) if self.alone else self.basis.factors(transformation.of(points))

    def means(self, factors: Factors, block: Block) -> Array:
        """Return the means of a block of features over the points of some factors."""
        return np.array([feature_values(feature, factors).mean() for feature in block.features])

    def before(self, lattice: Array) -> Array:
        """Return what is bent of lattice values, (coordinates, rows)."""
        return lattice

    def after(self, bent: Array) -> Array:
        """Return what is seen of bent lattice values, (lines, rows); they may be changed in place."""
        return bent

    def shrink(self, bent: Array) -> Array | None:
        """Return by how much each row is multiplied; None if none is."""
        return None

    def check(self, features: Features, lines: int) -> None:
        """Refuse features that are not of this family."""

    def indicators(
        self, transformation: Transformation, features: Features, binary: Sequence[int], exclusive: Groups
    ) -> Indicators:
        """Return what is known of indicators as they are seen: a transformation must keep 0 at 0 and 1 at 0 or more."""
        ends = {c: transformation.bend(c, np.array([0.0, LATTICE])).tolist() for c in binary}
        return _kept({c for c, (zero, one) in ends.items() if zero == 0 and one >= 0}, binary, exclusive)

    def linf(self, features: Features, weights: Weights, indicators: Indicators) -> int:
        """Bound how far one row moves the sums, in the largest of them."""
        return linf_sensitivity(features, weights, indicators)

    def l1(self, features: Features, weights: Weights, indicators: Indicators) -> float:
        """Bound how far one row moves the sums, in their sum."""
        return l1_sensitivity(features, weights, indicators)

    def l2(self, features: Features, weights: Weights, indicators: Indicators) -> float:
        """Bound how far one row moves the sums, in length."""
        return l2_sensitivity(features, weights, indicators)

    def nuclear(self, features: Features, weights: Weights, together: int) -> int:
        """Bound how far so many rows move the matrix of the sums, in nuclear norm."""
        raise PlanError("Wishart noise is for products of clipped rows.")

    def size(self, features: Features, weights: Weights, power: int) -> float:
        """Bound  sum |w phi|^p  of one row over features of one coordinate."""
        return math.fsum(float(weight) ** power for weight in weights)

    def facts(self) -> dict[str, Any]:
        """Return what moments.json says of the family beside the knots of its transformation."""
        return {"radius": None, "pooled": False}


@dataclass(frozen=True, slots=True)
class MarginalMoments(QueryFamily):
    """Products of Chebyshev polynomials of coordinates as they are: means, second moments, shares of levels."""

    name: ClassVar[str] = "marginal moments"


@dataclass(frozen=True, slots=True)
class RankHistogram(QueryFamily):
    """Hat functions of the rank of each coordinate, so many as `cells`, or `cosines` made of these; or of the rank itself."""

    name: ClassVar[str] = "rank histogram"
    cells: int | None = None
    cosines: bool = False

    def __post_init__(self) -> None:
        if self.cells is not None and not (type(self.cells) is int and FEWEST_CELLS <= self.cells <= MOST_CELLS):
            raise PlanError(f"There can be {FEWEST_CELLS} to {MOST_CELLS} soft counts of a coordinate.")
        if type(self.cosines) is not bool or (self.cosines and self.cells is None):
            raise PlanError("Cosines are made of soft counts: say of how many.")

    @property
    def basis(self) -> Basis:
        """The functions of what is seen."""
        if self.cells is None:
            return Chebyshev()
        return HatCosines(self.cells) if self.cosines else HatBasis(self.cells)

    @property
    def exact(self) -> bool:
        """Whether the lattice values of features are what they stand for: hat functions are whole numbers."""
        return self.cells is not None

    @property
    def shares(self) -> bool:
        """Whether moments are shares of the rows, from 0 to 1."""
        return self.cells is not None and not self.cosines

    def check(self, features: Features, lines: int) -> None:
        """Refuse features that are not different hat functions of single coordinates."""
        if self.cells is not None:
            check_hats(features, self.cells)

    def indicators(
        self, transformation: Transformation, features: Features, binary: Sequence[int], exclusive: Groups
    ) -> Indicators:
        """Return the indicators whose measured hat functions are all 0 where the indicator is 0."""
        if self.cells is None:
            # Python 3.10 has no super() without arguments in a dataclass with slots.
            return QueryFamily.indicators(self, transformation, features, binary, exclusive)
        at_zero = {c: self.basis.factors(transformation.bend(c, np.zeros(1))[:, None] / LATTICE) for c in binary}
        moved = {c for ((c, j),) in (f.terms[0] for f in features) if c in at_zero and at_zero[c].of(0, j)[0] != 0.0}
        return _kept(set(binary) - moved, binary, exclusive)

    def linf(self, features: Features, weights: Weights, indicators: Indicators) -> int:
        """Bound how far one row moves the sums, in the largest of them."""
        if self.cells is None:
            return linf_sensitivity(features, weights, indicators)
        return max(weights) * (2 if self.cosines else 1)

    def l1(self, features: Features, weights: Weights, indicators: Indicators) -> float:
        """Bound how far one row moves the sums, in their sum."""
        if self.cells is None:
            return l1_sensitivity(features, weights, indicators)
        if self.cosines:
            return hat_cosines_l1(features, weights, indicators.groups(), counts=self.cells)
        return hat_l1(features, weights, indicators.groups())

    def l2(self, features: Features, weights: Weights, indicators: Indicators) -> float:
        """Bound how far one row moves the sums, in length."""
        if self.cells is None:
            return l2_sensitivity(features, weights, indicators)
        if self.cosines:
            return hat_cosines_l2(features, weights, indicators.groups(), counts=self.cells)
        return hat_l2(features, weights, indicators.groups())

    def size(self, features: Features, weights: Weights, power: int) -> float:
        """Bound  sum |w phi|^p  of one row over features of one coordinate."""
        if self.cells is None:
            return QueryFamily.size(self, features, weights, power)
        if self.cosines:
            return hat_cosines_size(features, weights, counts=self.cells, power=power)
        return float(max(weights)) ** power

    def facts(self) -> dict[str, Any]:
        """Return what moments.json says of the family beside the knots of its transformation."""
        plain: dict[str, Any] = {"radius": None, "pooled": False}
        counted = plain if self.cells is None else {**plain, "counts": self.cells}
        return {**counted, "cosines": True} if self.cosines else counted


@dataclass(frozen=True, slots=True)
class ClippedSecondMoments(QueryFamily):
    """Coordinates and products of two, of standardised rows that are clipped to a norm, in units of the cube."""

    name: ClassVar[str] = "clipped second moments"
    alone: ClassVar[bool] = False
    local: ClassVar[bool] = False
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.clip_norm < 1e6:
            raise PlanError("The radius of a view must be a positive number.")

    def shrink(self, bent: Array) -> Array:
        """Return by how much each row is multiplied:  radius / |y|  where it is longer than the norm."""
        length = np.sqrt(np.einsum("ij,ij->j", bent, bent))
        return np.asarray(np.minimum(1.0, self.clip_norm * LATTICE / np.maximum(length, 1.0)))

    def after(self, bent: Array) -> Array:
        """Clip rows that are longer than the norm, in place:  y = trunc(y radius / |y|)."""
        bent *= self.shrink(bent)
        return np.trunc(bent, out=bent)

    def check(self, features: Features, lines: int) -> None:
        """Refuse features that leave out a coordinate."""
        if {c for feature in features for term in feature.terms for c, _ in term} != set(range(lines)):
            raise PlanError("A view with a radius needs features of all coordinates: a row's length is that of all.")

    def indicators(
        self, transformation: Transformation, features: Features, binary: Sequence[int], exclusive: Groups
    ) -> Indicators:
        """Return that nothing is known of indicators: clipping moves them."""
        return Indicators()

    def l1(self, features: Features, weights: Weights, indicators: Indicators) -> float:
        """Bound how far one row moves the sums, in their sum."""
        return min(l1_sensitivity(features, weights, indicators), clipped_l1(features, weights, radius=self.clip_norm))

    def l2(self, features: Features, weights: Weights, indicators: Indicators) -> float:
        """Bound how far one row moves the sums, in length."""
        return min(l2_sensitivity(features, weights, indicators), clipped_l2(features, weights, radius=self.clip_norm))

    def nuclear(self, features: Features, weights: Weights, together: int) -> int:
        """Bound how far so many rows move the matrix of the sums, in nuclear norm."""
        return clipped_nuclear(features, weights, radius=self.clip_norm, together=together)

    def facts(self) -> dict[str, Any]:
        """Return what moments.json says of the family beside the knots of its transformation."""
        return {"radius": self.clip_norm, "pooled": False}


@dataclass(frozen=True, slots=True)
class RowNorms(QueryFamily):
    """Cosines of the rank of a row's mean square: one coordinate made of all,  X = floor(2 sum X_i^2 / (d S)) - S."""

    name: ClassVar[str] = "row norms"
    own_coordinates: ClassVar[bool] = False
    alone: ClassVar[bool] = False

    def lines(self, dimensions: int) -> int:
        """Return how many coordinates of rows with so many are bent."""
        return 1

    def read(self, seen: Sequence[int], dimensions: int) -> list[int]:
        """Return the coordinates of a row that those which are seen are made of."""
        return list(range(dimensions))

    def before(self, lattice: Array) -> Array:
        """Return the mean of T_2 over each row."""
        squares = np.einsum("ij,ij->j", lattice, lattice)
        return np.asarray(np.floor(2.0 * squares / (len(lattice) * LATTICE)) - LATTICE)[None, :]

    def indicators(
        self, transformation: Transformation, features: Features, binary: Sequence[int], exclusive: Groups
    ) -> Indicators:
        """Return that nothing is known of indicators: they are not seen."""
        return Indicators()

    def facts(self) -> dict[str, Any]:
        """Return what moments.json says of the family beside the knots of its transformation."""
        return {"radius": None, "pooled": True}


class BentFactors:
    """Factors of features at points whose coordinates are bent one by one, each when it is first used."""

    def __init__(self, transformation: Transformation, points: Array) -> None:
        self._transformation, self._points = transformation, points
        self._known: dict[int, Factors] = {}

    def of(self, coordinate: int, number: int) -> Array:
        """Return one factor of one coordinate."""
        if coordinate not in self._known:
            bent = self._transformation.bend(coordinate, np.rint(self._points[:, coordinate] * LATTICE))[None]
            family = self._transformation.family
            self._known[coordinate] = family.basis.factors(family.after(bent).T / LATTICE)
        return self._known[coordinate].of(0, number)


def _kept(known: Collection[int], binary: Sequence[int], exclusive: Groups) -> Indicators:
    kept = tuple(c for c in binary if c in known)
    return Indicators(kept, tuple(tuple(c for c in group if c in kept) for group in exclusive))
