"""What each charge was for and which share of the budget it took, in words that need no formula."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.accounting.charges import Charge
    from smoothsynth.release import Release

_NOISE = {
    "cube": "noise uniform in a random cube",
    "ball": "noise in a random direction, of random length",
    "discrete laplace": "two-sided geometric (discrete Laplace) noise",
    "discrete gaussian": "discrete Gaussian noise",
    "noisy maxima": "the largest of scores with Gumbel noise: which they are, not how large",
    "stable histogram": "two-sided geometric (discrete Laplace) noise on counts, rare values left out",
}


@dataclass(frozen=True, slots=True)
class Spending:
    """One charge: its purpose, how many numbers it released, its share of the budget, its noise and its cost."""

    purpose: str
    numbers: int
    share: float
    noise: str
    cost: str
    in_words: str


def spending(release: Release) -> tuple[Spending, ...]:
    """Describe the charges in order.

    Shares of a pure budget are those of epsilon. With Gaussian noise of multipliers m_1, m_2, ... the whole release is
    one Gaussian release of 1/m^2 = sum 1/m_k^2, so the share of a charge is (1/m_k^2) / (1/m^2) of what pure ones leave.
    """
    charges = release.receipt.charges
    shares = _shares(charges, release.receipt.budget.epsilon)
    noise = _noise_of_moments(release)
    return tuple(
        Spending(
            purpose=charge.purpose,
            numbers=charge.coordinates,
            share=shares[k],
            noise=f"{_NOISE[charge.mechanism]}{noise[k]}",
            cost=_cost(charge),
            in_words=release.receipt.in_words(charge),
        )
        for k, charge in enumerate(charges)
    )


def _shares(charges: Sequence[Charge], epsilon: float) -> list[float]:
    pure = math.fsum(c.epsilon for c in charges if c.epsilon is not None)
    inverse = math.fsum(c.multiplier**-2 for c in charges if c.multiplier is not None)
    whole = epsilon if inverse else pure
    left = 1.0 - pure / whole
    return [
        c.epsilon / whole if c.epsilon is not None else left * float(c.multiplier or 1.0) ** -2 / inverse
        for c in charges
    ]


def _cost(charge: Charge) -> str:
    if charge.epsilon is not None:
        return f"ε = {charge.epsilon:.4g}" + (f", δ = {charge.delta:.2g}" if charge.delta else "")
    return f"1/{charge.multiplier:.4g}²"


def _noise_of_moments(release: Release) -> list[str]:
    """Say how large the noise of each charge is on the scale of its moments: from -1 to 1, those of counts from 0 to 1."""
    texts = [] if release.found is None else [""] * len(release.found.charges)
    for moments in release.moments:
        texts += [""] * (len(moments.measurement.charges) - 1)
        low, high = float(np.min(moments.deviations)), float(np.max(moments.deviations))
        spread = f"{low:.2g}" if high < low * 1.05 else f"{low:.2g} to {high:.2g}"
        view = moments.measurement.view
        scale = (
            "a moment lies between -1 and 1"
            if view is None or view.counts is None
            else "a count is a share of the rows"
        )
        texts.append(f", standard deviation {spread} where {scale}")
    return texts + [""] * (len(release.receipt.charges) - len(texts))
