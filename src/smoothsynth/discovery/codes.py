"""Codes that nobody knows: which level of one column belongs to each level of another, from noisy counts of pairs.

All levels are public, and so are all pairs of them: nothing is read but how many rows have each. A row is in one cell of the
table of two columns, where missing is a cell too (docs/proofs/private-schema.md, section 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsynth.discovery.bounds import reach
from smoothsynth.queries.measurement import FULL_WEIGHT, Measurement
from smoothsynth.queries.soft_tables import Cells, SoftTables, TableColumn
from smoothsynth.queries.transformation import Transformation
from smoothsynth.schema import Category, Schema
from smoothsynth.schema.unresolved import coded_values, open_codes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from smoothsynth.queries.measurement import NoisyMoments


# The chance that noise changes one of the codes that are said to be clear.
_CHANCE = 0.05


def pairs_schema(asked: Schema) -> Schema:
    """Return the columns that rules with private codes are about, in their order."""
    used = {name for pair in open_codes(asked).values() for name in pair}
    return Schema({name: column for name, column in asked.columns.items() if name in used})


def count_pairs(
    asked: Schema, cost: Mapping[str, float | None], *, rows_per_person: int = 1, averaged: int = 1
) -> Measurement:
    """Return the counts of all pairs of levels of the rules with private codes, measured together.

    `cost` has an epsilon or a multiplier.
    """
    rules, seen = open_codes(asked), pairs_schema(asked)
    family = SoftTables(tuple(_cells(seen, name) for name in seen.names), order=2)
    which = f"{next(iter(rules))!r}" if len(rules) == 1 else f"{len(rules)} rules"
    return Measurement(
        purpose=f"the codes of {which}",
        features=family.cells(tuple(sorted({_table(seen, pair) for pair in rules.values()}))),
        mechanism="discrete laplace" if cost.get("multiplier") is None else "discrete gaussian",
        epsilon=cost.get("epsilon"),
        multiplier=cost.get("multiplier"),
        rows_per_person=rows_per_person,
        averaged=averaged,
        transformation=Transformation.straight(seen.dimensions, family),
    )


def recount(asked: Schema, noisy: NoisyMoments) -> Measurement:
    """Return what must have been measured, given the noise that it has."""
    m = noisy.measurement
    cost = {"epsilon": m.epsilon, "multiplier": m.multiplier}
    return count_pairs(asked, cost, rows_per_person=m.rows_per_person, averaged=m.averaged)


def found_codes(asked: Schema, noisy: NoisyMoments) -> dict[str, dict[str, object]]:
    """Return for each rule the level with the largest noisy count beside each level, the first of several."""
    return {text: _likeliest(pairs_schema(asked), pair, noisy) for text, pair in open_codes(asked).items()}


def clear_lead(measurement: Measurement) -> int:
    """Return by how many rows a code must lead over all others, so that noise changes one of them rarely."""
    charge = measurement.charge()
    # Noise is symmetric: a difference of two is a sum of two.
    return -(-reach(charge, 2, _CHANCE / charge.coordinates) // FULL_WEIGHT)


def _likeliest(seen: Schema, pair: tuple[str, str], noisy: NoisyMoments) -> dict[str, object]:
    source, codes = (coded_values(seen.columns[name]) for name in pair)
    counts = _counts(seen, pair, noisy)
    # Cells of missing values come last, and are the code of nothing.
    return {value: _first_largest(row, list(codes.values())) for value, row in zip(source, counts, strict=False)}


def _first_largest(counts: Sequence[int], codes: Sequence[object]) -> object:
    return codes[max(range(len(codes)), key=counts.__getitem__)]


def _counts(seen: Schema, pair: tuple[str, str], noisy: NoisyMoments) -> list[tuple[int, ...]]:
    """Return the noisy counts of a pair of columns, a line for each cell of the first."""
    features, table = noisy.features, _table(seen, pair)
    if not isinstance(features, Cells):
        raise AssertionError("pairs of levels are cells of tables")
    place, width = dict(features.places())[table], features.shape(table)[1]
    lines = [noisy.integers[start : start + width] for start in range(place.start, place.stop, width)]
    return lines if pair[0] == seen.names[table[0]] else list(zip(*lines, strict=True))


def _table(seen: Schema, pair: tuple[str, str]) -> tuple[int, ...]:
    return tuple(sorted(map(seen.names.index, pair)))


def _cells(seen: Schema, name: str) -> TableColumn:
    """Return the cells of a column: its levels, or false and true, and one for missing."""
    place = seen.coordinates_of(name)
    coordinates = tuple(range(place.start, place.stop))
    if isinstance(seen.columns[name], Category):
        return TableColumn(None, levels=coordinates)
    return TableColumn(coordinates[0], 2, levels=coordinates[1:])
