"""Hold a JSON file against what the writer writes for its values: then nothing else can be in it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import ReleaseError
from smoothsynth.loading.files import parse
from smoothsynth.release import as_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def check_form(name: str, text: str, again: Mapping[str, Any], *, words: bool = True) -> None:
    """Refuse a file that is not, byte for byte, what its own values give when they are written again.

    `again` are these values as our objects write them; without `words`, texts may differ from theirs.
    """
    if text == as_text(again):
        return
    document = parse(text, name)
    place = next(_unlike(document, again, words=words), None)
    if place is not None:
        raise ReleaseError(f"{name} has {place!r:.200}, which a release has not, or has otherwise. It was changed.")
    if text != as_text(document):
        raise ReleaseError(f"{name} must be written as smoothsynth writes JSON, byte for byte, and is not.")
    if words:
        raise ReleaseError(f"{name} must have its keys in the order in which smoothsynth writes them, and has not.")


def _unlike(value: Any, again: Any, place: str = "", *, words: bool) -> Iterator[str]:
    """Go through both and name the places that only one of them has, or where values differ."""
    if isinstance(value, dict) and isinstance(again, dict):
        for key in {**value, **again}:
            where = f"{place}.{key}".lstrip(".")
            if key not in value or key not in again:
                yield where
            else:
                yield from _unlike(value[key], again[key], where, words=words)
    elif isinstance(value, list) and isinstance(again, list):
        for number, (one, other) in enumerate(itertools.zip_longest(value, again)):
            yield from _unlike(one, other, f"{place}.{number}", words=words)
    elif (type(value), value) != (type(again), again) and (words or {type(value), type(again)} != {str}):
        yield place
