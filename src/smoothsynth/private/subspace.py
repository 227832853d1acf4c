"""Private subspace iteration: a loop of noisy products, each through the one door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsynth.methods.paper import NoisySubspace, SubspaceMeasurement, orthonormal
from smoothsynth.private.measure import measure_product
from smoothsynth.queries.bases import total_degree

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from smoothsynth.accounting.ledger import Ledger
    from smoothsynth.private.engine import Engine
    from smoothsynth.private.table import Table


def measure_subspace(
    table: Table,
    measurement: SubspaceMeasurement,
    *,
    start: NDArray[np.float64],
    engine: Engine,
    ledger: Ledger,
    progress: Callable[[int, int], None] | None = None,
) -> NoisySubspace:
    """Run Algorithm 2 with correct noise: X_l = orthonormalised(A X_{l-1} + noise), from a public start.

    One pass over the rows gives all exact second moments; every product with them is charged and noisy.
    """
    sums = engine.sums(table, total_degree(2, measurement.dimensions), progress=progress)
    directions = orthonormal(start)
    products: list[tuple[int, ...]] = []
    for _ in range(measurement.iterations):
        products.append(measure_product(sums, measurement, directions, rows=table.rows, ledger=ledger))
        directions = orthonormal(NoisySubspace(measurement, table.rows, start, tuple(products)).last_product())
    return NoisySubspace(measurement, table.rows, start, tuple(products))
