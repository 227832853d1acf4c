"""What to measure, at what cost, and how to fit: complete and printable before any data is touched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from smoothsynth.accounting.charges import Budget, Charge, compose, unit_of_privacy
from smoothsynth.discovery.levels import MOST_FOUND
from smoothsynth.discovery.search import plan_discovery
from smoothsynth.errors import PlanError
from smoothsynth.methods import Adaptive
from smoothsynth.methods.layout import NOISES, check_count
from smoothsynth.methods.options import chosen_method
from smoothsynth.queries.measurement import FULL_WEIGHT, MOST_AVERAGED, MOST_ROWS
from smoothsynth.queries.soft_tables import Cells
from smoothsynth.schema import Schema
from smoothsynth.schema.unresolved import ASSUMED_LEVELS, assumed, open_levels

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from smoothsynth.discovery.search import Discovery
    from smoothsynth.methods.layout import Design
    from smoothsynth.methods.options import Method
    from smoothsynth.queries.measurement import Measurement


# More coordinates than this cannot be measured: at any sensible budget all would be noise.
MOST_COORDINATES = 5_000
# More synthetic rows than this tell nothing more; `sample_parts` draws as many as anyone likes.
MOST_SYNTHETIC = 10**6
# Features of one measurement, the lowest first, among which one of several columns would be.
_LOOKED_AT = 10_000


def _is_table(measurement: Measurement) -> bool:
    return isinstance(measurement.features, Cells) and len(measurement.features.tables[0]) > 1


@dataclass(frozen=True, slots=True)
class Plan:
    """A complete plan: what is measured with which noise, how rows are made, what it costs.

    `method` is the method with its options, `design` what it makes of the schema, the number of rows and the budget.

    If the schema names a person's id, `rows` is the number of persons, and at most `rows_per_person` rows of each are taken.

    With private bounds, levels or codes, `discovery` finds them first. The rest is planned for a table with so many
    columns, and planned again, at the same cost, for the levels that were found.
    """

    schema: Schema
    rows: int
    budget: Budget
    method: Method
    design: Design
    synthetic_rows: int
    rows_per_person: int
    discovery: Discovery | None = None

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What is measured once bounds and levels are known, in order."""
        return self.design.measurements

    @property
    def families(self) -> tuple[str, ...]:
        """The name of the query family of each measurement."""
        return tuple(measurement.family.name for measurement in self.measurements)

    @property
    def dependence(self) -> bool:
        """Whether anything is measured of how columns depend on each other."""
        return any(
            m.family.name == "clipped second moments"
            or _is_table(m)
            or any(len(term) > 1 for feature in islice(m.features, _LOOKED_AT) for term in feature.terms)
            for m in self.measurements
        )

    @property
    def misses_target(self) -> bool:
        """Whether a target was asked for and no table is measured that could hold it."""
        asked = getattr(self.method, "target", None)
        return bool(asked) and not any(map(_is_table, self.measurements))

    @property
    def protects(self) -> str:
        """Whom or what the promise is about, in words."""
        return unit_of_privacy(self.schema.person, self.rows_per_person)

    @property
    def method_text(self) -> str:
        """The method in words."""
        return (
            f"{self.method.name}, focus: {self.method.focus}" if isinstance(self.method, Adaptive) else self.method.name
        )

    @property
    def modelled(self) -> bool:
        """Whether rows come straight from the model, with nothing left to weigh."""
        return self.design.modelled

    @property
    def adaptive(self) -> bool:
        """Whether a model has to learn from each release, for the rows or for how the next one looks at them."""
        return self.design.adaptive

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What will be charged, in order."""
        first = () if self.discovery is None else self.discovery.charges
        return (*first, *self.design.charges)

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
            "method": self.method.name,
            "rows": self.rows,
            "columns": len(self.schema.names),
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
            "cost": {"epsilon": self.cost.epsilon, "delta": self.cost.delta},
            "rows_per_person": self.rows_per_person,
            **({} if self.schema.person is None else {"person": self.schema.person, "protects": self.protects}),
            **({} if self.schema.weight is None else {"weight": self.schema.weight}),
            **({"focus": self.method.focus} if isinstance(self.method, Adaptive) else {}),
            **self._discovery_facts(),
            "measurements": [facts for m in self.measurements for facts in _describe(m, self.rows)],
            "candidates": {"kind": self.design.candidates, "count": self.design.candidate_count},
            "fit": self.design.fit,
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

    def __repr__(self) -> str:
        delta = f", delta={self.budget.delta:g}" if self.budget.delta else ""
        return (
            f"<Plan: {self.rows:,} rows x {len(self.schema.names)} columns, epsilon={self.budget.epsilon:g}{delta}, "
            f"method {self.method.name}; print it to read it>"
        )

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
    schema: Schema | Mapping[str, Any] | str | Path,
    rows: int,
    *,
    epsilon: float,
    delta: float = 0.0,
    method: str | Method = "auto",
    synthetic_rows: int | None = None,
    rows_per_person: int = 1,
    bounds_share: float = 0.1,
    levels_share: float = 0.1,
    codes_share: float = 0.1,
    **old: Any,
) -> Plan:
    """Plan a release from public facts: the schema, the number of rows and the budget.

    There are as many synthetic rows as private ones, at most a million, unless `synthetic_rows` says otherwise.
    `method` is "auto", "paper" or "minimax", or one of them with options: `ss.methods.Adaptive(focus="marginals")`,
    `ss.methods.Paper(candidates="hypercube")`. `bounds_share`, `levels_share` and `codes_share` of the budget find what
    the schema calls "private", if anything. `old` are options of a method that were keywords here; they warn.
    """
    described = Schema.of(schema)
    method, _ = chosen_method(method, old, called=[plan])
    budget = check_choices(
        described,
        epsilon=epsilon,
        delta=delta,
        method=method,
        synthetic_rows=synthetic_rows,
        rows_per_person=rows_per_person,
    )
    known = assumed(described)
    _check_rows(known, rows, rows_per_person=rows_per_person)
    size = synthetic_rows or min(rows, MOST_SYNTHETIC)
    # A person whose rows are averaged moves the sums as one row would.
    together, averaged = (rows_per_person, 1) if described.person is None else (1, rows_per_person)

    def designed(rest: Budget) -> Design:
        return _averaging(method.design(known, rows, rest, rows_per_person=together, size=size), averaged)

    def discovered(*, gaussian: bool) -> Discovery | None:
        return plan_discovery(
            described,
            budget,
            bounds_share=bounds_share,
            levels_share=levels_share,
            codes_share=codes_share,
            rows_per_person=together,
            averaged=averaged,
            gaussian=gaussian,
        )

    discovery = discovered(gaussian=bool(delta) and method.noise != "pure")
    rest = budget if discovery is None else discovery.rest
    design = designed(Budget(rest.epsilon) if method.noise == "pure" else rest)
    # One kind of noise for all: Gaussian and pure costs add up worse than either by itself.
    if delta and design.measurements[0].epsilon is not None and (pure := discovered(gaussian=False)) is not None:
        discovery, design = pure, designed(Budget(pure.rest.epsilon))
    return Plan(described, rows, budget, method, design, size, rows_per_person, discovery)


def _averaging(design: Design, averaged: int) -> Design:
    """Return a design whose noise is for the averages of a person's rows."""
    if averaged == 1:
        return design
    if design.subspace is not None:
        raise PlanError(
            "The paper's subspace iteration takes one row of each person. Say rows_per_person=1, or choose other candidates."
        )
    return replace(design, measurements=tuple(replace(m, averaged=averaged) for m in design.measurements))


