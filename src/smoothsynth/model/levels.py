"""Levels below the nodes of the cube: their shares within each node from noisy counts of tiers, and their draws.

Tier by tier from above. The count x of a node is taken to come from a distribution that is fitted to all nodes whose parents
hold about as much (the nonparametric maximum likelihood estimate, on a grid, by expectation maximisation), and is estimated
by its posterior mean given y = x + noise; then the children of a node are scaled to what the node has. So no count is
negative, children add up to their parent, and what is lost in noise shares alike what is left. Robbins, An empirical Bayes
approach to statistics (1956); Jiang and Zhang, Ann. Statist. 37 (2009).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.queries.level_histograms import LevelHistograms
from smoothsynth.queries.soft_tables import Cells
from smoothsynth.schema import Category

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.schema import Schema
    from smoothsynth.schema.hierarchy import Hierarchy

    Array = NDArray[np.float64]
    Counts = Mapping[int, tuple[Array, float, bool]]


# Nodes are put into so many groups by the size of their parents, of so many nodes at least.
_GROUPS, _FEWEST_OF_A_GROUP = 24, 100
# Places of the fitted distribution beyond the first few whole numbers; steps of noise to which counts are rounded; sweeps.
_PLACES, _FEW, _STEPS, _SWEEPS = 64, 4, 4.0, 100
# No level of a node is impossible: it has this many rows at least before children are scaled.
_LEAST = 1e-3


def level_shares(schema: Schema, moments: Sequence[NoisyMoments]) -> dict[str, Array]:
    """Return the share that each level has of its node in the cube, for every column with tiers."""
    counted = _counted(moments)
    return {
        name: _shares(column.hierarchy, counted.get(number, {}))
        for number, (name, column) in enumerate(schema.columns.items())
        if isinstance(column, Category) and column.hierarchy is not None
    }


def drawn_levels(
    schema: Schema,
    shares: Mapping[str, Array],
    points: Array,
    *,
    generator: np.random.Generator,  # noqa: TID251
) -> dict[str, NDArray[np.int32]]:
    """Draw a level for each row within its node, so that each has its share of the node's rows up to one row.

    Systematic sampling within every node, in random order: Madow, Ann. Math. Statist. 20 (1949).
    """
    found = {}
    for name, own in shares.items():
        column = schema.columns[name]
        if not isinstance(column, Category) or column.hierarchy is None:
            raise TypeError("only categories with tiers have levels below the cube")
        nodes = column.pick(points[:, schema.coordinates_of(name)])
        found[name] = _drawn(nodes, column.hierarchy, own, generator=generator)
    return found


def _drawn(
    nodes: NDArray[np.int16],
    tiers: Hierarchy,
    shares: Array,
    *,
    generator: np.random.Generator,  # noqa: TID251
) -> NDArray[np.int32]:
    levels, count = np.argsort(tiers.places[tiers.cube], kind="stable"), len(tiers.nodes[tiers.cube])
    owners = tiers.places[tiers.cube][levels]
    # Node p has the levels between p and p + 1 on one line; each ends in p + 1 exactly.
    ends = np.cumsum(shares[levels])
    last = np.searchsorted(owners, np.arange(count), side="right") - 1
    first = np.concatenate([[0.0], ends[last[:-1]]])
    line = owners + np.minimum((ends - first[owners]) / (ends[last] - first)[owners], 1.0)
    line[last] = np.arange(1, count + 1)
    order = generator.permutation(len(nodes))
    order = order[np.argsort(nodes[order], kind="stable")]
    order = order[nodes[order] >= 0]
    rows = np.bincount(nodes[order], minlength=count)
    place = np.arange(len(order)) - np.repeat(np.cumsum(rows) - rows, rows)
    at = (place + np.repeat(generator.random(count), rows)) / np.repeat(rows, rows)
    drawn = np.full(len(nodes), -1, dtype=np.int32)
    # Rounding of  p + at  must not lead into the next node.
    target = np.minimum(nodes[order] + at, np.nextafter(nodes[order] + 1.0, 0.0))
    drawn[order] = levels[np.searchsorted(line, target, side="right")]
    return drawn


def _counted(moments: Sequence[NoisyMoments]) -> dict[int, dict[int, tuple[Array, float, bool]]]:
    """Return counts in rows, their noise and whether it is Gaussian, by column and tier; rows of no level are left out."""
    found: dict[int, dict[int, tuple[Array, float, bool]]] = {}
    for noisy in moments:
        family, cells = noisy.measurement.family, noisy.features
        if not isinstance(family, LevelHistograms) or not isinstance(cells, Cells):
            continue
        counts, noise = noisy.values * noisy.rows, float(noisy.deviations[0]) * noisy.rows
        gaussian = noisy.measurement.multiplier is not None
        for histogram, (_, where) in zip(family.histograms, cells.places(), strict=True):
            found.setdefault(histogram.column, {})[histogram.tier] = (counts[where][:-1], noise, gaussian)
    return found


def _shares(tiers: Hierarchy, counted: Counts) -> Array:
    """Return the share of each level in its node: estimated down to the last tier that was counted, alike below it."""
    above, totals = tiers.cube, np.ones(len(tiers.nodes[tiers.cube]))
    for tier in sorted(counted):
        counts, noise, gaussian = counted[tier]
        parents = tiers.above(tier, above)
        if above == tiers.cube:
            totals = np.maximum(np.bincount(parents, weights=counts), noise)
        children = np.bincount(parents)
        own = _estimated(counts, noise, totals[parents] / children[parents], gaussian=gaussian)
        totals, above = own * (totals / np.bincount(parents, weights=own))[parents], tier
    last = len(tiers.nodes) - 1
    parents = tiers.above(last, above)
    found = totals[parents] / np.bincount(parents)[parents]
    nodes = tiers.places[tiers.cube]
    return np.asarray(found / np.bincount(nodes, weights=found)[nodes])


def _estimated(counts: Array, noise: float, expected: Array, *, gaussian: bool) -> Array:
    """Return posterior means of counts, fitted apart for nodes of which about as much is `expected`."""
    groups = max(1, min(_GROUPS, len(counts) // _FEWEST_OF_A_GROUP))
    found = np.empty(len(counts))
    for group in np.array_split(np.argsort(expected, kind="stable"), groups):
        found[group] = _posterior_means(counts[group], noise, gaussian=gaussian)
    return found + _LEAST


def _posterior_means(counts: Array, noise: float, *, gaussian: bool) -> Array:
    step = noise / _STEPS
    rounded, where, times = np.unique(np.rint(counts / step), return_inverse=True, return_counts=True)
    top = max(float(counts.max()) + noise, 2.0 * _FEW)
    places = np.concatenate([np.arange(_FEW), np.geomspace(_FEW, top, _PLACES)])
    apart = np.abs(rounded[:, None] * step - places) / noise
    # Of each count only ratios matter: the largest likelihood is made 1.
    log = -0.5 * apart**2 if gaussian else -np.sqrt(2.0) * apart
    likelihood = np.exp(log - log.max(axis=1, keepdims=True))
    weights = np.full(len(places), 1.0 / len(places))
    for _ in range(_SWEEPS):
        weights *= (times / (likelihood @ weights)) @ likelihood / len(counts)
    posterior = likelihood * weights
    return np.asarray((posterior @ places / posterior.sum(axis=1))[where])
