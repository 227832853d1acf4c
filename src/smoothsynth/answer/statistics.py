"""Statistics of a release with intervals: each by the mean of its influence function, or by counts between envelopes.

A statistic of a table, theta(P), moves by the private minus the synthetic mean of its influence function to first
order; so the interval of that mean is the interval of the statistic (Huber and Ronchetti, Robust statistics, ch. 1).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth._display import escaped, page
from smoothsynth.answer.columns import DATES
from smoothsynth.answer.envelopes import MOST_OF_ALL, VACUOUS, between, mean_of, only_where, shifted
from smoothsynth.answer.estimate import Estimate
from smoothsynth.answer.evaluate import exact
from smoothsynth.answer.language import Apply, Column, Number
from smoothsynth.answer.query import Query, check_confidence, column_names, in_units
from smoothsynth.errors import PlanError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.answer.language import Node
    from smoothsynth.pipeline.release import Release
    from smoothsynth.schema.encoding import Column as Described

    Array = NDArray[np.float64]
    Table = Mapping[str, Array]

MOST_BINS = 200
# What is divided by is taken to be uncertain by at most this much of itself.
MOST_UNCERTAIN = 0.99
# Places at which a distribution function is bounded in the search for a quantile, and the steps tried there.
_PLACES, _QUANTILE_STEPS = 49, (0.2, 0.5, 1.2)


@dataclass(frozen=True, slots=True)
class Bin:
    """The share of rows from `lower` to below `upper` (the last bin has its upper end too)."""

    lower: float
    upper: float
    share: Estimate

    def _repr_html_(self) -> str:
        interval = f"{self.share.low:.5g} to {self.share.high:.5g} ({100 * self.share.confidence:g} %)"
        return page(f"From {self.lower:g} to {self.upper:g}: {self.share.value:.5g}", [("private rows", interval)])


@dataclass(frozen=True, slots=True)
class Regression:
    """A linear regression of one column on others: slopes by name, each with its interval."""

    target: str
    intercept: Estimate
    slopes: Mapping[str, Estimate]

    def _repr_html_(self) -> str:
        named = {"intercept": self.intercept, **self.slopes}
        rows = [
            (escaped(name), f"{one.value:.5g}", f"{one.low:.5g} to {one.high:.5g} ({100 * one.confidence:g} %)")
            for name, one in named.items()
        ]
        return page(f"Regression of {self.target}", [], ("coefficient", "synthetic rows", "private rows"), rows)

    def __str__(self) -> str:
        lines = [f"{self.target} on {', '.join(self.slopes)}"]
        lines += [
            f"  {name}: {one.value:.5g}  ({one.low:.5g} to {one.high:.5g})"
            for name, one in {"intercept": self.intercept, **self.slopes}.items()
        ]
        return "\n".join(map(one_line, lines))


def mean(release: Release, column: str, *, confidence: float = 0.95, weighted: bool = False) -> Estimate:
    """Return the mean of a column."""
    check_confidence(confidence)
    query = Query.of_numbers(release, [column], weighted=weighted)
    found = query.interval(lambda table: table[column], confidence=confidence)
    return dated(found, release.schema.columns[column])


def covariance(
    release: Release, first: str, second: str, *, confidence: float = 0.95, weighted: bool = False
) -> Estimate:
    """Return the covariance of two columns (of one with itself: its variance).

    influence: (a - mean a)(b - mean b) - covariance
    """
    check_confidence(confidence)
    query = Query.of_numbers(release, [first, second], weighted=weighted)
    a, b = (_moments(query, Column(name)) for name in (first, second))

    def influence(table: Table) -> Array:
        return (table[first] - a.mean) * (table[second] - b.mean)

    return _of_influence(query, influence, query.average(query.on_rows(influence)), confidence=confidence)


def correlation(
    release: Release, first: str, second: str, *, confidence: float = 0.95, weighted: bool = False
) -> Estimate:
    """Return the correlation of two columns."""
    check_confidence(confidence)
    query = Query.of_numbers(release, [first, second], weighted=weighted)
    return correlation_of(query, Column(first), Column(second), confidence=confidence)


def correlation_of(query: Query, first: Node, second: Node, *, confidence: float) -> Estimate:
    """Return the correlation r of two expressions over the rows that count, within [-1, 1].

    influence: u v - r (u^2 + v^2) / 2,   u and v the standardised columns

    Where bounds are much wider than the values, noise may be most of a variance, and what is divided by a part of it.
    """
    a, b = (_moments(query, one) for one in (first, second))
    u, v = (_standardised(one, moments) for one, moments in ((first, a), (second, b)))
    products = query.on_rows(lambda t: (exact(first, t) - a.mean) * (exact(second, t) - b.mean) / (a.spread * b.spread))
    r = query.average(products)
    squares = Apply("+", (Apply("*", (u, u)), Apply("*", (v, v))))
    both = Apply("/", (Apply("*", (Number(r), squares)), Number(2.0)))
    found = shifted(mean_of(query, Apply("-", (Apply("*", (u, v)), both)), confidence=confidence), r)
    wider = math.sqrt(math.prod(_by_variance(query, one, confidence=confidence) for one in (u, v)))
    found = widened(found, wider)
    low, high = max(found.low, -1.0), min(found.high, 1.0)
    return replace(found, low=low, high=high, note=VACUOUS if high - low > 2.0 * MOST_OF_ALL else "")


def _standardised(tree: Node, moments: _Moments) -> Node:
    return Apply("/", (Apply("-", (tree, Number(moments.mean))), Number(moments.spread)))


def _by_variance(query: Query, standardised: Node, *, confidence: float) -> float:
    return wider_by(mean_of(query, Apply("*", (standardised, standardised)), confidence=confidence))


def wider_by(divisor: Estimate) -> float:
    """Return how many times wider than its linear part the interval of a quotient must be.

    With h the uncertainty of what is divided by as a share of it, beyond a half:  1 / (1 - (2 h - 1)^2).  Up to that the
    linear part knows of it.
    """
    doubt = max(divisor.value - divisor.low, divisor.high - divisor.value)
    share = min(doubt, MOST_UNCERTAIN * abs(divisor.value)) / max(abs(divisor.value), 1e-300)
    return 1.0 / (1.0 - max(2.0 * share - 1.0, 0.0) ** 2)


def widened(found: Estimate, wider: float) -> Estimate:
    """Stretch an interval from its value to both sides."""
    value = found.value
    return replace(found, low=value + wider * (found.low - value), high=value + wider * (found.high - value))


def regress(
    release: Release, target: str, *, on: Sequence[str], confidence: float = 0.95, weighted: bool = False
) -> Regression:
    """Return the least-squares regression of a column on others.

    influence of the coefficients: (E x x')^-1 x (y - x . beta),   x = (1, columns)
    """
    check_confidence(confidence)
    names = column_names([on] if isinstance(on, str) else on)
    if not names or target in names:
        raise PlanError(f"Regress {target!r} on at least one other column, as in regress('y', on=['x']).")
    query = Query.of_numbers(release, [target, *names], weighted=weighted)
    moments = {name: _moments(query, Column(name)) for name in names}

    def design(table: Table) -> Array:
        columns = [(table[name] - moments[name].mean) / moments[name].spread for name in names]
        return np.stack(np.broadcast_arrays(np.ones(()), *columns), axis=-1)

    rows, root = query.columns_of_rows(), np.sqrt(query.row_weights())
    # Least squares with weights are those of rows times the roots of the weights.
    x, y = design(rows) * root[:, None], rows[target] * root
    gram = x.T @ x / len(x)
    if np.linalg.cond(gram) > 1e10:
        raise PlanError("The columns of a regression must not determine each other; on the synthetic rows they do.")
    inverse = np.linalg.inv(gram)
    beta = inverse @ (x.T @ y) / len(x)
    # From standardised columns back to their own units.
    back = np.diag([1.0, *(1.0 / moments[name].spread for name in names)])
    back[0, 1:] = [-moments[name].mean / moments[name].spread for name in names]

    def coefficient(row: Array) -> Estimate:
        def influence(table: Table) -> Array:
            seen = design(table)
            return (seen @ (inverse @ row)) * (table[target] - seen @ beta)

        return widened(_of_influence(query, influence, float(row @ beta), confidence=confidence), wider)

    standardised = (_standardised(Column(name), moments[name]) for name in names)
    wider = max(_by_variance(query, one, confidence=confidence) for one in standardised)
    found = [coefficient(row) for row in back]
    return Regression(target, found[0], dict(zip(names, found[1:], strict=True)))


def histogram(
    release: Release,
    column: str,
    *,
    bins: int | Sequence[float] = 10,
    confidence: float = 0.95,
    weighted: bool = False,
) -> tuple[Bin, ...]:
    """Return the shares of rows in bins: `bins` equal ones over the public range, or between the given edges."""
    check_confidence(confidence)
    query = Query.of_numbers(release, [column], weighted=weighted)
    edges = _edges(release, column, bins)
    shares = []
    for i, (lower, upper) in enumerate(itertools.pairwise(edges)):
        last = "<=" if i == len(edges) - 2 else "<"
        inside = Apply(
            "and", (Apply(">=", (Column(column), Number(lower))), Apply(last, (Column(column), Number(upper))))
        )
        shares.append(Bin(lower, upper, between(query, inside, confidence=confidence, truth=True)))
    return tuple(shares)


def quantile(release: Release, column: str, q: float, *, confidence: float = 0.95, weighted: bool = False) -> Estimate:
    """Return the q-quantile of a column."""
    check_confidence(confidence)
    query = Query.of_numbers(release, [column], weighted=weighted)
    return dated(quantile_of(query, column, q, confidence=confidence), release.schema.columns[column])


def quantile_of(query: Query, column: str, q: float, *, confidence: float) -> Estimate:
    """Return the q-quantile of a column over the rows that count: where the bounds of its distribution function reach q.

    low is the last place whose upper bound stays below q, high the first whose lower bound reaches it. Over the rows with a
    condition c that jumps the bounds are those of  E[(1[x <= place] - q) c],  which are compared with 0.
    """
    if isinstance(q, bool) or not isinstance(q, (int, float)) or not 0.0 < q < 1.0:
        raise PlanError("A quantile is asked for by a number between 0 and 1, such as 0.5 for the median.")
    values = query.on_rows(lambda table: table[column])
    ends = _ends(query.evidence.release, column)
    whole, sought = replace(query, sharp=None), q if query.sharp is None else 0.0
    even, own = np.linspace(*ends, _PLACES), _quantiles(query, values, np.linspace(0.01, 0.99, _PLACES))
    places: list[float] = np.unique(np.concatenate([even, own])).tolist()
    found: dict[float, Estimate] = {}

    def share(place: float) -> Estimate:
        if place not in found:
            below: Node = Apply("<=", (Column(column), Number(place)))
            if query.sharp is not None:
                below = only_where(query.sharp, Apply("-", (below, Number(q))))
            truth = query.sharp is None
            found[place] = between(whole, below, confidence=confidence, steps=_QUANTILE_STEPS, truth=truth)
        return found[place]

    first = _first(places, lambda place: share(place).high >= sought)
    last = _first(places, lambda place: share(place).low >= sought)
    low, high = (places[first - 1] if first else ends[0]), (places[last] if last < len(places) else ends[1])
    value = float(_quantiles(query, values, np.array(q)))
    spread = max(float(values.std()), 1e-300)
    note = VACUOUS if high - low > MOST_OF_ALL * (ends[1] - ends[0]) else ""
    made = share(value)
    scale = spread * math.sqrt(2.0 * math.pi)
    return Estimate(
        value,
        min(low, value),
        max(high, value),
        confidence,
        noise=made.noise * scale,
        fit=0.0,
        unseen=made.unseen * scale,
        sampling=made.sampling * scale,
        unseen_is=made.unseen_is,
        kind="envelopes",
        note=note,
    )


def _quantiles(query: Query, values: Array, q: Array) -> Array:
    """Return quantiles of values at the synthetic rows, with weights on a line through the middles of the steps."""
    if query.weight is None:
        return np.asarray(np.quantile(values, q))
    order = np.argsort(values, kind="stable")
    own = query.row_weights()[order]
    return np.asarray(np.interp(q, (np.cumsum(own) - own / 2.0) / own.sum(), values[order]))


def _first(places: Sequence[float], reached: Callable[[float], bool]) -> int:
    """Bisect for the first place where a condition that stays true once it is true holds."""
    low, high = 0, len(places)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(places[middle]) else (middle + 1, high)
    return low


@dataclass(frozen=True, slots=True)
class _Moments:
    mean: float
    spread: float


def _moments(query: Query, tree: Node) -> _Moments:
    values = query.on_rows(lambda table: exact(tree, table))
    mean = query.average(values)
    spread = math.sqrt(query.average((values - mean) ** 2))
    if spread <= 0.0:
        name = f"Column {tree.name!r}" if isinstance(tree, Column) else "One of the two"
        raise PlanError(f"{name} does not vary in the synthetic rows, so this statistic does not exist.")
    return _Moments(mean, spread)


def dated(found: Estimate, column: Described) -> Estimate:
    """Say that an answer in units of a column is a day or a moment, if it is one."""
    return replace(found, scale=column.kind) if isinstance(column, DATES) else found


def _of_influence(query: Query, influence: Callable[[Table], Array], value: float, *, confidence: float) -> Estimate:
    return shifted(query.interval(influence, confidence=confidence), float(value))


def _ends(release: Release, column: str) -> tuple[float, float]:
    """Return the public bounds of a column."""
    lower, upper = in_units(release.schema.columns[column], np.array([-1.0, 1.0]))
    return float(lower), float(upper)


def _edges(release: Release, column: str, bins: int | Sequence[float]) -> list[float]:
    if isinstance(bins, int) and not isinstance(bins, bool) and 1 <= bins <= MOST_BINS:
        return [float(edge) for edge in np.linspace(*_ends(release, column), bins + 1)]
    try:
        edges = [] if isinstance(bins, (int, str)) else [float(edge) for edge in bins]
    except (TypeError, ValueError, OverflowError):
        edges = []
    if not edges:
        raise PlanError(f"A histogram has 1 to {MOST_BINS} bins, or a list of edges.")
    if not 2 <= len(edges) <= MOST_BINS + 1 or not all(a < b for a, b in itertools.pairwise(edges)):
        raise PlanError(f"The edges of a histogram must rise, and be between 2 and {MOST_BINS + 1}.")
    return edges
