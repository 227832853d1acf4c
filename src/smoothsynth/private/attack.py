"""Attacks on a release, by the owner of the private rows: what its synthetic rows tell about those that made them.

Every figure is of the private rows without noise, for their owner only: nothing is charged, and nothing may be published.

A private row and one of the holdout, rows of the same population that were not released, are a pair. An attack guesses which
of the two was released, or passes; `accounting/guessing.py` says how often (epsilon, delta) lets it be right.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from smoothsynth.accounting.guessing import chance_of_more
from smoothsynth.errors import DataError, SchemaError
from smoothsynth.private.pairs import Attack, by_event, by_score
from smoothsynth.private.sources.cells import read_rows
from smoothsynth.private.table import in_words, open_table
from smoothsynth.schema import unknown_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.accounting.charges import Budget
    from smoothsynth.private.table import Table
    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Places = NDArray[np.intp]
    Choice = Callable[[int, int], Places]
    Progress = Callable[[str, int, int | None], None]


MOST_PAIRS, MOST_SYNTHETIC, FEWEST_HOLDOUT = 5_000, 20_000, 30
# Two values are near if they differ by a tenth of the standard deviation of the synthetic column; levels must be equal.
NEAR = 0.1
ALPHA = 0.05
_BATCH_ROWS, _CELLS = 2**16, 2**22
# Squared distances below this are rounding.
_EQUAL = 1e-9
# How unlikely as many equal rows must be in a holdout that holds no released ones.
_UNLIKELY = 1e-6


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Attacks:
    """What all attacks found: as secret as the rows themselves."""

    found: tuple[Attack, ...]
    budget: Budget
    holdout: int | None

    def __repr__(self) -> str:
        return "<private attacks>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("What attacks found on private rows cannot be copied or pickled.")


def attack_rows(
    data: object,
    schema: Schema,
    *,
    rows: int,
    synthetic: Array,
    budget: Budget,
    choose: Choice,
    holdout: object | None = None,
    secret: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Attacks:
    """Attack synthetic rows, points of the cube, as somebody would who has them and rows that may be private.

    `rows` is the number in the receipt; `choose(n, k)` picks k of n rows at random, in random order; `secret` names the
    columns that are guessed from all others.
    """
    hidden = _hidden(secret, schema)
    table = open_table(data, schema)
    if table.rows != rows:
        unit = "rows" if schema.person is None else "persons"
        raise DataError(
            f"The release was made from {rows:,} {unit}; this table has {table.rows:,}. Name the table it was made from."
        )
    released = _released(schema, synthetic, choose)
    if holdout is None:
        seen = _look(_picked(table, choose(rows, min(rows, MOST_PAIRS))), released, (), progress=progress)
        return Attacks(_alone(seen), budget, None)
    other = open_table(holdout, schema)
    pairs, reference = _sizes(rows, other.rows)
    ours, places = _picked(table, choose(rows, pairs)), choose(other.rows, pairs + reference)
    theirs = _picked(other, places[:pairs])
    _refuse_released(table, ours, theirs)
    members = _look(ours, released, hidden, progress=progress)
    others = _look(theirs, released, hidden, progress=progress, name="attacking with the holdout")
    known = _picked(other, places[pairs:]) * released.scale
    return Attacks(_paired(members, others, known, tuple(hidden), budget.delta), budget, other.rows)


def _hidden(secret: Sequence[str] | None, schema: Schema) -> dict[str, slice]:
    for name in secret or ():
        if name not in schema.names:
            raise SchemaError(unknown_column(name, schema.names))
    named = schema.names if secret is None else tuple(secret)
    # A column that is alone cannot be guessed from others.
    return {name: schema.coordinates_of(name) for name in named if len(schema.names) > 1}


def _sizes(rows: int, others: int) -> tuple[int, int]:
    """Return how many pairs there are, and how many rows of the holdout are left to say what the population is like."""
    if others < FEWEST_HOLDOUT:
        raise DataError(
            f"The holdout must have at least {FEWEST_HOLDOUT} rows, or nothing can be told; it has {others}. Give more rows "
            "of the same population that were not released."
        )
    pairs = min(MOST_PAIRS, rows, others - others // 3)
    return pairs, min(MOST_SYNTHETIC, others - pairs)


@dataclass(frozen=True, slots=True, eq=False)
class _Released:
    """Synthetic rows as they are and, a part of them, in the units of distances; `scale` leads there."""

    points: Array
    scaled: Array
    scale: Array


def _released(schema: Schema, points: Array, choose: Choice) -> _Released:
    """Measure values in deviations of the synthetic column; one level in place of another is a distance of 1."""
    spread = points.std(axis=0)
    units = {"value": 1.0 / np.where(spread > 1e-6, spread, 1.0), "level": np.sqrt(0.5), "missing": 1.0}
    scale = np.array([np.broadcast_to(units[role], len(spread))[c] for c, role in enumerate(schema.roles)])
    chosen = choose(len(points), min(len(points), MOST_SYNTHETIC))
    return _Released(points, points[chosen] * scale, scale)


def _picked(table: Table, places: Places) -> Array:
    """Return some rows of a table as points of the cube, in the order of `places`."""
    try:
        return _rows_at(table, places)
    except Exception as error:
        problem = in_words(error)
    raise problem


def _refuse_released(table: Table, members: Array, others: Array) -> None:
    """Refuse a holdout that holds released rows: an attack on those would pass for chance, and hide a leak.

    A row of another person is as often equal to a private row as a private row is to another private row.
    """
    keys, theirs = _keys(members), _keys(others)
    met = _counts(table, {*keys, *theirs})
    found, expected = sum(met[key] > 0 for key in theirs), sum(met[key] > 1 for key in keys)
    if chance_of_more(found, expected) < _UNLIKELY:
        raise DataError(
            "The holdout must be of other people, and holds rows of the private table: far more of them are equal to a "
            "private row than chance explains. Give rows that were not released."
        )


def _counts(table: Table, keys: set[bytes]) -> Counter[bytes]:
    """Count how often the private rows have each of some keys."""
    met = Counter[bytes]()
    try:
        for batch in table._batches(_BATCH_ROWS):
            points = table.schema.to_unit(read_rows(batch, table.schema))
            met.update(key for key in _keys(points) if key in keys)
        return met
    except Exception as error:
        problem = in_words(error)
    raise problem


def _rows_at(table: Table, places: Places) -> Array:
    order, start, found = np.sort(places), 0, []
    for batch in table._batches(_BATCH_ROWS):
        inside = order[(order >= start) & (order < start + batch.num_rows)] - start
        if len(inside):
            chosen = batch.take(inside)
            found.append(table.schema.to_unit(read_rows(chosen, table.schema)))
        start += batch.num_rows
    return np.concatenate(found)[np.argsort(np.argsort(places, kind="stable"), kind="stable")]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Seen:
    """Rows in units of distances; of each the nearest synthetic row, whether one is equal or near, columns guessed."""

    scaled: Array
    distance: Array
    equal: Flags
    near: Flags
    guessed: Flags


def _look(
    points: Array,
    released: _Released,
    hidden: dict[str, slice] | tuple[()],
    *,
    progress: Progress | None,
    name: str = "attacking with private rows",
) -> _Seen:
    rows, synthetic = points * released.scale, released.scaled
    columns = tuple(hidden.values()) if hidden else ()
    distance, near = np.empty(len(rows)), np.zeros(len(rows), dtype=bool)
    guessed = np.zeros((len(rows), len(columns)), dtype=bool)
    for part in _parts(len(rows), len(synthetic)):
        squares = _squares(rows[part], synthetic)
        distance[part] = squares.min(axis=1)
        near[part] = _any_near(rows[part], synthetic, squares)
        for place, own in enumerate(columns):
            nearest = (squares - _squares(rows[part, own], synthetic[:, own])).argmin(axis=1)
            guessed[part, place] = (np.abs(rows[part, own] - synthetic[nearest][:, own]) <= NEAR).all(axis=1)
        if progress is not None:
            progress(name, part.stop, len(rows))
    return _Seen(rows, distance, _equal(points, released.points), near, guessed)


def _parts(rows: int, others: int) -> Iterator[slice]:
    step = max(1, _CELLS // others)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _squares(rows: Array, others: Array) -> Array:
    """Return squared distances, (rows, others)."""
    found = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2.0 * rows @ others.T
    return np.asarray(np.maximum(found, 0.0))


def _any_near(rows: Array, others: Array, squares: Array) -> Flags:
    """Say which rows have another that is near in every coordinate."""
    found = np.zeros(len(rows), dtype=bool)
    row, other = np.nonzero(squares <= rows.shape[1] * NEAR**2 + _EQUAL)
    for part in _parts(len(row), rows.shape[1]):
        near = (np.abs(rows[row[part]] - others[other[part]]) <= NEAR).all(axis=1)
        found[row[part][near]] = True
    return found


def _equal(points: Array, synthetic: Array) -> Flags:
    keys = _keys(points)
    wanted, met = set(keys), set()
    for start in range(0, len(synthetic), _BATCH_ROWS):
        met |= wanted.intersection(_keys(synthetic[start : start + _BATCH_ROWS]))
    return np.array([key in met for key in keys])


def _keys(points: Array) -> list[bytes]:
    # Adding 0 turns -0.0 into 0.0.
    return [row.tobytes() for row in np.round(points, 9) + 0.0]


def _alone(seen: _Seen) -> tuple[Attack, ...]:
    hits = {"the same in all columns": seen.equal, "near in all columns": seen.near}
    return tuple(Attack("match", about, len(flags), int(flags.sum())) for about, flags in hits.items())


def _paired(members: _Seen, others: _Seen, known: Array, hidden: tuple[str, ...], delta: float) -> tuple[Attack, ...]:
    """Return all attacks on pairs; together their bounds of epsilon hold with probability 1 - ALPHA."""
    alpha = ALPHA / (4 + len(hidden))
    scores = {
        "nearest synthetic row": [_closeness(seen.distance) for seen in (members, others)],
        "nearer than to other people": [
            _closeness(seen.distance) - _closeness(_nearest(seen.scaled, known)) for seen in (members, others)
        ],
    }
    events = [
        ("match", "the same in all columns", members.equal, others.equal),
        ("match", "near in all columns", members.near, others.near),
        *(("attribute", name, members.guessed[:, k], others.guessed[:, k]) for k, name in enumerate(hidden)),
    ]
    return (
        *(by_score(about, *pair, delta=delta, alpha=alpha) for about, pair in scores.items()),
        *(by_event(*event, delta=delta, alpha=alpha) for event in events),
    )


def _closeness(squares: Array) -> Array:
    return -np.log(np.round(squares, 9) + _EQUAL)


def _nearest(rows: Array, others: Array) -> Array:
    return np.concatenate([_squares(rows[part], others).min(axis=1) for part in _parts(len(rows), len(others))])
