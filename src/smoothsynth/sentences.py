"""Sentences with figures in them: written from a template, and recognised by it later."""

from __future__ import annotations

import re
from functools import cache

# A figure as `format` writes it, of no more digits than any of ours has.
_FIGURE = r"(?:-?\d{1,12}(?:\.\d{1,12})?(?:e[+-]\d{2,3})?|-?inf|nan)"
_SLOT = re.compile(r"\{[^{}]*\}")


def fits(text: str, template: str) -> bool:
    """Whether a text is what a template gives with some figure in each of its {slots}."""
    return _pattern(template).fullmatch(text) is not None


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(_FIGURE.join(map(re.escape, _SLOT.split(template))), re.ASCII)
