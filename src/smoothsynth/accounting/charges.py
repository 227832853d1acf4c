"""What a release costs: budgets, charges, the noise that each charge needs, and what charges add up to.

Every rounding goes the safe way: scales up, shares down, composed budgets up. The proofs are in
docs/proofs/composition.md and in the page of each mechanism.
"""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from smoothsynth._display import page
from smoothsynth.errors import BudgetError, PlanError, SmoothsynthError, arguments_in_words, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


NEIGHBOURS = "Neighbouring tables: same number of rows, one row replaced."

# Discrete Laplace, or Gaussian, noise on the counts of the values that occur; those below a threshold are not released.
STABLE = "stable histogram"
STABLE_GAUSSIAN = "stable gaussian histogram"
# The places of the largest of some scores, each with Gumbel noise; nothing else of them is released.
MAXIMA = "noisy maxima"
PURE_MAXIMA = "pure noisy maxima"
_NORMS = {
    "cube": "linf",
    "wishart": "nuclear",
    "ball": "l2",  # Read in earlier releases, and no longer drawn: density exp(-|z|_2 / scale), rounded.
    "discrete laplace": "l1",
    "discrete gaussian": "l2",
    STABLE: "l1",
    STABLE_GAUSSIAN: "l2",
    MAXIMA: "linf",
    PURE_MAXIMA: "linf",
}
_MOVES = {
    "linf": "no sum moves by more than {}",
    "l1": "the moves of all sums add up to at most {}",
    "l2": "the sums move by at most {} in Euclidean length",
    "nuclear": "the matrix of the sums moves by at most {} in nuclear norm",
}

# docs/proofs/discrete-gaussian.md: sigma^2 exceeds that of a continuous Gaussian by tau^2 = 4; what then
# still differs (2.1e-34 per coordinate, 1e-13 per floating-point evaluation) is below these margins.
_TAU_SQUARED = 4
# docs/proofs/noisy-maxima.md: pi/2, rounded up.
HALF_PI = Fraction(355, 226)
_MARGIN = 1e-9
_ROUNDING = 1e-13
EPSILON_RANGE = (1e-6, 1e4)
_MULTIPLIER_RANGE = (1e-4, 1e10)
_LEAST_DELTA = 1e-300
# Beyond 40 deviations a normal number lies with a probability below the least double.
_NORMAL_RANGE = (1e-3, 40.0)
# The one piece of advice on delta: at most a hundredth of 1/rows.
MOST_DELTA = 0.01
_ZERO = Fraction(0)


