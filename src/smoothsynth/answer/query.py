"""A query on some columns, and the narrower of its two intervals: model-based or worst-case.

A query is the mean of a function of these columns, over all rows or over those that have values and fit a condition. Rows
may be weighted, by w from 0 to 1:

    weighted mean of f  =  E[f w included] / E[w included]

which is a mean over some rows with w for the indicator of a row that counts: both intervals hold for such w as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.answer.columns import Used, levels_of, only_missing, rough_column
from smoothsynth.answer.estimate import Estimate
from smoothsynth.answer.evaluate import LARGEST, exact, has_jumps
from smoothsynth.answer.evidence import evidence_of
from smoothsynth.answer.language import Apply, Node, parts_of
from smoothsynth.answer.model_interval import basis_of, components_of, heavy_quantile, quantile
from smoothsynth.answer.worst_case_interval import state_points, worst_case_of_column, worst_case_ratio
from smoothsynth.errors import PlanError, one_line
from smoothsynth.schema import Boolean, Category, Date, Datetime, Integer, Number
from smoothsynth.schema.valued import from_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.answer.evidence import Evidence
    from smoothsynth.pipeline.release import Release
    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]
    OfPoints = Callable[[Array], Array]
    Function = Callable[[Mapping[str, Array]], Any]


# The share of rows that an average is about is taken to be uncertain by at most this much of itself.
_MOST_UNCERTAIN = 0.9
FEW_ROWS = "The share of rows that this is about is itself uncertain: take the interval as a rough one."


def noise_quantile(evidence: Evidence, confidence: float) -> float:
    """Return how many deviations noise stays within: that of Laplace noise where some of the release has it."""
    gaussian = all(noisy.measurement.mechanism == "discrete gaussian" for noisy in evidence.release.moments)
    return quantile(confidence) if gaussian else heavy_quantile(confidence)


def mean_interval(
    evidence: Evidence,
    columns: Sequence[int],
    function: OfPoints,
    *,
    value: float,
    own: str | None,
    confidence: float,
    rough: bool = False,
) -> Estimate:
    """Return the interval of the mean over all rows; `own` is the column of a function of one."""
    sure = None if own is None else worst_case_of_column(evidence, own, function, confidence=confidence)
    if sure is None or not sure.settled:
        found = _estimated(evidence, columns, function, value=value, own=own, confidence=confidence, rough=rough)
        # A constant has no width either way, but for the last bits; of two equal intervals the proved one is said.
        most = math.hypot(found.noise, found.unseen, found.sampling) + 1e-12 * (1.0 + abs(value))
        if sure is None or sure.noise + sure.unseen > most:
            return found
    half = sure.noise + sure.unseen
    return Estimate(
        value,
        min(sure.centre - half, value),
        max(sure.centre + half, value),
        confidence,
        noise=sure.noise,
        fit=sure.centre - value,
        unseen=sure.unseen,
        sampling=0.0,
        unseen_is="bounded",
    )


def conditional_mean_interval(
    evidence: Evidence,
    columns: Sequence[int],
    function: OfPoints,
    included: OfPoints,
    *,
    value: float,
    share: float,
    own: str | None,
    confidence: float,
    rough: bool = False,
) -> Estimate:
    """Return the interval of the mean over the included rows, a share of all, on which it is `value`."""
    sure = None if own is None else worst_case_ratio(evidence, own, function, included, confidence=confidence)
    if sure is None or not sure.settled:
        found = _linear(
            evidence, columns, function, included, value=value, share=share, own=own, confidence=confidence, rough=rough
        )
        if sure is None or sure.high - sure.low > found.high - found.low:
            return found
    low, high, fit = min(sure.low, value), max(sure.high, value), (sure.low + sure.high) / 2.0 - value
    return Estimate(value, low, high, confidence, sure.noise, fit, sure.unseen, 0.0, unseen_is="bounded")


def _linear(
    evidence: Evidence,
    columns: Sequence[int],
    function: OfPoints,
    included: OfPoints,
    *,
    value: float,
    share: float,
    own: str | None,
    confidence: float,
    rough: bool,
) -> Estimate:
    """Return the model-based interval of a mean over some rows.

    To first order it moves like the mean of  (f - value) included / share;  the uncertainty of the share widens that.
    """

    def moves(points: Array) -> Array:
        return (function(points) - value) * included(points) / share

    how: dict[str, Any] = {"own": own, "confidence": confidence, "rough": rough}
    found = _estimated(evidence, columns, moves, value=0.0, **how)
    group = _estimated(evidence, columns, lambda points: included(points) / share, value=1.0, **how)
    uncertain = min(group.half_width, _MOST_UNCERTAIN)
    wider = 1.0 / (1.0 - uncertain)
    return replace(
        found,
        value=value,
        low=value + wider * found.low,
        high=value + wider * found.high,
        noise=wider * found.noise,
        fit=wider * found.fit,
        unseen=wider * found.unseen,
        sampling=wider * found.sampling,
        kind="linearised",
        note=FEW_ROWS if uncertain > _MOST_UNCERTAIN / 2.0 else "",
    )


def _estimated(
    evidence: Evidence,
    columns: Sequence[int],
    function: OfPoints,
    *,
    value: float,
    own: str | None,
    confidence: float,
    rough: bool,
) -> Estimate:
    known = evidence.about(columns)
    values = function(known.rows)
    parts = components_of(basis_of(known, columns), values, synthetic_rows=len(known.points), rough=rough)
    q, heavy = quantile(confidence), noise_quantile(evidence, confidence)
    noise, unseen, sampling = heavy * parts.noise, q * parts.unseen, q * parts.sampling
    if own is not None:
        # A share of the private rows may be where no synthetic row is.
        farthest = float(np.abs(function(state_points(evidence, own)) - value).max())
        unseen = math.hypot(unseen, UNMET / len(known.points) * farthest)
    half = math.hypot(noise, unseen, sampling)
    low, high = min(value + parts.fit - half, value), max(value + parts.fit + half, value)
    return Estimate(value, low, high, confidence, noise, parts.fit, unseen, sampling, unseen_is="estimated")


# None of m rows is where this many in m are, once in twenty times (the rule of three).
UNMET = 3.0
MOST_COLUMNS = 20
# Coordinates of several columns together: each pair of them is a function to look at.
MOST_COORDINATES = 40
# Columns that are numbers in a question: days and seconds since 1970 are.
NUMBERS = (Number, Integer, Boolean, Date, Datetime)


class EmptyGroupError(PlanError):
    """No synthetic row is one that the question is about."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """Some columns of a release, ready for functions of them; rows count where all have a value and `condition` holds.

    `columns` are the coordinates that a model-based interval uses; `weight` is a column that rows are weighted by. A
    condition on numbers, which jumps, is `sharp`: the synthetic rows that count keep to it, intervals do not know of it.
    """

    evidence: Evidence
    used: Used
    columns: tuple[int, ...]
    condition: Function | None = None
    weight: str | None = None
    sharp: Node | None = None

    @classmethod
    def of(cls, release: Release, names: Sequence[str], *, tree: Node | None = None, weighted: bool = False) -> Query:
        """Look the columns up; an aggregate that was written as text is given as its `tree`."""
        weight = weight_of(release.schema) if weighted else None
        names = column_names(names) + ([] if weight is None else [weight])
        missing = frozenset() if tree is None else only_missing(tree)
        used = Used.of(release.schema, names, only_missing=missing, coded=tree is not None)
        if len(used.names) > MOST_COLUMNS:
            raise PlanError(f"A question may use {MOST_COLUMNS} columns; this one uses {len(used.names)}.")
        named = None if tree is None or len(used.names) == 1 else levels_of(tree)
        condition, sharp = (None, None) if tree is None else conditions_of(tree)
        return cls(evidence_of(release), used, coordinates(used, named), condition, weight, sharp)

    @classmethod
    def of_numbers(cls, release: Release, names: Sequence[str], *, weighted: bool = False) -> Query:
        """Look columns up that must hold numbers or truth values."""
        query = cls.of(release, names, weighted=weighted)
        for name in query.names:
            if not isinstance(release.schema.columns[name], NUMBERS):
                kind = release.schema.columns[name].kind
                raise PlanError(f"This statistic is one of numbers, truth values and dates; {name!r} is a {kind}.")
        return query

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in the order of the schema."""
        return self.used.names

    @property
    def partial(self) -> bool:
        """Whether some rows may be left out, or count for less than others."""
        return self.used.partial or self.condition is not None or self.weight is not None

    def smooth(self, function: Function, *, confidence: float) -> Estimate:
        """Answer a smooth function, or say that it is not smooth."""
        check_smooth(self.evidence, self.columns, lambda points: self.at(function, points))
        return self.interval(function, confidence=confidence)

    def interval(self, function: Function, *, confidence: float, rough: bool = False) -> Estimate:
        """Put the narrower of the model-based and the worst-case interval around the mean of a function."""
        own = self.names[0] if len(self.names) == 1 else None
        values = self.on_rows(function)

        def at(points: Array) -> Array:
            return self.at(function, points)

        value, known = self.average(values), self.evidence
        if not self.partial:
            return mean_interval(known, self.columns, at, value=value, own=own, confidence=confidence, rough=rough)
        return conditional_mean_interval(
            known,
            self.columns,
            at,
            self.included,
            value=value,
            share=self.share,
            own=own,
            confidence=confidence,
            rough=rough,
        )

    def on_rows(self, function: Function) -> Array:
        """Return a function at the synthetic rows that count."""
        table = self.columns_of_rows()
        return checked(function(table), len(next(iter(table.values()))), truth=self.discrete)

    def average(self, values: Array) -> float:
        """Return the mean of values at the synthetic rows that count, weighted if they are."""
        return float((values * self.row_weights()).mean())

    def row_weights(self) -> Array:
        """Return the weights of the synthetic rows that count, of mean 1."""
        weights = self._relative(self.columns_of_rows())
        if not weights.any():
            raise PlanError("No synthetic row that this is about has a weight above 0, so there is nothing to average.")
        return np.asarray(weights / weights.mean())

    @property
    def share(self) -> float:
        """The mean of `included` over all synthetic rows."""
        return float(self._relative(self.columns_of_rows()).sum()) / self.evidence.release.table.num_rows

    def _relative(self, table: Mapping[str, Array]) -> Array:
        """Return weights as parts of the largest possible one; 1 if rows are not weighted."""
        if self.weight is None:
            return np.ones(len(next(iter(table.values()))))
        return table[self.weight] / in_units(self.used.schema.columns[self.weight], np.ones(()))

    def columns_of_rows(self) -> dict[str, Array]:
        """Return the synthetic columns in their own units, of the rows that count."""
        table, included = self.used.of_table(self.evidence.release.table)
        if self.condition is not None:
            included = included & (np.broadcast_to(self.condition(table), included.shape) > 0.5)
        if self.sharp is not None:
            included = included & (np.broadcast_to(exact(self.sharp, table), included.shape) > 0.5)
        if not included.any():
            raise EmptyGroupError(
                "No synthetic row has these values, so there is nothing to average: the group is too small."
            )
        return table if included.all() else {name: values[included] for name, values in table.items()}

    def at(self, function: Function, points: Array) -> Array:
        """Return a function at points of the cube."""
        return checked(function(self.columns_at(points)), len(points), truth=self.discrete)

    def included(self, points: Array) -> Array:
        """Return 1 for points that count, or their weight as a part of the largest possible one; else 0."""
        table = self.columns_at(points)
        found = self.used.included(points) * self._relative(table)
        return found if self.condition is None else found * self.condition(table)

    def columns_at(self, points: Array) -> dict[str, Array]:
        """Return points of the cube as columns in their own units."""
        return self.used.at(points)

    @property
    def discrete(self) -> bool:
        """Whether all columns that are asked about are categories, of which no function jumps."""
        schema = self.evidence.release.schema
        asked = [name for name in self.names if name != self.weight] or self.names
        return all(isinstance(schema.columns[name], Category) for name in asked)


