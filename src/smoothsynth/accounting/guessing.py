"""What (epsilon, delta) allows an attacker to guess, and the epsilon that guesses show.

An attacker who sees a release says of a row whether it was among the private ones. With FPR the share of other rows of
which this is said and TPR that of private rows (Wasserman and Zhou 2010; Kairouz, Oh and Viswanath 2015):

    TPR <= e^epsilon FPR + delta,     1 - FPR <= e^epsilon (1 - TPR) + delta

A private row and another one, drawn from the same population, are a pair: which of the two was released is a fair coin, and
to turn it is to replace one row. So of r guesses at m coins no more are correct than a binomial variable counts with
r trials of probability e^epsilon/(1 + e^epsilon), up to delta (Steinke, Nasr and Jagielski 2023, theorem 5.2). One release is
enough to see it.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.accounting.charges import Budget


# No more than this is ever said to be shown; e^-30 is below what any number of rows could tell from 0.
_MOST_EPSILON = 30.0


def most_true_positives(false_positives: float, budget: Budget) -> float:
    """Return the highest TPR that is allowed at this FPR."""
    grown = math.exp(min(budget.epsilon, _MOST_EPSILON))
    return min(1.0, grown * false_positives + budget.delta, 1.0 - (1.0 - budget.delta - false_positives) / grown)


def most_advantage(budget: Budget) -> float:
    """Return the largest TPR - FPR that is allowed:  (e^epsilon - 1 + 2 delta) / (e^epsilon + 1)."""
    grown = math.exp(min(budget.epsilon, _MOST_EPSILON))
    return (grown - 1.0 + 2.0 * budget.delta) / (grown + 1.0)


def most_area(budget: Budget) -> float:
    """Return the largest area under the curve of TPR over FPR that is allowed: a polygon with three corners."""
    corner = (1.0 - most_advantage(budget)) / 2.0
    places = np.array([0.0, corner, 1.0 - budget.delta, 1.0])
    heights = np.array([most_true_positives(place, budget) for place in places.tolist()])
    return float(np.diff(places) @ (heights[1:] + heights[:-1])) / 2.0


def most_correct(budget: Budget) -> float:
    """Return the share of guesses at pairs that can be expected to be correct at most, up to delta."""
    return 1.0 / (1.0 + math.exp(-budget.epsilon))


def shown_epsilon(correct: int, guesses: int, *, pairs: int, delta: float, alpha: float) -> float:
    """Bound epsilon from below: at most alpha of all such bounds are too high, if delta is right.

    `correct` of `guesses` at `pairs` were correct; the guesser may pass over a pair.
    """
    low, high = 0.0, _MOST_EPSILON
    if 2 * correct <= guesses or _chance(correct, guesses, pairs, low, delta) > alpha:
        return 0.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _chance(correct, guesses, pairs, middle, delta) <= alpha else (low, middle)
    return low


def _chance(correct: int, guesses: int, pairs: int, epsilon: float, delta: float) -> float:
    """Bound P(at least so many are correct):  P(W >= v) + 2 m delta max_i P(v > W >= v - i) / i,  W binomial."""
    shares = _binomial(guesses, 1.0 / (1.0 + math.exp(-epsilon)))
    below = np.cumsum(shares[:correct][::-1])
    excess = float(np.max(below / np.arange(1, correct + 1), initial=0.0))
    return float(shares[correct:].sum()) + 2.0 * pairs * delta * excess


def _binomial(trials: int, p: float) -> NDArray[np.float64]:
    """Return the probabilities of 0 to `trials` successes."""
    steps = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    hits = np.arange(trials + 1)
    logs = steps[-1] - steps - steps[::-1] + hits * math.log(p) + (trials - hits) * math.log1p(-p)
    return np.asarray(np.exp(logs))


def wilson(hits: int, trials: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's interval for a probability (1927)."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    share = hits / trials
    middle = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1.0 - share) / trials + (z / (2 * trials)) ** 2)
    shrunk = 1.0 + z * z / trials
    return max(0.0, (middle - spread) / shrunk), min(1.0, (middle + spread) / shrunk)


def chance_of_more(first: int, second: int) -> float:
    """Return the chance that at least `first` of first + second equally likely hits are of the first kind (sign test)."""
    total = first + second
    return sum(math.comb(total, hits) for hits in range(first, total + 1)) / 2**total if first > second else 1.0


def difference(first: int, second: int, trials: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Return an interval for the difference of two probabilities, from Wilson's (Newcombe 1998, method 10)."""
    p, q = first / trials, second / trials
    (low, high), (lower, upper) = (wilson(hits, trials, confidence=confidence) for hits in (first, second))
    return p - q - math.hypot(p - low, upper - q), p - q + math.hypot(high - p, q - lower)
