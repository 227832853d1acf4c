"""Discovery and subspace iteration through the door.

Find private levels and bounds: counts, each through the one door, and what follows from them.

Private subspace iteration: a loop of noisy products, each through the one door.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsynth.discovery.search import Found
from smoothsynth.errors import PlanError
from smoothsynth.methods.paper import NoisySubspace, SubspaceMeasurement, orthonormal
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.measure import measure, measure_levels, measure_product
from smoothsynth.queries.bases import total_degree

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from smoothsynth.accounting.ledger import Ledger
    from smoothsynth.discovery.search import Discovery
    from smoothsynth.private.sealed import Engine
    from smoothsynth.private.table import Table

    Progress = Callable[[str, int, int | None], None]


def discover(
    table: Table, planned: Discovery, *, engine: Engine, ledger: Ledger, progress: Progress | None = None
) -> Found:
    """Count values and intervals as planned, and return what was found; an error names a column where nothing was."""
    check_engine(planned, engine)
    found = Found(table.schema)
    if planned.levels:
        told = None if progress is None else _told(progress, "counting levels")
        for noisy in measure_levels(table, planned.levels, ledger=ledger, progress=told):
            found = found.after_levels(noisy)
    for noise in planned.rounds:
        search = found.search()
        told = None if progress is None else _told(progress, noise.purpose)
        seen = table.seen_as(search.schema)
        counted = measure(seen, search.measurement(noise), engine=engine, ledger=ledger, progress=told)
        found = found.after_round(counted)
    return found


def check_engine(planned: Discovery, engine: Engine) -> None:
    """Refuse to count levels where only sums are computed."""
    if planned.levels and not isinstance(engine, LocalEngine):
        raise PlanError(
            f"Private levels (column {planned.levels[0].column!r}) are counted by the local engine only, not on a cluster. "
            "Declare the levels, or pass the files without an engine. Nothing was spent."
        )


def _told(progress: Progress, name: str) -> Callable[[int, int], None]:
    return lambda done, total: progress(name, done, total)


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
