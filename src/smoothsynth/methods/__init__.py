"""How a release is made: each method with its options, and the design that it makes of public facts.

ss.plan(schema, 20_000, epsilon=1.0, method=ss.methods.Adaptive(focus="marginals"))
"""

from smoothsynth.methods.adaptive import Adaptive
from smoothsynth.methods.minimax import Minimax
from smoothsynth.methods.paper import Paper

__all__ = ["Adaptive", "Minimax", "Paper"]
