"""From noisy moments to rows: candidates, weights, rows. Post-processing only."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.fit.candidates import Candidates, ellipsoid, grid, grid_axis, hypercube
from smoothsynth.fit.features import computed_features
from smoothsynth.fit.grid import fit_grid_least_squares, fit_grid_linear_program
from smoothsynth.fit.linear_program import fit_linear_program
from smoothsynth.fit.maximum_entropy import fit_maximum_entropy
from smoothsynth.fit.result import DENSITIES, MATCHED, ROUGH_DENSITIES, STILL_MATCHING, Fit
from smoothsynth.methods.layout import LEAST_SQUARES
from smoothsynth.model.edits import keep_edits
from smoothsynth.model.exact_rows import exact_rows
from smoothsynth.model.levels import drawn_levels, level_shares
from smoothsynth.model.marginal_moments import opened, public_values, with_levels
from smoothsynth.model.marginals import separable
from smoothsynth.model.model import empty_model
from smoothsynth.model.sampling import generator as seeded
from smoothsynth.model.sampling import systematic
from smoothsynth.model.tables import rows_together, spread_out
from smoothsynth.queries.bases import Chebyshev, CosineGrid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow
    from numpy.typing import NDArray

    from smoothsynth.fit.swapping import Outcome
    from smoothsynth.methods.paper import NoisySubspace
    from smoothsynth.model.model import Model
    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.schema import Schema


@dataclass(frozen=True, slots=True)
class Synthesis:
    """Synthetic rows, with the candidates' origin and the fit behind them."""

    table: pyarrow.Table
    origin: str
    fit: Fit

    @classmethod
    def of_points(cls, schema: Schema, points: NDArray[np.float64], origin: str, fit: Fit) -> Synthesis:
        """Make rows of points of the cube."""
        import pyarrow

        return cls(pyarrow.Table.from_pydict(schema.from_unit(points)), origin, fit)


def synthesise(
    schema: Schema,
    moments: Sequence[NoisyMoments],
    *,
    candidates: str,
    candidate_count: int,
    fit: str,
    rows: int,
    seed: int | None,
    subspace: NoisySubspace | None = None,
    fitted: int | None = None,
    levels: int | None = None,
    progress: Callable[[int, int | None, str], None] | None = None,
) -> Synthesis:
    """Draw candidates, weigh them by the noisy moments, and turn weights into rows.

    `fitted` is the number of leading moments that the weights must match; None for all of them. With `levels`, the
    candidates are the full grid of so many levels a column, which is never listed (the moments: a full tensor).
    """
    generator = seeded(seed)
    if levels is not None and fit == LEAST_SQUARES:
        return _on_chebyshev_nodes(schema, moments[0], levels, rows, generator=generator)
    if levels is not None:
        return _on_the_full_grid(schema, moments[0], levels, rows, generator=generator, progress=progress)
    released, schema = schema, opened(schema, moments)
    if candidates == "ellipsoid" and subspace is not None:
        chosen = _around_the_mean(schema, moments, subspace, candidate_count, generator)
    else:
        chosen = _candidates(candidates, schema, moments, candidate_count, generator)
    found = _weigh(schema, chosen, moments, fit, fitted, progress)
    picked = systematic(found.weights, rows, generator=generator)
    points = exact_rows(schema, chosen.points[picked], private_rows=moments[0].rows)
    points = with_levels(released, points, generator=generator)
    points = keep_edits(released, points, generator=generator)
    return Synthesis.of_points(released, points, chosen.origin, found)


def _weigh(
    schema: Schema,
    candidates: Candidates,
    moments: Sequence[NoisyMoments],
    fit: str,
    fitted: int | None,
    progress: Callable[[int, int | None, str], None] | None,
) -> Fit:
    known = [public_values(schema, noisy) for noisy in moments]
    values = np.concatenate([values for values, _ in known])[:fitted]
    if fit == "linear program":
        matrix = np.concatenate([noisy.measurement.evaluate(candidates.points) for noisy in moments], axis=1)
        return fit_linear_program(matrix[:, :fitted], values, progress=progress)
    scale = np.concatenate([deviations for _, deviations in known])[:fitted]
    features = computed_features([_seen(noisy, candidates.points) for noisy in moments], first=fitted)
    return fit_maximum_entropy(features, values, scale=scale, base=candidates.base, progress=progress)


