"""What finding private bounds and levels costs, before any data: measurements, and the budget that is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothsynth.accounting.charges import (
    Budget,
    gaussian_epsilon,
    gaussian_multiplier,
    split_delta,
    split_epsilon,
    split_multiplier,
)
from smoothsynth.discovery.bounds import ROUNDS, hidden_rows, needed_rows
from smoothsynth.discovery.levels import LevelsMeasurement
from smoothsynth.discovery.search import planned_rounds
from smoothsynth.errors import PlanError
from smoothsynth.schema.unresolved import open_bounds, open_levels

if TYPE_CHECKING:
    from smoothsynth.accounting.charges import Charge
    from smoothsynth.queries.measurement import Measurement
    from smoothsynth.schema import Schema

# The share of each round: the first must find anything at all.
ROUND_SHARES = (0.4, 0.3, 0.3)
# The share of delta for levels: their threshold grows with its logarithm only.
LEVELS_DELTA = 0.1
# A plan says so if more than this share of all rows is needed between two powers of two.
DOUBTFUL = 0.1
_REMEDY = "Declare public ones where you can, or give a larger epsilon, bounds_share or levels_share."


@dataclass(frozen=True, slots=True)
class Discovery:
    """What will be measured to find private levels and bounds, and the budget that is left after it."""

    levels: tuple[LevelsMeasurement, ...]
    rounds: tuple[Measurement, ...]
    searched: tuple[str, ...]
    rest: Budget
    bounds_share: float
    levels_share: float

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What will be charged, in order."""
        return (*(m.charge() for m in self.levels), *(m.charge() for m in self.rounds))

    @property
    def needed(self) -> int:
        """How many rows must share a place (two powers of two, or a level) to be found."""
        found = [m.threshold for m in self.levels]
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
            f"Private levels of {m.column!r}, for {self.levels_share / len(self.levels):.2g} of epsilon: values in about "
            f"{m.threshold:,} rows or more; all others count at `other`."
            for m in self.levels
        ]
        if self.needed > rows:
            said.append(f"That is more than all rows, {rows:,}: a release will be refused. {_REMEDY}")
        elif self.needed > DOUBTFUL * rows:
            said.append(
                f"That is {self.needed / rows:.0%} of all rows, so the search may find nothing, and its cost is spent then. "
                f"{_REMEDY}"
            )
        return said

    def refuse(self, rows: int) -> None:
        """Raise PlanError if so few rows cannot show anything."""
        if self.needed > rows:
            raise PlanError(
                f"Private bounds and levels need about {self.needed:,} rows that lie close together to be found at this "
                f"budget; the table has {rows:,} in all. {_REMEDY} Nothing was spent."
            )


def plan_discovery(
    schema: Schema,
    budget: Budget,
    *,
    bounds_share: float,
    levels_share: float,
    rows_per_person: int,
    gaussian: bool,
) -> Discovery | None:
    """Plan how private facts are found, with Gaussian or with Laplace noise; None if there are none.

    Shares are those of epsilon for levels and under Laplace noise, and those of 1/multiplier^2 under Gaussian noise.
    """
    bounds, categories = tuple(open_bounds(schema)), tuple(open_levels(schema))
    if not bounds and not categories:
        return None
    levels, rest = _levels(categories, budget, share=levels_share, rows_per_person=rows_per_person)
    if not bounds:
        return Discovery(levels, (), (), rest, bounds_share, levels_share)
    _check_share("bounds_share", bounds_share)
    shares = [*(bounds_share * share for share in ROUND_SHARES), 1.0 - bounds_share]
    costs: list[dict[str, float]]
    if gaussian:
        *multipliers, left = split_multiplier(gaussian_multiplier(rest.epsilon, rest.delta), shares)
        costs = [{"multiplier": multiplier} for multiplier in multipliers]
        rest = Budget(gaussian_epsilon(left, rest.delta), rest.delta)
    else:
        *epsilons, left = split_epsilon(rest.epsilon, shares)
        costs, rest = [{"epsilon": epsilon} for epsilon in epsilons], Budget(left)
    if len(costs) != ROUNDS:
        raise AssertionError("one share for each round")
    rounds = planned_rounds(schema, costs, rows_per_person=rows_per_person)
    return Discovery(levels, rounds, bounds, rest, bounds_share, levels_share)


def _levels(
    names: tuple[str, ...], budget: Budget, *, share: float, rows_per_person: int
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
            "the levels."
        )
    *epsilons, left = split_epsilon(budget.epsilon, [*[share / len(names)] * len(names), 1.0 - share])
    own, rest = split_delta(budget.delta, LEVELS_DELTA)
    made = [LevelsMeasurement(name, epsilon, own / len(names)) for name, epsilon in zip(names, epsilons, strict=True)]
    return tuple(made), Budget(left, rest)


def _check_share(name: str, share: object) -> None:
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0.0 < share < 1.0:
        raise PlanError(f"{name} must be a number between 0 and 1, not {share!r:.40}.")
