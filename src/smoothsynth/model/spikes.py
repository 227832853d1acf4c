"""Values that many rows share: found in tables of single columns, and held as cells of their own.

A density of ranks smears what crowds on a single value (zero, a bound, forty hours). The tables of single columns have a cell
for every value of a column of few whole numbers, and for the bounds and 0 of others. A value is a spike if its share stands
out of the noise, among many values also out of its neighbours; of few values all are held.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.model.marginal_moments import UNKNOWN, first_moments, missing_share
from smoothsynth.model.marginals import first_functions, tilt
from smoothsynth.queries.bases import LATTICE
from smoothsynth.queries.soft_tables import Cells, SoftTables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.model.marginals import Marginals
    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.queries.soft_tables import TableColumn

    Array = NDArray[np.float64]


# So many deviations of its noise is a share above 0, or above its neighbours: among this many on both sides.
_CLEAR, _NEIGHBOURS = 4.0, 3
# All values of a column are held where the noise of each is below this part of an even share.
_ALL_CLEAR = 0.1
# Spikes leave this to other values at least, unless all values are held.
_REST = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Spike:
    """The values of one coordinate that many rows share, where a value is there: their places, shares, and noise of these."""

    coordinate: int
    places: Array
    shares: Array
    noise: float


def find_spikes(columns: Marginals, noisy: NoisyMoments) -> tuple[Spike, ...]:
    """Return the spikes that tables of single columns tell of."""
    return tuple(_found(columns, noisy))


def _found(columns: Marginals, noisy: NoisyMoments) -> Iterator[Spike]:
    family, features = noisy.measurement.family, noisy.features
    if not isinstance(family, SoftTables) or not isinstance(features, Cells):
        raise TypeError("spikes are found in tables")
    values, deviation = noisy.values, float(noisy.deviations[0])
    for (number,), where in features.places():
        column = family.columns[number]
        if column.value is None:
            continue
        there = max(1.0 - missing_share(columns, column.value), 0.1)
        places, shares = _looked_at(columns, column, values[where] / there)
        # A table without atoms has a cell for every value there is.
        single = not column.atoms
        clear = _stands_out(shares, deviation / there, single=single)
        if clear.any():
            whole = single and bool(clear.all())
            yield Spike(column.value, places[clear], _within(shares[clear], whole=whole), deviation / there)


def _looked_at(columns: Marginals, column: TableColumn, shares: Array) -> tuple[Array, Array]:
    """Return the places of single values that a table has cells for, and their shares."""
    if column.atoms:
        atoms = slice(column.hats, column.hats + len(column.atoms))
        return np.array(column.atoms) / LATTICE, shares[atoms]
    line = columns.places[column.value][: np.count_nonzero(columns.base[column.value])]
    return line[: column.hats], shares[: len(line)][: column.hats]


def _stands_out(shares: Array, noise: float, *, single: bool) -> NDArray[np.bool_]:
    if single and noise * len(shares) <= _ALL_CLEAR:
        return np.ones(len(shares), dtype=bool)
    around = np.zeros(len(shares))
    if single:
        padded = np.pad(shares, _NEIGHBOURS, constant_values=np.nan)
        windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEIGHBOURS + 1).copy()
        windows[:, _NEIGHBOURS] = np.nan
        around = np.maximum(np.nanmedian(windows, axis=1), 0.0)
    return np.asarray(shares - around > _CLEAR * noise)


def _within(shares: Array, *, whole: bool) -> Array:
    """Return shares of at least 0 that add up to 1 if they are of all values, and otherwise to less."""
    kept = np.maximum(shares, 1e-6)
    return np.asarray(kept / kept.sum() if whole else kept * min(1.0, (1.0 - _REST) / kept.sum()))


def hold_spikes(columns: Marginals, spikes: Sequence[Spike], low: Sequence[NoisyMoments]) -> Marginals:
    """Give spikes cells of their own, and tilt their lines to their shares and to first moments, each within its noise."""
    if not spikes:
        return columns
    columns = _with_cells(columns, spikes)
    cells, shares, closely = spike_functions(columns, spikes)
    moments, noise = first_moments(columns, low)
    held = np.isin(np.arange(columns.count), [spike.coordinate for spike in spikes])[:, None]
    functions = np.concatenate([first_functions(columns), cells], axis=1)
    scale = np.hstack([np.where(held, noise, UNKNOWN), closely])
    tilted = tilt(columns, functions, np.hstack([moments, shares]), scale)
    return replace(tilted, masses=np.where(held, tilted.masses, columns.masses))


def _with_cells(columns: Marginals, spikes: Sequence[Spike]) -> Marginals:
    """Give spikes cells with their shares, and all others of the same line what is left, in proportion."""
    columns = columns.with_points({spike.coordinate: spike.places for spike in spikes})
    masses, spiked = columns.masses.copy(), np.zeros(columns.masses.shape, dtype=bool)
    for spike in spikes:
        line = spike.coordinate
        cells = _cells_at(columns.places[line], columns.base[line], spike.places)
        spiked[line, cells] = True
        rest = float(masses[line].sum() - masses[line, cells].sum())
        masses[line] *= (1.0 - spike.shares.sum()) / max(rest, 1e-12)
        masses[line, cells] = spike.shares
    return replace(columns, masses=masses, spiked=spiked)


def spike_functions(columns: Marginals, spikes: Sequence[Spike]) -> tuple[Array, Array, Array]:
    """Return the cells of spikes as functions, (lines, spikes, cells), with their shares and the noise of these."""
    most = max(len(spike.places) for spike in spikes)
    functions = np.zeros((columns.count, most, columns.masses.shape[1]))
    shares, noise = np.zeros((2, columns.count, most))
    noise += UNKNOWN
    for spike in spikes:
        line, count = spike.coordinate, np.arange(len(spike.places))
        functions[line, count, _cells_at(columns.places[line], columns.base[line], spike.places)] = 1.0
        shares[line, count], noise[line, count] = spike.shares, spike.noise
    return functions, shares, noise


def _cells_at(places: Array, base: Array, wanted: Array) -> NDArray[np.intp]:
    used = np.flatnonzero(base > 0.0)
    return np.array([used[np.abs(places[used] - place).argmin()] for place in wanted])
