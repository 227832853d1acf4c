"""method="minimax": sensitivity that is reached, degrees that balance, whole releases, and what is refused."""

import itertools
import math
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.accounting.charges import Budget
from smoothsynth.cli.main import app
from smoothsynth.errors import PlanError
from smoothsynth.fit.grid import fit_grid_least_squares
from smoothsynth.methods.minimax import Weighting, index_norms
from smoothsynth.methods.options import facts_of, from_facts
from smoothsynth.model.synthesis import _along_a_curve
from smoothsynth.queries.bases import CosineGrid, evaluate, tensor
from smoothsynth.queries.sensitivity import l1_sensitivity, l2_sensitivity

Minimax = ss.methods.Minimax
BUDGETS = {"delta": {"epsilon": 1.0, "delta": 1e-6}, "pure": {"epsilon": 1.0}}


def schema_of(dimensions):
    return ss.Schema({name: ss.Number(-1, 1) for name in "abc"[:dimensions]})


def rows_of(rows, dimensions):
    drawn = np.random.default_rng(5).beta(2, 5, (rows, dimensions)) * 2 - 1
    drawn[:, -1] = (drawn[:, -1] + drawn[:, 0]) / 2
    return pa.table({name: drawn[:, i] for i, name in enumerate("abc"[:dimensions])})


def weighted(degrees, dimensions, power):
    features = tensor(degrees, dimensions)
    weights = [math.hypot(*(k for _, k in feature.terms[0])) ** -power for feature in features]
    return features, weights


# --- sensitivity


@pytest.mark.parametrize(("degrees", "dimensions"), [(2, 2), (2, 3), (3, 2), (6, 2), (4, 3)])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 4 / 3])
def test_the_sensitivity_of_weighted_tensors_holds_and_is_reached(degrees, dimensions, power):
    features, weights = weighted(degrees, dimensions, power)
    axis = np.cos(np.pi * np.arange(25) / 24)
    points = np.stack(np.meshgrid(*[axis] * dimensions), axis=-1).reshape(-1, dimensions)
    values = evaluate(features, points) * weights
    drawn = np.random.default_rng(3).permutation(len(points))
    moved = np.concatenate([values - values[np.argmax(points.sum(axis=1))], values - values[drawn]])
    l1, l2 = np.abs(moved).sum(axis=1).max(), np.sqrt((moved**2).sum(axis=1).max())
    assert l1 <= l1_sensitivity(features, weights) <= 1.02 * l1
    assert l2 <= l2_sensitivity(features, weights) <= 1.10 * l2


def test_the_bound_in_length_is_attained_at_corners():
    features, weights = weighted(2, 3, 1.0)
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
    values = evaluate(features, corners) * weights
    reached = max(float(np.linalg.norm(values - one, axis=1).max()) for one in values)
    assert l2_sensitivity(features, weights) == pytest.approx(reached, rel=1e-3)


def test_low_moments_have_less_noise():
    for budget, power in ((BUDGETS["delta"], 1.0), (BUDGETS["pure"], 4 / 3)):
        measured = ss.plan(schema_of(2), 20_000, **budget, method="minimax").measurements[0]
        noise = dict(zip(measured.features, measured.deviations(20_000), strict=True))
        line = [noise[feature] for feature in tensor(5, 1)]
        assert line == pytest.approx([line[0] * k**power for k in range(1, 5)], rel=1e-3)


# --- how many degrees


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("dimensions", "order"), [(1, 1), (2, 2), (3, 2)])
def test_bias_and_noise_balance(dimensions, order, delta):
    weighting = Weighting.of(order, 10**4, Budget(1.0, delta))
    degrees = weighting.degrees(dimensions, most=400)
    assert degrees**-order <= weighting.felt(degrees, dimensions)
    assert degrees == 2 or (degrees - 1) ** -order > weighting.felt(degrees - 1, dimensions)
    assert weighting.degrees(dimensions, most=3) == min(3, degrees)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_other_power_of_the_degree_makes_less_noise(delta):
    best = Weighting.of(2, 10**4, Budget(1.0, delta))
    for change in (0.8, 1.25):
        other = Weighting(best.order, best.power * change, best.norm, best.unit)
        assert other.felt(12, 2) > best.felt(12, 2)


def test_more_rows_measure_more_and_no_more_than_can_be_held():
    counts = [
        len(ss.plan(schema_of(3), n, epsilon=1.0, method="minimax").measurements[0].features) for n in (10**3, 10**5)
    ]
    assert counts[0] < counts[1] < 5_000
    most = ss.plan(schema_of(3), 10**8, epsilon=1.0, delta=1e-10, method="minimax").measurements[0]
    assert len(most.features) == 17**3 - 1


# --- the fit and the rows