def check_confidence(confidence: object) -> None:
    """Refuse what is not a probability that can be kept."""
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0.0 < confidence < 1.0:
        raise PlanError("A confidence must be a number between 0 and 1, such as 0.95.")


def weight_of(schema: Schema) -> str:
    """Return the column of survey weights, or say that there is none."""
    if schema.weight is None:
        raise PlanError(
            "The schema of this release names no column of survey weights, so nothing can be weighted. Leave out weighted; "
            "or release with weight = NAME in the schema (docs/how-to/survey-weights.md)."
        )
    return schema.weight


def column_names(columns: object) -> list[str]:
    """Return names of columns, each once, or say that these are none."""
    found = list(columns) if isinstance(columns, Iterable) else [columns]
    if any(not isinstance(name, str) for name in found):
        raise PlanError('Columns are named by texts, as in ["age"].')
    return list(dict.fromkeys(map(str, found)))


def coordinates(used: Used, named: Mapping[str, frozenset[int]] | None) -> tuple[int, ...]:
    """Return the coordinates of columns; of categories the levels that a text names, or all of them."""
    found: list[int] = []
    for name in used.names:
        own = used.coordinates(name)
        levels = None if named is None or not isinstance(used.schema.columns[name], Category) else named.get(name)
        found += own if levels is None else [own[k] for k in sorted(levels)]
    if len(used.names) > 1 and len(found) > MOST_COORDINATES:
        raise PlanError(
            f"Levels and numbers of the columns are {len(found)} together; a function of several columns may have "
            f"{MOST_COORDINATES}. Ask for single levels as text, such as avg(income where region = 'A')."
        )
    return tuple(found)


