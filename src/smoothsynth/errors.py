"""Errors a caller may catch, names made fit for their messages, and arguments that nobody has.

Every message says what must hold, what was found and what to do, and never quotes a value of the data.
"""

from __future__ import annotations

import functools
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Made = TypeVar("Made")


class SmoothsynthError(Exception):
    """The base of every error that smoothsynth raises on purpose."""


class SchemaError(SmoothsynthError):
    """The public description of the table is incomplete or contradicts itself; `problems` has one text for each reason."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class DataError(SmoothsynthError):
    """The table cannot be read as the schema describes it."""


class EngineError(SmoothsynthError):
    """The cluster that shall compute the sums is not there, went away, or lacks what it needs."""


class BudgetError(SmoothsynthError):
    """The privacy budget is not a budget, or is not enough."""


class LedgerError(SmoothsynthError):
    """The file that holds what a data set has spent is missing, damaged, newer, or open to others."""


class PlanError(SmoothsynthError):
    """What was asked for cannot be measured or fitted; `problems` are the lines of what is said of it."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ReleaseError(SmoothsynthError):
    """A release cannot be written or read."""


class FederatedError(SmoothsynthError):
    """A key, a request, or sealed sums are missing, changed, meant for somebody else or counted twice."""


def one_line(text: str) -> str:
    r"""Return text with every character that cannot be printed, ends of lines too, as \uXXXX: a name adds no line."""
    return "".join(c if c.isprintable() else "".join(_units(c)) for c in text)


def meant(name: str, known: Iterable[str]) -> str:
    """Return a sentence that points to the closest known name, to follow another; nothing if none is close."""
    import difflib

    folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1)
    return "".join(f". Did you mean {folded[one]!r}?" for one in near)


def arguments_in_words(kind: type[Made]) -> type[Made]:
    """Let a dataclass refuse a mistyped argument with the name that may have been meant."""
    make = kind.__init__
    known = [field.name for field in fields(kind) if field.init]  # type: ignore[arg-type]

    @functools.wraps(make)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        for name in given:
            if name not in known:
                hint = meant(name, known) or f". It takes {', '.join(known)}."
                raise TypeError(f"{kind.__name__}() got an unexpected keyword argument {name!r}{hint}")
        make(self, *args, **given)

    kind.__init__ = checked  # type: ignore[method-assign]
    return kind


def _units(character: str) -> Iterator[str]:
    raw = character.encode("utf-16-be", "surrogatepass")
    return (f"\\u{raw[i : i + 2].hex()}" for i in range(0, len(raw), 2))
