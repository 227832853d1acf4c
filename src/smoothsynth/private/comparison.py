"""Statistics of the private rows for their owner, without noise: as secret as the rows, and never part of a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smoothsynth.errors import DataError
from smoothsynth.private.table import open_table
from smoothsynth.schema import valued

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.private.table import Table
    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]
    Kernel = tuple[str, Array, float]
    Question = Callable[[Mapping[str, Array]], float]

_BATCH_ROWS = 2**16


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison:
    """Kernel averages of columns, their correlations, and answers to questions, all of the private rows."""

    curves: tuple[Array, ...]
    correlation: Array
    answers: tuple[float, ...]

    def __repr__(self) -> str:
        return "<private comparison>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("A comparison with private rows cannot be copied or pickled.")

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for the owner's page."""
        lower = np.tril_indices(len(self.correlation), -1)
        return {
            "curves": [curve.tolist() for curve in self.curves],
            "correlations": self.correlation[lower].tolist(),
            "answers": list(self.answers),
        }


def compare(
    data: object, schema: Schema, *, rows: int, kernels: Sequence[Kernel], questions: Sequence[Question]
) -> Comparison:
    """Compute what the page of a release shows, on the private rows, with values clipped to their bounds.

    A kernel is a column of numbers, centres and a width w:  mean exp(-((x - centre)/w)^2),  x scaled so that the bounds
    are -1 and 1. A question takes these columns in their own units. `rows` is what the receipt says.
    """
    table = open_table(data, schema)
    if table.rows != rows:
        raise DataError(
            f"The release was made from {rows:,} rows; this table has {table.rows:,}. Name the table it was made from."
        )
    points = _unit_rows(table)
    chosen = {name: points[:, schema.coordinates_of(name).start] for name, _, _ in kernels}
    columns = {name: np.asarray(schema.columns[name].from_unit(unit), np.float64) for name, unit in chosen.items()}  # type: ignore[union-attr]
    return Comparison(
        curves=tuple(_curve(columns[name], schema, kernel) for kernel in kernels for name in kernel[:1]),
        correlation=_correlation(np.stack(list(chosen.values()), axis=1)) if chosen else np.zeros((0, 0)),
        answers=tuple(float(question(columns)) for question in questions),
    )


def _unit_rows(table: Table) -> Array:
    names = table.schema.names
    batches = (dict(zip(names, batch.columns, strict=True)) for batch in table._batches(_BATCH_ROWS))
    return np.concatenate([table.schema.to_unit(batch) for batch in batches])


def _curve(values: Array, schema: Schema, kernel: Kernel) -> Array:
    name, centres, width = kernel
    places = valued.to_unit(values.copy(), *schema.columns[name].bounds)  # type: ignore[union-attr]
    return np.array([np.mean(np.exp(-(((places - centre) / width) ** 2))) for centre in centres])


def _correlation(points: Array) -> Array:
    """Return the correlation matrix; a column that does not vary has none, written as 0."""
    centred = points - points.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    scaled = centred / np.where(length > 1e-12, length, np.inf)
    return np.asarray(np.clip(scaled.T @ scaled, -1.0, 1.0))
