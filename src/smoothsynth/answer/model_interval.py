"""The model-based interval of the mean of a function of a few columns (docs/proofs/answers.md).

For every choice of c, with phi the measured features, b their private and bhat their released means,

    private mean of f - synthetic mean of f  =  c . (bhat - synthetic phi) - c . (bhat - b) + (private - synthetic) mean of g
                                                   fit, known                 noise, known law       g = f - c . phi, unseen

The unseen part is taken to have variance  sum_j t_j^2 g_j^2 + t_rest^2 |g_rest|^2 + t_spike^2 sum_w (d_w . g)^2,  g_j the
coordinates of g in orthonormal functions of one, two and three of the columns, and d_w . g what the mean of g changes by if
rows next to each other in a column have one value (spikes.py); c minimises noise plus unseen variance.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.answer.evidence import MOST_SETS, drop_oldest, posterior_deviations
from smoothsynth.answer.spikes import spike_changes
from smoothsynth.queries.bases import Chebyshev

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.answer.evidence import DesignMatrix, Evidence

    Array = NDArray[np.float64]


# How far the private mean of an unmeasured function may be off, in its standard deviations: for one column or a product
# of two, RELATIVE times what is left open of it; for higher products of two and of three, JOINT times how wrong the model
# was about row norms, or UNKNOWN if those were not measured; for what is left, half of that. All within limits.
RELATIVE, JOINT, UNKNOWN, LEAST, MOST = 0.8, 3.0, 0.4, 0.1, 1.0
# Row norms that are as expected do not show that the model fits in all else: rows on rings have them too.
LEAST_JOINT = 0.3
# The same for what is left of functions with jumps: of fine structure, such as values that many rows share, nothing is known.
OF_ROUGH = 0.8
# Rows next to each other in a column may have one value: so many times the change that this makes is a standard deviation.
SPIKE = 1.0
# Where a table of a pair was measured: so many times its misfit may be that of other functions of the pair.
PAIR_MISFIT = 2.0
# Polynomials of one column, and those whose products stand for pairs and triples (of more than three columns: one each).
DEGREES, PAIR_DEGREES, TRIPLE_DEGREES, OPEN_DEGREES = 5, 3, 2, 3
# Triples of coordinates of three columns that are looked at; categories of many levels have more.
MOST_TRIPLES = 32
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class OrthonormalBasis:
    """Orthonormal functions of some columns on the test rows, their prior scales, and measured features in them.

    `inside` and `outside` are the Gram matrices of the features along the functions, scaled, and beside them. `changes` are
    those of the weights of test rows by spikes, and `changed` what they do to the features.
    """

    functions: Array
    scales: Array
    design: DesignMatrix
    along: Array
    across: Array
    rest: float
    inside: Array
    outside: Array
    changes: Array
    changed: Array


@dataclass(frozen=True, slots=True)
class Components:
    """Standard deviations of noise, approximation error and sampling, and the residual shift `fit`.

    `noise` includes what shrinkage takes from the shift.
    """

    noise: float
    unseen: float
    sampling: float
    fit: float

    def deviation(self) -> float:
        """Return the standard deviation of their sum."""
        return math.hypot(self.noise, self.unseen, self.sampling)


def basis_of(evidence: Evidence, columns: Sequence[int]) -> OrthonormalBasis:
    """Return the orthonormal basis of some columns, made once for each set of them."""
    key = tuple(columns)
    if key not in evidence.bases:
        drop_oldest(evidence.bases, MOST_SETS)
        evidence.bases[key] = _basis(evidence, columns)
    found: OrthonormalBasis = evidence.bases[key]
    return found


def components_of(basis: OrthonormalBasis, values: Array, *, synthetic_rows: int, rough: bool = False) -> Components:
    """Split the uncertainty of the mean of a function, given at the test rows, into its components."""
    count, design, others = len(values), basis.design, (OF_ROUGH if rough else basis.rest) ** 2
    centred = values - values.mean()
    own = basis.functions.T @ centred / count
    rest = centred - basis.functions @ own
    squared = basis.scales**2
    by_spikes, spike = basis.changes @ centred, SPIKE**2
    gram = basis.inside + others * basis.outside + spike * basis.changed.T @ basis.changed
    gram[np.diag_indices_from(gram)] += design.variances + 1e-18
    right = basis.along.T @ (squared * own) + others * basis.across.T @ rest / count
    right += spike * basis.changed.T @ by_spikes
    weights = np.linalg.solve(gram, right) if len(right) else right
    left, left_rest = own - basis.along @ weights, rest - basis.across @ weights
    left_spikes = by_spikes - basis.changed @ weights
    unseen = float(squared @ left**2 + others * np.mean(left_rest**2) + spike * left_spikes @ left_spikes)
    noise = float(weights**2 @ design.variances)
    residual = float(weights @ design.residuals)
    # The shift is the positive-part James-Stein estimate of the residual; what it takes away counts as noise.
    fit = residual * (1.0 - noise / residual**2) if residual**2 > noise else 0.0
    noise += (residual - fit) ** 2
    sampling = float(left @ left + np.mean(left_rest**2)) / synthetic_rows
    return Components(math.sqrt(noise), math.sqrt(unseen), math.sqrt(sampling), fit)


def quantile(confidence: float) -> float:
    """Return how many standard deviations a normal error stays within, with that confidence."""
    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)


def heavy_quantile(confidence: float) -> float:
    """Return the same for a Laplace error, the heaviest noise of a release; never below the normal one."""
    return max(quantile(confidence), -math.log1p(-confidence) / math.sqrt(2.0))


def _basis(evidence: Evidence, columns: Sequence[int]) -> OrthonormalBasis:
    owners = evidence.release.schema.owners
    several = len({owners[c][0] for c in columns})
    polynomials = {c: _polynomials(evidence, c) for c in columns}
    functions = [p for c in columns for p in polynomials[c].T]
    scales = [max(LEAST, RELATIVE * open_shape(evidence, c)) for c in columns for _ in polynomials[c].T]
    degrees, joint = PAIR_DEGREES if several <= 3 else 1, joint_scale(evidence)
    # Products of coordinates of one column are no new functions: of levels at most one is 1, a missing value is 0.
    apart = [(a, b) for a, b in itertools.combinations(columns, 2) if owners[a][0] != owners[b][0]]
    for a, b in apart:
        products = _products(polynomials[a][:, :degrees], polynomials[b][:, :degrees])
        functions += products
        scales.append(max(LEAST, RELATIVE * open_pair(evidence, a, b)))
        scales += [pair_scale(evidence, a, b)] * (len(products) - 1)
    if several == 3:
        triples = [t for t in itertools.combinations(columns, 3) if len({owners[c][0] for c in t}) == 3]
        for triple in triples[:MOST_TRIPLES]:
            of_two = np.stack(_products(*(polynomials[c][:, :TRIPLE_DEGREES] for c in triple[:2])), axis=1)
            products = _products(of_two, polynomials[triple[2]][:, :TRIPLE_DEGREES])
            functions += products
            scales += [joint] * len(products)
    return _measured(
        orthonormal(np.stack(functions, axis=1)),
        np.array(scales),
        evidence.design(columns),
        spike_changes(evidence, columns),
        rest=joint / 2.0,
    )


def _measured(
    functions: Array, scales: Array, design: DesignMatrix, changes: Array, *, rest: float
) -> OrthonormalBasis:
    """Split measured features into what lies along the functions and what is left; the same for every question."""
    along = functions.T @ design.matrix / len(functions)
    across = design.matrix - functions @ along
    inside, outside = along.T @ (scales[:, None] ** 2 * along), across.T @ across / len(across)
    return OrthonormalBasis(
        functions, scales, design, along, across, max(LEAST, rest), inside, outside, changes, changes @ design.matrix
    )


def joint_scale(evidence: Evidence) -> float:
    """Return how uncertain unmeasured functions of several columns are, in standard deviations."""
    return UNKNOWN if evidence.joint_misfit is None else min(MOST, max(LEAST_JOINT, JOINT * evidence.joint_misfit))


def pair_scale(evidence: Evidence, first: int, second: int) -> float:
    """Return the same for functions of two columns: by the copula misfit, if a table of the pair was measured."""
    misfit = evidence.pair_misfit.get(frozenset((first, second)))
    return joint_scale(evidence) if misfit is None else min(MOST, max(LEAST, PAIR_MISFIT * misfit))


def open_shape(evidence: Evidence, column: int) -> float:
    """Return how far the low polynomials of a column are known, in standard deviations: 0 exactly, VAGUE not at all."""
    key = ("shape", (column,))
    if key not in evidence.kept:
        design = evidence.design((column,))
        left = posterior_deviations(design.matrix, design.variances, _polynomials(evidence, column)[:, :OPEN_DEGREES])
        evidence.kept[key] = float(np.sqrt(np.mean(left**2)))
    return float(evidence.kept[key])


def open_pair(evidence: Evidence, first: int, second: int) -> float:
    """Return how far the product of two columns is known beyond what each of them tells, in standard deviations."""
    key = ("pair", (first, second))
    if key not in evidence.kept:
        one, other = _polynomials(evidence, first), _polynomials(evidence, second)
        basis = orthonormal(np.column_stack([one, other, one[:, 0] * other[:, 0]]))
        design = evidence.design((first, second))
        evidence.kept[key] = float(posterior_deviations(design.matrix, design.variances, basis[:, -1:])[0])
    return float(evidence.kept[key])


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


def _polynomials(evidence: Evidence, column: int) -> Array:
    key = ("polynomials", (column,))
    if key not in evidence.kept:
        table = Chebyshev().factors(evidence.rows[:, [column]])
        # An indicator is 0 or 1, so every function of it is a straight line.
        degrees = DEGREES if evidence.release.schema.roles[column] == "value" else 1
        evidence.kept[key] = orthonormal(np.stack([table.of(0, k) for k in range(1, degrees + 1)], axis=1))
    return np.asarray(evidence.kept[key])


def _products(first: Array, second: Array) -> list[Array]:
    return [a * b for a in first.T for b in second.T]
