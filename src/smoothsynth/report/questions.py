"""Typical questions to a release, written as expressions that anyone can repeat, with their answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.answer.estimate import Estimate
from smoothsynth.answer.evaluate import exact
from smoothsynth.answer.language import Apply, Node, Number, parse
from smoothsynth.errors import SmoothsynthError
from smoothsynth.report.columns import Shape, own_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.pipeline.release import Release
    from smoothsynth.report.limits import Correlations

    _Asked = tuple[str, str, tuple[float, float]]

_MEANS = 3
_SHARE = (0.0, 1.0)
# Words of the language that a column may be called too.
_RESERVED = ("and", "or", "not", "between", "case", "when", "then", "else", "end")


@dataclass(frozen=True, slots=True)
class Question:
    """A question in words and as an expression, its answer on the synthetic rows and the interval around it.

    `reach` is what the answer could be at all, from the public bounds.
    """

    words: str
    expression: str
    value: float
    low: float
    high: float
    confidence: float
    reach: tuple[float, float]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for the page."""
        return {"value": self.value, "low": self.low, "high": self.high, "reach": list(self.reach)}


def questions(release: Release, shapes: Sequence[Shape], found: Correlations) -> tuple[Question, ...]:
    """Answer means, a kernel, a soft and a sharp threshold, and a conditional mean of the strongest pair."""
    asked = [_answered(release, *question) for question in _asked(release, shapes, found)]
    return tuple(question for question in asked if question is not None)


def _answered(release: Release, words: str, expression: str, reach: tuple[float, float]) -> Question | None:
    """Answer a question, or leave it out where numbers near the end of doubles have no answer."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            made = release.answer(expression)
    except SmoothsynthError:
        return None
    if not isinstance(made, Estimate):
        return None
    question = Question(words, expression, made.value, made.low, made.high, made.confidence, reach)
    return question if np.isfinite([made.value, made.low, made.high]).all() else None


def _asked(release: Release, shapes: Sequence[Shape], found: Correlations) -> Iterator[_Asked]:
    if not shapes:
        return
    for shape in shapes[:_MEANS]:
        yield f"The mean of {shape.name}", f"avg({quoted(shape.name)})", _bounds(shape)
    first = _Typical.of(release, shapes[0])
    yield (
        f"Rows near {first.name} = {first.middle}: the average of a kernel of width {first.width}",
        f"avg({first.kernel()})",
        _SHARE,
    )
    yield (
        f"The share of rows with {first.name} above {first.upper}, softly",
        f"avg(logistic(({_minus(first.quoted, first.upper)}) / {first.tenth}))",
        _SHARE,
    )
    yield (
        f"The share of rows with {first.name} above {first.upper}, exactly",
        f"avg({first.quoted} > {first.upper})",
        _SHARE,
    )
    if len(shapes) > 1:
        i, j = found.strongest(1)[0]
        given, other = _Typical.of(release, shapes[i]), quoted(shapes[j].name)
        yield (
            f"The mean of {shapes[j].name} where {given.name} is near {given.upper}",
            f"avg({other} * {given.kernel(given.upper)}) / avg({given.kernel(given.upper)})",
            _bounds(shapes[j]),
        )


def _bounds(shape: Shape) -> tuple[float, float]:
    return shape.column.bounds


def quoted(name: str) -> str:
    """Write a column's name as an expression has it: in double quotes unless it is a plain word."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name) and name.lower() not in _RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


def on_columns(question: Question) -> Callable[[Mapping[str, NDArray[np.float64]]], float]:
    """Return a question as a function of the columns of any table, by their names."""
    tree = parse(question.expression)
    return lambda table: float(exact(_with_averages(tree, table), {}))


def _with_averages(node: Node, table: Mapping[str, NDArray[np.float64]]) -> Node:
    """Put the averages over the rows of a table in their places."""
    if not isinstance(node, Apply):
        return node
    if node.name == "avg":
        return Number(float(np.mean(exact(node.arguments[0], table))))
    return Apply(node.name, tuple(_with_averages(argument, table) for argument in node.arguments))


@dataclass(frozen=True, slots=True)
class _Typical:
    """Round numbers that describe a column of the synthetic rows, as an expression writes them."""

    name: str
    quoted: str
    middle: str
    upper: str
    width: str
    tenth: str

    @classmethod
    def of(cls, release: Release, shape: Shape) -> _Typical:
        values, (lower, upper) = own_units(release, shape.name), shape.column.bounds
        half = upper / 2 - lower / 2
        middle, upper = np.quantile(values, [0.5, 0.75])
        width = max(float(np.std(values / half)) * half, 0.02 * half)
        return cls(
            shape.name, quoted(shape.name), f"{middle:.3g}", f"{upper:.3g}", f"{1.5 * width:.2g}", f"{width / 4:.2g}"
        )

    def kernel(self, centre: str | None = None) -> str:
        return f"exp(-power(({_minus(self.quoted, centre or self.middle)}) / {self.width}, 2))"


def _minus(column: str, number: str) -> str:
    return f"{column} - ({number})" if number.startswith("-") else f"{column} - {number}"
