"""Algorithm 2 and its ellipsoid as printed: NOT PRIVATE AS PRINTED.

The noise is scaled by the largest entry of X, which is right for one changed entry of A and not for one
changed row; the eigenvalues and the centre come from the un-noised table. For reproducing the paper only.
Source: Jin et al., Algorithm 2, Corollary 3.5 and Theorem 3.6.

The paper's mechanism as printed, on plain arrays in [-1, 1]^d: NOT PRIVATE AS PRINTED.

`algorithm_1` is the theorem's mechanism on the full grid, for few columns; `accelerated` is the version of
the paper's experiments. Both are for reproducing the printed tables on public data: the noise is floating
point from a seeded generator with the printed scales, and no receipt is made. Source: Jin et al.,
Algorithm 1 and section 3.4.

The public data sets of the paper, read from a folder that is not part of the project.
"""

from __future__ import annotations

import csv
import gzip
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from smoothsynth.errors import DataError, PlanError
from smoothsynth.fit.candidates import grid_axis
from smoothsynth.fit.grid import fit_grid_linear_program
from smoothsynth.fit.linear_program import fit_linear_program
from smoothsynth.paper import printed
from smoothsynth.paper.mechanisms import MOST_CELLS, Grid
from smoothsynth.paper.printed import NOT_PRIVATE, subspace_noise_scale
from smoothsynth.queries import bases
from smoothsynth.schema import Number, Schema

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from smoothsynth.paper.printed import Candidates

    Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Ellipsoid:
    """The ellipsoid {centre + sum_s z_s sqrt(lambda_s) x_s, |z| <= 1} (not private as printed)."""

    centre: Array
    directions: Array  # (dimensions, rank), orthonormal columns
    eigenvalues: Array
    privacy: str = field(default=NOT_PRIVATE, init=False)

    def draw(self, count: int, *, generator: np.random.Generator) -> Array:
        """Draw points uniformly and clip them to the cube (the paper does not say what it does outside)."""
        rank = len(self.eigenvalues)
        ball = generator.standard_normal((count, rank))
        ball *= generator.random((count, 1)) ** (1.0 / rank) / np.linalg.norm(ball, axis=1, keepdims=True)
        points = self.centre + (ball * np.sqrt(self.eigenvalues)) @ self.directions.T
        clipped: Array = np.clip(points, -1.0, 1.0)
        return clipped


def printed_ellipsoid(
    points: Array,
    *,
    rank: int,
    iterations: int,
    epsilon: float,
    delta: float = 0.0,
    generator: np.random.Generator,
) -> Ellipsoid:
    """Run private subspace iteration as printed (not private as printed).

        A = D'D/n - mean mean',   X_0 = GS(N(0,1)^(d x k))
        X_l = GS(A X_{l-1} + |X_{l-1}|_inf G_l),   lambda_s = sqrt(x_s' A^2 x_s)

    G is Gaussian for delta > 0 and Laplace for delta = 0, with the printed scale. It is d x k: the
    n x k of step 4 does not fit. |X|_inf is its largest entry (Hardt 2013).
    """
    rows, dimensions = points.shape
    if not 1 <= rank <= dimensions or iterations < 1:
        raise PlanError(
            f"rank must be from 1 to {dimensions} and iterations at least 1; found {rank} and {iterations}. "
            "Correct them."
        )
    scale = subspace_noise_scale(rows, dimensions, rank=rank, iterations=iterations, epsilon=epsilon, delta=delta)
    draw = generator.normal if delta > 0.0 else generator.laplace
    centre = points.mean(axis=0)
    covariance = points.T @ points / rows - np.outer(centre, centre)
    basis = _orthonormal(generator.standard_normal((dimensions, rank)))
    for _ in range(iterations):
        noise = draw(0.0, scale, (dimensions, rank))
        basis = _orthonormal(covariance @ basis + np.abs(basis).max() * noise)
    eigenvalues = np.linalg.norm(covariance @ basis, axis=0)
    return Ellipsoid(centre, basis, eigenvalues)


def _orthonormal(matrix: Array) -> Array:
    """Gram-Schmidt by QR, with the signs of Gram-Schmidt (a positive diagonal of R)."""
    q, r = np.linalg.qr(matrix)
    signs = np.where(np.diag(r) < 0.0, -1.0, 1.0)
    result: Array = q * signs
    return result


MOST_MOMENTS = 2_000


