"""Text on its way to a terminal: names and levels are somebody else's, so none of it is read as an instruction.

Brackets are no styles, and characters that a terminal would obey or that change how others are read (escape sequences,
backspaces, marks of direction) are written as their numbers.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from smoothsynth.errors import one_line

if TYPE_CHECKING:
    from typing import TextIO

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult


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
