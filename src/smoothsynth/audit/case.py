"""A mechanism on two neighbouring tables, and what running it many times showed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.audit.event import lower_bound

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from smoothsynth.audit.claim import Claim

    # What is looked at, by name: scores (doubles) or codes (integers), one line for each trial.
    Looks = dict[str, NDArray[Any]]

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
