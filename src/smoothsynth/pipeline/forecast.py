"""Expected errors before any data, and what budget a wanted error needs.

The expected error of typical queries, and a plan as text: from public facts alone.

At the flat base measure, the fitted answer to a query f moves with the measured moments by
c = Cov(phi)^-1 Cov(phi, f). So its noise has standard deviation sqrt(c' S c), with S the noise covariance,
and what no measured moment sees is  f - c . phi.  Both are computed on a fixed set of points of the cube.

What a target error needs: the smallest epsilon, or the fewest rows, whose plan keeps the noise below it.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.accounting.charges import MOST_DELTA, exceeding_probability
from smoothsynth.errors import PlanError, one_line
from smoothsynth.methods.adaptive import Adaptive
from smoothsynth.model.model import empty_model
from smoothsynth.pipeline.plan import Forecast, Plan, plan
from smoothsynth.pipeline.terminal import as_text
from smoothsynth.queries.bases import feature_values
from smoothsynth.queries.level_histograms import LevelHistograms
from smoothsynth.queries.measurement import FULL_WEIGHT, MOST_ROWS
from smoothsynth.queries.soft_tables import Cells
from smoothsynth.schema import Category

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from smoothsynth.accounting.charges import Charge
    from smoothsynth.queries.families import Block
    from smoothsynth.queries.measurement import Measurement
    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]
    Queries = list[tuple[str, Array]]


_FEWEST_POINTS = 1024
_KERNEL_WIDTHS = (2.0, 4.0, 10.0)
# Typical queries are about so many coordinates at most: a kernel on a hundred is nearly zero everywhere.
_MOST_COORDINATES = 12


def forecast(plan: Plan) -> tuple[Forecast, ...]:
    """Predict the error of typical queries; noise is one standard deviation.

    Later rounds look at rows through what earlier ones will have released; here they look as if that were the flat density
    within the bounds, so that the true noise is rather smaller.
    """
    return forecast_queries(plan, typical_queries, range(min(plan.dimensions, _MOST_COORDINATES)))


def forecast_queries(plan: Plan, queries_at: Callable[[Array], Queries], own: range) -> tuple[Forecast, ...]:
    """Predict the error of queries on some coordinates, which `queries_at` evaluates at points that have only those."""
    looked_at = [(*pair, _blocks(pair[0], own, plan.dimensions)) for pair in _looked_at(plan)]
    # Twice as many points as features, so that what is unseen is not fitted away.
    count = max(_FEWEST_POINTS, 2 * sum(len(block.features) for *_, blocks in looked_at for block in blocks))
    points = _even_points(count, plan.dimensions)
    scaled = [column for m, noise, blocks in looked_at for column in _in_noise(m, noise, blocks, points)]
    matrix = np.stack(scaled, axis=1) if scaled else np.zeros((count, 0))
    matrix -= matrix.mean(axis=0)
    # c = N^-1/2 (Phi' Phi / k + I)^-1 Phi' f / k  with Phi in units of the noise N.
    system = matrix.T @ matrix / count
    system[np.diag_indices(len(system))] += 1.0
    queries = queries_at(points[:, own])
    centred = np.stack([values - values.mean() for _, values in queries], axis=1)
    coefficients = np.linalg.solve(system, matrix.T @ centred / count)
    unseen = np.sqrt(np.mean((centred - matrix @ coefficients) ** 2, axis=0))
    noise = np.linalg.norm(coefficients, axis=0)
    return tuple(Forecast(name, float(noise[i]), float(unseen[i])) for i, (name, _) in enumerate(queries))


def _blocks(m: Measurement, own: range, dimensions: int) -> list[Block]:
    """Return the blocks of features that read some coordinates and no others."""
    wanted = frozenset(own)
    found = (
        next((block for block in alternatives if block.read <= wanted), None)
        for alternatives in m.family.blocks(m.features, dimensions)
    )
    return [block for block in found if block is not None]


def _in_noise(m: Measurement, noise: Array, blocks: list[Block], points: Array) -> Iterator[Array]:
    """Yield the values of features at points, each in units of its noise."""
    factors = m.factors(points)
    for block in blocks:
        for feature, deviations in zip(block.features, noise[block.places], strict=True):
            yield feature_values(feature, factors) / math.hypot(*deviations)


def _looked_at(plan: Plan) -> Iterator[tuple[Measurement, Array]]:
    """Yield what is measured and its noise, through the transformations of a model that knows nothing but the schema.

    Tables are left out: they have many cells, and tell little of typical queries.
    Where bounds or levels have yet to be found, the schema has no coordinates to look at; then all is looked at straight.
    """
    model = empty_model(plan.schema) if plan.adaptive and plan.discovery is None else None
    for m in plan.measurements:
        if not isinstance(m.features, Cells):
            seen = m if model is None else replace(m, transformation=model.proposed(m, plan.rows))
            # The flat density has a value in every row.
            yield replace(seen, missing=()), m.deviations(plan.rows)


# A delta that a plan under pure epsilon is compared with, where the number of rows allows it.
_USUAL_DELTA = 1e-6


def with_delta(made: Plan) -> dict[str, Any]:
    """Return the expected errors of a plan under pure epsilon if it had a small delta; nothing where that is no choice."""
    if made.budget.delta or made.discovery is not None or not isinstance(made.method, Adaptive) or made.method.noise:
        return {}
    delta = min(_USUAL_DELTA, MOST_DELTA / made.rows)
    other = plan(
        made.schema,
        made.rows,
        epsilon=made.budget.epsilon,
        delta=delta,
        method=made.method,
        synthetic_rows=made.synthetic_rows,
        rows_per_person=made.rows_per_person,
    )
    return {"with_delta": {"delta": delta, "expected_errors": [f.as_dict() for f in other.forecast()]}}


NO_DEPENDENCE = (
    "No dependence between columns will be measured at this budget and number of rows: in the synthetic table columns are "
    "independent of each other. A delta, a larger epsilon or more rows would change that."
)

MISSED_TARGET = (
    "No table of several columns will be measured at this budget and number of rows, so the target changes nothing: noise "
    "would leave a table too few cells. More rows or a larger epsilon would change that; tables=N (--tables N) asks for N "
    "tables all the same."
)


def plan_text(plan: Plan) -> str:
    """Write a plan as a table that a statistician can read."""
    return as_text(plan_view(plan), width=100)


def plan_view(plan: Plan):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Return a plan as something that rich can print."""
    from rich.console import Group
    from rich.table import Table

    measured = Table(title="What is measured", title_justify="left")
    # What is measured is told in words and takes the room that is left, also where there are only 80 columns.
    measured.add_column("statistics")
    for heading, most in (("numbers", None), ("mechanism", 9), ("noise (sd)", 10), ("cost", 12)):
        measured.add_column(heading, justify="right", max_width=most)
    for row, times in Counter(_measured(plan)).items():
        words = row[0] if times == 1 else f"{times} times: {row[0]}"
        measured.add_row(words, *row[1:])
    delta = f", delta {plan.budget.delta:g}" if plan.budget.delta else " (pure)"
    unit = "rows" if plan.schema.person is None else "persons"
    head = (
        f"Plan: {plan.rows:,} {unit} x {len(plan.schema.names)} columns, epsilon {plan.budget.epsilon:g}{delta}, "
        f"protecting {protected(plan)}."
    )
    tail = f"{_rows_note(plan)} Method: {plan.method_text}. No data was read."
    notes = [] if plan.discovery is None else ["", *plan.discovery.sentences(plan.rows)]
    if plan.budget.delta:
        notes += ["", "Costs in per cent are shares of the sum of all 1/m^2, m the Gaussian noise by its sensitivity."]
        notes += ["", _delta_note(plan)]
    if len(plan.schema.names) > 1 and not plan.dependence:
        notes += ["", NO_DEPENDENCE]
    if plan.misses_target:
        notes += ["", MISSED_TARGET]
    if plan.schema.person is not None:
        notes += ["", _person_note(plan.schema.person, plan.rows_per_person)]
    for words in _of_levels(plan):
        notes += ["", words]
    if plan.schema.weight is not None:
        notes += ["", _weight_note(plan.schema.weight)]
    known = [one_line(f"Constraint: {text}") for text in plan.schema.constraints]
    return Group(head, *known, "", measured, *notes, "", _errors(plan), "", _ERRORS_NOTE, "", tail)


