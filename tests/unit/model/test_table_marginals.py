"""What tables tell of columns of numbers."""

import numpy as np
import pandas as pd
import pytest
from benchmarks.accuracy import kinds
from benchmarks.accuracy.ablation import seeded

import smoothsynth as ss
from smoothsynth.model import model
from smoothsynth.model.table_marginals import _moved

PLACES = np.linspace(-1.0, 1.0, 201)
EVEN = np.full(201, 1.0 / 201)
FUNCTIONS = np.stack([PLACES, 2.0 * PLACES**2 - 1.0])


def test_what_is_known_as_well_moves_half_way() -> None:
    """A cell that is a function itself, measured with the noise that is left of that function."""
    doubt = np.array([0.01, 0.01])
    move, left = _moved(FUNCTIONS, EVEN, doubt, PLACES[None], np.array([0.02]), 0.01)
    assert move == pytest.approx([0.01, 0.0], abs=1e-4)
    assert left == pytest.approx([0.01 / np.sqrt(2.0), 0.01], rel=1e-3)


def test_what_is_better_known_stays() -> None:
    """Noise of a cell far beyond what is left of the function."""
    move, _ = _moved(FUNCTIONS, EVEN, np.array([1e-4, 0.01]), PLACES[None], np.array([0.02]), 0.01)
    assert abs(move[0]) < 1e-5


def test_a_cell_that_nothing_explains_moves_nothing() -> None:
    """A value on which rows crowd, which the density has smeared, is no evidence of its smooth part."""
    doubt = np.array([0.01, 0.01])
    crowded = np.zeros((2, 201))
    crowded[0, 100:103], crowded[1, 103:106] = 1.0, 1.0
    move, left = _moved(FUNCTIONS, EVEN, doubt, crowded, np.array([0.3, 0.0]), 0.001)
    assert not move.any()
    assert np.array_equal(left, doubt)


def test_means_are_nearer_with_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same noise, with and without what tables tell of columns: mean errors of the means of six columns."""
    rng = np.random.default_rng(5)
    real = rng.normal(size=(20_000, 2)) @ rng.normal(size=(2, 6)) * 0.2 + rng.normal(size=(20_000, 6)) * 0.2
    table = pd.DataFrame(np.clip(real, -1.0, 1.0), columns=list("abcdef"))
    schema = ss.Schema({name: ss.Number(-1, 1) for name in table})

    def error() -> float:
        found = []
        for seed in range(6):
            with seeded(seed):
                rows = ss.release(table, schema=schema, epsilon=1.0, delta=1e-6, seed=seed).unit_rows()
            found.append(np.abs(rows.mean(axis=0) - table.mean().to_numpy()).mean())
        return float(np.mean(found))

    told = error()
    monkeypatch.setattr(model, "hold_table_marginals", lambda columns, _, known: (columns, known))
    assert told < 0.97 * error()


def test_what_was_not_measured_explains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under pure epsilon no column has a T_2 of its own: once it explained most of what cells tell, and was then not held."""
    real = kinds.table_of("curve", 8_000, 6, seed=0)
    schema = ss.Schema({f"c{i}": ss.Number(-1, 1) for i in range(6)})
    table, levels = pd.DataFrame(real, columns=list(schema.names)), (np.arange(1000) + 0.5) / 1000
    releases = []
    for seed in range(3):
        with seeded(seed):
            releases.append(ss.release(table, schema=schema, epsilon=3.0, synthetic_rows=50))

    def error() -> float:
        found = []
        for release in releases:
            learned = model.empty_model(schema)
            for noisy in release.moments:
                learned = learned.update(noisy)
            gaps = [learned.columns.quantiles(c, levels) - np.quantile(real[:, c], levels) for c in range(6)]
            found.append(np.abs(gaps).mean())
        return float(np.mean(found))

    told = error()
    monkeypatch.setattr(model, "hold_table_marginals", lambda columns, _, known: (columns, known))
    assert told < 0.85 * error()
