"""Differentially private synthetic tables that answer every smooth question.

import smoothsynth as ss

schema = ss.Schema({"age": ss.Number(0, 120), "visits": ss.Integer(0, 50)})
print(ss.plan(schema, rows=20_000, epsilon=1.0))
release = ss.release(frame, schema=schema, epsilon=1.0, seed=7)
release.write("out/")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# For type checkers; at run time each name is imported when it is first asked for.
if TYPE_CHECKING:
    from smoothsynth import adapters, federated, methods
    from smoothsynth._runtime import VERSION as __version__
    from smoothsynth.accounting.charges import Budget, Charge
    from smoothsynth.adapters.scikit_learn import Synthesizer as Synthesizer
    from smoothsynth.answer.estimate import Estimate, Groups
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
    from smoothsynth.paper.theory import theory
    from smoothsynth.pipeline.attack import AttackReport, attack
    from smoothsynth.pipeline.check import CheckReport, check, draft
    from smoothsynth.pipeline.load import load
    from smoothsynth.pipeline.plan import Plan, plan
    from smoothsynth.pipeline.release import Receipt, Release
    from smoothsynth.pipeline.run import release
    from smoothsynth.pipeline.update import UpdateCost, update, update_cost
    from smoothsynth.schema import Boolean, Category, Date, Datetime, Integer, Number, Schema
    from smoothsynth.verification import Check, Verification, verify

__all__ = [
    "AttackReport",
    "Boolean",
    "Budget",
    "BudgetError",
    "Category",
    "Charge",
    "Check",
    "CheckReport",
    "DataError",
    "Date",
    "Datetime",
    "EngineError",
    "Estimate",
    "FederatedError",
    "Groups",
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
    "check",
    "draft",
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

_PLACES = {
    "accounting.charges": ("Budget", "Charge"),
    "adapters.scikit_learn": ("Synthesizer",),
    "answer.estimate": ("Estimate", "Groups"),
    "errors": tuple(name for name in __all__ if name.endswith("Error")),
    "paper.theory": ("theory",),
    "pipeline.attack": ("AttackReport", "attack"),
    "pipeline.check": ("CheckReport", "check", "draft"),
    "pipeline.load": ("load",),
    "pipeline.plan": ("Plan", "plan"),
    "pipeline.release": ("Receipt", "Release"),
    "pipeline.run": ("release",),
    "pipeline.update": ("UpdateCost", "update", "update_cost"),
    "schema": ("Boolean", "Category", "Date", "Datetime", "Integer", "Number", "Schema"),
    "verification": ("Check", "Verification", "verify"),
}
_PLACE = {name: f"{__name__}.{place}" for place, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "StudyError":
        return _renamed("StudyError", "FederatedError")
    if name in ("adapters", "federated", "methods"):
        return import_module(f"{__name__}.{name}")
    if name == "__version__":
        found = import_module(f"{__name__}._runtime").VERSION
    elif name in _PLACE:
        found = getattr(_module_of(name), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_meant(name)}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "Synthesizer"]


def _module_of(name: str) -> Any:
    try:
        return import_module(_PLACE[name])
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "sklearn":
            raise
        raise ImportError(f"{name} needs scikit-learn. Run: pip install 'smoothsynth[sklearn]'") from None


def _renamed(old: str, new: str) -> Any:
    import warnings

    warnings.warn(f"ss.{old} is now ss.{new}.", DeprecationWarning, stacklevel=3)
    return __getattr__(new)


def _meant(name: str) -> str:
    from smoothsynth.errors import meant

    # Python, doctest and notebooks look for names such as __wrapped__ that are not there on purpose.
    return "" if name.startswith("_") else meant(name, __dir__())
