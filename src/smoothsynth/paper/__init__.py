"""The paper as printed: its queries, parameters, tables and theory, and other mechanisms for study.

What uses printed constants is marked `NOT_PRIVATE` ("not private as printed") and never makes a receipt.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Imported late, so that `smoothsynth --help` can name the paper's commands at once.
if TYPE_CHECKING:
    from smoothsynth.paper.printed import NOT_PRIVATE
    from smoothsynth.paper.queries import (
        Errors,
        GaussianMixtureQueries,
        answers,
        random_queries,
        smoothness_norm_bound,
        worst_errors,
    )
    from smoothsynth.paper.theory import Theory

__all__ = [
    "NOT_PRIVATE",
    "Errors",
    "GaussianMixtureQueries",
    "Theory",
    "answers",
    "random_queries",
    "smoothness_norm_bound",
    "worst_errors",
]

_ELSEWHERE = {"NOT_PRIVATE": "printed", "Theory": "theory"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'queries')}"), name)
