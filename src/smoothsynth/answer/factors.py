"""What the factors of measured features are at some rows: polynomials, soft counts or waves of a coordinate, made once."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from smoothsynth.queries.bases import LATTICE, WAVES, count_values, waves_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.transformation import View

    Array = NDArray[np.float64]


class ChebyshevTable:
    """T_0, T_1, ... of each coordinate of some points, by the recurrence, as far as they were asked for."""

    def __init__(self, points: Array) -> None:
        self._points = np.ascontiguousarray(points.T)
        self._known: dict[int, list[Array]] = {}

    def of(self, coordinate: int, degree: int) -> Array:
        """Return T_degree of one coordinate:  T_{k+1} = 2 x T_k - T_{k-1}."""
        x = self._points[coordinate]
        known = self._known.setdefault(coordinate, [np.ones_like(x), x])
        while len(known) <= degree:
            known.append(2.0 * x * known[-1] - known[-2])
        return known[degree]


class CountTable:
    """The soft counts of each coordinate of some points, as far as they were asked for."""

    def __init__(self, points: Array, counts: int) -> None:
        self._points, self._counts = points, counts
        self._known: dict[int, Array] = {}

    def of(self, coordinate: int, number: int) -> Array:
        """Return one count of one coordinate."""
        if coordinate not in self._known:
            self._known[coordinate] = count_values(self._points[:, coordinate], self._counts)
        return self._known[coordinate][number - 1]


class WaveTable:
    """The waves of each coordinate of some points: the view has made them already, those of one next to each other."""

    def __init__(self, points: Array) -> None:
        self._points = points

    def of(self, coordinate: int, number: int) -> Array:
        """Return one wave of one coordinate, the first or the second."""
        return self._points[:, WAVES * coordinate + number - 1]


class BentTable:
    """The same of points that a view bends and does not cut: column by column, as far as they were asked for."""

    def __init__(self, points: Array, view: View) -> None:
        self._points, self._view = points, view
        self._known: dict[int, FactorTable] = {}

    def of(self, coordinate: int, number: int) -> Array:
        """Return one factor of one coordinate."""
        if coordinate not in self._known:
            bent = self._view.bend(coordinate, np.rint(self._points[:, coordinate] * LATTICE))[None]
            seen = waves_of(bent) if self._view.waves else bent
            self._known[coordinate] = table_of(seen.T / LATTICE, self._view)
        return self._known[coordinate].of(0, number)


FactorTable: TypeAlias = ChebyshevTable | CountTable | WaveTable | BentTable


def table_of(seen: Array, view: View | None) -> FactorTable:
    """Return what the factors of features are at points that are already seen through a view."""
    if view is not None and view.waves:
        return WaveTable(seen)
    return ChebyshevTable(seen) if view is None or view.counts is None else CountTable(seen, view.counts)


def feature_values(feature: Feature, table: FactorTable) -> Array:
    """Return one feature at points that are already seen through its view."""
    terms = (reduce(np.multiply, [table.of(c, k) for c, k in term]) for term in feature.terms)
    return np.asarray(sum(terms) / len(feature.terms))
