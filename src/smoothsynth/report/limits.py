"""What a page says against itself: limits, and correlations that noise hides.

The correlations of the synthetic rows, and the noise in what was measured of each pair.

What a release cannot tell, computed from what it measured: the honest half of the page.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.answer.columns import has_value
from smoothsynth.answer.evidence import compared_rows
from smoothsynth.queries.bases import HatBasis, HatCosines
from smoothsynth.queries.families import RowNorms
from smoothsynth.queries.level_histograms import LevelHistograms
from smoothsynth.queries.soft_tables import Cells
from smoothsynth.schema import Category
from smoothsynth.schema.unresolved import open_bounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.pipeline.release import Release
    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.schema import Schema


# A correlation is told from noise if it is larger than this many standard deviations (95 %).
VISIBLE = 1.96


# Of a category so many levels are looked at.
_MOST_LEVELS = 24


@dataclass(frozen=True, slots=True, eq=False)
class Correlations:
    """Correlations of all pairs of columns, and the noise of each (infinite where the pair was not measured).

    Of a category it is that of the level which goes most with the other column; `levels` has the coordinate of it for the
    column of each row beside that of each column of the matrix. Its noise is larger by what choosing the largest asks for.
    """

    values: NDArray[np.float64]
    noise: NDArray[np.float64]
    levels: NDArray[np.int64]

    @property
    def visible(self) -> NDArray[np.bool_]:
        """Whether a correlation stands above its noise."""
        return np.abs(self.values) > VISIBLE * self.noise

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Whether anything was measured of a pair."""
        return np.isfinite(self.noise)

    def strongest(self, count: int) -> list[tuple[int, int]]:
        """Return the pairs with the largest correlations, those above the noise first."""
        first, second = np.triu_indices(len(self.values), 1)
        size = np.abs(self.values[first, second]) + self.visible[first, second]
        order = np.argsort(-size, kind="stable")[:count]
        return [(int(first[k]), int(second[k])) for k in order]

    def of_rows(self, schema: Schema, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the same correlations in other rows, given as points of the cube."""
        first, second = self.levels, self.levels.T
        chosen, places = np.unique(first, return_inverse=True)
        found, _ = _pairwise(points[:, chosen], _there(schema, points, chosen))
        places = places.reshape(first.shape)
        rest = found[places, places.T]
        np.fill_diagonal(rest, 1.0)
        return np.asarray(np.where(first == second, 1.0, rest))


def correlations(release: Release, names: Sequence[str]) -> Correlations:
    """Return the correlations of some columns of the synthetic rows with their noise, over the rows that have both.

    A product y_i y_j measured with noise of deviation s, where y is the row as the measurement saw it, puts noise of
    deviation  s / (sd(y_i) sd(y_j))  on the correlation of coordinates i and j.
    """
    points, groups = compared_rows(release), [_coordinates(release.schema, name) for name in names]
    noise = np.full((points.shape[1],) * 2, np.inf)
    for moments in release.moments:
        _lower(noise, moments, points)
    chosen = np.array([c for group in groups for c in group], dtype=np.int64)
    values, shares = _pairwise(points[:, chosen], _there(release.schema, points, chosen))
    with np.errstate(divide="ignore"):
        return _strongest_levels(groups, values, noise[np.ix_(chosen, chosen)] / shares)


def _coordinates(schema: Schema, name: str) -> list[int]:
    """Return the levels of a category, or the value of another column: not whether it is missing."""
    place = schema.coordinates_of(name)
    many = isinstance(schema.columns[name], Category)
    return list(range(place.start, place.stop))[: _MOST_LEVELS if many else 1]


def _there(schema: Schema, points: NDArray[np.float64], chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which rows have a value in the columns of some coordinates."""
    found = np.ones((len(points), len(chosen)), dtype=bool)
    for k, c in enumerate(chosen):
        column, place = schema.columns[schema.owners[c][0]], schema.coordinates_of(schema.owners[c][0])
        if column.nullable:
            found[:, k] = has_value(column, points[:, place]) > 0.5
    return found


def _pairwise(points: NDArray[np.float64], there: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return correlations over the rows that have both, 0 where one does not vary, and the shares of these rows."""
    known, seen = np.where(there, points - points.mean(axis=0), 0.0), there.astype(np.float64)
    counts = np.maximum(seen.T @ seen, 1.0)
    means, squares, products = (known.T @ seen) / counts, ((known**2).T @ seen) / counts, (known.T @ known) / counts
    spread = np.sqrt(np.maximum(squares - means**2, 0.0))
    length = spread * spread.T
    values = np.where(length > 1e-24, (products - means * means.T) / np.maximum(length, 1e-300), 0.0)
    return np.clip(values, -1.0, 1.0), counts / len(points)


def _strongest_levels(
    groups: Sequence[Sequence[int]], values: NDArray[np.float64], noise: NDArray[np.float64]
) -> Correlations:
    """Return one correlation for each pair of columns: that of the levels with the largest one that was measured."""
    size, starts = len(groups), np.cumsum([0, *map(len, groups)])
    found, least = np.eye(size), np.zeros((size, size))
    levels = np.array([[group[0]] * size for group in groups], dtype=np.int64).reshape(size, size)
    for i, j in itertools.combinations(range(size), 2):
        where = (slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1]))
        block, own = values[where], noise[where]
        ranked = np.abs(block) + 2.0 * np.isfinite(own)
        a, b = divmod(int(np.argmax(ranked)), block.shape[1])
        wider = NormalDist().inv_cdf(1.0 - 0.025 / block.size) / NormalDist().inv_cdf(0.975)
        found[i, j] = found[j, i] = block[a, b]
        least[i, j] = least[j, i] = own[a, b] * wider
        levels[i, j], levels[j, i] = groups[i][a], groups[j][b]
    return Correlations(found, least, levels)


def _lower(noise: NDArray[np.float64], moments: NoisyMoments, points: NDArray[np.float64]) -> None:
    pairs = _correlated_pairs(moments) if moments.measurement.family.own_coordinates else []
    if not pairs:
        return
    spread = np.maximum(moments.measurement.seen(points).std(axis=0), 1e-12)
    deviations = moments.deviations
    for r, i, j in pairs:
        noise[i, j] = noise[j, i] = min(noise[i, j], deviations[r] / (spread[i] * spread[j]))


def _correlated_pairs(moments: NoisyMoments) -> list[tuple[int, int, int]]:
    """List the features x_i x_j, as (feature, i, j)."""
    found = []
    for r, feature in enumerate(moments.features):
        term = feature.terms[0]
        if not feature.pooled and len(term) == 2 and all(degree == 1 for _, degree in term):
            found.append((r, term[0][0], term[1][0]))
    return found


_MOST_NAMES = 6


@dataclass(frozen=True, slots=True)
class Limit:
    """One thing that cannot be learnt from the release, and why."""

    title: str
    text: str


def limits(release: Release, found: Correlations) -> tuple[Limit, ...]:
    """List what this release does not know, the most misleading first."""
    return (
        _individuals(release),
        *_weights(release),
        *_found_bounds(release),
        _pairs(found),
        *_selected_tables(release),
        *_many_columns(release),
        *_rare_groups(release),
        *_levels_below(release),
        *_fine_detail(release),
        *_drowned_columns(release),
        _sharp_questions(),
        _outside(release),
        *_unfinished(release),
    )


def _individuals(release: Release) -> Limit:
    return Limit(
        "Anything about one person",
        "No synthetic row stands for a real one, even if it looks like somebody. The rows were drawn from "
        f"{sum(charge.coordinates for charge in release.receipt.charges):,} noisy numbers, and from nothing else.",
    )


def _weights(release: Release) -> Iterator[Limit]:
    """Say that nothing on the page is weighted, if there are weights."""
    if release.schema.weight is not None:
        yield Limit(
            "The population of the survey",
            f"Column {release.schema.weight!r} holds survey weights, and all figures on this page are of rows without them. "
            "For the population weight the synthetic rows with this column, or ask with answer(..., weighted=True) or "
            "--weighted, which gives intervals.",
        )


def _pairs(found: Correlations) -> Limit:
    upper = np.triu_indices(len(found.values), 1)
    total, measured = len(upper[0]), int(found.measured[upper].sum())
    visible = int((found.visible & found.measured)[upper].sum())
    if not total:
        return Limit("How columns go together", "There are no two columns of numbers here.")
    if not measured:
        return Limit(
            "How columns go together",
            f"None of the {total:,} pairs of columns was measured: at this budget the noise would have drowned them. "
            "Correlations in the synthetic rows come from how they were made, not from the data; do not interpret them.",
        )
    typical = float(np.median(found.noise[upper][found.measured[upper]]))
    least = VISIBLE * typical
    single = "no single one" if least >= 1.0 else f"none below about {least:.2g}"
    return Limit(
        "Weak correlations" if visible else "Correlations, one by one",
        f"{total - visible:,} of {total:,} pairs do not stand above the noise and are grey in the matrix. "
        f"The noise of a correlation is typically {typical:.2g} (one standard deviation), so that {single} can be told "
        "from zero.",
    )


def _many_columns(release: Release) -> Iterator[Limit]:
    together = max((_columns_together(m) for m in release.moments), default=1)
    if len(release.schema.names) > max(2, together):
        what = "single columns" if together < 2 else f"at most {together} columns together"
        yield Limit(
            f"Interactions of {max(3, together + 1)} or more columns",
            f"Only {what} were measured (and the length of whole rows, where it is listed above). How the relation of "
            "two columns changes with a third is a guess of the model.",
        )


def _tables(release: Release, order: int) -> list[tuple[int, ...]]:
    """Return the tables of so many columns that were measured, columns by number."""
    cells = [noisy.features for noisy in release.moments if isinstance(noisy.features, Cells)]
    return [table for found in cells for table in found.tables if len(table) == order]


def _selected_tables(release: Release) -> Iterator[Limit]:
    """Name the sets of columns whose tables were measured, if there are some and others were not."""
    names = release.schema.names
    every = len(names) * (len(names) - 1) // 2
    pairs, triples = _tables(release, 2), _tables(release, 3)
    known = {pair for table in pairs + triples for pair in itertools.combinations(table, 2)}
    if pairs and len(known) < every:
        listed = _listed([" with ".join(names[c] for c in table) for table in triples + pairs])
        yield Limit(
            "Curves and clusters in other pairs of columns",
            f"Of {every:,} pairs of columns {len(known):,} are held in the tables that were selected, with noise, as those "
            f"that the rows so far described worst: {listed}. Of all others only correlations are known: whether they lie "
            "on a curve or in clusters is a guess of the model.",
        )


def _columns_together(moments: NoisyMoments) -> int:
    if isinstance(moments.features, Cells):
        return len(moments.features.tables[0])
    return max(len(term) for feature in moments.features for term in feature.terms)


def _rare_groups(release: Release) -> Iterator[Limit]:
    # A share of rows moves a moment in [-1, 1] by at most twice itself, a hat function by at most itself.
    noise = [
        float(np.min(m.deviations)) * (2.0 if _counted(m) else 1.0)
        for m in release.moments
        if _columns_together(m) == 1 and not _pooled(m)
    ]
    if noise:
        rows = release.receipt.rows
        least = min(rows, max(2, round(1.96 * min(noise) / 2.0 * rows)))
        yield Limit(
            "Small groups",
            f"A group of fewer than about {least:,} of the {rows:,} {release.receipt.unit} ({least / rows:.2g} of them) "
            "moves no released number by more than its noise. Such a group may be missing here, or be here without being in "
            "the data.",
        )


def _levels_below(release: Release) -> Iterator[Limit]:
    """Say of each category with tiers what is known of its levels."""
    for number, (name, column) in enumerate(release.schema.columns.items()):
        if not isinstance(column, Category) or column.hierarchy is None:
            continue
        own = [m for m in release.moments if _counts_levels(m, number)]
        levels, nodes, rows = len(column.levels), column.dimensions, release.receipt.rows
        known = "Levels were not counted: within a node all are as likely."
        if own:
            least = min(rows, max(2, round(1.96 * float(own[-1].deviations[0]) * rows)))
            known = f"Within a node they follow noisy counts: one of fewer than about {least:,} rows is not told from noise."
        yield Limit(
            f"Single levels of {name:.60}",
            f"The {levels:,} levels lie below {nodes} nodes, which are shown here. How the column goes together with others "
            f"is known of the nodes only. {known}",
        )


def _counts_levels(moments: NoisyMoments, column: int) -> bool:
    family = moments.measurement.family
    return isinstance(family, LevelHistograms) and any(h.column == column for h in family.histograms)


def _pooled(moments: NoisyMoments) -> bool:
    cells = isinstance(moments.features, Cells)
    return (not cells and any(f.pooled for f in moments.features)) or moments.measurement.family == RowNorms()


def _counted(moments: NoisyMoments) -> bool:
    return moments.measurement.family.shares


def _hats(moments: NoisyMoments) -> int:
    """Return of how many hat functions a measurement knows the sums, or cosines of these."""
    basis = moments.measurement.family.basis
    return basis.cells if isinstance(basis, (HatBasis, HatCosines)) else 0


def _fine_detail(release: Release) -> Iterator[Limit]:
    measured = [m for m in release.moments if not isinstance(m.features, Cells) and not _pooled(m)]
    single = [(m, f) for m in measured for f in m.features if len(f.terms[0]) == 1]
    hats = max((_hats(m) for m, _ in single), default=0)
    top = hats or max((f.degree for _, f in single), default=0)
    if top:
        several = f"{top} hat functions of ranks" if hats else f"cosines up to degree {top}"
        yield Limit(
            "Spikes, gaps and round numbers",
            f"Of a single column, {'the mean was' if top == 1 else f'{several} were'} measured. "
            f"Detail finer than about 1/{top + 1} of the rows or of the range (heaps at round numbers, gaps, exact zeros, "
            "several close peaks) is smoothed away or made up.",
        )


def _drowned_columns(release: Release) -> Iterator[Limit]:
    """Name the columns whose measured mean has more noise than the rows have spread."""
    spread = compared_rows(release).std(axis=0)
    values, noise = np.array(release.schema.roles) == "value", np.full(len(spread), np.inf)
    for moments in release.moments:
        if moments.measurement.transformation is None:
            for feature, deviation in zip(moments.features, moments.deviations, strict=True):
                if not feature.pooled and feature.degree == 1:
                    noise[feature.terms[0][0][0]] = deviation
    drowned = [release.schema.coordinates[c] for c in np.flatnonzero(values & np.isfinite(noise) & (noise > spread))]
    if drowned:
        yield Limit(
            "Where some columns lie within their bounds",
            f"The noise of the mean is larger than the spread of the rows for {_listed(drowned)}. "
            "Tighter public bounds, more rows or a larger budget would help.",
        )


def _sharp_questions() -> Limit:
    return Limit(
        "Sharp questions",
        "Exact counts, thresholds, minima, maxima and exact quantiles are not smooth: one noisy number cannot fix "
        "them. They are answered with a much wider interval, or refused.",
    )


def _found_bounds(release: Release) -> Iterator[Limit]:
    names = [] if release.found is None else list(open_bounds(release.found.asked))
    if names:
        yield Limit(
            "Values beyond bounds that were found",
            f"Nobody named the bounds of {_listed(names)}: noisy counts found them, and rows may lie beyond. Their values "
            "were moved to the bound before anything was measured; how many is not released. Answers and intervals are about "
            "the moved values: the mean of a column with a long tail may lie far outside its interval.",
        )


def _outside(release: Release) -> Limit:
    return Limit(
        "What was not in the table",
        f"Only the {len(release.schema.names):,} columns shown here were read. Values beyond the bounds were "
        "moved to the bound, missing ones to a place inside; how many is not released. "
        "The smallest and the largest synthetic value say nothing about those of the data.",
    )


def _unfinished(release: Release) -> Iterator[Limit]:
    if not release.receipt.converged:
        yield Limit(
            "As much as the noisy numbers know",
            f"The fit did not reach its goal: {release.receipt.outcome} The rows agree with the released moments less "
            "well than they could.",
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"{name:.60}" for name in names[:_MOST_NAMES])
    return f"{shown} and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else shown
