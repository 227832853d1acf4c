"""Spreads of columns after all releases: moved where these agree that they are wrong, left where it is noise."""

from dataclasses import replace

import numpy as np
import pytest

import smoothsynth as ss
from smoothsynth.methods import Adaptive
from smoothsynth.model.clipped_moments import Evidence, settle_spreads, simulated, widened
from smoothsynth.model.marginals import flat_marginals
from smoothsynth.model.row_norms import mean_square
from smoothsynth.model.sampling import place
from smoothsynth.pipeline.plan import plan
from smoothsynth.pipeline.rounds import Rounds
from smoothsynth.queries.families import ClippedSecondMoments
from smoothsynth.queries.measurement import NoisyMoments
from smoothsynth.queries.transformation import Transformation

ROWS, COLUMNS = 6_000, 6
SCHEMA = ss.Schema({f"c{i}": ss.Number(-1, 1) for i in range(COLUMNS)})
ALL = list(range(COLUMNS))
NORMAL, LONG_TAILS = (lambda x: np.exp(-((x / 0.25) ** 2) / 2.0)), (lambda x: (1.0 + (x / 0.05) ** 2) ** -1.5)


def columns_like(density, schema=SCHEMA):
    columns = flat_marginals(schema)
    shape = density(columns.places) * columns.base
    return replace(columns, masses=shape / shape.sum(axis=1, keepdims=True))


def learned(points, schema=SCHEMA, rows=ROWS, **budget):
    """Return a model that has learned all that a plan releases of these rows, without noise."""
    rounds = Rounds.planned(plan(schema, rows, epsilon=1.0, method=Adaptive(tables=0), **budget))
    while (seen := rounds.next) is not None:
        sums = seen.evaluate(points).mean(axis=0) * rows * np.array(seen.weights, dtype=float)
        rounds = rounds.after(NoisyMoments(seen, rows, tuple(map(int, np.rint(sums)))))
    return rounds.model


def rows_of(columns):
    rng = np.random.default_rng(1)
    return place(0.7 * rng.standard_normal((ROWS, 1)) + rng.standard_normal((ROWS, columns.count)), columns)


def settled(model, columns, *, square=np.inf):
    drawn = simulated(columns, model.correlation, model.stretch)
    return settle_spreads(columns, drawn, model.low, model.cut, model.lengths, square=square)


def relative(columns, true):
    return columns.deviations() / true.deviations() - 1.0


@pytest.mark.parametrize(("budget", "within"), [({"delta": 1e-6}, 0.04), ({}, 0.06)])
def test_columns_that_are_too_wide_or_too_narrow_are_set_right(budget, within):
    true = columns_like(NORMAL)
    model = learned(rows_of(true), **budget)
    wrong = widened(true, ALL, np.array([1.2, 0.85, 1.0, 1.0, 1.15, 1.0]))
    assert np.abs(relative(wrong, true)).max() > 0.14
    assert np.abs(relative(settled(model, wrong), true)).max() < within
    assert settled(model, wrong).means() == pytest.approx(wrong.means(), abs=0.003)


