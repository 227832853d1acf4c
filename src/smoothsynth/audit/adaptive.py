"""The case of charges that are chosen after seeing outcomes: an analyst who asks a ledger for as much as it will take.

The analyst measures one sum with Gaussian noise and half of what Gaussian noise may have. If the privacy loss came out
above what that costs, all that the ledger still takes goes into pure noise, otherwise into more Gaussian noise. With
"pure epsilons plus what all Gaussians cost" as the rule for whatever comes next, this breaks the total's promise
(docs/proofs/composition.md); a privacy filter keeps it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.accounting.charges import Budget, gaussian_epsilon, gaussian_multiplier
from smoothsynth.accounting.ledger import Ledger
from smoothsynth.audit import likelihood
from smoothsynth.audit.case import Case
from smoothsynth.audit.claim import Claim
from smoothsynth.errors import BudgetError
from smoothsynth.private import noise
from smoothsynth.queries.measurement import charge_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.accounting.charges import Charge
    from smoothsynth.audit.case import Looks

# A delta large enough that an event of that size can be counted; the rule fails by more the smaller it is.
TOTAL = Budget(2.0, 0.1)
_MOVE = 2**16
# Losses above so many times what the first charge costs are worth more with pure noise.
_SWITCH = 1.3
_TRIED = 400


def adaptive_cases() -> list[Case]:
    """Return the strategy against the ledger of one release."""
    first = _gaussian(2.0 * gaussian_multiplier(TOTAL.epsilon, TOTAL.delta))
    multiplier = gaussian_multiplier(TOTAL.epsilon, TOTAL.delta)
    largest = [TOTAL.epsilon * (1.0 - step / _TRIED) for step in range(_TRIED)]
    pure = _accepted(first, [_pure(epsilon) for epsilon in largest])
    more = _accepted(first, [_gaussian(multiplier * (1.0 + step / _TRIED)) for step in range(_TRIED)])
    high = _SWITCH * gaussian_epsilon(first.multiplier or math.inf, TOTAL.delta)

    def draw(side: int, trials: int) -> Looks:
        loss = _losses(first, side, trials)
        favoured, total = loss > high, loss.copy()
        for charge, chosen in ((pure, favoured), (more, ~favoured)):
            total[chosen] += _losses(charge, side, int(chosen.sum()))
        return {"numbers": np.column_stack([total, loss])}

    words = f"sums 0 / {_MOVE} or 0 / 1; {first.mechanism}, then the kind that the outcome favours"
    return [Case("charges chosen as outcomes come", words, Claim(TOTAL.epsilon, TOTAL.delta), None, draw, share=20.0)]


def _accepted(first: Charge, wishes: Sequence[Charge]) -> Charge:
    """Return the first of some charges that a ledger of the total takes after the first charge."""
    for wish in wishes:
        ledger = Ledger(TOTAL)
        ledger.charge(first)
        try:
            ledger.charge(wish)
        except BudgetError:
            continue
        return wish
    raise AssertionError("a ledger takes a charge of next to nothing")


def _losses(charge: Charge, side: int, trials: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Draw a noisy sum so often on one table, and return the privacy losses."""
    move = round(charge.sensitivity)
    exact = [side * move] * trials
    if charge.epsilon is None:
        drawn = noise.add_gaussian_noise(exact, sensitivity=move, multiplier=charge.multiplier or math.inf)
    else:
        drawn = noise.add_laplace_noise(exact, sensitivity=move, epsilon=charge.epsilon)
    released = np.array(drawn, dtype=np.float64)[:, None]
    return likelihood.losses(released, np.zeros(1), np.full(1, float(move)), charge=charge)


def _pure(epsilon: float) -> Charge:
    # A sum that is 0 or 1 is randomised response: its loss is epsilon or -epsilon, and nothing is more telling.
    return charge_for("the audit", "discrete laplace", sensitivity=1, coordinates=1, epsilon=epsilon, multiplier=None)


def _gaussian(multiplier: float) -> Charge:
    return charge_for(
        "the audit", "discrete gaussian", sensitivity=_MOVE, coordinates=1, epsilon=None, multiplier=multiplier
    )
