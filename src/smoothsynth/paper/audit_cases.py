"""The exact privacy loss of many Laplace draws together, where no sample could reach the tail.

For one draw with shift a in units of the scale, the loss L = log(P(y)/P'(y)) is a with probability 1/2, -a with
probability e^-a/2, and a - 2x with density e^-x/2 for 0 < x < a. Losses of independent draws add up, and

    delta(epsilon) = E max(0, 1 - e^(epsilon - L))

is the least delta for that epsilon (Balle and Wang 2018, theorem 5). Losses are rounded down to a grid, so what is
computed is never above the truth: a lower bound on epsilon, without trials and for any delta.

The paper's constants as printed (smoothsynth.paper), put to the same test: the audit must catch each of them.

An audit that has caught nothing has shown nothing. What is wrong with each is in docs/proofs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.audit.case import Case, Claim, Finding
from smoothsynth.model.sampling import generator
from smoothsynth.paper import printed
from smoothsynth.paper.reproduction import printed_ellipsoid, scale_by_own_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.audit.case import Looks

    Array = NDArray[np.float64]


_STEPS = 200
# All terms are positive, so rounding errors are relative; far more than they can be is taken off.
_ROUNDING = 1e-9


def laplace_epsilon_at_least(shift: float, draws: int, *, delta: float) -> float:
    """Bound from below the epsilon at `delta` of `draws` Laplace draws whose centres all move by `shift` scales."""
    losses, masses = _sum_of_losses(shift, draws)
    low, high = 0.0, draws * shift
    for _ in range(60):
        middle = 0.5 * (low + high)
        beyond = losses > middle
        least_delta = float(masses[beyond] @ -np.expm1(middle - losses[beyond])) * (1.0 - _ROUNDING)
        low, high = (middle, high) if least_delta > delta else (low, middle)
    return low


def _sum_of_losses(shift: float, draws: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the grid of losses of all draws together and the mass on each, by repeated squaring."""
    total, power, left = np.ones(1), _one_loss(shift), draws
    while left:
        if left % 2:
            total = np.convolve(total, power)
        left //= 2
        power = np.convolve(power, power) if left else power
    return np.arange(-draws * _STEPS, draws * _STEPS + 1) * np.float64(shift / _STEPS), total


def _one_loss(shift: float) -> NDArray[np.float64]:
    """Return the masses at -a, -a + h, ..., a of the loss rounded down to that grid."""
    edges = np.exp(-(shift - np.arange(-_STEPS, _STEPS + 1) * (shift / _STEPS)) / 2.0)
    masses = np.append(np.diff(edges) / 2.0, 0.5)
    masses[0] += math.exp(-shift) / 2.0
    return masses


ROWS = 1_000
FUNCTIONS = 69
EPSILON = 1.0
# Sampling sees a delta that events can reach; the printed one is reached by computing the loss.
SEEN_DELTA = 0.01
# A share of the rows at the upper corner, all others at the lower one: one large eigenvalue, along the diagonal.
UPPER = 0.1
DIMENSIONS, ITERATIONS, MANY_ROWS = 6_400, 3, 200_000


def printed_cases() -> list[Case]:
    """Return the paper's steps as cases; none of them keeps what it claims."""
    return [
        moments_case(2, delta=0.0),
        moments_case(FUNCTIONS, delta=SEEN_DELTA),
        directions_case(),
        ellipsoid_case(),
        own_range_case(),
    ]


def exact_findings() -> list[Finding]:
    """Return what needs no trials: the (epsilon, delta) scale of step 9 at the delta of the paper's tables."""
    scale = printed.moment_noise_scale(FUNCTIONS, ROWS, epsilon=EPSILON, delta=printed.DELTA)
    bound = laplace_epsilon_at_least(2.0 / ROWS / scale, FUNCTIONS, delta=printed.DELTA)
    return [
        Finding(
            mechanism=f"step 9: Lap(sqrt(R log(1/delta))/(n eps)), R = {FUNCTIONS}",
            pair="opposite corners",
            look="numbers",
            claimed=EPSILON,
            delta=printed.DELTA,
            reach=bound,
            bound=bound,
            trials=0,
        )
    ]


def moments_case(count: int, *, delta: float) -> Case:
    """Release `count` means with the noise of step 9; a row moves from one corner to the opposite one."""
    scale = printed.moment_noise_scale(count, ROWS, epsilon=EPSILON, delta=delta)
    moves = np.array([0.0, 2.0 / ROWS])
    randomness = generator(None)

    def draw(side: int, trials: int) -> Looks:
        noisy = moves[side] + randomness.laplace(0.0, scale, (trials, count))
        losses = (np.abs(noisy - moves[1]) - np.abs(noisy)).sum(axis=1) / scale
        # Rounded: the scale is on trial here. Unrounded, the last bits of doubles give away more than 2 epsilon.
        return {"numbers": np.round(losses, 9)[:, None]}

    formula = "Lap(sqrt(R log(1/delta))/(n eps))" if delta else "Lap(R/(n eps))"
    reach = count * moves[1] / scale if not delta else laplace_epsilon_at_least(moves[1] / scale, count, delta=delta)
    claim = Claim(EPSILON, delta)
    return Case(f"step 9: {formula}, R = {count}", "opposite corners", claim, float(reach), draw, 10.0)


