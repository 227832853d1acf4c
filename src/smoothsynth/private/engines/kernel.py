"""Exact integer sums of features over batches of rows.

The rule, fixed for ever (S = 2^16; docs/proofs/exactness.md):

    X    = rint(S x)                        x the unit coordinate of the schema, missing = 0
                                            (with a view: bent and shortened as smoothsynth.view says)
    t_1  = X,   t_k = rint(S T_k(X / S))    by the recurrence in doubles, kept within [-S, S]
    a term, in units of S^2:   X -> X S,   T_2 -> 2 X^2 - S^2,   T_k -> t_k S,   two factors -> t_a t_b,
                               more -> from the left  p := rint(p t / S),  and  p t  for the last factor
    B_r  = sum over rows and over the terms of the feature

All numbers are integers in doubles. A sum of 2^20 products of two of them stays below 2^53, so matrix
products are exact in any order, and sums add up over batches, threads and machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smoothsynth.errors import DataError
from smoothsynth.lattice import LATTICE
from smoothsynth.moments import MOST_ROWS
from smoothsynth.private.columns import numbers
from smoothsynth.private.engines.products import recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.basis import Feature, Term
    from smoothsynth.private.engines.products import Step
    from smoothsynth.schema import Column, Schema
    from smoothsynth.view import View

# Doubles in the buffers of a thread that are in use at once: they should stay in its cache.
_CACHE = 2**18
_FEWEST, _MOST = 2**8, 2**14
# Rows after which sums in doubles move to integers: 2^20 terms below 2^32 are below 2^53.
_EXACT_ROWS = 2**20
_MISSING_OK: Any = {"invalid": "ignore", "over": "ignore", "under": "ignore"}


class Kernel:
    """The matrix products for a schema and some features; `start` gives a thread its own sums."""

    def __init__(self, schema: Schema, features: Sequence[Feature], view: View | None = None) -> None:
        self.features, self.view = tuple(features), view
        pooled = view is not None and view.pooled
        self.recipe = recipe(self.features, 1 if pooled else schema.dimensions)
        # A pooled view makes one coordinate of all; else only what the features use is read.
        read = range(schema.dimensions) if pooled else self.recipe.factors.coordinates
        self.names = [schema.coordinates[c] for c in read]
        self.scales = [_Scale(schema.columns[name]) for name in self.names]
        held = self.recipe.factors.count + max(self.recipe.widths, default=0)
        self.block = min(_MOST, max(_FEWEST, 2 ** (_CACHE // held).bit_length() // 2))

    def start(self) -> Sums:
        """Return sums over no rows yet."""
        return Sums(self)


class Sums:
    """Sums over the rows that were added so far. One thread only."""

    def __init__(self, kernel: Kernel) -> None:
        block, recipe = kernel.block, kernel.recipe
        self._kernel, self._filled, self._rows, self._since = kernel, 0, 0, 0
        self._factors = np.zeros((recipe.factors.count, block))
        self._factors[0] = 1.0
        self._seen = self._factors[1 : 1 + len(recipe.factors.coordinates)]
        pooled = kernel.view is not None and kernel.view.pooled
        self._lattice = np.zeros((len(kernel.names), block)) if pooled else self._seen
        self._widths = np.array([[scale.width] for scale in kernel.scales])
        self._levels = [np.empty((width, block)) for width in recipe.widths]
        self._parent = np.empty(block)
        self._once, self._doubles = np.empty(recipe.size), np.zeros(recipe.size)
        self._totals = np.zeros(recipe.size, dtype=np.int64)
        reach = recipe.factors.reach
        self._recurrence = np.empty((4, reach[1], block)) if len(reach) > 1 else None

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Sums of private rows cannot be copied or pickled.")

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch that has the columns of the schema."""
        self.add_columns([numbers(batch.column(name)) for name in self._kernel.names], batch.num_rows)

    def add_columns(self, columns: Sequence[NDArray[Any]], rows: int) -> None:
        """Add rows given as arrays for `kernel.names`, with NaN for a missing value."""
        self._rows += rows
        if self._rows > MOST_ROWS:
            raise DataError(f"At most {MOST_ROWS:,} rows can be summed exactly; there are more. Take a sample.")
        start = 0
        with np.errstate(**_MISSING_OK):
            while start < rows:
                size = min(rows - start, self._kernel.block - self._filled)
                into = slice(self._filled, self._filled + size)
                for scale, column, target in zip(self._kernel.scales, columns, self._lattice, strict=True):
                    scale.centred(column[start : start + size], target[into])
                start, self._filled = start + size, self._filled + size
                if self._filled == self._kernel.block:
                    self._flush()

    def totals(self) -> list[int]:
        """Return the sum of each feature over all rows added, in units of S^2."""
        with np.errstate(**_MISSING_OK):
            self._flush()
        self._settle()
        sums, places = self._totals.tolist(), self._kernel.recipe.places
        return [
            sum(_in_units(term, sums[places[term]], self._rows) for term in feature.terms)
            for feature in self._kernel.features
        ]

    def _flush(self) -> None:
        """Add the rows in the buffer to the sums."""
        if not self._filled:
            return
        x = self._lattice
        np.divide(x, self._widths, out=x)
        np.clip(x, -LATTICE, LATTICE, out=x)
        np.rint(x, out=x)
        if np.isnan(np.sum(x)):
            np.nan_to_num(x, copy=False, nan=0.0)
        if self._kernel.view is not None:
            self._look(self._kernel.view)
        self._fill_factors()
        # Rows of a block that is not full count for nothing.
        self._factors[1:, self._filled :] = 0.0
        for step in self._kernel.recipe.steps:
            self._take(step)
        self._doubles += self._once
        self._since += self._filled
        if self._since > _EXACT_ROWS - self._kernel.block:
            self._settle()
        self._filled = 0

    def _look(self, view: View) -> None:
        """See the rows as the view says, in whole numbers."""
        seen = self._seen[:, : self._filled]
        if view.pooled:
            seen[0] = view.pool(self._lattice[:, : self._filled])
        for row, coordinate in enumerate(self._kernel.recipe.factors.coordinates):
            seen[row] = view.bend(coordinate, seen[row])
        view.shorten(seen)

    def _settle(self) -> None:
        self._totals += self._doubles.astype(np.int64)
        self._doubles[:] = 0.0
        self._since = 0

    def _fill_factors(self) -> None:
        """Compute  S T_k = (2 X / S) S T_{k-1} - S T_{k-2}  and round it where it is a factor."""
        if self._recurrence is None:
            return
        factors = self._kernel.recipe.factors
        twice, *turns = self._recurrence
        np.multiply(self._seen[: len(twice)], 2.0 / LATTICE, out=twice)
        before, last = np.full((len(twice), 1), float(LATTICE)), self._seen
        for degree, reach in enumerate(factors.reach[1:], start=2):
            new = np.multiply(twice[:reach], last[:reach], out=turns[degree % 3][:reach])
            new -= before[:reach]
            start = factors.starts.get(degree)
            if start is not None:
                rounded = np.rint(new, out=self._factors[start : start + reach])
                np.clip(rounded, -LATTICE, LATTICE, out=rounded)
            before, last = last, new

    def _take(self, step: Step) -> None:
        prefixes = self._factors
        if step.level:
            below = self._levels[step.level - 2] if step.level > 1 else self._factors
            prefixes = self._levels[step.level - 1][: step.size]
            np.multiply(below[step.parent], 1.0 / LATTICE, out=self._parent)
            np.multiply(self._factors[step.factors], self._parent, out=prefixes)
            np.rint(prefixes, out=prefixes)
        for product in step.products:
            m, n = product.shape
            out = self._once[product.start : product.start + m * n].reshape(m, n)
            # np.dot lets other threads run; the @ operator does not for small results.
            np.dot(prefixes[product.left], self._factors[product.right].T, out=out)


