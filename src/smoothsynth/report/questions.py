"""Typical questions to a release, written as expressions that anyone can repeat, with their answers; and the score.

The score is the share of some smooth questions whose 95 % interval is at most SCORE_HALF_WIDTH to each side. The questions
are functions from 0 to 1, by a fixed rule from the schema and the synthetic rows: kernels of one standard deviation at
the quartiles of each column of numbers, the most frequent levels of the others, and products of two of these.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.answer.columns import Used, only_missing, settle
from smoothsynth.answer.estimate import Estimate
from smoothsynth.answer.evaluate import exact
from smoothsynth.answer.language import Apply, Node, Number, columns_of, is_aggregate, parse, parts_of
from smoothsynth.errors import SmoothsynthError
from smoothsynth.report.charts import DAY, moment_text
from smoothsynth.report.columns import Levels, Shape, own_units
from smoothsynth.schema import Number as Real

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.pipeline.release import Release
    from smoothsynth.report.columns import Curve
    from smoothsynth.report.limits import Correlations
    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]
    _Asked = tuple[str, str, tuple[float, float]]

_MEANS = 3
_SHARE = (0.0, 1.0)
# Words of the language that a column may be called too.
_RESERVED = ("and", "or", "not", "between", "case", "when", "then", "else", "end")
# Questions whose answers the page holds ready.
_MOST_STORED = 32
# The score: so many columns and pairs of them, and the half width that counts as narrow.
_MOST_SINGLE, _MOST_PAIRS, SCORE_HALF_WIDTH = 10, 15, 0.02


@dataclass(frozen=True, slots=True)
class Question:
    """A question in words and as an expression, its answer on the synthetic rows and the interval around it.

    `reach` is what a line on the page spans: the shown range of a column, or all that the answer can be.
    """

    words: str
    expression: str
    answer: Estimate
    reach: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Score:
    """How many smooth questions were asked, and how many of their intervals are narrow."""

    questions: int
    narrow: int


def questions(release: Release, drawn: Sequence[Curve | Levels], found: Correlations) -> tuple[Question, ...]:
    """Answer means, a kernel, thresholds, shares, missing values, a median, group means and the strongest correlation."""
    asked = (_answered(release, *question) for question in _asked(release, drawn, found))
    return tuple(question for question in asked if question is not None)


def score(release: Release, drawn: Sequence[Curve | Levels]) -> Score:
    """Answer smooth questions on one column and on two, and count the narrow intervals."""
    single = [_smooth(release, one) for one in drawn[:_MOST_SINGLE]]
    pairs = itertools.islice(
        itertools.combinations([texts[len(texts) // 2] for texts in single if texts], 2), _MOST_PAIRS
    )
    texts = [f"avg({one})" for own in single for one in own] + [f"avg(({a}) * ({b}))" for a, b in pairs]
    found = [made for made in (_estimate(release, text) for text in texts) if made is not None]
    return Score(len(found), sum(made.half_width <= SCORE_HALF_WIDTH for made in found))


def stored(release: Release, drawn: Sequence[Curve | Levels]) -> tuple[Question, ...]:
    """Answer what the page's script cannot: levels, missing values, columns that have them, and means in groups."""
    asked = (_answered(release, *question) for question in itertools.islice(_beyond(release, drawn), _MOST_STORED))
    return tuple(question for question in asked if question is not None)


def _beyond(release: Release, drawn: Sequence[Curve | Levels]) -> Iterator[_Asked]:
    levels = [one for one in drawn if isinstance(one, Levels)]
    conditions = [(one.name, text, _level(release, one.name, text)) for one in levels for text in one.shares]
    curves = [one for one in drawn if not isinstance(one, Levels)]
    for name, text, condition in conditions:
        yield f"Share of {name} = {text}", f"avg({condition})", _SHARE
    for column in drawn:
        name = quoted(column.name)
        if column.missing is not None:
            yield f"Share of rows without {column.name}", f"avg({name} is null)", _SHARE
        if column.missing is not None and not isinstance(column, Levels):
            yield f"Mean of {column.name}", f"avg({name})", column.shape.ends
    for column in curves:
        for name, text, condition in conditions:
            words = f"Mean of {column.name} where {name} = {text}"
            yield words, f"avg({quoted(column.name)} where {condition})", column.shape.ends


