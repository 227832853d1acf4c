"""The interval around the mean of a function over the rows, or over some of them: the narrower of the two that there are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from smoothsynth.answer.bounded import bounded_at
from smoothsynth.answer.estimate import Estimate
from smoothsynth.answer.interval import frame_of, heavy_quantile, parts_of, quantile
from smoothsynth.answer.ratio import bounded_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from smoothsynth.answer.knowledge import Knowledge

    Array = NDArray[np.float64]
    OfPoints = Callable[[Array], Array]

# The share of rows that an average is about is taken to be uncertain by at most this much of itself.
_MOST_UNCERTAIN = 0.9
FEW_ROWS = "The share of rows that this is about is itself uncertain: take the interval as a rough one."


def noise_quantile(knowledge: Knowledge, confidence: float) -> float:
    """Return how many deviations noise stays within: that of Laplace noise where some of the release has it."""
    gaussian = all(noisy.measurement.mechanism == "discrete gaussian" for noisy in knowledge.release.moments)
    return quantile(confidence) if gaussian else heavy_quantile(confidence)


def around(
    knowledge: Knowledge,
    columns: Sequence[int],
    function: OfPoints,
    *,
    value: float,
    own: str | None,
    confidence: float,
    rough: bool = False,
) -> Estimate:
    """Return the interval of the mean over all rows; `own` is the column, if the function is one of a single column."""
    sure = None if own is None else bounded_at(knowledge, own, function, confidence=confidence)
    if sure is None or not sure.settled:
        found = _estimated(knowledge, columns, function, value=value, confidence=confidence, rough=rough)
        # A constant has no width either way, but for the last bits; of two equal intervals the proved one is said.
        most = math.hypot(found.noise, found.unseen, found.sampling) + 1e-12 * (1.0 + abs(value))
        if sure is None or sure.noise + sure.unseen > most:
            return found
    half = sure.noise + sure.unseen
    return Estimate(
        value,
        min(sure.centre - half, value),
        max(sure.centre + half, value),
        confidence,
        noise=sure.noise,
        fit=sure.centre - value,
        unseen=sure.unseen,
        sampling=0.0,
        unseen_is="bounded",
    )


def around_part(
    knowledge: Knowledge,
    columns: Sequence[int],
    function: OfPoints,
    there: OfPoints,
    *,
    value: float,
    share: float,
    own: str | None,
    confidence: float,
    rough: bool = False,
) -> Estimate:
    """Return the interval of the mean over the rows that are there, a share of all, on which it is `value`."""
    sure = None if own is None else bounded_ratio(knowledge, own, function, there, confidence=confidence)
    if sure is None or not sure.settled:
        found = _linear(
            knowledge, columns, function, there, value=value, share=share, confidence=confidence, rough=rough
        )
        if sure is None or sure.high - sure.low > found.high - found.low:
            return found
    low, high, fit = min(sure.low, value), max(sure.high, value), (sure.low + sure.high) / 2.0 - value
    return Estimate(value, low, high, confidence, sure.noise, fit, sure.unseen, 0.0, unseen_is="bounded")


def _linear(
    knowledge: Knowledge,
    columns: Sequence[int],
    function: OfPoints,
    there: OfPoints,
    *,
    value: float,
    share: float,
    confidence: float,
    rough: bool,
) -> Estimate:
    """Return the estimated interval of a mean over some rows.

    To first order it moves like the mean of  (f - value) there / share;  the uncertainty of the share widens that.
    """

    def moves(points: Array) -> Array:
        return (function(points) - value) * there(points) / share

    found = _estimated(knowledge, columns, moves, value=0.0, confidence=confidence, rough=rough)
    group = _estimated(knowledge, columns, lambda p: there(p) / share, value=1.0, confidence=confidence, rough=rough)
    uncertain = min(group.half_width, _MOST_UNCERTAIN)
    wider = 1.0 / (1.0 - uncertain)
    return replace(
        found,
        value=value,
        low=value + wider * found.low,
        high=value + wider * found.high,
        noise=wider * found.noise,
        fit=wider * found.fit,
        unseen=wider * found.unseen,
        sampling=wider * found.sampling,
        kind="linearised",
        note=FEW_ROWS if uncertain > _MOST_UNCERTAIN / 2.0 else "",
    )


def _estimated(
    knowledge: Knowledge, columns: Sequence[int], function: OfPoints, *, value: float, confidence: float, rough: bool
) -> Estimate:
    values = function(knowledge.rows)
    parts = parts_of(frame_of(knowledge, columns), values, synthetic_rows=len(knowledge.points), rough=rough)
    q, heavy = quantile(confidence), noise_quantile(knowledge, confidence)
    noise, unseen, sampling = heavy * parts.noise, q * parts.unseen, q * parts.sampling
    half = math.hypot(noise, unseen, sampling)
    low, high = min(value + parts.fit - half, value), max(value + parts.fit + half, value)
    return Estimate(value, low, high, confidence, noise, parts.fit, unseen, sampling, unseen_is="estimated")
