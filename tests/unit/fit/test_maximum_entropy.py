import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from smoothsynth.errors import PlanError
from smoothsynth.fit import newton as newton_path
from smoothsynth.fit import newton as newton_solvers
from smoothsynth.fit.maximum_entropy import fit_maximum_entropy
from smoothsynth.queries.bases import evaluate, total_degree


def instance(count=600, moments=12, *, seed=0, noise=0.05):
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(-1, 1, (count, moments))
    base = rng.dirichlet(np.full(count, 5.0))
    target = rng.dirichlet(np.ones(count)) @ matrix + noise * rng.normal(size=moments)
    return matrix, target, base


def objective(weights, matrix, target, *, covariance, base):
    rest = weights @ matrix - target
    positive = weights > 0
    relative = np.sum(weights[positive] * np.log(weights[positive] / base[positive]))
    return relative + rest @ np.linalg.solve(covariance, rest) / 2


def reference_weights(matrix, target, *, covariance, base):
    def dual(multipliers):
        scores = np.log(base) + matrix @ multipliers
        weights = np.exp(scores - logsumexp(scores))
        blurred = covariance @ multipliers
        value = logsumexp(scores) - multipliers @ target + multipliers @ blurred / 2
        return value, weights @ matrix - target + blurred

    start = np.zeros(matrix.shape[1])
    found = minimize(dual, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    scores = np.log(base) + matrix @ found.x
    return np.exp(scores - logsumexp(scores))


def test_agrees_with_an_independent_minimiser():
    matrix, target, base = instance()
    scale = np.linspace(0.02, 0.2, 12)
    fit = fit_maximum_entropy(matrix, target, scale=scale, base=base)
    expected = reference_weights(matrix, target, covariance=np.diag(scale**2), base=base)
    assert fit.converged
    np.testing.assert_allclose(fit.weights, expected, rtol=1e-5)
    assert fit.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert fit.weights.min() > 0


def test_a_full_covariance_agrees_with_an_independent_minimiser():
    matrix, target, base = instance()
    root = 0.1 * np.random.default_rng(3).normal(size=(12, 12))
    covariance = root @ root.T + 0.001 * np.eye(12)
    fit = fit_maximum_entropy(matrix, target, scale=0.0, base=base, covariance=covariance)
    np.testing.assert_allclose(
        fit.weights, reference_weights(matrix, target, covariance=covariance, base=base), rtol=1e-4
    )


def test_the_weights_minimise_the_stated_objective():
    matrix, target, base = instance()
    covariance = np.eye(12) * 0.05**2
    fit = fit_maximum_entropy(matrix, target, scale=0.05, base=base)
    best = objective(fit.weights, matrix, target, covariance=covariance, base=base)
    rng = np.random.default_rng(4)
    for _ in range(50):
        other = fit.weights * np.exp(0.01 * rng.normal(size=len(base)))
        assert objective(other / other.sum(), matrix, target, covariance=covariance, base=base) > best
    # The multipliers prove it: the duality gap is g' S^-1 g / 2.
    scores = np.log(base) + matrix @ fit.dual
    lower = fit.dual @ target - logsumexp(scores) - fit.dual @ covariance @ fit.dual / 2
    assert best - lower == pytest.approx(0.0, abs=1e-9)


def test_two_candidates_have_a_known_answer():
    # u = (1+m, 1-m)/2 with atanh(m) + (m - b)/s^2 = 0
    fit = fit_maximum_entropy(np.array([[1.0], [-1.0]]), np.array([0.6]), scale=0.5)
    mean = fit.weights @ [1.0, -1.0]
    assert np.arctanh(mean) + (mean - 0.6) / 0.25 == pytest.approx(0.0, abs=1e-7)


def test_without_information_the_base_measure_stays():
    matrix, target, base = instance()
    fit = fit_maximum_entropy(matrix, target, scale=1e6, base=base)
    np.testing.assert_allclose(fit.weights, base, rtol=1e-9)
    np.testing.assert_allclose(fit_maximum_entropy(matrix, target, scale=1e6).weights, 1 / 600, rtol=1e-9)


def test_a_scale_of_zero_matches_what_can_be_matched():
    matrix, _, base = instance()
    target = np.random.default_rng(5).dirichlet(np.ones(600)) @ matrix
    scale = np.where(np.arange(12) < 6, 0.0, 0.3)
    fit = fit_maximum_entropy(matrix, target, scale=scale, base=base)
    assert fit.converged
    rest = np.abs(fit.weights @ matrix - target)
    assert rest[:6].max() < 1e-7
    assert rest[6:].max() > 1e-4


@pytest.mark.parametrize("scale", [0.05, 0.01])
def test_conjugate_gradients_reach_the_same_weights(monkeypatch, scale):
    matrix, target, base = instance()
    dense = fit_maximum_entropy(matrix, target, scale=scale, base=base)
    monkeypatch.setattr(newton_solvers, "_DENSE_UP_TO", 0)
    monkeypatch.setattr(np.linalg, "solve", None)
    rough = fit_maximum_entropy(matrix, target, scale=scale, base=base)
    assert dense.converged
    assert rough.converged
    np.testing.assert_allclose(rough.weights, dense.weights, rtol=1e-4, atol=1e-12)


def test_conjugate_gradients_take_over_where_the_hessian_cannot_be_solved(monkeypatch):
    matrix, target, base = instance()

    def fail(*_):
        raise np.linalg.LinAlgError

    expected = fit_maximum_entropy(matrix, target, scale=0.05, base=base)
    monkeypatch.setattr(np.linalg, "solve", fail)
    fit = fit_maximum_entropy(matrix, target, scale=0.05, base=base)
    assert fit.converged
    np.testing.assert_allclose(fit.weights, expected.weights, rtol=1e-4)


def test_a_far_target_is_reached_where_plain_newton_steps_overshoot(monkeypatch):
    rng = np.random.default_rng(6)
    points = rng.uniform(-1, 1, (4000, 12))
    rows = np.clip(0.1 + 0.2 * rng.normal(size=(500, 12)), -1, 1)

    def features(x):
        left, right = np.triu_indices(12, 1)
        return np.hstack([x, 2 * x**2 - 1, x[:, left] * x[:, right]])

    matrix, target = features(points), features(rows).mean(axis=0)
    assert fit_maximum_entropy(matrix, target, scale=0.003, max_steps=35).converged
    # It takes both: the path of noise, and steps that go only so far.
    for name, value in (("_LARGEST_EXTRA", 0.0), ("_FARTHEST", np.inf)):
        with monkeypatch.context() as without:
            without.setattr(newton_path, name, value)
            assert not fit_maximum_entropy(matrix, target, scale=0.003, max_steps=35).converged


@pytest.mark.parametrize("scale", [0.0, 1e-3])
def test_a_target_outside_the_hull_ends_and_keeps_an_honest_account(scale):
    rng = np.random.default_rng(7)
    matrix = rng.uniform(-1, 1, (400, 15))
    target = np.full(15, 1.5)
    fit = fit_maximum_entropy(matrix, target, scale=scale)
    scores = matrix @ fit.dual
    weights = np.exp(scores - scores.max())
    # The multipliers reach 1e11 here, and a score rounds accordingly.
    np.testing.assert_allclose(fit.weights, weights / weights.sum(), rtol=1e-3, atol=1e-12)
    gradient = fit.weights @ matrix - target + max(scale, 1e-6) ** 2 * fit.dual
    assert fit.residual == pytest.approx(np.linalg.norm(gradient) / np.linalg.norm(target), rel=1e-3, abs=1e-9)
    assert fit.converged == (fit.residual <= 1e-8)
    # Whatever was reached is no worse than where it started.
    start = np.linalg.norm(matrix.mean(axis=0) - target)
    assert np.linalg.norm(fit.weights @ matrix - target) < start


def test_where_it_does_not_converge_the_best_point_seen_is_kept():
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(10, 10)) / np.sqrt(10)
    rows = np.clip(0.3 * rng.normal(size=(5000, 10)) @ mixing, -1, 1)
    points = np.clip(0.3 * rng.normal(size=(300, 10)) @ (mixing + 0.03 * rng.normal(size=(10, 10))), -1, 1)
    matrix, wanted = evaluate(total_degree(2, 10), points), evaluate(total_degree(2, 10), rows).mean(axis=0)
    wanted += 0.02 * rng.normal(size=65)

    def fit(max_steps, seen):
        return fit_maximum_entropy(
            matrix,
            wanted,
            scale=0.002,
            max_steps=max_steps,
            progress=lambda _, __, text: seen.append(float(text.split()[3][:-1])),
        )

    whole, part = [], []
    fit(100, whole)
    # On its way the gradient grows at times; stop there.
    rises = [steps for steps in range(2, len(whole) + 1) if whole[steps - 1] > 1.1 * min(whole[:steps])]
    found = fit(rises[0], part)
    assert part == whole[: rises[0]]
    assert not found.converged
    assert found.residual == pytest.approx(min(part), rel=0.01)


