"""The answer to a question: parse, look at how smooth it is, and put an interval around it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.answer.bounded import bounded
from smoothsynth.answer.estimate import Estimate
from smoothsynth.answer.evaluate import TRUTHS, bounds, check_meaning, combine, exact, has_jumps, scales_of
from smoothsynth.answer.expression import Apply, Column, Node, averages_of, columns_of, parse
from smoothsynth.answer.expression import Number as Value
from smoothsynth.answer.interval import frame_of, heavy_quantile, parts_of, quantile
from smoothsynth.answer.knowledge import knowledge_of
from smoothsynth.answer.smoothness import rough_column
from smoothsynth.errors import PlanError, SchemaError
from smoothsynth.schema import Boolean, Integer, Number, unknown_column
from smoothsynth.schema.value import from_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.answer.knowledge import Knowledge
    from smoothsynth.release import Release
    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]
    Function = Callable[[Mapping[str, Array]], Any]

MOST_COLUMNS = 20
# Widths of the steps of envelopes, in standard deviations of what is compared.
STEPS = (0.1, 0.2, 0.4, 0.7, 1.2, 2.0)
# An interval of more than this share of what is possible says nothing.
MOST_OF_ALL = 0.8
VACUOUS = "The release cannot tell: the interval is nearly all that is possible."


def answer(
    release: Release, question: Function | str, *, columns: Sequence[str] | None = None, confidence: float = 0.95
) -> Estimate:
    """Answer a question with the mean over the synthetic rows, and an interval for the private rows.

    `question` is a function of a mapping from column names to arrays in their own units, with the `columns` that it
    uses; or a text such as "avg(exp(-power((age-50)/10, 2)))" (docs/answers.md has the language).
    """
    check_confidence(confidence)
    if isinstance(question, str):
        return answer_text(release, question, confidence=confidence)
    if not callable(question):
        raise PlanError("A question must be a text such as avg(age), or a function of the columns.")
    if not columns or isinstance(columns, str):
        raise PlanError('Name the columns that the function uses, as in columns=["age"].')
    asked = Asked.of(release, columns)
    return asked.smooth(question, confidence=confidence)


def answer_text(release: Release, text: str, *, confidence: float = 0.95) -> Estimate:
    """Answer a question that is written as text."""
    tree = parse(text)
    for name in columns_of(tree):
        if name not in release.schema.columns:
            raise SchemaError(unknown_column(name, release.schema.names))
    check_meaning(tree)
    averages = averages_of(tree)
    if not averages or _outside(tree):
        raise PlanError("A question is about averages: put every column inside avg(...), as in avg(age).")
    if tree == averages[0]:
        return _average(release, averages[0].arguments[0], confidence=confidence)
    if any(has_jumps(one) for one in averages) or has_jumps(_with(tree, dict.fromkeys(averages, 0.0))):
        return _combined(release, tree, averages, confidence=confidence)
    return _linearised(release, tree, averages, confidence=confidence)


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Some columns of a release, ready for functions of them."""

    knowledge: Knowledge
    names: tuple[str, ...]
    columns: tuple[int, ...]

    @classmethod
    def of(cls, release: Release, names: Sequence[str]) -> Asked:
        """Look the columns up, in the order of the schema."""
        if any(not isinstance(name, str) for name in names):
            raise PlanError("Columns are named by texts.")
        places = {name: numeric_coordinate(release.schema, name) for name in names}
        if len(places) > MOST_COLUMNS:
            raise PlanError(f"A question may use {MOST_COLUMNS} columns; this one uses {len(places)}.")
        ordered = sorted(places, key=lambda name: places[name])
        return cls(knowledge_of(release), tuple(ordered), tuple(places[name] for name in ordered))

    def smooth(self, function: Function, *, confidence: float) -> Estimate:
        """Answer a smooth function, or say that it is not smooth."""
        rough = rough_column(lambda points: self.at(function, points), self.knowledge.rows, self.columns)
        if rough is not None:
            name = self.knowledge.release.schema.coordinates[rough]
            raise PlanError(
                f"The question is not smooth in {name!r}: it jumps, or it changes within less than a fiftieth of the "
                f'range. Ask counts as text, such as "avg({_quoted(name)} >= 50)", and they are answered with envelopes.'
            )
        return self.interval(function, confidence=confidence)

    def interval(self, function: Function, *, confidence: float, rough: bool = False) -> Estimate:
        """Put the narrower of the estimated and the bounded interval around the mean of a function."""
        knowledge = self.knowledge
        value = float(self.on_rows(function).mean())
        parts = parts_of(
            frame_of(knowledge, self.columns),
            self.at(function, knowledge.rows),
            synthetic_rows=len(knowledge.points),
            rough=rough,
        )
        q, heavy = quantile(confidence), noise_quantile(knowledge, confidence)
        noise, unseen, sampling = heavy * parts.noise, q * parts.unseen, q * parts.sampling
        half = math.hypot(noise, unseen, sampling)
        low, high, fit, how = value + parts.fit - half, value + parts.fit + half, parts.fit, "estimated"
        if len(self.columns) == 1:
            sure = bounded(knowledge, self.columns[0], lambda x: self._along(function, x), confidence=confidence)
            if sure.noise + sure.unseen <= half:
                half, fit = sure.noise + sure.unseen, sure.centre - value
                low, high, how = sure.centre - half, sure.centre + half, "bounded"
                noise, unseen, sampling = sure.noise, sure.unseen, 0.0
        return Estimate(
            value, min(low, value), max(high, value), confidence, noise, fit, unseen, sampling, unseen_is=how
        )

    def on_rows(self, function: Function) -> Array:
        """Return a function at the synthetic rows."""
        return checked(function(self.columns_of_rows()), self.knowledge.release.table.num_rows)

    def columns_of_rows(self) -> dict[str, Array]:
        """Return the synthetic columns in their own units."""
        table = self.knowledge.release.table
        return {name: table[name].to_numpy(zero_copy_only=False).astype(np.float64) for name in self.names}

    def at(self, function: Function, points: Array) -> Array:
        """Return a function at points of the cube."""
        return checked(function(self.columns_at(points)), len(points))

    def columns_at(self, points: Array) -> dict[str, Array]:
        """Return points of the cube as columns in their own units."""
        known, columns = self.knowledge.release.schema.columns, zip(self.names, self.columns, strict=True)
        return {name: in_units(known[name], points[:, c]) for name, c in columns}

    def _along(self, function: Function, x: Array) -> Array:
        column = self.knowledge.release.schema.columns[self.names[0]]
        return checked(function({self.names[0]: in_units(column, x)}), len(x))


