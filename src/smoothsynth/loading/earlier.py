"""Moments of an earlier release, which an update carries since its views follow from them: nothing checks their charges.

So all that can be known of them here must hold: they are the same measurements, of no more rows, and their noise is
that of the update times one factor, as an update shares its budget (smoothsynth.updates).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from smoothsynth.errors import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.queries.measurement import Measurement, NoisyMoments

# Budgets of a release and of its update differ by less; without a limit, noise would excuse sums of any size.
_MOST_APART = 10_000.0
_NEAR = 1e-6


def check_earlier(earlier: Sequence[NoisyMoments], moments: Sequence[NoisyMoments]) -> None:
    """Refuse earlier moments that no release can have made whose update has these moments."""
    if not earlier:
        return
    if len(earlier) != len(moments) or any(
        _alike(old.measurement, new.measurement) != new.measurement for old, new in zip(earlier, moments, strict=True)
    ):
        raise ReleaseError("The moments must measure what the earlier ones did, in the same views; they do not.")
    sizes = {(old.rows, old.measurement.rows_per_person) for old in earlier}
    if len(sizes) != 1 or not all(1 <= together <= rows <= moments[0].rows for rows, together in sizes):
        raise ReleaseError("Earlier moments must be of one table with no more rows than there are now; they are not.")
    shares = [_noise(old.measurement) / _noise(new.measurement) for old, new in zip(earlier, moments, strict=True)]
    if not all(math.isclose(share, shares[0], rel_tol=_NEAR) for share in shares):
        raise ReleaseError("Earlier moments must share their budget as those of the update do; they do not.")
    chosen = [old.measurement.choice for old in earlier]
    shares += [one.multiplier / _noise(new.measurement) for one, new in zip(chosen, moments, strict=True) if one]
    if not all(1.0 / _MOST_APART <= share <= _MOST_APART for share in shares):
        raise ReleaseError("The noise of earlier moments is too far from that of the update for one of the same sums.")


def _alike(old: Measurement, new: Measurement) -> Measurement:
    """Return a measurement with what an update may change: noise, the rows of a person; pairs are not chosen again."""
    together = new.rows_per_person
    return replace(old, rows_per_person=together, choice=None, epsilon=new.epsilon, multiplier=new.multiplier)


def _noise(measurement: Measurement) -> float:
    """Return the noise for a sensitivity of one: the multiplier, or one over epsilon."""
    return measurement.multiplier if measurement.multiplier is not None else 1.0 / (measurement.epsilon or math.nan)
