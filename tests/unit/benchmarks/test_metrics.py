import numpy as np
import pytest
from benchmarks.accuracy import metrics
from benchmarks.accuracy.metrics import Judge, correlation_error, explained, explained_by_real, wasserstein
from scipy.stats import wasserstein_distance

from smoothsynth.paper.queries import answers, random_queries, worst_errors


@pytest.fixture
def real():
    rng = np.random.default_rng(0)
    rows = 0.3 * rng.normal(size=(200, 4))
    rows[:, 3] = rows[:, 0] - 0.5 * rows[:, 1]
    return np.clip(rows, -1, 1)


def test_a_copy_has_no_error(real):
    scores = Judge(real, queries=20, seed=1, target=3)(real.copy()).as_row()
    explained_share = scores.pop("tstr")
    assert explained_share > 0.99
    assert set(scores.values()) == {0.0}


def test_queries_of_the_protocol_are_those_of_the_seed(real):
    synthetic = np.random.default_rng(3).uniform(-1, 1, (90, 4))
    rng = np.random.default_rng(7)
    scores = Judge(real, queries=50, seed=7)(synthetic)
    for sigma in metrics.SIGMAS:
        family = random_queries(50, 4, sigma=sigma, generator=rng)
        direct = worst_errors(answers(family, real), answers(family, synthetic))
        assert scores.relative[sigma] == pytest.approx(direct.relative, rel=1e-3)
        assert scores.absolute[sigma] == pytest.approx(direct.absolute, rel=1e-3)


def test_a_judge_tells_better_from_worse(real):
    rng = np.random.default_rng(2)
    judge = Judge(real, queries=50, seed=0, target=3)
    near = judge(real[rng.integers(0, 200, 200)]).as_row()
    far = judge(rng.uniform(-1, 1, real.shape)).as_row()
    for name in set(near) - {"tstr"}:
        assert near[name] < far[name], name
    assert near["tstr"] > far["tstr"]


def test_no_target_no_model(real):
    assert np.isnan(Judge(real, queries=5, seed=0)(real).explained)


@pytest.mark.parametrize("sizes", [(40, 40), (40, 7), (3, 100)])
def test_wasserstein_agrees_with_scipy(sizes):
    rng = np.random.default_rng(5)
    first, second = (np.round(rng.normal(size=(size, 3)), 1) for size in sizes)
    expected = np.mean([wasserstein_distance(first[:, i], second[:, i]) for i in range(3)])
    assert wasserstein(first, second) == pytest.approx(expected, abs=1e-12)


def test_wasserstein_of_a_shift_is_the_shift(real):
    assert wasserstein(real, real + np.array([0.1, 0.2, 0.0, 0.3])) == pytest.approx(0.15)


def test_correlation_error_of_known_tables():
    line = np.linspace(-1, 1, 50)
    same, opposite = np.column_stack([line, line]), np.column_stack([line, -line])
    assert correlation_error(same, opposite) == pytest.approx(2.0)
    assert correlation_error(same, np.column_stack([line, np.full(50, 0.3)])) == pytest.approx(1.0)
    assert correlation_error(line[:, None], -line[:, None]) == 0.0


def test_explained_of_known_tables(real):
    constant, wrong = np.zeros((10, 4)), real * [1, 1, 1, -1]
    assert explained(real, real, target=3) > 0.99
    assert explained(constant + real.mean(axis=0), real, target=3) == pytest.approx(0.0)
    assert explained(wrong, real, target=3) < -2


def test_training_on_real_rows_is_tested_on_other_rows():
    noise = np.random.default_rng(4).uniform(-1, 1, (60, 40))
    assert explained(noise, noise, target=0) > 0.5
    assert explained_by_real(noise, target=0) < 0


def test_polynomials_have_degree_three_and_at_most_height_one():
    rng = np.random.default_rng(6)
    line = np.linspace(-1, 1, 9)[:, None] * rng.uniform(-1, 1, 5)
    degrees = set()
    for _ in range(50):
        values = metrics._polynomial(rng, 5)(line)
        assert np.abs(values).max() <= 1
        differences = [np.abs(np.diff(values, k)).max() for k in range(1, 5)]
        assert differences[3] < 1e-12
        degrees.add(max(k for k in (1, 2, 3) if differences[k - 1] > 1e-12))
    assert 3 in degrees


def test_narrow_queries_read_one_to_three_columns():
    rng = np.random.default_rng(8)
    seen = set()
    for _ in range(100):
        query = metrics._narrow(rng, 6)
        base = query(np.zeros((1, 6)))
        seen.add(sum(query(np.eye(6)[i : i + 1])[0] != base[0] for i in range(6)))
    assert seen == {1, 2, 3}
