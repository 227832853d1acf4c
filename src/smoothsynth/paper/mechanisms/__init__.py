"""Other private mechanisms for smooth queries, small and honest, for study and tests.

For public or synthetic data: the noise is floating point from a seeded generator, so none of this is fit
for release. The privacy accounting of each is correct in real arithmetic and given in its docstring.
"""

from smoothsynth.paper.mechanisms.domain import Grid
from smoothsynth.paper.mechanisms.laplace_queries import NoisyAnswers, laplace_answers, query_ranges
from smoothsynth.paper.mechanisms.multiplicative_weights import OnlineAnswers, multiplicative_weights
from smoothsynth.paper.mechanisms.small_databases import SmallDatabases, small_databases
from smoothsynth.paper.mechanisms.synopsis import Synopsis, synopsis, tensor_sensitivity

__all__ = [
    "Grid",
    "NoisyAnswers",
    "OnlineAnswers",
    "SmallDatabases",
    "Synopsis",
    "laplace_answers",
    "multiplicative_weights",
    "query_ranges",
    "small_databases",
    "synopsis",
    "tensor_sensitivity",
]
