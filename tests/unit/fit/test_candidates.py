import numpy as np
import pytest

from smoothsynth.errors import PlanError
from smoothsynth.fit.candidates import Candidates, grid, hypercube


def test_hypercube_is_uniform_seeded_and_read_only():
    candidates = hypercube(20_000, 3, generator=np.random.default_rng(1))
    again = hypercube(20_000, 3, generator=np.random.default_rng(1))
    assert candidates.points.tobytes() == again.points.tobytes()
    assert candidates.origin == "hypercube"
    assert candidates.points.shape == (20_000, 3)
    # Uniform on [-1, 1]: mean 0, variance 1/3, fourth moment 1/5; five standard errors.
    assert np.abs(candidates.points.mean(axis=0)).max() < 5 * np.sqrt(1 / 3 / 20_000)
    assert np.abs((candidates.points**2).mean(axis=0) - 1 / 3).max() < 5 * np.sqrt(4 / 45 / 20_000)
    np.testing.assert_allclose(candidates.base, 1 / 20_000)
    with pytest.raises(ValueError, match="read-only"):
        candidates.points[0, 0] = 0.0


def test_grid_has_the_papers_values_in_every_combination():
    candidates = grid(4, 2)
    axis = [-0.75, -0.25, 0.25, 0.75]
    np.testing.assert_allclose(candidates.points, [[first, last] for first in axis for last in axis], atol=1e-15)
    assert candidates.base.sum() == pytest.approx(1.0)
    assert candidates.origin == "grid"
    np.testing.assert_allclose(grid(1, 3).points, [[0.0, 0.0, 0.0]])


def test_a_grid_that_is_too_large_is_refused_with_the_way_out():
    with pytest.raises(PlanError, match=r"found 10\^30: lower the levels, draw hypercube candidates"):
        grid(10, 30)


@pytest.mark.parametrize("make", [lambda: grid(0, 2), lambda: grid(3, 0)])
def test_empty_grids_are_refused(make):
    with pytest.raises(PlanError, match=">= 1"):
        make()


def test_empty_hypercubes_are_refused():
    with pytest.raises(PlanError, match="count >= 1"):
        hypercube(0, 2, generator=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("points", "base"),
    [
        (np.zeros((2, 1)), np.array([0.5, 0.6])),
        (np.zeros((2, 1)), np.array([1.0, 0.0])),
        (np.array([[1.5], [0.0]]), np.array([0.5, 0.5])),
        (np.array([[np.nan], [0.0]]), np.array([0.5, 0.5])),
        (np.zeros((2, 1)), np.array([1.0])),
        (np.zeros(2), np.array([0.5, 0.5])),
    ],
)
def test_candidates_that_are_none_are_refused(points, base):
    with pytest.raises(PlanError, match="must"):
        Candidates(points, base, "model")


def test_candidates_do_not_share_memory_with_the_callers_arrays():
    points, base = np.zeros((2, 1)), np.array([0.5, 0.5])
    candidates = Candidates(points, base, "model")
    points[0, 0] = 1.0
    assert candidates.points[0, 0] == 0.0
