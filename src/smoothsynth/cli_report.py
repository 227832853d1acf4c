"""The command that draws the page of a release, and the owner's page that compares it with the private rows."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated, Optional

import typer

from smoothsynth._files import why_not_beside, why_not_new
from smoothsynth.commands import in_words, say
from smoothsynth.errors import ReleaseError


@in_words
def report(
    folder: Annotated[Path, typer.Argument(help="A release folder.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write, outside the release folder.")],
    with_private: Annotated[
        Optional[Path],
        typer.Option(help="The private table: makes the owner's page, which compares and is NOT FOR RELEASE."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing page.")] = False,
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
    comparison = None
    if with_private is not None:
        from smoothsynth.private.owner import compare
        from smoothsynth.report.questions import on_columns

        comparison = compare(
            with_private,
            release.schema,
            rows=release.receipt.rows,
            kernels=[(shape.name, shape.centres, shape.width) for shape in said.shapes],
            questions=[on_columns(question) for question in said.questions],
        )
    _write(output, render(said, comparison), mode=0o644 if comparison is None else 0o600)
    say(f"Wrote {output}." if comparison is None else f"Wrote {output}. It is NOT FOR RELEASE.")


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
    """Write the file beside its place, readable by its owner only until it is whole."""
    try:
        handle, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.", suffix=".partial")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            Path(name).chmod(mode)
            Path(name).replace(output)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ReleaseError(f"{output} cannot be written: {error.strerror}. Choose another place.") from None
