"""The whole story on a made-up table: plan, release, and a comparison that only a public table allows."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from smoothsynth._files import write_whole
from smoothsynth.demo import DATA, SCHEMA
from smoothsynth.demo import stays as made_up
from smoothsynth.pipeline.forecast import plan_view
from smoothsynth.pipeline.plan import plan
from smoothsynth.pipeline.run import release
from smoothsynth.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray
    from rich.console import RenderableType

    from smoothsynth.answer.estimate import Estimate
    from smoothsynth.pipeline.release import Release
    from smoothsynth.pipeline.run import Progress

DELTA = 1e-7
# What is asked, and the same of an Arrow table.
_QUESTIONS: dict[str, Callable[[dict[str, NDArray[Any]]], Any]] = {
    "avg(age)": lambda t: t["age"].mean(),
    "avg(cost)": lambda t: t["cost"].mean(),
    "avg(nights)": lambda t: t["nights"].mean(),
    "avg(ward = 'geriatrics')": lambda t: (t["ward"] == "geriatrics").mean(),
    "avg(systolic is null)": lambda t: np.isnan(t["systolic"]).mean(),
    "avg(exp(-power((age - 70) / 10, 2)))": lambda t: np.exp(-(((t["age"] - 70) / 10) ** 2)).mean(),
    "avg(systolic where smoker = true)": lambda t: np.nanmean(t["systolic"][t["smoker"]]),
    "avg(cost where ward = 'oncology')": lambda t: t["cost"][t["ward"] == "oncology"].mean(),
    "avg(returned = true)": lambda t: t["returned"].mean(),
}


def tell(output: Path, *, epsilon: float, progress: Progress | None = None) -> Iterator[RenderableType]:
    """Plan, release, write and compare; give what is to be printed as it is known."""
    rows = made_up.stays()
    yield f"A made-up table of {rows.num_rows:,} hospital stays, {rows.num_columns} columns. Nobody is in it.\n"
    yield plan_view(plan(made_up.SCHEMA, rows.num_rows, epsilon=epsilon, delta=DELTA))
    with write_whole(output, force=True) as folder:
        released = release(rows, schema=made_up.SCHEMA, epsilon=epsilon, delta=DELTA, progress=progress)
        released.write_files(folder, csv=True)
    yield f"\n{released.receipt.promise()}\n"
    yield _comparison(rows, released)
    yield "\nThis comparison is possible only because the table is public: on private rows it would cost budget.\n"
    yield _paper(epsilon)
    yield f"Read it back with  smoothsynth.load('{output}'),  check it with  smoothsynth verify {output}"
    yield f"Open {(output / 'report.html').resolve().as_uri()}"


def _comparison(rows: pa.Table, released: Release) -> RenderableType:
    from rich.table import Table

    table = Table(title="Questions, on the made-up rows and on the synthetic ones", title_justify="left")
    for heading in ("question", "real", "synthetic", "95 % interval"):
        table.add_column(heading, justify="left" if heading == "question" else "right")
    cells = {name: rows[name].to_numpy() for name in rows.column_names}
    for question, truth in _QUESTIONS.items():
        found = cast("Estimate", released.answer(question))
        table.add_row(question, f"{truth(cells):.4g}", f"{found.value:.4g}", f"{found.low:.4g} to {found.high:.4g}")
    return table


def _paper(epsilon: float) -> str:
    """Say in one line how well the paper's own table comes out."""
    schema = Schema.load(SCHEMA)
    with gzip.open(DATA, "rt", encoding="utf-8") as file:
        values = np.loadtxt(file, delimiter=",", skiprows=1)
    real = schema.to_unit({name: values[:, i] for i, name in enumerate(schema.names)})
    made = release(DATA, schema=schema, epsilon=epsilon).unit_rows()
    worst = max(
        abs(_kernel(made, c) / _kernel(real, c) - 1) for c in np.random.default_rng(0).uniform(-1, 1, (500, 30))
    )
    return (
        f"The paper's table (WDBC, 569 rows x 30 columns) with epsilon = {epsilon:g} and no delta: worst relative error of "
        f"500 Gaussian kernels of width 4 on all columns {worst:.3f}.\n"
    )


def _kernel(rows: NDArray[np.float64], centre: NDArray[np.float64]) -> float:
    return float(np.exp(-np.sum((rows - centre) ** 2, axis=1) / (2 * 4.0**2)).mean())