def test_a_miss_that_is_small_beside_the_noise_is_called_harmless():
    matrix, target, base = instance()
    fit = fit_maximum_entropy(matrix, target, scale=0.05, base=base, max_steps=2)
    missed = fit.weights @ matrix - target + 0.05**2 * fit.dual
    assert 0 < np.abs(missed).max() < 0.1 * 0.05
    assert not fit.converged
    assert "does no harm" in fit.outcome
    fit = fit_maximum_entropy(matrix, target, scale=0.001, base=base, max_steps=1)
    assert np.abs(fit.weights @ matrix - target + 0.001**2 * fit.dual).max() > 0.1 * 0.001
    assert "more of them" in fit.outcome


def test_too_few_steps_are_reported_with_a_remedy():
    matrix, target, base = instance()
    fit = fit_maximum_entropy(matrix, target, scale=0.01, base=base, max_steps=1)
    assert not fit.converged
    assert fit.steps == 1
    assert fit.outcome.startswith("Not solved to the tolerance of 1e-08")
    assert "more steps" in fit.outcome
    assert fit_maximum_entropy(matrix, target, scale=0.01, base=base).outcome.startswith("Solved in")


def test_degenerate_candidates_and_features():
    rng = np.random.default_rng(8)
    few = rng.uniform(-1, 1, (10, 14))
    few[:, 1] = 0.3
    few[:, 2] = few[:, 3]
    target = few.mean(axis=0) + 0.01
    once = fit_maximum_entropy(few, target, scale=0.05)
    often = fit_maximum_entropy(np.repeat(few, 30, axis=0), target, scale=0.05)
    assert once.converged
    assert often.converged
    np.testing.assert_allclose(often.weights.reshape(10, 30).sum(axis=1), once.weights, rtol=1e-6)
    np.testing.assert_allclose(fit_maximum_entropy(few[:1], target, scale=0.05).weights, [1.0])


