"""The arithmetic of a receipt, and a second accountant.

The delta of composed Gaussian noise a second time, from the definition instead of a closed form.

Do the receipt's arithmetic again: noise, what charges cost together, and the words about it.

Everything is computed again from moments.json and from the figures of the receipt, as plain numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.accounting.charges import MAXIMA, PURE_MAXIMA, Charge, compose
from smoothsynth.pipeline.load import strange_receipt, strange_sentences, together
from smoothsynth.pipeline.release import Receipt
from smoothsynth.queries.measurement import MOST_ROWS
from smoothsynth.queries.soft_tables import Cells
from smoothsynth.verification.check import Check, verdict

if TYPE_CHECKING:
    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.verification.folder import Evidence


_STEPS = 20_000
# Where the integrand has fallen by e^-60 from its peak, the rest is below 1e-20 of it.
_FALL = 60.0


def gaussian_delta_by_integral(mu: float, epsilon: float) -> float:
    """Integrate the privacy loss L ~ N(mu^2/2, mu^2) of Gaussian noise with mu = sensitivity / deviation:

        delta(epsilon) = E max(0, 1 - e^(epsilon - L)) = int_0^inf (1 - e^-s) N(epsilon + s; mu^2/2, mu^2) ds

    by Simpson's rule on [0, b], b where the density has fallen by e^-60. Nothing is shared with
    `privacy.gaussian_delta` (Balle and Wang 2018), which it is held against. Source of the definition: Sommer,
    Meiser and Mohammadi, PoPETs 2019, on privacy-loss distributions.
    """  # noqa: D400, D415
    away = epsilon - mu * mu / 2.0
    # The positive root of b^2 + 2 away b = 2 fall mu^2, written so that it loses no digits for large `away`.
    square = 2.0 * _FALL * mu * mu
    root = math.sqrt(away * away + square)
    length = square / (away + root) if away > 0.0 else root - away
    s = np.linspace(0.0, length, _STEPS + 1)
    logs = -((away + s) ** 2) / (2.0 * mu * mu)
    peak = float(logs.max())
    values = -np.expm1(-s) * np.exp(logs - peak)
    simpson = values[0] + values[-1] + 4.0 * values[1:-1:2].sum() + 2.0 * values[2:-1:2].sum()
    density = math.exp(peak) / (mu * math.sqrt(2.0 * math.pi))
    return float(density * simpson * length / _STEPS / 3.0)


_NEAR = 1e-6
_PI_ABOVE = Fraction(355, 113)


def check_charges(evidence: Evidence) -> list[Check]:
    """Hold each charge against the measurement it is for: one each, of the same rows, noise and size."""
    facts, measured = evidence.facts, evidence.measurements
    problems = []
    left_out = evidence.measured.left_out
    if len(measured) + left_out != len(facts["charges"]):
        problems.append(f"There are {len(facts['charges'])} charges for {len(measured) + left_out} measurements.")
    receipt = evidence.stated.receipt
    if not 1 <= receipt.together[0] <= facts["rows"] <= MOST_ROWS or facts["rows_per_person"] < 1:
        problems.append(f"A table cannot have {facts['rows']:,} rows, {facts['rows_per_person']:,} of one person.")
    for i, (charge, m) in enumerate(zip(facts["charges"], measured, strict=False), start=1):
        expected = m.charge().as_dict()
        names = ("purpose", "mechanism", "norm", "coordinates", "epsilon", "multiplier", "delta")
        wrong = [name for name in names if expected.get(name) != charge.get(name)]
        if wrong or together(m) != receipt.together:
            problems.append(f"Charge {i} is not for what was measured: another {', '.join(wrong) or 'unit'}.")
    problems += [p for noisy in evidence.moments if (p := _misfit(evidence, noisy))]
    found = evidence.found
    counted = [] if found is None else [noisy.rows for noisy in found.noisy]
    if set(counted) - {facts["rows"]}:
        problems.append("Private bounds, levels or codes were counted in another number of rows than the receipt says.")
    if evidence.subspace is not None and evidence.subspace.rows != facts["rows"]:
        problems.append("The subspace iteration is of another number of rows than the receipt says.")
    sums = sum(charge["coordinates"] for charge in facts["charges"])
    words = f"{len(measured)} charges, one for each measurement, for {sums:,} sums of {facts['rows']:,} {receipt.unit}."
    if left_out and not problems:
        words = (
            f"{left_out} charges of an earlier format, for pairs of columns, were not compared with what was measured."
        )
        return [Check("charges", "note", words, compared=False)]
    return verdict("charges", problems, words)


def check_noise(evidence: Evidence) -> list[Check]:
    """Hold the scale of the noise against the cost, exactly.

    b epsilon >= D;  of Gaussian noise  sigma^2 >= (m D)^2 + 4;  of k noisy maxima  s^2 >= (pi/2) k (m D)^2,
    or  s epsilon >= 2 k D.
    """
    problems = []
    for i, charge in enumerate(evidence.facts["charges"], start=1):
        D, scale = Fraction(charge["sensitivity"]), Fraction(charge["scale"])
        if charge["multiplier"] is not None:
            least = (Fraction(charge["multiplier"]) * D) ** 2
            least = _PI_ABOVE / 2 * charge["coordinates"] * least if charge["mechanism"] == MAXIMA else least + 4
            enough, needed = scale > 0 and scale**2 >= least, math.sqrt(least)
        else:
            times = 2 * charge["coordinates"] if charge["mechanism"] == PURE_MAXIMA else 1
            least = times * D / Fraction(charge["epsilon"] or 0)
            enough, needed = scale >= least > 0, float(least)
        if not enough or not math.isclose(float(scale), needed, rel_tol=_NEAR):
            problems.append(f"Charge {i} has noise of scale {float(scale):.10g}; its cost needs {needed:.10g}.")
    words = f"The noise of {len(evidence.facts['charges'])} charges has the scale they pay for."
    return verdict("noise", problems, words)


def check_budget(evidence: Evidence) -> list[Check]:
    """Add up the charges twice, by `compose` and by an integral of the privacy loss, and hold both against the claim."""
    facts = evidence.facts
    budget, spent = facts["budget"], facts["spent"]
    total = compose([Charge.from_dict(charge) for charge in facts["charges"]], delta=budget["delta"])
    pure = math.fsum(charge["epsilon"] for charge in facts["charges"] if charge["epsilon"] is not None)
    mu = math.sqrt(math.fsum(c["multiplier"] ** -2.0 for c in facts["charges"] if c["multiplier"] is not None))
    # What is left for the Gaussian charges must give them no more than the delta that is claimed.
    rest = budget["epsilon"] * (1.0 + _NEAR) - pure
    own = math.fsum(charge.get("delta", 0.0) for charge in facts["charges"])
    delta = own + (gaussian_delta_by_integral(mu, rest) if mu else 0.0)
    problems = []
    if total.epsilon > budget["epsilon"] or total.delta > budget["delta"]:
        problems.append(f"The charges cost {_pair(total.epsilon, total.delta)}, more than {_pair(**budget)}.")
    second = f"delta = {delta:.4g} at epsilon = {budget['epsilon']:g}" if mu or own else f"epsilon = {pure:.9g}"
    if rest < 0.0 or delta > budget["delta"]:
        problems.append(f"A second calculation finds {second}, more than {_pair(**budget)}.")
    if not math.isclose(total.epsilon, spent["epsilon"], rel_tol=_NEAR) or total.delta != spent["delta"]:
        problems.append(f"The charges cost {_pair(total.epsilon, total.delta)}, not {_pair(**spent)} as stated.")
    words = f"Together {_pair(total.epsilon, total.delta)}, within {_pair(**budget)}; a second calculation: {second}."
    return verdict("budget", problems, words)


def check_words(evidence: Evidence) -> list[Check]:
    """Hold the words against the figures: the promise, the neighbours, each charge, the names of methods."""
    facts, problems = evidence.facts, []
    receipt = Receipt.from_dict(facts)
    if facts.get("promise") != receipt.promise():
        problems.append("The promise does not say what the figures say.")
    if facts.get("neighbours") != receipt.neighbours:
        problems.append("The receipt does not say which tables are neighbours, or says it otherwise.")
    for i, (charge, stated) in enumerate(zip(receipt.charges, facts["charges"], strict=True), start=1):
        if stated.get("in_words") != receipt.in_words(charge):
            problems.append(f"The sentence of charge {i} does not say what its figures say.")
    problems += [*strange_receipt(evidence.stated), *strange_sentences(evidence.stated, evidence.measured)]
    return verdict("words", problems, f"The promise and {len(receipt.charges)} sentences say what the figures say.")


def _misfit(evidence: Evidence, noisy: NoisyMoments) -> str | None:
    """Say whether moments are of other rows, or of coordinates that the schema (or the transformation) does not have."""
    transformation, d = noisy.measurement.transformation, evidence.schema.dimensions
    cells = isinstance(noisy.features, Cells)
    used = [] if cells else [c for feature in noisy.features for term in feature.terms for c, _ in term]
    if not (all(0 <= c < d for c in used) if transformation is None else transformation.sees(d, used)):
        return f"{noisy.measurement.purpose!r:.80}: of columns that the schema does not have."
    if noisy.rows != evidence.facts["rows"]:
        return (
            f"{noisy.measurement.purpose!r:.80}: of {noisy.rows:,} rows; the receipt says {evidence.facts['rows']:,}."
        )
    return None


def _pair(epsilon: float, delta: float) -> str:
    return f"epsilon = {epsilon:.9g}" + (f", delta = {delta:g}" if delta else "")
