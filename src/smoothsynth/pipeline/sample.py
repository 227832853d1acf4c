"""More rows of a release, such as fit a condition, or given rows completed: the model learns again from released moments.

Nothing private is touched and nothing is spent: anyone who has the release can draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.methods.layout import check_count
from smoothsynth.model.sampling import generator
from smoothsynth.model.synthesis import drawn_tables
from smoothsynth.pipeline.rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.model.model import Model
    from smoothsynth.pipeline.release import Release

    Condition = Mapping[str, Any] | Callable[[pa.Table], Any]


_FEWEST_DRAWN, _PATIENCE, _MOST_DRAWN, _MOST_IN_PARTS = 4_096, 50_000, 4_000_000, 10**9
# Rows that are drawn to complete given ones from: twice as many as those, within these limits.
_FEWEST_DONORS, _MOST_DONORS = 20_000, 50_000
# The last few releases drawn from, with their models: releases are held, so an identity is not used again.
_MOST_KEPT = 4
_kept: dict[int, tuple[Release, Model]] = {}


def sample(release: Release, rows: int, *, where: Condition | None = None, seed: int | None = None) -> pa.Table:
    """Draw rows from the model of a release; with `where`, only such as fit.

    where={"sex": "f", "age": (50, 60)} asks for a level or a value, and for a range with both ends; a function takes
    an Arrow table and returns one truth value a row. Rows are drawn until enough fit: a condition on something
    rarer than one row in a thousand can take long, and what the release knows of it is mostly noise.
    """
    import pyarrow as pa

    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= _MOST_DRAWN:
        raise PlanError(
            f"The number of rows must be a whole number from 1 to {_MOST_DRAWN:,}; found {rows!r:.40}. "
            "Draw more with release.sample_parts."
        )
    model, randomness = _model_of(release), generator(seed)
    if where is None:
        return _drawn(release, model, rows, randomness)
    found: list[pa.Table] = []
    have = drawn = 0
    while have < rows:
        wanted = max(_FEWEST_DRAWN, 2 * (rows - have)) if not have else round(1.2 * drawn * (rows - have) / have) + 64
        if drawn >= min(_MOST_DRAWN, max(_PATIENCE, 1000 * rows)):
            raise PlanError(
                f"Only {have:,} of {drawn:,} rows fit the condition, and {rows:,} were asked for. "
                "Ask for fewer rows, or widen it."
            )
        wanted = min(wanted, _PATIENCE)
        table = _drawn(release, model, wanted, randomness)
        found.append(table.filter(pa.array(_fits(table, where, release.schema.names))))
        have, drawn = have + found[-1].num_rows, drawn + wanted
    return pa.concat_tables(found).slice(0, rows)


def sample_parts(release: Release, rows: int, *, seed: int | None = None) -> Iterator[pa.Table]:
    """Draw any number of rows, in tables of at most 256,000: memory does not grow with their number."""
    check_count("rows", rows, _MOST_IN_PARTS)
    yield from drawn_tables(release.schema, _model_of(release), rows, generator=generator(seed))


def write_parts(parts: Iterator[pa.Table], place: Any, kind: str) -> int:
    """Write tables one after another to one file, .csv or .parquet; return how many rows they have."""
    from pyarrow import csv, parquet

    first, rows = next(parts), 0
    settings = {} if kind == ".csv" else {"compression": "zstd"}
    with (csv.CSVWriter if kind == ".csv" else parquet.ParquetWriter)(place, first.schema, **settings) as writer:
        for part in chain([first], parts):
            writer.write_table(part)
            rows += part.num_rows
    return rows


def complete(release: Release, frame: Any, *, seed: int | None = None) -> pa.Table:
    """Fill in the columns that a frame of public or synthetic rows lacks, from the model of a release.

    Each row stays as it is, in its place; what it lacks is drawn given what it has. A null in a column that is there is a
    missing value. Constraints hold between given and filled columns, or the rows where they cannot are named.
    """
    from smoothsynth.pipeline.given_rows import given_rows
    from smoothsynth.pipeline.partial_rows import completed

    given, randomness = given_rows(frame, release.schema), generator(seed)
    if given.num_rows > _MOST_DRAWN:
        raise PlanError(f"At most {_MOST_DRAWN:,} rows can be given at once; there are {given.num_rows:,}.")
    count = min(_MOST_DONORS, max(_FEWEST_DONORS, 2 * given.num_rows))
    donors = _drawn(release, _model_of(release), count, randomness)
    return completed(given, donors, release.schema, generator=randomness)


def chooser(seed: int | None) -> Callable[[int, int], NDArray[np.intp]]:
    """Return a function of n and k that picks k of n rows, in random order; of the rows it knows their number only."""
    randomness = generator(seed)
    return lambda rows, count: np.asarray(randomness.choice(rows, count, replace=False), dtype=np.intp)


def _model_of(release: Release) -> Model:
    """Return the model of a release, learned once as long as it is among the last few drawn from."""
    found = _kept.get(id(release))
    if found is None:
        found = (release, _learned_model(release))
        while len(_kept) >= _MOST_KEPT:
            _kept.pop(next(iter(_kept)), None)
        _kept[id(release)] = found
    return found[1]


def _learned_model(release: Release) -> Model:
    if (
        not any(noisy.measurement.transformation is not None for noisy in release.moments)
        and release.receipt.method != "auto"
    ):
        raise PlanError(
            "This release was made by weighing candidates: its rows are all there is. Use method='auto' for a model."
        )
    rounds = Rounds.released(
        release.schema,
        release.moments,
        rows=release.receipt.rows,
        earlier=release.earlier,
        prior=release.unit_prior(),
    )
    return rounds.after(*release.moments).model


def _drawn(release: Release, model: Model, rows: int, randomness: np.random.Generator) -> pa.Table:  # noqa: TID251
    import pyarrow as pa

    return pa.concat_tables(drawn_tables(release.schema, model, rows, generator=randomness))


def _fits(table: pa.Table, where: Condition, names: tuple[str, ...]) -> NDArray[np.bool_]:
    from smoothsynth.errors import SchemaError
    from smoothsynth.schema import unknown_column

    if not isinstance(where, Mapping):
        found = np.asarray(where(table), dtype=bool) if callable(where) else np.zeros(())
        if found.shape != (table.num_rows,):
            raise PlanError(
                'A condition must be such as {"sex": "f", "age": (50, 60)}, or a function that says of each row '
                "whether it fits."
            )
        return found
    fits = np.ones(table.num_rows, dtype=bool)
    for name, wanted in where.items():
        if name not in names:
            raise SchemaError(unknown_column(name, names))
        fits &= _column_fits(table[name], wanted)
    return fits


def _column_fits(column: pa.ChunkedArray, wanted: Any) -> NDArray[np.bool_]:
    from pyarrow import compute

    if wanted is None:
        return np.asarray(compute.is_null(column))
    if isinstance(wanted, tuple) and len(wanted) == 2:
        found = compute.and_(compute.greater_equal(column, wanted[0]), compute.less_equal(column, wanted[1]))
    elif isinstance(wanted, (list, set, frozenset)):
        found = compute.is_in(column, value_set=_values(column, wanted))
    else:
        found = compute.equal(column, wanted)
    return np.asarray(compute.fill_null(found, False))  # noqa: FBT003


def _values(column: pa.ChunkedArray, wanted: Any) -> pa.Array:
    import pyarrow as pa

    return pa.array(list(wanted), type=column.type)
