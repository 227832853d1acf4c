"""What to measure, at what cost, and how to fit: complete and printable before any data is touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.designs.auto import auto_design
from smoothsynth.designs.paper import paper_design
from smoothsynth.errors import PlanError
from smoothsynth.moments import MOST_ROWS, Measurement
from smoothsynth.privacy import Budget, Charge, compose

if TYPE_CHECKING:
    from smoothsynth.designs.design import Design
    from smoothsynth.schema import Schema
    from smoothsynth.subspace import SubspaceMeasurement

METHODS = ("auto", "paper")
CANDIDATES = ("model", "hypercube", "grid", "ellipsoid")
FITS = ("maximum entropy", "linear program")

# More coordinates than this cannot be measured: at any sensible budget all would be noise.
MOST_COORDINATES = 5_000
_LEAST_CANDIDATES = 10_000


@dataclass(frozen=True, slots=True)
class Plan:
    """A complete plan: what is measured with which noise, how rows are made, what it costs."""

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

    @property
    def modelled(self) -> bool:
        """Whether rows come straight from the model, with nothing left to weigh."""
        return (self.candidates, self.fit) == ("model", "maximum entropy")

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What will be charged, in order."""
        products = (self.subspace.charge(),) * self.subspace.iterations if self.subspace else ()
        return (*(m.charge() for m in self.measurements), *products)

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
            "measurements": [_describe(m, self.rows) for m in self.measurements],
            "candidates": {"kind": self.candidates, "count": self.candidate_count},
            "fit": self.fit,
            "synthetic_rows": self.synthetic_rows,
            "expected_errors": [f.as_dict() for f in self.forecast()],
        }

    def forecast(self) -> tuple[Forecast, ...]:
        """Predict the error of typical queries from public facts alone."""
        from smoothsynth.forecast import forecast

        return forecast(self)

    def __str__(self) -> str:
        from smoothsynth.forecast import plan_text

        return plan_text(self)


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
    smoothness: int = 16,
    features: int | None = None,
) -> Plan:
    """Plan a release from public facts: the schema, the number of rows and the budget.

    With `method="paper"`, `smoothness` is the K of its rules (a Gaussian kernel of width s has K = s^2), and
    `features` replaces its number of lowest basis functions.
    """
    budget = Budget(epsilon, delta)
    _check_counts(schema, rows, synthetic_rows=synthetic_rows, rows_per_person=rows_per_person, smoothness=smoothness)
    _check_choice("method", method, METHODS)
    size = synthetic_rows or rows
    if method == "auto":
        design = auto_design(schema, rows, budget, rows_per_person=rows_per_person, size=size)
    else:
        chosen = candidates or "ellipsoid"
        _check_choice("candidates", chosen, CANDIDATES)
        design = paper_design(
            schema,
            rows,
            budget,
            candidates=chosen,
            smoothness=smoothness,
            features=features,
            rows_per_person=rows_per_person,
        )
    _check_choice("candidates", candidates or design.candidates, _candidates_for(design))
    _check_choice("fit", fit or design.fit, FITS)
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
    )


def _candidates_for(design: Design) -> tuple[str, ...]:
    """Leave the ellipsoid out where no subspace iteration is planned: it is made of one."""
    return CANDIDATES if design.subspace else tuple(c for c in CANDIDATES if c != "ellipsoid")


def _describe(measurement: Measurement, rows: int) -> dict[str, Any]:
    charge = measurement.charge()
    return {
        **charge.as_dict(),
        "in_words": charge.sentence(),
        "noise_of_a_moment": float(np.max(measurement.deviations(rows))),
    }


def _check_counts(
    schema: Schema, rows: int, *, synthetic_rows: int | None, rows_per_person: int, smoothness: int
) -> None:
    for name, value, most in (
        ("rows", rows, MOST_ROWS),
        ("synthetic_rows", 1 if synthetic_rows is None else synthetic_rows, 10**8),
        ("rows_per_person", rows_per_person, rows if isinstance(rows, int) else 1),
        ("smoothness", smoothness, 10_000),
    ):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= most:
            raise PlanError(f"{name} must be a whole number from 1 to {most:,}, not {value!r}.")
    if schema.dimensions > MOST_COORDINATES:
        raise PlanError(
            f"The schema has {schema.dimensions:,} coordinates; at most {MOST_COORDINATES:,} can be measured. "
            "Leave out columns that nobody will ask about."
        )


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise PlanError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}.")
