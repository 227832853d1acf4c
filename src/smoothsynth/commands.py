"""What every command shares: errors in words, progress, a console."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ParamSpec

import typer

from smoothsynth.errors import SmoothsynthError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

P = ParamSpec("P")


def in_words(command: Callable[P, None]) -> Callable[P, None]:
    """End a command that fails as expected with one sentence on standard error and exit code 1."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except SmoothsynthError as error:
            typer.echo(f"Error: {error}", err=True)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            typer.echo(
                "Interrupted. A release is there whole or not at all; if noise was drawn, the budget is spent.",
                err=True,
            )
            raise typer.Exit(130) from None

    return run


def console(width: int | None = None) -> Console:
    """Return a console on standard output."""
    from rich.console import Console

    return Console(width=width)


@contextlib.contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Callable[[str, int, int | None], None] | None]:
    """Show progress on standard error while a release is made, if somebody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    screen = Console(stderr=True)
    if quiet or not screen.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,}{task.fields[of]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen, transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def report(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                of = "" if total is None else f" of {total:,}"
                tasks[stage] = bar.add_task(stage, total=total, of=of)
            bar.update(tasks[stage], completed=done, total=total)

        yield report
