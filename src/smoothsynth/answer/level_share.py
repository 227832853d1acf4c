"""The share of rows with one level, or in one node, of a category of many levels: from its noisy count alone.

Such levels are no coordinates of the cube. Their counts were released with noise, so an interval needs nothing but that.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.answer.columns import may_lack
from smoothsynth.answer.estimate import Estimate
from smoothsynth.answer.language import Apply, Column, Text
from smoothsynth.errors import PlanError
from smoothsynth.queries.level_histograms import LevelHistogram, LevelHistograms
from smoothsynth.queries.soft_tables import Cells
from smoothsynth.schema import Category

if TYPE_CHECKING:
    from smoothsynth.answer.language import Node
    from smoothsynth.pipeline.release import Release
    from smoothsynth.queries.measurement import NoisyMoments


def level_share(release: Release, tree: Node, *, confidence: float) -> Estimate | None:
    """Answer avg(column = 'level') for a level or node below the cube; None if the question is another one."""
    asked = _asked(release, tree)
    if asked is None:
        return None
    name, number, tier, node = asked
    column = release.schema.columns[name]
    tiers = column.hierarchy if isinstance(column, Category) else None
    if tiers is None:
        raise AssertionError("only categories with tiers are asked for levels here")
    codes = column.level_codes(release.table[name])  # type: ignore[union-attr]
    inside = np.append(tiers.places[tier] == node, False)[codes]
    value = float(inside.sum()) / max(1, int((codes >= 0).sum()))
    for noisy in release.moments:
        family = noisy.measurement.family
        histogram = LevelHistogram(number, tier, len(tiers.nodes[tier]))
        if isinstance(family, LevelHistograms) and histogram in family.histograms:
            place = family.histograms.index(histogram)
            return _estimate(noisy, place, node, value, confidence=confidence, ratio=may_lack(column))
    raise PlanError(
        f"The levels of {name!r} were not counted: at this budget and number of rows noise would have drowned them. Ask for "
        f"a node above them, as in {name} = '{tiers.nodes[tiers.cube][0]}'."
    )


def _asked(release: Release, tree: Node) -> tuple[str, int, int, int] | None:
    """Return the column, its number, the tier and the node that avg(column = 'node') names, below the cube."""
    if not (isinstance(tree, Apply) and tree.name == "avg" and isinstance(tree.arguments[0], Apply)):
        return None
    inner = tree.arguments[0]
    sides = (inner.arguments, inner.arguments[::-1]) if inner.name == "=" else ()
    for column, text in sides:
        described = release.schema.columns.get(column.name) if isinstance(column, Column) else None
        if isinstance(text, Text) and isinstance(column, Column) and isinstance(described, Category):
            tiers, wanted = described.hierarchy, text.value.strip()
            if tiers is None or wanted in described.cube.texts:
                return None
            tier = next((t for t in tiers.finer if wanted in tiers.nodes[t]), None)
            number = release.schema.names.index(column.name)
            return None if tier is None else (column.name, number, tier, tiers.nodes[tier].index(wanted))
    return None


def _estimate(noisy: NoisyMoments, place: int, node: int, value: float, *, confidence: float, ratio: bool) -> Estimate:
    cells = noisy.features
    if not isinstance(cells, Cells):
        raise TypeError("histograms have cells")
    where = list(cells.places())[place][1]
    counts = noisy.values[where]
    # Where rows may have no level, their share is uncertain too: each of two intervals fails half as often.
    reach = _reach(noisy, 1.0 - (1.0 - confidence) / (2.0 if ratio else 1.0))
    low, high = max(0.0, float(counts[node]) - reach), min(1.0, float(counts[node]) + reach)
    if ratio:
        there = 1.0 - float(counts[-1])
        low, high = low / min(1.0, there + reach), min(1.0, high / max(there - reach, 1.0 / noisy.rows))
    return Estimate(
        value=value,
        low=min(low, value),
        high=max(high, value),
        confidence=confidence,
        noise=reach,
        fit=float(counts[node]) - value,
        unseen=0.0,
        sampling=0.0,
        unseen_is="bounded",
    )


def _reach(noisy: NoisyMoments, confidence: float) -> float:
    """Return what noise stays within with this confidence, as a share of the rows."""
    deviation = float(noisy.deviations[0])
    if noisy.measurement.multiplier is not None:
        return NormalDist().inv_cdf((1.0 + confidence) / 2.0) * deviation
    return -math.log(1.0 - confidence) * deviation / math.sqrt(2.0)