def conditions_of(tree: Node) -> tuple[Function | None, Node | None]:
    """Return the conditions after `where`: on levels and missing values, as a function, and on numbers, which jump."""
    whole = parts_of(tree)[1] if isinstance(tree, Apply) else None
    smooth, sharp = None, None
    for one in _conjuncts(whole):
        if has_jumps(one):
            sharp = one if sharp is None else Apply("and", (sharp, one))
        else:
            smooth = one if smooth is None else Apply("and", (smooth, one))
    return (None if smooth is None else lambda table: exact(smooth, table)), sharp


def _conjuncts(condition: Node | None) -> list[Node]:
    if condition is None:
        return []
    if isinstance(condition, Apply) and condition.name == "and":
        return [part for side in condition.arguments for part in _conjuncts(side)]
    return [condition]


def check_smooth(evidence: Evidence, columns: Sequence[int], function: Callable[[Array], Array]) -> None:
    """Refuse a function of points that is not smooth in a number."""
    schema = evidence.release.schema
    values = [c for c in columns if schema.roles[c] == "value"]
    rough = rough_column(function, evidence.rows, values)
    if rough is not None:
        name = schema.coordinates[rough]
        raise PlanError(
            f"The question is not smooth in {name!r}: it jumps, or it changes within less than a fiftieth of the "
            f'range. Ask counts as text, such as "avg({_quoted(name)} >= 50)", and they are answered with envelopes.'
        )


def in_units(column: Any, unit: Array) -> Array:
    """Return a coordinate in the column's own units, whole numbers not rounded: a line through them stays smooth."""
    return np.asarray(from_unit(unit, column), dtype=np.float64)


def checked(values: Any, count: int, *, truth: bool = False) -> Array:
    """Refuse values of a function that are not one finite number for every row, or, if `truth`, true or false."""
    found = np.asarray(values)
    if truth and found.dtype == np.bool_:
        found = found.astype(np.float64)
    if found.dtype == np.bool_:
        raise PlanError(
            "The question is a condition, which jumps. Ask it as text, such as avg(age >= 50): then it is answered "
            "between two smooth ones."
        )
    if found.dtype.kind not in "iuf" or found.shape not in ((), (1,), (count,)):
        raise PlanError("A question must give one number for each row; this one gives something else.")
    if not np.all(np.abs(found) <= LARGEST):
        raise PlanError(
            f"A question must be finite, at most {LARGEST:g}, wherever a row may be; look at divisions, logarithms, roots "
            "and powers."
        )
    return np.broadcast_to(found.astype(np.float64), (count,))


def _quoted(name: str) -> str:
    return name if name.isidentifier() else one_line('"' + name.replace('"', '""') + '"')
