"""Moments of rows that were seen cut to a length: what the cut took is given back once lengths are known."""

from dataclasses import replace

import numpy as np
import pytest

import smoothsynth as ss
from smoothsynth.model.clipped_moments import hold_cut_moments, hold_pairs, lacking_pairs
from smoothsynth.model.copula import CutMoments, free_pairs
from smoothsynth.model.marginals import Groups, flat_marginals
from smoothsynth.model.model import Model, length_transformation, score_transformation
from smoothsynth.model.row_norms import expected_ranks
from smoothsynth.model.sampling import generator, place, scores
from smoothsynth.model.scales import known_so_far, shifted
from smoothsynth.queries.bases import term_feature
from smoothsynth.queries.measurement import Measurement, NoisyMoments

COLUMNS, ROWS = 20, 6000


def skewed_columns():
    """Return columns that are crowded near -0.5, with a tail to the right."""
    columns = flat_marginals(ss.Schema({f"c{i}": ss.Number(-1, 1) for i in range(COLUMNS)}))
    above = np.maximum(columns.places + 0.6, 0.0)
    shape = above * np.exp(-above / 0.15) * columns.base
    return replace(columns, masses=shape / shape.sum(axis=1, keepdims=True))


def lengths_of(points, columns):
    transformation = length_transformation(expected_ranks(columns, np.eye(COLUMNS)))
    cosines = tuple(term_feature((0, k)) for k in range(1, 9))
    measurement = Measurement("lengths", cosines, "cube", 100.0, transformation=transformation)
    values = measurement.evaluate(points).mean(axis=0) * ROWS * np.array(measurement.weights, dtype=float)
    return NoisyMoments(measurement, ROWS, tuple(map(int, np.rint(values))))


def seen_cut(points, columns, length, *, noise=1e-4):
    """Return the moments of points cut to a length, as a release with hardly any noise would have them."""
    transformation = score_transformation(columns, length * columns.deviations())
    seen = transformation.of(points)
    covariance = np.cov(seen.T, bias=True)
    units = length * columns.deviations()
    means, all_of_it = seen.mean(axis=0), np.ones(COLUMNS)
    pairs, before = covariance * free_pairs(columns), columns.means()
    return CutMoments(
        transformation,
        means,
        all_of_it,
        units,
        noise * units,
        before,
        covariance,
        pairs,
        noise,
        "discrete gaussian",
        noise,
    )


def as_pairs_would(columns, cut):
    """Move columns until independent rows, with whatever lengths they have, have the means of cut rows."""
    drawn = scores(ROWS, COLUMNS, generator=generator(0))
    for _ in range(8):
        columns = shifted(columns, 0.8 * cut.missing_means(columns, place(drawn, columns), np.full(ROWS, 1 / ROWS)))
    return columns


def test_means_come_nearer_once_it_is_known_which_rows_are_long():
    true, rng = skewed_columns(), np.random.default_rng(1)
    together = rng.standard_normal((ROWS, 1)) + rng.standard_normal((ROWS, COLUMNS))
    points = place(together, true)
    length = np.sqrt(0.6 * COLUMNS)
    cut = seen_cut(points, true, length)
    before = as_pairs_would(true, cut)
    lengths = lengths_of(points, before)
    after, _ = hold_cut_moments(before, np.eye(COLUMNS), lengths, cut, known=known_so_far(before, [], cut))
    error = [float(np.abs(c.means() - true.means()).mean()) for c in (before, after)]
    assert error[0] > 0.01
    assert error[1] < 0.6 * error[0]


def test_what_has_its_means_already_stays():
    columns = skewed_columns()
    points = place(scores(ROWS, COLUMNS, generator=generator(0)), columns)
    length = np.sqrt(0.6 * COLUMNS)
    cut = seen_cut(points, columns, length)
    np.testing.assert_allclose(cut.missing_means(columns, points, np.full(ROWS, 1 / ROWS)), 0.0, atol=1e-12)
    lengths = lengths_of(points, columns)
    known = known_so_far(columns, [], cut)
    held, correlation = hold_cut_moments(columns, np.eye(COLUMNS), lengths, cut, known=known)
    np.testing.assert_allclose(held.means(), columns.means(), atol=0.05 * columns.deviations().mean())
    np.testing.assert_allclose(correlation, np.eye(COLUMNS), atol=0.05)


