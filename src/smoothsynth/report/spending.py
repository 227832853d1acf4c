"""What each charge was for and which share of the budget it took, in words that need no formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from smoothsynth.privacy import Charge
    from smoothsynth.release import Release

_NOISE = {
    "cube": "noise uniform in a random cube",
    "discrete laplace": "two-sided geometric (discrete Laplace) noise",
    "discrete gaussian": "discrete Gaussian noise",
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
    one Gaussian release of 1/m^2 = sum 1/m_k^2, so the share of a charge is (1/m_k^2) / (1/m^2).
    """
    charges = release.receipt.charges
    sizes = [_size(charge) for charge in charges]
    noise = _noise_of_moments(release)
    return tuple(
        Spending(
            purpose=charge.purpose,
            numbers=charge.coordinates,
            share=size / sum(sizes),
            noise=f"{_NOISE[charge.mechanism]}{noise[k]}",
            cost=_cost(charge),
            in_words=release.receipt.in_words(charge),
        )
        for k, (charge, size) in enumerate(zip(charges, sizes, strict=True))
    )


def _size(charge: Charge) -> float:
    return charge.epsilon if charge.epsilon is not None else float(charge.multiplier or 1.0) ** -2


def _cost(charge: Charge) -> str:
    if charge.epsilon is not None:
        return f"ε = {charge.epsilon:.4g}"
    return f"1/{charge.multiplier:.4g}²"


def _noise_of_moments(release: Release) -> list[str]:
    """Say how large the noise of each charge is on the scale of its moments, which lie between -1 and 1."""
    texts = []
    for moments in release.moments:
        low, high = float(np.min(moments.deviations)), float(np.max(moments.deviations))
        spread = f"{low:.2g}" if high < low * 1.05 else f"{low:.2g} to {high:.2g}"
        texts.append(f", standard deviation {spread} where a moment lies between -1 and 1")
    return texts + [""] * (len(release.receipt.charges) - len(texts))
