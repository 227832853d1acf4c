"""How far a plan has been carried out: what was released so far, what the model learned, and what is measured next.

Public on both sides: it takes noisy moments and gives the next measurement, wherever its sums are computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from smoothsynth.model.model import Model, empty_model, update_through

if TYPE_CHECKING:
    from collections.abc import Iterable

    from smoothsynth.pipeline.plan import Plan
    from smoothsynth.queries.measurement import Measurement, NoisyMoments


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """A plan, the moments released so far, and the model that learned from them.

    A second release may keep the views of an `earlier` one. `origin` is the model that those views were made of.
    """

    planned: Plan
    model: Model
    origin: Model
    moments: tuple[NoisyMoments, ...] = ()
    earlier: tuple[NoisyMoments, ...] = ()

    @classmethod
    def of(cls, planned: Plan, moments: Iterable[NoisyMoments] = (), *, earlier: Iterable[NoisyMoments] = ()) -> Stages:
        """Begin a plan, or take it up again after what was released."""
        empty = empty_model(planned.schema)
        stages = cls(planned, empty, empty, earlier=tuple(earlier))
        for noisy in moments:
            stages = stages.after(noisy)
        return stages

    @property
    def next(self) -> Measurement | None:
        """What is measured next, seen through a view made of what was released; None when all is measured."""
        stage = len(self.moments)
        if stage == len(self.planned.measurements):
            return None
        measurement = self.planned.measurements[stage]
        if self.earlier:
            return replace(measurement, view=self.earlier[stage].measurement.view)
        view = self.model.proposed(measurement, self.planned.rows)
        return self.model.offer(replace(measurement, view=view))

    def after(self, noisy: NoisyMoments) -> Stages:
        """Let the model learn from the moments of the next stage."""
        stage, moments = len(self.moments), (*self.moments, noisy)
        if not self.planned.adaptive:
            return replace(self, moments=moments)
        if not self.earlier:
            return replace(self, model=self.model.update(noisy), moments=moments)
        model = update_through(self.model, self.origin, noisy)
        return replace(self, model=model, origin=self.origin.update(self.earlier[stage]), moments=moments)
