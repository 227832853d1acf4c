"""Worst neighbouring tables; likelihood and low-bit statistics.

Neighbouring tables on which a mechanism is at its worst: corners, the centre, outliers, missing values.

How much likelier a release is on one public table than on a neighbour: the best statistic there is.

An audit knows both tables, so it knows the sums without noise, and the law of the noise is public. By Neyman and
Pearson no event tells the tables apart better than {loss >= t}. Whether the mechanism has that law is not assumed:
the loss only names events, and the events are counted.

Codes for what hides at the end of a number: residues of integers, last bits of doubles, texts.

Textbook noise on doubles betrays the exact value in bits that no reader looks at (Mironov 2012). Here every
released number is turned into codes whose law must not depend on the table.
"""

from __future__ import annotations

import itertools
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.methods.paper import NoisySubspace, orthonormal
from smoothsynth.queries.measurement import FULL_WEIGHT
from smoothsynth.queries.sensitivity import length_of
from smoothsynth.schema import Number, Schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.accounting.charges import Charge
    from smoothsynth.pipeline.release import Release
    from smoothsynth.queries.measurement import Measurement

    Array = NDArray[np.float64]


# -1/4 is where 1 + T_1 + T_2 is lowest.
_LEVELS = (-1.0, -0.5, -0.25, 0.0, 0.5, 1.0)
# Nearly the same for the row that replaces it, but one lattice step off, and at the centre, where T_2 is flat, some
# more: otherwise the two sums could agree in their low bits, and nothing could leak there.
_STEP = 2.0**-16
EDGE = 1.0 - _STEP
_OTHER_LEVELS = (-EDGE, -0.5 + _STEP, -0.25 + _STEP, 2.0**-7, 0.5 - _STEP, EDGE)
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two tables of columns c0, c1, ... within [-1, 1] that differ in one row or a few; NaN is a missing value.

    Whether values are missing is seen if columns are `nullable`. With `owners`, rows are those of persons, by their
    numbers; all rows of a person are the same.
    """

    words: str
    tables: tuple[Array, Array]
    owners: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    nullable: bool = False

    @property
    def schema(self) -> Schema:
        """The public schema of both tables."""
        columns = {f"c{i}": Number(-1.0, 1.0, nullable=self.nullable) for i in range(self.tables[0].shape[1])}
        return Schema(columns, person=None if self.owners is None else "person")

    def arrow(self, side: int) -> pa.Table:
        """Return one of the two tables; a missing value is null."""
        import pyarrow as pa

        rows = self.tables[side]
        columns = {f"c{i}": pa.array(column, mask=np.isnan(column)) for i, column in enumerate(rows.T)}
        return pa.table(columns if self.owners is None else {**columns, "person": self.owners[side]})

    def unit(self, side: int) -> Array:
        """Return the unit rows of one of the two tables; of persons, one each."""
        rows = self.tables[side]
        if self.owners is not None:
            rows = rows[np.unique(self.owners[side], return_index=True)[1]]
        return self.schema.to_unit({f"c{i}": column.copy() for i, column in enumerate(rows.T)})


def pair(
    row: tuple[float, ...], other: tuple[float, ...], *, rows: int = 3, changed: int = 1, stay: float = 0.5
) -> Pair:
    """Replace `changed` rows of a table by others; all coordinates of the rows that stay are `stay`."""
    kept = np.full((rows - changed, len(row)), stay)
    first, second = (np.concatenate([kept, np.tile(r, (changed, 1))]) for r in (row, other))
    several = f", {changed} rows" if changed > 1 else ""
    return Pair(f"{_words(row)} / {_words(other)}{several}", (first, second))


def of_persons(tables: Pair, own: int) -> Pair:
    """Let the last row of the first table be `own` rows of one person, and every other row that of a person with one."""
    first, second = tables.tables
    many = np.concatenate([first, np.tile(first[-1:], (own - 1, 1))])
    owners = np.arange(len(second))
    more = np.concatenate([owners, np.full(own - 1, owners[-1])])
    return Pair(f"{tables.words}, {own} rows of a person / 1", (many, second), (more, owners))


def worst_pair(measurement: Measurement, dimensions: int, *, rows: int = 3) -> Pair:
    """Replace the row that moves the sums furthest in the norm of the mechanism, of 6^d rows on a grid."""
    grids = [np.array(list(itertools.product(levels, repeat=dimensions))) for levels in (_LEVELS, _OTHER_LEVELS)]
    values = [measurement.evaluate(grid) * np.array(measurement.weights, dtype=np.float64) for grid in grids]
    apart = values[0][:, None] - values[1][None]
    # Of pairs equally far apart, up to rounding, the one whose sums all move is told apart best.
    moves = np.round(length_of(apart, measurement.charge().norm)) + 1e-6 * np.abs(apart).sum(axis=2)
    one, other = np.unravel_index(int(np.argmax(moves)), moves.shape)
    return pair(tuple(grids[0][one]), tuple(grids[1][other]), rows=rows, changed=measurement.rows_per_person)


def _words(row: tuple[float, ...]) -> str:
    shown = ", ".join("missing" if np.isnan(x) else f"{x:.2g}" for x in row[:_MOST_SHOWN])
    return f"({shown}{', ...' if len(row) > _MOST_SHOWN else ''})"


def sums(measurement: Measurement, points: Array) -> Array:
    """Return the whole numbers before noise, up to less than 1, for the unit rows of a public table."""
    return np.asarray(measurement.evaluate(points).sum(axis=0) * np.array(measurement.weights, dtype=np.float64))


def losses(released: Array, here: Array, there: Array, *, charge: Charge) -> Array:
    """Return log P(release | here) - log P(release | there) for each line of released numbers.

    cube:       (|y - c'|_inf - |y - c|_inf) / scale
    laplace:    (|y - c'|_1 - |y - c|_1) / scale
    wishart:    (|Y - C'|_* - |Y - C|_*) / scale, the loss but for factors that grow slowly: its density has no closed form
    gaussian:   (|y - c'|_2^2 - |y - c|_2^2) / (2 scale^2)
    """
    if charge.norm == "nuclear":
        return (length_of(released - there, "nuclear") - length_of(released - here, "nuclear")) / charge.scale
    near, far = np.abs(released - here), np.abs(released - there)
    if charge.norm == "linf":
        return np.asarray((far.max(axis=-1) - near.max(axis=-1)) / charge.scale)
    if charge.norm == "l1":
        return np.asarray((far - near).sum(axis=-1) / charge.scale)
    # far^2 - near^2, without squares that would swallow the difference.
    squares = ((there - here) * (here + there - 2.0 * released)).sum(axis=-1)
    return np.asarray(squares / (2.0 * charge.scale**2))


def distance(here: Array, there: Array, *, charge: Charge) -> float:
    """Return how far two neighbours are apart in units of the noise: the loss that no event can exceed.

    For Gaussian noise this is mu, the distance in deviations.
    """
    return float(length_of(there - here, charge.norm)) / charge.scale


def product(directions: Array, points: Array) -> Array:
    """Return n 2^16 A X of a public table, as one line: what subspace iteration releases, before noise."""
    centred = points - points.mean(axis=0)
    return np.asarray((centred.T @ (centred @ directions) * FULL_WEIGHT).ravel())


def subspace_loss(released: NoisySubspace, here: Array, there: Array) -> float:
    """Add up the losses of the products; the directions of each are those that the ones before it released."""
    directions, total = orthonormal(released.start), 0.0
    for done, numbers in enumerate(released.products, start=1):
        pair = product(directions, here), product(directions, there)
        total += float(losses(np.array(numbers, dtype=np.float64), *pair, charge=released.measurement.charge()))
        so_far = NoisySubspace(released.measurement, released.rows, released.start, released.products[:done])
        directions = orthonormal(so_far.last_product())
    return total


def release_loss(release: Release, here: Array, there: Array) -> float:
    """Add up the losses of everything that a release measured."""
    total = 0.0
    for noisy in release.moments:
        pair = sums(noisy.measurement, here), sums(noisy.measurement, there)
        numbers = np.array(noisy.integers, dtype=np.float64)
        total += float(losses(numbers, *pair, charge=noisy.measurement.charge()))
    return total if release.subspace is None else total + subspace_loss(release.subspace, here, there)


def release_reach(release: Release, here: Array, there: Array) -> float | None:
    """Return the most that the pure measurements of a release can lose together; None if others took part."""
    charges = [noisy.measurement.charge() for noisy in release.moments]
    if release.subspace is not None or any(charge.epsilon is None for charge in charges):
        return None
    if any(noisy.measurement.transformation is not None for noisy in release.moments):
        # A transformation is made of what was released before: it is another one at each trial.
        return None
    pairs = [(sums(noisy.measurement, here), sums(noisy.measurement, there)) for noisy in release.moments]
    return sum(distance(*pair, charge=charge) for pair, charge in zip(pairs, charges, strict=True))


# Of an integer the residue modulo 16, of a double the last four bits of its mantissa.
RESIDUES = 16


def codes(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Return codes of each column of numbers: for doubles also where the last bit that is set stands."""
    if not np.issubdtype(numbers.dtype, np.floating):
        return np.asarray(np.mod(numbers, RESIDUES), dtype=np.int64)
    doubles = np.ascontiguousarray(numbers, dtype=np.float64)
    return np.concatenate([doubles.view(np.int64) % RESIDUES, last_bit(doubles)], axis=1)


def last_bit(doubles: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return e with  x = odd 2^e;  noise in doubles reaches finer e around 0 than around other sums."""
    fractions, exponents = np.frexp(doubles)
    mantissas = np.abs(fractions * 2.0**53).astype(np.int64)
    trailing = np.frexp((mantissas & -mantissas).astype(np.float64))[1] - 1
    return np.where(mantissas == 0, 0, exponents.astype(np.int64) - 53 + trailing)


def leaf_codes(documents: Sequence[Any], *, width: int) -> NDArray[np.int64]:
    """Return one line for each document of plain values: two codes, the value and its end, for `width` leaves."""
    result = np.full((len(documents), 2 * width), -1, dtype=np.int64)
    for line, document in zip(result, documents, strict=True):
        found = [code for leaf in itertools.islice(leaves(document), width) for code in (_value(leaf), _end(leaf))]
        line[: len(found)] = found
    return result


def leaves(value: Any) -> Iterator[Any]:
    """List the numbers and texts in a document of plain values, in its order."""
    if isinstance(value, dict):
        for name in value:
            yield from leaves(value[name])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def _value(leaf: Any) -> int:
    return zlib.crc32(repr(leaf).encode())


def _end(leaf: Any) -> int:
    if isinstance(leaf, int):
        return leaf % RESIDUES
    return int(np.float64(leaf).view(np.int64)) % RESIDUES if isinstance(leaf, float) else 0
