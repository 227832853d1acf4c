from dataclasses import replace

import numpy as np
import pytest

import smoothsynth as ss
from smoothsynth.accounting.ledger import Ledger
from smoothsynth.methods import paper
from smoothsynth.methods.paper import NoisySubspace, SubspaceMeasurement
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.measure import measure_subspace
from smoothsynth.private.table import open_table

SCHEMA = ss.Schema({name: ss.Number(-1, 1) for name in "abcdef"})


def rows(count=3000, seed=1):
    rng = np.random.default_rng(seed)
    scales = np.array([0.5, 0.3, 0.05, 0.04, 0.03, 0.02])
    turn, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    return np.clip(0.2 + (rng.uniform(-1, 1, (count, 6)) * scales) @ turn.T, -1, 1)


def run(points, measurement, seed=0):
    import pyarrow as pa

    table = open_table(pa.table({n: points[:, i] for i, n in enumerate(SCHEMA.names)}), SCHEMA)
    start = np.random.default_rng(seed).standard_normal((6, measurement.rank))
    ledger = Ledger(ss.Budget(1e5, 0.5))
    return measure_subspace(table, measurement, start=start, engine=LocalEngine(), ledger=ledger), ledger


def test_with_little_noise_it_is_principal_component_analysis():
    points = rows(30_000)
    found, ledger = run(points, SubspaceMeasurement(dimensions=6, rank=2, iterations=8, multiplier=0.05))
    values, vectors = np.linalg.eigh(np.cov(points.T, bias=True))
    top = vectors[:, ::-1][:, :2]
    assert np.linalg.norm(top.T @ found.directions(), -2) == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(found.eigenvalues(), values[::-1][:2], rtol=0.05)
    assert len(ledger.charges) == 8


def test_the_first_product_is_the_exact_one_plus_noise():
    points = rows()
    measurement = SubspaceMeasurement(dimensions=6, rank=3, iterations=1, multiplier=1.0)
    found, ledger = run(points, measurement)
    from smoothsynth.methods.paper import orthonormal

    exact = np.cov(points.T, bias=True) @ orthonormal(found.start)
    noise = ledger.charges[0].deviation / (len(points) * 2**16)
    errors = (found.last_product() - exact) / noise
    assert np.abs(errors).max() < 6
    assert np.std(errors) > 0.4


def product(points, directions):
    import pyarrow as pa

    from smoothsynth.methods.paper import on_lattice
    from smoothsynth.private.measure import _exact_product
    from smoothsynth.private.sealed import SealedSums
    from smoothsynth.queries.bases import total_degree

    table = open_table(pa.table({n: points[:, i] for i, n in enumerate(SCHEMA.names)}), SCHEMA)
    sums = LocalEngine().sums(table, total_degree(2, 6))
    assert isinstance(sums, SealedSums)
    return np.array(_exact_product(sums._totals, on_lattice(directions), len(points)), float)


@pytest.mark.parametrize("kind", ["epsilon", "multiplier"])
@pytest.mark.parametrize("rank", [1, 2, 5])
def test_no_neighbour_moves_the_product_more_than_the_bound(kind, rank):
    """The exact integer products of neighbouring tables, worst corners included."""
    rng = np.random.default_rng(3)
    measurement = SubspaceMeasurement(dimensions=6, rank=rank, iterations=1, **{kind: 1.0})
    largest = 0.0
    for trial in range(40):
        count = int(rng.integers(2, 40))
        points = rng.choice([-1.0, 1.0], size=(count, 6)) if trial % 2 else np.ones((count, 6))
        other = points.copy()
        other[0] = -points[0]
        largest = max(largest, move(points, other, at_one_angle(points[0], rank, rng), kind))
    worst = np.ones((400, 6))
    other = worst.copy()
    other[0] = -1.0
    largest = max(largest, move(worst, other, at_one_angle(worst[0], rank, rng), kind))
    assert largest <= measurement.sensitivity
    # 399/400 of it, but for what is added for the lattice.
    assert largest >= measurement.sensitivity * 0.997


def move(points, other, directions, kind):
    moved = np.abs(product(points, directions) - product(other, directions))
    return moved.sum() if kind == "epsilon" else np.linalg.norm(moved)


