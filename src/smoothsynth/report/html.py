"""Render the contents as one self-contained page: no network, no fonts, no frames, scripts and styles by their hash.

Whatever comes from a schema is text: escaped where it is written here, and put in as text by the page's own script.
"""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

from smoothsynth._version import VERSION
from smoothsynth.release import as_script_data
from smoothsynth.report import sections

if TYPE_CHECKING:
    from smoothsynth.report.contents import Contents
    from smoothsynth.report.owner import Comparison

SCRIPTS = (
    "rows.js",
    "algebra.js",
    "expression.js",
    "evaluate.js",
    "knowledge.js",
    "answer.js",
    "charts.js",
    "explorer.js",
    "page.js",
)
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def render(contents: Contents, comparison: Comparison | None = None) -> str:
    """Return the page; with a comparison it is the owner's variant, marked NOT FOR RELEASE everywhere."""
    style = _asset("page.css")
    script = '(() => {\n"use strict";\n' + "\n".join(map(_asset, SCRIPTS)) + "\n})();\n"
    slots = {
        **sections.texts(contents, comparison),
        "version": escape(VERSION),
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
        "data": as_script_data(_data(contents, comparison)),
    }
    # One pass: what is put in is never looked at again.
    return _SLOT.sub(lambda slot: slots[slot[1]], _asset("page.html"))


def _data(contents: Contents, comparison: Comparison | None) -> dict[str, Any]:
    return {
        "columns": [shape.as_dict() for shape in contents.shapes],
        "others": [column.as_dict() for column in contents.others],
        "rows": contents.rows.as_dict(),
        "correlations": _half(contents.correlations.values),
        "noise": [None if value == float("inf") else value for value in _half(contents.correlations.noise)],
        "questions": [question.as_dict() for question in contents.questions],
        "shares": [charge.share for charge in contents.spending],
        "answering": dict(contents.answering),
        "private": None if comparison is None else comparison.as_dict(),
    }


def _half(matrix: Any) -> list[float]:
    """Return what is below the diagonal of a symmetric matrix, row by row, to five digits."""
    return [float(f"{matrix[i, j]:.5g}") for i in range(len(matrix)) for j in range(i)]


def _asset(name: str) -> str:
    return (resources.files("smoothsynth.report") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