_ERRORS_NOTE = (
    "Standard error: of the estimate, from noise alone. Residual sd: of a row, what is left of the question after a "
    "regression on all that is measured. Both are computed for rows that are spread evenly between the bounds."
)


def _errors(plan: Plan):  # type: ignore[no-untyped-def]  # noqa: ANN202
    """Return the expected errors as a table, under pure epsilon with those that a delta would give."""
    from rich.table import Table

    other = with_delta(plan).get("with_delta")
    errors = Table(title="Expected errors of typical questions", title_justify="left")
    errors.add_column("the mean over rows of ...")
    headings = ["standard error", *([f"with delta {other['delta']:.0e}"] if other else []), "residual sd"]
    for heading in headings:
        errors.add_column(heading, justify="right", max_width=14)
    for place, f in enumerate(plan.forecast()):
        beside = [f"{other['expected_errors'][place]['noise']:.4f}"] if other else []
        errors.add_row(f.query, f"{f.noise:.4f}", *beside, f"{f.unseen:.4f}")
    return errors


def _rows_note(plan: Plan) -> str:
    """Say where the synthetic rows come from."""
    if plan.modelled:
        return f"{plan.synthetic_rows:,} synthetic rows are drawn from a model that is fitted to the noisy statistics."
    design = plan.design
    return (
        f"{plan.synthetic_rows:,} synthetic rows are drawn from {design.candidate_count:,} {design.candidates} candidates, "
        f"weighed by {design.fit}."
    )