def _seen(noisy: NoisyMoments, points: NDArray[np.float64]) -> tuple[Sequence[Feature], NDArray[np.float64]]:
    if not isinstance(noisy.measurement.family.basis, Chebyshev) or noisy.measurement.missing:
        raise PlanError("Soft counts tell the model of columns; candidates are not weighed by them.")
    return noisy.features, noisy.measurement.seen(points)


def _candidates(
    kind: str,
    schema: Schema,
    moments: Sequence[NoisyMoments],
    count: int,
    generator: np.random.Generator,  # noqa: TID251
) -> Candidates:
    if kind == "model":
        model = empty_model(schema)
        for noisy in moments:
            if noisy.measurement.transformation is None and any(map(separable, noisy.features)):
                model = model.update(noisy)
        return _allowed(schema, model.rows(count, generator=generator), np.full(count, 1.0 / count), "model")
    if kind == "grid":
        levels = max(2, round(count ** (1.0 / schema.dimensions)))
        drawn = grid(levels, schema.dimensions)
    else:
        drawn = hypercube(count, schema.dimensions, generator=generator)
    return _allowed(schema, drawn.points, drawn.base, drawn.origin)


def _allowed(schema: Schema, points: NDArray[np.float64], base: NDArray[np.float64], origin: str) -> Candidates:
    """Return candidates that rows can be: whole numbers where they must be, and all constraints kept."""
    return Candidates(schema.snap(exact_rows(schema, points)), base, origin)


def _around_the_mean(
    schema: Schema,
    moments: Sequence[NoisyMoments],
    subspace: NoisySubspace,
    count: int,
    generator: np.random.Generator,  # noqa: TID251
) -> Candidates:
    values = np.concatenate([noisy.values for noisy in moments])
    centre = np.clip(values[: schema.dimensions], -1.0, 1.0)
    drawn = ellipsoid(centre, subspace.directions(), subspace.eigenvalues(), count=count, generator=generator)
    return _allowed(schema, drawn.points, drawn.base, drawn.origin)


def _on_the_full_grid(
    schema: Schema,
    noisy: NoisyMoments,
    levels: int,
    rows: int,
    *,
    generator: np.random.Generator,  # noqa: TID251
    progress: Callable[[int, int | None, str], None] | None,
) -> Synthesis:
    """Fit the paper's linear program on the grid (step 20) and draw rows from its few points (step 22)."""
    target = _tensor(noisy, noisy.values, schema.dimensions)
    found = fit_grid_linear_program(target, levels=levels, progress=progress)
    picked = systematic(found.weights, rows, generator=generator)
    points = schema.snap(exact_rows(schema, grid_axis(levels)[found.support[picked]], private_rows=noisy.rows))
    points = keep_edits(schema, points, generator=generator)
    fit = Fit(
        weights=found.weights,
        method="linear program",
        converged=found.converged,
        outcome=found.outcome,
        steps=found.steps,
        residual=found.optimum,
        dual=np.zeros(0),
    )
    return Synthesis.of_points(schema, points, "grid", fit)


def _on_chebyshev_nodes(
    schema: Schema,
    noisy: NoisyMoments,
    nodes: int,
    rows: int,
    *,
    generator: np.random.Generator,  # noqa: TID251
) -> Synthesis:
    """Fit the weights of method="minimax" (docs/proofs/minimax.md) and draw rows along a curve that fills the cube."""
    d = schema.dimensions
    noise = _tensor(noisy, noisy.deviations, d)
    # The noise grows as |r|^(K/2), or |r|^(2K/3) if it is pure: this is |r|^(-2K), what K-smooth queries feel.
    felt = (noise / float(noisy.deviations.min())) ** (-3.0 if noisy.measurement.multiplier is None else -4.0)
    grid = CosineGrid(len(noise), nodes, d)
    fit = fit_grid_least_squares(_tensor(noisy, noisy.values, d), noise=noise, felt=felt, grid=grid)
    curve = _along_a_curve(nodes, d)
    picked = curve[systematic(fit.weights.ravel()[curve], rows, generator=generator)]
    places = np.stack(np.unravel_index(picked, fit.weights.shape), axis=1)
    return Synthesis.of_points(schema, schema.snap(grid.axis[places]), "grid", fit)


def _along_a_curve(nodes: int, dimensions: int) -> NDArray[np.int64]:
    """Return the points of a grid in Morton's order: every cube of 2^j nodes a side is one run, so it gets its share."""
    place = np.arange(nodes)
    bits = sum((place >> b & 1) << b * dimensions for b in range(nodes.bit_length()))
    keys = functools.reduce(np.add.outer, [bits << axis for axis in reversed(range(dimensions))])
    return np.argsort(keys, axis=None, kind="stable")