def numeric_coordinate(schema: Schema, name: str) -> int:
    """Return the coordinate of a column of numbers without missing cells; refuse others."""
    place, column = schema.coordinates_of(name).start, schema.columns[name]
    if not isinstance(column, (Number, Integer, Boolean)) or column.nullable:
        what = "may have missing cells" if isinstance(column, (Number, Integer, Boolean)) else f"is a {column.kind}"
        raise PlanError(f"Questions are about columns of numbers without missing cells; {name!r} {what}.")
    return int(place)


def in_units(column: Any, unit: Array) -> Array:
    """Return a coordinate in the column's own units, whole numbers not rounded: a line through them stays smooth."""
    return np.asarray(from_unit(unit, column), dtype=np.float64)


def noise_quantile(knowledge: Knowledge, confidence: float) -> float:
    """Return how many deviations noise stays within: that of Laplace noise where some of the release has it."""
    gaussian = all(noisy.measurement.mechanism == "discrete gaussian" for noisy in knowledge.release.moments)
    return quantile(confidence) if gaussian else heavy_quantile(confidence)


def check_confidence(confidence: object) -> None:
    """Refuse what is not a probability that can be kept."""
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0.0 < confidence < 1.0:
        raise PlanError("A confidence must be a number between 0 and 1, such as 0.95.")


def between(
    asked: Asked, tree: Node, *, confidence: float, steps: Sequence[float] = STEPS, truth: bool = False
) -> Estimate:
    """Answer an expression with jumps between two smooth ones, with steps that make the interval narrowest."""
    # Test rows are blurred by what is uncertain: a step that is narrower than that would only seem to be seen.
    scales = scales_of(tree, asked.columns_at(asked.knowledge.rows))
    found = [_envelope(asked, tree, scales=scales, width=width, confidence=confidence) for width in steps]
    best = min(found, key=lambda one: one.half_width)
    values = asked.on_rows(lambda table: exact(tree, table))
    low, high = best.low, best.high
    if truth:
        # A share is a number of private rows: it is rounded outwards to one.
        rows = asked.knowledge.release.receipt.rows
        low, high = max(math.floor(low * rows) / rows, 0.0), min(math.ceil(high * rows) / rows, 1.0)
    value = float(values.mean())
    reach = 1.0 if truth else float(np.ptp(values))
    note = VACUOUS if high - low > MOST_OF_ALL * reach > 0.0 else ""
    return replace(best, value=value, low=min(low, value), high=max(high, value), note=note)


def _envelope(asked: Asked, tree: Node, *, scales: Mapping[Node, float], width: float, confidence: float) -> Estimate:
    ends = []
    for side in (0, 1):

        def one_side(table: Mapping[str, Array], side: int = side) -> Array:
            return bounds(tree, table, scales=scales, width=width)[side]

        ends.append(asked.interval(one_side, confidence=confidence, rough=True))
    below, above = ends
    return Estimate(
        value=(below.value + above.value) / 2.0,
        low=below.low,
        high=above.high,
        confidence=confidence,
        noise=max(below.noise, above.noise),
        fit=(below.fit + above.fit) / 2.0,
        unseen=max(below.unseen, above.unseen) + (above.value - below.value) / 2.0,
        sampling=max(below.sampling, above.sampling),
        unseen_is="bounded" if {below.unseen_is, above.unseen_is} == {"bounded"} else "estimated",
        kind="envelopes",
    )


