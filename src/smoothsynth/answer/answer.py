"""The answer to a question: parse, look at how smooth it is, and put an interval around it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.answer.columns import settle
from smoothsynth.answer.estimate import Estimate
from smoothsynth.answer.evaluate import LARGEST, TRUTHS, bounds, check_meaning, combine, exact, has_jumps, scales_of
from smoothsynth.answer.language import Apply, Column, Node, averages_of, columns_of, parse
from smoothsynth.answer.language import Number as Value
from smoothsynth.answer.level_share import level_share
from smoothsynth.answer.query import (
    MOST_COLUMNS,
    MOST_COORDINATES,
    NUMBERS,
    Query,
    check_smooth,
    column_names,
    mean_interval,
)
from smoothsynth.errors import PlanError
from smoothsynth.schema import Category

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.pipeline.release import Release
    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]
    Function = Callable[[Mapping[str, Array]], Any]


# Widths of the steps of envelopes, in standard deviations of what is compared.
STEPS = (0.1, 0.2, 0.4, 0.7, 1.2, 2.0)
# An interval of more than this share of what is possible says nothing.
MOST_OF_ALL = 0.8
VACUOUS = "The release cannot tell: the interval is nearly all that is possible."


def answer(
    release: Release,
    question: Function | str,
    *,
    columns: Sequence[str] | None = None,
    confidence: float = 0.95,
    weighted: bool = False,
) -> Estimate:
    """Answer a question with the mean over the synthetic rows, and an interval for the private rows.

    `question` is a function of a mapping from column names to arrays in their own units, with the `columns` that it
    uses; or a text such as "avg(exp(-power((age-50)/10, 2)))" (docs/answers.md has the language). If `weighted`, every
    average is one of rows with the survey weights that the schema names.
    """
    check_confidence(confidence)
    if isinstance(question, str):
        return answer_text(release, question, confidence=confidence, weighted=weighted)
    if not callable(question):
        raise PlanError("A question must be a text such as avg(age), or a function of the columns.")
    if columns is None or isinstance(columns, str) or not column_names(columns):
        raise PlanError('Name the columns that the function uses, as in columns=["age"].')
    query = Query.of(release, columns, weighted=weighted)
    for name in query.names:
        if not isinstance(release.schema.columns[name], (*NUMBERS, Category)):
            kind = release.schema.columns[name].kind
            raise PlanError(f"{name!r} is a {kind}; questions are about numbers, truth values and categories so far.")
    return query.smooth(question, confidence=confidence)


def answer_text(release: Release, text: str, *, confidence: float = 0.95, weighted: bool = False) -> Estimate:
    """Answer a question that is written as text."""
    parsed = parse(text)
    counted = level_share(release, parsed, confidence=confidence)
    if counted is not None:
        return counted
    tree = settle(parsed, release.schema)
    check_meaning(tree)
    averages = averages_of(tree)
    if not averages or _outside(tree):
        raise PlanError("A question is about averages: put every column inside avg(...), as in avg(age).")
    if tree == averages[0]:
        return _average(release, averages[0].arguments[0], confidence=confidence, weighted=weighted)
    if any(has_jumps(one) for one in averages) or has_jumps(_with(tree, dict.fromkeys(averages, 0.0))):
        return _combined(release, tree, averages, confidence=confidence, weighted=weighted)
    return _linearised(release, tree, averages, confidence=confidence, weighted=weighted)


def check_confidence(confidence: object) -> None:
    """Refuse what is not a probability that can be kept."""
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0.0 < confidence < 1.0:
        raise PlanError("A confidence must be a number between 0 and 1, such as 0.95.")


def between(
    query: Query, tree: Node, *, confidence: float, steps: Sequence[float] = STEPS, truth: bool = False
) -> Estimate:
    """Answer an expression with jumps between two smooth ones, with steps that make the interval narrowest."""
    # Test rows are blurred by what is uncertain: a step that is narrower than that would only seem to be seen.
    scales = scales_of(tree, query.columns_at(query.evidence.rows))
    found = [_envelope(query, tree, scales=scales, width=width, confidence=confidence) for width in steps]
    best = min(found, key=lambda one: one.half_width)
    values = query.on_rows(lambda table: exact(tree, table))
    low, high = best.low, best.high
    if truth and query.partial:
        low, high = max(low, 0.0), min(high, 1.0)
    elif truth:
        # A share is a number of private rows: it is rounded outwards to one.
        rows = query.evidence.release.receipt.rows
        low, high = max(math.floor(low * rows) / rows, 0.0), min(math.ceil(high * rows) / rows, 1.0)
    value = query.average(values)
    reach = 1.0 if truth else float(np.ptp(values))
    note = VACUOUS if high - low > MOST_OF_ALL * reach > 0.0 else ""
    return replace(best, value=value, low=min(low, value), high=max(high, value), note=note)


def _envelope(query: Query, tree: Node, *, scales: Mapping[Node, float], width: float, confidence: float) -> Estimate:
    ends = []
    for side in (0, 1):

        def one_side(table: Mapping[str, Array], side: int = side) -> Array:
            return bounds(tree, table, scales=scales, width=width)[side]

        ends.append(query.interval(one_side, confidence=confidence, rough=True))
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


def _average(release: Release, tree: Node, *, confidence: float, weighted: bool) -> Estimate:
    query, inner = _asked_text(release, tree, weighted=weighted)
    if has_jumps(inner):
        return between(query, inner, confidence=confidence, truth=_is_truth(inner))
    found = query.smooth(lambda table: exact(inner, table), confidence=confidence)
    reach = _reach(inner, release.schema) if query.partial or _is_truth(inner) else None
    return found if reach is None else _within(found, *reach)


def _reach(inner: Node, schema: Schema) -> tuple[float, float] | None:
    """Return what an average of a condition or of a column can be at all."""
    if isinstance(inner, Column):
        column = schema.columns[inner.name]
        return None if isinstance(column, Category) else column.bounds
    return (0.0, 1.0) if _is_truth(inner) else None


def _within(found: Estimate, least: float, most: float) -> Estimate:
    low, high = min(max(found.low, least), found.value), max(min(found.high, most), found.value)
    return replace(found, low=low, high=high, note=VACUOUS if high - low > MOST_OF_ALL * (most - least) else found.note)


def _asked_text(release: Release, tree: Node, *, weighted: bool) -> tuple[Query, Node]:
    """Return the columns of an average and what is averaged of them."""
    inner = tree.arguments[0] if isinstance(tree, Apply) and tree.name == "where" else tree
    names = columns_of(tree) or release.schema.names[:1]
    return Query.of(release, names, tree=tree, weighted=weighted), inner


def _linearised(
    release: Release, tree: Node, averages: tuple[Apply, ...], *, confidence: float, weighted: bool
) -> Estimate:
    """Answer arithmetic on averages by its linear part:  g(v) with the interval of  sum_j dg/dv_j f_j.

    An average over some rows moves like that of  (f_j - v_j) there_j / share_j.
    """
    parts = [_Part.of(*_asked_text(release, one.arguments[0], weighted=weighted)) for one in averages]
    values = [part.value for part in parts]
    value = _outer(tree, averages, values)
    slopes = []
    for j, one in enumerate(values):
        step = 1e-6 * (1.0 + abs(one))
        ends = [_outer(tree, averages, [*values[:j], one + s * step, *values[j + 1 :]]) for s in (-1.0, 1.0)]
        slopes.append((ends[1] - ends[0]) / (2.0 * step))
    if not all(abs(slope) <= LARGEST for slope in slopes):
        raise PlanError("The answer changes too fast with its averages to be bounded. Ask for them one by one.")

    def linear(points: Array) -> Array:
        terms = (s * part.moves(points) for s, part in zip(slopes, parts, strict=True))
        return np.asarray(sum(terms, np.zeros(len(points))))

    known = parts[0].query.evidence
    names = {name for part in parts for name in part.query.names}
    columns = sorted({c for part in parts for c in part.query.columns})
    if len(names) > MOST_COLUMNS or (len(names) > 1 and len(columns) > MOST_COORDINATES):
        raise PlanError(
            f"A question may use {MOST_COLUMNS} columns; this one uses more. Ask for its averages one by one."
        )
    check_smooth(known, columns, linear)
    # On the synthetic rows themselves the moves of partial averages are 0 by construction.
    base = sum(s * part.value for s, part in zip(slopes, parts, strict=True) if not part.query.partial)
    own = next(iter(names)) if len(names) == 1 else None
    return shifted(mean_interval(known, columns, linear, value=float(base), own=own, confidence=confidence), value)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One average of several: its value on the synthetic rows, and the share of rows it is about."""

    query: Query
    inner: Node
    value: float
    share: float

    @classmethod
    def of(cls, query: Query, inner: Node) -> _Part:
        values = query.on_rows(lambda table: exact(inner, table))
        return cls(query, inner, query.average(values), query.share)

    def moves(self, points: Array) -> Array:
        """Return the function of all rows whose mean moves as the average does."""
        values = self.query.at(lambda table: exact(self.inner, table), points)
        return (values - self.value) * self.query.included(points) / self.share if self.query.partial else values


def shifted(found: Estimate, value: float) -> Estimate:
    """Move the estimate of a linear part to the value of the statistic that it stands for."""
    move = value - found.value
    # An interval of no width must hold its value, whatever the last bit is.
    low, high = min(found.low + move, value), max(found.high + move, value)
    return replace(found, value=value, low=low, high=high, unseen_is="estimated", kind="linearised")


def _combined(
    release: Release, tree: Node, averages: tuple[Apply, ...], *, confidence: float, weighted: bool
) -> Estimate:
    """Answer arithmetic on averages with jumps: each with its share of the doubt, then interval arithmetic."""
    share = 1.0 - (1.0 - confidence) / len(averages)
    found = {one: _average(release, one.arguments[0], confidence=share, weighted=weighted) for one in averages}
    low, high = (float(end) for end in _interval_of(tree, found))
    value = _outer(tree, averages, [found[one].value for one in averages])
    if not all(abs(end) <= LARGEST for end in (low, high)):
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
    if not abs(value) <= LARGEST:
        raise PlanError(
            f"The answer is not a finite number, at most {LARGEST:g}, on the synthetic rows: look at divisions and roots."
        )
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