def directions_case() -> Case:
    """Run Algorithm 2 for one direction on many rows, many times at once; only its last direction is looked at.

    All rows but one are corners e or -e, so that X comes close to e/sqrt(d), whose largest entry is the smallest
    possible. The row that differs has its other quarter of coordinates low.
    """
    quarter = DIMENSIONS // 4
    rows = np.ones((4, DIMENSIONS))
    rows[1] = -1.0
    rows[2, :quarter] = rows[3, quarter : 2 * quarter] = -1.0
    shared = np.array([UPPER, 1.0 - UPPER]) * (MANY_ROWS - 1)
    looked = np.zeros(DIMENSIONS)
    looked[:quarter], looked[quarter : 2 * quarter] = -1.0, 1.0
    randomness = generator(None)

    def draw(side: int, trials: int) -> Looks:
        chosen, counts = rows[[0, 1, 2 + side]], np.append(shared, 1.0) / MANY_ROWS
        last = last_directions(chosen, counts, trials, randomness=randomness)
        return {"numbers": (looked @ last / last.sum(axis=0))[:, None]}

    claim = Claim(EPSILON, printed.DELTA)
    words = f"Algorithm 2: noise times max|X|, d = {DIMENSIONS}"
    return Case(words, "a quarter of a corner", claim, None, draw, 0.2, fewest=2_000)


def last_directions(
    rows: Array,
    shares: Array,
    trials: int,
    *,
    randomness: np.random.Generator,
    epsilon: float = EPSILON,
    delta: float = printed.DELTA,
) -> Array:
    """Return the last X of `trials` runs of Algorithm 2 with rank 1, as columns; `shares` of all rows are each row.

    X_l = normalised(A X_{l-1} + max|X_{l-1}| G_l), as in smoothsynth.paper.reproduction, for tables of few distinct rows.
    """
    dimensions = rows.shape[1]
    scale = printed.subspace_noise_scale(
        MANY_ROWS, dimensions, rank=1, iterations=ITERATIONS, epsilon=epsilon, delta=delta
    )
    centred = rows - shares @ rows
    x = randomness.standard_normal((dimensions, trials))
    x /= np.linalg.norm(x, axis=0)
    for _ in range(ITERATIONS):
        noise = randomness.normal(0.0, scale, x.shape)
        noise *= np.abs(x).max(axis=0)
        x = centred.T @ (shares[:, None] * (centred @ x)) + noise
        x /= np.linalg.norm(x, axis=0)
    return x


def ellipsoid_case() -> Case:
    """Run Algorithm 2 as printed: its eigenvalues and its centre have no noise at all."""
    tables = np.array([[[0.5, 0.5], [0.0, -0.5], [1.0, 1.0]], [[0.5, 0.5], [0.0, -0.5], [1.0, 0.999]]])
    randomness = generator(None)

    def draw(side: int, trials: int) -> Looks:
        made = [
            printed_ellipsoid(
                tables[side], rank=2, iterations=1, epsilon=EPSILON, delta=printed.DELTA, generator=randomness
            )
            for _ in range(trials)
        ]
        return {
            "eigenvalues": np.array([[math.hypot(*one.eigenvalues)] for one in made]),
            "centre": np.array([one.centre for one in made]),
        }

    claim = Claim(EPSILON, printed.DELTA)
    return Case("Algorithm 2: eigenvalues and centre", "(1, 1) / (1, 0.999)", claim, math.inf, draw, 0.2)


def own_range_case() -> Case:
    """Scale a column by its own smallest and largest value, then release its mean with enough noise for the scale."""
    tables = np.linspace(0.0, 1.0, 50)[:, None], np.append(np.linspace(0.0, 1.0, 50)[:-1], 1e6)[:, None]
    scale = 2.0 / len(tables[0]) / EPSILON
    randomness = generator(None)

    def draw(side: int, trials: int) -> Looks:
        mean = float(scale_by_own_range(tables[side]).mean())
        return {"numbers": mean + randomness.laplace(0.0, scale, (trials, 1))}

    moved = abs(float(scale_by_own_range(tables[0]).mean() - scale_by_own_range(tables[1]).mean())) / scale
    return Case("own minimum and maximum as bounds", "1 / 1000000", Claim(EPSILON), moved, draw)