def test_the_fit_says_how_far_it_is_from_the_noisy_moments():
    grid = CosineGrid(6, 36, 1)
    true = grid.moments(np.eye(36)[10])
    noise, felt = np.full(6, 0.01), index_norms(6, 1) ** -4.0
    near = fit_grid_least_squares(true, noise=noise, felt=felt, grid=grid)
    far = fit_grid_least_squares(true + 3.0, noise=noise, felt=felt, grid=grid)
    assert near.converged
    assert near.residual < 0.5
    assert "Solved in" in near.outcome
    assert not far.converged
    assert f"{far.residual:.3g} times as far" in far.outcome


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_cubes_of_nodes_are_runs_of_the_curve(dimensions):
    curve = _along_a_curve(12, dimensions)
    assert sorted(curve) == list(range(12**dimensions))
    places = np.stack(np.unravel_index(curve, (12,) * dimensions), axis=1)
    for side in (2, 4):
        cubes = [tuple(one) for one in places // side]
        changes = sum(a != b for a, b in itertools.pairwise(cubes))
        assert changes == len(set(cubes)) - 1


# --- whole releases


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_a_release_end_to_end(dimensions, budget, tmp_path):
    data, settings = rows_of(4_000, dimensions), {"schema": schema_of(dimensions), **BUDGETS[budget]}
    made = ss.release(data, method="minimax", seed=1, **settings)
    made.write(tmp_path / "release")
    checked = ss.verify(tmp_path / "release")
    assert checked.passed, str(checked)
    assert {check.outcome for check in checked.checks} <= {"passed", "note"}
    loaded = ss.load(tmp_path / "release")
    assert loaded.receipt.method == "minimax"
    assert loaded.receipt.spent.epsilon <= 1.0
    assert loaded.receipt.fit == "least squares"
    for name in data.column_names:
        estimate = loaded.mean(name)
        assert abs(estimate.value - np.mean(data[name])) < 0.05
        assert estimate.low <= estimate.value <= estimate.high


def test_the_columns_hang_together():
    data = rows_of(30_000, 2)
    made = ss.release(data, schema=schema_of(2), method="minimax", seed=1, **BUDGETS["delta"]).to_arrow()
    true, found = (np.corrcoef(table["a"], table["b"])[0, 1] for table in (data, made))
    assert found == pytest.approx(true, abs=0.03)


def test_the_error_fades_faster_than_the_square_root():
    def error(rows):
        x = np.concatenate([np.full(rows // 2, 0.31), np.linspace(-1, 0, rows - rows // 2)])
        made = ss.release(pa.table({"a": x}), schema=schema_of(1), method="minimax", **BUDGETS["delta"])
        return abs(np.mean(np.exp(made.unit_rows())) - np.mean(np.exp(x)))

    few, many = (np.mean([error(rows) for _ in range(6)]) for rows in (500, 50_000))
    assert many < few / 20


def test_whole_numbers_stay_whole():
    schema = ss.Schema({"a": ss.Integer(0, 10), "b": ss.Number(0, 1)})
    data = pa.table({"a": np.arange(3_000) % 11, "b": np.linspace(0, 1, 3_000)})
    made = ss.release(data, schema=schema, method="minimax", **BUDGETS["delta"]).to_arrow()
    assert pa.types.is_integer(made["a"].type)


def test_kept_sums_are_released_again_with_new_rows(tmp_path):
    key, data = tmp_path / "owner.key", rows_of(2_000, 2)
    ss.federated.make_key(key)
    settings = {"schema": schema_of(2), "keep": tmp_path / "sums", "key": key, "method": "minimax"}
    ss.release(data[:1_500], **settings, **BUDGETS["delta"])
    again = ss.update(tmp_path / "sums", data[1_500:], key=key, **BUDGETS["delta"])
    again.write(tmp_path / "again")
    assert ss.verify(tmp_path / "again").passed
    assert (again.receipt.rows, again.receipt.fit) == (2_000, "least squares")


def test_sites_can_release_together(tmp_path):
    keys = {name: tmp_path / f"{name}.key" for name in ("centre", "north")}
    public = {name: ss.federated.make_key(path) for name, path in keys.items()}
    sites = {"north": ss.federated.Site(1_000, public["north"])}
    ss.federated.start(
        tmp_path / "study", schema=schema_of(2), sites=sites, key=keys["centre"], method="minimax", **BUDGETS["delta"]
    )


def test_plan_and_options():
    planned = ss.plan(schema_of(2), 5_000, **BUDGETS["delta"], method=Minimax(smoothness=3, noise="pure"))
    assert planned.measurements[0].mechanism == "discrete laplace"
    assert planned.dependence
    assert re.search(r"weighed by least squares.*Method: minimax", str(planned).replace("\n", " "))
    method = Minimax(smoothness=3)
    assert from_facts(facts_of(method)) == (method, {})


def test_the_command_line(tmp_path):
    schema, data = tmp_path / "schema.toml", tmp_path / "rows.parquet"
    schema.write_text(schema_of(2).to_toml(), encoding="utf-8")
    pq.write_table(rows_of(500, 2), data)
    flags = ["-s", str(schema), "-e", "1", "--method", "minimax", "--smoothness", "3"]
    done = CliRunner().invoke(app, ["release", str(data), *flags, "-o", str(tmp_path / "made"), "--quiet"])
    assert done.exit_code == 0, done.output
    assert ss.load(tmp_path / "made").receipt.method == "minimax"


# --- what is refused


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (ss.Schema({name: ss.Number(0, 1) for name in "abcd"}), "at most 3 columns; the schema has 4"),
        (ss.Schema({"a": ss.Number(0, 1), "b": ss.Category(["x", "y"])}), "columns of numbers"),
        (ss.Schema({"a": ss.Number(0, 1, nullable=True)}), "without missing values"),
        (ss.Schema({"a": ss.Number(0, 1), "b": ss.Number(0, 1)}, ["a <= b"]), "cannot keep constraints"),
        (ss.Schema({"a": ss.Number("private", "private")}), "needs public bounds"),
    ],
)
def test_what_the_theorem_does_not_cover_is_refused(schema, words):
    with pytest.raises(PlanError, match=words) as refused:
        ss.plan(schema, 1_000, epsilon=1.0, method="minimax")
    assert "method='auto'" in str(refused.value)


@pytest.mark.parametrize("options", [{"smoothness": 0}, {"smoothness": 17}, {"noise": "loud"}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(PlanError, match="must be"):
        Minimax(**options)


def test_gaussian_noise_needs_a_delta():
    with pytest.raises(PlanError, match="needs a delta"):
        ss.plan(schema_of(1), 1_000, epsilon=1.0, method=Minimax(noise="gaussian"))
