"""What a measurement of a plan is for, in words: the only ones that a charge of a release can have."""

from __future__ import annotations

from smoothsynth.sentences import fits

MEANS = "the mean of each column"
LOW = "the mean and the second moment of each column"
SHARES = "the share of each level"
SQUARE = "the second moment T_2, averaged over the columns"
COSINES = "{} cosines of the ranks in each column"
SOFT_COUNTS = "{} soft counts of the ranks in each column"
SHARES_AGAIN = ", shares again"
PAIRS = "means, squares and products of standardised columns, rows cut to a length"
LENGTHS = "{} cosines of the rank of a row's length"
WAVED = "shapes of pairs of columns: two waves of the ranks in each, and their products"
CHOSEN = "shapes of {} chosen pairs of columns: products of two waves of the ranks in each"
LOWEST = "the {} lowest products of Chebyshev polynomials"

_FIRST = (MEANS, LOW, SHARES, f"{MEANS} and {SHARES}", f"{LOW} and {SHARES}")
_RANKS = (COSINES, SOFT_COUNTS, COSINES + SHARES_AGAIN, SOFT_COUNTS + SHARES_AGAIN)
_ALL = (*_FIRST, SQUARE, *_RANKS, PAIRS, LENGTHS, WAVED, CHOSEN, LOWEST)


def is_purpose(text: str) -> bool:
    """Whether a text is the purpose of some measurement of a plan."""
    return any(fits(text, template) for template in _ALL)
