"""Sentences with figures in them: written from a template, and recognised by it later.

The result of a fit: weights, and an outcome in words.

What a fit hands back: weights on the candidates, and in words whether they are the ones asked for.

What a fit reached, in words: the only sentences that the outcome of a release can have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    Progress = Callable[[int, int | None, str], object]


# A figure of no more digits than any of ours has; whether it is written as its slot asks for is seen by writing it.
_FIGURE = r"(-?\d{1,12}(?:\.\d{1,12})?(?:e[+-]\d{2,3})?|-?inf|nan)"
_SLOT = re.compile(r"\{[^{}]*\}")


def fits(text: str, template: str) -> bool:
    """Whether a text is what a template gives with some figure in each of its {slots}."""
    found = _sentence_pattern(template).fullmatch(text)
    slots = (slot.strip("{}").partition(":")[2] for slot in _SLOT.findall(template))
    return found is not None and all(map(_as_written, found.groups(), slots))


def _as_written(figure: str, form: str) -> bool:
    """Whether a figure is what its value gives in this form; without one it is a whole number."""
    if form:
        return format(float(figure), form) == figure
    return figure.isdecimal() and str(int(figure)) == figure


@cache
def _sentence_pattern(template: str) -> re.Pattern[str]:
    return re.compile(_FIGURE.join(map(re.escape, _SLOT.split(template))), re.ASCII)


@dataclass(frozen=True, slots=True)
class Fit:
    """Weights on the candidates and how they were reached.

    `residual` is the l1 optimum of the linear program, the relative norm of the dual gradient of the maximum-entropy fit, or
    the distance of the least squares over that of the noise. `outcome` is a sentence for the user, with the remedy where
    the fit did not converge.
    """

    weights: NDArray[np.float64]
    method: str
    converged: bool
    outcome: str
    steps: int
    residual: float
    dual: NDArray[np.float64]

    def __post_init__(self) -> None:
        self.weights.setflags(write=False)
        self.dual.setflags(write=False)


def check_problem(matrix: NDArray[np.floating], target: NDArray[np.floating]) -> None:
    """Refuse a matrix of features and a target that do not belong together or are not finite."""
    if matrix.ndim != 2 or target.shape != matrix.shape[1:] or 0 in matrix.shape:
        raise PlanError(
            f"the matrix must be (candidates, moments), neither of them 0, with one target per moment; found a "
            f"matrix of shape {matrix.shape} and a target of shape {target.shape}: pass the features of the "
            f"candidates as rows, and the noisy moments in the same order"
        )
    # A sum is finite only if every entry is, and needs no copy of a large matrix.
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.isfinite(matrix.sum()) and np.isfinite(target.sum())
    if not finite:
        raise PlanError(
            "the features of the candidates and the moments must be finite; found one that is not: "
            "candidates must lie in [-1, 1] and moments must come from a measurement"
        )


DENSITIES = "The densities of {} columns agree with the noisy moments within their noise."
ROUGH_DENSITIES = (
    "Some densities were not found to full accuracy; the rows are private all the same, but less accurate. "
    "Try fewer columns or a larger epsilon."
)
MATCHED = (
    DENSITIES[:-1] + "; rows swapped values in {} sweeps, until their tables were {:.3g} times as far off as noise is."
)
STILL_MATCHING = DENSITIES[:-1] + (
    "; after {} sweeps of swapped values their tables, {:.3g} times as far off as noise is, were still getting closer. The "
    "rows are private all the same; ask for fewer tables if that is too far."
)
FLATTEST = "Solved in {steps} steps: the flattest weights whose moments agree with the noisy ones."
_NOT_FLATTEST = (
    "Not solved to the tolerance of {tolerance:g}: after {steps} steps the gradient is still {residual:.3g}, so the moments "
    "of the weights miss their best values by about that much"
)
HARMLESS = f"{_NOT_FLATTEST}, and each by less than a tenth of its noise: that does no harm. More steps would solve it."
FAR = (
    f"{_NOT_FLATTEST}. The target is far from what the candidates can reach within the noise: use candidates from a model "
    "of the noisy moments or more of them, a larger scale, or allow more steps."
)
NEAREST = "Solved: the smallest l1 distance to the noisy moments is {optimum:.6g}, on {candidates} candidates."
NOT_NEAREST = (
    "Not solved to the tolerance of {tolerance:g}: {optimum:.6g} was reached and the optimum may be lower by {gap:.3g}; the "
    "weights are usable with that error. Ask for a larger tolerance, fewer moments, or the maximum-entropy fit."
)
CLOSE = "Solved in {steps} steps: moments of the weights are {ratio:.3g} times as far from the noisy ones as noise is."
NOT_CLOSE = (
    "Not solved in {steps} steps: moments of the weights are {ratio:.3g} times as far from the noisy ones as noise is. "
    "The rows are private all the same, but less accurate: ask for another smoothness, or take method='auto'."
)

# Remarks, after what the fit reached: what the released numbers tell of the rows.
UNMATCHED = "About {share} of the cells of {column} are no level: give it an `other`, or make it nullable."
CONTRADICTED = "But the rows contradict what was released about {columns}: do not use them for that."

# What each kind of fit can reach: solved, and not.
_REACHED = {
    ("maximum entropy", True): (DENSITIES, MATCHED, STILL_MATCHING, FLATTEST),
    ("maximum entropy", False): (ROUGH_DENSITIES, HARMLESS, FAR),
    ("linear program", True): (NEAREST,),
    ("linear program", False): (NOT_NEAREST,),
    ("least squares", True): (CLOSE,),
    ("least squares", False): (NOT_CLOSE,),
}


def is_outcome(text: str, names: Iterable[str], *, method: str, converged: bool) -> bool:
    """Whether a text is the outcome of such a fit, with or without remarks about columns of these names."""
    reached = without_remarks(text, names)
    return any(fits(reached, template) for template in _REACHED.get((method, converged), ()))


def quoted(name: str) -> str:
    """Return the name of a column as remarks have it."""
    return f"{name!r:.60}"


def without_remarks(text: str, names: Iterable[str]) -> str:
    """Return what a fit reached, without the remarks about columns of these names that may follow it."""
    name = f"(?:{'|'.join(re.escape(quoted(name)) for name in names)})"
    several = rf"{name}(?: with {name})*"
    unmatched = _pattern(UNMATCHED, share=r"\d{1,3}\.\d%", column=name)
    contradicted = _pattern(CONTRADICTED, columns=rf"{several}(?:, {several})*(?: and [\d,]{{1,20}} more)?")
    return re.sub(rf"(?: {unmatched})*(?: {contradicted})?\Z", "", text, count=1, flags=re.ASCII)


def _pattern(template: str, **slots: str) -> str:
    """Return what a template gives with a pattern in each of its {slots}."""
    parts = re.split(r"\{(\w+)\}", template)
    return "".join(slots[part] if i % 2 else re.escape(part) for i, part in enumerate(parts))
