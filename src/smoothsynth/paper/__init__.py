"""The paper as printed: its queries, parameters, tables and theory, and other mechanisms for study.

What uses printed constants is marked `NOT_PRIVATE` ("not private as printed") and never makes a receipt.
"""

from smoothsynth.paper.printed import NOT_PRIVATE
from smoothsynth.paper.queries import (
    Errors,
    GaussianMixtureQueries,
    answers,
    random_queries,
    smoothness_norm_bound,
    worst_errors,
)
from smoothsynth.paper.theory import Theory, theory

__all__ = [
    "NOT_PRIVATE",
    "Errors",
    "GaussianMixtureQueries",
    "Theory",
    "answers",
    "random_queries",
    "smoothness_norm_bound",
    "theory",
    "worst_errors",
]
