"""How often a value that only one row has is shown: as often as delta says, no more, and not much less."""

import math

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.accounting.ledger import Ledger
from smoothsynth.discovery.levels import LevelsMeasurement
from smoothsynth.private.measure import measure_levels
from smoothsynth.private.table import open_table

RUNS = 3000

pytestmark = pytest.mark.fresh_noise


def shown(values, measurement):
    table = open_table(pa.table({"x": values}), ss.Schema({"x": ss.Category("private")}))
    budget = ss.Budget(50.0, 2.0 * measurement.delta)
    found = 0
    for _ in range(RUNS):
        (noisy,) = measure_levels(table, [measurement], ledger=Ledger(budget))
        found += any(text == "one" for text, _ in noisy.counts)
    return found / RUNS


def test_a_value_of_one_row_is_shown_as_rarely_as_is_charged():
    measurement = LevelsMeasurement("x", 1.0, 0.05)
    q = math.exp(-0.5)
    exact = q ** (measurement.threshold - 1) / (1 + q)
    assert exact <= 0.05 < exact / q
    five = 5.0 * math.sqrt(exact * (1.0 - exact) / RUNS)
    assert abs(shown(["one", "two", "two"], measurement) - exact) < five
    # A threshold that is one lower would be outside.
    assert exact / q - exact > 0.8 * five
    assert shown(["two", "two", "two"], measurement) == 0.0


def test_with_gaussian_noise_too():
    measurement = LevelsMeasurement("x", None, 0.05, 0.8)
    noise = np.exp(-(np.arange(-200, 201.0) ** 2) / (2.0 * measurement.scale**2))
    tail = noise[::-1].cumsum()[::-1] / noise.sum()
    exact, lower = tail[200 + measurement.threshold - 1], tail[200 + measurement.threshold - 4]
    assert exact <= 0.05 < lower
    five = 5.0 * math.sqrt(exact * (1.0 - exact) / RUNS)
    assert abs(shown(["one", "two", "two"], measurement) - exact) < five < lower - exact
    assert shown(["two", "two", "two"], measurement) == 0.0
