"""What is missing of the mean square is looked for where the error may be: in the means, in the scale, in itself."""

from dataclasses import replace

import numpy as np
import pytest

import smoothsynth as ss
from smoothsynth.model.marginal_moments import UNKNOWN
from smoothsynth.model.marginals import flat_marginals
from smoothsynth.model.scales import Known, mean_square, scaled

COLUMNS = 8


def normal_columns(mean, deviation):
    columns = flat_marginals(ss.Schema({f"c{i}": ss.Number(-1, 1) for i in range(COLUMNS)}))
    shape = np.exp(-(((columns.places - mean) / deviation) ** 2) / 2) * columns.base
    return replace(columns, masses=shape / shape.sum(axis=1, keepdims=True))


def moved(columns, by, known, *, doubt=0.0):
    lines = range(COLUMNS)
    wanted = mean_square(columns, lines) + by
    return scaled(columns, lambda now: wanted - mean_square(now, lines), known, doubt=doubt)


def known(noise, scale):
    return Known(np.full(COLUMNS, noise), scale)


def test_columns_far_from_the_centre_with_unsure_means_are_shifted():
    """A table crowded at one end: variances once fell to a third, for means that were a little off."""
    columns = normal_columns(-0.7, 0.08)
    after = moved(columns, -0.01, known(0.02, 0.1))
    assert after.means() == pytest.approx(columns.means() + 0.01 / (2 * 0.7), abs=2e-3)
    assert after.deviations() == pytest.approx(columns.deviations(), rel=0.05)
    assert mean_square(after, range(COLUMNS)) == pytest.approx(mean_square(columns, range(COLUMNS)) - 0.01, abs=1e-3)


def test_columns_whose_means_are_sure_are_scaled():
    columns = normal_columns(-0.5, 0.2)
    after = moved(columns, 0.01, known(1e-4, 0.3))
    assert after.means() == pytest.approx(columns.means(), abs=2e-3)
    assert after.deviations() ** 2 == pytest.approx(columns.deviations() ** 2 + 0.01, rel=0.03)


def test_marks_and_unmeasured_means_are_not_shifted():
    columns = normal_columns(-0.5, 0.2)
    noise = np.where(np.arange(COLUMNS) < 4, UNKNOWN, 0.05)
    after = moved(columns, -0.01, Known(noise, 0.05))
    assert after.means()[:4] == pytest.approx(columns.means()[:4], abs=2e-3)
    assert np.all(after.means()[4:] > columns.means()[4:] + 0.005)


@pytest.mark.parametrize("by", [0.3, -0.3])
def test_no_gap_puts_a_column_on_one_value(by):
    columns = normal_columns(-0.9, 0.05)
    after = moved(columns, by, known(0.5, 0.1))
    assert np.all(after.deviations() > 0.2 * columns.deviations())
    assert np.all(np.abs(after.means()) < 0.99)


@pytest.mark.parametrize("doubt", [0.0, 0.01, 0.1])
def test_what_is_doubted_stays_missing(doubt):
    columns = normal_columns(0.0, 0.25)
    after = moved(columns, 0.02, known(0.0, 0.2), doubt=doubt)
    believed = (0.2 * 0.0625) ** 2
    share = believed / (believed + doubt**2)
    assert mean_square(after, range(COLUMNS)) - mean_square(columns, range(COLUMNS)) == pytest.approx(
        0.02 * share, rel=0.1
    )


def test_many_levels_do_not_make_the_steps_of_numbers_too_long():
    """The variances of 100 levels beside three numbers made them so: deviations fell to a half for a gap of 1 %."""
    schema = ss.Schema(
        {f"c{i}": ss.Number(-1, 1) for i in range(3)} | {"k": ss.Category([f"v{i}" for i in range(100)])}
    )
    columns, lines = flat_marginals(schema), range(3)
    shape = np.exp(-((columns.places[:3] / 0.25) ** 2) / 2) * columns.base[:3]
    columns = replace(columns, masses=np.vstack([shape / shape.sum(axis=1, keepdims=True), columns.masses[3:]]))
    wanted = 0.99 * mean_square(columns, lines)
    noise = np.append(np.full(3, 0.001), np.full(100, UNKNOWN))
    after = scaled(columns, lambda now: wanted - mean_square(now, lines), Known(noise, 0.3))
    assert mean_square(after, lines) == pytest.approx(wanted, rel=1e-3)