def test_with_many_rows_the_first_release_counts_most():
    """Which rows are cut hangs on a dependence that the model may not have: of squares of cut rows 2 % are not believed."""
    true = columns_like(NORMAL)
    model = learned(rows_of(true), rows=1_000_000, delta=1e-6)
    scale = np.sqrt(np.tile([1.04, 0.96], COLUMNS // 2))
    bent = replace(model.cut, covariance=model.cut.covariance * np.outer(scale, scale))
    assert np.abs(relative(settled(replace(model, cut=bent), true), true)).max() < 0.005


def test_columns_that_are_right_stay():
    true = columns_like(NORMAL)
    model = learned(rows_of(true), delta=1e-6)
    assert np.abs(relative(settled(model, true), true)).max() < 0.01


def test_the_scale_of_long_tails_is_left_to_the_mean_square():
    """Cut rows say little of it: columns are moved against each other, the mean square stays."""
    true = columns_like(LONG_TAILS)
    assert true.middles_of_variance().mean() < 0.7
    model = learned(rows_of(true), delta=1e-6)
    wrong = widened(true, ALL, np.full(COLUMNS, 1.2))

    def square(columns):
        return mean_square(place(simulated(true, model.correlation, model.stretch), columns)).mean()

    assert square(settled(model, wrong)) == pytest.approx(square(wrong), rel=0.02)
    assert square(wrong) > 1.2 * square(true)


def test_a_mean_square_that_was_released_by_itself_is_held():
    true = columns_like(NORMAL)
    model = learned(rows_of(true), delta=1e-6)
    wrong = widened(true, ALL, np.full(COLUMNS, 1.1))
    free, held = (relative(settled(model, wrong, square=noise), true).mean() for noise in (np.inf, 1e-5))
    assert free < 0.08
    assert held == pytest.approx(relative(wrong, true).mean(), abs=0.01)


def test_missing_values_and_levels_do_not_count_as_values():
    schema = ss.Schema(
        {
            "a": ss.Number(-1, 1, nullable=True),
            "b": ss.Number(-1, 1),
            "c": ss.Number(-1, 1),
            "kind": ss.Category(["x", "y"]),
        }
    )
    true = columns_like(lambda x: NORMAL(x - 0.4), schema)
    values = [c for c in range(true.count) if c not in true.groups.indicators]
    true = replace(true, masses=np.where(np.isin(range(true.count), values)[:, None], true.masses, true.base))
    true = true.with_shares({indicator: 0.5 for _, indicator in true.groups.missing})
    model = learned(rows_of(true), schema, delta=1e-6)
    wrong = widened(true, values, np.array([1.2, 1.0, 0.85]))
    found = settled(model, wrong)
    assert np.abs(relative(found, true)[values]).max() < 0.05
    assert [found.share(c) for c in true.groups.indicators] == [wrong.share(c) for c in true.groups.indicators]


class TestEvidence:
    """Theta from information and slope."""

    @staticmethod
    def told(noise, off):
        return Evidence(np.diag(np.full(len(off), noise**-2.0)), off / noise**2).estimate(np.zeros(len(off)))

    def test_what_is_well_known_is_taken_as_it_is(self):
        off = np.array([0.05, -0.03, 0.1, 0.02])
        assert self.told(1e-4, off) == pytest.approx(off, rel=0.01)

    def test_noise_is_not_followed(self):
        noise = np.random.default_rng(0).normal(0.0, 0.1, 50)
        assert np.mean(self.told(0.1, noise) ** 2) < 0.05 * np.mean(noise**2)

    def test_many_columns_that_are_off_alike_tell_what_none_tells_by_itself(self):
        off = 0.05 + np.random.default_rng(0).normal(0.0, 0.1, 400)
        assert self.told(0.1, off) == pytest.approx(np.full(400, 0.05), abs=0.015)

    def test_it_does_not_matter_from_where_one_looks(self):
        off, start = np.array([0.05, -0.03, 0.1, 0.02]), np.array([0.02, 0.0, 0.05, -0.01])
        information = np.diag([1e3, 2e3, 1e3, 5e2])
        there = Evidence(information, information @ (off - start)).estimate(start)
        assert there == pytest.approx(Evidence(information, information @ off).estimate(np.zeros(4)), abs=1e-12)


def test_rows_that_are_short_are_seen_alike_cut_or_not():
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (500, 3))
    transformation = Transformation.straight(3, ClippedSecondMoments(1.0))
    whole, cut = transformation.unclipped(points), transformation.of(points)
    short = np.linalg.norm(points, axis=1) < 0.999
    assert np.array_equal(whole[short], cut[short])
    assert whole == pytest.approx(points, abs=1e-4)
    assert np.linalg.norm(cut, axis=1).max() <= 1.0
