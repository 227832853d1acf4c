"""A schema, and its form as a TOML file or a dictionary.

Schemas as plain values and as text (TOML): what a schema file may say, and what it says of a schema.

The schema of a table: its columns by name, their coordinates of the cube, and what is known of those.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth._display import escaped, page
from smoothsynth.errors import SchemaError, arguments_in_words, one_line
from smoothsynth.schema import encoding
from smoothsynth.schema.about import NOTHING, About, read_about
from smoothsynth.schema.category import Category, Intervals
from smoothsynth.schema.consistency import read_edits
from smoothsynth.schema.constraints import checked_texts, read_constraints
from smoothsynth.schema.date import Date, Datetime
from smoothsynth.schema.edits import checked_codes, is_edit
from smoothsynth.schema.encoding import KINDS
from smoothsynth.schema.file import USUAL, FileFormat, read_file_format
from smoothsynth.schema.hierarchy import with_level_files
from smoothsynth.schema.number import Boolean, Integer, Number
from smoothsynth.schema.roles import check_person, check_weight, unknown_column
from smoothsynth.schema.unresolved import check_private_codes
from smoothsynth.schema.valued import PRIVATE, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.schema.consistency import Edits
    from smoothsynth.schema.constraints import Constraints
    from smoothsynth.schema.encoding import Column


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


_SECTIONS = {"columns", "constraints", "codes", "person", "weight", "drop", "about", "file"}
# Of what a repr and a notebook show.
_MOST_SHOWN, _LONGEST_SHOWN, _MOST_ROWS = 6, 24, 60
WHY_PUBLIC = (
    "Bounds are public knowledge (a code book, a law, the range of an instrument), never the smallest and "
    'largest value of the data: those belong to single persons. A bound that nobody knows can be "private": a release finds '
    "it, at a cost."
)
WHY_PUBLIC_LEVELS = (
    "Levels are public knowledge (a code book, a form), never the values found in the data: a rare one belongs to a "
    "single person."
)


def read(document: object) -> dict[str, Column]:
    """Return the columns of {"columns": {name: {"type": ..., "lower": ..., "upper": ...}}}."""
    if not isinstance(document, dict):
        raise SchemaError(f'A schema must be {{"columns": ...}}; it is a {type(document).__name__}.')
    extra = sorted(map(repr, set(document) - _SECTIONS))
    if extra:
        raise SchemaError(
            f"Unknown section {extra[0]:.80}. A schema file has [columns.NAME] sections, above them constraints = [...], "
            "person = NAME, weight = NAME and drop = [NAMES], "
            'a section [codes."a -> b"] for each constraint that needs one, [about] and [file].'
        )
    columns = document.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise SchemaError('No columns. Describe each as [columns.NAME] with type = "number", lower and upper.')
    _check_dropped(document.get("drop", []), columns)
    return _all_or_none({name: partial(_described, name, facts) for name, facts in columns.items()})


def _check_dropped(names: object, columns: Mapping[str, object]) -> None:
    """Refuse columns that are left out and described; a schema file may say what it leaves out, and that is all."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SchemaError(f"drop must be a list of the names of columns that are left out; it is {shown(names)}.")
    for name in names:
        if name in columns:
            raise SchemaError(f"Column {name!r} is dropped and described. Take it out of drop, or delete its section.")