@dataclass(frozen=True, slots=True)
class Choices:
    """What the paper's experiments must have chosen and do not state; the defaults are this project's.

    `rank` k and `iterations` L of Algorithm 2; how R is rounded, or R itself in place of the printed rule
    (`basis_count`: with R >= d the printed hypercube figures come closer for WDBC, CTG and PKS, not for CRM);
    whether candidates and rows are snapped to the N levels of Algorithm 1; and the size m of the synthetic
    table (None: m = n).
    Algorithm 2 and the moments each use the whole epsilon, as the paper's "we set epsilon = 1" reads.
    """

    rank: int = 5
    iterations: int = 3
    rounding: Literal["ceil", "round", "floor"] = "ceil"
    basis_count: int | None = None
    snap: bool = False
    rows: int | None = None
    candidates: int = printed.CANDIDATES


DEFAULT = Choices()


@dataclass(frozen=True, slots=True, eq=False)
class Reproduction:
    """A synthetic table made as printed, and the weights that it was drawn from (not private as printed)."""

    rows: Array
    support: Array  # the candidates of positive weight
    weights: Array
    basis_count: int
    laplace_scale: float
    outcome: str
    privacy: str = field(default=printed.NOT_PRIVATE, init=False)


def scale_by_own_range(table: ArrayLike) -> Array:
    """Scale each column to [-1, 1] by its own smallest and largest value, as the paper does (not private).

    A constant column becomes 0.
    """
    rows = np.asarray(table, dtype=np.float64)
    low, width = rows.min(axis=0), np.ptp(rows, axis=0)
    scaled = 2.0 * (rows - low) / np.where(width > 0.0, width, 1.0) - 1.0
    return np.where(width > 0.0, np.clip(scaled, -1.0, 1.0), 0.0)


def algorithm_1(
    points: ArrayLike, *, order: int, epsilon: float, delta: float = 0.0, generator: np.random.Generator
) -> Reproduction:
    """Run Algorithm 1 as printed on the full grid, for tables of few columns (not private as printed).

    Step 1: t, N, m, L from n, d, K; 4: snap rows to the grid; 8-10: noisy moments of degrees 0..t-1 per
    column, rounded to multiples of 1/L; 14-15: the same for the N^d grid points; 20: the l1 fit; 22: m draws.
    """
    rows = _checked(points)
    count, dimensions = rows.shape
    p = printed.parameters(count, dimensions, order=order, epsilon=epsilon, delta=delta)
    if p.levels**dimensions > MOST_CELLS or p.degrees**dimensions > MOST_MOMENTS:
        raise PlanError(
            f"the full grid may have at most {MOST_CELLS:,} points and {MOST_MOMENTS:,} moments; found "
            f"{p.levels}^{dimensions} and {p.degrees}^{dimensions}. Lower the order or drop columns, or `accelerated`."
        )
    grid = Grid(p.levels, dimensions)
    exact = _grid_moments(grid, rows, p.degrees)
    noisy = exact + generator.laplace(0.0, p.laplace_scale, exact.shape)
    fit = fit_grid_linear_program(_lattice(noisy, p.lattice), levels=p.levels, lattice=p.lattice)
    points = grid_axis(p.levels)[fit.support]
    support, weights, drawn = _draw(points, fit.weights, rows=p.rows, generator=generator)
    return Reproduction(drawn, support, weights, p.degrees**dimensions, p.laplace_scale, fit.outcome)


def accelerated(
    points: ArrayLike,
    *,
    sigma: float,
    candidates: Candidates,
    epsilon: float = printed.EPSILON,
    delta: float = 0.0,
    choices: Choices = DEFAULT,
    generator: np.random.Generator,
) -> Reproduction:
    """Run the version of the paper's experiments: R low functions, C candidates (not private as printed).

    Step 9's scale with R in place of t^d; K = sigma^2. Candidates are uniform on the cube, or on the
    ellipsoid of Algorithm 2. The rest is Algorithm 1: the l1 fit, then m independent draws.
    """
    rows = _checked(points)
    count, dimensions = rows.shape
    size = choices.basis_count or printed.basis_count(
        count, dimensions, sigma=sigma, delta=delta, rounding=choices.rounding
    )
    features = bases.lowest(size, dimensions)
    scale = printed.moment_noise_scale(size, count, epsilon=epsilon, delta=delta)
    if choices.snap:
        rows = _snapped(rows, sigma=sigma, delta=delta)
    noisy = bases.evaluate(features, rows).mean(axis=0) + generator.laplace(0.0, scale, size)
    cloud = _candidates(rows, candidates, epsilon=epsilon, delta=delta, choices=choices, generator=generator)
    if choices.snap:
        cloud = _snapped(cloud, sigma=sigma, delta=delta, rows=count)
    fit = fit_linear_program(bases.evaluate(features, cloud), noisy)
    support, weights, drawn = _draw(cloud, fit.weights, rows=choices.rows or count, generator=generator)
    return Reproduction(drawn, support, weights, size, scale, fit.outcome)


