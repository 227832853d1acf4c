import tracemalloc

import numpy as np
import pytest

from smoothsynth.errors import PlanError
from smoothsynth.fit import features as computing
from smoothsynth.fit import newton as newton_path
from smoothsynth.fit import newton as newton_solvers
from smoothsynth.fit.entropy_dual import EntropyDual, Listed, gram_of
from smoothsynth.fit.features import Evaluated, Quadratic, Stacked, computed_features
from smoothsynth.fit.maximum_entropy import fit_maximum_entropy
from smoothsynth.queries.bases import evaluate, lowest, pooled, term_feature, total_degree
from smoothsynth.queries.families import ClippedSecondMoments
from smoothsynth.queries.transformation import Transformation

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(-1, 1, (700, 6))
BENT = Transformation.from_values(np.tile(np.linspace(-1, 1, 513) ** 3, (6, 1)), ClippedSecondMoments(1.5)).of(POINTS)
# In no particular order, so that a part that fills the wrong columns is found out.
MIXED = (
    term_feature((2, 5)),
    *total_degree(2, 6)[::-1],
    pooled(2, range(6)),
    term_feature((0, 1), (3, 2), (5, 1)),
    pooled(3, [1, 4]),
)


@pytest.fixture
def unlisted(monkeypatch):
    """Compute features that would be listed otherwise, because they are few."""
    monkeypatch.setattr(computing, "MOST_LISTED", 0)


def listed(groups):
    return np.concatenate([evaluate(features, points) for features, points in groups], axis=1)