def parse(text: str) -> dict[str, Any]:
    """Return the plain values of a schema file."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        problem = f"This is not a valid schema file (TOML): {error}."
    raise SchemaError(problem)


def write(
    columns: Mapping[str, Column],
    constraints: Sequence[str] = (),
    codes: Mapping[str, Mapping[str, object] | str] = MappingProxyType({}),
    about: About = NOTHING,
    file: FileFormat = USUAL,
    **named: str | None,
) -> str:
    """Return the text of a schema file; `named` are the columns with a role of their own, `person` and `weight`."""
    parts = [f"# {WHY_PUBLIC}\n"]
    parts += [f"{role} = {_toml(name)}\n" for role, name in named.items() if name is not None]
    if constraints:
        parts.append(f"constraints = {_toml(list(constraints))}\n")
    for section, facts in (("about", about.facts()), ("file", file.facts())):
        if facts:
            parts.append(f"[{section}]\n" + "".join(f"{key} = {_toml(text)}\n" for key, text in facts.items()))
    if words := {text: table for text, table in codes.items() if isinstance(table, str)}:
        parts.append("[codes]\n" + "".join(f"{_toml(text)} = {_toml(word)}\n" for text, word in words.items()))
    for text, table in codes.items():
        if not isinstance(table, str):
            lines = [f"{_toml(value)} = {_toml(code)}" for value, code in table.items()]
            parts.append(f"[codes.{_toml(text)}]\n" + "\n".join(lines) + "\n")
    for name, column in columns.items():
        lines = [f"{key} = {_toml(value)}" for key, value in column.facts().items()]
        parts.append(f"[columns.{_toml(name)}]\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def check(name: object, column: object) -> None:
    """Refuse a column that is not well described."""
    if not isinstance(name, str) or not name:
        raise SchemaError(f"A column name must be a text that is not empty; {name!r:.80} is not.")
    if not name.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise SchemaError(f"A column name must be text that UTF-8 can write; {name!r:.80} is not.")
    if not isinstance(column, (Number, Integer, Category, Boolean, Date, Datetime, Intervals)):
        raise SchemaError(
            f"Column {name!r} must be described by Number(lower, upper), Integer(lower, upper), Category(levels), Boolean(), "
            "Date(lower, upper) or Datetime(lower, upper)."
        )
    problem = column.problem()
    if problem:
        raise SchemaError(
            f"Column {name!r}: {problem}. {WHY_PUBLIC_LEVELS if column.kind == 'category' else WHY_PUBLIC}"
        )


def _checked(name: str, column: Column) -> Column:
    check(name, column)
    return column


def _described(name: str, facts: object) -> Column:
    """Return a column that is well described."""
    return _checked(name, _column(name, facts))


def _all_or_none(columns: Mapping[str, Callable[[], Column]]) -> dict[str, Column]:
    """Return all columns; if some cannot be, say of each of them why."""
    found, problems = {}, []
    for name, described in columns.items():
        try:
            found[name] = described()
        except SchemaError as error:
            problems.append(str(error))
    if not problems:
        return found
    # What holds for every column is said once, at the end.
    shared = [text for text in (WHY_PUBLIC, WHY_PUBLIC_LEVELS) if sum(text in one for one in problems) > 1]
    for text in shared:
        problems = [one.replace(f" {text}", "") for one in problems]
    heading = [f"{len(problems)} columns cannot be used:"] if len(problems) > 1 else []
    raise SchemaError(*heading, *problems, *shared)


def _column(name: str, facts: object) -> Column:
    if not isinstance(facts, dict):
        raise SchemaError(f"Column {name!r} must be a section [columns.{one_line(name)}] with type, lower and upper.")
    kind = facts.get("type")
    if not isinstance(kind, str) or kind not in KINDS:
        raise SchemaError(f"Column {name!r} has type {shown(kind)}; it must be one of {', '.join(KINDS)}.")
    known = [field.name for field in dataclasses.fields(KINDS[kind]) if field.init]
    extra = sorted(map(repr, set(facts) - {"type", *known}))
    if extra:
        raise SchemaError(f"Column {name!r} has an unknown key {extra[0]:.80}; known are type, {', '.join(known)}.")
    options: dict[str, Any] = {key: value for key, value in facts.items() if key != "type"}
    return KINDS[kind](**options)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)


@arguments_in_words
@dataclass(frozen=True, slots=True)
class Schema:
    """The public description of a table: its columns by name, in order, and what is known of rows: `constraints`.

    A constraint is a text: "diastolic <= systolic", "net + tax = gross", "sum(visits) = 12000", "mean(age) = 41.3",
    "spouse is null where age < 15", "relation = 'husband' implies sex = 'm'", "education -> years". The last one needs
    `codes`: {"education -> years": {"primary": 6, ...}}, or "private" for a table that a release finds within its budget.
    `person` names one more column of the table, with the id of the person whose row it is. It is never released; with it
    the promise is about persons, each of whom counts once (docs/proofs/persons.md).
    `weight` names the column of survey weights, a column like others that answers can be weighted with.
    `about` says in plain words what the table is: {"title": ..., "owner": ..., "licence": ...}; all of it is published.
    `file` says how its CSV or Excel files are written: {"delimiter": ";", "encoding": "cp1252", "sheet": "visits"}.
    """

    columns: Mapping[str, Column]
    constraints: Sequence[str] = ()
    codes: Mapping[str, Mapping[str, object] | str] = field(default_factory=dict)
    person: str | None = None
    weight: str | None = None
    about: About | Mapping[str, Any] = NOTHING
    file: FileFormat | Mapping[str, Any] = USUAL
    rules: Constraints | None = field(init=False, repr=False, compare=False, default=None)
    edits: Edits | None = field(init=False, repr=False, compare=False, default=None)
    _offsets: Mapping[str, slice] = field(init=False, repr=False, compare=False)
    _roles: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given: object = self.columns
        if not isinstance(given, Mapping):
            raise SchemaError(
                f"A schema is made of names and columns, as in {{'age': Number(0, 120)}}, not of a {type(given).__name__}; "
                "a file is read with Schema.load."
            )
        if not self.columns:
            raise SchemaError("A schema needs at least one column; it has none. Add a [columns.NAME] section.")
        _all_or_none({name: partial(_checked, name, column) for name, column in self.columns.items()})
        if self.person is not None:
            check_person(self.person, self.columns)
        if self.weight is not None:
            check_weight(self.weight, self.columns)
        object.__setattr__(self, "about", read_about(self.about))
        object.__setattr__(self, "file", read_file_format(self.file))
        offsets, start = {}, 0
        for name, column in self.columns.items():
            offsets[name] = slice(start, start + column.dimensions)
            start += column.dimensions
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        object.__setattr__(self, "constraints", checked_texts(self.constraints))
        object.__setattr__(self, "codes", checked_codes(self.codes, self.constraints))
        known, linear = tuple(self.columns.items()), tuple(text for text in self.constraints if not is_edit(text))
        if linear:
            object.__setattr__(self, "rules", read_constraints(linear, known))
        # A rule with private codes says nothing until they are found.
        tables = tuple((text, tuple(t.items())) for text, t in self.codes.items() if isinstance(t, Mapping))
        rest = tuple(text for text in self.constraints if is_edit(text) and self.codes.get(text) != PRIVATE)
        if rest:
            object.__setattr__(self, "edits", read_edits(rest, tables, known, self.rules))
        object.__setattr__(self, "_offsets", MappingProxyType(offsets))
        object.__setattr__(self, "_roles", tuple(role for column in self.columns.values() for role in column.roles))
        check_private_codes(self)

    def __repr__(self) -> str:
        names, more = self.names[:_MOST_SHOWN], len(self.names) - _MOST_SHOWN
        shown = ", ".join([*(name[:_LONGEST_SHOWN] for name in names), *([f"{more:,} more"] if more > 0 else [])])
        rules = f", {len(self.constraints)} constraints" if self.constraints else ""
        return one_line(f"<Schema: {len(self.names)} columns ({shown}){rules}>")

    def _repr_html_(self) -> str:
        facts = [] if self.person is None else [("person", self.person)]
        facts += [("constraint", constraint) for constraint in self.constraints[:_MOST_SHOWN]]
        rows = [(escaped(name), escaped(domain_in_words(column))) for name, column in self.columns.items()]
        head = f"Schema: {len(rows)} columns"
        return page(head, facts, ("column", "public domain"), rows[:_MOST_ROWS], hidden=max(0, len(rows) - _MOST_ROWS))

    def __reduce__(self) -> tuple[Any, ...]:
        named = (self.person, self.weight, self.about, self.file)
        return (Schema, (dict(self.columns), tuple(self.constraints), self._plain_codes, *named))

    @property
    def _plain_codes(self) -> dict[str, dict[str, object] | str]:
        return {text: table if isinstance(table, str) else dict(table) for text, table in self.codes.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The column names, in order."""
        return tuple(self.columns)

    @property
    def dimensions(self) -> int:
        """The number of coordinates d; a column may have more than one."""
        return len(self._roles)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """One label for each coordinate: "age", "age is missing", "sex = female"."""
        return tuple(label for name, column in self.columns.items() for label in encoding.labels(name, column))

    @property
    def roles(self) -> tuple[str, ...]:
        """What each coordinate is: "value" in [-1, 1], "level" or "missing" in {0, 1}."""
        return self._roles

    @property
    def owners(self) -> tuple[tuple[str, int], ...]:
        """For each coordinate the name of its column, and its place among the coordinates of that column."""
        return tuple((name, place) for name, column in self.columns.items() for place in range(column.dimensions))

    @property
    def binary(self) -> tuple[int, ...]:
        """The coordinates that are 0 or 1 in every row: levels, and what is missing."""
        return tuple(c for c, role in enumerate(self.roles) if role != "value")

    @property
    def exclusive(self) -> tuple[tuple[int, ...], ...]:
        """The coordinates of each category: at most one of them is 1 in a row."""
        return tuple(
            tuple(range(place.start, place.stop)) for place in map(self._offsets.__getitem__, self._categories)
        )

    @property
    def whole(self) -> tuple[bool, ...]:
        """For each category whether synthetic rows always have a level of it."""
        return tuple(not self.columns[name].nullable for name in self._categories)

    @property
    def missing(self) -> tuple[tuple[int, int], ...]:
        """The value coordinate and the missing coordinate of each nullable column that is no category."""
        starts = [(self._offsets[name].start, column) for name, column in self.columns.items()]
        return tuple((start, start + 1) for start, column in starts if "missing" in column.roles)

    @property
    def _categories(self) -> tuple[str, ...]:
        return tuple(name for name, column in self.columns.items() if isinstance(column, (Category, Intervals)))

    def coordinates_of(self, name: str) -> slice:
        """Say which coordinates belong to a column."""
        if name not in self._offsets:
            raise SchemaError(unknown_column(name, self.names))
        return self._offsets[name]

    def from_unit(
        self, points: NDArray[np.float64], levels: Mapping[str, NDArray[np.int32]] | None = None
    ) -> dict[str, NDArray[Any] | pa.Array]:
        """Turn points of the cube into columns in their own units: numpy arrays, or Arrow arrays with nulls or levels.

        `levels` are those of categories with tiers, drawn within their nodes (smoothsynth.model.levels).
        """
        drawn = levels or {}
        return {
            name: encoding.from_points(
                column, points[:, self._offsets[name]], levels=drawn.get(name), **self._written(name)
            )
            for name, column in self.columns.items()
        }

    def numbers_at(self, name: str, points: NDArray[np.float64]) -> NDArray[Any]:
        """Return the cells of a column as `encoding.as_numbers` reads them: places of levels, or numbers."""
        return encoding.numbers_at(self.columns[name], points[:, self._offsets[name]], **self._written(name))

    def _written(self, name: str) -> dict[str, Any]:
        """Say how constraints want numbers of a column to be written."""
        step = None if self.rules is None else self.rules.steps().get(name)
        exact = () if self.edits is None or step is not None else self.edits.constants.get(name, ())
        return {"step": step, "exact": exact}

    def to_unit(self, table: Mapping[str, Any]) -> NDArray[np.float64]:
        """Turn columns in their own units, numpy or Arrow arrays, into points of the cube."""
        return np.concatenate(
            [encoding.to_points(column, table[name]) for name, column in self.columns.items()], axis=1
        )

    def snap(self, points: NDArray[np.float64], out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Move points of the cube to the nearest ones that rows of this schema can take; into `out`, if given."""
        found = np.empty(points.shape) if out is None else out
        for name, column in self.columns.items():
            found[:, self._offsets[name]] = encoding.nearest(column, points[:, self._offsets[name]])
        return found

    @classmethod
    def of(cls, given: Schema | Mapping[str, Any] | str | Path) -> Schema:
        """Return the schema that is given: itself, a path to its file, its columns by name, or its plain values."""
        if isinstance(given, Schema):
            return given
        if isinstance(given, (str, Path)):
            return cls.load(given)
        plain = isinstance(given, Mapping) and isinstance(given.get("columns"), Mapping)
        return cls.from_facts(given) if plain else cls(given)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema file (TOML), and the files of levels that it names beside it."""
        # Errors of decoding and of TOML carry the whole file, which may be a table named by mistake: not chained.
        try:
            document = parse(Path(path).read_text(encoding="utf-8"))
            return cls.from_facts(with_level_files(document, Path(path).parent))
        except SchemaError as error:
            problems = (f"{path}: {error.problems[0]}", *error.problems[1:])
        except UnicodeDecodeError:
            problems = (f"{path} must be a UTF-8 text file and is not. Save it again as UTF-8.",)
        except (OSError, ValueError) as error:
            problems = (f"The schema file {path} cannot be read: {getattr(error, 'strerror', 'it is not a path')}.",)
        raise SchemaError(*problems)

    @classmethod
    def parse(cls, text: str) -> Schema:
        """Read a schema from the text of a schema file."""
        return cls.from_facts(parse(text))

    @classmethod
    def from_facts(cls, document: Mapping[str, Any]) -> Schema:
        """Build a schema from {"columns": {name: {"type": ..., "lower": ..., "upper": ...}}, "constraints": [...]}."""
        columns = read(document)
        roles = {role: document.get(role) for role in ("person", "weight")}
        return cls(
            columns,
            document.get("constraints", ()),
            document.get("codes", {}),
            about=document.get("about", {}),
            file=document.get("file", {}),
            **roles,
        )

    def facts(self) -> dict[str, Any]:
        """Return the schema as plain values; the inverse of `from_facts`."""
        found: dict[str, Any] = {"columns": {name: column.facts() for name, column in self.columns.items()}}
        roles = {"person": self.person, "weight": self.weight}
        found |= {role: name for role, name in roles.items() if name is not None}
        if self.constraints:
            found["constraints"] = list(self.constraints)
        if about := read_about(self.about).facts():
            found["about"] = about
        if file := read_file_format(self.file).facts():
            found["file"] = file
        return {**found, "codes": self._plain_codes} if self.codes else found

    def to_toml(self) -> str:
        """Write the schema as the text of a schema file."""
        said = (read_about(self.about), read_file_format(self.file))
        return write(self.columns, self.constraints, self.codes, *said, person=self.person, weight=self.weight)

    def save(self, path: str | Path) -> None:
        """Write a schema file."""
        try:
            Path(path).write_text(self.to_toml(), encoding="utf-8")
        except OSError as error:
            raise SchemaError(f"The schema file {path} cannot be written: {error.strerror}.") from error


def domain_in_words(column: Column) -> str:
    """Say which values a column may have."""
    missing = ", may be missing" if column.nullable else ""
    if isinstance(column, Category):
        if column.levels == PRIVATE:
            return "private levels" + missing
        below = "" if column.hierarchy is None else f"{len(column.levels):,} levels in "
        return f"{below}{column.dimensions} {'nodes' if below else 'levels'}: {', '.join(column.cube.texts)}" + missing
    if isinstance(column, Boolean):
        return "true or false" + missing
    return f"{column.kind} {_bound(column.lower)} to {_bound(column.upper)}" + missing


def _bound(bound: object) -> str:
    return f"{bound:,.12g}" if isinstance(bound, (int, float)) else str(bound)
