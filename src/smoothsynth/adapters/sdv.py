"""A synthesizer and metadata as SDV has them.

The metadata of SDV as a schema, and back.

    numerical              Number, or Integer where it says Int.. (V1) or is named as whole
    categorical, ordinal   Category; Boolean if the levels are false and true, as SDV detects it
    boolean                Boolean
    datetime               Date if datetime_format has no hours, else Datetime
    id, names, addresses   cannot be made: leave them out

V1 has no bounds. V2 (SDV 2) has ranges, but its detection takes them from the data, so they are used only on the word of
whoever knows that they are public. SDV itself is not needed: metadata is a dictionary, its JSON file, or has `to_dict`.

Dates as SDV has them: text in a stated format, read cell by cell.

A synthesizer with the habits of SDV: `fit`, `sample(num_rows)`, `save`, `load`; and its metadata as a schema.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import tempfile
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.adapters import frames
from smoothsynth.adapters.frames import draw
from smoothsynth.errors import ReleaseError, SchemaError
from smoothsynth.pipeline.load import KNOWN, load
from smoothsynth.pipeline.release import RECEIPT_FILE
from smoothsynth.pipeline.run import release
from smoothsynth.schema import WHY_PUBLIC, Boolean, Category, Date, Datetime, Integer, Number, Schema
from smoothsynth.schema.texts import text_of

if TYPE_CHECKING:
    from smoothsynth.pipeline.release import Release
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


# Python reads six digits of a second, and pandas nine.
_NANOSECONDS = re.compile(r"(\.[0-9]{6})[0-9]{1,3}(?![0-9])")


def iso_dates(cells: Sequence[object], form: str) -> list[str | None]:
    """Return dates, or text in a format of strptime, as text in ISO 8601; None for what is neither."""
    _check(form)
    known: dict[str, str | None] = {}
    return [_iso(cell, form, known) for cell in cells]


def _iso(cell: object, form: str, known: dict[str, str | None]) -> str | None:
    text = text_of(cell)
    if text is None or issubclass(type(cell), (datetime.date, np.datetime64)):
        return text
    if text not in known:
        known[text] = _read(text.strip(), form)
    return known[text]


def _read(text: str, form: str) -> str | None:
    cut = _NANOSECONDS.sub(r"\1", text) if "%f" in form else text
    try:
        return text_of(datetime.datetime.strptime(cut, form))
    except (ValueError, OverflowError):
        return None


def _check(form: str) -> None:
    """Refuse a format that Python does not know: with it no cell at all could be read."""
    try:
        datetime.datetime.strptime("", form)
    except (ValueError, re.error) as error:
        known = "does not match format" in str(error)
    else:
        known = True
    if not known:
        raise SchemaError(
            f"datetime_format {form!r:.80} has a directive that Python's strptime does not know. Write it with %Y, %m, %d, "
            "%H, %M, %S, %f and %z."
        )


_DATES_FILE = "dates.json"
_FILES = KNOWN | {RECEIPT_FILE, _DATES_FILE}
_MOST_BYTES = 2**32


class SmoothSynthesizer:
    """A synthesizer with SDV's habits: `fit(frame)`, `sample(num_rows=...)`, `save(path)`, `load(path)`.

    What the metadata does not say (`bounds`, `levels`, `nullable`, ...) is given as to `read_metadata`. The other choices are
    those of `smoothsynth.pipeline.release`. Each `fit` spends epsilon again.
    """

    def __init__(
        self,
        metadata: Metadata,
        epsilon: float = 1.0,
        *,
        delta: float = 0.0,
        bounds: Mapping[str, tuple[Any, Any]] | None = None,
        levels: Mapping[str, Sequence[str | int]] | None = None,
        nullable: Sequence[str] = (),
        whole: Sequence[str] = (),
        leave_out: Sequence[str] = (),
        table: str | None = None,
        ranges_are_public: bool = False,
        seed: int | None = None,
        **choices: Any,
    ) -> None:
        self.metadata = plain(metadata)
        self.schema = read_metadata(
            self.metadata,
            bounds=bounds,
            levels=levels,
            nullable=nullable,
            whole=whole,
            leave_out=leave_out,
            table=table,
            ranges_are_public=ranges_are_public,
        )
        self.release: Release | None = None
        self._formats = {
            name: form for name, form in date_formats(self.metadata, table).items() if name in self.schema.names
        }
        self._settings = {"epsilon": epsilon, "delta": delta, "seed": seed, **choices}
        self._kind = frames.Kind("pandas")
        # Dates that came as text, and go out as such.
        self._written: dict[str, str] = {}

    def fit(self, data: Any) -> None:
        """Make a release of a frame; dates that are text in pandas are read by the datetime_format of the metadata."""
        kind = frames.kind_of(data)
        texts = _text_columns(data) if kind.library == "pandas" else ()
        written = {name: form for name, form in self._formats.items() if name in texts}
        if written:
            import pandas

            # Each cell by itself: pandas.to_datetime takes one unit of time for all, as some cell needs it.
            dates = {name: iso_dates(data[name].tolist(), form) for name, form in written.items()}
            data = data.assign(**{name: pandas.Series(d, dtype=object, index=data.index) for name, d in dates.items()})
        self.release = release(data, schema=self.schema, **self._settings)
        self._kind, self._written = kind, written

    def sample(self, num_rows: int | None = None) -> Any:
        """Return rows as the kind of frame that was fitted: those of the release, or `num_rows` new ones, free of cost."""
        made = self._fitted()
        rows = self._kind.of(made.table if num_rows is None else draw(made, num_rows, seed=self._settings["seed"]))
        for name, form in self._written.items():
            import pandas

            rows[name] = pandas.to_datetime(rows[name]).dt.strftime(form)
        return rows

    def get_metadata(self) -> Mapping[str, Any]:
        """Return the metadata as it was given, or, after `load`, that of the schema."""
        return self.metadata

    def save(self, filepath: str | Path) -> None:
        """Write the release folder as one zip file, and how dates are written. Nothing in it is private.

        The metadata is left out: SDV may have detected ranges in the data.
        """
        made, target = self._fitted(), Path(filepath)
        try:
            with tempfile.TemporaryDirectory(dir=target.resolve().parent, prefix=".saving.") as place:
                folder, packed = Path(place) / "release", Path(place) / "packed"
                made.write(folder, csv=False)
                (folder / _DATES_FILE).write_text(json.dumps(self._written), encoding="utf-8")
                with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
                    for part in sorted(folder.iterdir()):
                        file.write(part, part.name)
                packed.replace(target)
        except OSError as error:
            raise ReleaseError(f"{target} cannot be written: {error.strerror or error}.") from error

    @classmethod
    def load(cls, filepath: str | Path) -> SmoothSynthesizer:
        """Read what `save` wrote; the release in it is checked like any other. It is no pickle: no code in it is run."""
        with tempfile.TemporaryDirectory() as place:
            written = _unpack(Path(filepath), Path(place))
            made = load(place)
        receipt = made.receipt
        found = cls(
            write_metadata(made.schema),
            receipt.budget.epsilon,
            delta=receipt.budget.delta,
            ranges_are_public=True,
            seed=receipt.seed,
            method=receipt.method,
        )
        found.schema, found.release = made.schema, made
        found._formats |= written
        found._written = {name: form for name, form in written.items() if name in made.schema.names}
        return found

    def _fitted(self) -> Release:
        if self.release is None:
            raise ReleaseError("There is nothing to sample from or save yet. Call fit(frame) first.")
        return self.release


def _text_columns(frame: Any) -> frozenset[str]:
    """Return the columns that hold text or objects; a name that several columns have is refused later."""
    named = Counter(frame.columns)
    kinds = frame.dtypes.items()
    return frozenset(n for n, kind in kinds if named[n] == 1 and (kind.kind in "OU" or kind == "string"))


def _unpack(path: Path, folder: Path) -> dict[str, str]:
    """Put the known files of a zip file into a folder, and return how dates are written."""
    # Whatever is wrong with a file from outside, the answer is that it cannot be read.
    try:
        with zipfile.ZipFile(path) as file:
            parts = file.infolist()
            if {part.filename for part in parts} - _FILES or sum(part.file_size for part in parts) > _MOST_BYTES:
                raise ReleaseError(f"{path} holds something else than one release. It was not written by save.")
            for part in parts:
                (folder / part.filename).write_bytes(file.read(part))
        written = json.loads((folder / _DATES_FILE).read_text(encoding="utf-8"))
        (folder / _DATES_FILE).unlink()
        return {str(name): str(form) for name, form in written.items()}
    except ReleaseError:
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or "it was not written by save, or is damaged"
    raise ReleaseError(f"{path} cannot be read: {reason}.")