def plan_found(planned: Plan, schema: Schema) -> Plan:
    """Plan the rest again once private bounds and levels are found, with the budget and the kind of noise planned for it.

    Bounds change nothing. Levels do: with another number of them, other sums are measured with other shares of the same
    noise. So noise depends on an earlier release, and the ledger is what bounds it (docs/proofs/post-processing.md).
    """
    if planned.discovery is None:
        return planned
    rest = planned.discovery.rest
    made = plan(
        schema,
        planned.rows,
        epsilon=rest.epsilon,
        delta=rest.delta,
        method=replace(planned.method, noise=NOISES[planned.measurements[0].epsilon is None]),
        synthetic_rows=planned.synthetic_rows,
        rows_per_person=planned.rows_per_person,
    )
    return replace(made, budget=planned.budget, method=planned.method, discovery=planned.discovery)


def check_choices(
    schema: Schema,
    *,
    epsilon: float,
    delta: float,
    method: Method,
    synthetic_rows: int | None = None,
    rows_per_person: int = 1,
    **_shares: float,
) -> Budget:
    """Refuse choices that no plan can have, whatever the number of rows; return the budget."""
    budget, known = Budget(epsilon, delta), assumed(schema)
    check_count("synthetic_rows", 1 if synthetic_rows is None else synthetic_rows, 10**8)
    check_count("rows_per_person", rows_per_person, MOST_ROWS if schema.person is None else MOST_AVERAGED)
    _check_levels(schema, known)
    if known.dimensions > MOST_COORDINATES:
        raise PlanError(
            f"The schema has {known.dimensions:,} coordinates; at most {MOST_COORDINATES:,} can be measured. "
            "Leave out columns that nobody will ask about."
        )
    method.check(schema, budget)
    return budget


def _check_levels(schema: Schema, known: Schema) -> None:
    """Refuse more categories with private levels than can be measured if each turns out to have as many as it may."""
    searched = len(open_levels(schema))
    if searched and known.dimensions + searched * (MOST_FOUND + 1 - ASSUMED_LEVELS) > MOST_COORDINATES:
        raise PlanError(
            f"{searched} columns have private levels, up to {MOST_FOUND + 1} each, and the schema can have "
            f"{MOST_COORDINATES:,} coordinates at most. Declare the levels of some of them, or leave them out."
        )


def _describe(measurement: Measurement, rows: int) -> list[dict[str, Any]]:
    charges = measurement.charges
    noises = [charges[0].deviation / (rows * FULL_WEIGHT)] * (len(charges) - 1)
    noises.append(charges[-1].deviation / (rows * min(measurement.weights)))
    return [
        {**charge.as_dict(), "in_words": charge.sentence(), "noise_of_a_moment": noise}
        for charge, noise in zip(charges, noises, strict=True)
    ]


def _check_rows(schema: Schema, rows: int, *, rows_per_person: int) -> None:
    check_count("rows", rows, MOST_ROWS)
    if schema.person is None:
        check_count("rows_per_person", rows_per_person, rows)
    if schema.rules is not None:
        schema.rules.check_totals(schema.columns, rows)
