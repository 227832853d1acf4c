"""One density for each coordinate, on a public grid, and the flattest one that agrees with noisy moments.

For each coordinate on its own, with base density p0 and functions F_k,

    minimise  KL(p || p0) + sum_k (E_p F_k - b_k)^2 / (2 s_k^2),      p ~ p0 exp(lambda . F)

by Newton's method on the dual, all coordinates at once. Every density keeps some mass wherever its base has some.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]

# Half of the grid is even, half is denser towards the bounds, where many columns pile up.
_EVEN = 257
_CROWDED = 256
_MOST_STEPS = 60
_TINY = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Masses on cells, one line for each coordinate; lines with fewer cells are filled up with empty ones.

    `places` are the centres of the cells, `edges` their ends. In an `exact` line the places are the only values.
    """

    places: Array
    edges: Array
    base: Array
    masses: Array
    exact: NDArray[np.bool_]
    converged: bool = True
    steps: int = 0

    @property
    def count(self) -> int:
        """How many coordinates there are."""
        return len(self.masses)

    def means(self) -> Array:
        """Return the mean of each coordinate."""
        return np.einsum("dg,dg->d", self.masses, self.places)

    def deviations(self) -> Array:
        """Return the standard deviation of each coordinate, never quite zero."""
        squares = np.einsum("dg,dg->d", self.masses, self.places**2)
        return np.sqrt(np.maximum(squares - self.means() ** 2, 1e-6))

    def mixed(self, share: float) -> Columns:
        """Return the densities with a share of the base mixed in, so that no place is impossible."""
        return replace(self, masses=(1.0 - share) * self.masses + share * self.base)

    def middles(self) -> Array:
        """Return the distribution function at the middle of each cell."""
        return np.cumsum(self.masses, axis=1) - self.masses / 2.0

    def probabilities(self, coordinate: int, values: Array) -> Array:
        """Return the distribution function of one coordinate; at a value of an exact line, halfway up its step."""
        if self.exact[coordinate]:
            used = self.base[coordinate] > 0.0
            return np.interp(values, self.places[coordinate][used], self.middles()[coordinate][used])
        return np.interp(values, self.edges[coordinate], self._cumulated(coordinate))

    def quantiles(self, coordinate: int, levels: Array) -> Array:
        """Return quantiles of one coordinate, evenly spread inside a cell."""
        if self.exact[coordinate]:
            cell = np.searchsorted(self._cumulated(coordinate)[1:-1], levels, side="right")
            return self.places[coordinate][cell]
        return np.interp(levels, self._cumulated(coordinate), self.edges[coordinate])

    def _cumulated(self, coordinate: int) -> Array:
        total = np.concatenate([[0.0], np.cumsum(self.masses[coordinate])])
        return total / total[-1]


def flat_columns(schema: Schema) -> Columns:
    """Return flat densities on the cells of each coordinate: the values it can take, or a fine grid."""
    fine = _fine_grid()
    lines = list(_lines(schema, fine))
    width = max(len(places) for places, _ in lines)
    places, edges = np.ones((len(lines), width)), np.ones((len(lines), width + 1))
    base = np.zeros((len(lines), width))
    for line, (centres, ends) in enumerate(lines):
        places[line, : len(centres)], edges[line, : len(ends)] = centres, ends
        # A value of a column that has few counts once; a cell of the fine grid counts by its width.
        base[line, : len(centres)] = np.diff(ends) / 2.0 if len(centres) == len(fine) else 1.0 / len(centres)
    return Columns(places, edges, base, base, np.array([len(centres) < len(fine) for centres, _ in lines]))


def tilt(columns: Columns, functions: Array, values: Array, scale: Array, *, base: Array | None = None) -> Columns:
    """Tilt the base (default: the current densities) until the means of the functions agree with `values`.

    functions: (coordinates, functions, cells); values and scale: (coordinates, functions).
    """
    start = columns.masses if base is None else base
    dual = _Tilt(functions, values, scale**2, np.log(np.maximum(start, _TINY)), start > 0.0)
    masses, converged, steps = dual.solve()
    return replace(columns, masses=masses, converged=columns.converged and converged, steps=columns.steps + steps)


def _fine_grid() -> Array:
    crowded = np.cos((2.0 * np.arange(_CROWDED) + 0.5) * np.pi / (2 * _CROWDED))
    return np.unique(np.concatenate([np.linspace(-1.0, 1.0, _EVEN), crowded]))


def _lines(schema: Schema, fine: Array) -> Iterator[tuple[Array, Array]]:
    for column in schema.columns.values():
        levels = column.levels(len(fine) - 1)
        centres = fine if levels is None else levels
        ends = np.concatenate([[-1.0], (centres[1:] + centres[:-1]) / 2.0, [1.0]])
        for _ in range(column.dimensions):
            yield centres, ends


@dataclass(frozen=True, slots=True, eq=False)
class _Tilt:
    """The dual: for each coordinate  log sum p0 exp(lambda . F) - lambda . b + sum s^2 lambda^2 / 2."""

    functions: Array
    values: Array
    penalty: Array
    log_base: Array
    possible: NDArray[np.bool_]

    def solve(self) -> tuple[Array, bool, int]:
        dual = np.zeros_like(self.values)
        objective, masses = self._at(dual)
        for taken in range(1, _MOST_STEPS + 1):
            step, slope = self._newton(dual, masses)
            if float(-slope.min()) < 1e-9:
                return masses, True, taken
            dual, objective, masses = self._descend(dual, step, slope, objective)
        return masses, False, _MOST_STEPS

    def _at(self, dual: Array) -> tuple[Array, Array]:
        logits = np.where(self.possible, self.log_base + np.einsum("dq,dqg->dg", dual, self.functions), -np.inf)
        top = logits.max(axis=1, keepdims=True)
        masses = np.exp(logits - top)
        total = masses.sum(axis=1, keepdims=True)
        value = (top + np.log(total))[:, 0] - np.sum(dual * self.values, axis=1)
        return value + 0.5 * np.sum(self.penalty * dual**2, axis=1), masses / total

    def _newton(self, dual: Array, masses: Array) -> tuple[Array, Array]:
        weighted = self.functions * masses[:, None, :]
        means = weighted.sum(axis=2)
        hessian = np.matmul(weighted, self.functions.transpose(0, 2, 1)) - means[:, :, None] * means[:, None, :]
        diagonal = np.arange(dual.shape[1])
        hessian[:, diagonal, diagonal] += self.penalty + 1e-12
        gradient = means - self.values + self.penalty * dual
        step = -np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        return step, np.sum(gradient * step, axis=1)

    def _descend(self, dual: Array, step: Array, slope: Array, objective: Array) -> tuple[Array, Array, Array]:
        size = np.ones(len(dual))
        trial, value, masses = dual, objective, np.empty(0)
        for _ in range(30):
            trial = dual + size[:, None] * step
            value, masses = self._at(trial)
            worse = value > objective + 1e-4 * size * slope + 1e-12
            if not worse.any():
                break
            size[worse] /= 2.0
        return trial, value, masses