def at_one_angle(towards, rank, rng):
    """Directions whose span has one vector, all at the same angle to it."""
    basis = np.linalg.qr(np.column_stack([towards, rng.normal(size=(6, rank - 1))]))[0]
    turn = np.linalg.qr(np.column_stack([np.ones(rank), rng.normal(size=(rank, rank - 1))]))[0]
    return basis @ turn.T


def test_no_search_moves_the_covariance_farther_than_the_bound():
    """|uu' - vv'| in the Frobenius norm, u = x - mean, v = x' - mean, climbed from many starts: at most 4d, and attained."""
    rng = np.random.default_rng(8)
    for d in (1, 2, 5):
        rows = rng.uniform(-1.0, 1.0, (3, 2000, d))
        best = frobenius(rows)
        for step in np.geomspace(2.0, 0.01, 250):
            tried = np.clip(rows + step * rng.normal(size=rows.shape) * (rng.random(rows.shape) < 0.5), -1.0, 1.0)
            found = frobenius(tried)
            better = found > best
            rows[:, better], best = tried[:, better], np.maximum(best, found)
        assert 0.995 * 4 * d <= best.max() <= 4 * d * (1 + 1e-12)


def frobenius(rows):
    u, v = rows[0] - rows[2], rows[1] - rows[2]
    return np.sqrt((u * u).sum(1) ** 2 + (v * v).sum(1) ** 2 - 2.0 * (u * v).sum(1) ** 2)


def test_the_larger_bound_of_earlier_releases_is_read_and_kept():
    found, _ = run(rows(50), SubspaceMeasurement(dimensions=6, rank=2, iterations=2, epsilon=3.0, loose=True))
    facts = found.as_dict()
    assert "row_moves" not in facts
    again = NoisySubspace.from_dict(facts)
    assert again.measurement.sensitivity == found.measurement.sensitivity
    assert again.as_dict() == facts
    assert again.measurement.sensitivity > SubspaceMeasurement(6, 2, 2, epsilon=3.0).sensitivity * 1.41


def test_a_folder_with_the_larger_bound_of_earlier_releases_is_verified(frame, schema, tmp_path, monkeypatch):
    planned = paper._subspace
    monkeypatch.setattr(paper, "_subspace", lambda *given, **choices: replace(planned(*given, **choices), loose=True))
    release = ss.release(frame, schema=schema, epsilon=10.0, delta=1e-6, seed=1, method=ss.methods.Paper(features=9))
    monkeypatch.undo()
    checked = ss.verify(release.write(tmp_path / "out"))
    assert checked.passed, str(checked)
    assert "row_moves" not in (tmp_path / "out" / "moments.json").read_text(encoding="utf-8")


def test_a_smaller_bound_than_the_proved_one_is_refused():
    found, _ = run(rows(50), SubspaceMeasurement(dimensions=6, rank=2, iterations=2, epsilon=3.0))
    with pytest.raises(ss.PlanError, match="moves the covariance of 6 columns by 24"):
        NoisySubspace.from_dict({**found.as_dict(), "row_moves": 17})


def test_what_is_written_is_what_is_read():
    found, _ = run(rows(50), SubspaceMeasurement(dimensions=6, rank=2, iterations=2, epsilon=3.0))
    again = NoisySubspace.from_dict(found.as_dict())
    assert again.products == found.products
    np.testing.assert_array_equal(again.directions(), found.directions())


@pytest.mark.parametrize(
    "wrong",
    [{"rank": 0}, {"rank": 7}, {"iterations": 0}, {"epsilon": 1.0, "multiplier": 1.0}, {"multiplier": None}],
)
def test_impossible_iterations_are_refused(wrong):
    with pytest.raises(ss.PlanError):
        SubspaceMeasurement(**{"dimensions": 6, "rank": 2, "iterations": 3, "multiplier": 1.0, **wrong})


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_papers_method_makes_a_release_around_the_mean(frame, schema, tmp_path, delta):
    release = ss.release(frame, schema=schema, epsilon=100.0, delta=delta, seed=1, method=ss.methods.Paper(features=9))
    assert release.receipt.candidates == "ellipsoid"
    assert len(release.receipt.charges) == 1 + 3
    assert release.receipt.spent.epsilon <= 100.0
    unit = schema.to_unit({name: frame[name].to_numpy(float) for name in schema.names})
    np.testing.assert_allclose(release.unit_rows().mean(axis=0), unit.mean(axis=0), atol=0.15)
    release.write(tmp_path / "out")
    assert ss.load(tmp_path / "out").subspace.products == release.subspace.products
