"""The measured rates: every part against an independent calculation, and the gain that the study must show."""

import csv
import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from smoothsynth.accounting.charges import gaussian_multiplier
from smoothsynth.errors import PlanError
from smoothsynth.fit.grid import fit_on_simplex, onto_simplex
from smoothsynth.methods.minimax import Weighting, index_norms
from smoothsynth.paper.rates import QUICK, RatePoint, Study, measure_rates, measure_releases, run_rates
from smoothsynth.paper.rates_data import draw_table, fit_slope, slope_of
from smoothsynth.paper.rates_mechanisms import (
    BUDGET,
    SplineNorm,
    contenders,
    degree_weighted_noise,
    equal_noise,
    equal_noise_exponent,
    equal_spread,
    smooth_distance,
)
from smoothsynth.queries.bases import CosineGrid, evaluate, good_length, tensor
from smoothsynth.queries.sensitivity import l1_sensitivity, spread

OURS, PAPER = "degree-weighted noise", "Algorithm 1"


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture(scope="module")
def report():
    return measure_rates(Study({1: (1,), 2: (2,)}, (2.5, 3, 3.5, 4, 4.5), rounds=2))


# --- slopes


@pytest.mark.parametrize("exponent", [0.2, 1 / 3, 1.0])
def test_a_power_law_has_its_exponent_as_slope(exponent):
    rows = np.logspace(2, 6, 9)
    slope, error = fit_slope(rows, 3.0 * rows**-exponent)
    assert slope == pytest.approx(exponent, abs=1e-12)
    assert error == pytest.approx(0.0, abs=1e-7)


def test_the_standard_error_is_that_of_least_squares(rng):
    from scipy.stats import linregress

    rows = np.logspace(2, 6, 9)
    errors = rows**-0.5 * np.exp(0.2 * rng.standard_normal(9))
    expected = linregress(np.log(rows), np.log(errors))
    assert fit_slope(rows, errors) == pytest.approx((-expected.slope, expected.stderr))


def test_two_sizes_have_no_slope():
    assert all(math.isnan(value) for value in fit_slope([100, 1000], [0.1, 0.01]))


def point(rows, error):
    return RatePoint(
        1, 1, OURS, rows, degrees=4, nodes=8, rounds=1, error=error, deviation=0.0, without_data=1.0, seconds=0
    )


def test_saturated_sizes_are_left_out():
    flat = [point(100, 0.99), point(316, 0.98)]
    falling = [point(n, 100.0 / n) for n in (1000, 10_000, 100_000)]
    line = slope_of([*flat, *falling], budget="", measure="", theory=1.0)
    assert (line.slope, line.sizes, line.smallest) == (pytest.approx(1.0), 3, 1000)


# --- the dual norm


def test_order_one_is_the_wasserstein_distance(rng):
    from scipy.stats import wasserstein_distance

    for n, m in [(1, 1), (7, 3), (300, 40)]:
        x, y, weights = rng.uniform(-1, 1, n), rng.uniform(-1, 1, m), rng.dirichlet(np.ones(m))
        found = smooth_distance(np.append(x, y), np.append(np.full(n, 1 / n), -weights), order=1)
        assert found == pytest.approx(wasserstein_distance(x, y, None, weights), rel=1e-9)


@pytest.mark.parametrize(("order", "expected"), [(1, 0.5), (2, 0.125), (3, 0.125 + 0.125 / 6)])
def test_a_split_point(order, expected):
    # Half the mass at each of -1/2, 1/2 against all of it at 0: by hand from the definition.
    points, masses = np.array([-0.5, 0.0, 0.5]), np.array([0.5, -1.0, 0.5])
    assert smooth_distance(points, masses, order=order) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_no_query_of_the_class_exceeds_the_distance_and_the_best_nearly_reaches_it(order, rng):
    from scipy.optimize import linprog

    points = np.linspace(-1, 1, 61)
    masses = rng.dirichlet(np.full(61, 0.3)) - rng.dirichlet(np.full(61, 0.3))
    # The query by its values; its derivatives are differences, all bounded by 1.
    rows = [np.eye(61)]
    for _ in range(order):
        rows.append(np.diff(rows[-1], axis=0) / (points[1] - points[0]))
    bounds = np.vstack(rows)
    best = -linprog(-masses, A_ub=np.vstack([bounds, -bounds]), b_ub=np.ones(2 * len(bounds)), bounds=(None, None)).fun
    found = smooth_distance(points, masses, order=order)
    assert found >= best * (1 - 0.05)
    assert found <= order * best * (1 + 0.05)


def test_masses_must_balance():
    with pytest.raises(PlanError, match="sum to 0"):
        smooth_distance(np.array([0.0]), np.array([1.0]), order=1)


