"""Histograms of the levels of categories: how many rows lie in each node of a tier, for columns of many levels.

A row lies in one node of every tier of a column, or in none of them, which is a cell of its own. So replacing a row moves a
histogram by at most 2 in all and by sqrt(2) in length, and H histograms by 2 H and sqrt(2 H), whatever the number of their
nodes (docs/proofs/sensitivity.md, section 14).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from smoothsynth.errors import PlanError
from smoothsynth.queries.families import Block, QueryFamily
from smoothsynth.queries.soft_tables import Cells

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.sensitivity import Indicators
    from smoothsynth.queries.transformation import Transformation
    from smoothsynth.schema import Schema
    from smoothsynth.schema.hierarchy import Hierarchy


@dataclass(frozen=True, slots=True)
class LevelHistogram:
    """The nodes of one tier of one column, both by number; the coarsest tier is 0."""

    column: int
    tier: int
    nodes: int

    def hierarchy(self, schema: Schema) -> Hierarchy:
        """Return the tiers of the column; refuse a schema that has no such tier, or another number of nodes in it."""
        columns = list(schema.columns.values())
        found = getattr(columns[self.column], "hierarchy", None) if 0 <= self.column < len(columns) else None
        if found is None or self.tier not in found.finer or len(found.nodes[self.tier]) != self.nodes:
            raise PlanError("Histograms of levels must be of tiers that the columns of the schema have below the cube.")
        return found


@dataclass(frozen=True, slots=True)
class LevelHistograms(QueryFamily):
    """How many rows lie in each node of some tiers."""

    name: ClassVar[str] = "histograms of levels"
    own_coordinates: ClassVar[bool] = False
    alone: ClassVar[bool] = False
    histograms: tuple[LevelHistogram, ...] = ()

    def __post_init__(self) -> None:
        if not self.histograms or len({(h.column, h.tier) for h in self.histograms}) < len(self.histograms):
            raise PlanError("Histograms of levels are of different tiers, and at least one.")
        if any(type(n) is not int or n < 0 for h in self.histograms for n in (h.column, h.tier, h.nodes)):
            raise PlanError("Histograms of levels have whole numbers of columns, tiers and nodes.")

    @property
    def exact(self) -> bool:
        """Whether the lattice values of features are what they stand for."""
        return True

    @property
    def shares(self) -> bool:
        """Whether moments are shares of the rows, from 0 to 1."""
        return True

    def lines(self, dimensions: int) -> int:
        """Return that no coordinate is bent: levels are not in the cube."""
        return 0

    def cells(self) -> Cells:
        """Return the features: the nodes of each histogram, and one cell for rows that lie in none."""
        counts = tuple(h.nodes + 1 for h in self.histograms)
        return Cells(counts, tuple((number,) for number in range(len(counts))))

    def blocks(self, features: Sequence[Feature], dimensions: int) -> Iterator[tuple[Block, ...]]:
        """Yield nothing: coordinates of the cube do not tell the levels below them."""
        yield from ()

    def check(self, features: Sequence[Feature], lines: int) -> None:
        """Refuse features that are not all cells of all histograms."""
        if features != self.cells():
            raise PlanError("Histograms of levels are measured whole.")

    def check_schema(self, schema: Schema) -> None:
        """Refuse a schema whose columns have no such tiers."""
        for histogram in self.histograms:
            histogram.hierarchy(schema)

    def indicators(
        self,
        transformation: Transformation,
        features: Sequence[Feature],
        binary: Sequence[int],
        exclusive: tuple[tuple[int, ...], ...],
    ) -> Indicators:
        """Return that nothing of indicators is needed: the bound holds for whatever a row is."""
        from smoothsynth.queries.sensitivity import Indicators

        return Indicators()

    def linf(self, features: Sequence[Feature], weights: Sequence[int], indicators: Indicators) -> int:
        """Bound how far one row moves the sums, in the largest of them."""
        return max(weights)

    def l1(self, features: Sequence[Feature], weights: Sequence[int], indicators: Indicators) -> float:
        """Bound how far one row moves the sums, in their sum: 2 for each histogram."""
        return 2.0 * max(weights) * len(self.histograms)

    def l2(self, features: Sequence[Feature], weights: Sequence[int], indicators: Indicators) -> float:
        """Bound how far one row moves the sums, in length: sqrt(2) for each histogram, and histograms at right angles."""
        return math.sqrt(2.0 * len(self.histograms)) * max(weights)

    def facts(self) -> dict[str, Any]:
        """Return what moments.json says of the family."""
        listed = [[h.column, h.tier, h.nodes] for h in self.histograms]
        return {"radius": None, "pooled": False, "histograms": listed}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> LevelHistograms:
        """Read what `facts` wrote."""
        return cls(tuple(LevelHistogram(column, tier, nodes) for column, tier, nodes in facts["histograms"]))
