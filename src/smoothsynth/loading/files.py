"""Open the files of a release folder: plain files of the folder itself, of a size that a release can have."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from smoothsynth.errors import ReleaseError


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
        return path.read_bytes().decode("utf-8")
    except (OSError, ValueError, MemoryError) as error:
        raise ReleaseError(f"{name} cannot be read as text in UTF-8.") from error


def parse(text: str, name: str) -> dict[str, Any]:
    """Return the values of a JSON text whose top level is an object."""
    try:
        document = json.loads(text, object_pairs_hook=_once, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError, MemoryError) as error:
        raise ReleaseError(f"{name} cannot be read as JSON with finite numbers and without double keys.") from error
    if not isinstance(document, dict):
        raise ReleaseError(f"{name} must hold a JSON object.")
    return document


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
