"""What a search has released: noisy counts, and the schema that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from smoothsynth.discovery.levels import NoisyLevels
from smoothsynth.discovery.search import Search
from smoothsynth.errors import ReleaseError
from smoothsynth.queries.measurement import NoisyMoments
from smoothsynth.schema import Schema
from smoothsynth.schema.unresolved import closed, open_levels

if TYPE_CHECKING:
    from smoothsynth.accounting.charges import Charge
    from smoothsynth.discovery.levels import LevelsMeasurement
    from smoothsynth.queries.measurement import Measurement
    from smoothsynth.schema import Column


@dataclass(frozen=True, slots=True)
class Found:
    """The schema as it was asked for, with private facts, and the noisy counts that were released to find them."""

    asked: Schema
    levels: tuple[NoisyLevels, ...] = ()
    rounds: tuple[NoisyMoments, ...] = ()

    @property
    def measurements(self) -> tuple[LevelsMeasurement | Measurement, ...]:
        """What was measured, in order."""
        return (*(noisy.measurement for noisy in self.levels), *(noisy.measurement for noisy in self.rounds))

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What that cost, in order."""
        return tuple(measurement.charge() for measurement in self.measurements)

    def search(self) -> Search:
        """Go through the rounds again; one that counted in other intervals than follow from those before is refused."""
        search = Search.of(self.asked)
        for number, noisy in enumerate(self.rounds, start=1):
            measured = noisy.measurement
            if search.over or measured.mechanism == "cube" or measured != search.measurement(measured):
                raise ReleaseError(
                    f"Round {number} of the bounds does not count what follows from the rounds before it."
                )
            search = search.after(noisy)
        return search

    def schema(self) -> Schema:
        """Return the schema that follows, to the bit, from the noisy counts."""
        search, wanted = self.search(), open_levels(self.asked)
        if not search.over or [noisy.measurement.column for noisy in self.levels] != list(wanted):
            raise ReleaseError("The private bounds and levels of a release must all have been counted; they were not.")
        columns: dict[str, Column] = {n.measurement.column: n.closed(wanted[n.measurement.column]) for n in self.levels}
        rows = self.rounds[0].rows if self.rounds else 1
        return closed(self.asked, {**columns, **search.found(rows)})

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for moments.json."""
        return {
            "asked": self.asked.facts(),
            "levels": [noisy.as_dict() for noisy in self.levels],
            "rounds": [noisy.as_dict() for noisy in self.rounds],
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Found:
        """Read what `as_dict` wrote."""
        return cls(
            Schema.from_facts(facts["asked"]),
            tuple(NoisyLevels.from_dict(noisy) for noisy in facts["levels"]),
            tuple(NoisyMoments.from_dict(noisy) for noisy in facts["rounds"]),
        )

    def after_levels(self, noisy: NoisyLevels) -> Found:
        """Return it with the levels of one more column."""
        return replace(self, levels=(*self.levels, noisy))

    def after_round(self, noisy: NoisyMoments) -> Found:
        """Return it with one more round of the bounds."""
        return replace(self, rounds=(*self.rounds, noisy))
