"""What a design hands to the plan: what is measured, and how rows are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smoothsynth.queries.measurement import Measurement
    from smoothsynth.subspace import SubspaceMeasurement


@dataclass(frozen=True, slots=True)
class Design:
    """Measurements in order, perhaps a subspace iteration, and the candidates and fit that suit them.

    `fitted` is the number of leading moments that the fit uses; the others serve the candidates only. `levels` is
    the number of levels per column of a full grid that is never listed, for a full tensor of features. `looks` says
    for each measurement how the model, as it is by then, shall look at the rows (None: as they are).
    """

    measurements: tuple[Measurement, ...]
    candidates: str
    candidate_count: int
    fit: str
    subspace: SubspaceMeasurement | None = None
    fitted: int | None = None
    levels: int | None = None
    looks: tuple[str | None, ...] = ()