@arguments_in_words
@dataclass(frozen=True, slots=True)
class Budget:
    """The guarantee: P(S) <= e^epsilon P'(S) + delta for neighbouring tables; pure when delta = 0."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _positive(self.epsilon, "epsilon", error=BudgetError))
        delta = _finite(self.delta, "delta", error=BudgetError)
        if not 0 <= delta < 1:
            raise BudgetError(f"delta must be at least 0 and below 1; found {delta}. Give 0 to be pure.")
        object.__setattr__(self, "delta", delta)

    def in_words(self) -> str:
        """Write both numbers, delta only if there is one."""
        return f"epsilon {self.epsilon:.6g}" + (f", delta {self.delta:g}" if self.delta else "")

    def _repr_html_(self) -> str:
        return page(f"Budget: {self.in_words()}")


@dataclass(frozen=True, slots=True)
class Charge:
    """One noisy measurement of integer sums and its cost; refused if its noise does not cover the cost.

    `sensitivity` is that of the sums in `norm`, already times the rows of one person; `scale` is the
    parameter of the integer noise. What must hold, in exact arithmetic:

        cube, wishart, ball, discrete laplace:  sensitivity / scale <= epsilon
        discrete gaussian:             scale^2 >= (multiplier sensitivity)^2 + 4
        stable histogram:              sensitivity / scale <= epsilon,  and `delta` for a value that occurs once
        stable gaussian histogram:     as discrete gaussian,  and `delta` for a value that occurs once
        noisy maxima:                  scale^2 >= pi/2 coordinates (multiplier sensitivity)^2
        pure noisy maxima:             scale epsilon >= 2 coordinates sensitivity
    """

    purpose: str
    mechanism: str
    norm: str
    sensitivity: float
    scale: float
    coordinates: int
    epsilon: float | None
    multiplier: float | None
    delta: float = 0.0

    def __post_init__(self) -> None:
        if self.mechanism not in _NORMS or self.norm != _NORMS[self.mechanism]:
            known = ", ".join(f"{name} in {norm}" for name, norm in _NORMS.items())
            raise BudgetError(f"A charge must be one of: {known}; found {self.mechanism} in {self.norm}.")
        if type(self.coordinates) is not int or self.coordinates < 1:
            raise BudgetError("A charge must say how many sums it releases: a whole number, at least 1.")
        if self.mechanism == "wishart":
            columns_of_products(self.coordinates)
        gaussian = self.mechanism in ("discrete gaussian", MAXIMA, STABLE_GAUSSIAN)
        if (self.epsilon is None) is not gaussian or (self.multiplier is None) is gaussian:
            raise BudgetError(
                "Gaussian noise and noisy maxima must state a multiplier, other noise an epsilon; never both."
            )
        for name in ("sensitivity", "scale", "multiplier" if gaussian else "epsilon"):
            object.__setattr__(self, name, _positive(getattr(self, name), name, error=BudgetError))
        object.__setattr__(self, "delta", _finite(self.delta, "delta", error=BudgetError))
        if (self.mechanism in (STABLE, STABLE_GAUSSIAN)) is not (self.delta > 0) or not 0 <= self.delta < 1:
            raise BudgetError("A histogram of values that occur must state a delta between 0 and 1; others have none.")
        if not self._noise_suffices():
            raise BudgetError("The scale of a charge must cover what it claims to spend; it is too small.")

    def __repr__(self) -> str:
        cost = f"epsilon={self.epsilon:.6g}" if self.epsilon is not None else f"multiplier={self.multiplier:.6g}"
        return one_line(f"<Charge: {self.coordinates:,} sums, {self.mechanism}, {cost}>")

    def _repr_html_(self) -> str:
        return page("Charge", [("purpose", self.purpose), ("in words", self.sentence())])

    def _noise_suffices(self) -> bool:
        sensitivity, scale = Fraction(self.sensitivity), Fraction(self.scale)
        if self.multiplier is not None and self.mechanism == MAXIMA:
            return scale**2 >= HALF_PI * self.coordinates * (Fraction(self.multiplier) * sensitivity) ** 2
        if self.multiplier is not None:
            return scale**2 >= (Fraction(self.multiplier) * sensitivity) ** 2 + _TAU_SQUARED
        if self.mechanism == PURE_MAXIMA:
            sensitivity *= 2 * self.coordinates
        return self.epsilon is not None and scale * Fraction(self.epsilon) >= sensitivity

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on one sum, or on one score, in lattice units."""
        if self.mechanism in (MAXIMA, PURE_MAXIMA):
            return self.scale * math.pi / math.sqrt(6.0)
        if self.mechanism == "ball":
            return self.scale * math.sqrt(self.coordinates + 1)
        if self.mechanism == "wishart":
            return self.scale * math.sqrt((columns_of_products(self.coordinates) + 2) / 2)
        factors = {"linf": _cube_factor(self.coordinates), "l1": math.sqrt(2), "l2": 1.0}
        return self.scale * factors[self.norm]

    def sentence(self) -> str:
        """Say what was released, how it was protected and what that costs, for whoever must approve it."""
        moves = _MOVES[self.norm].format(f"{self.sensitivity:.12g}")
        if self.delta:
            return self._stable_sentence()
        if self.mechanism in (MAXIMA, PURE_MAXIMA):
            return self._maxima_sentence()
        if self.epsilon is not None:
            cost = f"costs epsilon = {self.epsilon:.12g} with delta = 0"
        else:
            cost = f"counts as Gaussian noise of {self.multiplier:.12g} times that length"
        return (
            f"{self.purpose}: {self.coordinates} integer sum{'s'[: self.coordinates - 1]} released with "
            f"{self.mechanism} noise of scale {self.scale:.12g} (standard deviation {self.deviation:.6g} on "
            f"each sum). When a row is replaced, {moves}; this {cost}. {NEIGHBOURS}"
        )

    def _maxima_sentence(self) -> str:
        cost = (
            f"counts as Gaussian noise of {self.multiplier:.12g} times the Euclidean length of a move"
            if self.epsilon is None
            else f"costs epsilon = {self.epsilon:.12g} with delta = 0"
        )
        return (
            f"{self.purpose}: the {self.coordinates} largest of all scores with Gumbel noise of scale {self.scale:.12g} are "
            f"named, and nothing else of any score is released. When a row is replaced, no score moves by more than "
            f"{self.sensitivity:.12g}; this {cost}. {NEIGHBOURS}"
        )

    def _stable_sentence(self) -> str:
        threshold = stable_threshold(self.scale, self.delta, gaussian=self.epsilon is None)
        length, cost = (
            ("in Euclidean length", f"counts as Gaussian noise of {self.multiplier:.12g} times that length")
            if self.epsilon is None
            else ("in all", f"costs epsilon = {self.epsilon:.12g}")
        )
        return (
            f"{self.purpose}: values that occur, at most {self.coordinates}, with their counts in {self.mechanism} noise of "
            f"scale {self.scale:.12g}, if the noisy count is at least {threshold:,}. When a row is "
            f"replaced, the counts move by at most {self.sensitivity:.12g} {length}, and a value that only this row has is "
            f"shown with a probability of at most {self.delta:.6g}; this {cost} with delta = {self.delta:.6g}. {NEIGHBOURS}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Give the fields as plain values, for a receipt; a delta only where there is one."""
        return {name: value for name, value in asdict(self).items() if name != "delta" or value}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Charge:
        """Read what `as_dict` wrote and check it again; other keys, such as a sentence, are not read."""
        missing = [name for name in cls.__slots__ if name not in fields and name != "delta"]
        if missing:
            raise BudgetError(f"A charge must have every field of a charge; found no {', '.join(missing)}.")
        return cls(**{name: fields[name] for name in cls.__slots__ if name in fields})


def cube_scale(sensitivity: float, epsilon: float) -> float:
    """Give the least float b with sensitivity / b <= epsilon exactly; sensitivity in the maximum norm."""
    return rounded_above(_exact(sensitivity, "sensitivity") / Fraction(Budget(epsilon).epsilon))


# The same, with the sensitivity in the L1 norm and in the nuclear norm.
laplace_scale = wishart_scale = cube_scale


def gaussian_sigma(sensitivity: float, multiplier: float) -> float:
    """Give sqrt((multiplier sensitivity)^2 + 4), rounded up; docs/proofs/discrete-gaussian.md has why."""
    length = _exact(sensitivity, "sensitivity") * _exact(multiplier, "multiplier")
    return _root_above(length**2 + _TAU_SQUARED)


def maxima_scale(sensitivity: float, multiplier: float, *, count: int) -> float:
    """Give sqrt(pi/2 count) multiplier sensitivity, rounded up: the Gumbel noise of `count` noisy maxima.

    One maximum of scores that move by at most D has a loss within a range of 2 D / scale, and is no easier to tell apart
    than two normal laws at a distance of sqrt(pi/2) D / scale; docs/proofs/noisy-maxima.md.
    """
    length = _exact(sensitivity, "sensitivity") * _exact(multiplier, "multiplier")
    return _root_above(HALF_PI * count * length**2)


def pure_maxima_scale(sensitivity: float, epsilon: float, *, count: int) -> float:
    """Give 2 count sensitivity / epsilon, rounded up: the Gumbel noise of `count` exponential mechanisms."""
    return rounded_above(2 * count * _exact(sensitivity, "sensitivity") / Fraction(Budget(epsilon).epsilon))


def stable_threshold(scale: float, delta: float, *, gaussian: bool = False) -> int:
    """Give a T with  P(1 + Z >= T) = q^(T-1) / (1 + q) <= delta,  Z discrete Laplace, q = e^(-1/scale).

    It is the least one up to rounding, which is upwards. The proof needs  delta <= 1 - q  too: docs/proofs/private-schema.md.
    With a discrete Gaussian Z of deviation `scale`,  P(1 + Z >= T) <= 1 - Phi((T - 2) / scale) <= delta.
    """
    if gaussian:
        far = _smallest(lambda z: 0.5 * math.erfc(z / math.sqrt(2)) * (1 + _MARGIN) <= delta, *_NORMAL_RANGE)
        return 2 + math.ceil(scale * far * (1.0 + _MARGIN))
    rare = min(delta, -math.expm1(-1.0 / scale))
    needed = scale * (-math.log(rare) - math.log1p(math.exp(-1.0 / scale)))
    return 1 + max(1, math.ceil(needed * (1.0 + _MARGIN) + _MARGIN))


def split_delta(delta: float, share: float) -> tuple[float, float]:
    """Divide a delta into a share and the rest; rounded down, so the exact sum is at most delta."""
    whole = Fraction(delta)
    part = rounded_below(whole * Fraction(share))
    return part, rounded_below(whole - Fraction(part))


def cube_deviation(coordinates: int, *, sensitivity: float, epsilon: float) -> float:
    """Give the standard deviation b sqrt((R+1)(R+2)/3) of each of R = `coordinates` sums, b the scale."""
    return cube_scale(sensitivity, epsilon) * _cube_factor(coordinates)


def wishart_deviation(coordinates: int, *, sensitivity: float, epsilon: float) -> float:
    """Give the standard deviation b sqrt((d+2)/2) of each of d (d+3)/2 = `coordinates` sums, b the scale."""
    return wishart_scale(sensitivity, epsilon) * math.sqrt((columns_of_products(coordinates) + 2) / 2)


def columns_of_products(coordinates: int) -> int:
    """Return the d of which there are d means, d squares and d (d-1)/2 products."""
    d = (math.isqrt(8 * coordinates + 9) - 3) // 2
    if d * (d + 3) // 2 != coordinates:
        raise BudgetError(f"Wishart noise is for all means, squares and products of columns, not {coordinates:,} sums.")
    return d


def laplace_deviation(*, sensitivity: float, epsilon: float) -> float:
    """Give the standard deviation sqrt(2) b of discrete Laplace noise; exactly 1/(sqrt(2) sinh(1/(2b)))."""
    return laplace_scale(sensitivity, epsilon) * math.sqrt(2)


def gaussian_delta(multiplier: float, epsilon: float) -> float:
    """Give the delta of Gaussian noise `multiplier` times the sensitivity, never below the truth.

        delta = Phi(u - t) - e^epsilon Phi(-u - t),    t = epsilon multiplier,  u = 1 / (2 multiplier)
              = Phi(u - t) (1 - M(t + u) / M(t - u)),  M = (1 - Phi) / phi, the Mills ratio

    Balle and Wang 2018, theorem 8. The second form neither overflows nor loses digits in the far tail.
    """
    low, high = EPSILON_RANGE
    if not low <= _positive(epsilon, "epsilon", error=BudgetError) <= high:
        raise BudgetError(f"epsilon for Gaussian noise must be {low:g} to {high:g}; found {epsilon}.")
    m = _positive(multiplier, "multiplier", error=BudgetError)
    t, u = epsilon * (1 - _MARGIN) * m, 0.5 / m
    share = -math.expm1(_log_mills(t + u) - _log_mills(t - u))
    bound = 0.5 * math.erfc((t - u) / math.sqrt(2)) * (share + _ROUNDING) * (1 + _MARGIN)
    return min(1.0, bound + sys.float_info.min)


def exceeding_probability(charges: Iterable[Charge], epsilon: float) -> float:
    """Give about how often the odds for one of two neighbouring tables exceed e^epsilon, where a row moves all it may.

        deltas of charges  +  Phi(mu / 2 - (epsilon - pure epsilons) / mu),    mu^2 the sum of 1/multiplier^2

    It is more than delta, 7 to 300 times as much for common budgets: delta bounds by how much probabilities exceed
    e^epsilon times each other, not how often odds do.
    """
    used = Usage.of(charges)
    if not used.mu_squared:
        return float(used.delta)
    mu = math.sqrt(used.mu_squared)
    beyond = (epsilon - float(used.epsilon)) / mu - mu / 2
    return min(1.0, float(used.delta) + 0.5 * math.erfc(beyond / math.sqrt(2)))


def gaussian_multiplier(epsilon: float, delta: float) -> float:
    """Give the least noise multiplier that is (epsilon, delta)-private, rounded up by one part in 1e8."""
    _check_gaussian(delta)
    least = _smallest(lambda m: gaussian_delta(m, epsilon) <= delta, *_MULTIPLIER_RANGE)
    # The margin makes gaussian_epsilon of the result at most `epsilon` again.
    return least * (1 + 10 * _MARGIN)


def gaussian_epsilon(multiplier: float, delta: float) -> float:
    """Give the least epsilon >= 1e-6 at which Gaussian noise is (epsilon, delta)-private, rounded up."""
    _check_gaussian(delta)
    low, high = EPSILON_RANGE
    if gaussian_delta(multiplier, high) > delta:
        raise BudgetError(f"Gaussian noise must allow some epsilon below {high:g}; use a larger multiplier.")
    return _smallest(lambda epsilon: gaussian_delta(multiplier, epsilon) <= delta, low, high)


def split_epsilon(epsilon: float, shares: Sequence[float]) -> list[float]:
    """Divide a pure budget in proportion to `shares`; rounded down, so the exact sum is at most epsilon."""
    whole = Fraction(Budget(epsilon).epsilon)
    return [rounded_below(whole * share) for share in _proportions(shares)]


def split_multiplier(multiplier: float, shares: Sequence[float]) -> list[float]:
    """Divide one Gaussian into several, 1/m_i^2 <= w_i/m^2 with w the proportions of `shares`."""
    whole = _exact(multiplier, "multiplier") ** 2
    return [_root_above(whole / share) for share in _proportions(shares)]


@dataclass(frozen=True, slots=True)
class Usage:
    """What charges have used, in exact numbers: pure epsilon, deltas of charges, and mu^2 of Gaussian privacy."""

    epsilon: Fraction = _ZERO
    delta: Fraction = _ZERO
    mu_squared: Fraction = _ZERO

    @classmethod
    def of(cls, charges: Iterable[Charge]) -> Usage:
        """Add up charges, each by its kind."""
        charges = list(charges)
        return cls(
            sum((Fraction(c.epsilon) for c in charges if c.epsilon is not None), _ZERO),
            sum((Fraction(c.delta) for c in charges), _ZERO),
            sum((1 / Fraction(c.multiplier) ** 2 for c in charges if c.multiplier is not None), _ZERO),
        )

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.epsilon + other.epsilon, self.delta + other.delta, self.mu_squared + other.mu_squared)

    def __mul__(self, times: Fraction) -> Usage:
        return Usage(self.epsilon * times, self.delta * times, self.mu_squared * times)

    def cost(self, delta: float) -> Budget:
        """Return what all of it costs if it was fixed beforehand, Gaussian noise at what charges leave of `delta`."""
        if not self.mu_squared:
            return Budget(rounded_above(self.epsilon), rounded_above(self.delta))
        left = Fraction(delta) - self.delta
        if self.delta and left <= 0:
            raise BudgetError(
                f"The charges alone spend a delta of {float(self.delta):g}; nothing of {delta:g} is left for noise."
            )
        gaussian = gaussian_epsilon(root_below(1 / self.mu_squared), rounded_below(left))
        return Budget(rounded_above(self.epsilon + Fraction(gaussian)), delta)


