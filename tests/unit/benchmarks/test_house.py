"""The picture of the imports in CONTRIBUTING is that of the present sources, and its reader sees what is there."""

import ast
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from benchmarks.figures import house, imports
from benchmarks.figures.layered import GAP, placed

SIZE = re.compile(r"([\d,]+) lines<")
SMALL = imports.House(
    layers=(("a",), ("b", "c"), ("d",)),
    modules=dict.fromkeys("abcd", 1),
    lines=dict.fromkeys("abcd", 100),
    at_once=frozenset({("b", "a"), ("c", "a"), ("d", "b"), ("d", "a")}),
    late=frozenset({("a", "d"), ("d", "c")}),
)


@pytest.fixture(scope="module")
def seen():
    return imports.read_house()


def lines_of(svg):
    return [int(number.replace(",", "")) for number in SIZE.findall(svg)]


def test_the_picture_is_that_of_the_present_sources(seen):
    """Rooms, layers, modules and arrows are the same; lines may have grown a little since it was drawn."""
    kept, now = house.OUTPUT.read_text(encoding="utf-8"), house.drawn(seen)
    again = "It is not that of the sources any more: `make house` draws it again."
    assert SIZE.sub("lines<", kept) == SIZE.sub("lines<", now), again
    assert lines_of(kept) == pytest.approx(lines_of(now), rel=0.15, abs=150), again
    assert len(lines_of(kept)) == len(seen.level)


def test_contributing_lists_every_room(seen):
    table = re.findall(r"(?m)^\| (`.+`) \| \S", (imports.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    listed = [re.sub(r"/$|\.py$", "", name) for cell in table for name in re.findall(r"`([^`]+)`", cell)]
    assert sorted(listed) == sorted(seen.level)


def test_an_import_more_or_less_changes_the_picture():
    fewer = replace(SMALL, at_once=SMALL.at_once - {("d", "b")})
    later = replace(SMALL, at_once=SMALL.at_once - {("d", "b")}, late=SMALL.late | {("d", "b")})
    assert len({house.drawn(one) for one in (SMALL, fewer, later)}) == 3


def test_imports_that_others_imply_are_left_out():
    assert SMALL.downward == [("b", "a"), ("c", "a"), ("d", "b"), ("d", "c")]
    assert SMALL.upward == [("a", "d")]
    svg = house.drawn(SMALL)
    assert svg.count("marker-end") == 5 + 3  # the legend has three
    assert svg.count("stroke-dasharray") == 2 + 2


def test_late_imports_are_told_apart():
    source = """
from smoothsynth.a import x
import smoothsynth.b.c
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from smoothsynth import c
class K:
    from smoothsynth.d import y
    def f(self):
        from smoothsynth.e import z
"""
    found = set(imports._imports(ast.parse(source), late=False))
    assert found == {(False, "a"), (False, "b"), (True, "c"), (False, "d"), (True, "e")}


def test_nothing_lies_on_a_room(seen):
    rows, paths = placed(seen.layers, [*seen.downward, *((b, a) for a, b in seen.upward)])
    for row in rows:
        for left, right in pairwise(row):
            assert right.x - left.x >= left.half + right.half + GAP - 1
    assert all(path[0].name and path[-1].name and not any(lane.name for lane in path[1:-1]) for path in paths)