def _tensor(noisy: NoisyMoments, values: NDArray[np.float64], dimensions: int) -> NDArray[np.float64]:
    """Return values of the moments of a full tensor with one axis for each column; that of the constant is 1."""
    degrees = 1 + max(k for feature in noisy.features for _, k in feature.terms[0])
    found = np.zeros((degrees,) * dimensions)
    found[(0,) * dimensions] = 1.0
    for feature, value in zip(noisy.features, values, strict=True):
        index = dict(feature.terms[0])
        found[tuple(index.get(c, 0) for c in range(dimensions))] = value
    return found


def drawn_tables(
    schema: Schema,
    model: Model,
    rows: int,
    *,
    generator: np.random.Generator,  # noqa: TID251
    progress: Callable[[int, int | None, str], None] | None = None,
    told: Callable[[Outcome], None] | None = None,
) -> Iterator[pyarrow.Table]:
    """Yield rows of a model as tables of a part of them: memory does not grow with their number."""
    import pyarrow

    shares, done = level_shares(schema, model.levels), 0
    for drawn in _drawn_parts(model, rows, generator=generator, progress=progress, told=told):
        points = _finished(schema, model, drawn, generator)
        done += len(points)
        levels = drawn_levels(schema, shares, points, generator=generator)
        # `pyarrow.table` would import pandas, to see whether this is one of its frames.
        yield pyarrow.Table.from_pydict(schema.from_unit(points, levels))
        if progress is not None and done < rows:
            progress(done, rows, "drawing rows")


def _drawn_parts(
    model: Model,
    rows: int,
    *,
    generator: np.random.Generator,  # noqa: TID251
    progress: Callable[[int, int | None, str], None] | None,
    told: Callable[[Outcome], None] | None,
) -> Iterator[NDArray[np.float64]]:
    """Yield rows of a model part by part: values are swapped to tables in one part, of which the others are spread anew."""
    size = rows_together(model.columns.count)
    swept = None if progress is None else lambda done, total: progress(done, total, "swapping values")
    first = model.rows(min(rows, size), generator=generator, progress=swept, told=told)
    # Rows are finished in place.
    yield first.copy() if rows > size and model.tables else first
    for start in range(size, rows, size):
        count = min(size, rows - start)
        if model.tables:
            yield spread_out(first, model.columns, count, generator=generator)
        else:
            yield model.rows(count, generator=generator)


def _finished(
    schema: Schema,
    model: Model,
    drawn: NDArray[np.float64],
    generator: np.random.Generator,  # noqa: TID251
) -> NDArray[np.float64]:
    """Return rows of a model as rows that the schema can have."""
    points = with_levels(schema, np.clip(drawn, -1.0, 1.0, out=drawn), generator=generator)
    limits = model.columns.limits
    private_rows = None if limits is None else limits.private_rows
    exact = exact_rows(schema, points, private_rows=private_rows)
    # A copy of all coordinates may be most of the memory of a release.
    return keep_edits(schema, schema.snap(exact, out=exact), generator=generator)


def rows_of_model(
    schema: Schema,
    model: Model,
    rows: int,
    *,
    seed: int | None,
    progress: Callable[[int, int | None, str], None] | None = None,
) -> Synthesis:
    """Draw rows of a model that has learned everything: they are weighted equally, nothing is left to fit."""
    import pyarrow

    outcomes: list[Outcome] = []
    parts = drawn_tables(schema, model, rows, generator=seeded(seed), told=outcomes.append, progress=progress)
    # In one piece, as it will be read again: the same rows are written as the same bytes.
    table = pyarrow.concat_tables(parts).combine_chunks()
    columns = model.columns
    fit = Fit(
        weights=np.full(rows, 1.0 / rows),
        method="maximum entropy",
        converged=columns.converged,
        outcome=_reached(columns.count, outcomes) if columns.converged else ROUGH_DENSITIES,
        steps=columns.steps,
        residual=0.0,
        dual=np.zeros(0),
    )
    return Synthesis(table, "model", fit)


def _reached(columns: int, outcomes: Sequence[Outcome]) -> str:
    """Say what the densities and, if there are tables, the swaps have reached."""
    if not outcomes:
        return DENSITIES.format(columns)
    found = outcomes[-1]
    return (MATCHED if found.converged else STILL_MATCHING).format(columns, found.sweeps, found.distance)
