"""The model: marginals, a Gaussian copula, row norms and tables, learned round by round; and what it proposes next.

Everything here is computed from public and released numbers, so that anyone who has a release can do it again. What was
released first is believed where later rounds contradict it beyond noise: it has the mean and the mean square of each column,
neither bent nor cut. So are ranks of single columns, of which rounds after them see means and deviations only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth._runtime import one_thread_if_small
from smoothsynth.model.clipped_moments import (
    hold_cut_moments,
    hold_pairs,
    pairs_distance,
)
from smoothsynth.model.copula import MOST_SIMULATED, CutMoments, learn_pairs, score_length, score_units
from smoothsynth.model.edits import swapped_to_keep
from smoothsynth.model.marginal_moments import (
    UNKNOWN,
    first_moments,
    hold_public,
    hold_shares,
    learn_low,
    measured_means,
    pooled_mean_square,
)
from smoothsynth.model.marginals import Marginals, first_functions, flat_marginals, separable, tilt
from smoothsynth.model.prior import prior_rows
from smoothsynth.model.rank_histogram import Known, hold_ranks, learn_ranks, rank_noise
from smoothsynth.model.row_norms import (
    Stretch,
    choose_scores,
    expected_ranks,
    needed_stretch,
    scale_to_lengths,
)
from smoothsynth.model.sampling import correlated, generator, place, scores
from smoothsynth.model.scales import hold_square, known_so_far
from smoothsynth.model.spikes import Spike, find_spikes, hold_spikes
from smoothsynth.model.table_marginals import hold_table_marginals
from smoothsynth.model.tables import (
    SWEEPS,
    expected_of,
    offered,
    spread_out,
    swap_stages,
    swapped,
    table_transformation,
    tables_distance,
)
from smoothsynth.queries.families import ClippedSecondMoments, MarginalMoments, RankHistogram, RowNorms
from smoothsynth.queries.level_histograms import LevelHistograms
from smoothsynth.queries.soft_tables import SoftTables
from smoothsynth.queries.transformation import Transformation, knot_places

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from smoothsynth.fit.swapping import Outcome
    from smoothsynth.queries.families import QueryFamily
    from smoothsynth.queries.measurement import Measurement, NoisyMoments
    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]


# A share of the flat density keeps ranks from being constant where the model believes no row to be.
FLAT_SHARE = 0.1


def rank_transformation(columns: Marginals, family: RankHistogram) -> Transformation:
    """See each coordinate as cos(pi F(x)), F its distribution function: T_k of it is cos(k pi F(x)).

    A column that the model thinks crowded in a corner is spread over the whole cube. Levels and indicators stay what they
    are. For soft counts, and their cosines, a coordinate is 2 F(x) - 1: they are evenly spread over ranks.
    """
    ranks = _ranks(columns, FLAT_SHARE)
    lines = [
        knot_places() if f is None else np.cos(np.pi * f) if family.cells is None else 2.0 * f - 1.0 for f in ranks
    ]
    return Transformation.from_values(np.stack(lines), family)


def _ranks(columns: Marginals, flat: float) -> list[Array | None]:
    """Return the distribution function of each value at the knots, a share of the flat one mixed in; None for indicators."""
    mixed, indicators = columns.without_spikes().mixed(flat), set(columns.groups.indicators)
    return [None if c in indicators else mixed.probabilities(c, knot_places()) for c in range(columns.count)]


def score_transformation(columns: Marginals, units: Array) -> Transformation:
    """See each coordinate as (x - m)/u, rows cut to length 1."""
    return Transformation.from_values(
        (knot_places()[None, :] - columns.means()[:, None]) / units[:, None], ClippedSecondMoments(1.0)
    )


def length_transformation(distribution: Array) -> Transformation:
    """See the mean square t of a row as cos(pi F(t)); `distribution` is F at the knots, t from 0 to 1."""
    return Transformation.from_values(np.cos(np.pi * distribution)[None, :], RowNorms())


# So many deviations off is not noise. A little less may still be what later stages know better.
_BEYOND_NOISE = 6.0
# No place is impossible for a column that was put on the wrong one.
_KEPT_FLAT = 1e-3


def hold_first(columns: Marginals, low: Sequence[NoisyMoments]) -> Marginals:
    """Tilt columns whose mean or mean square is further from the first release than noise explains, and no others.

    Both are moved to where they were released: one alone, with the other kept wrong, would ask for mass at the bounds.
    """
    released, noise = first_moments(columns, low)
    functions = first_functions(columns)
    found = np.einsum("dqg,dg->dq", functions, columns.masses)
    off = np.abs(found - released) > _BEYOND_NOISE * noise
    moved = off.any(axis=1, keepdims=True)
    if not moved.any():
        return columns
    tilted = tilt(columns.mixed(_KEPT_FLAT), functions, released, np.where(moved, noise, UNKNOWN))
    return replace(tilted, masses=np.where(moved, tilted.masses, columns.masses))


_MOST_OVERSAMPLED = 20_000
# Fewer rows than this have nothing to swap.
_FEWEST_SWAPPED = 4
# Rows that tell what is expected of tables, and sweeps of their fit.
_FEWEST_EXPECTED, _EXPECTED_ROWS, _EXPECTED_SWEEPS = 2_000, 10_000, 15


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """What is known of a table so far."""

    columns: Marginals
    correlation: Array
    low: tuple[NoisyMoments, ...] = ()
    lengths: NoisyMoments | None = None
    stretch: Stretch = field(default_factory=Stretch)
    cut: CutMoments | None = None
    ranks: NoisyMoments | None = None
    known: Known | None = None
    spikes: tuple[Spike, ...] = ()
    tables: tuple[NoisyMoments, ...] = ()
    prior: Array | None = None
    levels: tuple[NoisyMoments, ...] = ()

    @property
    def _uncut(self) -> tuple[NoisyMoments, ...]:
        """What was released of whole rows and has shares of levels and indicators in it."""
        return self.low if self.ranks is None else (*self.low, self.ranks)

    def proposed(self, measurement: Measurement, rows: int) -> Transformation | None:
        """Return the transformation that a measurement shall use: what is known, and how much noise there will be."""
        return PROPOSALS[type(measurement.family)](self, measurement, rows)

    def offer(self, measurement: Measurement, rows: int) -> Measurement:
        """Return a measurement that chooses tables, with what rows of the model have of them; those known are left out."""
        choice = measurement.choice
        if choice is None:
            return measurement
        offer = offered(measurement, self.tables, rows)
        many = min(_EXPECTED_ROWS, max(_FEWEST_EXPECTED, 2 * rows))
        points = self.rows(many, generator=generator(0), sweeps=_EXPECTED_SWEEPS)
        return replace(offer, choice=replace(choice, expected=expected_of(offer, points, rows)))

    def update(self, noisy: NoisyMoments) -> Model:
        """Return the model after a release.

        What was released first is not given up for less, and what is public of moments replaces noise.
        """
        family = type(noisy.measurement.family)
        with one_thread_if_small(MOST_SIMULATED * self.columns.count):
            learned = UPDATES[family](self, noisy)
        if learned.columns is self.columns:
            return learned
        columns = learned.columns
        if family is not MarginalMoments:
            columns = columns if learned.known is None else hold_ranks(columns, learned.known)
            columns = hold_first(columns, learned.low)
        return replace(learned, columns=hold_public(columns, noisy.rows))

    def rows(
        self,
        count: int,
        *,
        generator: np.random.Generator,  # noqa: TID251
        sweeps: int = SWEEPS,
        told: Callable[[Outcome], None] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Array:
        """Draw rows: their columns have the model's densities almost exactly, whatever their number.

        `told` learns how the fit of tables ended, if there are some.
        """
        stages = swap_stages(count, self.tables) if self.tables else [(count, 0)]
        own = many = stages[0][0]
        if self.lengths is not None:
            many = max(6 * own, 6000) if own <= _MOST_OVERSAMPLED else 2 * own
        with one_thread_if_small(many * self.columns.count):
            rows = self._begun(own, many, generator)
            if self.columns.schema is not None:
                rows = swapped_to_keep(self.columns.schema, rows, generator=generator)
            if not self.tables or own < _FEWEST_SWAPPED:
                return rows
            for size, most in stages:
                rows = self._more(rows, size, generator)
                rows, outcome = swapped(
                    rows,
                    self.columns,
                    self.tables,
                    self.cut,
                    generator=generator,
                    sweeps=min(sweeps, most),
                    progress=progress,
                )
            if told is not None:
                told(outcome)
            return self._more(rows, count, generator)

    def _more(self, rows: Array, count: int, generator: np.random.Generator) -> Array:  # noqa: TID251
        return rows if len(rows) == count else spread_out(rows, self.columns, count, generator=generator)

    def _begun(self, count: int, many: int, generator: np.random.Generator) -> Array:  # noqa: TID251
        """Draw rows of the copula, or rows like those of a public prior if they are nearer to what was released."""
        rows = self._rows(count, many, generator)
        if self.prior is None or self.columns.limits is not None:
            return rows
        other = prior_rows(self.prior, self.columns, count, generator=generator)
        return other if self._distance(other) <= self._distance(rows) else rows

    def _distance(self, rows: Array) -> float:
        """Return how far rows are from what was released of several columns, in squares of its noise."""
        far = 0.0 if self.cut is None else pairs_distance(rows, self.columns, self.cut)
        return far + tables_distance(rows, self.tables)

    def _rows(self, count: int, many: int, generator: np.random.Generator) -> Array:  # noqa: TID251
        if self.lengths is None:
            drawn = correlated(scores(count, self.columns.count, generator=generator), self.correlation)
            return place(drawn, self.columns, generator=generator)
        drawn = self.stretch.drawn(many, self.columns, self.correlation, generator=generator)
        chosen = choose_scores(drawn, self.columns, self.lengths, count, generator=generator)
        if self.columns.limits is None:
            chosen = chosen if self.cut is None else hold_pairs(chosen, self.columns, self.cut)
        return place(chosen, self.columns, generator=generator)


def empty_model(schema: Schema, prior: Array | None = None) -> Model:
    """Return the model that knows only the schema, flat, independent columns, and the public rows of a prior, if any."""
    columns = flat_marginals(schema)
    return Model(columns, np.eye(columns.count), prior=prior)


def update_through(model: Model, origin: Model, noisy: NoisyMoments) -> Model:
    """Return the model after moments whose transformation was made of the model `origin`.

    Cosines of ranks are cos(k pi F(x)) with F of the columns of `origin`, so these columns are what is tilted. Scores and
    lengths are compared with rows of the model seen through the transformation itself, whatever it was made of
    (docs/proofs/sites.md).
    """
    ranks = isinstance(noisy.measurement.family, RankHistogram)
    return (replace(model, columns=origin.columns) if ranks else model).update(noisy)


def _propose_ranks(model: Model, measurement: Measurement, rows: int) -> Transformation:
    family = measurement.family
    if not isinstance(family, RankHistogram):
        raise TypeError("ranks are seen as a histogram of them")
    return rank_transformation(model.columns, family)


def _propose_scores(model: Model, measurement: Measurement, rows: int) -> Transformation:
    units = score_units(model.columns, measurement, rows) * score_length(model.columns, measurement, rows)
    return score_transformation(model.columns, units)


def _propose_lengths(model: Model, measurement: Measurement, rows: int) -> Transformation:
    return length_transformation(expected_ranks(model.columns, model.correlation))


def _propose_tables(model: Model, measurement: Measurement, rows: int) -> Transformation:
    family = measurement.family
    if not isinstance(family, SoftTables):
        raise TypeError("tables are seen as soft cells")
    # What was seen of tables of as many columns is put together, so all of it is seen in one way.
    known = (noisy.measurement.transformation for noisy in model.tables)
    same = (one for one in known if one and isinstance(one.family, SoftTables) and one.family.order == family.order)
    return next(same, None) or table_transformation(model.columns, family)


def _learn_low(model: Model, noisy: NoisyMoments) -> Model:
    if not any(map(separable, noisy.features)):
        return model
    low = (*model.low, noisy)
    return replace(model, low=low, columns=learn_low(model.columns, low))


def _learn_ranks(model: Model, noisy: NoisyMoments) -> Model:
    columns, known = learn_ranks(model.columns, noisy, model.low, model.spikes)
    return replace(model, columns=columns, ranks=noisy, known=known)


def _learn_pairs(model: Model, noisy: NoisyMoments) -> Model:
    _, known = measured_means(model.columns, model.low)
    found = learn_pairs(model.columns, noisy, known=known)
    columns = hold_square(found.columns, model.low, found.cut, rank_noise(model.ranks))
    columns = hold_shares(columns, model._uncut, cut_noise=found.cut.noise)
    return replace(model, columns=columns, correlation=found.correlation, cut=found.cut)


def _learn_tables(model: Model, noisy: NoisyMoments) -> Model:
    family = noisy.measurement.family
    if isinstance(family, SoftTables) and family.order == 1:
        spikes = find_spikes(model.columns, noisy)
        return replace(model, spikes=spikes, columns=hold_spikes(model.columns, spikes, model.low))
    columns, known = model.columns, model.known
    if known is not None:
        columns, known = hold_table_marginals(columns, noisy, known)
    return replace(model, columns=columns, known=known, tables=(*model.tables, noisy))


def _learn_levels(model: Model, noisy: NoisyMoments) -> Model:
    return replace(model, levels=(*model.levels, noisy))


def _learn_lengths(model: Model, noisy: NoisyMoments) -> Model:
    """Learn the lengths of rows, scale all columns until their mean length is right, and hold what was seen before.

    Under pure epsilon the mean length is known too from the pooled second moment, measured before.
    """
    square = None if noisy.measurement.multiplier is not None else pooled_mean_square(model.columns, model.low)
    known = known_so_far(model.columns, model.low, model.cut, rank_noise(model.ranks))
    columns = scale_to_lengths(model.columns, model.correlation, noisy, square=square, known=known)
    if model.cut is None:
        return replace(model, lengths=noisy, stretch=needed_stretch(columns, model.correlation, noisy), columns=columns)
    columns, correlation = hold_cut_moments(columns, model.correlation, noisy, model.cut, known=known)
    # Lengths of rows tell nothing of shares.
    columns = columns.with_shares(
        {indicator: model.columns.share(indicator) for indicator in columns.groups.indicators}
    )
    return replace(model, lengths=noisy, columns=columns, correlation=correlation)


# What a model makes of each query family: the transformation it proposes for the next measurement, and what it learns from
# it.
PROPOSALS: dict[type[QueryFamily], Callable[[Model, Measurement, int], Transformation | None]] = {
    MarginalMoments: lambda model, measurement, rows: None,
    RankHistogram: _propose_ranks,
    ClippedSecondMoments: _propose_scores,
    RowNorms: _propose_lengths,
    SoftTables: _propose_tables,
    LevelHistograms: lambda model, measurement, rows: measurement.transformation,
}
UPDATES: dict[type[QueryFamily], Callable[[Model, NoisyMoments], Model]] = {
    MarginalMoments: _learn_low,
    RankHistogram: _learn_ranks,
    ClippedSecondMoments: _learn_pairs,
    RowNorms: _learn_lengths,
    SoftTables: _learn_tables,
    LevelHistograms: _learn_levels,
}
