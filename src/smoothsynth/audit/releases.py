"""Cases of selection, discovery, whole releases, and charges chosen as outcomes come.

The cases of the whole pipeline: `release` on neighbouring tables, seen through everything it publishes.

The cases of noisy maxima: bare scores, and a choice of pairs of columns through the one door.

The cases of what is found before anything else: levels that occur often, and counts between bounds.

The case of charges that are chosen after seeing outcomes: an analyst who asks a ledger for as much as it will take.

The analyst measures one sum with Gaussian noise and half of what Gaussian noise may have. If the privacy loss came out
above what that costs, all that the ledger still takes goes into pure noise, otherwise into more Gaussian noise. With
"pure epsilons plus what all Gaussians cost" as the rule for whatever comes next, this breaks the total's promise
(docs/proofs/composition.md); a privacy filter keeps it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.accounting.charges import (
    MAXIMA,
    PURE_MAXIMA,
    Budget,
    Charge,
    gaussian_epsilon,
    gaussian_multiplier,
    maxima_scale,
    pure_maxima_scale,
    split_multiplier,
)
from smoothsynth.accounting.ledger import Ledger
from smoothsynth.audit import neighbours
from smoothsynth.audit.case import Case, Claim, claim_of
from smoothsynth.audit.mechanisms import DELTA, EPSILON, GAUSSIAN_EPSILON, Remembering
from smoothsynth.audit.neighbours import EDGE, of_persons, pair
from smoothsynth.discovery.levels import LevelsMeasurement
from smoothsynth.discovery.search import Search
from smoothsynth.errors import BudgetError, PlanError, SmoothsynthError
from smoothsynth.methods import Adaptive, Paper
from smoothsynth.pipeline.run import release
from smoothsynth.private import noise
from smoothsynth.private.measure import measure, measure_levels
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import term_feature
from smoothsynth.queries.measurement import Measurement, charge_for
from smoothsynth.queries.selection import TableSelection
from smoothsynth.queries.soft_tables import SoftTables, TableColumn
from smoothsynth.queries.transformation import Transformation
from smoothsynth.schema import Category, Number, Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.audit.case import Looks
    from smoothsynth.audit.neighbours import Pair
    from smoothsynth.pipeline.release import Release

    Array = NDArray[np.float64]


# One seed for all trials: if it reached the noise, every release of a table would be the same.
SEED = 7
# Whether a table is refused is seen by everybody: it must not depend on a row.
REFUSED = -(2**62)
_SYNTHETIC_ROWS = 20
_CELLS = 4


def release_cases() -> list[Case]:
    """Return whole releases on worst-case neighbouring tables: pure and with delta, automatic and the paper's."""
    corners = pair((1.0, 1.0), (-EDGE, -EDGE), rows=2)
    # With so many rows Gaussian noise is small enough for its plan to be the better one.
    many = pair((1.0,) * 3, (-EDGE,) * 3, rows=24)
    # With so many a pure plan has a second round, that sees them through what the first one released.
    strange = pair((math.inf, math.nan), (-1e300, -1e300), rows=100)
    chosen = Adaptive(tables=1)
    cube, ellipsoid = (Paper(candidates=kind, candidate_count=100) for kind in ("hypercube", "ellipsoid"))
    return [
        release_case("automatic", corners, epsilon=3.0),
        release_case("automatic, two stages", strange, epsilon=3.0),
        release_case("automatic, a chosen table", many, epsilon=8.0, method=chosen),
        release_case(
            "automatic, four stages and a chosen table", many, epsilon=8.0, delta=DELTA, share=0.03, method=chosen
        ),
        release_case("automatic, a person with 9 rows", of_persons(corners, 9), epsilon=3.0, rows_per_person=3),
        release_case("paper, hypercube", corners, epsilon=3.0, method=cube),
        release_case("paper, ellipsoid", corners, epsilon=8.0, delta=DELTA, method=ellipsoid),
    ]