def _average(release: Release, inner: Node, *, confidence: float) -> Estimate:
    asked = Asked.of(release, columns_of(inner) or release.schema.names[:1])
    if not has_jumps(inner):
        return asked.smooth(lambda table: exact(inner, table), confidence=confidence)
    return between(asked, inner, confidence=confidence, truth=_is_truth(inner))


def _linearised(release: Release, tree: Node, averages: tuple[Apply, ...], *, confidence: float) -> Estimate:
    """Answer arithmetic on averages by its linear part:  g(v) with the interval of  sum_j dg/dv_j f_j."""
    asked = Asked.of(release, columns_of(tree))
    inner = [one.arguments[0] for one in averages]
    rows = asked.columns_of_rows()
    values = [float(np.mean(checked(exact(f, rows), release.table.num_rows))) for f in inner]
    value = _outer(tree, averages, values)
    slopes = []
    for j, one in enumerate(values):
        step = 1e-6 * (1.0 + abs(one))
        ends = [_outer(tree, averages, [*values[:j], one + s * step, *values[j + 1 :]]) for s in (-1.0, 1.0)]
        slopes.append((ends[1] - ends[0]) / (2.0 * step))

    def linear(table: Mapping[str, Array]) -> Array:
        return sum((s * exact(f, table) for s, f in zip(slopes, inner, strict=True)), np.zeros(()))

    return shifted(asked.smooth(linear, confidence=confidence), value)


def shifted(found: Estimate, value: float) -> Estimate:
    """Move the estimate of a linear part to the value of the statistic that it stands for."""
    move = value - found.value
    return replace(
        found, value=value, low=found.low + move, high=found.high + move, unseen_is="estimated", kind="linearised"
    )


def _combined(release: Release, tree: Node, averages: tuple[Apply, ...], *, confidence: float) -> Estimate:
    """Answer arithmetic on averages with jumps: each with its share of the doubt, then interval arithmetic."""
    share = 1.0 - (1.0 - confidence) / len(averages)
    found = {one: _average(release, one.arguments[0], confidence=share) for one in averages}
    low, high = (float(end) for end in _interval_of(tree, found))
    value = _outer(tree, averages, [found[one].value for one in averages])
    if not (math.isfinite(low) and math.isfinite(high)):
        raise PlanError("The interval of this arithmetic has no bounds. Ask for its averages one by one.")
    sizes = {part: max(getattr(one, part) for one in found.values()) for part in ("noise", "unseen", "sampling")}
    return Estimate(
        value, min(low, value), max(high, value), confidence, fit=0.0, unseen_is="estimated", kind="envelopes", **sizes
    )


def _interval_of(node: Node, found: Mapping[Apply, Estimate]) -> tuple[Array, Array]:
    if not isinstance(node, Apply):
        value = exact(node, {})
        return value, value
    if node in found:
        return np.asarray(found[node].low), np.asarray(found[node].high)
    with np.errstate(all="ignore"):
        return combine(node, [_interval_of(argument, found) for argument in node.arguments])


def _outer(tree: Node, averages: tuple[Apply, ...], values: Sequence[float]) -> float:
    value = float(exact(_with(tree, dict(zip(averages, values, strict=True))), {}))
    if not math.isfinite(value):
        raise PlanError("The answer is not a finite number on the synthetic rows: look at divisions and roots.")
    return value


def _with(node: Node, values: Mapping[Apply, float]) -> Node:
    """Return the tree with numbers in the place of averages."""
    if not isinstance(node, Apply):
        return node
    if node in values:
        return Value(values[node])
    return Apply(node.name, tuple(_with(argument, values) for argument in node.arguments))


def _outside(node: Node) -> bool:
    """Whether a column stands outside of every average."""
    if isinstance(node, Apply):
        return node.name != "avg" and any(_outside(argument) for argument in node.arguments)
    return isinstance(node, Column)


def _is_truth(node: Node) -> bool:
    return isinstance(node, Apply) and node.name in TRUTHS


def checked(values: Any, count: int) -> Array:
    """Refuse values of a function that are not one finite number for every row."""
    found = np.asarray(values)
    if found.dtype == np.bool_:
        raise PlanError(
            "The question is a condition, which jumps. Ask it as text, such as avg(age >= 50): then it is answered "
            "between two smooth ones."
        )
    if found.dtype.kind not in "iuf" or found.shape not in ((), (1,), (count,)):
        raise PlanError("A question must give one number for each row; this one gives something else.")
    if not np.all(np.isfinite(found)):
        raise PlanError(
            "A question must be a finite number wherever a row may be; look at divisions, logarithms and roots."
        )
    return np.broadcast_to(found.astype(np.float64), (count,))


def _quoted(name: str) -> str:
    return name if name.isidentifier() else '"' + name.replace('"', '""') + '"'
