import numpy as np
import pytest

from smoothsynth.errors import PlanError
from smoothsynth.fit.candidates import grid
from smoothsynth.fit.grid import (
    GridFeatures,
    RoundedGridFeatures,
    fit_grid_linear_program,
    fit_grid_maximum_entropy,
    round_to_lattice,
)
from smoothsynth.fit.linear_program import fit_linear_program
from smoothsynth.fit.maximum_entropy import fit_maximum_entropy

SIZES = [(9, 1, 4), (12, 2, 3), (7, 3, 3), (15, 2, 7), (5, 4, 2)]


def listed(levels, dimensions, degrees):
    """All features written out, through the cosine and not the recurrence, the constant left out."""
    points = grid(levels, dimensions).points
    angles = np.arccos(points)
    indices = np.stack(np.unravel_index(np.arange(degrees**dimensions), (degrees,) * dimensions), axis=1)
    return np.stack([np.cos(index * angles).prod(axis=1) for index in indices[1:]], axis=1)


def noisy_target(dimensions, degrees, *, noise, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.clip(0.2 + 0.4 * rng.normal(size=(200, dimensions)), -1, 1)
    indices = np.stack(np.unravel_index(np.arange(degrees**dimensions), (degrees,) * dimensions), axis=1)
    moments = np.array([np.cos(index * np.arccos(rows)).prod(axis=1).mean() for index in indices])
    moments += noise * rng.normal(size=len(moments))
    return moments.reshape((degrees,) * dimensions)


@pytest.mark.parametrize(("levels", "dimensions", "degrees"), SIZES)
def test_products_axis_by_axis_are_those_of_the_matrix(levels, dimensions, degrees):
    matrix = listed(levels, dimensions, degrees)
    features = GridFeatures.of(levels, degrees=degrees, dimensions=dimensions)
    rng = np.random.default_rng(1)
    vector, weights = rng.normal(size=matrix.shape[1]), rng.dirichlet(np.ones(len(matrix)))
    gram = matrix.T @ (weights[:, None] * matrix)
    np.testing.assert_allclose(features.forward(vector), matrix @ vector, atol=1e-11)
    np.testing.assert_allclose(features.adjoint(weights), weights @ matrix, atol=1e-13)
    np.testing.assert_allclose(features.gram(weights, negligible=0.0), gram, atol=1e-13)
    np.testing.assert_allclose(features.gram_diagonal(weights), np.diag(gram), atol=1e-13)
    np.testing.assert_allclose(features.gram_times(weights, vector), gram @ vector, atol=1e-11)
    some = np.array([0, len(matrix) // 2, len(matrix) - 1])
    np.testing.assert_allclose(features.features(some), matrix[some], atol=1e-13)


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.5])
@pytest.mark.parametrize(("levels", "dimensions", "degrees"), SIZES)
def test_the_linear_program_has_the_optimum_of_the_listed_one(levels, dimensions, degrees, noise):
    target = noisy_target(dimensions, degrees, noise=noise)
    matrix = listed(levels, dimensions, degrees)
    fit = fit_grid_linear_program(target, levels=levels)
    assert fit.converged, fit.outcome
    assert fit.optimum == pytest.approx(fit_linear_program(matrix, target.ravel()[1:]).residual, abs=1e-8)
    weights = np.zeros((levels,) * dimensions)
    weights[tuple(fit.support.T)] = fit.weights
    assert fit.weights.min() > 0
    assert fit.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.abs(weights.ravel() @ matrix - target.ravel()[1:]).sum() == pytest.approx(fit.optimum, abs=1e-9)


@pytest.mark.parametrize("lattice", [4, 25, 1000])
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize(("levels", "dimensions", "degrees"), SIZES)
def test_the_rounded_program_has_the_optimum_of_the_listed_one(levels, dimensions, degrees, noise, lattice):
    target = round_to_lattice(noisy_target(dimensions, degrees, noise=noise), lattice)
    # Through the same table: a value half-way between two lattice points must round to the same side.
    smooth = GridFeatures.of(levels, degrees=degrees, dimensions=dimensions)
    exact = listed(levels, dimensions, degrees)
    matrix = round_to_lattice(smooth.features(np.arange(smooth.count)), lattice)
    assert np.abs(matrix - exact).max() <= 0.5 / lattice + 1e-12
    np.testing.assert_allclose(matrix * lattice, np.rint(matrix * lattice), atol=1e-9)
    fit = fit_grid_linear_program(target, levels=levels, lattice=lattice)
    assert fit.converged, fit.outcome
    assert fit.optimum == pytest.approx(fit_linear_program(matrix, target.ravel()[1:]).residual, abs=1e-8)


def test_a_coarse_lattice_changes_the_optimum():
    target = noisy_target(2, 3, noise=0.1)
    smooth = fit_grid_linear_program(target, levels=12).optimum
    assert abs(fit_grid_linear_program(target, levels=12, lattice=4).optimum - smooth) > 1e-3


def test_the_search_of_a_rounded_grid_finds_the_largest_value(monkeypatch):
    monkeypatch.setattr("smoothsynth.fit.grid._BLOCK_ENTRIES", 63)
    smooth = GridFeatures.of(9, degrees=4, dimensions=3)
    rounded = RoundedGridFeatures(smooth, 7)
    matrix = rounded.features(np.arange(smooth.count))
    rng = np.random.default_rng(2)
    for _ in range(20):
        dual = rng.uniform(-1, 1, 63)
        largest = (matrix @ dual).max()
        # At this level nothing is violated, so the price must be exact.
        priced = rounded.price(dual, limit=10, level=-largest)
        assert priced.exact
        assert priced.values[0] == pytest.approx(largest, abs=1e-12)


@pytest.mark.parametrize("scale", [0.05, 0.3])
@pytest.mark.parametrize(("levels", "dimensions", "degrees"), SIZES)
def test_maximum_entropy_gives_the_weights_of_the_listed_one(levels, dimensions, degrees, scale):
    target = noisy_target(dimensions, degrees, noise=0.02)
    fit = fit_grid_maximum_entropy(target, levels=levels, scale=scale)
    same = fit_maximum_entropy(listed(levels, dimensions, degrees), target.ravel()[1:], scale=scale)
    assert fit.converged
    assert fit.weights.shape == (levels,) * dimensions
    assert fit.dual.shape == target.shape
    np.testing.assert_allclose(fit.weights.ravel(), same.weights, rtol=1e-5, atol=1e-10)


def test_maximum_entropy_takes_one_scale_per_moment():
    target = noisy_target(2, 3, noise=0.02)
    scale = np.linspace(0.02, 0.3, 9).reshape(3, 3)
    fit = fit_grid_maximum_entropy(target, levels=10, scale=scale)
    same = fit_maximum_entropy(listed(10, 2, 3), target.ravel()[1:], scale=scale.ravel()[1:])
    np.testing.assert_allclose(fit.weights.ravel(), same.weights, rtol=1e-5, atol=1e-10)


def test_the_constant_is_ignored():
    target = noisy_target(2, 3, noise=0.1)
    changed = target.copy()
    changed[0, 0] = np.nan
    assert fit_grid_linear_program(changed, levels=9).optimum == fit_grid_linear_program(target, levels=9).optimum


def test_a_million_points_are_fitted_without_listing_them():
    target = noisy_target(3, 4, noise=0.05)
    program = fit_grid_linear_program(target, levels=100)
    assert program.converged
    assert len(program.weights) <= 64
    entropy = fit_grid_maximum_entropy(target, levels=100, scale=0.05)
    assert entropy.converged
    assert entropy.weights.shape == (100, 100, 100)


@pytest.mark.parametrize(
    "call",
    [
        lambda: fit_grid_linear_program(np.zeros((2, 3)), levels=5),
        lambda: fit_grid_linear_program(np.zeros((1, 1)), levels=5),
        lambda: fit_grid_linear_program(np.zeros((2, 2)), levels=0),
        lambda: fit_grid_linear_program(np.zeros((2,) * 9), levels=100),
        lambda: fit_grid_linear_program(np.zeros((2, 2)), levels=5, lattice=0),
        lambda: fit_grid_linear_program(np.array([1.0, np.nan]), levels=5),
        lambda: fit_grid_maximum_entropy(np.zeros((2, 2)), levels=5, scale=-1.0),
        lambda: fit_grid_maximum_entropy(np.zeros((2, 2)), levels=5, scale=np.ones(2)),
    ],
)
def test_misuse_is_refused(call):
    with pytest.raises(PlanError, match="must"):
        call()
