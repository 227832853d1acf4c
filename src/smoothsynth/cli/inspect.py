"""The commands that look at a release: `verify`, `sql`, `answer`, `report`, `attack`, `sample`, and `audit`.

The commands for whoever received a release: check it, and ask it in SQL.

The command that asks a release: one question, one estimate.

The command that draws the page of a release, and the owner's page that compares it with the private rows.

The owner's command that attacks a release with the private rows.

The command that draws more rows, or completes given ones.

The command that tries to catch the mechanisms leaking.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from smoothsynth._files import why_not_beside, why_not_new
from smoothsynth.errors import ReleaseError
from smoothsynth.pipeline.terminal import REFUTED, in_words, progress_bar, say, say_json, show, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow
    from rich.table import Table

    from smoothsynth.answer.estimate import Estimate, Groups
    from smoothsynth.verification.check import Verification


FolderArgument = Annotated[Path, typer.Argument(help="The release folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]

_SIGNS = {"passed": ("✓", "green"), "note": ("·", "dim"), "warning": ("!", "yellow"), "failed": ("✗", "red")}
_SHOWN = 40


@in_words
def verify(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Check a release that somebody gave you, without trusting it.

    Files and their hashes; rows against the schema; every sensitivity, noise scale and cost computed again from what was
    measured, and added up in two ways; the promise against its figures; moments against rows; and whether transformations
    and rows follow from the released numbers alone. The exit code is 3 if anything is refuted.

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


@in_words
def answer(
    folder: Annotated[Path, typer.Argument(help="The release folder.")],
    question: Annotated[
        str, typer.Argument(help='Averages, such as "avg(age)"; columns by name, odd names in quotes.')
    ],
    confidence: Annotated[float, typer.Option("--confidence", "-c", help="How sure the interval shall be.")] = 0.95,
    weighted: Annotated[
        bool, typer.Option("--weighted", help="Weight rows with the survey weights that the schema names.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """Answer a question on the synthetic rows, with an interval for what the private rows would say.

    A question is made of averages **avg(...)** of arithmetic on columns: + - * /, power, exp, ln, log10, sqrt, abs, sin, cos,
    tan, tanh, atan, erf, logistic, least, greatest. Comparisons, and, or, not, between, case, floor, ceil and
    round may be used too: what jumps is answered between two smooth questions, with a wider interval. Levels are compared
    with = <> in, days with a text such as '2020-01-31', missing values with is null; rows are chosen with where. Rows
    without a value are left out. There are **corr(a, b)**, **median(a)** and **quantile(a, 0.9)** too, and **group by** at
    the end answers once for each level of a category.

    Example:  **smoothsynth answer out/ "avg(exp(-power((age - 50) / 10, 2)))"**

    Example:  **smoothsynth answer out/ "avg(visits * cost) / avg(visits)" --confidence 0.9**

    Example:  **smoothsynth answer out/ "avg(age >= 50 and age < 60)" --json**

    Example:  **smoothsynth answer out/ "avg(income where region = 'A')"**, **"avg(bmi is null)"**

    Example:  **smoothsynth answer out/ "median(cost where age >= 50) group by sex"**, **"corr(age, cost)"**

    Example:  **smoothsynth answer out/ 'avg("blood pressure")'**

    Example:  **smoothsynth answer out/ "avg(income)" --weighted**
    """
    from smoothsynth.pipeline.load import load

    found = load(folder).answer(question, confidence=confidence, weighted=weighted)
    if as_json:
        say_json(
            {
                "question": question,
                **({"weighted": True} if weighted else {}),
                **found.as_dict(),
                "in_words": found.in_words(),
            }
        )
    else:
        _show_answers(found, weighted=weighted)


def _show_answers(found: Estimate | Groups, *, weighted: bool) -> None:
    from rich.table import Table

    from smoothsynth.answer.estimate import Groups

    if isinstance(found, Groups):
        _show_groups(found, weighted=weighted)
        return
    table = Table(box=None, show_header=False)
    table.add_row("on the synthetic rows" + (", weighted" if weighted else ""), found.shown(found.value))
    table.add_row(f"interval, {100 * found.confidence:g} %", f"{found.shown(found.low)} to {found.shown(found.high)}")
    table.add_row("  noise", f"± {found.noise:.3g}")
    table.add_row(f"  unseen ({found.unseen_is})", f"± {found.unseen:.3g}")
    table.add_row("  sampling of rows", f"± {found.sampling:.3g}")
    table.add_row("  fit, known shift", f"{found.fit + 0.0:+.3g}")
    show(table, found.in_words())


def _show_groups(found: Groups, *, weighted: bool) -> None:
    from rich.table import Table

    confidence = next((f", {100 * one.confidence:g} %" for one in found), "")
    table = Table(box=None)
    heads = (", ".join(found.columns), "synthetic rows" + (", weighted" if weighted else ""), f"interval{confidence}")
    for place, head in enumerate(heads):
        table.add_column(visible(head), justify="right" if place == 1 else "left")
    for row in found.rows():
        table.add_row(*map(visible, row))
    show(table, "Each interval has its confidence by itself; groups of few rows have wide ones.")


@in_words
def report(
    folder: Annotated[Path, typer.Argument(help="A release folder.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write, outside the release folder.")],
    with_private: Annotated[
        Optional[Path],
        typer.Option(help="The private table: makes the owner's page, which compares and is NOT FOR RELEASE."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing page.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draw the page of a release again, or the owner's page that compares it with the private rows.

    Every release has its page already: open report.html in its folder. The owner's page holds statistics of the
    private rows without noise. It says so on every screen, only you can read the file, and it is not written into a
    release folder.

    Example:  **smoothsynth report out/ -o report.html**

    Example:  **smoothsynth report out/ --with-private patients.csv -o for-the-owner.html**
    """
    from smoothsynth.pipeline.load import load
    from smoothsynth.report.contents import contents, file_hashes
    from smoothsynth.report.page import render

    release = load(folder)
    _check_place(output, folder, force=force)
    said = contents(release, file_hashes(folder))
    comparison = checked = None
    if with_private is not None:
        from smoothsynth.pipeline.check import check as check_rows
        from smoothsynth.private.owner import compare
        from smoothsynth.report.columns import Levels
        from smoothsynth.report.questions import on_points

        comparison = compare(
            with_private,
            release.schema,
            rows=release.receipt.rows,
            kernels=[(one.name, one.centres, one.width) for one in said.curves],
            questions=[on_points(question, release.schema) for question in said.questions],
            correlation=lambda points: said.correlations.of_rows(release.schema, points),
            levels=[(one.name, tuple(one.shares)) for one in said.drawn if isinstance(one, Levels)],
        )
        checked = check_rows(with_private, release.schema)
    _write(output, render(said, comparison, checked), mode=0o644 if comparison is None else 0o600)
    private = "" if comparison is None else " It is NOT FOR RELEASE."
    if as_json:
        say_json({"wrote": str(output), "for_release": comparison is None})
    else:
        say(f"Wrote {output}.{private}")


