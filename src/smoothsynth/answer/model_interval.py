"""The interval around the mean of a function of a few columns (docs/proofs/answers.md).

For every choice of c, with phi the measured features, b their private and bhat their released means,

    private mean of f - synthetic mean of f  =  c . (bhat - synthetic phi) - c . (bhat - b) + (private - synthetic) mean of g
                                                   fit, known                 noise, known law       g = f - c . phi, unseen

The unseen part is taken to have variance  sum_j t_j^2 g_j^2 + t_rest^2 |g_rest|^2,  g_j the coordinates of g in
orthonormal functions of one, two and three of the columns, and c minimises noise plus unseen variance.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.answer.evidence import MOST_SETS, drop_oldest, posterior_deviations
from smoothsynth.queries.bases import Chebyshev

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.answer.evidence import Knowledge, Seen

    Array = NDArray[np.float64]


# How far the private mean of an unmeasured function may be off, in its standard deviations: for one column or a product
# of two, RELATIVE times what is left open of it; for higher products of two and of three, JOINT times how wrong the model
# was about the lengths of rows, or UNKNOWN if those were not measured; for what is left, half of that. All within limits.
RELATIVE, JOINT, UNKNOWN, LEAST, MOST = 0.8, 3.0, 0.4, 0.1, 1.0
# Lengths that are as expected do not show that nothing else is strange: rows on rings have them too.
LEAST_JOINT = 0.3
# The same for what is left of functions with jumps: of fine structure, such as values that many rows share, nothing is known.
OF_ROUGH = 0.8
# Where waves of two columns were measured: so many times as strange as these may their other functions be.
STRANGE = 2.0
# Polynomials of one column, and those whose products stand for pairs and triples (of more than three columns: one each).
DEGREES, PAIR_DEGREES, TRIPLE_DEGREES, OPEN_DEGREES = 5, 3, 2, 3
# Triples of coordinates of three columns that are looked at; categories of many levels have more.
MOST_TRIPLES = 32
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Orthonormal functions of some columns on the test rows, how uncertain each is, and what was measured in them."""

    functions: Array
    scales: Array
    seen: Seen
    along: Array
    across: Array
    rest: float


@dataclass(frozen=True, slots=True)
class Parts:
    """Standard deviations of the three uncertain parts, and the known shift; `noise` has the part of a gap not believed."""

    noise: float
    unseen: float
    sampling: float
    fit: float

    def deviation(self) -> float:
        """Return the standard deviation of all parts together."""
        return math.hypot(self.noise, self.unseen, self.sampling)


def frame_of(knowledge: Knowledge, columns: Sequence[int]) -> Frame:
    """Return the frame of some columns, made once for each set of them."""
    key = tuple(columns)
    if key not in knowledge.frames:
        drop_oldest(knowledge.frames, MOST_SETS)
        knowledge.frames[key] = _frame(knowledge, columns)
    found: Frame = knowledge.frames[key]
    return found


def parts_of(frame: Frame, values: Array, *, synthetic_rows: int, rough: bool = False) -> Parts:
    """Split the uncertainty of the mean of a function, given at the test rows, into its parts."""
    count, seen, others = len(values), frame.seen, (OF_ROUGH if rough else frame.rest) ** 2
    centred = values - values.mean()
    own = frame.functions.T @ centred / count
    rest = centred - frame.functions @ own
    squared = frame.scales**2
    gram = frame.along.T @ (squared[:, None] * frame.along) + others * frame.across.T @ frame.across / count
    gram[np.diag_indices_from(gram)] += seen.variances + 1e-18
    right = frame.along.T @ (squared * own) + others * frame.across.T @ rest / count
    weights = np.linalg.solve(gram, right) if len(right) else right
    left, left_rest = own - frame.along @ weights, rest - frame.across @ weights
    unseen = float(squared @ left**2 + others * np.mean(left_rest**2))
    noise = float(weights**2 @ seen.variances)
    gap = float(weights @ seen.gaps)
    # Of a gap no larger than its noise nothing is believed (the positive part of James and Stein), but all is doubted.
    fit = gap * (1.0 - noise / gap**2) if gap**2 > noise else 0.0
    noise += (gap - fit) ** 2
    sampling = float(left @ left + np.mean(left_rest**2)) / synthetic_rows
    return Parts(math.sqrt(noise), math.sqrt(unseen), math.sqrt(sampling), fit)


def quantile(confidence: float) -> float:
    """Return how many standard deviations a normal error stays within, with that confidence."""
    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)


def heavy_quantile(confidence: float) -> float:
    """Return the same for a Laplace error, the heaviest noise of a release; never below the normal one."""
    return max(quantile(confidence), -math.log1p(-confidence) / math.sqrt(2.0))


