"""The metadata of SDV as a schema, and back.

    numerical              Number, or Integer where it says Int.. (V1) or is named as whole
    categorical, ordinal   Category; Boolean if the levels are false and true, as SDV detects it
    boolean                Boolean
    datetime               Date if datetime_format has no hours, else Datetime
    id, names, addresses   cannot be made: leave them out

V1 has no bounds. V2 (SDV 2) has ranges, but its detection takes them from the data, so they are used only on the word of
whoever knows that they are public. SDV itself is not needed: metadata is a dictionary, its JSON file, or has `to_dict`.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import SchemaError
from smoothsynth.schema import WHY_PUBLIC, Boolean, Category, Date, Datetime, Integer, Number, Schema

if TYPE_CHECKING:
    from smoothsynth.schema import Column

    Metadata = str | Path | Mapping[str, Any] | Any

VERSIONS = ("V2", "V1", "SINGLE_TABLE_V1")
_LEVELLED, _BOUNDED = ("categorical", "ordinal"), ("numerical", "datetime")
_HOURS = ("%H", "%I", "%M", "%S", "%f", "%p", "%X", "%c", "%T", "%s")
_DAY, _MOMENT = "%Y-%m-%d", "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, slots=True)
class Facts:
    """What metadata says of a column, and what is known of it besides."""

    name: str
    said: Mapping[str, Any]
    bounds: tuple[Any, Any] | None
    levels: Sequence[str | int] | None
    nullable: bool
    whole: bool

    @property
    def kind(self) -> str:
        """The sdtype."""
        return str(self.said.get("sdtype"))

    @property
    def gap(self) -> str | None:
        """What is missing, `bounds` or `levels`."""
        if self.kind in _BOUNDED and self.bounds is None:
            return "bounds"
        return "levels" if self.kind in _LEVELLED and self.levels is None else None

    def column(self) -> Column:
        """Return the column of a schema."""
        truths = (
            self.kind in _LEVELLED and bool(self.levels) and all(type(level) is bool for level in self.levels or ())
        )
        if self.kind == "boolean" or truths:
            return Boolean(nullable=self.nullable)
        if self.kind in _LEVELLED:
            return Category(tuple(self.levels or ()), nullable=self.nullable)
        try:
            pair: Any = self.bounds
            lower, upper = pair
        except (TypeError, ValueError):
            raise SchemaError(f"The bounds of {self.name!r:.80} must be two values, (lower, upper).") from None
        if self.kind == "datetime":
            timed = any(mark in str(self.said.get("datetime_format", "%H")) for mark in _HOURS)
            return (Datetime if timed else Date)(lower, upper, nullable=self.nullable)
        return (Integer if self.whole else Number)(lower, upper, nullable=self.nullable)


def read_metadata(
    metadata: Metadata,
    *,
    bounds: Mapping[str, tuple[Any, Any]] | None = None,
    levels: Mapping[str, Sequence[str | int]] | None = None,
    nullable: Sequence[str] = (),
    whole: Sequence[str] = (),
    leave_out: Sequence[str] = (),
    table: str | None = None,
    ranges_are_public: bool = False,
) -> Schema:
    """Read SDV metadata (V1, V2, SINGLE_TABLE_V1, or one table of several) as a schema.

    What metadata does not say, or took from the data, is given here: `bounds={"age": (0, 120)}`,
    `levels={"room": ["basic", "suite"]}`, which columns may be missing (`nullable`) and which are `whole` numbers. With
    `ranges_are_public`, the range_... facts of V2 are taken for all that is not given: say so only if no look at the data
    went into them.
    """
    columns = _columns(plain(metadata), table)
    _refuse_unknown([*(bounds or {}), *(levels or {}), *nullable, *whole, *leave_out], columns)
    found = [
        _facts(
            name,
            said,
            bounds=(bounds or {}).get(name),
            levels=(levels or {}).get(name),
            nullable=name in nullable,
            whole=name in whole,
            ranges=ranges_are_public,
        )
        for name, said in columns.items()
        if name not in leave_out
    ]
    _refuse_others([facts.name for facts in found if facts.kind not in (*_LEVELLED, *_BOUNDED, "boolean")])
    _refuse_gaps(found)
    return Schema({facts.name: facts.column() for facts in found})


def write_metadata(schema: Schema, *, table: str = "table", version: str = "V2") -> dict[str, Any]:
    """Return a schema as SDV metadata: "V2" with bounds as ranges, or, for SDV 1, "V1" or "SINGLE_TABLE_V1" without."""
    if version not in VERSIONS:
        raise SchemaError(f"The version of SDV metadata must be one of {', '.join(VERSIONS)}, not {version!r:.40}.")
    describe = _second if version == "V2" else _first
    columns = {name: describe(column) for name, column in schema.columns.items()}
    if version == "SINGLE_TABLE_V1":
        return {"METADATA_SPEC_VERSION": version, "columns": columns}
    return {"METADATA_SPEC_VERSION": version, "tables": {table: {"columns": columns}}, "relationships": []}


def date_formats(metadata: Mapping[str, Any], table: str | None = None) -> dict[str, str]:
    """Return the formats in which the metadata says that dates are written, by column."""
    found = _columns(metadata, table).items()
    return {name: str(said["datetime_format"]) for name, said in found if said.get("datetime_format")}


def plain(metadata: Metadata) -> Mapping[str, Any]:
    """Return metadata as plain values."""
    if hasattr(metadata, "to_dict"):
        metadata = metadata.to_dict()
    if isinstance(metadata, (str, os.PathLike)):
        try:
            metadata = json.loads(Path(metadata).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            reason = getattr(error, "strerror", None) or "it is not JSON"
            raise SchemaError(f"The metadata {metadata} cannot be read: {reason}.") from None
    if not isinstance(metadata, Mapping):
        raise SchemaError("Metadata must be SDV metadata, its dictionary, or the path of its JSON file.")
    return metadata


def _columns(metadata: Mapping[str, Any], table: str | None) -> Mapping[str, Mapping[str, Any]]:
    """Return the columns of the one table, or of the one that is named."""
    tables = metadata.get("tables")
    chosen: Any = metadata
    if isinstance(tables, Mapping):
        if table is None and len(tables) != 1:
            raise SchemaError(
                f"The metadata has {len(tables)} tables; name one: table={next(iter(tables), 'name')!r:.80}."
            )
        chosen = tables.get(table) if table is not None else next(iter(tables.values()))
    columns = chosen.get("columns") if isinstance(chosen, Mapping) else None
    if not isinstance(columns, Mapping) or not all(isinstance(said, Mapping) for said in columns.values()):
        raise SchemaError("The metadata must describe the columns of a table by name; this does not.")
    return columns


def _facts(
    name: str, said: Mapping[str, Any], *, bounds: Any, levels: Any, nullable: bool, whole: bool, ranges: bool
) -> Facts:
    """Put together what is given and what is said; an `order` (V1) is always written by hand."""
    whole = whole or "Int" in str(said.get("computer_representation", ""))
    levels = levels if levels is not None else said.get("order")
    if ranges:
        levels = levels if levels is not None else said.get("range_values")
        if bounds is None and {"range_min", "range_max"} <= set(said):
            bounds = tuple(_moment(said[end], said.get("datetime_format")) for end in ("range_min", "range_max"))
        nullable, whole = nullable or said.get("range_is_nullable") is True, whole or said.get("decimal_places") == 0
    return Facts(name, said, bounds, levels, nullable, whole)


def _moment(bound: Any, written: str | None) -> Any:
    """Return the bound of a date as such if it is written in the format of its column; other bounds as they are."""
    try:
        return datetime.datetime.strptime(bound, written or _MOMENT) if isinstance(bound, str) else bound
    except ValueError:
        return bound


def _refuse_unknown(named: Sequence[str], columns: Mapping[str, Any]) -> None:
    unknown = [name for name in named if name not in columns]
    if unknown:
        raise SchemaError(
            f"The metadata has no column {unknown[0]!r:.80}; it has {', '.join(map(repr, columns)):.200}."
        )


def _refuse_others(names: list[str]) -> None:
    if names:
        raise SchemaError(
            f"Columns {', '.join(map(repr, names))} cannot be made: an id, a name or an address belongs to one person, so "
            f"nothing of it can be learned from many. Leave them out: leave_out={names!r}."
        )


def _refuse_gaps(found: Sequence[Facts]) -> None:
    """Name all columns that lack bounds or levels at once."""
    gaps = [(form, [f.name for f in found if f.gap == form]) for form in ("bounds", "levels")]
    asked = [
        f"{form}={{{names[0]!r}: {'(lower, upper)' if form == 'bounds' else '[...]'}, ...}} for {', '.join(names)}"
        for form, names in gaps
        if names
    ]
    if asked:
        ranged = any({"range_min", "range_values"} & set(f.said) for f in found)
        hint = " If the ranges in the metadata are public, and not detected in the data, say ranges_are_public=True."
        raise SchemaError(f"Give {' and '.join(asked)}. {WHY_PUBLIC}{hint if ranged else ''}")


def _first(column: Column) -> dict[str, Any]:
    """Describe a column as V1 does."""
    if isinstance(column, Category):
        return {"sdtype": "categorical", "order": list(column.levels)}
    if isinstance(column, (Number, Integer)):
        return {"sdtype": "numerical", "computer_representation": "Int64" if isinstance(column, Integer) else "Float"}
    return {key: fact for key, fact in _second(column).items() if not key.startswith("range_")}


def _second(column: Column) -> dict[str, Any]:
    """Describe a column as V2 does."""
    missing = {"range_is_nullable": column.nullable}
    if isinstance(column, Category):
        return {"sdtype": "categorical", "range_values": list(column.levels), **missing}
    if isinstance(column, Boolean):
        return {"sdtype": "boolean", **missing}
    lower, upper = column.lower, column.upper
    if isinstance(column, (Date, Datetime)):
        written = _DAY if isinstance(column, Date) else _MOMENT
        ends = {"range_min": _written(lower, written), "range_max": _written(upper, written)}
        return {"sdtype": "datetime", "datetime_format": written, **ends, **missing}
    digits = {"decimal_places": 0} if isinstance(column, Integer) else {}
    return {"sdtype": "numerical", "range_min": lower, "range_max": upper, **digits, **missing}


def _written(bound: Any, written: str) -> str:
    return str(bound.strftime(written))