def _smooth(release: Release, column: Curve | Levels) -> list[str]:
    """Return functions of one column from 0 to 1, as texts."""
    if isinstance(column, Levels):
        return [_level(release, column.name, text) for text in list(column.shares)[:3]]
    typical = _Typical.of(release, column.shape)
    return [typical.kernel(centre) for centre in (typical.lower, typical.middle, typical.upper)]


def _estimate(release: Release, expression: str) -> Estimate | None:
    """Answer a question, or leave it out where numbers near the end of doubles have no answer."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            made = release.answer(expression)
    except SmoothsynthError:
        return None
    fine = isinstance(made, Estimate) and bool(np.isfinite([made.value, made.low, made.high]).all())
    return made if fine and isinstance(made, Estimate) else None


def _answered(release: Release, words: str, expression: str, reach: tuple[float, float]) -> Question | None:
    made = _estimate(release, expression)
    return None if made is None else Question(words, expression, made, reach)


def _asked(release: Release, drawn: Sequence[Curve | Levels], found: Correlations) -> Iterator[_Asked]:
    curves, levels = [c.shape for c in drawn if not isinstance(c, Levels)], [c for c in drawn if isinstance(c, Levels)]
    for shape in curves[:_MEANS]:
        yield f"The mean of {shape.name}", f"avg({quoted(shape.name)})", shape.ends
    if curves:
        yield from _of_number(_Typical.of(release, curves[0]), curves[0])
    for column in [one for one in levels if one.shares][:_MEANS]:
        text = next(iter(column.shares))
        yield f"The share of {column.name} = {text}", f"avg({_level(release, column.name, text)})", _SHARE
    nullable = [one for one in drawn if one.missing is not None]
    for one in nullable[:1]:
        yield f"The share of rows without {one.name}", f"avg({quoted(one.name)} is null)", _SHARE
    dates = [shape for shape in curves if shape.column.kind in ("date", "datetime")]
    for shape in dates[:1]:
        day = _Typical.of(release, shape).middle
        yield f"The share of rows with {shape.name} before {day}", f"avg({quoted(shape.name)} < '{day}')", _SHARE
    if curves and levels and levels[0].shares:
        name, (text, *_) = levels[0].name, levels[0].shares
        yield (
            f"The mean of {curves[0].name} where {name} = {text}",
            f"avg({quoted(curves[0].name)} where {_level(release, name, text)})",
            curves[0].ends,
        )
    yield from _of_pair(release, drawn, found)


def _of_number(first: _Typical, shape: Shape) -> Iterator[_Asked]:
    yield f"The median of {first.name}", f"median({first.quoted})", shape.ends
    yield (
        f"Rows near {first.name} = {first.middle}: the average of a kernel of width {first.width}",
        f"avg({first.kernel(first.middle)})",
        _SHARE,
    )
    yield (
        f"The share of rows with {first.name} above {first.upper}, exactly",
        f"avg({first.quoted} > {first.written(first.upper)})",
        _SHARE,
    )


def _of_pair(release: Release, drawn: Sequence[Curve | Levels], found: Correlations) -> Iterator[_Asked]:
    if len(drawn) < 2:
        return
    i, j = found.strongest(1)[0]
    owners, texts = release.schema.owners, []
    for column, coordinate in ((drawn[i], int(found.levels[i, j])), (drawn[j], int(found.levels[j, i]))):
        name = owners[coordinate][0]
        if isinstance(column, Levels) and coordinate in range(*_span(release.schema, name)):
            place = coordinate - _span(release.schema, name)[0]
            texts.append(_level(release, name, _texts(release.schema, name)[place]))
        else:
            texts.append(quoted(name))
    words = f"The correlation of {' and '.join(texts)}, the strongest on this page"
    yield words, f"corr({', '.join(texts)})", (-1.0, 1.0)


def _span(schema: Schema, name: str) -> tuple[int, int]:
    place = schema.coordinates_of(name)
    return int(place.start), int(place.stop)


def _texts(schema: Schema, name: str) -> Sequence[str]:
    """Return the levels of a category in the order of its coordinates; a truth value has one coordinate."""
    cube = getattr(schema.columns[name], "cube", None)
    return ("true",) if cube is None else tuple(cube.texts)


def _level(release: Release, name: str, text: str) -> str:
    """Write that a column has a level."""
    if release.schema.columns[name].kind == "boolean":
        return f"{quoted(name)} = {text}"
    return quoted(name) + " = '" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """Write a column's name as an expression has it: in double quotes unless it is a plain word."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name) and name.lower() not in _RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


