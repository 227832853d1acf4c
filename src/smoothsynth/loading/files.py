"""Open the files of a release folder: plain files of the folder itself, of a size that a release can have."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from smoothsynth.errors import ReleaseError

# A value takes more bytes in the files that are written, with its line and indentation; one of "[]," takes 70 in memory.
_LEAST_VALUE = 8
# Factors of terms of features of the rounds of a search are eight deep.
_MOST_NESTED = 16


def plain_file(folder: Path, name: str) -> Path:
    """Return a file of the folder; not one elsewhere, behind a link that leaves it, or that is no plain file."""
    path = folder / name
    if Path(name).name != name or "\0" in name or not path.is_file():
        raise ReleaseError(f"{folder} is not a whole release: it has no file {name!r:.80}.")
    if path.resolve().parent != folder.resolve():
        raise ReleaseError(f"{name!r:.80} is a link that leaves the release folder. Put the file itself there.")
    return path


def read_text(folder: Path, name: str, *, most: int) -> str:
    """Read a JSON file of the folder, of at most so many bytes, as text."""
    path = plain_file(folder, name)
    if path.stat().st_size > most:
        raise ReleaseError(f"{name} is too large to be part of a release.")
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, ValueError, MemoryError) as error:
        raise ReleaseError(f"{name} cannot be read as text in UTF-8.") from error
    if sum(map(text.count, ",[{")) > most // _LEAST_VALUE:
        raise ReleaseError(f"{name} has more values than a file of a release can have. It is not read.")
    return text


def parse(text: str, name: str) -> dict[str, Any]:
    """Return the values of a JSON text whose top level is an object."""
    try:
        document = json.loads(text, object_pairs_hook=_once, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError, MemoryError) as error:
        raise ReleaseError(f"{name} cannot be read as JSON with finite numbers and without double keys.") from error
    if not isinstance(document, dict):
        raise ReleaseError(f"{name} must hold a JSON object.")
    _check_nesting(document, name)
    return document


def _check_nesting(document: dict[str, Any], name: str) -> None:
    """Refuse values that lie deeper in each other than those of a release, level by level: no call is nested."""
    level: list[Any] = [document]
    for _ in range(_MOST_NESTED):
        inner = (value for one in level for value in (one.values() if isinstance(one, dict) else one))
        level = [value for value in inner if isinstance(value, (dict, list))]
    if level:
        raise ReleaseError(f"{name} must have values at most {_MOST_NESTED} deep in each other, and has deeper ones.")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key occurs twice")
    return document


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is not finite")
    return value
