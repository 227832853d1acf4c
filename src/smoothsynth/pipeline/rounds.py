"""The loop that learns: from the noisy moments of each round to the model, and to what the next round measures.

Public on both sides (docs/proofs/post-processing.md): it takes noisy moments and gives the next measurement, wherever its
sums are computed. Whoever learns from moments comes here: a release, an update, a federated study, more rows of a release,
and its verification.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from smoothsynth.model.model import Model, empty_model, update_through

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from smoothsynth.pipeline.plan import Plan
    from smoothsynth.queries.measurement import Measurement, NoisyMoments
    from smoothsynth.queries.transformation import Transformation
    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """What each round measures, the moments released so far, and the model that learned from them.

    A second release may keep the transformations of an `earlier` one. `origin` is the model that transformations are made
    of: the one that learned from the earlier moments, or else `model` itself. What is not `adaptive` needs no model, and
    none learns.
    """

    measurements: tuple[Measurement, ...]
    rows: int
    adaptive: bool
    model: Model
    origin: Model
    moments: tuple[NoisyMoments, ...] = ()
    earlier: tuple[NoisyMoments, ...] = ()

    @classmethod
    def planned(cls, plan: Plan, *, earlier: Iterable[NoisyMoments] = (), prior: Array | None = None) -> Rounds:
        """Begin the rounds of a plan, with the public rows of a prior, if any."""
        empty = empty_model(plan.schema, prior)
        return cls(plan.measurements, plan.rows, plan.adaptive, empty, empty, earlier=tuple(earlier))

    @classmethod
    def released(
        cls,
        schema: Schema,
        moments: Iterable[NoisyMoments],
        *,
        rows: int,
        earlier: Iterable[NoisyMoments] = (),
        adaptive: bool = True,
        prior: Array | None = None,
    ) -> Rounds:
        """Begin the rounds of a release again, to learn from its moments what was learned then."""
        empty, measurements = empty_model(schema, prior), tuple(noisy.measurement for noisy in moments)
        return cls(measurements, rows, adaptive, empty, empty, earlier=tuple(earlier))

    @property
    def done(self) -> bool:
        """Whether all is measured."""
        return len(self.moments) == len(self.measurements)

    @property
    def next(self) -> Measurement | None:
        """What is measured next, seen through a transformation made of what was released; None when all is measured."""
        if self.done:
            return None
        number = len(self.moments)
        measurement = self.measurements[number]
        transformation = self.earlier[number].measurement.transformation if self.earlier else self.proposed
        return self.model.offer(measurement.through(transformation), self.rows)

    @property
    def proposed(self) -> Transformation | None:
        """The transformation that the model proposes for the next round; of an earlier release, the one it proposed then."""
        number = len(self.moments)
        measurement, rows = self.measurements[number], self.rows
        if self.earlier:
            measurement, rows = self.earlier[number].measurement, self.earlier[number].rows
        return self.origin.proposed(measurement, rows)

    def after(self, *moments: NoisyMoments) -> Rounds:
        """Let the model learn from the moments of the next rounds, in order."""
        return reduce(Rounds._learned, moments, self)

    def _learned(self, noisy: NoisyMoments) -> Rounds:
        number, moments = len(self.moments), (*self.moments, noisy)
        if not self.adaptive:
            return replace(self, moments=moments)
        model = update_through(self.model, self.origin, noisy)
        origin = self.origin.update(self.earlier[number]) if self.earlier else model
        return replace(self, model=model, origin=origin, moments=moments)
