"""An illustration of one column at the noise of a plan: made-up values within the public bounds, and the expected error.

Nothing here knows of the private rows. The band is what `forecast` expects for averages of a kernel, or for shares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import SchemaError
from smoothsynth.pipeline.forecast import forecast_queries
from smoothsynth.schema import Boolean, Category
from smoothsynth.schema.roles import unknown_column
from smoothsynth.schema.unresolved import assumed
from smoothsynth.schema.valued import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.pipeline.plan import Forecast, Plan
    from smoothsynth.schema import Column

    Values = NDArray[np.float64]


# Kernels exp(-((x - centre)/width)^2) on the cube; a width that a release of a few thousand rows can tell.
_CENTRES, _WIDTH = np.linspace(-1.0, 1.0, 33), 0.25
_AREA = _WIDTH * np.sqrt(np.pi)
_MOST_LEVELS = 10
# Two bumps, as a made-up column: share, centre and standard deviation of each.
_BUMPS = ((0.7, -0.3, 0.22), (0.3, 0.4, 0.14))


def forecast_with_picture(plan: Plan, name: str) -> tuple[tuple[Forecast, ...], dict[str, Any]]:
    """Return the expected errors of typical queries, and the illustration of one column."""
    known = assumed(plan.schema)
    if name not in known.columns:
        raise SchemaError(unknown_column(name, known.names))
    place, column = known.coordinates_of(name), known.columns[name]
    shares = _levels(column)

    def queries(points: Values) -> list[tuple[str, Values]]:
        if shares:
            return [("", points[:, k]) for k in range(len(shares))]
        return [("", np.exp(-(((points[:, 0] - centre) / _WIDTH) ** 2))) for centre in _CENTRES]

    own = forecast_queries(plan, queries, range(place.start, place.stop))
    drawn = _bars(column, shares, own) if shares else _curve(plan.schema.columns[name], own)
    return plan.forecast(), {"column": name, **drawn}


def _levels(column: Column) -> tuple[str, ...]:
    """Return the levels that are drawn, one coordinate for each; none of a column of numbers."""
    if isinstance(column, Boolean):
        return ("true",)
    return column.cube.texts[:_MOST_LEVELS] if isinstance(column, Category) else ()


def _bars(column: Column, levels: Sequence[str], own: Sequence[Forecast]) -> dict[str, Any]:
    # True and false lie at the two ends of [-1, 1], a level at 0 or 1.
    half = 0.5 if isinstance(column, Boolean) else 1.0
    weights = 1.0 / np.arange(1.0, 1.0 + max(len(levels), column.dimensions))
    values = [0.6] if isinstance(column, Boolean) else (weights / weights.sum())[: len(levels)].tolist()
    return {"kind": "shares", "labels": list(levels), "values": values, **_errors(own, half)}


def _curve(column: Column, own: Sequence[Forecast]) -> dict[str, Any]:
    at = np.linspace(-1.0, 1.0, 801)
    bumps = [share * np.exp(-(((at - centre) / deviation) ** 2) / 2) / deviation for share, centre, deviation in _BUMPS]
    density = np.sum(bumps, axis=0) / np.sum(bumps)
    values = [float(density @ np.exp(-(((at - centre) / _WIDTH) ** 2))) / _AREA for centre in _CENTRES]
    ends = [_bound(getattr(column, side)) for side in ("lower", "upper")]
    return {"kind": "curve", "labels": ends, "values": values, **_errors(own, 1.0 / _AREA)}


def _errors(own: Sequence[Forecast], scale: float) -> dict[str, Any]:
    """Return half widths of 95 %: from noise alone, and with what is not measured."""
    noise = [1.96 * scale * one.noise for one in own]
    return {"noise": noise, "all": [1.96 * scale * float(np.hypot(one.noise, one.unseen)) for one in own]}


def _bound(bound: object) -> str:
    if bound == PRIVATE:
        return "a bound to be found"
    return f"{bound:,.12g}" if isinstance(bound, (int, float)) else str(bound)