def protected(plan: Plan) -> str:
    """Say whom or what the plan protects."""
    if plan.schema.person is None and plan.rows_per_person > 1:
        return f"{plan.rows_per_person} rows of one person"
    return plan.protects


def _person_note(person: str, most: int) -> str:
    """Say what becomes of persons with several rows."""
    taken = f"At most {most} rows of each are taken, and k of them weigh 1/k each"
    several = "One row of each is taken" if most == 1 else taken
    return (
        f"Persons are told apart by {one_line(repr(person))}, which is read and never released. {several}: "
        "every person weighs the same. A keyed hash decides which rows; those without an id are left out."
    )


def _of_levels(plan: Plan) -> Iterator[str]:
    """Say of each category with tiers what stands for it, and whether its levels are counted."""
    counted = {
        h.column for m in plan.measurements if isinstance(m.family, LevelHistograms) for h in m.family.histograms
    }
    for number, (name, column) in enumerate(plan.schema.columns.items()):
        if isinstance(column, Category) and column.hierarchy is not None:
            nodes = column.cube.texts
            kind = "parents" if column.parents is not None else "runs of the order in which they are declared"
            known = "are counted within each" if number in counted else "are not counted, since noise would drown them"
            yield one_line(
                f"Column {name!r:.60}: {len(column.levels):,} levels, in tables and answers as {len(nodes)} {kind}, such as "
                f"{nodes[0]!r:.60}. Levels {known}."
            )


def _weight_note(weight: str) -> str:
    """Say what becomes of survey weights."""
    return (
        f"Survey weights are in {one_line(repr(weight))}: a column like others, within its public bounds, that synthetic "
        "rows have too. Answers can be weighted with it, at no cost; the expected errors below are of answers that are not."
    )


def _delta_note(plan: Plan) -> str:
    """Say what delta means for this plan, and whether it is small enough."""
    epsilon, rarely = plan.budget.epsilon, exceeding_probability(plan.charges, plan.budget.epsilon)
    about = "row" if plan.schema.person is None else "person"
    said = f"Odds about a {about} may exceed e^{epsilon:g} : 1 with a probability of up to about {rarely:.1g}."
    if not rarely:
        said = "All noise is pure: this plan needs no delta, and spends none."
    if plan.budget.delta <= MOST_DELTA / plan.rows:
        return said
    advice = f"delta should be at most 1/(100 rows), {MOST_DELTA / plan.rows:.1g} for {plan.rows:,} rows"
    return f"{said} It is larger than advised: {advice}."


