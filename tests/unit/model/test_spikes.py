"""Values that many rows share come out as exact values, in about their share, beside what is spread and what is missing."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.model.marginals import flat_marginals
from smoothsynth.model.spikes import Spike, hold_spikes

ROWS = 4_000
BUDGET = {"epsilon": 2.0, "delta": 1e-6, "seed": 1, "method": ss.methods.Adaptive(tables=0)}
RNG = np.random.default_rng(0)
SPREAD, SHARED = RNG.gamma(2.0, 60.0, ROWS).clip(1.0, 999.0), RNG.random(ROWS)
AGES = np.where(SHARED < 0.4, 10 * RNG.integers(2, 8, ROWS), RNG.integers(18, 90, ROWS))

# A column, its values, and the single values that many rows share.
COLUMNS = {
    "nothing paid": (ss.Number(0, 1000), np.where(SHARED < 0.6, 0.0, SPREAD), (0.0,)),
    "no whole number": (ss.Integer(0, 100_000), np.where(SHARED < 0.6, 0, np.rint(90 * SPREAD)), (0,)),
    "neither gained nor lost": (ss.Number(-500, 800), np.where(SHARED < 0.5, 0.0, SPREAD - 150.0), (0.0,)),
    "at the cap": (ss.Number(0, 150), np.minimum(SPREAD, 150.0), (150.0,)),
    "both bounds": (ss.Number(0, 150), np.where(SHARED < 0.3, 0.0, np.minimum(SPREAD, 150.0)), (0.0, 150.0)),
    "few whole numbers": (ss.Integer(0, 9), RNG.poisson(1.2, ROWS).clip(0, 9), tuple(range(6))),
    "heaped ages": (ss.Integer(0, 110), AGES, (20, 30, 40, 50, 60, 70)),
}


@pytest.mark.parametrize("missing", [0.0, 0.25])
@pytest.mark.parametrize("name", COLUMNS)
def test_shared_values_have_their_share(name, missing):
    column, values, shared = COLUMNS[name]
    holes = np.random.default_rng(1).random(ROWS) < missing
    kind = type(column)
    schema = ss.Schema({"x": kind(*column.bounds, nullable=bool(missing)), "y": ss.Number(0, 1)})
    whole = kind is ss.Integer
    cells = pa.array(values.astype(np.int64) if whole else values, mask=holes)
    table = pa.table({"x": cells, "y": np.random.default_rng(2).random(ROWS)})
    made = ss.release(table, schema=schema, synthetic_rows=2_000, **BUDGET).to_arrow()["x"]
    assert made.null_count / 2_000 == pytest.approx(missing, abs=0.03)
    found, there = np.array(made.drop_null()), values[~holes]
    for value in shared:
        assert np.mean(found == value) == pytest.approx(np.mean(there == value), abs=0.03), value
    assert found.mean() == pytest.approx(there.mean(), abs=0.08 * np.ptp(there) / 2)
    rest, true = (some[~np.isin(some, shared)] for some in (found, there))
    if len(true) > 500:
        assert np.median(rest) == pytest.approx(np.median(true), abs=0.1 * np.ptp(there))


def test_values_that_nobody_shares_are_no_spikes():
    values = np.random.default_rng(3).uniform(0, 1000, ROWS)
    schema = ss.Schema({"x": ss.Number(0, 1000), "y": ss.Number(0, 1)})
    made = ss.release(pa.table({"x": values, "y": values / 1000}), schema=schema, synthetic_rows=2_000, **BUDGET)
    assert np.mean(np.isin(np.array(made.to_arrow()["x"]), (0.0, 1000.0))) < 0.01


def test_a_spike_in_a_wide_table_keeps_its_share_and_leaves_the_mean_where_it_is():
    """With 15 columns it was not looked for; its cell was filled in proportion, and first moments emptied it again."""
    rng = np.random.default_rng(4)
    spent = np.where(rng.random(4_000) < 0.6, 0.0, rng.gamma(2.0, 400.0, 4_000)).clip(0.0, 5_000.0)
    columns = {"spent": spent} | {f"c{i}": rng.normal(size=4_000) for i in range(14)}
    schema = ss.Schema({"spent": ss.Number(0, 5_000)} | {f"c{i}": ss.Number(-4, 4) for i in range(14)})
    made = ss.release(pa.table(columns), schema=schema, epsilon=2.0, delta=1e-6, seed=0)
    found = np.array(made.to_arrow()["spent"])
    assert np.mean(found == 0.0) == pytest.approx(0.6, abs=0.03)
    assert found.mean() == pytest.approx(spent.mean(), abs=0.02 * 5_000)
    assert "contradict" not in made.receipt.outcome


def test_a_spike_is_held_within_its_noise_and_first_moments_within_theirs():
    columns = flat_marginals(ss.Schema({"x": ss.Number(-1, 1)}))
    spike = Spike(0, np.array([-1.0]), np.array([0.5]), noise=0.05)
    held = hold_spikes(columns, (spike,), ())
    assert held.masses[0][held.spiked[0]].sum() == pytest.approx(0.5, abs=0.01)
    assert held.mixed(0.3).masses[0][held.spiked[0]].sum() == pytest.approx(0.5, abs=0.01)
    assert held.mixed(0.3).masses.sum() == pytest.approx(1.0)


def test_spikes_that_hold_a_last_digit_too_much_leave_no_density_below_zero():
    """A column of whole numbers whose values were all held lost its release, after all was spent: the log of -1e-17."""
    columns = flat_marginals(ss.Schema({"x": ss.Number(-1, 1)})).with_points({0: np.array([0.0])})
    spiked = np.diff(columns.edges) <= 1e-6
    masses = np.where(spiked, np.nextafter(1.0, 2.0), 0.0)
    assert (replace(columns, masses=masses, spiked=spiked).mixed(0.03).masses >= 0.0).all()
