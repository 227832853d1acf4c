import math

import numpy as np
import pytest
from scipy.stats import dlaplace

from smoothsynth.audit import mechanisms
from smoothsynth.audit import neighbours as likelihood
from smoothsynth.audit.neighbours import pair, worst_pair
from smoothsynth.methods.paper import on_lattice, orthonormal
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.measure import _exact_product
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import pooled, tensor, total_degree
from smoothsynth.queries.families import ClippedSecondMoments
from smoothsynth.queries.measurement import Measurement, charge_for, coarse_sums
from smoothsynth.queries.transformation import Transformation, knot_places

HERE, THERE = np.array([3.0, -2.0]), np.array([5.0, 4.0])
RELEASED = np.array([[4.0, 0.0], [0.0, 0.0], [9.0, 9.0], [-7.0, 3.0]])


def charge(mechanism, **cost):
    return charge_for("x", mechanism, sensitivity=8, coordinates=2, **{"epsilon": None, "multiplier": None, **cost})


def test_laplace_losses_are_differences_of_log_probabilities():
    one = charge("discrete laplace", epsilon=2.0)
    expected = (dlaplace.logpmf(RELEASED - HERE, 1 / 4) - dlaplace.logpmf(RELEASED - THERE, 1 / 4)).sum(axis=1)
    assert likelihood.losses(RELEASED, HERE, THERE, charge=one) == pytest.approx(expected)
    assert likelihood.distance(HERE, THERE, charge=one) == pytest.approx((2 + 6) / 4)


def test_cube_and_gaussian_losses():
    cube = charge("cube", epsilon=2.0)
    # Of (9, 9), the cube around (5, 4) has half-width 5, that around (3, -2) has 11.
    assert likelihood.losses(RELEASED, HERE, THERE, charge=cube)[2] == pytest.approx((5 - 11) / 4)
    assert likelihood.distance(HERE, THERE, charge=cube) == pytest.approx(6 / 4)
    gaussian = charge("discrete gaussian", multiplier=1.0)
    squares = ((RELEASED - THERE) ** 2).sum(axis=1) - ((RELEASED - HERE) ** 2).sum(axis=1)
    assert likelihood.losses(RELEASED, HERE, THERE, charge=gaussian) == pytest.approx(squares / (2 * gaussian.scale**2))
    assert likelihood.distance(HERE, THERE, charge=gaussian) == pytest.approx(math.sqrt(40) / gaussian.scale)


@pytest.mark.parametrize(
    ("features", "transformation"),
    [
        (total_degree(2, 2), None),
        (tensor(3, 2), None),
        ((pooled(2, range(2)),), None),
        (
            total_degree(2, 2),
            Transformation.from_values(np.tile(np.sin(knot_places()), (2, 1)), ClippedSecondMoments(0.7)),
        ),
    ],
)
def test_the_sums_are_those_that_the_engine_finds(features, transformation):
    tables = pair((1.0, math.nan), (-0.3, 1e9))
    measurement = Measurement("x", features, "discrete gaussian", multiplier=1.0, transformation=transformation)
    for side in (0, 1):
        table = open_table(tables.arrow(side), tables.schema)
        exact = coarse_sums(LocalEngine().sums(table, features, transformation=transformation).unseal(), measurement)
        # A unit of the lattice for each row and factor, of 65536.
        assert likelihood.sums(measurement, tables.unit(side)) == pytest.approx(exact, abs=8.0)


def test_the_product_is_that_of_the_engine():
    tables = pair((1.0, -0.4), (-0.3, 0.8), rows=9)
    directions = orthonormal(np.array([[1.0, 2.0], [0.5, -3.0]]))
    table = open_table(tables.arrow(0), tables.schema)
    exact = _exact_product(LocalEngine().sums(table, total_degree(2, 2)).unseal(), on_lattice(directions), 9)
    assert likelihood.product(directions, tables.unit(0)) == pytest.approx(exact, abs=20.0)


@pytest.mark.parametrize("mechanism", ["cube", "discrete laplace", "discrete gaussian"])
def test_the_worst_pair_of_means_reaches_the_claim(mechanism):
    cost = {"multiplier": 2.0} if mechanism == "discrete gaussian" else {"epsilon": 1.5}
    measurement = Measurement("x", mechanisms._means(3), mechanism, **cost)
    tables = worst_pair(measurement, 3)
    centres = [likelihood.sums(measurement, tables.unit(side)) for side in (0, 1)]
    claimed = 0.5 if mechanism == "discrete gaussian" else 1.5
    assert likelihood.distance(*centres, charge=measurement.charge()) == pytest.approx(claimed, rel=1e-4)
    assert all(np.abs(np.subtract(*centres)) % 2 == 1), "the sums must differ in their last bit"
