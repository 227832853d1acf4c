"""A case of the audit: the event that tells two tables apart, and a lower bound of epsilon.

Confidence bounds on a probability, from counts alone: Clopper and Pearson 1934, without any approximation.

With K of n trials in an event of probability p:  P(K >= k) = I_p(k, n - k + 1),  the regularised incomplete
beta function. The lower bound at confidence 1 - alpha is the p at which P(K >= k) = alpha, the upper one the p at
which P(K <= k) = alpha.

An event that tells two tables apart: chosen on one part of the trials, counted on the others.

What is looked at is a matrix, one line for each trial. Columns of doubles are *scores*: events are {score >= t} and
{score < t}. Columns of integers are *codes* (a residue, the last bits of a double): a code becomes a score, the
logarithm of how much oftener it was met on the first table. Only the part that chooses is used for that, so the
other part is evidence about an event fixed before it was seen.

A mechanism on two neighbouring tables, and what running it many times showed.

What a mechanism claims, and what an event says about the claim.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.accounting.charges import compose, gaussian_epsilon

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from smoothsynth.accounting.charges import Charge

    Looks = dict[str, NDArray[Any]]


# The continued fraction of beta_tail converges after about sqrt(n) steps; 10^8 trials need 10^4 of them.
_MOST_STEPS = 100_000
_TINY = 1e-300
_RELATIVE = 1e-10


def proportion_at_least(hits: int, trials: int, *, alpha: float) -> float:
    """Bound a probability from below: at most alpha of all such bounds are too high."""
    if hits == 0:
        return 0.0
    low, _ = _bisect(lambda p: beta_tail(p, hits, trials - hits + 1) <= alpha)
    return low * (1.0 - _RELATIVE)


def proportion_at_most(hits: int, trials: int, *, alpha: float) -> float:
    """Bound a probability from above: at most alpha of all such bounds are too low."""
    if hits == trials:
        return 1.0
    _, high = _bisect(lambda p: beta_tail(1.0 - p, trials - hits, hits + 1) > alpha)
    return min(1.0, high * (1.0 + _RELATIVE))


def beta_tail(x: float, a: float, b: float) -> float:
    """Return I_x(a, b), by the continued fraction of DLMF 8.17.22 on the side where it converges fast."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - beta_tail(1.0 - x, b, a)
    log_front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_front) / a / _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """Evaluate  1 + d_1/(1 + d_2/(1 + ...))  with Lentz's method.

    d_2m = m (b - m) x / ((a + 2m - 1)(a + 2m)),   d_2m+1 = -(a + m)(a + b + m) x / ((a + 2m)(a + 2m + 1)).
    """
    value, above, below = 1.0, 1.0, 0.0
    for step in range(1, _MOST_STEPS):
        m = step // 2
        if step % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        below = 1.0 / _away_from_zero(1.0 + d * below)
        above = _away_from_zero(1.0 + d / above)
        value *= above * below
        if abs(above * below - 1.0) < 1e-15:
            return value
    raise ArithmeticError("The incomplete beta function did not converge; the bound would not be one.")


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _bisect(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Enclose where a condition that holds near 0 ceases to hold, to the last bits of a float."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


# The share of the trials that choose the event.
CHOOSING = 0.25
# Cuts at these shares of all scores: the middle evenly, the tails down to single trials.
_CUTS = np.concatenate([2.0 ** -np.arange(18.0, 4.0, -1.0), np.linspace(0.05, 0.95, 37)])
_SHARES = np.unique(np.concatenate([_CUTS, 1.0 - _CUTS]))
# Codes met less often than this, in the part that chooses, are one code together.
_FEWEST = 4


@dataclass(frozen=True, slots=True)
class Event:
    """{score >= cut} of one column, or its complement; `swapped` if it is the one frequent on the second table."""

    column: int
    cut: float
    above: bool
    swapped: bool

    def hits(self, scores: NDArray[np.float64]) -> int:
        """Count the trials in the event."""
        reached = int(np.count_nonzero(scores[:, self.column] >= self.cut))
        return reached if self.above else len(scores) - reached


def lower_bound(first: NDArray[Any], second: NDArray[Any], *, claim: Claim, alpha: float) -> float:
    """Bound epsilon from below, with confidence 1 - alpha, from what was seen on two neighbouring tables."""
    cut = max(1, round(CHOOSING * len(first)))
    ours, theirs = first[:cut], second[:cut]
    if np.issubdtype(first.dtype, np.integer):
        first, second, ours, theirs = _scored(first, second, ours, theirs)
    event = _choose(ours, theirs, claim=claim, trials=len(first) - cut)
    counted = event.hits(first[cut:]), event.hits(second[cut:])
    frequent, rare = counted[::-1] if event.swapped else counted
    trials = len(first) - cut
    often = proportion_at_least(frequent, trials, alpha=alpha / 2)
    rarely = proportion_at_most(rare, trials, alpha=alpha / 2)
    return claim.shown(often, rarely)


def _choose(ours: NDArray[np.float64], theirs: NDArray[np.float64], *, claim: Claim, trials: int) -> Event:
    """Take the event whose bound would be highest if the other trials had the same shares as these."""
    best, chosen = -np.inf, Event(0, 0.0, above=True, swapped=False)
    for column in range(ours.shape[1]):
        mine, others = np.sort(ours[:, column]), np.sort(theirs[:, column])
        cuts = np.unique(np.quantile(np.concatenate([mine, others]), _SHARES, method="higher"))
        p = 1.0 - np.searchsorted(mine, cuts) / len(mine)
        q = 1.0 - np.searchsorted(others, cuts) / len(others)
        for above, swapped, often, rarely in (
            (True, False, p, q),
            (True, True, q, p),
            (False, False, 1.0 - p, 1.0 - q),
            (False, True, 1.0 - q, 1.0 - p),
        ):
            promise = _promise(often, rarely, claim=claim, trials=trials)
            at = int(np.argmax(promise))
            if promise[at] > best:
                best, chosen = float(promise[at]), Event(column, float(cuts[at]), above=above, swapped=swapped)
    return chosen


def _promise(
    often: NDArray[np.float64], rarely: NDArray[np.float64], *, claim: Claim, trials: int
) -> NDArray[np.float64]:
    """Approximate the bound by Wilson's limits; it only ranks events."""
    low, high = _wilson(often, trials, -1.0), _wilson(rarely, trials, 1.0)
    if claim.multiplier is not None:
        return np.asarray(_probit(low) - _probit(high))
    return np.log(np.maximum(low - claim.delta, 1e-12)) - np.log(high)


def _wilson(share: NDArray[np.float64], trials: int, side: float) -> NDArray[np.float64]:
    z = 5.0
    middle = share + z * z / (2 * trials)
    spread = z * np.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    limits: NDArray[np.float64] = (middle + side * spread) / (1 + z * z / trials)
    return np.clip(limits, 1e-12, 1.0 - 1e-12)


def _probit(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Approximate Phi^-1 within 0.01 between 0.001 and 0.999 (Tukey's lambda distribution)."""
    return np.asarray(4.91 * (p**0.14 - (1.0 - p) ** 0.14))


def _scored(
    first: NDArray[np.int64], second: NDArray[np.int64], ours: NDArray[np.int64], theirs: NDArray[np.int64]
) -> list[NDArray[np.float64]]:
    """Turn codes into scores learnt from the part that chooses."""
    results = [np.zeros(part.shape) for part in (first, second, ours, theirs)]
    for column in range(first.shape[1]):
        codes, counts = np.unique(np.concatenate([ours[:, column], theirs[:, column]]), return_counts=True)
        codes = codes[counts >= _FEWEST]
        met, met_there = (_tally(part[:, column], codes) for part in (ours, theirs))
        scores = np.log((met + 0.5) / (met_there + 0.5))
        for result, part in zip(results, (first, second, ours, theirs), strict=True):
            result[:, column] = scores[_places(part[:, column], codes)]
    return results


def _tally(values: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.bincount(_places(values, codes), minlength=len(codes) + 1).astype(np.float64)


def _places(values: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each value among the codes; the last place is for all others."""
    if len(codes) == 0:
        return np.zeros(len(values), dtype=np.int64)
    places = np.minimum(np.searchsorted(codes, values), len(codes) - 1)
    return np.where(codes[places] == values, places, len(codes))


# Trials that are drawn and held in full at once; then only what is looked at is kept.
_CHUNK = 1_000


@dataclass(frozen=True, slots=True)
class Case:
    """A mechanism, two neighbouring tables (0 and 1) and a way to run it so often on one of them.

    `reach` is the epsilon that this pair could show at most if the mechanism is what it says, with any number of
    trials; None if that is not known. `share` is the number of trials relative to what is asked for, `fewest` the
    number below which a run would show nothing.
    """

    mechanism: str
    pair: str
    claim: Claim
    reach: float | None
    draw: Callable[[int, int], Looks]
    share: float = 1.0
    fewest: int = 200

    def trials(self, asked: int) -> int:
        """Return the trials on each of the two tables."""
        return max(self.fewest, round(asked * self.share))


@dataclass(frozen=True, slots=True)
class Finding:
    """The highest epsilon that was shown by looking at one thing, with the confidence of the whole report."""

    mechanism: str
    pair: str
    look: str
    claimed: float
    delta: float
    reach: float | None
    bound: float
    trials: int

    @property
    def exceeds(self) -> bool:
        """Whether the claim is false, up to the confidence of the report."""
        return self.bound > self.claimed

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "exceeds": self.exceeds}


def examine(case: Case, *, trials: int, alpha: float) -> tuple[Finding, ...]:
    """Run a case on both tables and bound epsilon by each thing that is looked at; all hold with 1 - alpha."""
    first, second = (_run(case, side, trials) for side in (0, 1))
    return tuple(
        Finding(
            mechanism=case.mechanism,
            pair=case.pair,
            look=look,
            claimed=case.claim.epsilon,
            delta=case.claim.delta,
            reach=case.reach,
            bound=lower_bound(first[look], second[look], claim=case.claim, alpha=alpha / len(first)),
            trials=2 * trials,
        )
        for look in first
    )


def _run(case: Case, side: int, trials: int) -> Looks:
    counts = [min(_CHUNK, trials - done) for done in range(0, trials, _CHUNK)]
    parts = [case.draw(side, count) for count in counts]
    return {look: np.concatenate([part[look] for part in parts]) for look in parts[0]}


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
    if len(multipliers) < len(charges) or any(c.delta for c in charges):
        return Claim(total.epsilon, total.delta)
    return Claim(total.epsilon, total.delta, 1.0 / math.sqrt(math.fsum(m**-2 for m in multipliers)))
