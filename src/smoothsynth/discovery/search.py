"""The search for all private bounds of a schema, round by round, and what each round measures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from smoothsynth.discovery.bounds import ROUNDS, BoundsSearch
from smoothsynth.discovery.grids import STEPS
from smoothsynth.queries.bases import term_feature
from smoothsynth.queries.measurement import Measurement
from smoothsynth.schema import Schema
from smoothsynth.schema.category import Intervals
from smoothsynth.schema.unresolved import open_bounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.schema import Column


@dataclass(frozen=True, slots=True)
class Search:
    """How far the search is, in each column with a private bound."""

    columns: tuple[BoundsSearch, ...]
    done: int = 0

    @classmethod
    def of(cls, schema: Schema) -> Search:
        """Begin the search for the private bounds of a schema."""
        wanted = open_bounds(schema)
        return cls(tuple(BoundsSearch.of(name, column, len(wanted)) for name, column in wanted.items()))

    @property
    def over(self) -> bool:
        """Whether there is nothing more to measure."""
        return not self.columns or self.done == ROUNDS

    @property
    def schema(self) -> Schema:
        """The columns as what is counted next: the interval that each value lies in."""
        return _measured({column.name: column.intervals for column in self.columns})

    def measurement(self, noise: Measurement) -> Measurement:
        """Return what the next round measures, with the noise of a planned round."""
        names = [column.name for column in self.columns]
        return replace(_counting(self.schema, noise), purpose=_purpose(names, self.done + 1))

    def after(self, noisy: NoisyMoments) -> Search:
        """Return the search after a round."""
        schema, charge = self.schema, noisy.measurement.charge()
        places = [schema.coordinates_of(column.name) for column in self.columns]
        pairs = zip(self.columns, places, strict=True)
        return Search(tuple(column.after(noisy.integers[place], charge) for column, place in pairs), self.done + 1)

    def found(self, rows: int) -> dict[str, Column]:
        """Return the columns with the bounds that were found."""
        return {column.name: column.closed(rows) for column in self.columns}


def planned_rounds(schema: Schema, costs: list[dict[str, float]], *, rows_per_person: int) -> tuple[Measurement, ...]:
    """Return the rounds of a search before any is made: later ones have as many intervals wherever those will be.

    `costs` has the epsilon or the multiplier of each round.
    """
    first = Search.of(schema)
    names = [column.name for column in first.columns]
    steps = tuple(map(float, range(STEPS + 1)))
    later = _measured({column.name: Intervals(steps, column.column.kind) for column in first.columns})
    rounds = []
    for number, cost in enumerate(costs, start=1):
        noise = Measurement(
            purpose=_purpose(names, number),
            features=(term_feature((0, 1)),),
            mechanism="discrete gaussian" if "multiplier" in cost else "discrete laplace",
            epsilon=cost.get("epsilon"),
            multiplier=cost.get("multiplier"),
            rows_per_person=rows_per_person,
        )
        rounds.append(_counting(first.schema if number == 1 else later, noise))
    return tuple(rounds)


def _purpose(names: list[str], number: int) -> str:
    which = f"column {names[0]!r}" if len(names) == 1 else f"{len(names)} columns"
    return f"the bounds of {which}, round {number} of {ROUNDS}"


def _measured(columns: Mapping[str, Intervals]) -> Schema:
    # Intervals are no columns of a release, but they are measured like categories.
    return Schema(cast("Mapping[str, Column]", columns))


def _counting(schema: Schema, noise: Measurement) -> Measurement:
    """Measure each interval of each column; a row lies in at most one of each."""
    return replace(
        noise,
        features=tuple(term_feature((c, 1)) for c in range(schema.dimensions)),
        weights=(),
        view=None,
        exclusive=schema.exclusive,
        binary=schema.binary,
    )