def test_large_features_do_not_overflow():
    matrix, target, base = instance()
    fit = fit_maximum_entropy(1e4 * matrix, 1e4 * target, scale=500.0, base=base)
    same = fit_maximum_entropy(matrix, target, scale=0.05, base=base)
    assert fit.converged
    np.testing.assert_allclose(fit.weights, same.weights, rtol=1e-4)


def test_single_precision_features_need_no_copy_and_give_the_same_weights():
    matrix, target, base = instance()
    rough = matrix.astype(np.float32)
    fit = fit_maximum_entropy(rough, target, scale=0.05, base=base)
    same = fit_maximum_entropy(rough.astype(np.float64), target, scale=0.05, base=base)
    np.testing.assert_allclose(fit.weights, same.weights, rtol=1e-9)


def test_blocks_do_not_change_the_weights(monkeypatch):
    matrix, target, base = instance(count=3000)
    whole = fit_maximum_entropy(matrix, target, scale=0.05, base=base)
    monkeypatch.setattr("smoothsynth.fit.entropy_dual._BLOCK_ENTRIES", 1)
    parts = fit_maximum_entropy(matrix, target, scale=0.05, base=base)
    np.testing.assert_allclose(parts.weights, whole.weights, rtol=1e-9)


def test_the_same_input_gives_the_same_bits_and_progress_is_told():
    matrix, target, base = instance()
    told = []
    first = fit_maximum_entropy(matrix, target, scale=0.05, base=base, progress=lambda *news: told.append(news))
    second = fit_maximum_entropy(matrix, target, scale=0.05, base=base)
    assert first.weights.tobytes() == second.weights.tobytes()
    assert [news[:2] for news in told] == [(step, 100) for step in range(1, first.steps + 1)]


@pytest.mark.parametrize(
    "changes",
    [
        {"target": np.zeros(3)},
        {"scale": -0.1},
        {"scale": np.full(5, 0.1)},
        {"scale": np.nan},
        {"base": np.zeros(600)},
        {"base": np.ones(3)},
        {"covariance": np.ones((3, 3))},
        {"covariance": np.triu(np.ones((12, 12)))},
        {"covariance": -np.eye(12)},
    ],
)
def test_misuse_is_refused(changes):
    matrix, target, _ = instance()
    arguments = {"target": target, "scale": 0.1} | changes
    with pytest.raises(PlanError, match="must"):
        fit_maximum_entropy(matrix, arguments.pop("target"), **arguments)
