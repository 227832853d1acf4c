import numpy as np
import pytest

from smoothsynth.fit.entropy_dual import EntropyDual, Listed, gram_of


def dual_function(*, full, offset=0.0):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 5))
    noise = root @ root.T if full else rng.uniform(0.1, 1.0, 5)
    base = rng.dirichlet(np.ones(40))
    return EntropyDual(Listed(rng.uniform(-1, 1, (40, 5)) + offset), rng.normal(size=5), np.log(base), noise)


@pytest.mark.parametrize("full", [False, True])
def test_gradient_and_hessian_are_the_derivatives_of_the_value(full):
    dual = dual_function(full=full)
    rng = np.random.default_rng(1)
    for _ in range(5):
        centre, direction, step = 2 * rng.normal(size=5), rng.normal(size=5), 1e-5
        ahead, behind = dual.at(centre + step * direction), dual.at(centre - step * direction)
        point = dual.at(centre)
        assert (ahead.value - behind.value) / (2 * step) == pytest.approx(point.gradient @ direction, abs=1e-7)
        change = (ahead.gradient - behind.gradient) / (2 * step)
        np.testing.assert_allclose(dual.times_hessian(point, direction), change, atol=1e-7)
        # The Hessian may leave out what is small beside the noise.
        small = 1e-3 * dual.noise_diagonal().min()
        hessian = dual.hessian(point)
        np.testing.assert_allclose(hessian @ direction, change, atol=small * np.linalg.norm(direction))
        np.testing.assert_allclose(dual.variances(point) + dual.noise_diagonal(), np.diag(hessian), atol=small)


def test_scores_far_beyond_the_range_of_exp_are_weighed():
    dual = dual_function(full=False, offset=3.0)
    point = dual.at(np.full(5, 1e4))
    assert np.isfinite(point.value)
    assert point.weights.sum() == pytest.approx(1.0)
    assert point.log_sum == pytest.approx(point.scores.max(), rel=1e-3)


def test_a_negligible_weight_may_be_left_out_of_the_gram_matrix_and_no_other():
    matrix = np.random.default_rng(2).uniform(-1, 1, (30, 4))
    weights = np.r_[np.full(20, 0.05), np.full(10, 1e-12)]
    kept = matrix[:20].T @ (weights[:20, None] * matrix[:20])
    np.testing.assert_allclose(gram_of(Listed(matrix), weights, negligible=1e-10), kept, atol=1e-15)
    everything = matrix.T @ (weights[:, None] * matrix)
    np.testing.assert_allclose(gram_of(Listed(matrix), weights, negligible=0.0), everything, atol=1e-15)


@pytest.mark.parametrize("heavy", [12, 30])
def test_candidates_without_weight_may_go_and_the_hessian_stays(heavy):
    rng = np.random.default_rng(3)
    dual = dual_function(full=False)
    scores = np.where(np.arange(40) < heavy, rng.normal(size=40), -60.0)
    point = dual.at(rng.normal(size=5), scores=scores)
    lean, here = dual.thinned(point)
    # Where most stay, the features are not copied.
    assert len(here.weights) == (heavy if heavy < 20 else 40)
    assert np.count_nonzero(here.weights) == heavy
    vector = rng.normal(size=5)
    np.testing.assert_allclose(lean.times_hessian(here, vector), dual.times_hessian(point, vector), rtol=1e-9)
    np.testing.assert_allclose(lean.variances(here), dual.variances(point), rtol=1e-9)
