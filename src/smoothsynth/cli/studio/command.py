"""The command that starts the studio, and ends it."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from smoothsynth.errors import DataError, ReleaseError
from smoothsynth.pipeline.terminal import in_words, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smoothsynth.cli.studio.walk import Walk


@in_words
def studio(
    place: Annotated[
        Path, typer.Argument(help="The folder with the table: it is offered, and the release is written there.")
    ] = Path(),
    ledger: Annotated[
        Optional[Path], typer.Option(help="The data set's ledger: refused if too little is left, else recorded there.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1 [default: a free one].")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address, and open no browser.")] = False,
) -> None:
    """Walk from a file to a release on a page in your browser, which only this machine can reach.

    Open a table, fix its schema beside what a check finds, move epsilon and see the expected errors, release, verify,
    download; at the end stand the commands and the Python script that do the same. Nothing is spent before you press
    **Release**. The page shows what a check shows and no row. End it with Ctrl-C.

    Example:  **smoothsynth studio .**
    """
    from smoothsynth.cli.studio.server import Studio
    from smoothsynth.cli.studio.walk import Walk

    if not place.is_dir():
        raise DataError(f"{place} must be a folder with tables in it, and is not. Name the folder.")
    # What is uploaded is deleted however the studio ends, but for a kill that no process can catch.
    with _ended_by("SIGTERM", "SIGHUP"), tempfile.TemporaryDirectory(prefix="smoothsynth-studio-") as uploads:
        walk = Walk(place.resolve(), Path(uploads), ledger)
        walk.state()
        try:
            server = Studio(walk, port=port)
        except OSError as error:
            raise ReleaseError(f"Port {port} of 127.0.0.1 cannot be used: {error.strerror}. Choose another.") from None
        with server, contextlib.suppress(KeyboardInterrupt):
            say(f"The studio is open at {server.address}")
            say("Whoever knows this address and works on this machine sees what you see. End it with Ctrl-C.")
            if not no_open:
                _show(server.address, Path(uploads) / "open.html")
            server.serve_forever(poll_interval=0.1)
        _finish(walk)
    say("The studio has ended; what was uploaded is deleted.")


def _show(address: str, file: Path) -> None:
    """Open a browser by way of a private file: other users see the arguments of processes, and must not see the token."""
    file.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}"><title>studio</title>')
    webbrowser.open(file.as_uri())


def _finish(walk: Walk) -> None:
    """Let a release that is under way come to its end: its budget may be spent already."""
    if walk.jobs.is_running:
        say("Something is under way, and is finished first. Press Ctrl-C once more to end it now.")
        walk.jobs.wait()


@contextlib.contextmanager
def _ended_by(*names: str) -> Iterator[None]:
    """Let signals end the studio as Ctrl-C does, those that this system has."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
