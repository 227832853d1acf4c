"""Both fits on the paper's full grid {a_k}^d with the full tensor of Chebyshev features {0..t-1}^d."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.synthesis.column_generation import generate_columns
from smoothsynth.synthesis.entropy_dual import EntropyDual
from smoothsynth.synthesis.fit import Fit
from smoothsynth.synthesis.grid_features import GridFeatures, RoundedGridFeatures
from smoothsynth.synthesis.linear_program import describe as describe_program
from smoothsynth.synthesis.maximum_entropy import METHOD, SMALLEST_SCALE
from smoothsynth.synthesis.maximum_entropy import describe as describe_entropy
from smoothsynth.synthesis.newton_path import minimise_dual

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.synthesis.fit import Progress

    Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GridFit:
    """Weights on a few points of a grid: point j is (a_k1, ..., a_kd) with k = support[j]."""

    support: NDArray[np.int64]
    weights: Array
    optimum: float
    converged: bool
    outcome: str
    steps: int

    def __post_init__(self) -> None:
        self.support.setflags(write=False)
        self.weights.setflags(write=False)


def fit_grid_linear_program(
    target: NDArray[np.floating],
    *,
    levels: int,
    lattice: int | None = None,
    tolerance: float = 1e-9,
    progress: Progress | None = None,
) -> GridFit:
    """Solve the paper's linear program on its own grid.

        minimise |W'u - b|_1   subject to   u >= 0,  1'u = 1,   u on {a_k}^d,  a_k = (2k + 1 - N) / N

    `target` has one axis of length t per column, and its entry 0 .. 0, the constant, is ignored. With `lattice` = L
    every entry of W is rounded to a multiple of 1/L, and the optimum is that of the rounded program; round the target
    with `round_to_lattice` to have the paper's program to the letter. Algorithm 1, steps 13 to 20.
    """
    noisy = _checked(target)
    smooth = GridFeatures.of(levels, degrees=noisy.shape[0], dimensions=noisy.ndim)
    if lattice is not None and lattice < 1:
        raise PlanError(f"the lattice must be a whole number >= 1; found {lattice}: leave it out for no rounding")
    columns = smooth if lattice is None else RoundedGridFeatures(smooth, lattice)
    generated = generate_columns(columns, noisy.ravel()[1:], tolerance=tolerance, progress=progress)
    return GridFit(
        support=np.stack(np.unravel_index(generated.support, smooth.shape), axis=1).astype(np.int64),
        weights=generated.weights,
        optimum=generated.optimum,
        converged=generated.converged,
        outcome=describe_program(generated, tolerance=tolerance),
        steps=generated.steps,
    )


def fit_grid_maximum_entropy(
    target: NDArray[np.floating],
    *,
    levels: int,
    scale: float | NDArray[np.floating],
    tolerance: float = 1e-8,
    max_steps: int = 100,
    progress: Progress | None = None,
) -> Fit:
    """Fit the flattest weights on the whole grid whose moments agree with the target within the noise.

    `target`, and `scale` unless it is one number, have one axis of length t per column; entry 0 .. 0 is ignored. The
    weights of the fit have the shape of the grid, (N, ..., N), and its dual has the shape of the target.
    """
    noisy = _checked(target)
    features = GridFeatures.of(levels, degrees=noisy.shape[0], dimensions=noisy.ndim)
    flat = np.full(features.count, -np.log(features.count))
    dual = EntropyDual(features, noisy.ravel()[1:], flat, _variances(scale, shape=noisy.shape))
    found = minimise_dual(dual, tolerance=tolerance, max_steps=max_steps, progress=progress)
    return Fit(
        weights=found.point.weights.reshape(features.shape),
        method=METHOD,
        converged=found.residual <= tolerance,
        outcome=describe_entropy(found, tolerance=tolerance),
        steps=found.steps,
        residual=found.residual,
        dual=np.append(0.0, found.point.multipliers).reshape(noisy.shape),
    )


def _variances(scale: float | NDArray[np.floating], *, shape: tuple[int, ...]) -> Array:
    deviation = np.asarray(scale, dtype=np.float64)
    if deviation.shape in {(), shape}:
        deviation = np.broadcast_to(deviation, shape).ravel()[1:]
        if deviation.min() >= 0.0 and np.isfinite(deviation).all():
            return np.maximum(deviation, SMALLEST_SCALE) ** 2
    raise PlanError(
        f"the scale must be one number >= 0, or one per moment; found an array of shape {np.shape(scale)} that is not, "
        f"for a target of shape {shape}: pass the standard deviation of each moment's noise"
    )


def _checked(target: NDArray[np.floating]) -> Array:
    noisy = np.asarray(target, dtype=np.float64)
    if noisy.ndim < 1 or len(set(noisy.shape)) != 1 or not np.isfinite(noisy.ravel()[1:]).all():
        raise PlanError(
            f"the target must have one axis per column, all of the same length t >= 2, and be finite; found an array "
            f"of shape {noisy.shape} that is not: fill in every moment of degree below t in each column"
        )
    return noisy
