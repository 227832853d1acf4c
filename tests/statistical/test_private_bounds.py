"""With real noise: bounds hold nearly all rows, and noise alone hardly ever moves one far out."""

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.accounting.ledger import Ledger
from smoothsynth.discovery import bounds as hull
from smoothsynth.pipeline.plan import plan
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.measure import discover
from smoothsynth.private.table import open_table

ROWS, COLUMNS = 20_000, 40
BUDGETS = [ss.Budget(40.0), ss.Budget(10.0, 1e-6)]


def qualities(budget):
    """Return for each column the width found over the 99.8 % range, and the share of rows clipped."""
    rng = np.random.default_rng(3)
    table = pa.table({f"x{i}": rng.normal(50.0, 10.0, ROWS) for i in range(COLUMNS)})
    schema = ss.Schema({name: ss.Number("private", "private") for name in table.column_names})
    planned = plan(schema, ROWS, epsilon=budget.epsilon, delta=budget.delta)
    found = discover(open_table(table, schema), planned.discovery, engine=LocalEngine(), ledger=Ledger(budget)).schema()
    made = []
    for name, column in found.columns.items():
        values, (lower, upper) = table[name].to_numpy(), column.bounds
        low, high = np.quantile(values, [0.001, 0.999])
        made.append(((upper - lower) / (high - low), np.mean((values < lower) | (values > upper))))
    return np.array(made).T


@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "gaussian"])
def test_bounds_hold_nearly_all_rows_and_are_not_far_out(budget):
    widths, clipped = qualities(budget)
    assert np.median(clipped) < 0.02
    assert np.median(widths) < 1.6
    # One column in a hundred may be far out: six of forty would be one run in a million.
    assert np.count_nonzero(widths > 4.0) < 6
    assert np.count_nonzero(clipped > 0.1) < 6


def test_without_thresholds_noise_would_make_the_bounds(monkeypatch):
    monkeypatch.setattr(hull, "reach", lambda charge, terms, chance: 1)
    with pytest.raises(AssertionError):
        test_bounds_hold_nearly_all_rows_and_are_not_far_out(BUDGETS[0])
