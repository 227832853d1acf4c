"""Sums of levels: it is enough to count how often each place among the levels of a column occurs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smoothsynth.queries.bases import LATTICE
from smoothsynth.schema import Category
from smoothsynth.schema.category import Intervals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Feature, Term
    from smoothsynth.queries.transformation import View
    from smoothsynth.schema import Column


def only_levels(features: Iterable[Feature], view: View | None, columns: Iterable[Column]) -> bool:
    """Whether the features are just levels of categories or intervals, each by itself."""
    plain = all(len(term) == 1 and term[0][1] == 1 for feature in features for term in feature.terms)
    return view is None and plain and all(isinstance(column, (Category, Intervals)) for column in columns)


class Tallies:
    """How often each place among the levels of each column occurred in the rows added so far. One thread only."""

    __slots__ = ("_columns", "_owners", "_tallies")

    def __init__(
        self, coordinates: Sequence[int], owners: Sequence[tuple[str, int]], columns: dict[str, Column]
    ) -> None:
        names = [name for name, _ in owners]
        # One array is given for each coordinate: the first of a column is that of all its levels.
        self._columns = {names.index(name): name for name in columns}
        self._owners = dict(zip(coordinates, owners, strict=True))
        self._tallies = {name: np.zeros(column.dimensions + 1, dtype=np.int64) for name, column in columns.items()}

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Sums of private rows cannot be copied or pickled.")

    def add_columns(self, columns: Sequence[NDArray[Any]], rows: int) -> None:
        """Count the rows given as places among the levels, -1 for none."""
        for position, name in self._columns.items():
            tally = self._tallies[name]
            tally += np.bincount(columns[position][:rows].astype(np.intp) + 1, minlength=len(tally))

    def sums(self, terms: Iterable[Term]) -> dict[Term, int]:
        """Return the sum of each level over all rows, in units of S."""
        found = {}
        for term in terms:
            name, place = self._owners[term[0][0]]
            found[term] = int(self._tallies[name][place + 1]) * LATTICE
        return found
