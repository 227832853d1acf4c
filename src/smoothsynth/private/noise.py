"""The only source of privacy noise: exact integer draws from the entropy of the operating system, no seed.

Noise is drawn before and apart from the sums it is added to, so nothing here depends on a private value, but for noisy
maxima. Discrete Laplace and Gaussian draws and noisy maxima are OpenDP's; `secrets` gives the uniform integers of the cube
and the digits of the ball.
"""

from __future__ import annotations

import math
import operator
import re
import secrets
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from smoothsynth.accounting.charges import ball_scale, cube_scale, gaussian_sigma, laplace_scale, maxima_scale
from smoothsynth.errors import PlanError
from smoothsynth.private.ball import draw_ball

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# OpenDP answers in 64-bit integers and saturates. A Laplace magnitude from FAR on is redrawn beyond it.
FAR = 2**62
LARGEST_SCALE = 2.0**62
LARGEST_SIGMA = 2.0**52
# The expected number of attempts of the cube's sampler is at most e^(R / (2 scale)) <= e^4 up to here.
MOST_COORDINATES_PER_SCALE = 8
# Older OpenDP samplers are biased: a rational division was wrong (opendp/opendp issue 2638).
FIRST_UNBIASED_OPENDP = (0, 14, 2)


def add_cube_noise(sums: Sequence[int], *, sensitivity: float, epsilon: float) -> list[int]:
    """Add one joint draw z with P(z) proportional to exp(-|z|_inf / scale): exactly epsilon-private.

    scale = sensitivity / epsilon rounded up, sensitivity in the maximum norm. Hardt and Talwar 2010, the
    K-norm mechanism of the cube. Proof: docs/proofs/cube-mechanism.md.
    """
    return _add(sums, _draw_cube(len(sums), cube_scale(sensitivity, epsilon)))


def add_ball_noise(sums: Sequence[int], *, sensitivity: float, epsilon: float) -> list[int]:
    """Add one joint draw of density proportional to exp(-|z|_2 / scale), rounded: exactly epsilon-private.

    scale = sensitivity / epsilon rounded up, sensitivity in the L2 norm. Hardt and Talwar 2010, the K-norm mechanism
    of the ball. Proof: docs/proofs/ball-mechanism.md.
    """
    return _add(sums, _draw_ball(len(sums), ball_scale(sensitivity, epsilon)))


def add_laplace_noise(sums: Sequence[int], *, sensitivity: float, epsilon: float) -> list[int]:
    """Add independent draws with P(z) proportional to exp(-|z| / scale): exactly epsilon-private.

    scale = sensitivity / epsilon rounded up, sensitivity in the L1 norm. Canonne, Kamath and Steinke 2020.
    Proof: docs/proofs/discrete-laplace.md.
    """
    return _add(sums, _draw_laplace(len(sums), laplace_scale(sensitivity, epsilon)))


def add_gaussian_noise(sums: Sequence[int], *, sensitivity: float, multiplier: float) -> list[int]:
    """Add independent draws with P(z) proportional to exp(-z^2 / (2 sigma^2)).

    sigma^2 = (multiplier sensitivity)^2 + 4 rounded up, sensitivity in the L2 norm: as private as continuous
    Gaussian noise of `multiplier` times the sensitivity. Proof: docs/proofs/discrete-gaussian.md.
    """
    return _add(sums, _draw_gaussian(len(sums), gaussian_sigma(sensitivity, multiplier)))


def noisy_maxima(count: int, *, sensitivity: float, multiplier: float) -> Callable[[list[int]], list[int]]:
    """Return what names the places of the `count` largest of some whole numbers, each with Gumbel noise of its own.

    scale^2 = pi/2 count (multiplier sensitivity)^2, rounded up, sensitivity in the maximum norm: `count` times the
    exponential mechanism, together as private as Gaussian noise of `multiplier` times a sensitivity. Proof:
    docs/proofs/noisy-maxima.md. It is made apart from the numbers, so that nothing can fail once those are there.
    """
    return _maxima_sampler(count, maxima_scale(sensitivity, multiplier, count=count))


def _add(sums: Sequence[int], noise: Sequence[int]) -> list[int]:
    # operator.index refuses anything but integers, and turns fixed-width ones into Python's.
    return [operator.index(exact) + drawn for exact, drawn in zip(sums, noise, strict=True)]


