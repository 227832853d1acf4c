"""Errors a caller may catch, and names made fit for their messages.

Every message says what must hold, what was found and what to do, and never quotes a value of the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class SmoothsynthError(Exception):
    """The base of every error that smoothsynth raises on purpose."""


class SchemaError(SmoothsynthError):
    """The public description of the table is incomplete or contradicts itself."""


class DataError(SmoothsynthError):
    """The table cannot be read as the schema describes it."""


class EngineError(SmoothsynthError):
    """The cluster that shall compute the sums is not there, went away, or lacks what it needs."""


class BudgetError(SmoothsynthError):
    """The privacy budget is not a budget, or is not enough."""


class LedgerError(SmoothsynthError):
    """The file that holds what a data set has spent is missing, damaged, newer, or open to others."""


class PlanError(SmoothsynthError):
    """What was asked for cannot be measured or fitted."""


class ReleaseError(SmoothsynthError):
    """A release cannot be written or read."""


class FederatedError(SmoothsynthError):
    """A key, a request, or sealed sums are missing, changed, meant for somebody else or counted twice."""


def one_line(text: str) -> str:
    r"""Return text with every character that cannot be printed, ends of lines too, as \uXXXX: a name adds no line."""
    return "".join(c if c.isprintable() else "".join(_units(c)) for c in text)


def _units(character: str) -> Iterator[str]:
    raw = character.encode("utf-16-be", "surrogatepass")
    return (f"\\u{raw[i : i + 2].hex()}" for i in range(0, len(raw), 2))
