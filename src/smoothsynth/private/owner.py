"""For the owner only: comparison page values, a profile of the cells, schema draft.

Statistics of the private rows for their owner, without noise: as secret as the rows, and never part of a release.

Draft a schema file from a table: names and types only, bounds and levels left open for the owner.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smoothsynth.errors import DataError, PlanError
from smoothsynth.private.findings import Finding, findings, lost_in_words, percent, person_findings
from smoothsynth.private.patterns import Texts
from smoothsynth.private.sources.cells import looks_like_cells, read_cells, read_rows
from smoothsynth.private.sources.files import is_text
from smoothsynth.private.table import columns_of, guess_format, in_words, lost_lines, open_table
from smoothsynth.schema import Boolean, Category, Schema, valued
from smoothsynth.schema.category import labelled
from smoothsynth.schema.file import USUAL, read_file_format
from smoothsynth.schema.reading import null_keys
from smoothsynth.schema.texts import level_key
from smoothsynth.schema.valued import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.private.table import Table
    from smoothsynth.schema import Column
    from smoothsynth.schema.file import FileFormat

    Array = NDArray[np.float64]
    Kernel = tuple[str, Array, float]
    Question = Callable[[Array], float]
    Flags = NDArray[np.bool_]
    Progress = Callable[[str, int, int | None], None]


_BATCH_ROWS = 2**16
# Of a column with more distinct texts the further ones are not looked at; what can be read of them is counted all the same.
_MOST_TEXTS = 50_000
# Of cells that are lost, so many different ones of each batch are looked at, to tell their forms.
_MOST_LOST = 1_000
# A column of which more than this share of the cells that are not missing is lost cannot be released as described.
MOSTLY = 0.5


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison:
    """Kernel averages, shares of levels and of missing cells, correlations and answers, all of the private rows."""

    curves: tuple[Array, ...]
    correlation: Array
    answers: tuple[float, ...]
    shares: tuple[Array, ...] = ()
    missing: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "<private comparison>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("A comparison with private rows cannot be copied or pickled.")

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for the owner's page."""
        lower = np.tril_indices(len(self.correlation), -1)
        return {"correlations": self.correlation[lower].tolist()}


