"""Category; intervals as one-hot levels.

Columns with a few known values: one coordinate for each level, 1 where the row has it.

Which of some public intervals a number lies in: one coordinate for each interval, as for the levels of a category.

Only for looking for bounds (smoothsynth.discovery): such a column is measured and never released.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth._display import shown_as_call
from smoothsynth.errors import arguments_in_words
from smoothsynth.schema import cells, hierarchy, reading, valued
from smoothsynth.schema.cells import MISSING, microseconds
from smoothsynth.schema.hierarchy import MOST_LEVELS, Hierarchy
from smoothsynth.schema.texts import level_key, level_text, moment_text, number_text
from smoothsynth.schema.valued import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray


Level = str | int


@arguments_in_words
@shown_as_call
@dataclass(frozen=True, slots=True)
class Category:
    """A column of public levels, texts or whole numbers; text is compared without white space around it.

    Texts of the same number or truth value name the same level: 1, 1.0, "1" and "01", or True and "TRUE". Where two levels
    are the same number, cells are compared as they are written, and a column of numbers is refused.
    `other` names the level at which values count that are no level. Without it they count nowhere, like a missing cell
    of a `nullable` category: all coordinates of the row are 0. With levels="private" a release finds the frequent values,
    at a cost that the plan shows, and all others count at `other`.

    `parents` group many levels in tiers (smoothsynth.schema.hierarchy): lengths of prefixes, [1, 3], or the parent of each
    level as a dictionary, in which parents may have parents. More than 256 levels without parents are grouped in runs of
    their order. Tables and answers see the nodes of one tier; levels are counted within each.
    """

    levels: Sequence[Level] | str = ()
    _: KW_ONLY
    other: Level | None = None
    nullable: bool = False
    parents: Any = None
    description: str | None = None
    null_values: Sequence[str | float] = ()
    # Made when first asked for: the tiers, and the category of their nodes.
    _tiers: Hierarchy | None = field(default=None, init=False, repr=False, compare=False)
    _cube: Category | None = field(default=None, init=False, repr=False, compare=False)

    kind = "category"

    def __post_init__(self) -> None:
        valued.tidy_options(self)
        if self.parents is not None:
            other = None if self.other is None else str(self.other).strip()
            object.__setattr__(self, "parents", hierarchy.normal(self.texts, self.parents, other))

    @property
    def hierarchy(self) -> Hierarchy | None:
        """The tiers above the levels; None where each level has a coordinate of its own."""
        return self.cube._tiers

    @property
    def cube(self) -> Category:
        """The category that stands for the column in the cube: itself, or the nodes of a tier above its levels."""
        if self._cube is not None:
            return self._cube
        tiers = None if isinstance(self.levels, str) else hierarchy.hierarchy_of(self.texts, self.parents)
        if tiers is None:
            # Itself is not kept: whoever goes through the fields of an object (Dask does) would not come to an end.
            return self
        found = Category(tiers.nodes[tiers.cube], nullable=self.nullable)
        object.__setattr__(found, "_tiers", tiers)
        object.__setattr__(self, "_cube", found)
        return found

    @property
    def dimensions(self) -> int:
        """The number of coordinates: one for each level or node; none while they are private."""
        return len(self.roles)

    @property
    def roles(self) -> tuple[str, ...]:
        """What each coordinate is."""
        return () if self.levels == valued.PRIVATE else ("level",) * len(self.cube.levels)

    @property
    def texts(self) -> tuple[str, ...]:
        """The levels as text, without white space around them."""
        known = [self.other] * (self.other is not None) if self.levels == valued.PRIVATE else self.levels
        return tuple(str(level).strip() for level in known)

    def problem(self) -> str | None:
        """Say what is wrong with the levels, in words, or None."""
        found = self._open_problem() if isinstance(self.levels, str) else self._levels_problem()
        return found or valued.shared_problem(self) or self._nulls_problem()

    def _nulls_problem(self) -> str | None:
        twice = reading.null_keys(self) & {level_key(text) for text in self.texts}
        return "a level cannot be one of null_values too: take it out of one of them" if twice else None

    def _levels_problem(self) -> str | None:
        if not isinstance(self.levels, tuple) or not 2 <= len(self.levels) <= MOST_LEVELS:
            return f"levels must be a list of 2 to {MOST_LEVELS:,} texts or whole numbers; write levels = [...]"
        if {type(level) for level in self.levels} not in ({str}, {int}):
            return "levels must be all texts or all whole numbers"
        if not all(map(_writable, self.levels)):
            return "levels must be text that is not empty and that UTF-8 can write, or whole numbers of 64 bits"
        if len(set(self.texts)) < len(self.levels):
            return "levels must differ, by more than white space around them"
        if self.other is not None and (type(self.other) is not type(self.levels[0]) or self.other not in self.levels):
            return f"other = {valued.shown(self.other)} must be one of the levels; add it to them"
        return hierarchy.parents_problem(self.texts, self.parents)

    def _open_problem(self) -> str | None:
        if self.levels != valued.PRIVATE:
            known = (
                f'a list of 2 to {MOST_LEVELS:,} texts or whole numbers, or "{valued.PRIVATE}" to be found and paid for'
            )
            return f"levels must be {known}, not {valued.shown(self.levels)}"
        if self.parents is not None:
            return "parents are for levels that are public: declare the levels, or leave out parents"
        if self.other is None or (isinstance(self.other, str) and _writable(self.other)):
            return None
        return f"other = {valued.shown(self.other)} must be a text, beside levels that are private"

    def facts(self) -> dict[str, Any]:
        """Return what a schema file says of this column."""
        levels = self.levels if isinstance(self.levels, str) else list(self.levels)
        found: dict[str, Any] = {"type": self.kind, "levels": levels}
        if self.parents is not None:
            found["parents"] = [list(tier) if isinstance(tier, tuple) else tier for tier in self.parents]
        if self.other is not None:
            found["other"] = self.other
        return {**found, **valued.shared_facts(self)}

    def codes(self, values: Any) -> NDArray[np.int16]:
        """Return the place of each cell among the levels in the cube, -1 for none."""
        found, tiers = self.level_codes(values), self.hierarchy
        if tiers is None:
            return found.astype(np.int16)
        # The place -1 is the last one.
        return np.append(tiers.places[tiers.cube], -1).astype(np.int16)[found]

    def level_codes(self, values: Any) -> NDArray[np.int32]:
        """Return the place of each cell among all levels, -1 for none."""
        texts, places = _distinct(values)
        other = -1 if self.other is None else self.levels.index(self.other)
        absent = -1 if self.nullable else other
        known = _known(self.texts)
        found = [known.place(text, other=other, absent=absent) for text in texts]
        return np.array([*found, absent], dtype=np.int32)[places]

    def readable_from(self, *, doubles: bool) -> bool:
        """Whether a column of numbers, or of doubles, can tell the levels apart."""
        known = _known(self.texts)
        return len(known.keys) == len(self.texts) and not (doubles and any(map(_beyond_doubles, known.keys)))

    def pick(self, points: NDArray[np.float64]) -> NDArray[np.int16]:
        """Return the level with the largest coordinate; of a nullable category -1 if none is at least 1/2."""
        found = points.argmax(axis=1).astype(np.int16)
        if self.nullable:
            found[points.max(axis=1) < 0.5] = -1
        return found

    def at(self, codes: NDArray[np.int16]) -> NDArray[np.float64]:
        """Return the coordinates of rows with these places among the levels in the cube."""
        return (codes[:, None] == np.arange(self.dimensions, dtype=np.int16)).astype(np.float64)

    def of(self, codes: NDArray[np.integer[Any]]) -> pa.Array:
        """Return an Arrow array of the levels at these places among all of them, null at -1."""
        import pyarrow as pa

        indices = pa.array(codes, mask=codes < 0)
        return pa.DictionaryArray.from_arrays(
            indices, pa.array(list(self.levels), self.arrow_type())
        ).dictionary_decode()

    def arrow_type(self) -> pa.DataType:
        """Return the type of the column in a release."""
        import pyarrow as pa

        return pa.string() if isinstance(self.levels[0], str) else pa.int64()


@dataclass(frozen=True, slots=True)
class AllLevels:
    """A category of which cells are read as places among all levels, whatever stands for it in the cube."""

    category: Category

    kind = "category"

    def codes(self, values: Any) -> NDArray[np.int32]:
        """Return the place of each cell among all levels, -1 for none."""
        return self.category.level_codes(values)


@dataclass(frozen=True, slots=True)
class _Known:
    """The places of levels by their texts, and by the keys that only one of them has."""

    texts: dict[str, int]
    keys: dict[str | None, int]

    def place(self, text: str | None, *, other: int, absent: int) -> int:
        """Return the place of a cell: by its text, or else by the number or truth value that it is."""
        if not text:
            return absent
        if text in self.texts:
            return self.texts[text]
        key = level_key(text)
        return absent if key is None else self.keys.get(key, other)


@functools.lru_cache(maxsize=256)
def _known(texts: tuple[str, ...]) -> _Known:
    keys = [level_key(text) for text in texts]
    times = Counter(keys)
    alone = {key: place for place, key in enumerate(keys) if times[key] == 1}
    return _Known({text: place for place, text in enumerate(texts)}, alone)


def _beyond_doubles(key: str | None) -> bool:
    """Whether this is a whole number that doubles do not tell from its neighbours."""
    return key is not None and key.lstrip("-").isdecimal() and abs(int(key)) > 2**53


def labelled(values: Any) -> tuple[list[str | None], NDArray[np.int64]]:
    """Return cells as the levels that they name, and the place of every cell among these, -1 for a missing one."""
    texts, places = _distinct(values)
    return [level_text(text) for text in texts], places


def _distinct(values: Any) -> tuple[list[str | None], NDArray[np.int64]]:
    """Return distinct cells as text, each looked at once, and the place of every cell among them, -1 for a missing one."""
    from pyarrow import compute

    array = cells.arrow_of(values)
    encoded = array if hasattr(array, "dictionary") else compute.dictionary_encode(array)
    return _texts(encoded.dictionary), cells.places(encoded)


def _writable(level: Level) -> bool:
    if isinstance(level, int):
        return -(2**63) <= level < 2**63
    return bool(level.strip()) and not any("\ud800" <= letter <= "\udfff" for letter in level)


def _when(when: int, type_: pa.DataType) -> str:
    from pyarrow import types

    text = moment_text(when)
    return text.partition("T")[0] if types.is_date(type_) else text


def _texts(values: pa.Array) -> list[str | None]:
    """Return values of any type as text: whole numbers without a point, truth in small letters."""
    import pyarrow as pa
    from pyarrow import compute, types

    if types.is_floating(values.type):
        return [number_text(number) for number in cells.doubles(values).tolist()]
    if types.is_decimal(values.type):
        return [text and level_key(text) for text in compute.cast(values, pa.string()).to_pylist()]
    if types.is_temporal(values.type):
        return [None if when == MISSING else _when(when, values.type) for when in microseconds(values).tolist()]
    if cells.is_text(values.type):
        values = cells.trimmed(compute.cast(values, pa.string()))
    return compute.cast(values, pa.string()).to_pylist()


@dataclass(frozen=True, slots=True)
class Intervals:
    """The intervals (-inf, e_0), [e_0, e_1), ..., [e_m, inf) of a column of some kind; a missing cell lies in none."""

    edges: tuple[float, ...]
    kind: str
    # The column whose cells they are, which says how those are read.
    column: object = None

    nullable = True

    @property
    def dimensions(self) -> int:
        """The number of coordinates: one for each interval."""
        return len(self.edges) + 1

    @property
    def roles(self) -> tuple[str, ...]:
        """What each coordinate is."""
        return ("level",) * self.dimensions

    def problem(self) -> str | None:
        """Say what is wrong with the edges, in words, or None."""
        rising = all(low < high for low, high in zip(self.edges, self.edges[1:], strict=False))
        return None if self.edges and rising else "the edges of intervals must rise"

    def facts(self) -> dict[str, Any]:
        """Return plain values."""
        return {"type": "intervals", "kind": self.kind, "edges": list(self.edges)}

    def codes(self, values: Any) -> NDArray[np.int16]:
        """Return the place of each cell among the intervals, -1 for a missing one."""
        numbers = plain(values, self.kind)
        places = np.searchsorted(np.array(self.edges), numbers, side="right").astype(np.int16)
        places[np.isnan(numbers)] = -1
        return places
