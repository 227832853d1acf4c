import numpy as np
import pytest

from smoothsynth.fit.entropy_dual import EntropyDual, Listed, MarginalDuals, gram_of
from smoothsynth.fit.newton import minimise_dual, minimise_marginals


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


def marginal_duals(*, linked):
    rng = np.random.default_rng(4)
    functions, base = rng.uniform(-1, 1, (3, 2, 30)), rng.dirichlet(np.ones(30), 3)
    base[1, 20:] = 0.0
    links = rng.normal(size=(3, 2, 4)) * rng.integers(0, 2, (3, 1, 4)) if linked else None
    shape = (1, 4) if linked else (3, 2)
    with np.errstate(divide="ignore"):
        log_base = np.log(base / base.sum(axis=1, keepdims=True))
    return MarginalDuals(functions, 0.3 * rng.normal(size=shape), log_base, rng.uniform(0.01, 0.1, shape), links)


@pytest.mark.parametrize("linked", [False, True])
def test_derivatives_of_marginals_are_those_of_their_values(linked):
    duals = marginal_duals(linked=linked)
    rng, step = np.random.default_rng(5), 1e-5
    centre, direction = rng.normal(size=(2, *duals.target.shape))
    gradient, hessian = duals.derivatives(centre, duals.at(centre)[1])
    around = [centre + step * direction, centre - step * direction]
    (ahead, _), (behind, _) = map(duals.at, around)
    np.testing.assert_allclose((ahead - behind) / (2 * step), np.sum(gradient * direction, axis=1), atol=1e-7)
    ahead, behind = (duals.derivatives(place, duals.at(place)[1])[0] for place in around)
    np.testing.assert_allclose((ahead - behind) / (2 * step), np.einsum("dqr,dr->dq", hessian, direction), atol=1e-7)


def test_marginals_all_together_are_those_of_the_fit_of_weights_one_by_one():
    duals = marginal_duals(linked=False)
    together, converged, _ = minimise_marginals(duals, tolerance=1e-12)
    assert converged
    for c, possible in enumerate(np.isfinite(duals.log_base)):
        features = Listed(duals.functions[c][:, possible].T)
        dual = EntropyDual(features, duals.target[c], duals.log_base[c, possible], duals.noise[c])
        alone = minimise_dual(dual, tolerance=1e-9, max_steps=50)
        np.testing.assert_allclose(together[c, possible], alone.point.weights, atol=1e-6)
        assert not together[c, ~possible].any()


def test_marginals_linked_each_to_its_own_moments_are_those_without_links():
    duals = marginal_duals(linked=False)
    links = np.eye(6).reshape(3, 2, 6)
    one = MarginalDuals(duals.functions, duals.target.reshape(1, 6), duals.log_base, duals.noise.reshape(1, 6), links)
    apart, linked = (minimise_marginals(each, tolerance=1e-12)[0] for each in (duals, one))
    np.testing.assert_allclose(linked, apart, atol=1e-6)