@pytest.mark.parametrize(("order", "dimensions"), [(1, 1), (2, 2), (3, 2), (1, 3)])
def test_splines_are_those_of_scipy(order, dimensions, rng):
    from scipy.interpolate import BSpline

    points, levels = rng.uniform(-1, 1, (20, dimensions)), 2
    points[0] = 1.0 - 1e-12
    knots = np.arange(-order, 2**levels + order + 1) * 2.0 / 2**levels - 1.0
    design = [BSpline.design_matrix(points[:, i], knots, order).toarray() for i in range(dimensions)]
    letters = "abc"[:dimensions]
    expected = np.einsum(",".join("n" + a for a in letters) + "->" + letters, *design) / 20
    np.testing.assert_allclose(SplineNorm(order, levels).of_rows(points), expected, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_coarse_splines_come_from_fine_ones(order, rng):
    # The norm cut at level 0 and 1 by hand, each scale from the rows themselves.
    points = rng.uniform(-1, 1, (50, 2))
    other = rng.uniform(-1, 1, (50, 2))
    scales = [SplineNorm(order, level) for level in (0, 1, 2)]
    differences = [norm.of_rows(points) - norm.of_rows(other) for norm in scales]
    expected = sum(2.0 ** (-level * order) * np.abs(d).sum() for level, d in enumerate(differences))
    assert scales[2](differences[2]) == pytest.approx(expected)


def test_a_grid_is_also_a_table(rng):
    axis = np.array([-0.9, -0.2, 0.3, 1.0])
    counts = rng.integers(0, 5, (4, 4))
    rows = np.array([(axis[i], axis[j]) for i in range(4) for j in range(4) for _ in range(counts[i, j])])
    norm = SplineNorm(2, 3)
    np.testing.assert_allclose(norm.of_rows(rows), norm.of_grid(counts / counts.sum(), axis), atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_in_one_dimension_the_two_norms_agree_up_to_constants(order, rng):
    norm = SplineNorm(order, 8)
    for width in (0.5, 0.1, 0.02):
        x = rng.uniform(-1 + width, 1 - width, 400)
        y = x + rng.uniform(-width, width, 400)
        by_splines = norm(norm.of_rows(x[:, None]) - norm.of_rows(y[:, None]))
        masses = np.repeat([1 / 400, -1 / 400], 400)
        assert 0.5 <= by_splines / smooth_distance(np.append(x, y), masses, order=order) <= 10


# --- the transform and the fit


@pytest.mark.parametrize(
    ("degrees", "nodes", "dimensions"), [(5, 12, 1), (4, 9, 2), (3, 6, 3), (7, 1500, 1), (9, 1501, 1)]
)
def test_moments_on_the_grid(degrees, nodes, dimensions, rng):
    grid = CosineGrid(degrees, nodes, dimensions)
    weights = rng.dirichlet(np.ones(nodes**dimensions)).reshape((nodes,) * dimensions)
    values = rng.standard_normal((degrees,) * dimensions)
    axis = np.cos(np.outer(np.arange(degrees), np.arccos(grid.axis)))
    letters = "abc"[:dimensions], "xyz"[:dimensions]
    pairs = ",".join(r + j for r, j in zip(*letters, strict=True))
    direct = np.einsum(f"{letters[1]},{pairs}->{letters[0]}", weights, *[axis] * dimensions)
    np.testing.assert_allclose(grid.moments(weights), direct, atol=1e-10)
    assert np.vdot(grid.transpose(values), weights) == pytest.approx(np.vdot(values, direct))
    np.testing.assert_allclose(grid.moments(grid.transpose(values)), grid.lengths * values, atol=1e-8)


def test_a_grid_must_be_fine_enough():
    with pytest.raises(PlanError, match="two nodes per degree"):
        CosineGrid(5, 9, 1)


def test_good_lengths():
    assert [good_length(n) for n in (1, 7, 11, 77, 774)] == [2, 8, 12, 80, 800]


def test_the_nearest_point_of_the_simplex(rng):
    for scale in (0.01, 1.0, 100.0):
        point = scale * rng.standard_normal(50)
        weights, level = onto_simplex(point)
        assert weights.sum() == pytest.approx(1.0)
        # The conditions of optimality: what is positive lies at one height above the point, the rest not below 0.
        np.testing.assert_allclose((point - weights)[weights > 0], level, atol=1e-9 * scale)
        assert (point[weights == 0] <= level + 1e-9 * scale).all()
        np.testing.assert_allclose(onto_simplex(point, level + scale)[0], weights, atol=1e-9 * scale)


@pytest.mark.parametrize("noise", [0.001, 0.1])
def test_the_fit_is_the_constrained_least_squares(noise, rng):
    from scipy.optimize import nnls

    grid = CosineGrid(5, 16, 2)
    truth = rng.dirichlet(np.full(256, 0.05)).reshape(16, 16)
    target = grid.moments(truth) + noise * rng.standard_normal((5, 5))
    importance = index_norms(5, 2) ** -1.0
    axis = np.cos(np.outer(np.arange(5), np.arccos(grid.axis)))
    matrix = np.einsum("ax,by->abxy", axis, axis).reshape(25, 256)
    roots = np.sqrt(importance.ravel())
    heavy = 1e4
    stacked = np.vstack([(roots[:, None] * matrix)[1:], np.full((1, 256), heavy)])
    best, _ = nnls(stacked, np.append((roots * target.ravel())[1:], heavy))

    def misfit(weights):
        return (importance.ravel() * (matrix @ weights.ravel() - target.ravel()) ** 2)[1:].sum()

    found = fit_on_simplex(target, importance, grid=grid)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1.0)
    assert misfit(found) <= 1.1 * misfit(best) + 1e-3 * noise**2


# --- noise at a true budget


def moves(degrees, dimensions, rng, pairs=20_000):
    """Return how two rows differ in every moment: random rows, corners and their midpoints."""
    choices = np.concatenate(
        [rng.uniform(-1, 1, (pairs, dimensions)), rng.choice([-1.0, 0.0, 0.5, 1.0], (pairs, dimensions))]
    )
    features = tensor(degrees, dimensions)
    other = rng.permutation(choices)
    other[: pairs // 2] = 1.0
    return evaluate(features, choices) - evaluate(features, other), features


def array_of(features, tensor_values):
    dimensions = tensor_values.ndim
    found = []
    for feature in features:
        degrees = dict(feature.terms[0])
        found.append(tensor_values[tuple(degrees.get(i, 0) for i in range(dimensions))])
    return np.array(found)


@pytest.mark.parametrize("degrees", [2, 3, 8])
def test_one_column_is_the_exact_sensitivity(degrees):
    exact = l1_sensitivity(tensor(degrees, 1), [1.0] * (degrees - 1))
    weights = np.ones(degrees)
    weights[0] = 0.0
    assert equal_spread(degrees, 1) == exact
    assert exact * (1 - 1e-9) <= spread(weights) <= 1.15 * exact


@pytest.mark.parametrize(("degrees", "dimensions"), [(3, 2), (5, 2), (3, 3)])
def test_the_l1_sensitivity_holds_and_is_reached(degrees, dimensions, rng):
    change, _ = moves(degrees, dimensions, rng)
    largest = np.abs(change).sum(axis=1).max()
    assert 0.93 * equal_spread(degrees, dimensions) <= largest <= equal_spread(degrees, dimensions)


@pytest.mark.parametrize("make", [equal_noise, degree_weighted_noise])
@pytest.mark.parametrize(
    ("dimensions", "order", "rows"), [(1, 1, 500), (1, 3, 5000), (2, 1, 300), (2, 2, 2000), (3, 2, 3000)]
)
def test_one_row_moves_the_moments_by_no_more_than_the_budget_allows(make, dimensions, order, rows, rng):
    noise, multiplier = make(rows, dimensions, order=order), gaussian_multiplier(1.0, 1e-6)
    change, features = moves(noise.degrees, dimensions, rng)
    deviations = array_of(features, noise.deviations)
    largest = np.sqrt((((change / rows) / deviations) ** 2).sum(axis=1)).max()
    # In units of the noise one row may move everything by 1/multiplier; the bound is not loose by more than a third.
    assert 0.66 / multiplier <= largest <= 1.0 / multiplier


def test_noise_grows_with_the_degree_and_degrees_with_the_rows():
    small, large = (degree_weighted_noise(n, 1, order=2) for n in (10**3, 10**5))
    assert large.degrees > small.degrees
    assert large.deviations[4] / large.deviations[1] == pytest.approx(4.0)
    assert large.deviations[0] == 0.0


@pytest.mark.parametrize(("dimensions", "order", "expected"), [(1, 1, 0.84), (2, 2, 0.89), (3, 3, 0.91)])
def test_the_logarithm_of_the_theorem_is_seen_at_these_sizes(dimensions, order, expected):
    # docs/rates.md quotes these: the slope of the predicted error itself, between 10^2 and 10^6 rows.
    sizes = [round(10**power) for power in np.arange(2, 6.1, 0.5)]
    errors = []
    for rows in sizes:
        degrees = degree_weighted_noise(rows, dimensions, order=order).degrees
        errors.append(Weighting.of(order, rows, BUDGET).felt(degrees, dimensions))
    assert fit_slope(sizes, errors)[0] == pytest.approx(expected, abs=0.006)


@pytest.mark.parametrize(
    ("d", "K", "expected"), [(1, 1, 2 / 3), (2, 1, 1 / 2), (2, 2, 2 / 3), (3, 1, 1 / 3), (3, 3, 2 / 3)]
)
def test_the_exponent_of_equal_noise(d, K, expected):
    assert equal_noise_exponent(d, K) == pytest.approx(expected)


# --- the table


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_moments_of_the_table(dimensions, rng):
    table = draw_table(5000, dimensions, generator=rng)
    moments = table.moments(4)
    features = tensor(4, dimensions)
    np.testing.assert_allclose(array_of(features, moments), evaluate(features, table.points).mean(axis=0), atol=1e-9)
    assert moments.flat[0] == pytest.approx(1.0)


def test_the_table_is_rough_at_every_scale(rng):
    moments = draw_table(100_000, 1, generator=rng).moments(3**8 + 1)
    angle = math.pi * (int(0.3819660113 * 2**20) + 0.5) / 2**20
    for degree in (3**5, 3**6, 3**7, 3**8):
        # 4/5 of the rows follow the singular law, and 1/5 of that is the Riesz product whose moments there are 1/2.
        singular = moments[degree] - 0.1 - 0.1 * math.cos(degree * angle)
        assert singular == pytest.approx(0.8 * 0.2 * 0.5, abs=0.02)


# --- the study


def test_degree_weighted_noise_is_steeper_than_algorithm_1(report):
    assert {(d, K): gain - 3 * error > 0.1 for d, K, gain, error in report.gains()} == {(1, 1): True, (2, 2): True}


def test_slopes_come_near_the_theory(report):
    assert report.slope(1, 1, PAPER).slope == pytest.approx(1 / 3, abs=0.1)
    assert report.slope(2, 2, PAPER).slope == pytest.approx(1 / 3, abs=0.1)
    assert 0.7 <= report.slope(1, 1, OURS).slope <= 1.05
    assert 0.7 <= report.slope(2, 2, OURS).slope <= 1.05


def test_the_table_has_every_mechanism_and_says_how_it_was_measured(report):
    assert [line.mechanism for line in report.table] == 2 * [contender.name for contender in contenders()]
    text = report.text()
    assert "Wasserstein-1" in text
    assert "dual norm of splines" in text
    assert "protects nobody" in text


def test_files(report, tmp_path):
    points, slopes, plot = report.write(tmp_path / "new")
    with points.open() as stream:
        lines = list(csv.DictReader(stream))
    assert len(lines) == len(report.points)
    assert float(lines[0]["error"]) == report.points[0].error
    assert slopes.read_text().count("\n") == len(report.table) + 1
    drawn = ElementTree.fromstring(plot.read_text())  # noqa: S314
    assert len(drawn.findall("{*}polyline")) == len(report.table)
    assert "http" not in plot.read_text().replace("http://www.w3.org/2000/svg", "")


def test_the_same_study_gives_the_same_figures():
    study = Study({1: (2,)}, (2, 2.5), rounds=1)
    first, second = (measure_rates(study) for _ in range(2))
    assert [p.error for p in first.points] == [p.error for p in second.points]
    assert all(math.isnan(line.slope) for line in first.table)
    assert "saturated, or has too few sizes" in first.text()


def test_progress_is_told():
    seen = []
    measure_rates(
        Study({1: (1,)}, (2, 2.5), rounds=1), progress=lambda done, total, what: seen.append((done, total, what))
    )
    assert seen == [(0, 2, "100 rows, 1 columns"), (1, 2, "316 rows, 1 columns"), (2, 2, "fitted slopes")]


@pytest.mark.slow
def test_the_quick_run_shows_the_gain_in_every_case(tmp_path):
    report = run_rates(quick=True, output=tmp_path)
    gains = {(d, K): gain for d, K, gain, _ in report.gains() if not math.isnan(gain)}
    assert {(1, 1), (2, 2)} <= set(gains)
    assert min(gains.values()) > 0.1
    assert {path.name for path in tmp_path.iterdir()} == {"rates.csv", "slopes.csv", "rates.svg"}
    assert set(QUICK.orders) == {1, 2, 3}


def test_whole_releases_are_measured_in_the_same_way(tmp_path):
    report = measure_releases(Study({1: (2,), 2: (2,)}, (2.5, 3, 3.5), rounds=1))
    assert {line.mechanism for line in report.table} == {"auto", "minimax", "minimax, pure"}
    assert math.isnan(report.slope(1, 2, "auto").theory)
    assert report.slope(2, 2, "minimax, pure").theory == pytest.approx(2 / 3)
    assert report.slope(1, 2, "minimax").slope > 0.3
    assert "Algorithm 1" not in report.text()
    assert "nan" not in report.write(tmp_path)[-1].read_text(encoding="utf-8")