def release_case(words: str, tables: Pair, *, epsilon: float, share: float = 0.1, **choices: Any) -> Case:
    """Release two neighbouring tables again and again with one seed; what is claimed is what the receipt says."""
    data, points = (tables.arrow(0), tables.arrow(1)), (tables.unit(0), tables.unit(1))
    choices = {"epsilon": epsilon, "synthetic_rows": _SYNTHETIC_ROWS, **choices}

    def attempt(side: int) -> Release | None:
        try:
            return release(data[side], schema=tables.schema, seed=SEED, **choices)
        except SmoothsynthError:
            return None

    first = attempt(0) or attempt(1)
    if first is None:
        raise PlanError("The audit needs a release of one of the two tables at least; both were refused.")
    width = len(list(neighbours.leaves(document(first)))) + 16
    refused = {look: np.full_like(line, REFUSED) for look, line in _look(first, points, width).items()}

    def draw(side: int, count: int) -> Looks:
        made = [attempt(side) for _ in range(count)]
        seen = [refused if one is None else _look(one, points, width) for one in made]
        return {look: np.concatenate([one[look] for one in seen]) for look in refused}

    claim = claim_of(first.receipt.charges, delta=first.receipt.budget.delta)
    reach = neighbours.release_reach(first, *points)
    return Case(f"release: {words}", tables.words, claim, reach, draw, share)


def _look(made: Release, points: tuple[NDArray[np.float64], NDArray[np.float64]], width: int) -> Looks:
    return {
        "numbers": np.array([[neighbours.release_loss(made, *points)]]),
        "rows": row_scores(made)[None],
        "low bits": neighbours.codes(made.unit_rows()[:_CELLS].reshape(1, -1)),
        "files": neighbours.leaf_codes([document(made)], width=width),
    }


def document(made: Release) -> dict[str, Any]:
    """Return what the JSON files of a release say."""
    subspace = None if made.subspace is None else made.subspace.as_dict()
    return {**made.receipt.as_dict(), "moments": [m.as_dict() for m in made.moments], "subspace": subspace}


def row_scores(made: Release) -> NDArray[np.float64]:
    """Summarise the synthetic rows alone: means, mean squares, mean products, the ends."""
    x = made.unit_rows()
    products = (x.T @ x)[np.triu_indices(x.shape[1])] / len(x)
    return np.concatenate([[x.mean()], x.mean(axis=0), [np.mean(x * x)], products, x.min(axis=0), x.max(axis=0)])


# The two ends of a column.
_RIGHT, _LEFT = 1.0, -1.0
# The share of the budget that choosing gets: with less, measuring would be all that is seen.
_CHOOSING = 0.9


def choosing_cases() -> list[Case]:
    """Return noisy maxima on scores that move as far as they may, each in the way that tells most."""
    # Scores that change places: then P(first) moves from 1/(1 + e^c) to 1/(1 + e^-c), the farthest for its range.
    return [
        maxima_case([[0, 2**17], [2**17, 0]], count=1, share=4.0),
        maxima_case([[0, 3, 3, 0], [3, 0, 0, 3]], count=2, share=4.0),
        maxima_case([[0, 2**17], [2**17, 0]], count=1, share=4.0, pure=True),
        maxima_case([[0, 3, 3, 0], [3, 0, 0, 3]], count=2, share=4.0, pure=True),
        # Two normal laws are told apart best by odds that change places, pure epsilon by one rare choice of many.
        choice_case(1),
        choice_case(12, pure=True),
    ]


