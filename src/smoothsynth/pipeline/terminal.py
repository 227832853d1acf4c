"""What every command shares: text made visible, errors in words, exit codes, progress.

Text on its way to a terminal: names and levels are somebody else's, so none of it is read as an instruction.

Brackets are no styles, and characters that a terminal would obey or that change how others are read (escape sequences,
backspaces, marks of direction) are written as their numbers.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ParamSpec

from smoothsynth.errors import SmoothsynthError, one_line

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.progress import TaskID

    from smoothsynth.pipeline.release import Receipt


def visible(text: str) -> str:
    r"""Return text with every character that cannot be printed, but for ends of lines, as \uXXXX.

    Within a JSON document such characters occur in strings only, where this means the same.
    """
    return "\n".join(map(one_line, text.split("\n")))


def screen(file: TextIO | None = None, *, width: int | None = None) -> Console:
    """Return a console on standard output, or on a file, that takes no text for markup or emoji."""
    from rich.console import Console

    is_terminal = None if file is None else False
    return Console(file=file, width=width, markup=False, emoji=False, force_terminal=is_terminal)


def put(renderable: RenderableType, on: Console) -> None:
    """Print what rich can lay out, as visible text."""
    on.print(_Visible(renderable), highlight=False)


def as_text(renderable: RenderableType, *, width: int) -> str:
    """Return what rich can lay out, as visible text."""
    page = io.StringIO()
    put(renderable, screen(page, width=width))
    return page.getvalue().rstrip()


def never_fail_to_encode(*streams: TextIO) -> None:
    """Let streams write what their encoding lacks as an escape: what was computed is not lost for a character."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _Visible:
    """Something that rich lays out, made visible after that: whatever it is made of, nothing is forgotten."""

    __slots__ = ("_content",)

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        for segment in console.render(self._content, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


P = ParamSpec("P")
Progress = Callable[[str, int, int | None], None]

# 2 is typer's for a command line that it cannot read. A crash of Python gives 1 too: a refuted claim must not look like one.
FAILED, REFUTED, INTERRUPTED = 1, 3, 130
EXIT_CODES = (
    "Exit codes: 0 done; 1 could not be done, for the reason on standard error; 2 the command line is wrong; "
    "3 refuted (verify, audit, attack) or mostly unreadable (check); 130 interrupted."
)


def in_words(command: Callable[P, None]) -> Callable[P, None]:
    """End a command that fails as expected with one sentence on standard error and exit code 1."""
    import typer

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _say_warning
                command(*args, **kwargs)
        except SmoothsynthError as error:
            first, *others = getattr(error, "problems", ()) or (str(error),)
            for line in (f"Error: {first}", *others):
                say(one_line(line), err=True)
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt:
            say(
                "Interrupted. What is written is there whole or not at all; if a release drew noise, its budget is spent.",
                err=True,
            )
            raise typer.Exit(INTERRUPTED) from None

    return run


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print words, on standard output or standard error."""
    import typer

    typer.echo(visible(text), err=err, nl=nl)


def say_json(document: object, *, ascii_only: bool = False) -> None:
    """Print one JSON document."""
    say(json.dumps(document, indent=1, ensure_ascii=ascii_only))


def room(most: int, *, err: bool = False) -> int:
    """Return how many columns a text may have: at most so many, and no more than the terminal that shows it."""
    from rich.console import Console

    found = Console(stderr=err)
    return min(most, found.width) if found.is_terminal else most


def show(*renderables: RenderableType, width: int | None = None) -> None:
    """Print tables, and lines between them, on standard output, at most `width` wide."""
    out = screen(width=None if width is None else room(width))
    for renderable in renderables:
        put(renderable, out)


def say_released(receipt: Receipt, folder: Path, *, as_json: bool = False) -> None:
    """Say that a release was written: in four lines, the first of which names what to open."""
    from smoothsynth.accounting.charges import MOST_DELTA

    most = MOST_DELTA / receipt.rows
    if receipt.spent.delta > most:
        advice = f"delta should be at most 1/(100 rows), {most:.1g} for {receipt.rows:,} rows"
        say(
            f"Warning: {advice}. With the delta of {receipt.spent.delta:g} the promise is weak: do not publish.",
            err=True,
        )
    if as_json:
        say_json({"folder": str(folder), "page": str(folder / "report.html"), **receipt.as_dict()})
        return
    spent, count, columns = receipt.spent, len(receipt.charges), len(receipt.schema.names)
    delta = f", delta = {spent.delta:g}" if spent.delta else ""
    measured = f"{count} measurement{'' if count == 1 else 's'}"
    # Not wrapped: a path in two lines cannot be copied.
    say(f"Open {folder / 'report.html'} in a browser: what this release tells, and what not.")
    show(
        f"Wrote {folder}: {receipt.synthetic_rows:,} synthetic rows x {columns} columns; README.md explains.",
        f"Spent epsilon = {spent.epsilon:.6g}{delta} for {receipt.protects} on {measured}; a second run spends it again.",
        receipt.outcome,
    )


def _say_warning(message: Warning | str, *_where: object, **__where: object) -> None:
    say(one_line(f"Warning: {message}"), err=True)


@contextlib.contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Progress | None]:
    """Show progress on standard error while a release is made, if somebody watches: a terminal or a notebook.

    A phase whose length is not known yet has a bar that moves; the bar takes the room that names and times leave.
    """
    from rich import progress as rich_progress
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    screen_ = Console(stderr=True, markup=False, emoji=False)
    if quiet or not (screen_.is_terminal or screen_.is_jupyter):
        yield None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TaskProgressColumn("{task.percentage:>3.0f}%", markup=False),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    with rich_progress.Progress(*columns, console=screen_, transient=True, expand=True) as bar:
        tasks: dict[str, TaskID] = {}

        def report(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done, total=total)

        yield report


@contextlib.contextmanager
def watched(progress: Progress | bool | None) -> Iterator[Progress | None]:  # noqa: FBT001
    """Yield what is told of progress: a bar for True, what was given, or nothing."""
    if progress is not True:
        yield progress or None
        return
    with progress_bar(quiet=False) as told:
        yield told
