"""Means of what jumps: between two smooth functions, and over the rows that a condition with jumps leaves.

A mean over the rows with c is, for every number v,

    E[f c] / E[c]  =  v + E[(f - v) c] / E[c]

so an interval of each mean on the right, both with half of the doubt, gives one of the left, and nothing is linearised.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.answer.estimate import Estimate
from smoothsynth.answer.evaluate import TRUTHS, bounds, exact, has_jumps, scales_of
from smoothsynth.answer.language import Apply, Column, Node, Number
from smoothsynth.schema import Category

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.answer.query import Query

    Array = NDArray[np.float64]


# Widths of the steps of envelopes, in standard deviations of what is compared.
STEPS = (0.1, 0.2, 0.4, 0.7, 1.2, 2.0)
# An interval of more than this share of what is possible says nothing.
MOST_OF_ALL = 0.8
VACUOUS = "The release cannot tell: the interval is nearly all that is possible."


def mean_of(query: Query, tree: Node, *, confidence: float) -> Estimate:
    """Return the mean of an expression over the rows that count, with the interval that its jumps allow."""
    if query.sharp is not None:
        return _over_some(query, query.sharp, tree, confidence=confidence)
    if has_jumps(tree):
        return between(query, tree, confidence=confidence, truth=is_truth(tree))
    found = query.smooth(lambda table: exact(tree, table), confidence=confidence)
    reach = _reach(query, tree) if query.partial or is_truth(tree) else None
    return found if reach is None else _within(found, *reach)


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


def _over_some(query: Query, condition: Node, tree: Node, *, confidence: float) -> Estimate:
    """Return the mean over the rows that fit a condition with jumps, as a quotient of two means."""
    values = query.on_rows(lambda table: exact(tree, table))
    value, whole, each = query.average(values), replace(query, sharp=None), 1.0 - (1.0 - confidence) / 2.0
    beyond = between(whole, only_where(condition, Apply("-", (tree, Number(value)))), confidence=each)
    share = between(whole, condition, confidence=each, truth=True)
    # The group has a row at least: else there is nothing that could be averaged.
    fewest = max(share.low, 1.0 / query.evidence.release.receipt.rows)
    low = value + min(beyond.low / fewest, beyond.low / share.high)
    high = value + max(beyond.high / fewest, beyond.high / share.high)
    least, most = _reach(query, tree) or (float(values.min()), float(values.max()))
    parts = {part: getattr(beyond, part) / share.value for part in ("noise", "fit", "unseen", "sampling")}
    found = replace(beyond, value=value, low=low, high=high, confidence=confidence, note="", **parts)
    return _within(found, least, most)


def only_where(condition: Node, tree: Node) -> Node:
    """Return an expression that is 0 in rows for which a condition does not hold."""
    return Apply("case", (condition, tree, Number(0.0)))


def _reach(query: Query, tree: Node) -> tuple[float, float] | None:
    """Return what an average of a condition or of a column can be at all."""
    if isinstance(tree, Column):
        column = query.used.schema.columns[tree.name]
        return None if isinstance(column, Category) else column.bounds
    return (0.0, 1.0) if is_truth(tree) else None


def _within(found: Estimate, least: float, most: float) -> Estimate:
    """Cut an interval to what is possible; one that is wholly beyond that keeps half of its width."""
    half = math.hypot(found.noise, found.unseen, found.sampling)
    low, high = min(max(found.low, least), found.value), max(min(found.high, most), found.value)
    if found.high <= least:
        high = max(high, min(least + half, most))
    if found.low >= most:
        low = min(low, max(most - half, least))
    return replace(found, low=low, high=high, note=VACUOUS if high - low > MOST_OF_ALL * (most - least) else found.note)


def shifted(found: Estimate, value: float) -> Estimate:
    """Move the estimate of a linear part to the value of the statistic that it stands for."""
    move = value - found.value
    # An interval of no width must hold its value, whatever the last bit is.
    low, high = min(found.low + move, value), max(found.high + move, value)
    return replace(found, value=value, low=low, high=high, unseen_is="estimated", kind="linearised")


def is_truth(node: Node) -> bool:
    """Whether an expression is true or false in every row."""
    return isinstance(node, Apply) and node.name in TRUTHS