def maxima_case(scores: Sequence[Sequence[int]], *, count: int, share: float = 1.0, pure: bool = False) -> Case:
    """Name the largest of scores on one table and on its neighbour."""
    sensitivity, multiplier = max(abs(a - b) for a, b in zip(*scores, strict=True)), gaussian_multiplier(EPSILON, DELTA)
    scale = pure_maxima_scale(sensitivity, EPSILON, count=count)
    charge = Charge(
        purpose="the audit",
        mechanism=PURE_MAXIMA if pure else MAXIMA,
        norm="linf",
        sensitivity=float(sensitivity),
        scale=scale if pure else maxima_scale(sensitivity, multiplier, count=count),
        coordinates=count,
        epsilon=EPSILON if pure else None,
        multiplier=None if pure else multiplier,
    )
    here, there = (np.array(side, dtype=np.float64) for side in scores)

    def draw(side: int, trials: int) -> Looks:
        if pure:
            sampler = noise.pure_noisy_maxima(count, sensitivity=sensitivity, epsilon=EPSILON)
        else:
            sampler = noise.noisy_maxima(count, sensitivity=sensitivity, multiplier=multiplier)
        named = np.array([sampler(list(scores[side])) for _ in range(trials)])
        losses = [likelihood_of(one, here, charge.scale) - likelihood_of(one, there, charge.scale) for one in named]
        return {"numbers": np.column_stack([losses, named])}

    words = f"scores {', '.join(map(str, scores[0]))} / {', '.join(map(str, scores[1]))}"
    claim = claim_of([charge], delta=0.0 if pure else DELTA)
    return Case(f"{charge.mechanism}, {count} of {len(here)}", words, claim, None, draw, share)


def choice_case(others: int, *, pure: bool = False) -> Case:
    """Choose one of several tables of two columns and measure it, on two neighbouring tables.

    All rows are expected at the upper end of every column. The row that is replaced moves the first table from a distance of
    0 to that of 2 rows, and each of the `others` back to 0: no row moves the odds of a choice further.
    """
    tables = pair((_RIGHT, _RIGHT, *[_LEFT] * others), (_RIGHT, _LEFT, *[_RIGHT] * others), rows=2, stay=_RIGHT)
    measurement = _chosen_table(others, pure=pure)
    opened = tuple(open_table(tables.arrow(side), tables.schema) for side in (0, 1))
    sums = tuple(neighbours.sums(measurement, tables.unit(side)) for side in (0, 1))
    expected = neighbours.sums(measurement, np.full(tables.unit(0).shape, _RIGHT)).astype(np.int64)
    if measurement.choice is None:
        raise AssertionError("a table is chosen")
    measurement = replace(measurement, choice=replace(measurement.choice, expected=expected))
    where = dict(measurement.features.places())  # type: ignore[attr-defined]
    scores = tuple(
        np.array([np.abs(own - expected)[place].sum() for place in where.values()], dtype=np.float64) for own in sums
    )
    engine, scale = Remembering(), measurement.choice_charge().scale

    def once(side: int) -> tuple[float, list[float], Ledger]:
        ledger = Ledger(Budget(1e3, 0.0 if pure else DELTA))
        noisy = measure(opened[side], measurement, engine=engine, ledger=ledger)
        (table,) = noisy.features.tables  # type: ignore[attr-defined]
        chosen, places = list(where).index(table), where[table]
        numbers = np.array(noisy.integers, dtype=np.float64)
        loss = likelihood_of([chosen], scores[0], scale) - likelihood_of([chosen], scores[1], scale)
        charge = noisy.measurement.charge()
        loss += float(neighbours.losses(numbers, sums[0][places], sums[1][places], charge=charge))
        return loss, [chosen, *noisy.integers], ledger

    def draw(side: int, trials: int) -> Looks:
        drawn = [once(side)[:2] for _ in range(trials)]
        return {"numbers": np.array([[loss, *numbers] for loss, numbers in drawn])}

    claim: Claim = claim_of(once(0)[2].charges, delta=0.0 if pure else DELTA)
    mechanism = measurement.choice_charge().mechanism
    return Case(f"{mechanism}: {measurement.purpose}", tables.words, claim, None, draw)