def _candidates(
    rows: Array,
    kind: Candidates,
    *,
    epsilon: float,
    delta: float,
    choices: Choices,
    generator: np.random.Generator,
) -> Array:
    if kind == "hypercube":
        return generator.uniform(-1.0, 1.0, (choices.candidates, rows.shape[1]))
    ellipsoid = printed_ellipsoid(
        rows,
        rank=min(choices.rank, rows.shape[1]),
        iterations=choices.iterations,
        epsilon=epsilon,
        delta=delta,
        generator=generator,
    )
    return ellipsoid.draw(choices.candidates, generator=generator)


def _draw(points: Array, weights: Array, *, rows: int, generator: np.random.Generator) -> tuple[Array, Array, Array]:
    """Step 22: return the support, its weights and m independent draws (their order means nothing)."""
    chosen = np.flatnonzero(weights > 0.0)
    support, shares = points[chosen], weights[chosen] / weights[chosen].sum()
    return support, shares, np.repeat(support, generator.multinomial(rows, shares), axis=0)


def _grid_moments(grid: Grid, rows: Array, degrees: int) -> Array:
    """Return the moments of the snapped rows, shape (t,) * d, by contracting their histogram axis by axis."""
    chebyshev = bases.chebyshev(grid_axis(grid.levels)[:, None], degrees - 1)[:, 0, :]
    moments = grid.histogram(rows).reshape((grid.levels,) * grid.dimensions)
    for _ in range(grid.dimensions):
        # Contracting the first axis puts its degree last, so d turns restore the order.
        moments = np.tensordot(moments, chebyshev, axes=([0], [1]))
    return moments


def _snapped(points: Array, *, sigma: float, delta: float, rows: int | None = None) -> Array:
    """Move every value to the nearest of the N levels that step 1 gives for K = sigma^2."""
    count, dimensions = rows or len(points), points.shape[1]
    order = max(1, round(sigma**2))
    levels = printed.parameters(count, dimensions, order=order, epsilon=1.0, delta=delta).levels
    index = np.clip(np.floor((points + 1.0) * levels / 2.0), 0, levels - 1).astype(np.int64)
    return grid_axis(levels)[index]


def _lattice(values: Array, lattice: int) -> Array:
    """Round to the nearest multiple of 1/L in [-1, 1] (steps 10 and 15)."""
    result: Array = np.clip(np.rint(values * lattice), -lattice, lattice) / lattice
    return result


def _checked(points: ArrayLike) -> Array:
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim != 2 or 0 in rows.shape or not np.isfinite(rows).all() or np.abs(rows).max() > 1.0:
        raise DataError(
            "points must be a (rows, columns) array with all values in [-1, 1]; found one that is not. "
            "Scale the table first, for instance with scale_by_own_range on public data."
        )
    return rows


NAMES = ("wdbc", "ctg", "pks", "crm", "pam", "pam_sub_dsads")
LABELS = {
    "pam": "PAM (5,934 of the paper's 20,000 rows)",
    "pam_sub_dsads": "DSADS (stand-in for PAM, 20,000 x 40)",
}


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """A public table, its public bounds as a schema, and its rows as points of the cube."""

    name: str
    path: Path
    schema: Schema
    points: NDArray[np.float64]

    @property
    def label(self) -> str:
        """How the data set is called in tables."""
        return LABELS.get(self.name, self.name.upper())


def data_folder(given: str | None = None) -> Path:
    """Return the folder with the data sets: the argument, SMOOTHSYNTH_DATA, or ../shared/data."""
    return Path(given or os.environ.get("SMOOTHSYNTH_DATA") or "../shared/data")


def read(name: str, folder: Path) -> DataSet:
    """Read one data set, with its public bounds (not its own range)."""
    with (folder / f"{name}.bounds.csv").open(encoding="utf-8") as file:
        bounds = {row["name"]: (float(row["lower"]), float(row["upper"])) for row in csv.DictReader(file)}
    schema = Schema({column: Number(lower, upper) for column, (lower, upper) in bounds.items()})
    path = folder / f"{name}.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        header = next(csv.reader(file))
        values = np.loadtxt(file, delimiter=",", ndmin=2)
    points = schema.to_unit({column: values[:, header.index(column)] for column in schema.names})
    return DataSet(name, path, schema, points)


def available(folder: Path, names: tuple[str, ...] = NAMES) -> tuple[list[DataSet], list[str]]:
    """Read the data sets that are there; return the names of the others too."""
    there = [name for name in names if (folder / f"{name}.csv.gz").is_file()]
    return [read(name, folder) for name in there], [name for name in names if name not in there]
