"""Tables of soft cells are exact whatever the rows are: beside the definition, in Python's whole numbers."""

import itertools

import numpy as np
import pytest

import smoothsynth as ss
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.private.engines.tables import LATTICE
from smoothsynth.queries.soft_tables import BITS, SoftTables, TableColumn
from smoothsynth.queries.tabulation import PIECE, tabulate
from smoothsynth.queries.transformation import KNOTS, Transformation


def by_hand(split, cells, bits):
    """Add the products of weights, row by row."""
    total = np.zeros(cells, dtype=object)
    for row in zip(*(zip(first.tolist(), beyond.tolist(), strict=True) for first, beyond in split), strict=True):
        for steps in itertools.product((0, 1), repeat=len(row)):
            weight = 1
            for (_, beyond), step in zip(row, steps, strict=True):
                weight *= beyond if step else (1 << bits) - beyond
            if weight:
                total[tuple(first + step for (first, _), step in zip(row, steps, strict=True))] += weight
    return total


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("soft", [0, 1, 3])
def test_tables_are_those_computed_by_hand(order, soft):
    generator, bits = np.random.default_rng(order), BITS[order]
    cells = (5, 4, 3)[:order]
    split = []
    for axis, count in enumerate(cells):
        beyond = generator.integers(0, (1 << bits) + 1, 700) * (axis < soft)
        # What is in the last cell lies wholly in it.
        first = generator.integers(0, count, 700)
        split.append((first, np.where(first == count - 1, 0, beyond)))
    assert np.array_equal(tabulate(split, cells, bits), by_hand(split, cells, bits))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("beyond", [0, 1, -1])
def test_sums_side_by_side_do_not_touch(order, beyond):
    """All rows in one cell, with all that can be beyond it, in as many rows as are summed up at once and one more."""
    bits, rows = BITS[order], 2 * PIECE + 1
    far = (1 << bits) + beyond if beyond < 1 else beyond
    # One row has nothing beyond, so that the columns are soft in any case.
    column = np.zeros(rows, dtype=np.int64), np.array([0] + [far] * (rows - 1))
    found = tabulate([column] * order, [2] * order, bits)
    for place in itertools.product((0, 1), repeat=order):
        weights = [far if step else (1 << bits) - far for step in place]
        alone = (1 << bits) ** order if not any(place) else 0
        assert found[place] == (rows - 1) * int(np.prod(weights, dtype=object)) + alone


@pytest.mark.parametrize("order", [1, 2])
def test_looking_cells_up_changes_nothing(order):
    """From 2^16 rows on cells are looked up; in smaller parts they are computed."""
    generator, rows = np.random.default_rng(3), LATTICE + 5_000
    schema = ss.Schema({"x": ss.Number(-3, 3, nullable=True), "y": ss.Integer(0, 40)})
    knots = np.sort(generator.integers(-LATTICE, LATTICE + 1, (3, KNOTS)), axis=1)
    columns = (
        TableColumn(0, 9, atoms=(0, LATTICE), levels=(1,)),
        TableColumn(2, 7, atoms=(-LATTICE,)),
    )
    family = SoftTables(columns, order)
    cells = family.cells(((0,), (1,)) if order == 1 else ((0, 1),))
    x, y = generator.normal(0, 2, rows), generator.integers(-2, 43, rows).astype(float)
    x[::7], x[1::7] = np.nan, 0.0
    kernel = Kernel(schema, cells, Transformation(knots, family))
    whole, parts = kernel.start(), [0] * len(cells)
    whole.add_columns([x, y], rows)
    for start in range(0, rows, LATTICE // 4):
        part, some = kernel.start(), slice(start, start + LATTICE // 4)
        part.add_columns([x[some], y[some]], len(x[some]))
        parts = [one + more for one, more in zip(parts, part.totals(), strict=True)]
    assert whole.totals() == parts
    assert sum(parts) == rows * LATTICE**2 * len(cells.tables)