def _chosen_table(others: int, *, pure: bool) -> Measurement:
    """Return one table of the first two columns or of the first and another one, most of the budget spent on choosing."""
    family = SoftTables(tuple(TableColumn(c, 2) for c in range(others + 2)), 2)
    purpose = f"a chosen table of {others + 1}, each of 2 columns"
    features = family.cells(tuple((0, c) for c in range(1, others + 2)))
    seen = Transformation.straight(others + 2, family)
    if pure:
        choosing, measuring = _CHOOSING * EPSILON, (1.0 - _CHOOSING) * EPSILON
        choice = TableSelection(1, epsilon=choosing)
        return Measurement(purpose, features, "discrete laplace", epsilon=measuring, transformation=seen, choice=choice)
    multiplier = gaussian_multiplier(GAUSSIAN_EPSILON, DELTA)
    choosing, measuring = split_multiplier(multiplier, [_CHOOSING, 1.0 - _CHOOSING])
    choice = TableSelection(1, choosing)
    return Measurement(purpose, features, "discrete gaussian", multiplier=measuring, transformation=seen, choice=choice)


def likelihood_of(named: Sequence[int] | NDArray[np.int64], scores: Array, scale: float) -> float:
    """Return log P that these places are named in this order: one after the other, each by the exponential mechanism."""
    left, total = np.ones(len(scores), dtype=bool), 0.0
    for place in named:
        total += float(scores[place] / scale - np.logaddexp.reduce(scores[left] / scale))
        left[place] = False
    return total


SEARCH_EPSILON = 2.0
# So large that a few thousand trials see how often a value of one row is shown.
LEVELS_DELTA = 0.05


def found_cases() -> list[Case]:
    """Return the levels of a category of which one row has a value of its own, and counts of a row that moves far."""
    return [
        levels_case(["rare", "often", "often", "often"], ["often"] * 4),
        levels_case(["one", "two", "two"], ["one", "one", "two"]),
        levels_case(["rare", "often", "often", "often"], ["often"] * 4, gaussian=True),
        bounds_case([1.5, 300.0, 300.0], [-7e9, 300.0, 300.0], share=0.1),
    ]


def levels_case(first: Sequence[str], second: Sequence[str], *, gaussian: bool = False, share: float = 1.0) -> Case:
    """Show the frequent values of two neighbouring columns; what is not shown counts 0."""
    import pyarrow as pa

    measurement = LevelsMeasurement("x", SEARCH_EPSILON, LEVELS_DELTA)
    if gaussian:
        multiplier = gaussian_multiplier(SEARCH_EPSILON, LEVELS_DELTA / 2.0)
        measurement = LevelsMeasurement("x", None, LEVELS_DELTA / 2.0, multiplier)
    schema, budget = Schema({"x": Category("private")}), Budget(SEARCH_EPSILON, LEVELS_DELTA)
    opened = tuple(open_table(pa.table({"x": list(values)}), schema) for values in (first, second))
    texts = sorted({*first, *second})

    def draw(side: int, count: int) -> Looks:
        numbers = np.zeros((count, len(texts)))
        for trial in range(count):
            (noisy,) = measure_levels(opened[side], [measurement], ledger=Ledger(budget))
            shown = dict(noisy.counts)
            numbers[trial] = [shown.get(text, 0) for text in texts]
        return {"numbers": np.column_stack([numbers @ np.linspace(1.0, -1.0, len(texts)), numbers])}

    claim = claim_of([measurement.charge()], delta=LEVELS_DELTA)
    words = f"{', '.join(first)} / {', '.join(second)}"
    name = "levels of a category" + (", Gaussian noise" if gaussian else "")
    return Case(name, words, claim, None, draw, share)


def bounds_case(first: Sequence[float], second: Sequence[float], *, share: float = 1.0) -> Case:
    """Count the values of two neighbouring columns between powers of two."""
    import pyarrow as pa

    schema = Schema({"x": Number("private", "private")})
    search, any_count = Search.of(schema), (term_feature((0, 1)),)
    noise = Measurement("counts between powers of two", any_count, "discrete laplace", epsilon=SEARCH_EPSILON)
    measurement, engine = search.measurement(noise), Remembering()
    tables = [open_table(pa.table({"x": list(values)}), schema).seen_as(search.schema) for values in (first, second)]
    edges = search.columns[0].intervals.edges
    centres = [_counts(values, edges) * float(measurement.weights[0]) for values in (first, second)]
    charge = measurement.charge()

    def draw(side: int, count: int) -> Looks:
        made = [
            measure(tables[side], measurement, engine=engine, ledger=Ledger(Budget(SEARCH_EPSILON))).integers
            for _ in range(count)
        ]
        numbers = np.array(made)
        moved = np.flatnonzero(centres[0] != centres[1])
        return {
            "numbers": np.column_stack([neighbours.losses(numbers, *centres, charge=charge), numbers[:, moved]]),
            "low bits": neighbours.codes(numbers[:, moved]),
        }

    claim = claim_of([charge], delta=0.0)
    reach = neighbours.distance(*centres, charge=charge)
    return Case(
        "discrete laplace: counts between powers of two", f"{first[0]:g} / {second[0]:g}", claim, reach, draw, share
    )


