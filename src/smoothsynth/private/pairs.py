"""Guesses at pairs of a private row and another one, and the epsilon that they show.

What is counted belongs to the owner of the private rows, as all of `private/attack.py`, which draws the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.accounting.guessing import shown_epsilon

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Flags = NDArray[np.bool_]


# The share of the pairs that choose how sure an attack must be to guess, and the shares of all pairs it may guess at.
_CHOOSING, _GUESSED = 0.25, (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)


@dataclass(frozen=True, slots=True)
class Curve:
    """How well a score tells private rows from others: area, TPR where FPR is 0.01 and 0.1, largest TPR - FPR."""

    area: float
    at_one_percent: float
    at_ten_percent: float
    advantage: float


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack: its hits among private rows and among as many others, and its guesses at pairs of them.

    Without a holdout only `members` is known. `shown` is the epsilon that the guesses show, with confidence 1 - alpha.
    """

    family: str
    about: str
    rows: int
    members: int
    others: int | None = None
    guesses: int = 0
    correct: int = 0
    shown: float | None = None
    curve: Curve | None = None


def by_event(family: str, about: str, members: Flags, others: Flags, *, delta: float, alpha: float) -> Attack:
    """Guess that the one of a pair was released for which the event happened; pass if it is both or none."""
    guesses, correct = int((members != others).sum()), int((members & ~others).sum())
    shown = shown_epsilon(correct, guesses, pairs=len(members), delta=delta, alpha=alpha)
    return Attack(family, about, len(members), int(members.sum()), int(others.sum()), guesses, correct, shown)


def by_score(about: str, members: Array, others: Array, *, delta: float, alpha: float) -> Attack:
    """Guess that the one with the higher score was released, if the two scores differ enough."""
    gaps, cut = members - others, max(1, round(_CHOOSING * len(members)))
    gap = _enough(gaps[:cut], delta=delta, alpha=alpha)
    guesses, correct = _counted(gaps[cut:], gap)
    shown = shown_epsilon(correct, guesses, pairs=len(gaps) - cut, delta=delta, alpha=alpha)
    line = np.quantile(others, 0.9, method="higher")
    hits = int((members > line).sum()), int((others > line).sum())
    return Attack("membership", about, len(members), *hits, guesses, correct, shown, _curve(members, others))


def _enough(gaps: Array, *, delta: float, alpha: float) -> float:
    """Return the gap from which on guesses would show most, if all pairs were like these."""
    cuts = [float(np.quantile(np.abs(gaps), 1.0 - share)) for share in _GUESSED]
    more = round(1.0 / _CHOOSING) - 1
    counts = [[more * count for count in _counted(gaps, cut)] for cut in cuts]
    shown = [shown_epsilon(c, g, pairs=more * len(gaps), delta=delta, alpha=alpha) for g, c in counts]
    return cuts[int(np.argmax(shown))]


def _counted(gaps: Array, enough: float) -> tuple[int, int]:
    chosen = gaps[(np.abs(gaps) >= enough) & (gaps != 0.0)]
    return len(chosen), int((chosen > 0.0).sum())


def _curve(members: Array, others: Array) -> Curve:
    ordered, cuts = np.sort(others), np.unique(np.concatenate([members, others]))
    below = (np.searchsorted(ordered, members) + np.searchsorted(ordered, members, side="right")) / 2.0
    true = 1.0 - np.searchsorted(np.sort(members), cuts) / len(members)
    false = 1.0 - np.searchsorted(ordered, cuts) / len(others)
    low, high = (float(true[false <= level + 1e-12].max(initial=0.0)) for level in (0.01, 0.1))
    return Curve(float(below.mean()) / len(others), low, high, float(np.max(true - false, initial=0.0)))
