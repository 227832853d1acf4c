"""Tiers of nodes above the levels of a category: chapters and blocks of codes, regions of postcodes.

    levels           I21.0   I21.1   I25.1   J18.9
    second tier      I21     I21     I25     J18
    first tier       I       I       I       J

A column of many levels stands in the cube as the nodes of one tier, the finest with at most MOST_NODES of them. All else
(copula, tables, answers) sees these nodes; how the levels are spread within each is counted apart.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Places = NDArray[np.int32]
    # Lengths of prefixes, or for each tier the node of every level; the coarsest first.
    Parents = int | tuple[int, ...] | tuple[tuple[str, ...], ...] | Mapping[Any, Any]


# Levels that a category may have in the cube itself, one coordinate for each; and at all.
MOST_COORDINATES, MOST_LEVELS = 256, 100_000
# Nodes of a tier that are worth their coordinates, and tiers of parents.
MOST_NODES, MOST_TIERS = 48, 6
# Without parents, many levels are cut into so many runs of their declared order.
RUNS = 24


@dataclass(frozen=True, slots=True, eq=False)
class Hierarchy:
    """The nodes of each tier, the coarsest first and the levels last, and where each level lies in them.

    `cube` is the tier that stands for the column in the cube.
    """

    nodes: tuple[tuple[str, ...], ...]
    places: tuple[Places, ...]
    cube: int

    @property
    def finer(self) -> range:
        """The tiers below the one in the cube, the levels last."""
        return range(self.cube + 1, len(self.nodes))

    def above(self, tier: int, coarser: int) -> Places:
        """Return the node of a coarser tier in which each node of a tier lies."""
        found = np.empty(len(self.nodes[tier]), dtype=np.int32)
        found[self.places[tier]] = self.places[coarser]
        return found


def normal(levels: Sequence[str], parents: Any, other: str | None) -> Any:
    """Return parents as tuples: lengths of prefixes, or tiers with a node for every level; what is neither stays."""
    if isinstance(parents, int) and not isinstance(parents, bool):
        return (parents,)
    if isinstance(parents, Mapping) and _named(parents.values()):
        return _chained(levels, {str(child): str(parent) for child, parent in parents.items()}, other) or parents
    if isinstance(parents, (list, tuple)):
        return tuple(
            tuple(map(str, tier)) if isinstance(tier, (list, tuple)) and _named(tier) else tier for tier in parents
        )
    return parents


def _named(nodes: Iterable[object]) -> bool:
    """Whether all nodes have a name: a missing cell of a code book has none."""
    return all(isinstance(node, (str, int, np.integer)) for node in nodes)


def hierarchy_of(levels: Sequence[str], parents: Any) -> Hierarchy | None:
    """Return the tiers above levels, from parents that were checked; None where all levels fit into the cube."""
    if len(levels) <= (MOST_COORDINATES if parents is None else MOST_NODES):
        return None
    tiers = [_placed(tier) for tier in (*_tiers(levels, parents), levels)]
    # A tier with no more nodes than the one above it tells nothing.
    kept = [t for number, t in enumerate(tiers) if not number or len(t[0]) > len(tiers[number - 1][0])]
    fitting = [number for number, (nodes, _) in enumerate(kept) if len(nodes) <= MOST_NODES]
    return Hierarchy(tuple(t[0] for t in kept), tuple(t[1] for t in kept), max(fitting, default=0))


def parents_problem(levels: Sequence[str], parents: Any) -> str | None:
    """Say what is wrong with the parents of levels, in words, or None."""
    if parents is None:
        return None
    return _name_problem(parents) or _form_problem(levels, parents) or _nesting_problem(levels, parents)


def _name_problem(parents: Any) -> str | None:
    tiers = [parents.values()] if isinstance(parents, Mapping) else parents if isinstance(parents, tuple) else []
    nameless = any(isinstance(tier, Iterable) and not _named(tier) for tier in tiers)
    return "parents must be texts or whole numbers; one is missing, or something else" if nameless else None


def _form_problem(levels: Sequence[str], parents: Any) -> str | None:
    if isinstance(parents, Mapping):
        return f"parents must name a parent for each level, in at most {MOST_TIERS} steps and without a circle"
    if not isinstance(parents, tuple) or not 1 <= len(parents) <= MOST_TIERS:
        return (
            f"parents must be lengths of prefixes such as [1, 3], or parents of each level in 1 to {MOST_TIERS} tiers"
        )
    if all(type(length) is int for length in parents):
        rising = parents[0] >= 1 and list(parents) == sorted(set(parents))
        return None if rising else "lengths of prefixes must be whole numbers of at least 1 that rise"
    if not all(isinstance(tier, tuple) and len(tier) == len(levels) for tier in parents):
        return "parents must have one node for each level in every tier"
    return (
        None if all(node.strip() for tier in parents for node in tier) else "parents must be texts that are not empty"
    )


def _nesting_problem(levels: Sequence[str], parents: Any) -> str | None:
    tiers = [_placed(tier) for tier in (*_tiers(levels, parents), levels)]
    for (_, coarse), (nodes, fine) in itertools.pairwise(tiers):
        if len(np.unique(fine.astype(np.int64) * len(levels) + coarse)) > len(nodes):
            return "each node must lie in one node of the tier above, the coarsest tier first"
    count = len(tiers[0][0])
    if count < 2:
        return "the first tier of parents must have at least two nodes"
    if count > MOST_COORDINATES:
        return f"the first tier of parents has {count:,} nodes and may have {MOST_COORDINATES}; add a coarser tier above it"
    return None


def _tiers(levels: Sequence[str], parents: Any) -> list[Sequence[str]]:
    """Return the node of every level in each tier, the coarsest first."""
    if parents is None:
        runs = np.array_split(np.arange(len(levels)), RUNS)
        return [[name for run in runs for name in [f"{levels[run[0]]} to {levels[run[-1]]}"] * len(run)]]
    return [[level[:tier].rstrip() for level in levels] if isinstance(tier, int) else tier for tier in parents]


def _placed(tier: Sequence[str]) -> tuple[tuple[str, ...], Places]:
    """Return the nodes of a tier in the order of the levels, and the place of each level among them."""
    known: dict[str, int] = {}
    places = [known.setdefault(node, len(known)) for node in tier]
    return tuple(known), np.array(places, dtype=np.int32)


def _chained(levels: Sequence[str], parents: dict[str, str], other: str | None) -> tuple[tuple[str, ...], ...] | None:
    """Return tiers from the parent of each level and node; a short chain ends in the level itself. None if one fails."""
    chains = []
    for level in levels:
        chain: list[str] = []
        node = level
        while node in parents and len(chain) <= MOST_TIERS:
            node = parents[node]
            chain.append(node)
        if len(chain) > MOST_TIERS or not (chain or level == other):
            return None
        chains.append(chain[::-1])
    depth = max(map(len, chains))
    return tuple(
        tuple(chain[tier] if tier < len(chain) else level for chain, level in zip(chains, levels, strict=True))
        for tier in range(depth)
    )


def with_level_files(document: Any, folder: Path) -> Any:
    """Return the plain values of a schema file with levels and parents in place of the files that it names for them.

    levels_file = "codes.csv" is a table with a column `level` and, if there are tiers, its parent, the parent of that and so
    on; the names of the other columns do not matter. What is returned, and so a receipt, names no file.
    """
    columns = document.get("columns") if isinstance(document, dict) else None
    if not isinstance(columns, dict):
        return document
    named = {n: facts for n, facts in columns.items() if isinstance(facts, dict) and "levels_file" in facts}
    return {**document, "columns": {**columns, **{n: _with_file(n, facts, folder) for n, facts in named.items()}}}


def _with_file(name: str, facts: dict[str, Any], folder: Path) -> dict[str, Any]:
    path, given = facts["levels_file"], [key for key in ("levels", "parents") if key in facts]
    if not isinstance(path, str):
        raise SchemaError(f"Column {name!r}: levels_file must be the name of a CSV file, beside the schema file.")
    rows = _rows(name, folder / path)
    if "levels" in given or ("parents" in given and len(rows[0]) > 1):
        raise SchemaError(f"Column {name!r}: {given[0]} must stand in the schema or in {path}, not in both.")
    levels, *tiers = ([row[place] for row in rows[1:]] for place in range(len(rows[0])))
    rest = {key: value for key, value in facts.items() if key != "levels_file"}
    # The coarsest tier comes first.
    return {**rest, "levels": levels, **({"parents": tiers[::-1]} if tiers else {})}


def _rows(name: str, path: Path) -> list[list[str]]:
    """Return the lines of a CSV file of levels, the header first, all with as many cells."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, ValueError, csv.Error) as error:
        why = getattr(error, "strerror", None) or "it is no CSV in UTF-8"
        raise SchemaError(f"Column {name!r}: the file of levels {path} cannot be read: {why}.") from None
    if not rows or rows[0][0].strip() != "level" or any(len(row) != len(rows[0]) for row in rows):
        raise SchemaError(
            f"Column {name!r}: {path} must have a header that begins with level, as in level,parent, and in every line as "
            "many cells."
        )
    return rows
