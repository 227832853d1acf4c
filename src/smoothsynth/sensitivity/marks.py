"""Bounds for features of coordinates that are 0 or 1: levels of categories, and marks of what is missing.

A feature  x_l psi  of a level l is 0 in rows of other levels. So of all features of the levels of one category a replaced row
moves those of one level, by what psi can move, or those of two, by what psi can be (docs/proofs/sensitivity.md, section 11):

    change(F) = change of the features without a mark  +  sum over categories of
                max( max_l change(F_l),  the two largest size(F_l) )
    size(F)   = sum of w^p of the features without a mark  +  sum over categories of  max_l size(F_l)

with F_l the features  psi  of level l, and p = 1 or 2.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from smoothsynth.basis import Feature, Term

    # Terms with their weights to the power p, and what bounds the change of terms without a mark.
    Weighted = list[tuple[Term, float]]
    Plain = Callable[[Weighted], float]


@dataclass(frozen=True, slots=True)
class Marks:
    """What is public about some coordinates: `binary` ones are 0 or 1, and at most one of each `exclusive` group is 1."""

    binary: tuple[int, ...] = ()
    exclusive: tuple[tuple[int, ...], ...] = ()

    def groups(self) -> dict[int, int]:
        """Return the number of its group for each binary coordinate; one that is in none is a group of its own."""
        together = {c: number for number, group in enumerate(self.exclusive) for c in group}
        return {c: together.get(c, len(self.exclusive) + c) for c in self.binary}


def only_marks(feature: Feature, groups: Mapping[int, int]) -> bool:
    """Whether a feature lies in [0, 1]: all of its factors are marks."""
    return all(c in groups and k == 1 for term in feature.terms for c, k in term)


def change(terms: Weighted, groups: Mapping[int, int], plain: Plain) -> float:
    """Bound  max_{x,x'} sum w^p |phi(x) - phi(x')|^p  over rows; `plain` does so for terms without a mark."""
    without, categories = _sorted_out(terms, groups)
    total = plain([(term, weight) for term, weight in without if term])
    for levels in categories:
        sizes = sorted((size(rest, groups) for rest in levels), reverse=True)
        total += max(sum(sizes[:2]), *(change(rest, groups, plain) for rest in levels))
    return total


def size(terms: Weighted, groups: Mapping[int, int]) -> float:
    """Bound  max_x sum w^p |phi(x)|^p  over rows."""
    without, categories = _sorted_out(terms, groups)
    return sum(weight for _, weight in without) + sum(
        max(size(rest, groups) for rest in levels) for levels in categories
    )


def _sorted_out(terms: Weighted, groups: Mapping[int, int]) -> tuple[Weighted, Iterable[list[Weighted]]]:
    """Return the terms without a mark; and for each category, for each of its levels, what is left of terms that have it.

    A term belongs to the category of its first mark only.
    """
    without: Weighted = []
    found: dict[int, dict[int, Weighted]] = defaultdict(lambda: defaultdict(list))
    for term, weight in terms:
        mark = next((c for c, k in term if c in groups and k == 1), None)
        if mark is None:
            without.append((term, weight))
        else:
            rest = tuple(factor for factor in term if factor[0] != mark)
            found[groups[mark]][mark].append((rest, weight))
    return without, [list(levels.values()) for levels in found.values()]
