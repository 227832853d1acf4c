"""Differentially private synthetic tables that answer every smooth question.

import smoothsynth as ss

schema = ss.Schema({"age": ss.Number(0, 120), "visits": ss.Integer(0, 50)})
print(ss.plan(schema, rows=20_000, epsilon=1.0))
release = ss.release(frame, schema=schema, epsilon=1.0, seed=7)
release.write("out/")
"""

from smoothsynth.errors import (
    BudgetError,
    DataError,
    LedgerError,
    PlanError,
    ReleaseError,
    SchemaError,
    SmoothsynthError,
)
from smoothsynth.loading import load
from smoothsynth.paper.theory import theory
from smoothsynth.pipeline import release
from smoothsynth.plan import Plan, plan
from smoothsynth.privacy import Budget, Charge
from smoothsynth.release import Receipt, Release
from smoothsynth.schema import Integer, Number, Schema
from smoothsynth.version import VERSION as __version__

__all__ = [
    "Budget",
    "BudgetError",
    "Charge",
    "DataError",
    "Integer",
    "LedgerError",
    "Number",
    "Plan",
    "PlanError",
    "Receipt",
    "Release",
    "ReleaseError",
    "Schema",
    "SchemaError",
    "SmoothsynthError",
    "__version__",
    "load",
    "plan",
    "release",
    "theory",
]
