"""The delta of composed Gaussian noise a second time, from the definition instead of a closed form."""

from __future__ import annotations

import math

import numpy as np

_STEPS = 20_000
# Where the integrand has fallen by e^-60 from its peak, the rest is below 1e-20 of it.
_FALL = 60.0


def gaussian_delta_by_integral(mu: float, epsilon: float) -> float:
    """Integrate the privacy loss L ~ N(mu^2/2, mu^2) of Gaussian noise with mu = sensitivity / deviation:

        delta(epsilon) = E max(0, 1 - e^(epsilon - L)) = int_0^inf (1 - e^-s) N(epsilon + s; mu^2/2, mu^2) ds

    by Simpson's rule on [0, b], b where the density has fallen by e^-60. Nothing is shared with
    `privacy.gaussian_delta` (Balle and Wang 2018), which it is held against. Source of the definition: Sommer,
    Meiser and Mohammadi, PoPETs 2019, on privacy-loss distributions.
    """  # noqa: D400, D415
    away = epsilon - mu * mu / 2.0
    # The positive root of b^2 + 2 away b = 2 fall mu^2, written so that it loses no digits for large `away`.
    square = 2.0 * _FALL * mu * mu
    root = math.sqrt(away * away + square)
    length = square / (away + root) if away > 0.0 else root - away
    s = np.linspace(0.0, length, _STEPS + 1)
    logs = -((away + s) ** 2) / (2.0 * mu * mu)
    peak = float(logs.max())
    values = -np.expm1(-s) * np.exp(logs - peak)
    simpson = values[0] + values[-1] + 4.0 * values[1:-1:2].sum() + 2.0 * values[2:-1:2].sum()
    density = math.exp(peak) / (mu * math.sqrt(2.0 * math.pi))
    return float(density * simpson * length / _STEPS / 3.0)
