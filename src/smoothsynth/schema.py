"""Public facts about a table: its columns, their types and bounds, and the way between units and the cube.

A column is one or more *coordinates* of the cube [-1, 1]^d. Everything here is public knowledge and none of
it is ever read from the data.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import SchemaError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

WHY_PUBLIC = (
    "Bounds are public knowledge (a code book, a law, the range of an instrument), never the smallest and "
    "largest value of the data: those belong to single persons."
)


@dataclass(frozen=True, slots=True)
class Number:
    """A column of real numbers between two public bounds; values outside are clipped."""

    lower: float | None = None
    upper: float | None = None

    kind = "number"
    dimensions = 1

    def problem(self) -> str | None:
        """Say what is wrong with the bounds, in words, or None."""
        return _bounds_problem(self.lower, self.upper)

    def facts(self) -> dict[str, Any]:
        """Return what a schema file says of this column."""
        return {"type": self.kind, "lower": self.lower, "upper": self.upper}

    def to_unit(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map values to the cube, x = (v - centre) / half width; a missing value goes to the centre."""
        return _to_unit(values, *_span(self.lower, self.upper))

    def from_unit(self, unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map a coordinate back to the column's own units, inside the bounds."""
        lower, upper = _span(self.lower, self.upper)
        return np.clip(unit * (upper / 2 - lower / 2) + (upper / 2 + lower / 2), lower, upper)

    def snap(self, unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Move a coordinate to the nearest one that the column can take."""
        return np.clip(unit, -1.0, 1.0)

    def levels(self, most: int) -> NDArray[np.float64] | None:
        """Return the coordinates that the column can take if there are at most `most`; a number has more."""
        return None


@dataclass(frozen=True, slots=True)
class Integer:
    """A column of whole numbers between two public bounds; values outside are clipped."""

    lower: int | None = None
    upper: int | None = None

    kind = "integer"
    dimensions = 1

    def problem(self) -> str | None:
        """Say what is wrong with the bounds, in words, or None."""
        found = _bounds_problem(self.lower, self.upper)
        if found is None and not all(float(b).is_integer() for b in _span(self.lower, self.upper)):
            return f"lower={self.lower} and upper={self.upper} must be whole numbers for type integer"
        if found is None and not all(-(2**53) <= b <= 2**53 for b in (self.lower, self.upper) if b is not None):
            return "whole numbers beyond 2^53 cannot be told apart: use type number"
        return found

    def facts(self) -> dict[str, Any]:
        """Return what a schema file says of this column."""
        lower, upper = _span(self.lower, self.upper)
        return {"type": self.kind, "lower": int(lower), "upper": int(upper)}

    def to_unit(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map values to the cube, as for a number."""
        return _to_unit(values, *_span(self.lower, self.upper))

    def from_unit(self, unit: NDArray[np.float64]) -> NDArray[np.int64]:
        """Map a coordinate back to the nearest whole number inside the bounds."""
        lower, upper = _span(self.lower, self.upper)
        values = np.rint(unit * (upper / 2 - lower / 2) + (upper / 2 + lower / 2))
        return np.clip(values, lower, upper).astype(np.int64)

    def snap(self, unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Move a coordinate to that of the nearest whole number."""
        return self.to_unit(self.from_unit(unit).astype(np.float64))

    def levels(self, most: int) -> NDArray[np.float64] | None:
        """Return the coordinates of the whole numbers between the bounds if there are at most `most`."""
        lower, upper = _span(self.lower, self.upper)
        if upper - lower + 1 > most:
            return None
        return self.to_unit(np.arange(lower, upper + 1))


Column = Number | Integer
TYPES: Mapping[str, type[Number] | type[Integer]] = MappingProxyType({"number": Number, "integer": Integer})


@dataclass(frozen=True, slots=True)
class Schema:
    """The public description of a table: its columns by name, in order."""

    columns: Mapping[str, Column]
    _offsets: Mapping[str, slice] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.columns:
            raise SchemaError("A schema needs at least one column; it has none. Add a [columns.NAME] section.")
        for name, column in self.columns.items():
            _check_column(name, column)
        offsets, start = {}, 0
        for name, column in self.columns.items():
            offsets[name] = slice(start, start + column.dimensions)
            start += column.dimensions
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        object.__setattr__(self, "_offsets", MappingProxyType(offsets))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Schema, (dict(self.columns),))

    @property
    def names(self) -> tuple[str, ...]:
        """The column names, in order."""
        return tuple(self.columns)

    @property
    def dimensions(self) -> int:
        """The number of coordinates d; a column may have more than one."""
        return sum(column.dimensions for column in self.columns.values())

    @property
    def coordinates(self) -> tuple[str, ...]:
        """One label for each coordinate."""
        return tuple(name for name, column in self.columns.items() for _ in range(column.dimensions))

    def coordinates_of(self, name: str) -> slice:
        """Say which coordinates belong to a column."""
        if name not in self._offsets:
            raise SchemaError(unknown_column(name, self.names))
        return self._offsets[name]

    def from_unit(self, points: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        """Turn points of the cube into columns in their own units."""
        return {name: column.from_unit(points[:, self._offsets[name]][:, 0]) for name, column in self.columns.items()}

    def to_unit(self, table: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Turn columns in their own units into points of the cube."""
        return np.stack([column.to_unit(table[name]) for name, column in self.columns.items()], axis=1)

    def snap(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Move points of the cube to the nearest ones that rows of this schema can take."""
        return np.stack(
            [column.snap(points[:, self._offsets[name]][:, 0]) for name, column in self.columns.items()],
            axis=1,
        )

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema file (TOML)."""
        # Errors of decoding and of TOML carry the whole file, which may be a table named by mistake: not chained.
        try:
            return cls.parse(Path(path).read_text(encoding="utf-8"))
        except SchemaError as error:
            problem = f"{path}: {error}"
        except UnicodeDecodeError:
            problem = f"{path} must be a UTF-8 text file and is not. Save it again as UTF-8."
        except (OSError, ValueError) as error:
            problem = f"The schema file {path} cannot be read: {getattr(error, 'strerror', 'it is not a path')}."
        raise SchemaError(problem)

    @classmethod
    def parse(cls, text: str) -> Schema:
        """Read a schema from the text of a schema file."""
        try:
            document = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            problem = f"This is not a valid schema file (TOML): {error}."
        else:
            return cls.from_facts(document)
        raise SchemaError(problem)

    @classmethod
    def from_facts(cls, document: Mapping[str, Any]) -> Schema:
        """Build a schema from {"columns": {name: {"type": ..., "lower": ..., "upper": ...}}}."""
        if not isinstance(document, dict):
            raise SchemaError(f'A schema must be {{"columns": ...}}; it is a {type(document).__name__}.')
        extra = sorted(map(repr, set(document) - {"columns"}))
        if extra:
            raise SchemaError(f"Unknown section {extra[0]:.80}. A schema file has [columns.NAME] sections only.")
        columns = document.get("columns")
        if not isinstance(columns, dict) or not columns:
            raise SchemaError('No columns. Describe each as [columns.NAME] with type = "number", lower and upper.')
        return cls({name: _column(name, facts) for name, facts in columns.items()})

    def facts(self) -> dict[str, Any]:
        """Return the schema as plain values; the inverse of `from_facts`."""
        return {"columns": {name: column.facts() for name, column in self.columns.items()}}

    def to_toml(self) -> str:
        """Write the schema as the text of a schema file."""
        parts = [f"# {WHY_PUBLIC}\n"]
        for name, column in self.columns.items():
            lines = [f"{key} = {_toml_value(value)}" for key, value in column.facts().items()]
            parts.append(f"[columns.{_toml_value(name)}]\n" + "\n".join(lines) + "\n")
        return "\n".join(parts)

    def save(self, path: str | Path) -> None:
        """Write a schema file."""
        try:
            Path(path).write_text(self.to_toml(), encoding="utf-8")
        except OSError as error:
            raise SchemaError(f"The schema file {path} cannot be written: {error.strerror}.") from error


def unknown_column(name: str, known: tuple[str, ...]) -> str:
    """Say that a column does not exist, and which one may have been meant."""
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    hint = (
        f" Did you mean {near[0]!r}?"
        if near
        else f" There are: {', '.join(map(repr, known[:8]))}" + (" and more." if len(known) > 8 else ".")
    )
    return f"There is no column {name!r}.{hint}"


def _column(name: str, facts: object) -> Column:
    if not isinstance(facts, dict):
        raise SchemaError(f"Column {name!r} must be a section [columns.{name}] with type, lower and upper.")
    kind = facts.get("type")
    if not isinstance(kind, str) or kind not in TYPES:
        raise SchemaError(f"Column {name!r} has type {_shown(kind)}; it must be one of {', '.join(TYPES)}.")
    extra = sorted(map(repr, set(facts) - {"type", "lower", "upper"}))
    if extra:
        raise SchemaError(f"Column {name!r} has an unknown key {extra[0]:.80}; known are type, lower, upper.")
    return TYPES[kind](facts.get("lower"), facts.get("upper"))


def _check_column(name: object, column: object) -> None:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"A column name must be a text that is not empty; {name!r:.80} is not.")
    if not name.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise SchemaError(f"A column name must be text that UTF-8 can write; {name!r:.80} is not.")
    if not isinstance(column, (Number, Integer)):
        raise SchemaError(f"Column {name!r} must be described by Number(lower, upper) or Integer(lower, upper).")
    problem = column.problem()
    if problem:
        raise SchemaError(f"Column {name!r}: {problem}. {WHY_PUBLIC}")


def _bound_problem(side: str, value: object) -> str | None:
    if value is None:
        return f"the {side} bound is missing; write {side} = ... in its section"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"the {side} bound must be a number, not {_shown(value)}"
    if abs(value) > sys.float_info.max or math.isnan(value):
        return f"the {side} bound must be a finite number, not {_shown(value)}"
    return None


def _shown(value: object) -> str:
    """Return a short form of a value from a schema file; Python refuses to write whole numbers of many digits."""
    try:
        return f"{value!r:.80}"
    except (ValueError, RecursionError):
        return "one of thousands of digits"


def _bounds_problem(lower: object, upper: object) -> str | None:
    problem = _bound_problem("lower", lower) or _bound_problem("upper", upper)
    if problem:
        return problem
    low, high = _span(lower, upper)
    if low == high:
        return f"lower and upper are both {lower!r}; a column that cannot vary needs no privacy: leave it out"
    if low > high:
        return f"lower={lower!r} is larger than upper={upper!r}; swap them"
    if high / 2 - low / 2 <= abs(low / 2 + high / 2) * 2**-40:
        return f"lower={lower!r} and upper={upper!r} are too close together to be told apart"
    return None


def _span(lower: object, upper: object) -> tuple[float, float]:
    return float(lower), float(upper)  # type: ignore[arg-type]


def _to_unit(values: NDArray[np.float64], lower: float, upper: float) -> NDArray[np.float64]:
    # Halves first: upper - lower may overflow. A missing value (NaN) goes to the centre: a total map per
    # row, so nothing about a single value can surface as an error.
    unit = (np.clip(values, lower, upper) - (lower / 2 + upper / 2)) / (upper / 2 - lower / 2)
    return np.clip(np.nan_to_num(unit, copy=False, nan=0.0), -1.0, 1.0)


def _toml_value(value: object) -> str:
    if isinstance(value, str):
        import json

        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
