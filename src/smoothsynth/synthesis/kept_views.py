"""Learn from moments that were seen through the views of an earlier release."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.synthesis.model import Model


def learn_through(model: Model, origin: Model, kind: str | None, noisy: NoisyMoments) -> Model:
    """Return the model after moments whose view was made of the model `origin`.

    Cosines of ranks are cos(k pi F(x)) with F of the columns of `origin`, so these columns are what is tilted. Scores and
    lengths are compared with rows of the model seen through the view itself, whatever it was made of (docs/proofs/sites.md).
    """
    known = replace(model, columns=origin.columns) if kind == "ranks" else model
    return known.learn(kind, noisy)