def _frame(knowledge: Knowledge, columns: Sequence[int]) -> Frame:
    owners = knowledge.release.schema.owners
    several = len({owners[c][0] for c in columns})
    polynomials = {c: _polynomials(knowledge, c) for c in columns}
    functions = [p for c in columns for p in polynomials[c].T]
    scales = [max(LEAST, RELATIVE * open_shape(knowledge, c)) for c in columns for _ in polynomials[c].T]
    degrees, joint = PAIR_DEGREES if several <= 3 else 1, joint_scale(knowledge)
    # Products of coordinates of one column are no new functions: of levels at most one is 1, a missing value is 0.
    apart = [(a, b) for a, b in itertools.combinations(columns, 2) if owners[a][0] != owners[b][0]]
    for a, b in apart:
        products = _products(polynomials[a][:, :degrees], polynomials[b][:, :degrees])
        functions += products
        scales.append(max(LEAST, RELATIVE * open_pair(knowledge, a, b)))
        scales += [pair_scale(knowledge, a, b)] * (len(products) - 1)
    if several == 3:
        triples = [t for t in itertools.combinations(columns, 3) if len({owners[c][0] for c in t}) == 3]
        for triple in triples[:MOST_TRIPLES]:
            of_two = np.stack(_products(*(polynomials[c][:, :TRIPLE_DEGREES] for c in triple[:2])), axis=1)
            products = _products(of_two, polynomials[triple[2]][:, :TRIPLE_DEGREES])
            functions += products
            scales += [joint] * len(products)
    basis, seen = orthonormal(np.stack(functions, axis=1)), knowledge.seen(columns)
    along = basis.T @ seen.matrix / len(basis)
    return Frame(basis, np.array(scales), seen, along, seen.matrix - basis @ along, max(LEAST, joint / 2.0))


def joint_scale(knowledge: Knowledge) -> float:
    """Return how uncertain unmeasured functions of several columns are, in standard deviations."""
    return UNKNOWN if knowledge.surprise is None else min(MOST, max(LEAST_JOINT, JOINT * knowledge.surprise))


def pair_scale(knowledge: Knowledge, first: int, second: int) -> float:
    """Return the same for functions of two columns: by how strange their waves are, if those were measured."""
    strange = knowledge.strangeness.get(frozenset((first, second)))
    return joint_scale(knowledge) if strange is None else min(MOST, max(LEAST, STRANGE * strange))


def open_shape(knowledge: Knowledge, column: int) -> float:
    """Return how far the low polynomials of a column are known, in standard deviations: 0 exactly, VAGUE not at all."""
    key = ("shape", (column,))
    if key not in knowledge.kept:
        seen = knowledge.seen((column,))
        left = posterior_deviations(seen.matrix, seen.variances, _polynomials(knowledge, column)[:, :OPEN_DEGREES])
        knowledge.kept[key] = float(np.sqrt(np.mean(left**2)))
    return float(knowledge.kept[key])


def open_pair(knowledge: Knowledge, first: int, second: int) -> float:
    """Return how far the product of two columns is known beyond what each of them tells, in standard deviations."""
    key = ("pair", (first, second))
    if key not in knowledge.kept:
        one, other = _polynomials(knowledge, first), _polynomials(knowledge, second)
        basis = orthonormal(np.column_stack([one, other, one[:, 0] * other[:, 0]]))
        seen = knowledge.seen((first, second))
        knowledge.kept[key] = float(posterior_deviations(seen.matrix, seen.variances, basis[:, -1:])[0])
    return float(knowledge.kept[key])


def orthonormal(functions: Array) -> Array:
    """Make functions on rows orthonormal and of mean zero, one after the other; one that adds nothing becomes zero."""
    basis = functions - functions.mean(axis=0)
    lengths = np.sqrt(np.mean(basis**2, axis=0))
    for j in range(basis.shape[1]):
        for _ in range(2):
            basis[:, j] -= basis[:, :j] @ (basis[:, :j].T @ basis[:, j]) / len(basis)
        length = math.sqrt(np.mean(basis[:, j] ** 2))
        basis[:, j] *= 1.0 / length if length > _NEGLIGIBLE + 1e-7 * lengths[j] else 0.0
    return np.asarray(basis)


def _polynomials(knowledge: Knowledge, column: int) -> Array:
    key = ("polynomials", (column,))
    if key not in knowledge.kept:
        table = Chebyshev().factors(knowledge.rows[:, [column]])
        # A level or a mark is 0 or 1, so every function of it is a straight line.
        degrees = DEGREES if knowledge.release.schema.roles[column] == "value" else 1
        knowledge.kept[key] = orthonormal(np.stack([table.of(0, k) for k in range(1, degrees + 1)], axis=1))
    return np.asarray(knowledge.kept[key])


def _products(first: Array, second: Array) -> list[Array]:
    return [a * b for a in first.T for b in second.T]
