"""Turn names of pages, such as docs/ledger.md in a docstring or a help text, into links."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_TEXT = re.compile(r"<[^>]*>|[^<]+")
_NAME = re.compile(r"(?<![\w/.])docs/([\w/-]+\.md)\b")


def on_page_content(html: str, *, page: Any, files: Any, **_: Any) -> str:
    """Link every name of a page of this site that is not a link already."""
    places = {file.src_uri: file.dest_uri for file in files.documentation_pages()}
    return linked(html, places, here=posixpath.dirname(page.file.dest_uri))


def linked(html: str, places: dict[str, str], *, here: str) -> str:
    """Return HTML in which names of pages in the text, outside links, are links."""
    parts, inside = [], 0
    for part in _TEXT.findall(html):
        inside += part.startswith("<a ") - part.startswith("</a")
        parts.append(part if inside or part.startswith("<") else _NAME.sub(lambda m: _link(m, places, here), part))
    return "".join(parts)


def _link(found: re.Match[str], places: dict[str, str], here: str) -> str:
    place = places.get(found[1])
    return f'<a href="{posixpath.relpath(place, here or ".")}">{found[0]}</a>' if place else found[0]