def compare(
    data: object,
    schema: Schema,
    *,
    rows: int,
    kernels: Sequence[Kernel],
    questions: Sequence[Question],
    correlation: Callable[[Array], Array],
    levels: Sequence[tuple[str, Sequence[str]]] = (),
) -> Comparison:
    """Compute what the page of a release shows, on the private rows, with values clipped to their bounds.

    A kernel is a column of numbers, centres and a width w:  mean exp(-((x - centre)/w)^2),  x scaled so that the bounds
    are -1 and 1, over the rows that have it. A question and the correlation take rows as points of the cube; levels are
    those of a column whose shares are shown. `rows` is what the receipt says.
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
    return Comparison(
        curves=tuple(_curve(points, schema, kernel) for kernel in kernels),
        correlation=correlation(points),
        answers=tuple(float(question(points)) for question in questions),
        shares=tuple(_shares(points, schema, *one) for one in levels),
        missing={name: _missing(points, schema, name) for name, column in schema.columns.items() if column.nullable},
    )


def _unit_rows(table: Table) -> Array:
    batches = (read_rows(batch, table.schema) for batch in table._batches(_BATCH_ROWS))
    return np.concatenate([table.schema.to_unit(batch) for batch in batches])


def _curve(points: Array, schema: Schema, kernel: Kernel) -> Array:
    name, centres, width = kernel
    column, place = schema.columns[name], schema.coordinates_of(name)
    known = points[points[:, place.stop - 1] < 0.5] if column.nullable else points
    values = valued.from_unit(known[:, place.start], column)  # type: ignore[arg-type]
    places = valued.scale_to_unit(values, *column.bounds)  # type: ignore[union-attr]
    return np.array([np.mean(np.exp(-(((places - centre) / width) ** 2))) for centre in centres])


def _shares(points: Array, schema: Schema, name: str, levels: Sequence[str]) -> Array:
    """Return the shares of some levels, or of true and false, among the rows that have one."""
    column, place = schema.columns[name], schema.coordinates_of(name)
    own = points[:, place]
    if isinstance(column, Category):
        return own[own.sum(axis=1) > 0.5].mean(axis=0)[[column.cube.texts.index(level) for level in levels]]
    truth = float(np.mean(own[own[:, -1] < 0.5, 0] > 0.0 if column.nullable else own[:, 0] > 0.0))
    return np.array([truth if level == "true" else 1.0 - truth for level in levels])


def _missing(points: Array, schema: Schema, name: str) -> float:
    own = points[:, schema.coordinates_of(name)]
    return float(np.mean(own.sum(axis=1) < 0.5 if isinstance(schema.columns[name], Category) else own[:, -1] > 0.5))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ColumnProfile:
    """How many cells of a column there are, are missing, cannot be read, lie outside the bounds, or are no level."""

    name: str
    type: str
    rows: int
    missing: int
    unreadable: int
    outside: int | None
    no_level: int | None
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        return "<private column profile>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("A profile of private cells cannot be copied or pickled.")

    @property
    def lost(self) -> float:
        """The share of the cells with something in them that a release would not read."""
        lost = self.unreadable + (self.no_level or 0)
        return lost / (self.rows - self.missing) if lost else 0.0

    @property
    def is_mostly_lost(self) -> bool:
        """Whether a release would read less than half of what is there, or there is nothing at all."""
        return self.lost > MOSTLY or self.missing == self.rows


def profile(
    data: object, schema: Schema, *, progress: Progress | None = None
) -> tuple[tuple[ColumnProfile, ...], tuple[str, ...], int]:
    """Return a profile of each column of the schema, the names of columns that are not in it, and how many lines are lost."""
    read = dict(schema.columns)
    if schema.person is not None:
        read[schema.person] = Category(PRIVATE)
    written = read_file_format(schema.file)
    tallies = tally(data, read, written=written, progress=progress)
    profiles = tuple(one.profile(is_person=name == schema.person) for name, one in tallies.items())
    others = tuple(name for name, _ in columns_of(data, written) if name not in read)
    return profiles, others, lost_lines(data, written)[0]


def tally(
    data: object, columns: Mapping[str, Column], *, written: FileFormat = USUAL, progress: Progress | None = None
) -> dict[str, Tally]:
    """Go through all rows once."""
    table, done = open_table(data, Schema(columns, file=written)), 0
    found = {name: Tally(name, column) for name, column in columns.items()}
    try:
        for batch in table._batches(_BATCH_ROWS):
            for name, one in found.items():
                one.add(batch.column(name))
            done += batch.num_rows
            if progress is not None:
                progress("looking at cells", done, table.rows)
        return found
    except Exception as error:
        problem = in_words(error)
    raise problem


@dataclass(slots=True, eq=False, repr=False)
class Tally:
    """What was counted of a column so far."""

    name: str
    column: Column
    rows: int = 0
    missing: int = 0
    lost: int = 0
    outside: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    lost_texts: Counter[str] = field(default_factory=Counter)

    def add(self, cells: pa.Array) -> None:
        """Count the cells of a batch."""
        texts, places = labelled(cells)
        nulls = null_keys(self.column)
        absent = np.array([*(not text or level_key(text) in nulls for text in texts), True])[places]
        self.rows += len(cells)
        self.missing += int(absent.sum())
        unread = self._unread(cells) & ~absent
        self.lost += int(unread.sum())
        self.outside += self._beyond(cells)
        times = np.bincount(places + 1, minlength=len(texts) + 1)[1:].tolist()
        for text, often in zip(texts, times, strict=True):
            if text and often and (text in self.counts or len(self.counts) < _MOST_TEXTS):
                self.counts[text] += often
        odd, times = np.unique(places[unread], return_counts=True)
        for place, often in zip(odd[:_MOST_LOST].tolist(), times.tolist(), strict=False):
            self.lost_texts[texts[place] or ""] += often

    @property
    def _open(self) -> bool:
        sides = (getattr(self.column, "lower", None), getattr(self.column, "upper", None))
        return PRIVATE in sides or getattr(self.column, "levels", None) == PRIVATE

    def _unread(self, cells: pa.Array) -> Flags:
        if not isinstance(self.column, Category):
            return np.isnan(read_cells(cells, self.column).astype(np.float64))
        if self._open:
            return np.zeros(len(cells), dtype=bool)
        levels = Category(self.column.levels, nullable=True, null_values=self.column.null_values)
        return np.asarray(read_cells(cells, levels) < 0)

    def _beyond(self, cells: pa.Array) -> int:
        lower, upper = self._public_bounds
        if lower is None and upper is None:
            return 0
        values = read_cells(cells, self.column).astype(np.float64)
        below, above = (
            (values < lower if lower is not None else False),
            (values > upper if upper is not None else False),
        )
        return int(np.count_nonzero(below | above))

    @property
    def _public_bounds(self) -> tuple[float | None, float | None]:
        """The bounds as numbers, without those that a release finds: of a column that has one of them, the other is known."""
        if isinstance(self.column, (Boolean, Category)):
            return None, None
        column, sides = self.column, (self.column.lower, self.column.upper)
        low, high = (None if one == PRIVATE else replace(column, lower=one, upper=one).bounds[0] for one in sides)  # type: ignore[arg-type]
        return low, high

    @property
    def texts(self) -> Texts:
        """The distinct texts of the cells that are not missing."""
        nulls = null_keys(self.column)
        return Texts(self.name, {t: n for t, n in self.counts.items() if level_key(t) not in nulls})

    def profile(self, *, is_person: bool = False) -> ColumnProfile:
        """Return the profile of the column, with what the owner should know and write."""
        category = isinstance(self.column, Category)
        if is_person:
            said = person_findings(self.counts, self.missing / self.rows)
        else:
            counted = {"missing": self.missing, "lost": self.lost, "outside": self.outside}
            shares = {key: n / self.rows for key, n in counted.items()}
            said = findings(self.texts, self.column, shares, lost=self.lost_texts)
        return ColumnProfile(
            name=self.name,
            type="person" if is_person else self.column.kind,
            rows=self.rows,
            missing=self.missing,
            unreadable=0 if category else self.lost,
            outside=None if self._public_bounds == (None, None) and self.column.kind != "boolean" else self.outside,
            no_level=self.lost if category and not self._open else None,
            findings=said,
        )


_HEAD = """\
# PRIVATE: drafted from the private rows; its comments tell of them without noise. Delete them before you share it.
#
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
# leave it out below: it is read, and never released.
#
# Make sure that the names below are names, and no person's cells: of a CSV file they are its first line.
# Types, decimal signs and formats of dates were guessed from the cells, and will be public: they are your decision. Make sure
# that they are what you would have said without looking. Lines that are commented out are proposals. Then look at what a
# release would lose:  smoothsynth check DATA --schema THIS_FILE  (in Python: ss.check(DATA, schema=THIS_FILE))
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


