"""Whole solutions of linear equations: all of them, as one solution and a basis of the steps between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Whole = list[int]


def whole_solutions(matrix: Sequence[Sequence[int]], bounds: Sequence[int]) -> tuple[Whole, list[Whole]] | None:
    """Return x0 and vectors N_j such that A x = b holds for whole x exactly if x = x0 + sum_j y_j N_j, y whole.

    Column operations with determinant +-1 bring A to echelon form, A U = [H 0] (Hermite; Cohen, A Course in
    Computational Algebraic Number Theory, 1993, 2.4); H y = b is solved forwards, and the last columns of U are the
    N_j. None if there is no whole solution.
    """
    equations = len(matrix)
    columns, pivots = _echelon(matrix)
    width = len(columns)
    solution, rest = [0] * width, list(bounds)
    for row in range(equations):
        pivot = pivots.get(row)
        if pivot is None:
            if rest[row]:
                return None
            continue
        times, left = divmod(rest[row], columns[pivot][row])
        if left:
            return None
        rest = [r - times * c for r, c in zip(rest, columns[pivot], strict=False)]
        solution = [s + times * c for s, c in zip(solution, columns[pivot][equations:], strict=True)]
    return solution, [column[equations:] for column in columns[len(pivots) :]]


def _echelon(matrix: Sequence[Sequence[int]]) -> tuple[list[Whole], dict[int, int]]:
    """Return the columns of [A; I] U and, for each row of A that has one, the place of its pivot."""
    width = len(matrix[0]) if matrix else 0
    columns = [[*(row[j] for row in matrix), *(int(i == j) for i in range(width))] for j in range(width)]
    pivots: dict[int, int] = {}
    for row in range(len(matrix)):
        start = len(pivots)
        live = [j for j in range(start, width) if columns[j][row]]
        while len(live) > 1:
            least = min(live, key=lambda j: abs(columns[j][row]))
            for j in live:
                if j != least:
                    times = columns[j][row] // columns[least][row]
                    columns[j] = [c - times * p for c, p in zip(columns[j], columns[least], strict=True)]
            live = [j for j in live if columns[j][row]]
        if live:
            columns[start], columns[live[0]] = columns[live[0]], columns[start]
            pivots[row] = start
    return columns, pivots
