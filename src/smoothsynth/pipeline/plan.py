"""What to measure, at what cost, and how to fit: complete and printable before any data is touched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.accounting.charges import Budget, Charge, compose
from smoothsynth.discovery.search import plan_discovery
from smoothsynth.errors import PlanError
from smoothsynth.methods.adaptive import auto_design
from smoothsynth.methods.layout import FOCUSES, MOST_CHOSEN_FROM, Shape
from smoothsynth.methods.paper import paper_design
from smoothsynth.queries.measurement import FULL_WEIGHT, MOST_ROWS, Measurement
from smoothsynth.schema import Schema
from smoothsynth.schema.unresolved import assumed

if TYPE_CHECKING:
    from smoothsynth.discovery.search import Discovery
    from smoothsynth.methods.layout import Design
    from smoothsynth.methods.paper import SubspaceMeasurement


METHODS = ("auto", "paper")
NOISES = ("pure", "gaussian")
CANDIDATES = ("model", "hypercube", "grid", "ellipsoid")
FITS = ("maximum entropy", "linear program")

# Choices that only a plan for a number of rows can check.
_OTHER_CHOICES = {"candidate_count", "features", "bounds_share", "levels_share"}
# More coordinates than this cannot be measured: at any sensible budget all would be noise.
MOST_COORDINATES = 5_000
_LEAST_CANDIDATES = 10_000
# More pairs than this are not chosen one by one.
MOST_ASKED = 200


@dataclass(frozen=True, slots=True)
class Plan:
    """A complete plan: what is measured with which noise, how rows are made, what it costs.

    With private bounds or levels, `discovery` finds them first. The rest is planned for a table with so many columns, and
    planned again, at the same cost, for the levels that were found.
    """

    schema: Schema
    rows: int
    budget: Budget
    method: str
    measurements: tuple[Measurement, ...]
    looks: tuple[str | None, ...]
    subspace: SubspaceMeasurement | None
    fitted: int | None
    levels: int | None
    candidates: str
    candidate_count: int
    fit: str
    synthetic_rows: int
    rows_per_person: int
    focus: str = "balanced"
    discovery: Discovery | None = None

    @property
    def modelled(self) -> bool:
        """Whether rows come straight from the model, with nothing left to weigh."""
        return (self.candidates, self.fit) == ("model", "maximum entropy")

    @property
    def adaptive(self) -> bool:
        """Whether a model has to learn from each release, for the rows or for how the next one looks at them."""
        return self.modelled or any(self.looks)

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What will be charged, in order."""
        products = (self.subspace.charge(),) * self.subspace.iterations if self.subspace else ()
        first = () if self.discovery is None else self.discovery.charges
        return (*first, *(charge for m in self.measurements for charge in m.charges), *products)

    @property
    def dimensions(self) -> int:
        """The number of coordinates; private levels count as an assumed number of them."""
        return self.schema.dimensions if self.discovery is None else assumed(self.schema).dimensions

    @property
    def cost(self) -> Budget:
        """What all charges will cost together."""
        return compose(self.charges, delta=self.budget.delta)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return {
            "method": self.method,
            "rows": self.rows,
            "columns": len(self.schema.names),
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
            "cost": {"epsilon": self.cost.epsilon, "delta": self.cost.delta},
            "rows_per_person": self.rows_per_person,
            "focus": self.focus,
            **self._discovery_facts(),
            "measurements": [facts for m in self.measurements for facts in _describe(m, self.rows)],
            "candidates": {"kind": self.candidates, "count": self.candidate_count},
            "fit": self.fit,
            "synthetic_rows": self.synthetic_rows,
            "expected_errors": [f.as_dict() for f in self.forecast()],
        }

    def _discovery_facts(self) -> dict[str, Any]:
        if self.discovery is None:
            return {}
        charges = [{**charge.as_dict(), "in_words": charge.sentence()} for charge in self.discovery.charges]
        return {"discovery": {"charges": charges, "notes": self.discovery.sentences(self.rows)}}

    def forecast(self) -> tuple[Forecast, ...]:
        """Predict the error of typical queries from public facts alone."""
        from smoothsynth.pipeline.forecast import forecast

        return forecast(self)

    def __str__(self) -> str:
        from smoothsynth.pipeline.forecast import plan_text

        return plan_text(self)

    def _repr_html_(self) -> str:
        from smoothsynth.report.notebook import plan_html

        return plan_html(self)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The predicted error of one kind of query: from noise, and what no measured moment sees."""

    query: str
    noise: float
    unseen: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"query": self.query, "noise": self.noise, "unseen": self.unseen}


def plan(
    schema: Schema,
    rows: int,
    *,
    epsilon: float,
    delta: float = 0.0,
    method: str = "auto",
    candidates: str | None = None,
    candidate_count: int | None = None,
    fit: str | None = None,
    synthetic_rows: int | None = None,
    rows_per_person: int = 1,
    focus: str = "balanced",
    smoothness: int = 16,
    features: int | None = None,
    bounds_share: float = 0.1,
    levels_share: float = 0.1,
    chosen_pairs: int | None = None,
    noise: str | None = None,
) -> Plan:
    """Plan a release from public facts: the schema, the number of rows and the budget.

    `focus` leans towards "queries" (wide kernels), "marginals" or "correlations". `smoothness` is the order K of the
    queries that matter (a Gaussian kernel of width s has K = s^2): rougher ones (small K) buy more degrees in each column;
    in `method="paper"` it is the K of its rules. `features` replaces the paper's number of lowest basis functions.
    `bounds_share` and `levels_share` of the budget find the bounds and levels that the schema calls "private", if any.
    `chosen_pairs` is how many pairs of columns are found that the model has most wrong, and measured by themselves, in
    place of the shapes of all pairs; by default this is done in wide tables where the number of rows allows it, 0 is never.
    `noise` is "gaussian" or "pure", by default what serves better at this budget; the first needs a delta.
    """
    budget = check_choices(
        schema,
        epsilon=epsilon,
        delta=delta,
        method=method,
        candidates=candidates,
        fit=fit,
        synthetic_rows=synthetic_rows,
        rows_per_person=rows_per_person,
        focus=focus,
        smoothness=smoothness,
        chosen_pairs=chosen_pairs,
        noise=noise,
    )
    known = assumed(schema)
    _check_rows(known, rows, rows_per_person=rows_per_person)
    size = synthetic_rows or rows

    def designed(rest: Budget) -> Design:
        if method == "auto":
            return auto_design(
                known,
                rows,
                rest,
                rows_per_person=rows_per_person,
                size=size,
                focus=focus,
                smoothness=smoothness,
                chosen=chosen_pairs,
                gaussian=noise == "gaussian",
                weighed=candidates not in (None, "model") or fit not in (None, "maximum entropy"),
            )
        return paper_design(
            known,
            rows,
            rest,
            candidates=candidates or "ellipsoid",
            smoothness=smoothness,
            features=features,
            rows_per_person=rows_per_person,
        )

    def discovered(*, gaussian: bool) -> Discovery | None:
        return plan_discovery(
            schema,
            budget,
            bounds_share=bounds_share,
            levels_share=levels_share,
            rows_per_person=rows_per_person,
            gaussian=gaussian,
        )

    discovery = discovered(gaussian=bool(delta) and noise != "pure")
    rest = budget if discovery is None else discovery.rest
    design = designed(Budget(rest.epsilon) if noise == "pure" else rest)
    # One kind of noise for all: Gaussian and pure costs add up worse than either by itself.
    if delta and design.measurements[0].epsilon is not None and (pure := discovered(gaussian=False)) is not None:
        discovery, design = pure, designed(Budget(pure.rest.epsilon))
    changed = candidates not in (None, design.candidates) or fit not in (None, design.fit)
    count = max(_LEAST_CANDIDATES, min(size, 100_000)) if changed else design.candidate_count
    return Plan(
        schema=schema,
        rows=rows,
        budget=budget,
        method=method,
        measurements=design.measurements,
        looks=design.looks or (None,) * len(design.measurements),
        subspace=design.subspace,
        fitted=design.fitted,
        levels=None if changed else design.levels,
        candidates=candidates or design.candidates,
        candidate_count=candidate_count or count,
        fit=fit or design.fit,
        synthetic_rows=size,
        rows_per_person=rows_per_person,
        focus=focus,
        discovery=discovery,
    )


def plan_found(planned: Plan, schema: Schema, **choices: Any) -> Plan:
    """Plan the rest again once private bounds and levels are found, with the budget and the kind of noise planned for it.

    Bounds change nothing. Levels do: with another number of them, other sums are measured with other shares of the same
    noise. So noise depends on an earlier release, and the ledger is what bounds it (docs/proofs/post-processing.md).
    """
    if planned.discovery is None:
        return planned
    rest = planned.discovery.rest
    same = {**choices, "method": planned.method, "noise": NOISES[planned.measurements[0].epsilon is None]}
    made = plan(schema, planned.rows, epsilon=rest.epsilon, delta=rest.delta, **same)
    return replace(made, budget=planned.budget, discovery=planned.discovery)


def check_choices(
    schema: Schema,
    *,
    epsilon: float,
    delta: float = 0.0,
    method: str = "auto",
    candidates: str | None = None,
    fit: str | None = None,
    synthetic_rows: int | None = None,
    rows_per_person: int = 1,
    focus: str = "balanced",
    smoothness: int = 16,
    chosen_pairs: int | None = None,
    noise: str | None = None,
    **others: Any,
) -> Budget:
    """Refuse choices that no plan can have, whatever the number of rows; return the budget."""
    if strange := others.keys() - _OTHER_CHOICES:
        raise TypeError(f"plan() got an unexpected keyword argument {min(strange)!r}")
    _check_schema(schema)
    budget, known = Budget(epsilon, delta), assumed(schema)
    _check_count("synthetic_rows", 1 if synthetic_rows is None else synthetic_rows, 10**8)
    _check_count("rows_per_person", rows_per_person, MOST_ROWS)
    _check_count("smoothness", smoothness, 10_000)
    if known.dimensions > MOST_COORDINATES:
        raise PlanError(
            f"The schema has {known.dimensions:,} coordinates; at most {MOST_COORDINATES:,} can be measured. "
            "Leave out columns that nobody will ask about."
        )
    _check_choice("method", method, METHODS)
    _check_choice("focus", focus, tuple(FOCUSES))
    # The ellipsoid is made of the subspace iteration, which is the paper's.
    drawn = CANDIDATES if method == "paper" else tuple(c for c in CANDIDATES if c != "ellipsoid")
    _check_choice("candidates", candidates or "model", drawn)
    _check_choice("fit", fit or FITS[0], FITS)
    _check_chosen(known, chosen_pairs, method=method)
    _check_noise(noise, budget)
    return budget


def _check_schema(schema: object) -> None:
    if not isinstance(schema, Schema):
        raise PlanError(f"The schema must be a Schema, not a {type(schema).__name__}; a file is read with Schema.load.")


def _describe(measurement: Measurement, rows: int) -> list[dict[str, Any]]:
    charges = measurement.charges
    noises = [charges[0].deviation / (rows * FULL_WEIGHT)] * (len(charges) - 1)
    noises.append(float(np.max(measurement.deviations(rows))))
    return [
        {**charge.as_dict(), "in_words": charge.sentence(), "noise_of_a_moment": noise}
        for charge, noise in zip(charges, noises, strict=True)
    ]


def _check_rows(schema: Schema, rows: int, *, rows_per_person: int) -> None:
    _check_count("rows", rows, MOST_ROWS)
    _check_count("rows_per_person", rows_per_person, rows)
    if schema.rules is not None:
        schema.rules.check_totals(schema.columns, rows)


def _check_count(name: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= most:
        raise PlanError(f"{name} must be a whole number from 1 to {most:,}, not {value!r}.")


def _check_chosen(schema: Schema, chosen: int | None, *, method: str) -> None:
    if not chosen and type(chosen) in (int, type(None)):
        return
    most = min(Shape.of(schema).choosable // 2, MOST_ASKED)
    if type(chosen) is not int or not 0 < chosen <= most or method != "auto":
        raise PlanError(
            f"chosen_pairs must be a whole number from 0 to {most:,} with method='auto' for this schema (half of the pairs "
            f"of up to {MOST_CHOSEN_FROM} columns of numbers that no constraint binds, {MOST_ASKED} at most), not {chosen!r}."
        )


def _check_noise(noise: str | None, budget: Budget) -> None:
    if noise is not None:
        _check_choice("noise", noise, NOISES)
    if noise == "gaussian" and not budget.delta:
        raise PlanError("Gaussian noise needs a delta: give one of at most 1/(100 rows), or leave out noise.")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise PlanError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}.")
