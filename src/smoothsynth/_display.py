"""How public objects show themselves: as the call that makes them, and in a notebook as a small table.

Tables are HTML without scripts. Colours are those of the notebook itself (currentColor), so that it reads on dark and on
light; all names are escaped.
"""

from __future__ import annotations

import datetime
from dataclasses import MISSING, fields
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Made = TypeVar("Made")

_MOST_VALUES = 6
_LONGEST = 48
_CELL = "text-align:left;padding:2px 12px 2px 0;vertical-align:middle;white-space:nowrap"
_TABLE = "border-collapse:collapse;margin:4px 0;font-size:inherit;color:inherit;background:none"


def shown_as_call(kind: type[Made]) -> type[Made]:
    """Let a dataclass show itself as the shortest call that makes it."""
    kind.__repr__ = _as_call  # type: ignore[method-assign]
    kind._repr_html_ = _call_html  # type: ignore[attr-defined]
    return kind


def _as_call(made: Any) -> str:
    return f"{type(made).__name__}({', '.join(_arguments(made))})"


def _call_html(made: Any) -> str:
    return page(_as_call(made))


def _arguments(made: Any) -> Iterator[str]:
    by_place = True
    for field in fields(made):
        value = getattr(made, field.name)
        if field.default is not MISSING and value == field.default:
            by_place = False
        elif field.init and field.repr:
            by_place = by_place and not field.kw_only
            yield _written(value) if by_place else f"{field.name}={_written(value)}"


def _written(value: object) -> str:
    if isinstance(value, (datetime.date, datetime.datetime)):
        return repr(value.isoformat())
    if isinstance(value, (tuple, list)):
        more = [f"... {len(value) - _MOST_VALUES} more"] * (len(value) > _MOST_VALUES)
        return f"[{', '.join([*map(repr, value[:_MOST_VALUES]), *more])}]"
    return repr(value)


def page(
    head: str,
    facts: Iterable[tuple[str, str]] = (),
    headings: Sequence[str] = (),
    rows: Iterable[Sequence[str]] = (),
    *,
    hidden: int = 0,
) -> str:
    """Return a heading, facts by name, and a table of cells that are HTML already; `hidden` rows are left out."""
    lines = "".join(_row((f"<span style='opacity:.65'>{name}</span>", escaped(words, 600))) for name, words in facts)
    table = "".join(map(_row, rows))
    more = f"<div style='opacity:.65'>and {hidden:,} more</div>" if hidden else ""
    titles = "".join(f"<th scope='col' style='{_CELL};opacity:.65'>{heading}</th>" for heading in headings)
    top = f"<table style='{_TABLE}'><tbody>{lines}</tbody></table>" if lines else ""
    body = f"<thead><tr style='background:none'>{titles}</tr></thead><tbody>{table}</tbody>"
    return (
        "<div style='font-family:sans-serif;font-size:13px;line-height:1.4;color:inherit;overflow-x:auto'>"
        f"<div style='font-weight:600'>{escaped(head, 300)}</div>{top}"
        f"{f'<table style={_TABLE!r}>{body}</table>' if headings else ''}{more}</div>"
    )


def _row(cells: Iterable[str]) -> str:
    # Notebooks stripe the rows of tables and align them to the right; both are taken back.
    return "<tr style='background:none'>" + "".join(f"<td style='{_CELL}'>{cell}</td>" for cell in cells) + "</tr>"


def escaped(words: object, longest: int = _LONGEST) -> str:
    """Return words as HTML, cut at some length."""
    shown = str(words)
    return escape(shown if len(shown) <= longest else shown[: longest - 1] + "\u2026")
