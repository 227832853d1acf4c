import itertools
import math

import numpy as np
import pytest

from smoothsynth.errors import PlanError
from smoothsynth.queries.bases import Feature, chebyshev, evaluate, lowest, pooled, tensor, term_feature, total_degree


def test_the_order_never_changes():
    terms = [f.terms[0] for f in lowest(9, 3)]
    assert terms == [
        ((0, 1),), ((1, 1),), ((2, 1),),
        ((0, 2),), ((0, 1), (1, 1)), ((0, 1), (2, 1)), ((1, 2),), ((1, 1), (2, 1)), ((2, 2),),
    ]  # fmt: skip


@pytest.mark.parametrize(("degree", "dimensions"), [(1, 4), (2, 3), (3, 3), (4, 2)])
def test_total_degree_is_complete(degree, dimensions):
    features = total_degree(degree, dimensions)
    assert len(set(features)) == len(features) == math.comb(degree + dimensions, degree) - 1
    assert {f.degree for f in features} == set(range(1, degree + 1))


def test_the_tensor_is_complete_and_graded():
    features = tensor(3, 3)
    assert len(set(features)) == 26
    degrees = [f.degree for f in features]
    assert degrees == sorted(degrees)
    assert max(k for f in features for _, k in f.terms[0]) == 2
    assert features[:9] == lowest(9, 3)


def test_values_are_products_of_cosines():
    rng = np.random.default_rng(1)
    points = rng.uniform(-1, 1, (50, 3))
    features = total_degree(5, 3)
    expected = np.ones((50, len(features)))
    for column, feature in enumerate(features):
        for coordinate, degree in feature.terms[0]:
            expected[:, column] *= np.cos(degree * np.arccos(points[:, coordinate]))
    np.testing.assert_allclose(evaluate(features, points), expected, atol=1e-12)


def test_the_recurrence_is_right_at_the_bounds():
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=2)))
    table = chebyshev(corners, 12)
    for degree in range(13):
        np.testing.assert_array_equal(table[degree], corners.T**degree)


def test_a_pooled_feature_is_a_mean():
    points = np.array([[0.5, -1.0, 0.0]])
    assert evaluate([pooled(2, range(3))], points)[0, 0] == pytest.approx((-0.5 + 1.0 - 1.0) / 3)
    assert pooled(2, range(3)).pooled
    assert not term_feature((0, 2)).pooled


def test_labels_are_readable():
    assert term_feature((0, 1), (1, 2)).label(["age", "bmi"]) == "age*T2(bmi)"
    assert pooled(2, range(2)).label(["age", "bmi"]) == "mean of 2 terms like T2(age)"


@pytest.mark.parametrize("terms", [(), ((),), (((1, 1), (0, 1)),), (((0, 1), (0, 1)),), (((0, 0),),)])
def test_a_feature_that_is_none_is_refused(terms):
    with pytest.raises(PlanError):
        Feature(terms)


def test_too_many_features_are_refused():
    with pytest.raises(PlanError, match="lower degree"):
        total_degree(5, 500)
    with pytest.raises(PlanError, match="lower degree"):
        tensor(10, 10)
    with pytest.raises(PlanError):
        tensor(0, 3)
    with pytest.raises(PlanError):
        lowest(0, 3)