def test_correlations_that_chosen_rows_lack_are_restored():
    """Two clusters of unlike width: rows with the released norms, but too little correlation, get what was measured."""
    rng, columns = np.random.default_rng(2), skewed_columns()
    one = rng.random(ROWS)[:, None] < 0.4
    normal = rng.standard_normal((ROWS, COLUMNS))
    points = np.clip(np.where(one, 0.15 * normal + 0.4, 0.2 * normal - 0.3), -1.0, 1.0)
    shape = np.stack([np.histogram(x, bins=columns.edges[0])[0] + 1e-3 for x in points.T])
    columns = replace(columns, masses=shape / shape.sum(axis=1, keepdims=True))
    length = np.sqrt(3.0 * COLUMNS)
    cut, true = seen_cut(points, columns, length), np.corrcoef(points.T)
    start = 0.6 * true + 0.4 * np.eye(COLUMNS)
    lengths = lengths_of(points, columns)
    held, correlation = hold_cut_moments(columns, start, lengths, cut, known=known_so_far(columns, [], cut))
    drawn = [
        Model(c, r, lengths=lengths).rows(ROWS, generator=generator(1))
        for c, r in ((columns, start), (held, correlation))
    ]
    error = [np.abs(np.corrcoef(rows.T) - true).mean() for rows in drawn]
    assert error[1] < 0.5 * error[0]


def alike_by(correlation, count=ROWS):
    """Return scores of which each two columns have this correlation, exactly."""
    wanted = correlation + (1.0 - correlation) * np.eye(COLUMNS)
    return scores(count, COLUMNS, generator=generator(4)) @ np.linalg.cholesky(wanted).T


def test_chosen_rows_are_turned_to_the_pairs_that_were_seen():
    """Three clusters, 100,000 x 6, had correlations 0.023 off after the choice by lengths, and 0.003 before it."""
    columns = skewed_columns()
    true = place(alike_by(0.6), columns)
    cut = seen_cut(true, columns, np.sqrt(3.0 * COLUMNS), noise=1e-5)
    held = place(hold_pairs(alike_by(0.3), columns, cut), columns)
    np.testing.assert_allclose(np.corrcoef(held.T), np.corrcoef(true.T), atol=0.02)
    np.testing.assert_allclose(held.mean(axis=0), true.mean(axis=0), atol=1e-3)