def _counts(values: Sequence[float], edges: Sequence[float]) -> NDArray[np.float64]:
    return np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1).astype(np.float64)


# A delta large enough that an event of that size can be counted; the rule fails by more the smaller it is.
TOTAL = Budget(2.0, 0.1)
_MOVE = 2**16
# Losses above so many times what the first charge costs are worth more with pure noise.
_SWITCH = 1.3
_TRIED = 400


def adaptive_cases() -> list[Case]:
    """Return the strategy against the ledger of one release."""
    first = _gaussian(2.0 * gaussian_multiplier(TOTAL.epsilon, TOTAL.delta))
    multiplier = gaussian_multiplier(TOTAL.epsilon, TOTAL.delta)
    largest = [TOTAL.epsilon * (1.0 - step / _TRIED) for step in range(_TRIED)]
    pure = _accepted(first, [_pure(epsilon) for epsilon in largest])
    more = _accepted(first, [_gaussian(multiplier * (1.0 + step / _TRIED)) for step in range(_TRIED)])
    high = _SWITCH * gaussian_epsilon(first.multiplier or math.inf, TOTAL.delta)

    def draw(side: int, trials: int) -> Looks:
        loss = _losses(first, side, trials)
        favoured, total = loss > high, loss.copy()
        for charge, chosen in ((pure, favoured), (more, ~favoured)):
            total[chosen] += _losses(charge, side, int(chosen.sum()))
        return {"numbers": np.column_stack([total, loss])}

    words = f"sums 0 / {_MOVE} or 0 / 1; {first.mechanism}, then the kind that the outcome favours"
    return [Case("charges chosen as outcomes come", words, Claim(TOTAL.epsilon, TOTAL.delta), None, draw, share=20.0)]


def _accepted(first: Charge, wishes: Sequence[Charge]) -> Charge:
    """Return the first of some charges that a ledger of the total takes after the first charge."""
    for wish in wishes:
        ledger = Ledger(TOTAL)
        ledger.charge(first)
        try:
            ledger.charge(wish)
        except BudgetError:
            continue
        return wish
    raise AssertionError("a ledger takes a charge of next to nothing")


def _losses(charge: Charge, side: int, trials: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Draw a noisy sum so often on one table, and return the privacy losses."""
    move = round(charge.sensitivity)
    exact = [side * move] * trials
    if charge.epsilon is None:
        drawn = noise.add_gaussian_noise(exact, sensitivity=move, multiplier=charge.multiplier or math.inf)
    else:
        drawn = noise.add_laplace_noise(exact, sensitivity=move, epsilon=charge.epsilon)
    released = np.array(drawn, dtype=np.float64)[:, None]
    return neighbours.losses(released, np.zeros(1), np.full(1, float(move)), charge=charge)


def _pure(epsilon: float) -> Charge:
    # A sum that is 0 or 1 is randomised response: its loss is epsilon or -epsilon, and nothing is more telling.
    return charge_for("the audit", "discrete laplace", sensitivity=1, coordinates=1, epsilon=epsilon, multiplier=None)


def _gaussian(multiplier: float) -> Charge:
    return charge_for(
        "the audit", "discrete gaussian", sensitivity=_MOVE, coordinates=1, epsilon=None, multiplier=multiplier
    )
