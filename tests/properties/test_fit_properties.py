import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from smoothsynth.fit.linear_program import fit_linear_program
from smoothsynth.fit.maximum_entropy import fit_maximum_entropy

# Coarse values make ties, duplicates, constant features and singular bases common.
coarse = st.integers(-4, 4).map(lambda value: value / 4)
fine = st.floats(-1, 1, allow_subnormal=False)


@st.composite
def problems(draw):
    count, moments = draw(st.integers(1, 40)), draw(st.integers(1, 12))
    values = draw(st.sampled_from([coarse, fine]))
    matrix = draw(arrays(np.float64, (count, moments), elements=values))
    target = draw(arrays(np.float64, moments, elements=st.one_of(values, st.floats(-3, 3, allow_subnormal=False))))
    return matrix, target


@given(problem=problems())
def test_the_linear_program_is_always_solved_and_proved(problem):
    matrix, target = problem
    fit = fit_linear_program(matrix, target)
    reached = np.abs(fit.weights @ matrix - target).sum()
    assert fit.converged, fit.outcome
    assert fit.weights.min() >= 0
    assert abs(fit.weights.sum() - 1) < 1e-12
    assert abs(reached - fit.residual) < 1e-10
    assert np.abs(fit.dual).max() <= 1
    assert reached - (target @ fit.dual - (matrix @ fit.dual).max()) <= 1e-9 * max(1.0, reached)
    assert reached <= np.abs(matrix - target).sum(axis=1).min() + 1e-9


@given(problem=problems(), scale=st.sampled_from([1.0, 0.3, 0.05]))
def test_maximum_entropy_always_converges_where_the_noise_is_moderate(problem, scale):
    matrix, target = problem
    fit = fit_maximum_entropy(matrix, target, scale=scale)
    assert fit.converged, fit.outcome
    gradient = fit.weights @ matrix - target + scale**2 * fit.dual
    assert np.linalg.norm(gradient) <= 1.01e-8 * max(1.0, np.linalg.norm(target))
    scores = matrix @ fit.dual
    weights = np.exp(scores - scores.max())
    np.testing.assert_allclose(fit.weights, weights / weights.sum(), rtol=1e-9)


@settings(deadline=None, max_examples=60)
@given(problem=problems())
def test_maximum_entropy_always_ends_and_never_claims_what_it_did_not_reach(problem):
    matrix, target = problem
    fit = fit_maximum_entropy(matrix, target, scale=0.0)
    assert fit.weights.min() >= 0
    assert abs(fit.weights.sum() - 1) < 1e-12
    gradient = fit.weights @ matrix - target + 1e-12 * fit.dual
    unit = max(1.0, np.linalg.norm(target))
    assert abs(fit.residual - np.linalg.norm(gradient) / unit) <= 1e-9
    assert fit.converged == (fit.residual <= 1e-8)
    assert fit.outcome.startswith("Solved" if fit.converged else "Not solved")
