"""The printed parameters against the printed formulas, worked by hand, and the tables against each other."""

import math

import pytest

from smoothsynth.errors import PlanError
from smoothsynth.paper import printed
from smoothsynth.paper.printed import (
    DATA_SETS,
    TABLES,
    basis_count,
    moment_noise_scale,
    parameters,
    printed_table,
    subspace_noise_scale,
)


def test_theorem_1_on_a_perfect_power():
    # n = 2^12, d = 2, K = 2: s = 6, so n^(1/s) = 4 and every power is whole.
    p = parameters(4096, 2, order=2, epsilon=0.5)
    assert (p.degrees, p.levels, p.lattice, p.rows) == (4, 16, 256, 4**9)
    assert p.laplace_scale == pytest.approx(16 / (4096 * 0.5))
    assert p.privacy == "not private as printed"


def test_theorem_2_against_the_printed_exponents():
    n, d, K, delta = 5000, 3, 4, 1e-6
    log, s = math.log(1e6), 3 * d + 2 * K
    p = parameters(n, d, order=K, epsilon=2.0, delta=delta)
    assert p.degrees == math.ceil(n ** (2 / s) * log ** (-1 / s))
    assert p.levels == math.ceil(n ** (2 * K / s) * log ** (-K / s))
    assert p.rows == math.ceil(n ** ((4 * d + 4 * K + 2) / s) * log ** (-(2 * d + 2 * K + 1) / s))
    assert p.lattice == math.ceil(n ** ((2 * d + 2 * K) / s) * log ** (-(d + K) / s))
    assert p.laplace_scale == pytest.approx(math.sqrt(p.degrees**d * log) / (n * 2.0))


def test_basis_count_for_the_paper_data_sets():
    # 0.5 * 569^(30/64) = 9.78 and 0.5 * 569^(30/160) = 1.64
    assert basis_count(569, 30, sigma=2) == 10
    assert basis_count(569, 30, sigma=2, rounding="floor") == 9
    assert basis_count(569, 30, sigma=10) == 2
    assert basis_count(569, 30, sigma=10, rounding="floor") == 1
    # 0.5 * 20000^(80/128) = 243.9
    assert basis_count(20000, 40, sigma=2, delta=1e-10) == 244


def test_noise_scales():
    assert moment_noise_scale(10, 569, epsilon=1) == pytest.approx(10 / 569)
    assert moment_noise_scale(9, 100, epsilon=2, delta=math.exp(-4)) == pytest.approx(6 / 200)
    assert subspace_noise_scale(1000, 4, rank=2, iterations=3, epsilon=1) == pytest.approx(2.4)
    gaussian = subspace_noise_scale(1000, 4, rank=2, iterations=2, epsilon=1, delta=math.exp(-4))
    assert gaussian == pytest.approx(0.16)


@pytest.mark.parametrize(
    "wrong", [{"rows": 0}, {"dimensions": 0}, {"order": 0}, {"epsilon": 0.0}, {"delta": 1.0}, {"delta": -0.1}]
)
def test_impossible_parameters_are_refused(wrong):
    given = {"rows": 10, "dimensions": 1, "order": 1, "epsilon": 1.0, "delta": 0.0} | wrong
    with pytest.raises(PlanError):
        parameters(given.pop("rows"), given.pop("dimensions"), **given)


def test_tables_cover_all_data_sets_and_widths():
    names = {data.name for data in DATA_SETS}
    assert len(TABLES) == 4
    for table in TABLES:
        assert set(table.results) == names
        assert table.privacy == printed.NOT_PRIVATE
        for result in table.results.values():
            assert tuple(result.absolute) == tuple(result.relative) == printed.SIGMAS
            assert result.privacy == printed.NOT_PRIVATE


def test_relative_errors_exceed_absolute_ones():
    # With weights that sum to 1 every answer is at most 1: a pair the other way round is a slip of the pen.
    for table in TABLES:
        for result in table.results.values():
            assert all(result.relative[s] >= result.absolute[s] for s in printed.SIGMAS)


def test_cells_of_the_printed_tables():
    assert printed_table("ellipsoid", delta=0.0).results["WDBC"].relative[4] == 0.110
    assert printed_table("ellipsoid", delta=1e-10).results["PKS"].absolute[2] == 0.015
    assert printed_table("hypercube", delta=0.0).results["PAM"].relative[10] == 0.047
    assert printed_table("hypercube", delta=1e-10).results["CRM"].seconds == 14.5
