"""The contract of an engine: where exact sums of features over private rows are computed.

Every engine returns the same integers, whatever the order of the rows, the size of the batches, the
machine or the number of workers (docs/proofs/exactness.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol

from smoothsynth.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from smoothsynth.private.table import Table
    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.transformation import View

# |B_r| <= 2^30 rows x 2^32 x the terms of a feature: far below 2^127. With one width for all, no length tells of a sum.
SUM_BYTES = 16


class SealedSums:
    """Exact sums B_r of features, in units of S^2, before any noise: they show nothing and cannot be copied.

    Sums of the same features over different rows add up.
    """

    __slots__ = ("_features", "_totals")

    def __init__(self, features: Sequence[Feature], totals: Sequence[int]) -> None:
        self._features, self._totals = tuple(features), tuple(map(int, totals))
        if len(self._features) != len(self._totals):
            raise PlanError("There must be one sum for each feature.")

    def __repr__(self) -> str:
        return "<sealed sums>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Sealed sums cannot be copied or pickled.")

    def __add__(self, other: SealedSums) -> SealedSums:
        if not isinstance(other, SealedSums):
            return NotImplemented
        if self._features != other._features:
            raise PlanError("Only sums of the same features, in the same order, can be added.")
        pairs = zip(self._totals, other._totals, strict=True)
        return SealedSums(self._features, [mine + others for mine, others in pairs])

    def only(self, features: Sequence[Feature]) -> SealedSums:
        """Return the sums of some of the features."""
        place = {feature: number for number, feature in enumerate(self._features)}
        return SealedSums(features, [self._totals[place[feature]] for feature in features])

    def unseal(self) -> tuple[int, ...]:
        """Return the exact sums. Only private/measure.py may call this."""
        return self._totals

    def packed(self) -> bytes:
        """Return the exact sums as integers of one width. Only private/sites/envelope.py may call this, to encrypt them."""
        return b"".join(total.to_bytes(SUM_BYTES, "little", signed=True) for total in self._totals)

    @classmethod
    def unpacked(cls, features: Sequence[Feature], packed: bytes) -> SealedSums:
        """Seal again what `packed` wrote."""
        starts = range(0, len(packed), SUM_BYTES)
        return cls(features, [int.from_bytes(packed[s : s + SUM_BYTES], "little", signed=True) for s in starts])


class Engine(Protocol):
    """Computes exact sums."""

    def sums(
        self,
        table: Table,
        features: Sequence[Feature],
        *,
        view: View | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> SealedSums:
        """Return the exact sum of each feature over all rows, seen through a view if one is given.

        `progress` is told the rows done and the rows in all.
        """
