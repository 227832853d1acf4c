"""Calls of other libraries on private rows: no error of theirs leaves this package, since it may quote a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


# What is raised to end this process; all else has gone wrong. A panic of Rust is no Exception.
STOPPED = (KeyboardInterrupt, SystemExit)


def attempt(action: Callable[[], Any]) -> Any:
    """Return the result, or None if it fails: foreign errors may quote values, so they are not chained."""
    try:
        return action()
    except STOPPED:
        raise
    except BaseException:
        return None