def rows_and_candidates(columns, count, *, noise, seed=0):
    """Degree 2: candidates from a slightly wrong model of correlated rows, and the noisy moments of the rows."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(columns, columns)) / np.sqrt(columns)
    wrong = mixing + 0.1 * rng.normal(size=(columns, columns)) / np.sqrt(columns)
    rows = np.clip(0.3 * rng.normal(size=(5000, columns)) @ mixing, -1, 1)
    points = np.clip(0.3 * rng.normal(size=(count, columns)) @ wrong, -1, 1)
    features = total_degree(2, columns)
    target = Quadratic.of(features, rows).adjoint(np.full(5000, 1 / 5000))
    return features, points, target + noise * rng.normal(size=len(features))


@pytest.mark.parametrize(
    "groups", [[(total_degree(2, 6), POINTS)], [(MIXED, POINTS)], [(MIXED, POINTS), (MIXED, BENT)]]
)
@pytest.mark.parametrize("room", [0, 2**28])
def test_products_are_those_of_the_listed_features(monkeypatch, groups, room):
    monkeypatch.setattr(computing, "_FORMED", 0)
    monkeypatch.setattr(computing, "MOST_LISTED", room)
    monkeypatch.setattr("smoothsynth.fit.features._BLOCK_ENTRIES", 1)
    monkeypatch.setattr("smoothsynth.fit.features._BLOCK_ENTRIES", 1)
    features, matrix = computed_features(groups), listed(groups)
    weights, multipliers = RNG.dirichlet(np.ones(700)), RNG.normal(size=matrix.shape[1])
    kept = np.sort(RNG.choice(700, 300, replace=False))
    assert features.shape == matrix.shape
    np.testing.assert_allclose(features.values(kept), matrix[kept], atol=1e-12)
    for part, same, u in (
        (features, Listed(matrix), weights),
        (features.only(kept), Listed(matrix[kept]), weights[kept]),
    ):
        np.testing.assert_allclose(part.forward(multipliers), same.forward(multipliers), atol=1e-10)
        np.testing.assert_allclose(part.adjoint(u), same.adjoint(u), atol=1e-10)
        np.testing.assert_allclose(part.gram_diagonal(u), same.gram_diagonal(u), atol=1e-10)
        np.testing.assert_allclose(gram_of(part, u, negligible=0.0), gram_of(same, u, negligible=0.0), atol=1e-10)
        # Quadratic features do this one in single precision: it serves steps, not answers.
        bent = same.gram_times(u, multipliers)
        np.testing.assert_allclose(part.gram_times(u, multipliers), bent, atol=1e-6 * np.abs(bent).max())


def test_the_product_in_single_precision_does_not_depend_on_the_size_of_the_vector():
    features, vector = Quadratic.of(total_degree(2, 6), POINTS), RNG.normal(size=27)
    weights = RNG.dirichlet(np.ones(700))
    for size in (1e-60, 1e60):
        product = features.gram_times(weights, size * vector)
        np.testing.assert_allclose(product / size, features.gram_times(weights, vector), atol=1e-6)
    assert not features.gram_times(weights, 0 * vector).any()


def test_the_first_features_may_be_taken_across_groups(unlisted):
    groups = [(MIXED, POINTS), (MIXED, BENT)]
    multipliers = RNG.normal(size=2 * len(MIXED))
    for first in (3, len(MIXED), len(MIXED) + 5, 2 * len(MIXED)):
        features = computed_features(groups, first=first)
        assert features.shape == (700, first)
        expected = listed(groups)[:, :first] @ multipliers[:first]
        np.testing.assert_allclose(features.forward(multipliers[:first]), expected, atol=1e-10)


def test_features_are_known_in_the_way_that_pays(monkeypatch):
    assert isinstance(computed_features([(MIXED, POINTS)]), Listed)
    monkeypatch.setattr(computing, "_FORMED", 0)
    assert isinstance(computed_features([(total_degree(2, 6), POINTS)]), Quadratic)
    mixed = computed_features([(MIXED, POINTS)])
    assert isinstance(mixed, Stacked)
    assert [type(part) for part in mixed.parts] == [Quadratic, Listed]
    # Room for the listed features of one group, not of both.
    monkeypatch.setattr(computing, "MOST_LISTED", 8 * 700 * 4)
    both = computed_features([(MIXED, POINTS), (MIXED, POINTS)])
    assert [type(part) for part in both.parts] == [Quadratic, Listed, Quadratic, Evaluated]
    # Few features of many columns are no reason for a form of d^2 coefficients.
    wide = RNG.uniform(-1, 1, (50, 300))
    assert isinstance(computed_features([(lowest(300, 300), wide)]), Evaluated)


@pytest.mark.parametrize("noise", [0.3, 0.02])
def test_the_solution_is_that_of_the_listed_features(monkeypatch, unlisted, noise):
    features, points, target = rows_and_candidates(10, 4000, noise=noise)
    same = fit_maximum_entropy(evaluate(features, points), target, scale=noise)
    computed = computed_features([(features, points)])
    assert isinstance(computed, Quadratic)
    dense = fit_maximum_entropy(computed, target, scale=noise)
    monkeypatch.setattr(newton_solvers, "_DENSE_UP_TO", 0)
    rough = fit_maximum_entropy(computed, target, scale=noise)
    for fit in (same, dense, rough):
        assert fit.converged
    np.testing.assert_allclose(dense.weights, same.weights, rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(rough.weights, same.weights, rtol=1e-4, atol=1e-12)


def test_a_large_fit_stays_far_below_the_memory_of_its_features():
    features, points, target = rows_and_candidates(46, 20_000, noise=0.1)
    size = 8 * len(points) * len(features)
    tracemalloc.start()
    try:
        fit = fit_maximum_entropy(computed_features([(features, points)]), target, scale=0.1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert fit.converged
    assert size > 170e6
    assert peak < size / 4
    # The weights are still those of the whole table.
    gradient = fit.weights @ evaluate(features, points) - target + 0.01 * fit.dual
    assert np.linalg.norm(gradient) <= 1.1e-8 * np.linalg.norm(target)


def first_way(features, *, moments, noise):
    count = features.shape[0]
    dual = EntropyDual(features, np.zeros(moments), np.full(count, -np.log(count)), np.full(moments, noise**2))
    return newton_solvers.solvers(dual, spread=np.full(moments, 0.01 + noise**2))[0]


def test_the_cheaper_way_to_a_step_is_taken():
    def quadratic(columns, count):
        return Quadratic.of(total_degree(2, columns), np.zeros((count, columns)))

    dense, rough = newton_solvers._dense_solver, newton_solvers._rough_solver
    assert first_way(Listed(np.zeros((500, 20))), moments=20, noise=0.1) is dense
    assert first_way(quadratic(5, 500), moments=20, noise=0.1) is dense
    assert first_way(quadratic(60, 3000), moments=1890, noise=0.1) is rough
    # Little noise makes a system that conjugate gradients need too many products for.
    assert first_way(quadratic(60, 3000), moments=1890, noise=1e-5) is dense


@pytest.mark.parametrize("most", [0, 6000])
def test_progress_is_told_within_a_long_step_too(monkeypatch, most):
    monkeypatch.setattr(newton_solvers, "_DENSE_UP_TO", most)
    monkeypatch.setattr(newton_path, "_SECONDS_BETWEEN_NEWS", 0.0)
    features, points, target = rows_and_candidates(8, 1000, noise=0.1)
    told = []
    fit = fit_maximum_entropy(
        Quadratic.of(features, points), target, scale=0.1, progress=lambda *news: told.append(news)
    )
    steps = [step for step, _, _ in told]
    assert steps == sorted(steps)
    assert steps[-1] == fit.steps
    assert len(told) >= 2 * fit.steps
    assert any(text.endswith("at work on step 1") for _, _, text in told)


def test_an_interrupt_ends_the_fit_within_a_step(monkeypatch):
    monkeypatch.setattr(newton_path, "_SECONDS_BETWEEN_NEWS", 0.0)
    features, points, target = rows_and_candidates(8, 1000, noise=0.1)
    told = []

    def interrupt(*news):
        told.append(news)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_maximum_entropy(Quadratic.of(features, points), target, scale=0.1, progress=interrupt)
    assert len(told) == 1
    assert told[0][0] == 0


@pytest.mark.parametrize("target", [np.zeros(26), np.full(27, np.nan), np.zeros((27, 1))])
def test_a_target_that_does_not_belong_to_the_features_is_refused(target):
    with pytest.raises(PlanError, match="one finite target per moment"):
        fit_maximum_entropy(Quadratic.of(total_degree(2, 6), POINTS), target, scale=0.1)


@pytest.mark.parametrize(("groups", "first"), [([], None), ([(MIXED, POINTS)], 0)])
def test_no_features_are_refused(groups, first):
    with pytest.raises(PlanError, match="one feature at least"):
        computed_features(groups, first=first)
