import numpy as np
import pytest
from scipy.stats import ks_2samp

from smoothsynth.paper import audit_cases as printed
from smoothsynth.paper.reproduction import printed_ellipsoid


def test_many_runs_at_once_are_algorithm_2(monkeypatch):
    monkeypatch.setattr(printed, "MANY_ROWS", 400)
    rng = np.random.default_rng(1)
    rows = rng.uniform(-1.0, 1.0, (4, 6))
    counts = np.array([100, 150, 50, 100])
    points = np.repeat(rows, counts, axis=0)
    top = np.linalg.eigh(np.cov(points.T, bias=True))[1][:, -1]
    settings = {"rank": 1, "iterations": printed.ITERATIONS, "epsilon": 20.0, "delta": 1e-10}
    singly = [printed_ellipsoid(points, **settings, generator=rng).directions[:, 0] for _ in range(3_000)]

    def agrees(epsilon):
        together = printed.last_directions(rows, counts / 400, 3_000, randomness=rng, epsilon=epsilon)
        return ks_2samp(np.abs(top @ together), np.abs(np.stack(singly) @ top)).pvalue > 1e-7

    assert agrees(20.0)
    assert not agrees(40.0), "the same check must notice half the noise"


def test_the_loss_of_the_printed_scale_is_the_one_known():
    (finding,) = printed.exact_findings()
    assert finding.exceeds
    assert finding.bound == pytest.approx(2.41, abs=0.01)
    assert finding.trials == 0
