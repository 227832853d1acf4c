"""Which room of src/smoothsynth imports which, and when: read from the sources, nothing is imported."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "smoothsynth"
LAYERS = ROOT / "tests" / "architecture" / "test_layers.py"


@dataclass(frozen=True, slots=True)
class House:
    """The layers from the lowest up, the size of each room, and the imports between rooms."""

    layers: tuple[tuple[str, ...], ...]
    modules: dict[str, int]
    lines: dict[str, int]
    at_once: frozenset[tuple[str, str]]  # (importing, imported), when a module is imported
    late: frozenset[tuple[str, str]]  # inside functions or for types, and nowhere at once

    @property
    def level(self) -> dict[str, int]:
        """The layer of each room."""
        return {room: level for level, rooms in enumerate(self.layers) for room in rooms}

    @property
    def upward(self) -> list[tuple[str, str]]:
        """Imports of a room that is not below."""
        return sorted(e for e in self.at_once | self.late if self.level[e[1]] >= self.level[e[0]])

    @property
    def downward(self) -> list[tuple[str, str]]:
        """Imports of a room below, without those that a chain of others implies."""
        edges = (self.at_once | self.late) - set(self.upward)
        below = {room: {b for a, b in edges if a == room} for room in self.level}

        @cache
        def reached(room: str) -> frozenset[str]:
            return frozenset(below[room]).union(*map(reached, below[room]))

        return sorted((a, b) for a, b in edges if not any(b in reached(c) for c in below[a]))


def read_house() -> House:
    """Read the layers from the test that holds them, all else from the sources."""
    layers = tuple(map(tuple, _layers()))
    rooms = {room for layer in layers for room in layer}
    modules, lines = dict.fromkeys(rooms, 0), dict.fromkeys(rooms, 0)
    found: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}
    for path in sorted(SOURCES.rglob("*.py")):
        room, source = _room(path), path.read_text(encoding="utf-8")
        if room in rooms:
            modules[room] += path.name != "__init__.py"
            lines[room] += len(source.splitlines())
            for late, other in _imports(ast.parse(source), late=False):
                found[late].add((room, other))
    at_once, late = ({e for e in found[kind] if e[0] != e[1] and e[1] in rooms} for kind in (False, True))
    return House(layers, modules, lines, frozenset(at_once), frozenset(late - at_once))


def _layers() -> list[list[str]]:
    for node in ast.parse(LAYERS.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAYERS":
            return ast.literal_eval(node.value)
    raise ValueError(f"{LAYERS} must assign LAYERS; it does not.")


def _room(path: Path) -> str:
    return path.relative_to(SOURCES).parts[0].removesuffix(".py")


def _imports(tree: ast.AST, *, late: bool):
    """Yield (late, room) of each import: late if in a function, or under `if TYPE_CHECKING`."""
    for node in (node for node in ast.iter_child_nodes(tree) if not isinstance(node, ast.expr)):
        inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        yield from ((late, room) for room in _rooms(node))
        yield from _imports(node, late=late or inside or types)


def _rooms(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "smoothsynth":
        parts = node.module.split(".")
        return [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[1] for alias in node.names if alias.name.startswith("smoothsynth.")]
    return []
