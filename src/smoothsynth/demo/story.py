"""The whole story on the built-in table: plan, release, and a comparison that only a public table allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth._files import write_whole
from smoothsynth.demo import DATA, SCHEMA
from smoothsynth.pipeline.forecast import plan_view
from smoothsynth.pipeline.plan import plan
from smoothsynth.pipeline.run import release
from smoothsynth.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from rich.console import RenderableType

    from smoothsynth.pipeline.run import Progress

ROWS = 569


def tell(output: Path, *, epsilon: float, progress: Progress | None = None) -> list[RenderableType]:
    """Plan, release, write and compare; return what is to be printed."""
    schema = Schema.load(SCHEMA)
    made = plan(schema, ROWS, epsilon=epsilon)
    with write_whole(output, force=True) as folder:
        released = release(DATA, schema=schema, epsilon=epsilon, progress=progress)
        released.write_files(folder, csv=True)
    return [
        "Breast Cancer Wisconsin (Diagnostic), UCI, CC BY 4.0: 569 rows, 30 columns.\n",
        plan_view(made),
        "",
        f"Wrote {output}: {released.receipt.promise()}\n",
        _comparison(schema, _public_rows(schema), released.unit_rows()),
        "\nThis comparison is possible only because the table is public: on private rows it would cost budget.",
        f"Read it back with  smoothsynth.load('{output}').",
    ]


def _public_rows(schema: Schema) -> NDArray[np.float64]:
    import gzip

    with gzip.open(DATA, "rt", encoding="utf-8") as file:
        rows = np.loadtxt(file, delimiter=",", skiprows=1)
    return schema.to_unit({name: rows[:, i] for i, name in enumerate(schema.names)})


def _comparison(schema: Schema, real: NDArray[np.float64], synthetic: NDArray[np.float64]) -> RenderableType:
    from rich.table import Table

    table = Table(title="Smooth questions, real against synthetic", title_justify="left")
    for heading in ("question", "real", "synthetic", "difference"):
        table.add_column(heading, justify="left" if heading == "question" else "right")
    for name, function in _questions(schema):
        a, b = float(np.mean(function(real))), float(np.mean(function(synthetic)))
        table.add_row(name, f"{a:.4f}", f"{b:.4f}", f"{b - a:+.4f}")
    return table


def _questions(schema: Schema):  # type: ignore[no-untyped-def]  # noqa: ANN202
    first = [schema.names.index(name) for name in ("mean_radius", "worst_texture", "mean_symmetry")]

    def kernel(width: float):  # type: ignore[no-untyped-def]  # noqa: ANN202
        return lambda x: np.exp(-np.sum((x + 0.5) ** 2, axis=1) / (2 * width**2))

    means = [(f"mean of {schema.names[c]} (half ranges)", lambda x, c=c: x[:, c]) for c in first]
    kernels = [(f"kernel of width {w:g} on all columns", kernel(w)) for w in (2, 4, 10)]
    return [*means, *kernels]
