"""Rows as short and as long as was measured, where none of these could be chosen; columns stay what they are."""

from dataclasses import replace

import numpy as np
import pytest

import smoothsynth as ss
from smoothsynth.methods.layout import cosines_of_length
from smoothsynth.model.marginals import flat_marginals
from smoothsynth.model.model import length_transformation
from smoothsynth.model.row_norms import Stretch, expected_ranks, hold_lengths, mean_square
from smoothsynth.model.sampling import place, scores
from smoothsynth.queries.measurement import Measurement, NoisyMoments

ROWS, CANDIDATES = 2000, 12_000


def normal_columns(count, **facts):
    """Return columns that are all normal around 0.1."""
    columns = flat_marginals(ss.Schema({f"c{i}": ss.Number(-1, 1, **facts) for i in range(count)}))
    shape = np.exp(-(((columns.places - 0.1) / 0.3) ** 2) / 2) * columns.base
    indicators = list(columns.groups.indicators)
    shape[indicators] = columns.masses[indicators]
    return replace(columns, masses=shape / shape.sum(axis=1, keepdims=True))


def lengths_of_rows(columns, rows, *, noise_of=10**7):
    """Return cosines of the lengths of these rows, seen as the model expects them, with hardly any noise."""
    transformation = length_transformation(expected_ranks(columns, np.eye(columns.count)))
    measurement = Measurement(
        "lengths", tuple(cosines_of_length(14)), "discrete gaussian", multiplier=5.0, transformation=transformation
    )
    sums = measurement.evaluate(rows).mean(axis=0) * noise_of * np.array(measurement.weights)
    return NoisyMoments(measurement, noise_of, tuple(map(int, np.rint(sums))))


def drawn_scores(columns):
    drawn = scores(CANDIDATES, columns.count, generator=np.random.default_rng(1))
    return drawn, drawn[:ROWS]


def unlike_in_length(columns, seed=2):
    """Draw rows with these columns, each of them near to the middle of all columns or far from it."""
    rng = np.random.default_rng(seed)
    return place(rng.standard_normal((8000, columns.count)) * np.exp(0.4 * rng.standard_normal((8000, 1))), columns)


def test_the_shortest_and_the_longest_rows_are_there():
    columns = normal_columns(40)
    true, (drawn, chosen) = unlike_in_length(columns), drawn_scores(columns)
    moved = hold_lengths(chosen, drawn, Stretch(), columns, lengths_of_rows(columns, true))
    wanted, before, after = (mean_square(r) for r in (true, place(chosen, columns), place(moved, columns)))
    for level in (0.01, 0.05, 0.95, 0.99):
        short_of = abs(np.quantile(before, level) - np.quantile(wanted, level))
        assert abs(np.quantile(after, level) - np.quantile(wanted, level)) < 0.4 * short_of
    assert after.mean() == pytest.approx(before.mean(), rel=1e-6)


def test_columns_stay_as_they_are():
    columns = normal_columns(40)
    drawn, chosen = drawn_scores(columns)
    moved = hold_lengths(chosen, drawn, Stretch(), columns, lengths_of_rows(columns, unlike_in_length(columns)))
    assert not np.array_equal(moved, chosen)
    np.testing.assert_array_equal(np.sort(moved, axis=0), np.sort(chosen, axis=0))


def test_where_lengths_are_as_expected_nothing_moves():
    columns = normal_columns(40)
    drawn, chosen = drawn_scores(columns)
    noisy = lengths_of_rows(columns, place(drawn, columns), noise_of=2000)
    assert hold_lengths(chosen, drawn, Stretch(), columns, noisy) is chosen


def test_rows_that_could_be_chosen_are_not_moved():
    """Two columns have rows of every length: hardly any is moved."""
    columns = normal_columns(2)
    true, (drawn, chosen) = unlike_in_length(columns), drawn_scores(columns)
    moved = hold_lengths(chosen, drawn, Stretch(), columns, lengths_of_rows(columns, true))
    changed = np.abs(mean_square(place(moved, columns)) - mean_square(place(chosen, columns)))
    assert np.mean(changed) < 0.003


def test_missing_values_and_their_marks_stay():
    columns = normal_columns(12, nullable=True).with_shares({2 * i + 1: 0.3 for i in range(12)})
    drawn, chosen = drawn_scores(columns)
    true = unlike_in_length(columns)
    moved = hold_lengths(chosen, drawn, Stretch(), columns, lengths_of_rows(columns, true))
    before, after = place(chosen, columns), place(moved, columns)
    indicators = list(columns.groups.indicators)
    np.testing.assert_array_equal(after[:, indicators], before[:, indicators])
    np.testing.assert_array_equal(np.sort(after, axis=0), np.sort(before, axis=0))
    assert not np.array_equal(after, before)
