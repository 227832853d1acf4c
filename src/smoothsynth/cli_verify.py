"""The commands for whoever received a release: check it, and ask it in SQL."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothsynth.commands import REFUTED, in_words, say, say_json, show
from smoothsynth.pipeline.terminal import visible

if TYPE_CHECKING:
    import pyarrow
    from rich.table import Table

    from smoothsynth.verification.check import Verification

FolderArgument = Annotated[Path, typer.Argument(help="The release folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]

_SIGNS = {"passed": ("✓", "green"), "note": ("·", "dim"), "warning": ("!", "yellow"), "failed": ("✗", "red")}
_SHOWN = 40


@in_words
def verify(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Check a release that somebody gave you, without trusting it.

    Files and their hashes; rows against the schema; every sensitivity, noise scale and cost computed again from what was
    measured, and added up in two ways; the promise against its figures; moments against rows; and whether views and rows
    follow from the released numbers alone. The exit code is 3 if anything is refuted.

    Example:  **smoothsynth verify out/**
    """
    from smoothsynth.verification.verify import verify as check_release

    found = check_release(folder)
    if as_json:
        say_json(found.as_dict(), ascii_only=True)
    else:
        _show(found)
    if not found.passed:
        say(f"Error: {len(found.failures)} of {len(found.checks)} checks failed.", err=True)
        raise typer.Exit(REFUTED)


@in_words
def sql(
    folder: FolderArgument,
    query: Annotated[str, typer.Argument(help='One SELECT over the table "synthetic".')],
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values, all rows.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Ask the synthetic rows one SELECT, on DuckDB, which sees no files and no network.

    The table is **synthetic**; **describe synthetic** shows its columns. All rows weigh the same; where there are fewer or
    more of them than private rows, **sum(weight())** counts in private rows and **count()** in synthetic ones. Answers have
    errors: **smoothsynth answer** gives intervals. Needs: pip install 'smoothsynth[sql]'.

    Example:  **smoothsynth sql out/ "select avg(age), corr(age, visits) from synthetic"**

    Example:  **smoothsynth sql out/ "select visits, sum(weight()) from synthetic group by visits order by visits" --csv**
    """
    from smoothsynth.answer.sql import NOTE, sql, weights_note
    from smoothsynth.pipeline.load import load

    release = load(folder)
    answer = sql(release, query)
    if as_csv:
        _print_csv(answer)
    elif as_json:
        rows = [[_plain(value) for value in row.values()] for row in _records(answer)]
        say_json({"columns": answer.column_names, "rows": rows})
    else:
        show(_table(answer))
        if answer.num_rows > _SHOWN:
            say(f"{answer.num_rows - _SHOWN:,} more rows; all of them with --csv or --json.")
    say(f"Note: {NOTE}{weights_note(release)}", err=True)


def _show(found: Verification) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, padding=(0, 1))
    for check in found.checks:
        table.add_row(Text(*_SIGNS[check.outcome]), check.name, check.sentence)
    show(table, f"SHA-256 of the receipt: {found.fingerprint}")
    if found.passed:
        show(f"{found.summary} What no check can show is in docs/verify.md.")


def _records(answer: pyarrow.Table) -> list[dict[str, Any]]:
    """Return rows as dictionaries under numbers: a query may give two columns the same name."""
    return list(answer.rename_columns([str(i) for i in range(answer.num_columns)]).to_pylist())


def _table(answer: pyarrow.Table) -> Table:
    from rich.table import Table

    table = Table()
    for name in answer.column_names:
        table.add_column(name, overflow="fold")
    for row in _records(answer.slice(0, _SHOWN)):
        table.add_row(*(_text(value) for value in row.values()))
    return table


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    """Return a value that JSON has: numbers that are not finite, and dates and the like, as text."""
    if isinstance(value, float) and value - value != 0.0:
        return str(value)
    return value if isinstance(value, (int, float, str, type(None))) else str(value)


def _print_csv(answer: pyarrow.Table) -> None:
    import csv

    # A file or a pipe gets the values as they are; a terminal would obey some of them.
    shown = visible if sys.stdout.isatty() else str
    out = SimpleNamespace(write=lambda text: sys.stdout.write(shown(text)))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(answer.column_names)
    for batch in answer.to_batches(max_chunksize=10_000):
        columns = [column.to_pylist() for column in batch.columns]
        writer.writerows(zip(*columns, strict=True))
