"""For the owner only: comparison page values, schema draft.

Statistics of the private rows for their owner, without noise: as secret as the rows, and never part of a release.

Draft a schema file from a table: names and types only, bounds and levels left open for the owner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smoothsynth.errors import DataError, PlanError
from smoothsynth.private.sources.cells import looks_like_cells
from smoothsynth.private.sources.files import column_kinds
from smoothsynth.private.table import open_table
from smoothsynth.schema import valued

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

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
    if schema.person is not None:
        raise PlanError(
            "The owner's page compares with single rows, and this release is about persons, whose rows were averaged. "
            "Compare with a table that you averaged yourself, one row for each person."
        )
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
    places = valued.scale_to_unit(values.copy(), *schema.columns[name].bounds)  # type: ignore[union-attr]
    return np.array([np.mean(np.exp(-(((places - centre) / width) ** 2))) for centre in centres])


def _correlation(points: Array) -> Array:
    """Return the correlation matrix; a column that does not vary has none, written as 0."""
    centred = points - points.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    scaled = centred / np.where(length > 1e-12, length, np.inf)
    return np.asarray(np.clip(scaled.T @ scaled, -1.0, 1.0))


_HEAD = """\
# A draft: fill in lower and upper, or levels, for each column, and delete the columns that nobody should ask about.
#
# Bounds and levels must be public knowledge: a code book, a law, the range of an instrument, a form, common sense. Do
# not take the smallest and largest value of the table, or the values found in it: those may belong to single persons,
# and publishing them breaks the promise. Values outside the bounds are moved to the bound, so generous bounds are safe,
# but every answer's noise grows with their width. Values that are no level count at the level that `other` names.
#
# Where nobody knows a bound or the levels, write  lower = "private",  upper = "private"  or  levels = "private":  the release
# finds them for a share of its budget (smoothsynth plan shows it; levels need a delta). Public ones cost nothing.
#
# Add  nullable = true  to a column in which missing cells mean something. A  description  and, for numbers, a  unit  help
# readers; a section  [about]  says what the table is: title, description, owner, licence, contact, url, published.
#
# If a person can have several rows, name the column with their ids in a line  person = "patient_id"  above all columns, and
# delete its section: it is read, and never released.
#
# Make sure that the names below are names, and no person's cells: of a CSV file they are its first line.
# The types were guessed from the types in the file, or from its first rows. Make sure that they are what you would have
# said without looking.
"""


_BOUNDS = "# lower = \n# upper = \n"
_LEFT_OPEN = {
    "number": _BOUNDS,
    "integer": _BOUNDS,
    "boolean": "",
    "date": "# lower = 2000-01-01\n# upper = 2029-12-31\n",
    "datetime": "# lower = 2000-01-01T00:00:00\n# upper = 2029-12-31T23:59:59\n",
    "category": '# levels = ["a", "b", "other"]\n# other = "other"\n',
}


def draft_schema(path: str | Path, *, names: Sequence[str] | None = None) -> str:
    """Return the text of a schema file with the names and types of a table; bounds and levels are left open.

    A CSV file whose first line looks like cells, not like names, is refused: a schema is published, and these would be a
    person's. `names` says what the columns are called, in their order.
    """
    parts, kinds = [_HEAD], column_kinds(path)
    if names is not None:
        kinds = list(zip(_checked(names, len(kinds), path), (kind for _, kind in kinds), strict=True))
    elif str(path).lower().endswith((".csv", ".csv.gz")) and looks_like_cells([name for name, _ in kinds]):
        raise DataError(
            f"{path} must begin with a line of column names, and its first line looks like somebody's cells: there is a "
            "number, a date, an empty or a repeated name in it. Write a line of names above it; or, if these are the names, "
            "or to see a draft with others, say names=[...] (--names a,b,c) with one name for each column."
        )
    for name, kind in kinds:
        section = f"[columns.{_quoted(name)}]"
        if kind in _LEFT_OPEN:
            parts.append(f'{section}\ntype = "{kind}"\n{_LEFT_OPEN[kind]}')
        else:
            parts.append(f"# {section}   holds {kind}, which cannot be released; it is left out.\n")
    return "\n".join(parts)


def _checked(names: Sequence[str], count: int, path: str | Path) -> Sequence[str]:
    if len(names) != count or len(set(names)) < count or not all(names):
        raise DataError(
            f"{path} has {count} columns: give as many names, each once and none empty; {len(names)} were given."
        )
    return names


def _quoted(name: str) -> str:
    # As TOML has it: what cannot be printed as \uXXXX or \UXXXXXXXX.
    escapes = {'"': '\\"', "\\": "\\\\"}
    return '"' + "".join(escapes.get(c, c if c.isprintable() else _escape(c)) for c in name) + '"'


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 2**16 else f"\\U{number:08x}"