def compose(charges: Iterable[Charge], *, delta: float) -> Budget:
    """Give what charges cost together if all of them were fixed beforehand; docs/proofs/composition.md.

    Pure epsilons add up, and deltas of charges. Gaussians are one Gaussian, 1/m^2 = sum 1/m_i^2, converted at what those
    leave of `delta`. With both, the two add up. Charges that are chosen one after the other need a PrivacyFilter.
    """
    charges = list(charges)
    if not charges:
        raise BudgetError("Composition needs at least one charge; found none.")
    return Usage.of(charges).cost(delta)


def _log_mills(x: float) -> float:
    """Give log((1 - Phi(x)) / phi(x)): by erfc below 5, by 1/(x + 1/(x + 2/(x + 3/...))) from there."""
    if x < 5:
        return math.log(0.5 * math.erfc(x / math.sqrt(2))) + 0.5 * x * x + 0.5 * math.log(2 * math.pi)
    fraction = x
    for k in range(60, 0, -1):
        fraction = x + k / fraction
    return -math.log(fraction)


def _smallest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Bisect for where a condition that holds at `high` begins to hold; return the side where it does."""
    if holds(low):
        return low
    while high > low * (1 + 1e-12):
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _proportions(shares: Sequence[float]) -> list[Fraction]:
    exact = [_exact(share, "a share") for share in shares]
    return [share / sum(exact) for share in exact]


def _cube_factor(coordinates: int) -> float:
    return math.sqrt((coordinates + 1) * (coordinates + 2) / 3)


def _check_gaussian(delta: float) -> None:
    if Budget(1.0, delta).delta < _LEAST_DELTA:
        raise BudgetError(f"delta must be at least {_LEAST_DELTA:g} for Gaussian noise; found {delta}.")


def _finite(value: object, name: str, *, error: type[SmoothsynthError]) -> float:
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise error(f"{name} must be a finite number; found {value!r:.40}. Give a number.")


def _positive(value: object, name: str, *, error: type[SmoothsynthError]) -> float:
    number = _finite(value, name, error=error)
    if number <= 0:
        raise error(f"{name} must be greater than 0; found {number}. Give a positive number.")
    return number


def _exact(value: object, name: str) -> Fraction:
    number = _positive(value, name, error=PlanError)
    return Fraction(int(value)) if isinstance(value, Integral) else Fraction(number)


def rounded_above(value: Fraction) -> float:
    """Round up to a float."""
    try:
        near = float(value)
    except OverflowError:
        raise PlanError("The noise must fit in a floating-point number; use a larger epsilon.") from None
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def rounded_below(value: Fraction) -> float:
    """Round down to a float."""
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)


def _root_above(square: Fraction) -> float:
    root = math.sqrt(rounded_above(square))
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def root_below(square: Fraction) -> float:
    """Round a square root down to a float."""
    root = math.sqrt(rounded_above(square))
    while Fraction(root) ** 2 > square:
        root = math.nextafter(root, 0.0)
    return root


def unit_of_privacy(person: str | None, rows_per_person: int) -> str:
    """Say whom or what a promise is about: a row, a person of whom the caller knows the rows, or one with an id."""
    if person is not None:
        taken = "one is taken" if rows_per_person == 1 else f"at most {rows_per_person} are taken"
        return f"one person with all rows of that person, of which {taken}"
    return "one row" if rows_per_person == 1 else f"one person (up to {rows_per_person} rows)"