@in_words
def attack(
    data: Annotated[str, typer.Argument(help="The private table that was released.")],
    folder: FolderArgument,
    holdout: Annotated[
        Optional[str],
        typer.Option(help="Rows of the same population that were not released: without them little can be told."),
    ] = None,
    secret: Annotated[
        Optional[list[str]],
        typer.Option(help="A column that is guessed from all others; can be repeated [default: every column]."),
    ] = None,
    output: Annotated[
        Optional[Path],
        typer.Option("--output", "-o", help="A page (.html) or document (.json) to write, outside the release folder."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seeds which rows are looked at, if there are many.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Attack your own release with the private rows, and see what is found beside what epsilon allows.

    For the owner only. Three attacks: who was in the table (membership), whose row occurs among the synthetic ones (exact
    and near matches), and what the rows tell of a column from the others (attributes). Only what works better on released
    rows than on the holdout is a leak; the rest is what the population tells. The report is PRIVATE: nothing in it is noisy,
    nothing is charged, and only you can read the file. The exit code is 3 if an attack shows more than the promise allows.

    Example:  **smoothsynth attack patients.csv out/ --holdout other-patients.csv**

    Example:  **smoothsynth attack patients.csv out/ --holdout other-patients.csv --secret diagnosis -o attacks.html**
    """
    import json

    from smoothsynth.pipeline.attack import attack as attack_release
    from smoothsynth.pipeline.load import load
    from smoothsynth.report.attack import as_terminal_tables, attack_page

    if output is not None:
        if output.suffix not in (".html", ".json"):
            raise ReleaseError(
                f"{output} must end with .html, for a page, or .json, for a document. Name another file."
            )
        _check_place(output, folder, force=force)
    release = load(folder)
    with progress_bar(quiet=as_json) as progress:
        found = attack_release(data, release, holdout=holdout, secret=secret, seed=seed, progress=progress)
    if output is not None:
        document = json.dumps(found.as_dict(), indent=1) + "\n"
        _write(output, attack_page(found) if output.suffix == ".html" else document, mode=0o600)
    if as_json:
        say_json(found.as_dict())
    else:
        show(*as_terminal_tables(found), width=120)
    if output is not None and not as_json:
        say(f"Wrote {output}. It is PRIVATE: do not publish it.")
    if not found.passed:
        say("Error: an attack shows more than the promise allows.", err=True)
        raise typer.Exit(REFUTED)


@in_words
def sample(
    folder: FolderArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The rows to write, .csv or .parquet, outside the release folder.")
    ],
    rows: Annotated[Optional[int], typer.Option("--rows", "-n", min=1, help="How many rows to draw.")] = None,
    given: Annotated[
        Optional[Path],
        typer.Option(help="Public or synthetic rows, .csv or .parquet: the columns they lack are filled in."),
    ] = None,
    seed: Annotated[Optional[int], typer.Option(help="Draws the same rows again.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draw more rows from the model of a release, or complete given ones, at no cost.

    Each given row stays as it is, in its place: its other columns are drawn given those that are there. An empty cell is a
    missing value; a column that is not there is filled in. Never give private rows: what is filled in is synthetic, what
    is given is not.

    Example:  **smoothsynth sample out/ --rows 100000 -o more.parquet**

    Example:  **smoothsynth sample out/ --given partial.csv -o whole.csv**
    """
    from smoothsynth.pipeline.given_rows import read_given
    from smoothsynth.pipeline.load import load
    from smoothsynth.pipeline.sample import write_parts

    if output.suffix not in {".csv", ".parquet"}:
        raise ReleaseError(f"{output} must end with .csv or .parquet. Name another file.")
    _check_place(output, folder, force=force)
    release = load(folder)
    if given is None and rows is None:
        raise ReleaseError("Say how many rows, as in --rows 1000, or give rows to complete, as in --given partial.csv.")
    if given is not None and rows is not None:
        raise ReleaseError("Given rows are completed as they are: leave out --rows.")
    written: list[int] = []
    with progress_bar(quiet=as_json) as progress:
        if given is None:
            parts = _told(release.sample_parts(rows or 0, seed=seed), rows or 0, progress)
        else:
            parts = iter([release.sample(given=read_given(given, release.schema), seed=seed)])
        _put(output, lambda place: written.append(write_parts(parts, place, output.suffix)), mode=0o644)
    if as_json:
        say_json({"wrote": str(output), "rows": written[0], "columns": len(release.schema.names)})
    else:
        say(f"Wrote {output}: {written[0]:,} rows x {len(release.schema.names)} columns.")


def _told(
    parts: Iterator[pyarrow.Table], rows: int, progress: Callable[[str, int, int | None], None] | None
) -> Iterator[pyarrow.Table]:
    """Tell how many rows are drawn while they are."""
    done = 0
    for part in parts:
        done += part.num_rows
        if progress is not None:
            progress("drawing rows", done, rows)
        yield part


def _check_place(output: Path, folder: Path, *, force: bool) -> None:
    place = output.resolve()
    if folder.resolve() in place.parents or (place.parent / "receipt.json").is_file():
        raise ReleaseError(
            f"{output} is inside a release folder, where every file is what its receipt says. Write the page elsewhere."
        )
    if place.is_dir():
        raise ReleaseError(f"{output} is a folder. Name a file, such as {output / 'report.html'}.")
    if place.exists() and not force:
        raise ReleaseError(f"{output} exists already. Choose another name, or replace it with --force.")
    problem = why_not_beside(output) if place.exists() and not output.is_symlink() else why_not_new(output)
    if problem:
        raise ReleaseError(problem)


def _write(output: Path, text: str, *, mode: int) -> None:
    """Write a text, whole or not at all."""
    _put(output, lambda file: file.write(text.encode("utf-8")), mode=mode)


def _put(output: Path, write: Callable[[Any], object], *, mode: int) -> None:
    """Write the file beside its place, readable by its owner only until it is whole."""
    try:
        handle, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.", suffix=".partial")
        try:
            with os.fdopen(handle, "wb") as file:
                write(file)
            Path(name).chmod(mode)
            Path(name).replace(output)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ReleaseError(f"{output} cannot be written: {error.strerror}. Choose another place.") from None


@in_words
def audit(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer trials: about a minute, weaker bounds.")] = False,
    trials: Annotated[
        Optional[int], typer.Option(min=1_000, help="Trials on each table [default: 10,000; with --quick 1,500].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """Try to catch the mechanisms leaking: lower bounds on the epsilon that they really have.

    Every mechanism and the whole pipeline run thousands of times on two tables that differ in one row. What tells
    the tables apart better than epsilon allows would disprove the claim. The paper's constants as printed are put
    to the same test, and must be caught. Needs no data. The exit code is 3 if one of ours exceeds its claim, or if
    a printed one escapes.

    Example:  **smoothsynth audit --quick**
    """
    from smoothsynth.audit import run
    from smoothsynth.audit.run import as_terminal_table

    with progress_bar(quiet=as_json) as progress:
        report = run.run(trials=trials or (run.QUICK_TRIALS if quick else run.TRIALS), progress=progress)
    if as_json:
        say_json(report.as_dict())
    else:
        title = "The paper's constants as printed: not private"
        show(
            as_terminal_table(report.ours, title="Ours", verdicts=("below", "ABOVE ITS CLAIM")),
            as_terminal_table(report.printed, title=title, verdicts=("missed", "caught")),
            width=150,
        )
        say(f"{len(report.ours) + len(report.printed)} bounds in {report.seconds:.0f} s; ", nl=False)
        say(f"the probability that any of them is too high is at most {report.alpha:g} (docs/audit.md).")
    for finding in report.exceeding:
        say(f"Error: {finding.mechanism} shows epsilon >= {finding.bound:.3f}, above its claim.", err=True)
    for name in report.missed:
        say(f"Error: {name} was not caught: too few trials to show anything. Give --trials.", err=True)
    if not report.passed:
        raise typer.Exit(REFUTED)
