"""Differentially private synthetic tables that answer every smooth question.

import smoothsynth as ss

schema = ss.Schema({"age": ss.Number(0, 120), "visits": ss.Integer(0, 50)})
print(ss.plan(schema, rows=20_000, epsilon=1.0))
release = ss.release(frame, schema=schema, epsilon=1.0, seed=7)
release.write("out/")
"""

import warnings
from typing import TYPE_CHECKING, Any

from smoothsynth import adapters, federated, methods
from smoothsynth._runtime import VERSION as __version__
from smoothsynth.accounting.charges import Budget, Charge
from smoothsynth.answer.estimate import Estimate
from smoothsynth.errors import (
    BudgetError,
    DataError,
    EngineError,
    FederatedError,
    LedgerError,
    PlanError,
    ReleaseError,
    SchemaError,
    SmoothsynthError,
)
from smoothsynth.pipeline.attack import AttackReport, attack
from smoothsynth.pipeline.load import load
from smoothsynth.pipeline.plan import Plan, plan
from smoothsynth.pipeline.release import Receipt, Release
from smoothsynth.pipeline.run import release
from smoothsynth.pipeline.update import UpdateCost, update, update_cost
from smoothsynth.schema import Boolean, Category, Date, Datetime, Integer, Number, Schema
from smoothsynth.verification import Check, Verification, verify

if TYPE_CHECKING:
    from smoothsynth.adapters.scikit_learn import Synthesizer as Synthesizer
    from smoothsynth.paper.theory import theory as theory

__all__ = [
    "AttackReport",
    "Boolean",
    "Budget",
    "BudgetError",
    "Category",
    "Charge",
    "Check",
    "DataError",
    "Date",
    "Datetime",
    "EngineError",
    "Estimate",
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
    "UpdateCost",
    "Verification",
    "__version__",
    "adapters",
    "attack",
    "federated",
    "load",
    "methods",
    "plan",
    "release",
    "theory",
    "update",
    "update_cost",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "StudyError":
        warnings.warn("ss.StudyError is now ss.FederatedError.", DeprecationWarning, stacklevel=2)
        return FederatedError
    if name == "theory":
        from smoothsynth.paper.theory import theory

        return theory
    # scikit-learn is optional, and slow to import.
    if name != "Synthesizer":
        raise AttributeError(f"module 'smoothsynth' has no attribute {name!r}")
    try:
        from smoothsynth.adapters.scikit_learn import Synthesizer
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "sklearn":
            raise
        raise ImportError("Synthesizer needs scikit-learn. Run: pip install 'smoothsynth[sklearn]'") from None
    return Synthesizer