def test_a_large_table_is_looked_at_in_part(monkeypatch):
    columns, monkey = skewed_columns(), "smoothsynth.model.clipped_moments._MOST_LOOKED_AT"
    cut = seen_cut(place(alike_by(0.6), columns), columns, np.sqrt(3.0 * COLUMNS), noise=1e-5)
    monkeypatch.setattr(monkey, ROWS // 4)
    held = hold_pairs(alike_by(0.3), columns, cut)
    assert len(held) == ROWS
    assert np.corrcoef(held.T)[0, 1] == pytest.approx(0.6, abs=0.05)


@pytest.mark.parametrize("count", [ROWS, 30])
def test_chosen_rows_that_lack_nothing_or_are_few_stay(count):
    columns, chosen = skewed_columns(), alike_by(0.6)
    cut = seen_cut(place(chosen, columns), columns, np.sqrt(3.0 * COLUMNS))
    np.testing.assert_array_equal(hold_pairs(chosen[:count], columns, cut), chosen[:count])


def wanted_beside_what_rows_have(cut, columns, rows):
    """Return the wanted covariance of a pair of columns, and that of the rows, on average over the pairs."""
    flat, free = np.full(len(rows), 1 / len(rows)), free_pairs(columns) > 0
    own = np.cov(cut.transformation.of(rows).T, bias=True)
    return cut.wanted(columns, rows, flat, free_pairs(columns))[free].mean(), own[free].mean()


def test_rows_are_to_have_the_pairs_that_were_believed_where_these_are_clear():
    """BudgetFood, 20,000 x 5, had correlations off by 0.013 without any noise: choice by lengths had moved them within it."""
    columns = skewed_columns()
    points, free = place(alike_by(0.6), columns), free_pairs(columns)
    cut = seen_cut(points, columns, np.sqrt(3.0 * COLUMNS))
    noise = 0.02 / cut.length(columns) ** 2
    signs = np.triu(np.random.default_rng(5).choice([-1.0, 1.0], (COLUMNS, COLUMNS)), 1)
    off = 0.5 * noise * (signs + signs.T)
    clear = replace(cut, covariance=cut.covariance + off, believed=cut.believed + off, pair_noise=noise)
    moved = (clear.wanted(columns, points, np.full(ROWS, 1 / ROWS), free) - cut.covariance) * free
    assert np.sum(moved * off) / np.sum(off**2) == pytest.approx(1.0 / (1.0 + 0.4**2), rel=0.02)


def test_where_pairs_drown_rows_stay_as_their_lengths_made_them():
    columns = skewed_columns()
    length = np.sqrt(0.6 * COLUMNS)
    cut = seen_cut(place(alike_by(0.05), columns), columns, length)
    drowned = replace(cut, pair_noise=0.5 / cut.length(columns) ** 2)
    wanted, own = wanted_beside_what_rows_have(drowned, columns, place(alike_by(0.1), columns))
    assert own > 1.5 * cut.believed[0, 1:].mean()
    assert wanted == pytest.approx(own, rel=0.02)


def test_what_stands_out_of_the_noise_is_wanted_though_it_was_not_believed():
    columns = skewed_columns()
    points = place(scores(ROWS, COLUMNS, generator=generator(0)), columns)
    cut = seen_cut(points, columns, np.sqrt(0.6 * COLUMNS))
    sharp = replace(cut, covariance=cut.covariance + 0.02 * free_pairs(columns), pair_noise=1e-4)
    wanted, _ = wanted_beside_what_rows_have(sharp, columns, points)
    assert wanted == pytest.approx(0.02, rel=0.1)
    flat, free = np.full(ROWS, 1 / ROWS), free_pairs(columns)
    lacking = sharp.missing_correlation(0.02 * free, points, flat, free)
    assert lacking.mean() > 0.1
    assert not np.diag(lacking).any()


def test_means_are_shifted_and_variances_are_not():
    columns = skewed_columns()
    moved = shifted(columns, np.full(COLUMNS, 0.05))
    np.testing.assert_allclose(moved.means(), columns.means() + 0.05, atol=2e-3)
    np.testing.assert_allclose(moved.deviations(), columns.deviations(), rtol=0.02)


def test_shares_are_shifted_too():
    columns = flat_marginals(ss.Schema({"x": ss.Number(-1, 1), "c": ss.Category(["a", "b", "z"])}))
    indicator = columns.groups.levels[0][0]
    by = np.zeros(columns.count)
    by[indicator] = 0.1
    before, after = columns.share(indicator), shifted(columns, by).share(indicator)
    assert 0.05 < after - before < 0.11


def test_no_shift_puts_a_column_on_one_value():
    columns = skewed_columns()
    moved = shifted(columns, np.full(COLUMNS, 5.0))
    assert np.all(moved.means() < 1.0)
    assert np.all(moved.deviations() > 0.02)


def first_release(means, *, noise):
    """Return means as they are first released, with about this noise."""
    features = tuple(term_feature((c, 1)) for c in range(COLUMNS))
    measurement = Measurement("means", features, "discrete gaussian", multiplier=noise * ROWS / (2 * np.sqrt(COLUMNS)))
    drawn = means + noise * np.random.default_rng(3).standard_normal(COLUMNS)
    weights = np.array(measurement.weights, dtype=float)
    return NoisyMoments(measurement, ROWS, tuple(map(int, np.rint(drawn * ROWS * weights))))


def cut_to(columns, *, before):
    cut = seen_cut(place(scores(ROWS, COLUMNS, generator=generator(0)), columns), columns, 1.0)
    return replace(cut, noise=np.full(COLUMNS, 0.005), before=before)


def test_what_rows_lack_in_correlation_is_told_where_it_is_more_than_noise():
    """Noise is 0.02. Pairs go together by 0.6 or by 0.035; 0 to 3 are values, 4 and 6 are levels, 8 is a mark of 9."""
    columns, rng = skewed_columns(), np.random.default_rng(1)
    drawn = rng.standard_normal((ROWS, COLUMNS))
    alone = place(drawn, columns)
    for one, other, much in ((0, 1, 0.6), (2, 3, 0.035), (4, 5, 0.6), (6, 7, 0.035), (8, 10, 0.6), (11, 12, 0.01)):
        drawn[:, other] = much * drawn[:, one] + np.sqrt(1 - much**2) * drawn[:, other]
    length = float(np.sqrt(1.5 * COLUMNS))
    cut = seen_cut(place(drawn, columns), columns, length, noise=0.02 / length**2)
    cut = replace(cut, believed=cut.covariance * free_pairs(columns))
    columns = replace(columns, groups=Groups(levels=((4,), (6,)), whole=(False, False), missing=((9, 8),)))
    lacking, noise = lacking_pairs(alone, columns, cut)
    assert noise[0, 1] == pytest.approx(0.02, rel=0.5)
    np.testing.assert_allclose(lacking, lacking.T, atol=1e-12)
    found = {(int(i), int(j)): lacking[i, j] for i, j in zip(*np.nonzero(np.triu(lacking)), strict=True)}
    assert set(found) == {(0, 1), (2, 3), (4, 5)}
    assert found[0, 1] == pytest.approx(0.6, abs=0.2)
    assert found[4, 5] == pytest.approx(0.6, abs=0.2)
