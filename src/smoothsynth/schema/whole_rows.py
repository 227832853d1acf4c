"""Whole points of a polytope near given ones: rounding along a basis, then single steps, then towards a point inside."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Wholes = NDArray[np.int64]

_MOST_STEPS = 40
# With more directions than this, steps along two of them at once are not tried.
_MOST_PAIRED = 6
# How far a point that cannot be repaired where it is stays from the point inside.
_SHRINK = (1.0, 1.0 - 1e-9, 1.0 - 1e-6, 0.999, 0.99, 0.9, 0.75, 0.5, 0.25, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class WholePoints:
    """Whole z with  lower <= z <= upper,  C z <= b  and  z = start + y N  for a whole y.

    below: C, (relations, columns); basis: N, (directions, columns). `inside` is one of them.
    """

    lower: Wholes
    upper: Wholes
    below: Wholes
    bounds: Wholes
    start: Wholes
    basis: Wholes
    inside: Wholes | None = None

    def nearest(self, wanted: Array) -> Wholes:
        """Return such a point near each wanted one, (rows, columns); exactly, for every row, if `inside` is known."""
        found = self._rounded(wanted)
        bad = np.flatnonzero(self.excess(found) > 0.0)
        for share in _SHRINK if self.inside is not None else _SHRINK[:1]:
            if not len(bad):
                break
            centre = 0.0 if self.inside is None else self.inside.astype(np.float64)
            found[bad] = self._stepped(self._rounded(centre + share * (wanted[bad] - centre)))
            bad = bad[self.excess(found[bad]) > 0.0]
        return found

    def excess(self, points: Wholes) -> Array:
        """Return by how much points break relations and bounds, summed; 0 for those that break none."""
        beyond = np.maximum(points - self.upper, 0).sum(axis=1) + np.maximum(self.lower - points, 0).sum(axis=1)
        if len(self.below):
            beyond = beyond + np.maximum(points @ self.below.T - self.bounds, 0).sum(axis=1)
        return np.asarray(beyond, dtype=np.float64)

    def room(self, points: Wholes, direction: Wholes) -> Wholes:
        """Return how many whole steps each point can go in a direction without breaking anything."""
        most = np.full(len(points), np.iinfo(np.int64).max // 4)
        for column in np.flatnonzero(direction):
            ahead = self.upper[column] if direction[column] > 0 else self.lower[column]
            most = np.minimum(most, np.abs(ahead - points[:, column]) // abs(int(direction[column])))
        if len(self.below):
            pace = self.below @ direction
            spare = self.bounds - points @ self.below.T
            for row in np.flatnonzero(pace > 0):
                most = np.minimum(most, spare[:, row] // pace[row])
        return np.asarray(np.maximum(most, 0))

    def _rounded(self, wanted: Array) -> Wholes:
        """Round along the basis, the longest direction first, so that finer ones take up what is left (Babai 1986)."""
        if not len(self.basis):
            return np.tile(self.start, (len(wanted), 1))
        weight = 1.0 / np.maximum(self.upper - self.lower, 1)
        order = np.argsort(np.linalg.norm(self.basis * weight, axis=1), kind="stable")
        basis = self.basis[order]
        orthogonal, triangle = np.linalg.qr((basis * weight).T)
        rest = (wanted - self.start) * weight
        steps = np.zeros((len(wanted), len(basis)), dtype=np.int64)
        for j in reversed(range(len(basis))):
            times = np.rint(rest @ orthogonal[:, j] / triangle[j, j])
            rest -= times[:, None] * (basis[j] * weight)
            steps[:, j] = times.astype(np.int64)
        return np.asarray(self.start + steps @ basis)

    def _stepped(self, points: Wholes) -> Wholes:
        """Go one step at a time along a direction, or two, as long as less is broken after it."""
        moves, current = self._moves(), self.excess(points)
        bad = np.flatnonzero(current > 0.0) if len(moves) else np.empty(0, dtype=np.intp)
        for left in range(_MOST_STEPS, 0, -1):
            if not len(bad):
                break
            tried = np.stack([self.excess(points[bad] + move) for move in moves])
            best, found = tried.argmin(axis=0), tried.min(axis=0)
            # Rows that steps of this size would not bring inside are left where they are.
            hopeful = (current[bad] - found) * left >= current[bad]
            bad = bad[hopeful]
            points[bad] += moves[best[hopeful]]
            current[bad] = found[hopeful]
            bad = bad[current[bad] > 0.0]
        return points

    def _moves(self) -> Wholes:
        single = [sign * direction for direction in self.basis for sign in (1, -1)]
        if len(self.basis) <= _MOST_PAIRED:
            pairs = itertools.combinations(self.basis, 2)
            single += [a * first + b * second for first, second in pairs for a in (1, -1) for b in (1, -1)]
        return np.array(single, dtype=np.int64).reshape(len(single), len(self.lower))


def short_basis(basis: list[list[int]], weight: list[int]) -> list[list[int]]:
    """Subtract whole multiples of shorter directions from longer ones until none gets shorter (Lagrange, pairwise)."""
    found = [list(direction) for direction in basis]
    changed = True
    while changed:
        changed = False
        for i, j in itertools.permutations(range(len(found)), 2):
            shorter = _less(found[i], found[j], weight)
            if _inner(shorter, shorter, weight) < _inner(found[i], found[i], weight):
                found[i], changed = shorter, True
    return found


def near_solution(start: list[int], basis: list[list[int]], centre: list[int], weight: list[int]) -> list[int]:
    """Return the solution start + y N, for some whole y, that is about as near to the centre as there is one."""
    rest = [s - c for s, c in zip(start, centre, strict=True)]
    changed = bool(basis)
    while changed:
        size = _inner(rest, rest, weight)
        shorter = min((_less(rest, direction, weight) for direction in basis), key=lambda r: _inner(r, r, weight))
        changed = _inner(shorter, shorter, weight) < size
        rest = shorter if changed else rest
    return [r + c for r, c in zip(rest, centre, strict=True)]


def _less(one: list[int], other: list[int], weight: list[int]) -> list[int]:
    square = _inner(other, other, weight)
    times = (2 * _inner(one, other, weight) + square) // (2 * square)
    return [a - times * b for a, b in zip(one, other, strict=True)] if times else one


def _inner(one: list[int], other: list[int], weight: list[int]) -> int:
    return sum(a * b * w * w for a, b, w in zip(one, other, weight, strict=True))
