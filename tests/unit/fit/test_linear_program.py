from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from smoothsynth.errors import PlanError
from smoothsynth.fit.linear_program import CutProgram, fit_linear_program


def reference_optimum(matrix, target):
    count, moments = matrix.shape
    equal = np.vstack(
        [np.hstack([matrix.T, np.eye(moments), -np.eye(moments)]), np.r_[np.ones(count), np.zeros(2 * moments)]]
    )
    cost = np.r_[np.zeros(count), np.ones(2 * moments)]
    return linprog(cost, A_eq=equal, b_eq=np.r_[target, 1.0], method="highs").fun


def instance(count, moments, *, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(-1, 1, (count, moments))
    target = spread * rng.uniform(-1, 1, (20, moments)).mean(axis=0)
    return matrix, target


def assert_is_optimal(fit, matrix, target):
    """The dual alone proves the optimum: any y in [-1, 1] bounds it from below by b.y - max_k W_k.y."""
    reached = np.abs(fit.weights @ matrix - target).sum()
    assert fit.converged
    assert fit.weights.min() >= 0.0
    assert fit.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert fit.residual == pytest.approx(reached, abs=1e-12)
    assert np.abs(fit.dual).max() <= 1.0
    assert reached - (target @ fit.dual - (matrix @ fit.dual).max()) <= 1e-9 * max(1.0, reached)


@pytest.mark.parametrize(("count", "moments"), [(300, 1), (400, 5), (2000, 40), (700, 120), (150, 130)])
@pytest.mark.parametrize("spread", [1.0, 6.0])
def test_reaches_the_optimum_of_an_independent_solver(count, moments, spread):
    matrix, target = instance(count, moments, spread=spread)
    fit = fit_linear_program(matrix, target)
    assert_is_optimal(fit, matrix, target)
    assert fit.residual == pytest.approx(reference_optimum(matrix, target), abs=1e-7)


@pytest.mark.parametrize("moments", [3, 30, 120])
def test_an_attainable_target_is_attained_at_a_vertex(moments):
    matrix, _ = instance(1500, moments)
    target = np.random.default_rng(1).dirichlet(np.ones(1500)) @ matrix
    fit = fit_linear_program(matrix, target)
    assert_is_optimal(fit, matrix, target)
    assert fit.residual < 1e-9
    assert np.count_nonzero(fit.weights) <= moments + 1


def test_from_a_face_of_optima_the_search_starts_at_a_vertex_of_it(monkeypatch):
    solves = []
    solve = CutProgram.solve
    monkeypatch.setattr(CutProgram, "solve", lambda self: (solves.append(1), solve(self))[1])
    matrix, _ = instance(3000, 150)
    target = np.random.default_rng(1).dirichlet(np.ones(3000)) @ matrix
    assert fit_linear_program(matrix, target).residual < 1e-9
    assert len(solves) == 1


def test_one_moment_has_a_known_answer():
    matrix = np.array([[-0.5], [0.25], [0.75]])
    assert fit_linear_program(matrix, np.array([0.1])).residual == pytest.approx(0.0, abs=1e-12)
    beyond = fit_linear_program(matrix, np.array([1.0]))
    assert beyond.residual == pytest.approx(0.25, abs=1e-12)
    np.testing.assert_allclose(beyond.weights, [0.0, 0.0, 1.0], atol=1e-12)


def test_one_candidate_takes_all_the_weight():
    matrix, target = np.array([[0.5, -0.5, 0.0]]), np.array([0.0, 0.25, 0.5])
    fit = fit_linear_program(matrix, target)
    np.testing.assert_allclose(fit.weights, [1.0], rtol=0, atol=0)
    assert fit.residual == pytest.approx(1.75, abs=1e-12)
    assert_is_optimal(fit, matrix, target)


@pytest.mark.parametrize("moments", [8, 110])
def test_degenerate_candidates(moments):
    rng = np.random.default_rng(2)
    few = rng.uniform(-1, 1, (12, moments))
    few[:, 1] = 0.3
    few[:, 2] = few[:, 3]
    matrix = np.repeat(few, 40, axis=0)
    target = rng.uniform(-1, 1, moments)
    fit = fit_linear_program(matrix, target)
    assert_is_optimal(fit, matrix, target)
    assert fit.residual == pytest.approx(reference_optimum(few, target), abs=1e-7)


def test_all_candidates_the_same():
    matrix, target = np.full((500, 4), 0.5), np.zeros(4)
    fit = fit_linear_program(matrix, target)
    assert_is_optimal(fit, matrix, target)
    assert fit.residual == pytest.approx(2.0, abs=1e-12)


@pytest.mark.parametrize("moments", [30, 120])
def test_the_solver_never_sees_most_candidates(monkeypatch, moments):
    seen = []
    add = CutProgram.add
    monkeypatch.setattr(CutProgram, "add", lambda self, features: (seen.append(len(features)), add(self, features)))
    matrix, target = instance(6000, moments, spread=3.0)
    assert_is_optimal(fit_linear_program(matrix, target), matrix, target)
    assert sum(seen) < 1500


@pytest.mark.parametrize("moments", [20, 120])
def test_a_solver_that_is_cut_short_is_reported_with_the_gap_and_a_remedy(monkeypatch, moments):
    solve = CutProgram.solve
    monkeypatch.setattr(CutProgram, "solve", lambda self: replace(solve(self), optimal=False))
    monkeypatch.setattr("smoothsynth.fit.linear_program._MOST_SIFTS", 1)
    matrix, target = instance(5000, moments, spread=3.0)
    fit = fit_linear_program(matrix, target)
    assert not fit.converged
    assert fit.outcome.startswith("Not solved to the tolerance of 1e-09")
    assert "Ask for" in fit.outcome
    assert fit.weights.sum() == pytest.approx(1.0)
    assert fit.residual == pytest.approx(np.abs(fit.weights @ matrix - target).sum(), abs=1e-12)
    assert fit.residual > reference_optimum(matrix, target) + 1e-6


def test_the_same_input_gives_the_same_bits():
    matrix, target = instance(3000, 120, spread=3.0)
    first, second = fit_linear_program(matrix, target), fit_linear_program(matrix, target)
    assert first.weights.tobytes() == second.weights.tobytes()
    assert first.dual.tobytes() == second.dual.tobytes()


def test_single_precision_features_and_read_only_results():
    matrix, target = instance(800, 10)
    fit = fit_linear_program(matrix.astype(np.float32), target)
    assert_is_optimal(fit, matrix.astype(np.float32).astype(np.float64), target)
    assert not fit.weights.flags.writeable
    assert fit.method == "linear program"


def test_progress_is_told():
    told = []
    matrix, target = instance(3000, 120, spread=3.0)
    fit = fit_linear_program(matrix, target, progress=lambda *news: told.append(news))
    assert [news[0] for news in told] == list(range(1, fit.steps + 1))
    assert all("optimum" in news[2] for news in told)


@pytest.mark.parametrize(
    ("matrix", "target"),
    [
        (np.zeros((0, 3)), np.zeros(3)),
        (np.zeros((3, 0)), np.zeros(0)),
        (np.zeros((3, 2)), np.zeros(3)),
        (np.full((3, 2), np.nan), np.zeros(2)),
        (np.zeros((3, 2)), np.array([0.0, np.inf])),
    ],
)
def test_misuse_is_refused(matrix, target):
    with pytest.raises(PlanError, match="must"):
        fit_linear_program(matrix, target)
