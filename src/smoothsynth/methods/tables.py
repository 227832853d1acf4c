"""The rounds of tables: how many, of how many cells, for which share of the budget; from n, d and the budget alone.

With u the noise of a cell of one table that has the whole budget, as a share of the rows, K tables that share w of it have

    s = u (K / w)^p,     p = 1/2 under (epsilon, delta), 1 under pure epsilon

A table of m cells is off by about  sqrt(2/pi) s m  in all through noise. Numbers have as many hat functions as keep
that within NOISE: so noise and what is left out fall together as n grows.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothsynth.methods.layout import tables_purpose
from smoothsynth.queries.measurement import Measurement
from smoothsynth.queries.selection import TableSelection
from smoothsynth.queries.soft_tables import SoftTables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from smoothsynth.methods.layout import Shape

    Sets = tuple[tuple[int, ...], ...]


# The share of a pure budget that tables have (FOCUSES has that under epsilon and delta), and the part that chooses them.
SHARE, CHOOSING = 0.36, 0.15
# Tables are measured if noise leaves them so many cells, and numbers have at most so many hat functions.
FEWEST_CELLS, MOST_HATS = {2: 16, 3: 50}, {2: 32, 3: 16}
NOISE = {2: 0.07, 3: 0.125}
# As many tables of two and of three columns as there are columns, but not fewer than these where there are so many.
FEWEST = {2: 6, 3: 4}
# Tables are chosen in so many rounds of each kind.
ROUNDS = 2
# More columns than this have no tables of three columns, or of two.
MOST_COLUMNS = {2: 200, 3: 40}
# A table through whose noise more than this is wrong, or with more cells, is no candidate.
MOST_NOISE, MOST_CELLS = 3.0, 2**14
# Values that many rows share are looked for with as large a share as keeps the noise of a value at SPIKE_NOISE, within these
# limits; not at all where it would be more than DROWNED_SPIKES: then none below a tenth of the rows stands out.
LEAST_SPIKES, MOST_SPIKES, SPIKE_NOISE, DROWNED_SPIKES = 0.02, 0.05, 0.004, 0.025


@dataclass(frozen=True, slots=True)
class TableRound:
    """Tables of `order` columns that are measured together: `count` of them, chosen among `candidates` if those are more."""

    order: int
    count: int
    hats: int
    candidates: Sets

    @property
    def chosen(self) -> bool:
        """Whether some of the candidates are chosen."""
        return len(self.candidates) > self.count

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of choosing, if there is a choice, and of measuring, in units of one table."""
        return (self.count * CHOOSING / (1.0 - CHOOSING), float(self.count)) if self.chosen else (float(self.count),)

    def measurement(self, shape: Shape, costs: Sequence[float], *, pure: bool, rows_per_person: int) -> Measurement:
        """Return the measurement at these costs: multipliers, or epsilons if `pure`."""
        family = SoftTables(shape.table_columns(self.hats), self.order)
        kind = "epsilon" if pure else "multiplier"
        cost: dict[str, Any] = {kind: costs[-1]}
        choosing: dict[str, Any] = {kind: costs[0]}
        return Measurement(
            purpose=tables_purpose(self.count, self.order),
            features=family.cells(self.candidates),
            mechanism="discrete laplace" if pure else "discrete gaussian",
            rows_per_person=rows_per_person,
            transformation=shape.straight(family),
            choice=TableSelection(self.count, rows_per_person=rows_per_person, **choosing) if self.chosen else None,
            **cost,
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a user asks of tables: how many, None for as many as are worth it; columns that all of them hold; or the sets."""

    count: int | None = None
    target: tuple[int, ...] = ()
    workload: Sets = ()

    def sets(self, columns: int, order: int) -> Iterator[tuple[int, ...]]:
        """Yield the sets of so many columns that may be measured."""
        if self.workload:
            wide = (table for table in self.workload if len(table) >= order)
            yield from dict.fromkeys(part for table in wide for part in itertools.combinations(table, order))
            return
        for table in itertools.combinations(range(columns), order):
            if not self.target or set(self.target).intersection(table):
                yield table


def plan_tables(shape: Shape, unit: float, *, power: float, wanted: Wanted, share: float = SHARE) -> list[TableRound]:
    """Return the rounds of tables that noise allows: of pairs, and of triples if those are clear; none if nothing is.

    `unit` is the noise of one table with all of the budget, `power` how noise grows with the number of tables, `share`
    what they have of the budget.
    """
    if shape.columns < 2 or wanted.count == 0:
        return []
    candidates = {order: _candidates(shape, order, wanted) for order in (2, 3)}
    for counts in _counts(shape, candidates, wanted):
        noise = unit * (sum(counts.values()) / (share * (1.0 - CHOOSING))) ** power
        cells = {order: _cells_left(noise, order) for order in counts}
        if all(cells[order] >= FEWEST_CELLS[order] for order in counts) or wanted.count or wanted.workload:
            made = [
                part
                for order, count in counts.items()
                for part in _rounds(shape, order, count, _hats_for(cells[order], order), candidates[order], noise)
            ]
            if made:
                return made
    return []


def _cells_left(noise: float, order: int) -> float:
    """Return how many cells a table with this noise of a cell may have."""
    return NOISE[order] / (math.sqrt(2.0 / math.pi) * noise)


def _hats_for(cells: float, order: int) -> int:
    """Return how many hat functions numbers have in tables of so many cells, or of the fewest there can be."""
    return min(MOST_HATS[order], round(max(cells, FEWEST_CELLS[order]) ** (1.0 / order)))


def _counts(shape: Shape, candidates: dict[int, Sets], wanted: Wanted) -> Iterator[dict[int, int]]:
    """Yield numbers of tables of two and three columns, from most to fewest.

    How numbers go together is mostly told by correlations: fewer tables of two than columns cost them more than they tell.
    """
    most = {order: min(len(sets), max(FEWEST[order], shape.columns)) for order, sets in candidates.items() if sets}
    if wanted.workload:
        most = {order: len(sets) for order, sets in candidates.items() if sets}
    if wanted.count is not None:
        pairs = min(len(candidates[2]), -(-wanted.count // 2) if candidates[3] else wanted.count)
        most = {2: pairs, 3: min(len(candidates[3]), wanted.count - pairs)}
        yield {order: count for order, count in most.items() if count}
        return
    if wanted.workload:
        yield most
    for part in (1, 2) if 3 in most else ():
        yield {order: -(-count // part) for order, count in most.items()}
    pairs = most.get(2, 0)
    while pairs > 2:
        yield {2: pairs}
        pairs = 0 if shape.numeric else pairs // 2


def _candidates(shape: Shape, order: int, wanted: Wanted) -> Sets:
    return tuple(wanted.sets(shape.columns, order)) if order <= shape.columns <= MOST_COLUMNS[order] else ()


def _rounds(shape: Shape, order: int, count: int, hats: int, candidates: Sets, noise: float) -> Iterator[TableRound]:
    """Yield the rounds of tables of one kind: one for all candidates, or some that choose."""
    counts = [column.cells for column in shape.table_columns(hats)]
    most = min(MOST_CELLS, MOST_NOISE / (math.sqrt(2.0 / math.pi) * noise))
    small = tuple(table for table in candidates if math.prod(counts[c] for c in table) <= most)
    count = min(count, len(small))
    rounds = min(ROUNDS if count < len(small) else 1, count)
    for number in range(rounds):
        yield TableRound(order, count // rounds + (number < count % rounds), hats, small)


def spike_measurement(shape: Shape, cost: float, *, pure: bool, rows_per_person: int) -> Measurement:
    """Return the tables of single columns that tell which values many rows share."""
    family = SoftTables(shape.spikes, 1)
    return Measurement(
        purpose=tables_purpose(len(shape.spikes), 1),
        features=family.cells(tuple((c,) for c in range(len(shape.spikes)))),
        mechanism="discrete laplace" if pure else "discrete gaussian",
        epsilon=cost if pure else None,
        multiplier=None if pure else cost,
        rows_per_person=rows_per_person,
        transformation=shape.straight(family),
    )


def spike_share(shape: Shape, unit: float, *, power: float) -> float:
    """Return the share of the search for values that many rows share; 0 if they could not be told from noise."""
    if not shape.spikes:
        return 0.0
    needed = len(shape.spikes) * (unit / SPIKE_NOISE) ** (1.0 / power)
    share = min(MOST_SPIKES, max(LEAST_SPIKES, needed))
    return share if unit * (len(shape.spikes) / share) ** power <= DROWNED_SPIKES else 0.0