class _Scale:
    """From a column's own units to (value - centre), to be divided by `width` and rounded to the lattice."""

    def __init__(self, column: Column) -> None:
        self._column = column
        lower, upper = float(column.lower or 0), float(column.upper or 0)
        half, self._centre = upper / 2 - lower / 2, lower / 2 + upper / 2
        # Where the bounds land on -S and S, clipping the quotient is the same as clipping the value first:
        # rounded arithmetic is monotone. Dividing by half/S instead of half only moves an exponent.
        ends = np.rint(column.to_unit(np.array([lower, upper])) * LATTICE)
        self._quick = bool(ends[0] == -LATTICE and ends[1] == LATTICE) and half > 2.0**-900
        self.width = half / LATTICE if self._quick else 1.0

    def centred(self, values: NDArray[Any], out: NDArray[np.float64]) -> None:
        """Write what is to be divided by `width`."""
        if self._quick:
            np.subtract(values, self._centre, out=out, dtype=np.float64)
        else:
            np.multiply(self._column.to_unit(values.astype(np.float64)), LATTICE, out=out)


def _in_units(term: Term, total: int, rows: int) -> int:
    if len(term) > 1:
        return total
    if term[0][1] == 2:
        return 2 * total - rows * LATTICE * LATTICE
    return total * LATTICE
