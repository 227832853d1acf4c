"""Any number of rows from any release: post-processing of what was released, so it costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.model.sampling import generator, systematic
from smoothsynth.pipeline.sample import sample

if TYPE_CHECKING:
    import pyarrow

    from smoothsynth.pipeline.release import Release


def draw(release: Release, rows: int | np.integer[Any], *, seed: int | None = None) -> pyarrow.Table:
    """Draw new rows from the model of a release.

    Where rows were weighed among candidates there is no model: then the released rows are repeated, each floor(m/n) or
    ceil(m/n) times, since the tools that ask here expect any number of rows.
    """
    wanted = int(rows) if isinstance(rows, np.integer) else rows
    receipt, count = release.receipt, release.table.num_rows
    if (receipt.candidates, receipt.fit) == ("model", "maximum entropy"):
        return sample(release, wanted, seed=seed)
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise PlanError(f"The number of rows must be a whole number from 1 on; found {wanted!r:.40}.")
    return release.table.take(systematic(np.full(count, 1.0 / count), wanted, generator=generator(seed)))