def _draw_cube(count: int, scale: float) -> list[int]:
    """Draw K with P(K) proportional to (2K+1)^R exp(-K / scale), then R integers uniform on {-K..K}."""
    if count > MOST_COORDINATES_PER_SCALE * scale:
        raise PlanError(
            f"Cube noise of scale {scale:g} can serve {MOST_COORDINATES_PER_SCALE * scale:.0f} sums at most; "
            f"found {count}. Use a finer lattice, a smaller epsilon or several measurements."
        )
    radius = sum(_draw_geometric(count + 1, scale))
    while not all(secrets.randbelow(2 * radius + 2 * i) <= 2 * radius for i in range(1, count + 1)):
        radius = sum(_draw_geometric(count + 1, scale))
    return [secrets.randbelow(2 * radius + 1) - radius for _ in range(count)]


def _draw_ball(count: int, scale: float) -> list[int]:
    """Draw a rounded point of density proportional to exp(-|z|_2 / scale)."""
    return draw_ball(count, scale, below=secrets.randbelow)


def _draw_geometric(count: int, scale: float) -> list[int]:
    """Draw integers g >= 0 with P(g) proportional to exp(-g / scale): Laplace draws that are not negative."""
    kept: list[int] = []
    while len(kept) < count:
        missing = count - len(kept)
        kept += [z for z in _draw_laplace(2 * missing + 4 * math.isqrt(missing) + 4, scale) if z >= 0]
    return kept[:count]


def _draw_laplace(count: int, scale: float) -> list[int]:
    """Draw discrete Laplace integers; from FAR on, |z| - FAR is geometric again, which undoes saturation."""
    if scale > LARGEST_SCALE:
        raise PlanError(f"The scale of Laplace or cube noise must be at most 2^62; found {scale:g}.")
    return [z if abs(z) < FAR else _beyond(z, scale) for z in _laplace_sampler(scale)([0] * count)]


def _beyond(far: int, scale: float) -> int:
    magnitude, excess = FAR, -1
    while not 0 <= excess < FAR:
        magnitude += FAR if excess >= FAR else 0
        excess = _laplace_sampler(scale)([0])[0]
    return magnitude + excess if far > 0 else -magnitude - excess


def _draw_gaussian(count: int, sigma: float) -> list[int]:
    """Draw discrete Gaussian integers; with sigma <= 2^52 saturation has probability below e^(-2^20)."""
    if sigma > LARGEST_SIGMA:
        raise PlanError(f"The deviation of Gaussian noise must be at most 2^52; found {sigma:g}.")
    return _gaussian_sampler(sigma)([0] * count)


@lru_cache(maxsize=16)
def _laplace_sampler(scale: float) -> Callable[[list[int]], list[int]]:
    _prepare_opendp()
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance

    sampler: Callable[[list[int]], list[int]] = make_laplace(
        vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=scale
    )
    return sampler


@lru_cache(maxsize=16)
def _gaussian_sampler(sigma: float) -> Callable[[list[int]], list[int]]:
    _prepare_opendp()
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance

    sampler: Callable[[list[int]], list[int]] = make_gaussian(
        vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=sigma
    )
    return sampler


@lru_cache(maxsize=16)
def _maxima_sampler(count: int, scale: float) -> Callable[[list[int]], list[int]]:
    if scale > LARGEST_SCALE:
        raise PlanError(f"The scale of noisy maxima must be at most 2^62; found {scale:g}.")
    _prepare_opendp()
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_top_k
    from opendp.measures import zero_concentrated_divergence
    from opendp.metrics import linf_distance

    sampler: Callable[[list[int]], list[int]] = make_noisy_top_k(
        vector_domain(atom_domain(T="i64")),
        linf_distance(T="i64"),
        zero_concentrated_divergence(),
        k=count,
        scale=scale,
    )
    return sampler


def _prepare_opendp() -> None:
    """Refuse samplers known to be biased, and accept that OpenDP calls these measurements contributed."""
    from opendp.mod import enable_features

    found = version("opendp")
    if tuple(int(part) for part in re.findall(r"\d+", found)[:3]) < FIRST_UNBIASED_OPENDP:
        raise PlanError(f"Noise needs opendp 0.14.2 or later, older samplers are biased; found {found}.")
    enable_features("contrib")
