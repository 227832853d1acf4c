"""The schemas on the page about schemas are schemas, and the one in Python is the one in TOML."""

import re
from pathlib import Path

import smoothsynth as ss

PAGE = (Path(__file__).parents[2] / "docs" / "schema.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_are_schemas():
    first, about, private, written, second = map(ss.Schema.parse, blocks("toml"))
    assert (written.file.delimiter, written.file.encoding) == (";", "cp1252")
    assert about.facts()["about"]["published"] == "2025-01-31"
    found = {}
    (code,) = blocks("python")
    exec(code, found)  # noqa: S102
    assert found["schema"] == first
    assert {column.kind for column in first.columns.values()} == {
        "number", "integer", "category", "boolean", "date", "datetime",
    }  # fmt: skip
    assert private.columns["cost"].upper == private.columns["ward"].levels == "private"
    unit = second.columns["income"].to_unit([0, 9_000, 21_000, 34_000, 52_000, 80_000, 10_000_000])
    assert [round(float(x), 6) for x in unit] == [round(-1 + i / 3, 6) for i in range(7)]
