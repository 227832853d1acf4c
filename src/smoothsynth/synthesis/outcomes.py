"""What a fit reached, in words: the only sentences that the outcome of a release can have."""

from __future__ import annotations

from smoothsynth.sentences import fits

DENSITIES = "The densities of {} columns agree with the noisy moments within their noise."
ROUGH_DENSITIES = (
    "Some densities were not found to full accuracy; the rows are private all the same, but less accurate. "
    "Try fewer columns or a larger epsilon."
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

_ALL = (DENSITIES, ROUGH_DENSITIES, FLATTEST, HARMLESS, FAR, NEAREST, NOT_NEAREST)


def is_outcome(text: str) -> bool:
    """Whether a text is the outcome of some fit."""
    return any(fits(text, template) for template in _ALL)
