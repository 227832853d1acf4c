"""Exact integer sums of features over batches of rows.

The rule, fixed for ever (S = 2^16; docs/proofs/exactness.md):

    X    = rint(S x)                        x the unit coordinate of the schema, missing = 0; levels and marks are 0 or S
                                            (with a transformation: bent and shortened as smoothsynth.queries.transformation
                                            says)
    t_1  = X,   t_k = rint(S T_k(X / S))    by the recurrence in doubles, kept within [-S, S]
    a term, in units of S^2:   X -> X S,   T_2 -> 2 X^2 - S^2,   T_k -> t_k S,   two factors -> t_a t_b,
                               more -> from the left  p := rint(p t / S),  and  p t  for the last factor
    B_r  = sum over rows and over the terms of the feature

With a transformation of soft counts a term is a count (smoothsynth.queries.bases) times S, or a cosine: the sum of all
counts, each times a whole number of at most S.

All numbers are integers in doubles. A sum of 2^20 products of two of them stays below 2^53, so matrix
products are exact in any order, and sums add up over batches, threads and machines.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from smoothsynth.errors import DataError
from smoothsynth.private.engines.blocks import (
    Block,
    BlockTransformation,
    aligned,
    quick_arithmetic,
    rising,
    rounded,
    scale_of,
)
from smoothsynth.private.engines.histogram import (
    COUNTS_AT_THE_END,
    COUNTS_OF_A_COLUMN,
    Counts,
    HatSplits,
    LevelSums,
    Tallies,
    only_counts,
    only_levels,
)
from smoothsynth.private.engines.products import recipe
from smoothsynth.private.engines.tables import CellSplits, TableSums
from smoothsynth.private.persons import PersonSums
from smoothsynth.private.sources.cells import read_cells
from smoothsynth.queries.bases import LATTICE, HatBasis, HatCosines
from smoothsynth.queries.families import MarginalMoments
from smoothsynth.queries.level_histograms import LevelHistograms
from smoothsynth.queries.measurement import MOST_ROWS
from smoothsynth.queries.soft_tables import Cells
from smoothsynth.queries.tabulation import PIECE
from smoothsynth.schema.category import AllLevels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.private.engines.products import Recipe, Step
    from smoothsynth.queries.bases import Feature, Term
    from smoothsynth.queries.transformation import Transformation
    from smoothsynth.schema import Schema

# Doubles in the buffers of a thread that are in use at once: they should stay in its cache.
_CACHE = 2**18
# Rows of a chunk: OpenBLAS has quick kernels for products of up to 10^6 multiplications.
_WIDE, _NARROW = 2**10, 2**8
_MOST_CHUNKS = 8
# Rows after which sums in doubles move to integers: 2^20 terms below 2^32 are below 2^53.
_EXACT_ROWS = 2**20


class Kernel:
    """How to sum some features of a schema; `start` gives a thread its own sums."""

    def __init__(
        self,
        schema: Schema,
        features: Sequence[Feature],
        transformation: Transformation | None = None,
        *,
        averaged: int = 1,
    ) -> None:
        self.features = features if isinstance(features, Cells) else tuple(features)
        self.schema, self.transformation, self.averaged = schema, transformation, averaged
        self._splits: CellSplits | None = None
        if isinstance(features, Cells):
            counted = self._tables()
            self.names = list(counted.names)
            self.columns: dict[str, Any] = {name: schema.columns[name] for name in self.names}
            if isinstance(counted, LevelSums):
                self.columns = {name: AllLevels(column) for name, column in self.columns.items()}
            return
        family = MarginalMoments() if transformation is None else transformation.family
        self.recipe = recipe(self.features, family.coordinates(schema.dimensions))
        # Only what the features use is read.
        read = family.read(self.recipe.factors.coordinates, schema.dimensions)
        self.apart = not family.own_coordinates
        self.basis, self.made = family.basis, family.coordinates(1)
        known = schema.owners
        self.owners = [known[c] for c in read]
        self.names = [name for name, _ in self.owners]
        self.columns = {name: schema.columns[name] for name in self.names}
        self.scales = [scale_of(schema.columns[name], place) for name, place in self.owners]
        self.hats = HatSplits(transformation)
        self.counted = only_counts(self.features, transformation, len(self.names))
        self.tallied = only_levels(self.features, transformation, self.columns.values())
        held = self.recipe.factors.count + max(self.recipe.widths, default=0) + len(self.names) * self.apart
        self.width = _WIDE if held * _WIDE <= 2 * _CACHE else _NARROW
        self.chunks = max(1, min(_MOST_CHUNKS, 2 ** (_CACHE // (held * self.width)).bit_length() // 2))

    @property
    def bytes(self) -> int:
        """About how much memory the sums of one thread take."""
        return self.averaged * self._bytes

    @property
    def _bytes(self) -> int:
        if isinstance(self.features, Cells):
            sums = 8 * 2 ** max(map(len, self.features.tables), default=0) * len(self.features)
            return sums + 16 * PIECE * (len(self.names) + 8)
        if self.tallied:
            return 8 * len(self.names)
        if self.counted:
            return len(self.names) * COUNTS_OF_A_COLUMN + COUNTS_AT_THE_END
        factors, columns = self.recipe.factors, len(self.names)
        turns = 4 * factors.reach[1] if len(factors.reach) > 1 else 0
        look = 0 if self.transformation is None else (2 + 3 * self.made if self.made > 1 else 2) * columns
        block = factors.count + sum(self.recipe.widths) + turns + columns * self.apart
        return 8 * (self.width * (self.chunks * block + look) + (self.chunks + 3) * self.recipe.size)

    def start(self) -> Sums | PersonSums:
        """Return sums over no rows yet."""
        return Sums(self) if self.averaged == 1 else PersonSums(partial(Sums, self), self.features, self.averaged)

    def _tables(self) -> TableSums | LevelSums:
        if not isinstance(self.features, Cells) or self.transformation is None:
            raise TypeError("Tables are seen through a transformation.")
        if isinstance(self.transformation.family, LevelHistograms):
            return LevelSums(self.schema, self.transformation.family)
        # Made by the constructor, and shared by all threads.
        self._splits = self._splits or CellSplits(self.transformation)
        return TableSums(self.schema, self.features, self._splits)


class _Way(Protocol):
    """A way to sum terms."""

    def add_columns(self, columns: Sequence[NDArray[Any]], rows: int) -> None:
        """Add rows, given as one array for each name of the kernel."""

    def sums(self, terms: Iterable[Term]) -> dict[Term, int]:
        """Return the sum of each term over all rows: of X and t_k in units of S, of X^2 for T_2, of products in S^2."""


class Sums:
    """Sums over the rows that were added so far. One thread only."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel, self._rows = kernel, 0
        self._way: _Way | TableSums | LevelSums
        if isinstance(kernel.features, Cells):
            self._way = kernel._tables()
            return
        coordinates = kernel.recipe.factors.coordinates
        if kernel.tallied:
            self._way = Tallies(coordinates, kernel.owners, kernel.columns)
        elif kernel.counted:
            self._way = Counts(coordinates, kernel.scales, kernel.hats)
        else:
            self._way = Products(kernel)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Sums of private rows cannot be copied or pickled.")

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch that has the columns of the schema."""
        cells = {name: read_cells(batch.column(name), column) for name, column in self._kernel.columns.items()}
        self.add_columns([cells[name] for name in self._kernel.names], batch.num_rows)

    def add_columns(self, columns: Sequence[NDArray[Any]], rows: int) -> None:
        """Add rows given as arrays for `kernel.names`, with NaN for a missing value, or places among the levels."""
        self._rows += rows
        if self._rows > MOST_ROWS:
            raise DataError(f"At most {MOST_ROWS:,} rows can be summed exactly; there are more. Take a sample.")
        with quick_arithmetic():
            self._way.add_columns(columns, rows)

    def totals(self) -> list[int]:
        """Return the sum of each feature over all rows added, in units of S^2."""
        if isinstance(self._way, (TableSums, LevelSums)):
            return self._way.totals()
        with quick_arithmetic():
            sums = self._way.sums(self._kernel.recipe.places)
        features = self._kernel.features
        if isinstance(self._kernel.basis, HatBasis):
            return [sums[feature.terms[0]] * LATTICE for feature in features]
        if isinstance(self._kernel.basis, HatCosines):
            return [sums[feature.terms[0]] for feature in features]
        return [sum(_in_units(term, sums[term], self._rows) for term in feature.terms) for feature in features]


class Products:
    """Sums by matrix products over blocks of rows."""

    def __init__(self, kernel: Kernel) -> None:
        self._recipe: Recipe = kernel.recipe
        factors, chunks, width = kernel.recipe.factors, kernel.chunks, kernel.width
        self._factors = aligned(chunks, factors.count, width)
        self._factors[:, 0] = 1.0
        self._seen = self._factors[:, 1 : 1 + len(factors.coordinates)]
        self._look = (
            None
            if kernel.transformation is None
            else BlockTransformation(kernel.transformation, factors.coordinates, width)
        )
        # What is seen of a row is other coordinates than its own: those need room of their own.
        self._block = Block(aligned(chunks, len(kernel.names), width) if kernel.apart else self._seen, kernel.scales)
        self._levels = [aligned(chunks, size, width) for size in kernel.recipe.widths]
        self._turns = aligned(4, chunks, factors.reach[1], width) if len(factors.reach) > 1 else None
        self._once, self._doubles = np.empty((chunks, kernel.recipe.size)), np.zeros(kernel.recipe.size)
        self._totals, self._since = np.zeros(kernel.recipe.size, dtype=np.int64), 0

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Sums of private rows cannot be copied or pickled.")

    def add_columns(self, columns: Sequence[NDArray[Any]], rows: int) -> None:
        """Add rows, given as one array for each name of the kernel."""
        start = 0
        while start < rows:
            start += self._block.fill(columns, start, rows)
            if self._block.filled == self._block.rows:
                self._flush()

    def sums(self, terms: Iterable[Term]) -> dict[Term, int]:
        """Return the sum of each term over all rows."""
        if self._block.filled:
            self._flush()
        self._settle()
        sums, places = self._totals.tolist(), self._recipe.places
        return {term: sums[places[term]] for term in terms}

    def _flush(self) -> None:
        """Add the rows in the block to the sums."""
        self._block.to_lattice()
        if self._look is not None:
            if np.isnan(np.sum(self._block.lattice)):
                self._block.place_missing()
            for lattice, seen in zip(self._block.lattice, self._seen, strict=True):
                self._look.at(lattice, seen)
        once = self._multiply()
        # Every coordinate is a factor of some term, so a missing value cannot hide.
        if np.isnan(once).any():
            self._block.place_missing()
            once = self._multiply()
        self._doubles += once
        self._since += self._block.filled
        if self._since > _EXACT_ROWS - self._block.rows:
            self._settle()
        self._block.filled = 0

    def _settle(self) -> None:
        self._totals += self._doubles.astype(np.int64)
        self._doubles[:] = 0.0
        self._since = 0

    def _multiply(self) -> NDArray[np.float64]:
        factors = self._recipe.factors
        for degree, values in () if self._turns is None else rising(self._seen, factors.reach, self._turns):
            start = factors.starts.get(degree)
            if start is not None:
                rounded(values, self._factors[:, start : start + factors.reach[degree - 1]])
        # Rows that were not filled in count for nothing.
        self._block.blank(self._factors[:, 1:])
        for step in self._recipe.steps:
            self._take(step)
        return np.sum(self._once, axis=0)

    def _take(self, step: Step) -> None:
        prefixes = self._factors
        if step.level:
            below = self._levels[step.level - 2] if step.level > 1 else self._factors
            prefixes = self._levels[step.level - 1][:, : step.size]
            parent = below[:, step.parent, None] * (1.0 / LATTICE)
            np.multiply(self._factors[:, step.factors], parent, out=prefixes)
            np.rint(prefixes, out=prefixes)
        for product in step.products:
            lefts, rights = prefixes[:, product.left], self._factors[:, product.right].swapaxes(1, 2)
            once = self._once[:, product.start : product.start + product.shape[0] * product.shape[1]]
            for left, right, out in zip(lefts, rights, once.reshape(-1, *product.shape), strict=True):
                # np.dot lets other threads run; the @ operator does not for small results.
                np.dot(left, right, out=out)


def _in_units(term: Term, total: int, rows: int) -> int:
    if len(term) > 1:
        return total
    if term[0][1] == 2:
        return 2 * total - rows * LATTICE * LATTICE
    return total * LATTICE
