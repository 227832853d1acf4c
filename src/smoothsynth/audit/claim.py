"""What a mechanism claims, and what an event says about the claim."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from smoothsynth.accounting.charges import compose, gaussian_epsilon

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.accounting.charges import Charge


@dataclass(frozen=True, slots=True)
class Claim:
    """(epsilon, delta)-privacy; with a multiplier, all of the curve of Gaussian noise through that point."""

    epsilon: float
    delta: float = 0.0
    multiplier: float | None = None

    def shown(self, often: float, rarely: float) -> float:
        """Return the epsilon that must be admitted if P(S) >= often on one table and P(S) <= rarely on the other.

            delta = 0:     log(often / rarely)
            delta > 0:     log((often - delta) / rarely)
            Gaussian:      mu = Phi^-1(often) - Phi^-1(rarely);  the epsilon of Gaussian noise 1/mu at delta

        The last is the trade-off curve of Dong, Roth and Su 2019: no test between two outcomes of noise with
        multiplier m has Phi^-1(often) - Phi^-1(rarely) > 1/m. It needs no rare event, so it sees more.
        """
        if self.multiplier is None:
            return math.log((often - self.delta) / rarely) if often - self.delta > rarely else 0.0
        normal = NormalDist()
        if not 0.0 < often <= 1.0 or not 0.0 <= rarely < 1.0 or often <= rarely:
            return 0.0
        mu = normal.inv_cdf(min(often, 1.0 - 1e-16)) - normal.inv_cdf(max(rarely, 1e-300))
        return self.of_length(mu)

    def of_length(self, mu: float) -> float:
        """Return the epsilon at delta of unit Gaussian noise when a row moves its centre by mu."""
        return gaussian_epsilon(1.0 / mu, self.delta) if mu > 1e-3 else 0.0


def claim_of(charges: Sequence[Charge], *, delta: float) -> Claim:
    """Return what charges claim together; nothing charged claims that nothing can be learnt."""
    if not charges:
        return Claim(0.0)
    total = compose(charges, delta=delta)
    multipliers = [c.multiplier for c in charges if c.multiplier is not None]
    if len(multipliers) < len(charges):
        return Claim(total.epsilon, total.delta)
    return Claim(total.epsilon, total.delta, 1.0 / math.sqrt(math.fsum(m**-2 for m in multipliers)))
