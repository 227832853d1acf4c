"""Values that many rows share come out as exact values, in about their share, beside what is spread and what is missing."""

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss

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
