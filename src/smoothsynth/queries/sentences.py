"""Sentences with figures in them: written from a template, and recognised by it later."""

from __future__ import annotations

import re
from functools import cache

# A figure of no more digits than any of ours has; whether it is written as its slot asks for is seen by writing it.
_FIGURE = r"(-?\d{1,12}(?:\.\d{1,12})?(?:e[+-]\d{2,3})?|-?inf|nan)"
_SLOT = re.compile(r"\{[^{}]*\}")


def fits(text: str, template: str) -> bool:
    """Whether a text is what a template gives with some figure in each of its {slots}."""
    found = _pattern(template).fullmatch(text)
    slots = (slot.strip("{}").partition(":")[2] for slot in _SLOT.findall(template))
    return found is not None and all(map(_as_written, found.groups(), slots))


def _as_written(figure: str, form: str) -> bool:
    """Whether a figure is what its value gives in this form; without one it is a whole number."""
    if form:
        return format(float(figure), form) == figure
    return figure.isdecimal() and str(int(figure)) == figure


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(_FIGURE.join(map(re.escape, _SLOT.split(template))), re.ASCII)
