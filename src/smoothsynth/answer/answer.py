"""The answer to a question: parse, look at how smooth it is, and put an interval around it."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.answer.columns import groups_of, settle
from smoothsynth.answer.envelopes import mean_of, shifted
from smoothsynth.answer.estimate import Estimate, Groups
from smoothsynth.answer.evaluate import LARGEST, check_meaning, combine, exact, has_jumps
from smoothsynth.answer.language import (
    EXAMPLE,
    Apply,
    Column,
    Node,
    aggregates_of,
    columns_of,
    is_aggregate,
    parse,
    parts_of,
    restricted,
)
from smoothsynth.answer.language import Number as Value
from smoothsynth.answer.level_share import level_share
from smoothsynth.answer.query import (
    MOST_COLUMNS,
    MOST_COORDINATES,
    EmptyGroupError,
    Query,
    check_confidence,
    check_smooth,
    column_names,
    mean_interval,
)
from smoothsynth.answer.statistics import correlation_of, dated, quantile_of, widened, wider_by
from smoothsynth.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.pipeline.release import Release

    Array = NDArray[np.float64]
    Function = Callable[[Mapping[str, Array]], Any]

MOST_GROUPS = 100
# Arithmetic on averages is looked at in so many places on either side, and the end of where it is finite by so many halvings.
PLACES, HALVINGS, _TINY = 33, 40, 1e-300


def answer(
    release: Release,
    question: Function | str,
    *,
    columns: Sequence[str] | None = None,
    confidence: float = 0.95,
    weighted: bool = False,
) -> Estimate | Groups:
    """Answer a question with the mean over the synthetic rows, and an interval for the private rows.

    `question` is a function of a mapping from column names to arrays in their own units, with the `columns` that it
    uses; or a text such as "avg(exp(-power((age-50)/10, 2)))" (docs/answers.md has the language). If `weighted`, every
    average is one of rows with the survey weights that the schema names. With "... group by sex" there is an estimate for
    each group.
    """
    check_confidence(confidence)
    if isinstance(question, str):
        return answer_text(release, question, confidence=confidence, weighted=weighted)
    if not callable(question):
        raise PlanError("A question must be a text such as avg(age), or a function of the columns.")
    if columns is None or isinstance(columns, str) or not column_names(columns):
        raise PlanError('Name the columns that the function uses, as in columns=["age"].')
    query = Query.of(release, columns, weighted=weighted)
    return query.smooth(question, confidence=confidence)


def answer_text(release: Release, text: str, *, confidence: float = 0.95, weighted: bool = False) -> Estimate | Groups:
    """Answer a question that is written as text, once or for each group."""
    parsed = parse(text)
    if isinstance(parsed, Apply) and parsed.name == "group by":
        return _groups(release, parsed, confidence=confidence, weighted=weighted)
    counted = level_share(release, parsed, confidence=confidence)
    if counted is not None:
        return counted
    return answer_tree(release, settle(parsed, release.schema), confidence=confidence, weighted=weighted)


def answer_tree(release: Release, tree: Node, *, confidence: float, weighted: bool) -> Estimate:
    """Answer a settled question: one aggregate, or arithmetic on several."""
    check_meaning(tree)
    aggregates = aggregates_of(tree)
    if not aggregates or _outside(tree):
        raise PlanError(f"A question is about averages: put every column inside avg(...), as in avg(age). {EXAMPLE}")
    if tree == aggregates[0]:
        return _aggregate(release, aggregates[0], confidence=confidence, weighted=weighted)
    smooth = all(one.name == "avg" and not has_jumps(one) for one in aggregates)
    if smooth and not has_jumps(_with(tree, dict.fromkeys(aggregates, 0.0))):
        return _linearised(release, tree, aggregates, confidence=confidence, weighted=weighted)
    return _combined(release, tree, aggregates, confidence=confidence, weighted=weighted)


def _groups(release: Release, question: Apply, *, confidence: float, weighted: bool) -> Groups:
    """Answer a question once for the rows of each group."""
    tree, *columns = question.arguments
    names = tuple(column.name for column in columns if isinstance(column, Column))
    conditions = [groups_of(Column(name), release.schema) for name in names]
    count = math.prod(map(len, conditions))
    if count > MOST_GROUPS:
        raise PlanError(f"A question may have {MOST_GROUPS} groups; {' and '.join(names)} have {count:,}. Name fewer.")
    tree, found, empty = settle(tree, release.schema), {}, []
    for levels in itertools.product(*conditions):
        one = reduce(restricted, (own[level] for own, level in zip(conditions, levels, strict=True)), tree)
        try:
            found[levels] = answer_tree(release, one, confidence=confidence, weighted=weighted)
        except EmptyGroupError:
            empty.append(levels)
    return Groups(names, found, tuple(empty))


def _aggregate(release: Release, one: Apply, *, confidence: float, weighted: bool) -> Estimate:
    query = _query(release, one, weighted=weighted)
    (first, *others), _ = parts_of(one)
    if one.name == "corr":
        return correlation_of(query, first, others[0], confidence=confidence)
    if one.name == "quantile":
        found = quantile_of(query, *_of_column(first, others[0]), confidence=confidence)
    else:
        found = mean_of(query, first, confidence=confidence)
    return dated(found, release.schema.columns[first.name]) if isinstance(first, Column) else found


def _of_column(column: Node, q: Node) -> tuple[str, float]:
    if not isinstance(column, Column) or not isinstance(q, Value):
        raise PlanError("A quantile is one of a column, at a number, as in quantile(age, 0.9) or median(age).")
    return column.name, q.value


def _query(release: Release, one: Apply, *, weighted: bool) -> Query:
    """Return the columns of an aggregate, and the rows that it is about."""
    return Query.of(release, columns_of(one) or release.schema.names[:1], tree=one, weighted=weighted)


def _linearised(
    release: Release, tree: Node, averages: tuple[Apply, ...], *, confidence: float, weighted: bool
) -> Estimate:
    """Answer arithmetic on averages by its linear part:  g(v) with the interval of  sum_j dg/dv_j f_j.

    An average over some rows moves like that of  (f_j - v_j) there_j / share_j.
    """
    parts = [_Part.of(_query(release, one, weighted=weighted), parts_of(one)[0][0]) for one in averages]
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
    found = shifted(mean_interval(known, columns, linear, value=float(base), own=own, confidence=confidence), value)
    for divisor in _divisors(tree):
        found = widened(found, wider_by(answer_tree(release, divisor, confidence=confidence, weighted=weighted)))
    sizes = [_aggregate(release, one, confidence=confidence, weighted=weighted).half_width for one in averages]
    ways = np.array(slopes) * np.array(sizes) ** 2
    along = ways / max(float(np.dot(slopes, ways)), _TINY)
    low, high = _curved(lambda t: _exact(tree, averages, values + t * along), found.low - value, found.high - value)
    return replace(found, low=min(found.low, low), high=max(found.high, high))


def _divisors(node: Node) -> Iterator[Node]:
    """Yield what is divided by and hangs on averages."""
    if isinstance(node, Apply) and not is_aggregate(node):
        if node.name == "/" and aggregates_of(node.arguments[1]):
            yield node.arguments[1]
        for argument in node.arguments:
            yield from _divisors(argument)


def _curved(on_line: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return the least and the largest of a function of one number between two, as far as it is finite around 0.

    Where noise is most of what is divided by, or stands below a root, a tangent tells little.
    """
    found = [on_line(0.0)]
    for end in (low, high):
        for t in np.linspace(0.0, end, PLACES)[1:]:
            value = on_line(float(t))
            if not math.isfinite(value):
                # The last number before a root of less than nothing.
                inside, outside = float(t - end / (PLACES - 1)), float(t)
                for _ in range(HALVINGS):
                    middle = (inside + outside) / 2.0
                    inside, outside = (middle, outside) if math.isfinite(on_line(middle)) else (inside, middle)
                found.append(on_line(inside))
                break
            found.append(value)
    return min(found), max(found)


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


def _combined(
    release: Release, tree: Node, averages: tuple[Apply, ...], *, confidence: float, weighted: bool
) -> Estimate:
    """Answer arithmetic on averages with jumps: each with its share of the doubt, then interval arithmetic."""
    share = 1.0 - (1.0 - confidence) / len(averages)
    found = {one: _aggregate(release, one, confidence=share, weighted=weighted) for one in averages}
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


def _exact(tree: Node, averages: tuple[Apply, ...], values: Sequence[float] | Array) -> float:
    return float(exact(_with(tree, dict(zip(averages, map(float, values), strict=True))), {}))


def _outer(tree: Node, averages: tuple[Apply, ...], values: Sequence[float]) -> float:
    value = _exact(tree, averages, values)
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
        return not is_aggregate(node) and any(_outside(argument) for argument in node.arguments)
    return isinstance(node, Column)