def on_points(question: Question, schema: Schema) -> Callable[[Array], float]:
    """Return a question as a function of the rows of any table, given as points of the cube."""
    tree = settle(parse(question.expression), schema)
    return lambda points: float(exact(_with_numbers(tree, schema, points), {}))


def _with_numbers(node: Node, schema: Schema, points: Array) -> Node:
    """Put aggregates over some rows in their places."""
    if not isinstance(node, Apply):
        return node
    if is_aggregate(node):
        return Number(_aggregate(node, schema, points))
    return Apply(node.name, tuple(_with_numbers(argument, schema, points) for argument in node.arguments))


def _aggregate(one: Apply, schema: Schema, points: Array) -> float:
    used = Used.of(schema, columns_of(one), only_missing=only_missing(one), coded=True)
    table, (arguments, condition) = used.at(points), parts_of(one)
    for name in used.names:
        if not isinstance(schema.columns[name], Real):
            table[name] = np.rint(table[name])
    counted = used.included(points) > 0.5
    if condition is not None:
        counted = counted & (np.broadcast_to(exact(condition, table), counted.shape) > 0.5)
    values = [np.broadcast_to(exact(argument, table), counted.shape)[counted] for argument in arguments]
    if one.name == "corr":
        # A constant goes together with nothing.
        varied = all(len(one) and np.ptp(one) > 0 for one in values)
        return float(np.corrcoef(values[0], values[1])[0, 1]) if varied else 0.0
    return float(np.quantile(values[0], values[1][0]) if one.name == "quantile" else np.mean(values[0]))


@dataclass(frozen=True, slots=True)
class _Typical:
    """Round numbers that describe a column of the synthetic rows, as an expression writes them."""

    name: str
    kind: str
    lower: str
    middle: str
    upper: str
    width: str

    @classmethod
    def of(cls, release: Release, shape: Shape) -> _Typical:
        """Take quartiles and the standard deviation of the rows that have a value."""
        values, (lower, upper) = own_values(release, shape.name), shape.column.bounds
        half = upper / 2 - lower / 2
        width = max(float(np.std(values / half)) * half, 0.02 * half) if len(values) else half
        quartiles = np.quantile(values, [0.25, 0.5, 0.75]) if len(values) else [lower, lower, upper]
        written = partial(_written, kind=shape.column.kind, width=width)
        first, middle, last = map(written, map(float, quartiles))
        return cls(shape.name, shape.column.kind, first, middle, last, f"{width:.3g}")

    @property
    def quoted(self) -> str:
        """The name as an expression has it."""
        return quoted(self.name)

    def written(self, value: str) -> str:
        """Write a value as a comparison has it."""
        return f"'{value}'" if self.kind in ("date", "datetime") else value

    def kernel(self, centre: str) -> str:
        """Write a kernel of one standard deviation around a centre."""
        value = f"({centre})" if centre.startswith("-") else self.written(centre)
        return f"exp(-power(({self.quoted} - {value}) / {self.width}, 2))"


def own_values(release: Release, name: str) -> Array:
    """Return the values of a column of the synthetic rows, without missing ones."""
    values = own_units(release, name)
    return values[~np.isnan(values)]


def _written(value: float, kind: str, width: float) -> str:
    """Write a value as finely as a column of this standard deviation needs it."""
    if kind not in ("date", "datetime"):
        return f"{value:.3g}"
    return moment_text(value, kind)[: 19 if kind == "datetime" and width < DAY else 10]
