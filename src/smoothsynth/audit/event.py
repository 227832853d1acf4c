"""An event that tells two tables apart: chosen on one part of the trials, counted on the others.

What is looked at is a matrix, one line for each trial. Columns of doubles are *scores*: events are {score >= t} and
{score < t}. Columns of integers are *codes* (a residue, the last bits of a double): a code becomes a score, the
logarithm of how much oftener it was met on the first table. Only the part that chooses is used for that, so the
other part is evidence about an event fixed before it was seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.audit.bound import proportion_at_least, proportion_at_most

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.audit.claim import Claim

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