def _measured(plan: Plan) -> Iterator[tuple[str, str, str, str, str]]:
    """Give each charge of a plan in words: what, how many numbers, mechanism, noise and cost."""
    for found in () if plan.discovery is None else plan.discovery.charges:
        rows = f"{found.deviation / (1 if found.delta else FULL_WEIGHT):,.0f} rows"
        yield found.purpose, f"{found.coordinates:,}", found.mechanism, rows, cost_of(found, plan)
    for m in plan.measurements:
        # Cells of tables all have the same noise, and candidates are too many to list.
        own = m.charge().deviation / (plan.rows * np.array(m.weights, dtype=np.float64))
        low, high = np.min(own), np.max(own)
        spread = f"{low:.4f}" if high < low * 1.001 else f"{low:.4f} to {high:.4f}"
        for found in m.charges[:-1]:
            yield _in_row(found, plan)
        charge = m.charge()
        yield m.purpose, f"{charge.coordinates:,}", m.mechanism, spread, cost_of(charge, plan)
    if plan.design.subspace is not None:
        yield from (_in_row(plan.design.subspace.charge(), plan) for _ in range(plan.design.subspace.iterations))


def _in_row(charge: Charge, plan: Plan) -> tuple[str, str, str, str, str]:
    noise = f"{charge.deviation / (plan.rows * FULL_WEIGHT):.4f}"
    return charge.purpose, f"{charge.coordinates:,}", charge.mechanism, noise, cost_of(charge, plan)


def cost_of(charge: Charge, plan: Plan) -> str:
    """Say what a charge costs, in the fewest words.

    Gaussian charges add up by their squares: each is told as its share of that sum.
    """
    if charge.multiplier is not None:
        whole = math.fsum(one.multiplier**-2.0 for one in plan.charges if one.multiplier is not None)
        cost = f"{100.0 * charge.multiplier**-2.0 / whole:.1f} %"
    else:
        cost = f"epsilon {charge.epsilon:g}"
    return cost + (f", delta {charge.delta:g}" if charge.delta else "")


def _even_points(count: int, dimensions: int) -> NDArray[np.float64]:
    """Return a fixed low-discrepancy set: the additive recurrence of square roots of primes, in [-1, 1]^d."""
    steps = np.sqrt(_primes(dimensions)) % 1.0
    return 2.0 * ((np.arange(1, count + 1)[:, None] * steps) % 1.0) - 1.0


def _primes(count: int) -> NDArray[np.float64]:
    primes: list[int] = []
    number = 2
    while len(primes) < count:
        if all(number % p for p in primes if p * p <= number):
            primes.append(number)
        number += 1
    return np.array(primes, dtype=np.float64)


def typical_queries(points: Array) -> Queries:
    """Return the names of typical queries with their values at points of the cube."""
    one = points[:, 0]
    queries = [
        ("one column (its mean, in units of half its range)", one),
        ("a kernel of width 1 on one column", np.exp(-((one - 0.3) ** 2) / 2.0)),
    ]
    if points.shape[1] > 1:
        queries.append(("the product of two columns", one * points[:, 1]))
    squares = np.sum((points - 0.25) ** 2, axis=1)
    for width in _KERNEL_WIDTHS:
        name = f"a kernel of width {width:g} on {points.shape[1]} {'columns' if points.shape[1] > 1 else 'column'}"
        queries.append((name, np.exp(-squares / (2.0 * width**2))))
    return queries


def needed_epsilon(schema: Schema, rows: int, target: float, **choices: Any) -> float | None:
    """Return the smallest epsilon at which the noise of every typical query is at most `target`; None beyond 100."""
    return _smallest(lambda epsilon: plan(schema, rows, epsilon=epsilon, **choices), target, low=1e-3, high=100.0)


def needed_rows(schema: Schema, target: float, **choices: Any) -> int | None:
    """Return the smallest number of rows at which the noise of every typical query is at most `target`."""
    least = int(choices.get("rows_per_person", 1)) if schema.person is None else 1
    found = _smallest(lambda rows: plan(schema, int(rows), **choices), target, low=max(2, least), high=MOST_ROWS)
    return None if found is None else int(found) + 1


def _smallest(make: Callable[[float], Plan], target: float, *, low: float, high: float) -> float | None:
    """Bisect on a logarithmic scale for the least value whose plan keeps the noise of typical queries below."""
    if not (isinstance(target, (int, float)) and 0.0 < target < 1.0):
        raise PlanError(f"A target error must be a number between 0 and 1, not {target!r}.")

    def reached(value: float) -> bool:
        made = make(value)
        # Where private bounds would not be found, nothing is reached.
        found = made.discovery is None or made.discovery.needed <= made.rows
        return found and max(f.noise for f in made.forecast()) <= target

    if not reached(high):
        return None
    while high > low * 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
