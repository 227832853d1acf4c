"""What pairs of columns tell changes nothing that was known better before."""

from dataclasses import replace

import numpy as np
import pytest

import smoothsynth as ss
from smoothsynth.model.copula import learn_pairs, score_length, score_units
from smoothsynth.model.marginals import flat_marginals
from smoothsynth.model.model import score_transformation
from smoothsynth.model.sampling import place
from smoothsynth.model.scales import shifted
from smoothsynth.pipeline.plan import plan
from smoothsynth.queries.measurement import NoisyMoments

ROWS, COLUMNS = 20_000, 6
SCHEMA = ss.Schema({f"c{i}": ss.Number(-1, 1) for i in range(COLUMNS)})


def skewed_columns():
    """Return columns that are crowded near -0.5, with a tail to the right."""
    columns = flat_marginals(SCHEMA)
    above = np.maximum(columns.places + 0.6, 0.0)
    shape = above * np.exp(-above / 0.15) * columns.base
    return replace(columns, masses=shape / shape.sum(axis=1, keepdims=True))


def pairs_of(points, columns, *, rows=ROWS, **budget):
    """Return what a plan's release of pairs would be without noise, seen as by a model with these columns."""
    planned = plan(SCHEMA, rows, **budget)
    measurement = planned.measurements[planned.families.index("clipped second moments")]
    units = score_units(columns, measurement, rows) * score_length(columns, measurement, rows)
    measurement = replace(measurement, transformation=score_transformation(columns, units))
    values = measurement.evaluate(points).mean(axis=0) * rows * np.array(measurement.weights, dtype=float)
    return NoisyMoments(measurement, rows, tuple(map(int, np.rint(values))))


def tied_rows(columns):
    rng = np.random.default_rng(1)
    return place(1.5 * rng.standard_normal((ROWS, 1)) + rng.standard_normal((ROWS, COLUMNS)), columns)


@pytest.mark.parametrize(("rows", "budget"), [(3_000, {}), (ROWS, {}), (ROWS, {"delta": 1e-6})])
def test_columns_that_are_known_stay_while_their_dependence_is_learned(rows, budget):
    """Rows that depend on each other are longer, and are cut more, than those that do not: no reason to move a column."""
    columns = skewed_columns()
    noisy = pairs_of(tied_rows(columns), columns, rows=rows, epsilon=1.0, **budget)
    found = learn_pairs(columns, noisy, known=np.full(COLUMNS, 1e-4))
    assert found.correlation[np.triu_indices(COLUMNS, 1)].mean() > 0.5
    assert found.columns.means() == pytest.approx(columns.means(), abs=0.001)
    assert found.columns.deviations() == pytest.approx(columns.deviations(), rel=0.04)


def test_means_that_are_known_badly_are_learned_from_cut_rows():
    true = skewed_columns()
    columns = shifted(true, np.full(COLUMNS, 0.05))
    noisy = pairs_of(tied_rows(true), columns, epsilon=1.0, delta=1e-6)
    found = learn_pairs(columns, noisy, known=np.full(COLUMNS, 0.1))
    assert found.columns.means() == pytest.approx(true.means(), abs=0.005)
