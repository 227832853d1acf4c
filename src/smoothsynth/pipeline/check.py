"""The owner's report on the private cells: what a release would read of each column, what it would lose, what to write."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from smoothsynth.pipeline.attack import MARK
from smoothsynth.schema import Schema
from smoothsynth.schema.file import read_file_format

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from smoothsynth.private.owner import ColumnProfile, Drafted
    from smoothsynth.schema.file import FileFormat


HEADS = ("column", "type", "missing", "unreadable", "outside", "no level")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CheckReport:
    """A profile of the private cells for their owner: as secret as the rows, never part of a release."""

    columns: tuple[ColumnProfile, ...]
    not_described: tuple[str, ...]
    lost_lines: int = 0

    def __repr__(self) -> str:
        return "<private check report>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("A report on private cells cannot be copied or pickled.")

    @property
    def passed(self) -> bool:
        """Whether most of the cells of every column can be read."""
        return not self.mostly_lost and not self.has_lost_most_lines

    @property
    def has_lost_most_lines(self) -> bool:
        """Whether most lines of the file have too many or too few cells."""
        from smoothsynth.private.owner import MOSTLY

        return self.lost_lines > MOSTLY * self.columns[0].rows

    @property
    def mostly_lost(self) -> tuple[str, ...]:
        """The names of the columns of which a release would read less than half."""
        return tuple(one.name for one in self.columns if one.is_mostly_lost)

    @property
    def has_findings(self) -> bool:
        """Whether there is anything to say of a column, or of the lines."""
        return bool(self.lost_lines) or any(one.findings for one in self.columns)

    def in_words(self) -> str:
        """Say in a few sentences what a release would lose."""
        from smoothsynth.private.findings import lost_in_words

        lines = lost_in_words(self.lost_lines, self.columns[0].rows)
        return lines if self.has_lost_most_lines else f"{lines} {self._cells_in_words()}".lstrip()

    def _cells_in_words(self) -> str:
        ignored = ""
        if self.not_described:
            ignored = f" Not in the schema, and so not released: {', '.join(map(repr, self.not_described))}."
        if self.mostly_lost:
            names = ", ".join(map(repr, self.mostly_lost))
            return (
                f"Most cells of {names} would be lost: do not release these columns as the schema describes them. Change "
                f"the schema as said above, or leave them out.{ignored}"
            )
        lost = [one for one in self.columns if one.lost]
        if not lost:
            others = " of the other lines" * bool(self.lost_lines)
            return f"Every cell{others} that is there can be read.{ignored}"
        worst = max(lost, key=lambda one: one.lost)
        return (
            f"Cells of {len(lost)} of {len(self.columns)} columns would be lost in part, most of {worst.name!r} "
            f"({_percent(worst.lost)} of what is there).{ignored}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values; the first says that they are private."""
        return {
            "private": MARK,
            "in_words": self.in_words(),
            "passed": self.passed,
            "columns": [_facts(one) for one in self.columns],
            "not_described": list(self.not_described),
            "lost_lines": self.lost_lines,
        }

    def lines(self) -> list[tuple[str, ...]]:
        """Return one line of text for each column, under the heads of the table."""
        return [_line(one) for one in self.columns]

    def remarks(self) -> list[str]:
        """Return what there is to say of each column, and what to write into its section of the schema."""
        return [_remark(one) for one in self.columns if one.findings]


def check(
    data: Any,
    schema: Schema | Mapping[str, Any] | str | Path,
    *,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> CheckReport:
    """Look at private cells as a release would read them, and say what it would lose; for their owner only.

    `data` is whatever `release` takes. The report is not noisy and costs nothing: it must not be published. What it tells to
    write into the schema is the owner's decision: bounds and levels must be public knowledge, whatever the rows hold.
    """
    from smoothsynth.private.owner import profile

    return CheckReport(*profile(data, Schema.of(schema), progress=progress))


def draft(
    data: Any,
    *,
    names: Sequence[str] | None = None,
    private: bool = False,
    file: FileFormat | Mapping[str, Any] | None = None,
) -> str:
    """Draft a schema file for a frame or files by looking at their cells; for their owner only.

    Names, types, decimal signs and formats of dates are guessed, and comments say what was noticed; bounds and levels are
    left for the owner to fill in, or with `private` for a release to find and pay for. `names` are those of the columns.
    `file` says how a CSV or Excel file is written, as in a schema; it is guessed where nothing is said.
    """
    from smoothsynth.private.owner import draft_schema

    written = None if file is None else read_file_format(file)
    return draft_schema(data, names=names, private=private, written=written)


def guessed_format(data: Any) -> FileFormat:
    """Guess from its first rows how a file is written, for its owner."""
    from smoothsynth.private.table import guess_format

    return guess_format(data)


def lost(data: Any, file: FileFormat) -> tuple[str, bool]:
    """Say how many lines of a file a release would lose, and whether these are most of them, for its owner."""
    from smoothsynth.private import owner

    return owner.lost(data, file)


def proposals(data: Any, file: FileFormat) -> list[Drafted]:
    """Return what a draft would say of each column of a table, for questions to its owner."""
    from smoothsynth.private.owner import drafted

    return drafted(data, written=file)


def _facts(one: ColumnProfile) -> dict[str, Any]:
    counts = {name: getattr(one, name) for name in ("missing", "unreadable", "outside", "no_level")}
    return {
        "name": one.name,
        "type": one.type,
        "rows": one.rows,
        **counts,
        "mostly_lost": one.is_mostly_lost,
        "findings": [asdict(finding) for finding in one.findings],
    }


def _line(one: ColumnProfile) -> tuple[str, ...]:
    counts = (one.missing, one.unreadable, one.outside, one.no_level)
    return (one.name, one.type, *("" if n is None else _percent(n / one.rows) for n in counts))


def _remark(one: ColumnProfile) -> str:
    lines = [f"{one.name}:" + ("  MOSTLY LOST" if one.is_mostly_lost else "")]
    for finding in one.findings:
        todo = f"  ->  {finding.write}" if finding.write else ""
        such = f" ({finding.cells})" if finding.cells else ""
        lines.append(f"  {finding.about}, {_percent(finding.share)}: {finding.sentence}{such}{todo}")
    return "\n".join(lines)


def _percent(share: float) -> str:
    """Write a share; one that is not 0 is never written as 0."""
    return "< 0.1 %" if 0.0 < share < 0.0005 else f"{100 * share:.1f} %"