_PRIVATE = {
    **dict.fromkeys(("number", "integer", "date", "datetime"), 'lower = "private"\nupper = "private"\n'),
    "category": 'levels = "private"\n',
    "boolean": "",
}


def draft_schema(
    data: Any, *, names: Sequence[str] | None = None, private: bool = False, written: FileFormat | None = None
) -> str:
    """Return the text of a schema file with names, types and formats of a table; bounds and levels are left open."""
    written = guess_format(data) if written is None else written
    columns = drafted(data, names=names, written=written)
    sections = (column.section(private=private) for column in columns)
    return "\n".join([_HEAD, *_lost(data, written), *_above(columns), *_file(written), *sections])


def drafted(data: Any, *, names: Sequence[str] | None = None, written: FileFormat = USUAL) -> list[Drafted]:
    """Return what a draft says of each column: its name, its type, and what was found in its cells.

    A CSV file whose first line looks like cells, not like names, is refused: a schema is published, and these would be a
    person's. `names` says what the columns are called, in their order.
    """
    kinds = columns_of(data, written)
    is_csv = is_text(data[0] if isinstance(data, list) and data else data)
    if names is None and is_csv and looks_like_cells([name for name, _ in kinds]):
        raise DataError(
            f"{data} must begin with a line of column names, and its first line looks like somebody's cells: there is a "
            "number, a date, an empty or a repeated name in it. Delete a title above the names, or write a line of names; "
            "or, if these are the names, or to see a draft with others, say names=[...] (--names a,b,c) with one "
            "name for each column."
        )
    if not kinds:
        raise DataError("The table must have columns to describe, and has none.")
    called = [name for name, _ in kinds] if names is None else _checked(names, len(kinds), data)
    looked = _looked(data, kinds, is_csv=is_csv, written=written)
    return [Drafted.of(name, kind, looked.get(old), is_csv) for name, (old, kind) in zip(called, kinds, strict=True)]


