"""Rounds of discovery, their plan and their outcome.

The search for all private bounds of a schema, round by round, and what each round measures.

What a search has released: noisy counts, and the schema that follows from them.

What finding private bounds, levels and codes costs, before any data: measurements, and the budget that is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from smoothsynth.accounting.charges import (
    Budget,
    gaussian_epsilon,
    gaussian_multiplier,
    split_delta,
    split_epsilon,
    split_multiplier,
)
from smoothsynth.discovery.bounds import ROUNDS, STEPS, BoundsSearch, hidden_rows, needed_rows
from smoothsynth.discovery.codes import clear_lead, count_pairs, found_codes, recount
from smoothsynth.discovery.levels import LevelsMeasurement, NoisyLevels
from smoothsynth.errors import PlanError, ReleaseError
from smoothsynth.queries.bases import term_feature
from smoothsynth.queries.measurement import Measurement, NoisyMoments
from smoothsynth.schema import Schema
from smoothsynth.schema.category import Intervals
from smoothsynth.schema.unresolved import closed, open_bounds, open_codes, open_levels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from smoothsynth.accounting.charges import Charge
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
        transformation=None,
        exclusive=schema.exclusive,
        binary=schema.binary,
    )


@dataclass(frozen=True, slots=True)
class Found:
    """The schema as it was asked for, with private facts, and the noisy counts that were released to find them."""

    asked: Schema
    levels: tuple[NoisyLevels, ...] = ()
    rounds: tuple[NoisyMoments, ...] = ()
    codes: NoisyMoments | None = None

    @property
    def noisy(self) -> tuple[NoisyLevels | NoisyMoments, ...]:
        """All noisy counts, in the order in which they were released."""
        return (*self.levels, *self.rounds, *(() if self.codes is None else (self.codes,)))

    @property
    def measurements(self) -> tuple[LevelsMeasurement | Measurement, ...]:
        """What was measured, in order."""
        return tuple(noisy.measurement for noisy in self.noisy)

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
        return closed(self.asked, {**columns, **search.found(rows)}, self._codes())

    def _codes(self) -> dict[str, dict[str, object]]:
        """Return the codes that follow from the counts of pairs; counts of anything else are refused."""
        if self.codes is None and not open_codes(self.asked):
            return {}
        if (
            self.codes is None
            or not open_codes(self.asked)
            or self.codes.measurement != recount(self.asked, self.codes)
        ):
            raise ReleaseError("The private codes of a release must follow from counts of their pairs; they do not.")
        return found_codes(self.asked, self.codes)

    def remarks(self) -> list[str]:
        """Say of each column of which nothing was found what it has instead."""
        said = [noisy.remark for noisy in self.levels] + [column.remark for column in self.search().columns]
        return [text for text in said if text is not None]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for moments.json."""
        return {
            "asked": self.asked.facts(),
            "levels": [noisy.as_dict() for noisy in self.levels],
            "rounds": [noisy.as_dict() for noisy in self.rounds],
            **({} if self.codes is None else {"codes": self.codes.as_dict()}),
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Found:
        """Read what `as_dict` wrote."""
        return cls(
            Schema.from_facts(facts["asked"]),
            tuple(NoisyLevels.from_dict(noisy) for noisy in facts["levels"]),
            tuple(NoisyMoments.from_dict(noisy) for noisy in facts["rounds"]),
            NoisyMoments.from_dict(facts["codes"]) if "codes" in facts else None,
        )

    def after_levels(self, noisy: NoisyLevels) -> Found:
        """Return it with the levels of one more column."""
        return replace(self, levels=(*self.levels, noisy))

    def after_round(self, noisy: NoisyMoments) -> Found:
        """Return it with one more round of the bounds."""
        return replace(self, rounds=(*self.rounds, noisy))

    def after_codes(self, noisy: NoisyMoments) -> Found:
        """Return it with the counts of pairs that show the codes."""
        return replace(self, codes=noisy)


# The share of each round: the first must find anything at all.
ROUND_SHARES = (0.4, 0.3, 0.3)
# The share of delta for levels: their threshold grows with its logarithm only.
LEVELS_DELTA = 0.1
# A plan says so if more than this share of all rows is needed between two powers of two.
DOUBTFUL = 0.1
_REMEDY = "Declare public ones where you can, or give a larger epsilon, bounds_share, levels_share or codes_share."


@dataclass(frozen=True, slots=True)
class Discovery:
    """What will be measured to find private levels, bounds and codes, and the budget that is left after it."""

    levels: tuple[LevelsMeasurement, ...]
    rounds: tuple[Measurement, ...]
    searched: tuple[str, ...]
    rest: Budget
    bounds_share: float
    levels_share: float
    codes: Measurement | None = None
    coded: tuple[str, ...] = ()
    codes_share: float = 0.0

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What will be charged, in order."""
        codes = () if self.codes is None else (self.codes,)
        return (*(m.charge() for m in self.levels), *(m.charge() for m in (*self.rounds, *codes)))

    @property
    def needed(self) -> int:
        """How many rows must share a place (two powers of two, a level, or a level and its code) to be found."""
        found = [m.threshold for m in self.levels] + ([] if self.codes is None else [clear_lead(self.codes)])
        if self.rounds:
            first = self.rounds[0]
            widest = max(len(group) for group in first.exclusive)
            found.append(needed_rows(first.charge(), widest, len(self.searched)))
        return max(found)

    def sentences(self, rows: int) -> list[str]:
        """Say what the search can do, and where it may fail."""
        said = []
        if self.rounds:
            first, last = self.rounds[0], self.rounds[-1]
            needed = needed_rows(first.charge(), max(len(group) for group in first.exclusive), len(self.searched))
            said.append(
                f"Private bounds ({', '.join(self.searched)}), for {self.bounds_share:.2g} of the budget: found where about "
                f"{needed:,} rows lie between two powers of two; about {hidden_rows(last.charge()):,} rows beyond each "
                "bound may be clipped."
            )
        said += [
            f"Private levels of {m.column!r}, for {self.levels_share / len(self.levels):.2g} of the budget: values in about "
            f"{m.threshold:,} rows or more; all others count at `other`."
            for m in self.levels
        ]
        if self.codes is not None:
            said.append(
                f"Private codes ({', '.join(self.coded)}), for {self.codes_share:.2g} of the budget: right where about "
                f"{clear_lead(self.codes):,} rows more have the code of a level than any other; of rarer levels, noise may "
                "choose the code."
            )
        if self.needed > rows:
            said.append(f"That is more than all rows, {rows:,}: a release will be refused. {_REMEDY}")
        elif self.needed > DOUBTFUL * rows:
            said.append(
                f"That is {self.needed / rows:.0%} of all rows, so the search may find nothing, or what is wrong: cells are "
                f"at `other` then, and bounds are a guess. {_REMEDY}"
            )
        return said

    def refuse(self, rows: int) -> None:
        """Raise PlanError if so few rows cannot show anything."""
        if self.needed > rows:
            raise PlanError(
                f"Private bounds, levels and codes need about {self.needed:,} rows that lie close together to be found at "
                f"this budget; the table has {rows:,} in all. {_REMEDY} Nothing was spent."
            )


def plan_discovery(
    schema: Schema,
    budget: Budget,
    *,
    bounds_share: float,
    levels_share: float,
    codes_share: float = 0.1,
    rows_per_person: int,
    averaged: int = 1,
    gaussian: bool,
) -> Discovery | None:
    """Plan how private facts are found, with Gaussian or with Laplace noise; None if there are none.

    Shares are those of epsilon under Laplace noise, and those of 1/multiplier^2 under Gaussian noise.
    """
    bounds, categories, coded = (tuple(found(schema)) for found in (open_bounds, open_levels, open_codes))
    if not bounds and not categories and not coded:
        return None
    together = max(rows_per_person, averaged)
    levels, rest = _levels(categories, budget, share=levels_share, rows_per_person=together, gaussian=gaussian)
    shares = {"bounds_share": bounds_share} if bounds else {}
    shares |= {"codes_share": codes_share} if coded else {}
    costs, rest = _divided(rest, shares, gaussian=gaussian)
    rounds = tuple(
        replace(one, averaged=averaged)
        for one in (planned_rounds(schema, costs[:ROUNDS], rows_per_person=rows_per_person) if bounds else ())
    )
    pairs = count_pairs(schema, costs[-1], rows_per_person=rows_per_person, averaged=averaged) if coded else None
    return Discovery(levels, rounds, bounds, rest, bounds_share, levels_share, pairs, coded, codes_share)


def _divided(budget: Budget, shares: Mapping[str, float], *, gaussian: bool) -> tuple[list[dict[str, float]], Budget]:
    """Return the costs of the rounds of bounds, if those have a share, and of codes, if they have one; and the rest."""
    for name, share in shares.items():
        _check_share(name, share)
    if not shares:
        return [], budget
    if (left := 1.0 - sum(shares.values())) <= 0.0:
        raise PlanError("bounds_share and codes_share must leave some of the budget for all else; they do not.")
    parts = [s * part for name, s in shares.items() for part in (ROUND_SHARES if name == "bounds_share" else (1.0,))]
    if gaussian:
        *multipliers, rest = split_multiplier(gaussian_multiplier(budget.epsilon, budget.delta), [*parts, left])
        kept = Budget(gaussian_epsilon(rest, budget.delta), budget.delta)
        return [{"multiplier": multiplier} for multiplier in multipliers], kept
    *epsilons, rest = split_epsilon(budget.epsilon, [*parts, left])
    return [{"epsilon": epsilon} for epsilon in epsilons], Budget(rest)


def _levels(
    names: tuple[str, ...], budget: Budget, *, share: float, rows_per_person: int, gaussian: bool
) -> tuple[tuple[LevelsMeasurement, ...], Budget]:
    if not names:
        return (), budget
    _check_share("levels_share", share)
    if not budget.delta:
        raise PlanError(
            f"Private levels (column {names[0]!r}) need delta > 0: a value that one person has is shown with that "
            "probability. Give a delta of at most 1/(100 rows), or declare the levels."
        )
    if rows_per_person > 1:
        raise PlanError(
            f"Private levels (column {names[0]!r}) protect single rows, and rows_per_person is {rows_per_person}. Declare "
            "the levels; or name each person's id in the schema, with rows_per_person=1."
        )
    shares = [*[share / len(names)] * len(names), 1.0 - share]
    own, rest = split_delta(budget.delta, LEVELS_DELTA)
    each = own / len(names)
    if gaussian:
        *multipliers, left = split_multiplier(gaussian_multiplier(budget.epsilon, rest), shares)
        made = [LevelsMeasurement(name, None, each, m) for name, m in zip(names, multipliers, strict=True)]
        return tuple(made), Budget(gaussian_epsilon(left, rest), rest)
    *epsilons, left = split_epsilon(budget.epsilon, shares)
    made = [LevelsMeasurement(name, epsilon, each) for name, epsilon in zip(names, epsilons, strict=True)]
    return tuple(made), Budget(left, rest)


def _check_share(name: str, share: object) -> None:
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0.0 < share < 1.0:
        raise PlanError(f"{name} must be a number between 0 and 1, not {share!r:.40}.")
