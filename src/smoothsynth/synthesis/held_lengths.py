"""Chosen rows, moved in or out until they are as short and as long as was measured.

Rows that are hardly ever drawn cannot be chosen: rows of a wide table are nearly alike in length, and where those that were
measured are not, the shortest and the longest stay missing. Kernels hang on just these. So where there is too little to
choose from, all values of a row are moved by a common factor, from its length to the one of the same rank that was measured.
Ranks are taken afterwards, so columns stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.synthesis.lengths import kept_share, lengths_of, mean_square, measured_lengths
from smoothsynth.synthesis.placing import place

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.synthesis.columns import Columns
    from smoothsynth.synthesis.stretching import Stretch

    Array = NDArray[np.float64]

# Steps towards the lengths; the first goes most of the way, and is enough for tables that take long.
_ROUNDS, _MANY_ROWS = 3, 100_000
# So many candidates tell how far the lengths of rows may reach.
_LOOKED_AT = 6000
# Where no more than this share of the candidates beyond would have to be chosen, none is moved.
_ENOUGH = 0.3
# Below this part of the spread of lengths nothing is done.
_LITTLE = 0.005
# No row is moved by more than this factor at once.
_MOST_MOVED = 1.25
_TINY = 1e-6


def hold_lengths(chosen: Array, drawn: Array, stretch: Stretch, columns: Columns, noisy: NoisyMoments) -> Array:
    """Return scores of rows that have the measured lengths, as far as those differ from the model's by more than noise.

    The model's are those of `drawn` that are not stretched. The mean length stays: it is known better by itself.
    """
    part = kept_share(place(_few(stretch.plain(drawn)), columns), noisy)
    if part == 0.0:
        return chosen
    candidates = place(_few(drawn), columns)
    levels = (np.arange(len(chosen)) + 0.5) / len(chosen)
    reached, ranks = measured_lengths(lengths_of(candidates), noisy)
    measured, rows = np.interp(levels, ranks, reached), place(chosen, columns)
    before = np.sort(mean_square(rows))
    lacking = _lacking(mean_square(candidates), measured, levels, _ENOUGH * len(drawn) / len(chosen))
    missing = part * lacking * (measured - before)
    if np.abs(missing).mean() < _LITTLE * before.std():
        return chosen
    wanted = before + missing - missing.mean()
    for step in range(_ROUNDS if len(rows) <= _MANY_ROWS else 1):
        rows = place(chosen, columns) if step else rows
        lengths = mean_square(rows)
        missing = np.empty(len(rows))
        missing[np.argsort(lengths)] = wanted - np.sort(lengths)
        chosen = _moved(chosen, rows, missing, columns)
    return chosen


def _few(drawn: Array) -> Array:
    return drawn[:: -(-len(drawn) // _LOOKED_AT)]


def _lacking(candidates: Array, measured: Array, levels: Array, plenty: float) -> Array:
    """Return where candidates are too few to be chosen: 1 beyond all of them, 0 where there is plenty."""
    below = np.searchsorted(np.sort(candidates), measured) / len(candidates)
    short = np.minimum(1.0, plenty * below / levels)
    long = np.minimum(1.0, plenty * (1.0 - below) / (1.0 - levels))
    return np.asarray(1.0 - np.where(levels < 0.5, short, long))


def _moved(chosen: Array, rows: Array, by: Array, columns: Columns) -> Array:
    """Reorder the scores of each column as values would be ordered whose mean square over the row is larger by so much."""
    marks = list(columns.groups.marks)
    squares = np.sum(np.delete(rows, marks, axis=1) ** 2, axis=1)
    factor = np.sqrt(np.maximum(1.0 + rows.shape[1] * by / np.maximum(squares, _TINY), _TINY))
    factor = np.clip(factor, 1.0 / _MOST_MOVED, _MOST_MOVED)
    hidden, moved = dict(columns.groups.missing), chosen.copy()
    for column in (c for c in range(rows.shape[1]) if c not in marks):
        seen = np.flatnonzero(rows[:, hidden[column]] == 0.0) if column in hidden else np.arange(len(rows))
        order = seen[np.argsort(rows[seen, column] * factor[seen], kind="stable")]
        moved[order, column] = np.sort(chosen[seen, column])
    return moved
