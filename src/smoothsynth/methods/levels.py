"""The rounds that count levels below the nodes of the cube: which tiers, for which share of the budget.

Tiers at the same distance from the levels are counted together, those of all columns. With m nodes in a round its share goes
with sqrt(m): under noise s(m) of a count the error of a tier in all is about m s(m). The finest round is left out, and then
the next, as long as too few nodes of a round would be told from noise, were their counts to follow Zipf's law, n / (k log m)
for the k-th: if the first stands out by 12 deviations, the fourth does by 3. From public facts alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothsynth.methods.layout import levels_purpose
from smoothsynth.queries.level_histograms import LevelHistograms
from smoothsynth.queries.measurement import Measurement

if TYPE_CHECKING:
    from smoothsynth.methods.layout import Shape
    from smoothsynth.queries.level_histograms import LevelHistogram


# The share of the budget for one column with tiers, for each further one, and the most for all. One column then has at most
# 1.1 times the noise in its nodes that they have alone. A pure budget is shared in epsilons, not in their squares: half that,
# but in a table of one column, where nothing else matters, the nodes have little noise anyway.
FIRST, FURTHER, MOST, PURE, ALONE = 0.15, 0.05, 0.3, 0.5, 0.5
# By so many deviations of noise the largest node of a round must stand out.
DEVIATIONS = 12.0


@dataclass(frozen=True, slots=True)
class LevelRound:
    """Histograms that are measured together, and their share of the budget."""

    histograms: tuple[LevelHistogram, ...]
    share: float

    @property
    def nodes(self) -> int:
        """How many nodes are counted."""
        return sum(h.nodes for h in self.histograms)

    def clear(self, unit: float, power: float) -> bool:
        """Whether nodes of each column would stand out from noise; `unit` is that of one histogram by itself."""
        noise = unit * (len(self.histograms) / self.share) ** power
        return DEVIATIONS * noise * math.log(max(h.nodes for h in self.histograms)) <= 1.0

    def measurement(self, shape: Shape, cost: float, *, pure: bool, rows_per_person: int) -> Measurement:
        """Return the measurement at this cost: a multiplier, or an epsilon if `pure`."""
        family = LevelHistograms(self.histograms)
        kind: dict[str, Any] = {"epsilon" if pure else "multiplier": cost}
        return Measurement(
            purpose=levels_purpose(family),
            features=family.cells(),
            mechanism="discrete laplace" if pure else "discrete gaussian",
            rows_per_person=rows_per_person,
            transformation=shape.straight(family),
            **kind,
        )


def plan_levels(shape: Shape, unit: float, *, power: float) -> list[LevelRound]:
    """Return the rounds that noise allows, the coarsest tiers first; none if no level would be told from noise."""
    tiers, columns = list(shape.tiers), len({h.column for tier in shape.tiers for h in tier})
    given = min(MOST, FIRST + FURTHER * (columns - 1))
    if power == 1.0:
        given = ALONE if shape.columns == 1 else PURE * given
    while tiers:
        roots = [math.sqrt(sum(h.nodes for h in tier)) for tier in tiers]
        rounds = [LevelRound(tier, given * root / math.fsum(roots)) for tier, root in zip(tiers, roots, strict=True)]
        if all(one.clear(unit, power) for one in rounds):
            return rounds
        # The coarser ones have more rows in their largest nodes, and get what this one had.
        del tiers[-1]
    return []