def _looked(data: Any, kinds: Sequence[tuple[str, str]], *, is_csv: bool, written: FileFormat) -> dict[str, Tally]:
    """Look at the cells of all columns whose types can be read; not at those of which several have the same name."""
    times = Counter(name for name, _ in kinds)
    known = [name for name, kind in kinds if times[name] == 1 and name and (is_csv or kind in _LEFT_OPEN)]
    return tally(data, dict.fromkeys(known, Category(PRIVATE)), written=written) if known else {}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Drafted:
    """A column of a draft: its type, or what it holds in words, and what was found in its cells."""

    name: str
    kind: str
    found: tuple[Finding, ...]

    def __repr__(self) -> str:
        return "<private draft of a column>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("A draft made from private cells cannot be copied or pickled.")

    @classmethod
    def of(cls, name: str, kind: str, seen: Tally | None, is_csv: bool) -> Drafted:  # noqa: FBT001
        """Describe a column by what was counted of it; the types of a text file are those of its cells."""
        if seen is None:
            return cls(name, kind, ())
        kind = seen.texts.kind if is_csv or kind == "category" else kind
        return cls(
            name, kind, findings(seen.texts, None, {"missing": seen.missing / seen.rows, "lost": 0.0, "outside": 0.0})
        )

    @property
    def is_usable(self) -> bool:
        """Whether the column can be released."""
        return self.kind in _LEFT_OPEN and not any(one.is_unusable for one in self.found)

    def section(self, *, private: bool) -> str:
        """Return the section of the schema file; of a column that cannot be released a comment."""
        said = "".join(f"# {one.about}, {percent(one.share)}: {one.sentence}\n" for one in self.found)
        if not self.is_usable:
            why = said or f"# holds {self.kind}, which cannot be released\n"
            return f"# [columns.{_quoted(self.name)}]   holds {self.held}; it is left out.\n{why}"
        bounds = (_PRIVATE if private else _LEFT_OPEN)[self.kind]
        other = (*self.stated, "type", *(["levels"] if private else []))
        proposed = [f"# {one.write}" for one in self.found if one.write and not one.write.startswith(other)]
        return f'[columns.{_quoted(self.name)}]\n{said}type = "{self.kind}"\n{bounds}' + "".join(
            f"{line}\n" for line in (*self.stated, *proposed)
        )

    @property
    def stated(self) -> tuple[str, ...]:
        """The lines of the schema that say how cells are written: they are stated like a type, not only proposed."""
        return tuple(one.write for one in self.found if one.sure and one.write.startswith(_STATED))

    @property
    def held(self) -> str:
        """What it holds, in a word or two."""
        return self.found[0].about if self.found else self.kind


# How cells are written is stated like a type, where enough of them tell; what is missing in them is only proposed.
_STATED = ("decimal", "date_format")


def lost(data: object, written: FileFormat) -> tuple[str, bool]:
    """Say how many lines of a file a release would lose, and whether these are most of them."""
    count, rows = lost_lines(data, written)
    return lost_in_words(count, rows), count > MOSTLY * rows


def _lost(data: object, written: FileFormat) -> list[str]:
    said, _ = lost(data, written)
    return [f"# {said}\n"] if said else []


def _above(columns: Sequence[Drafted]) -> list[str]:
    """Return the lines above all columns: who may be a person, and what is left out."""
    ids = [column.name for column in columns if any(one.about == "ids" for one in column.found)]
    left = [column.name for column in columns if not column.is_usable]
    lines = [f"# person = {_quoted(name)}\n" for name in ids]
    return [*lines, f"drop = [{', '.join(map(_quoted, left))}]\n"] if left else lines


def _file(written: FileFormat) -> list[str]:
    """Return the section that says how the file is written, where that is not the usual."""
    lines = [f"{key} = {_quoted(value)}" for key, value in written.facts().items()]
    return ["[file]\n" + "\n".join(lines) + "\n"] if lines else []


def _checked(names: Sequence[str], count: int, path: Any) -> Sequence[str]:
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
