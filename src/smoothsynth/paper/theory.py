"""What the theorems promise, in numbers: accuracy, running time and size for given n, d and K.

The figures are n to a power with hidden constants and logarithms of n dropped: they compare methods and
sizes, and bound nothing. Sources: Jin et al., Theorems 3.1 and 3.2, Proposition 3.3 and Table 1; the
minimax rate of Ding, He and Zhu (2026, arXiv 2602.01607).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from smoothsynth.errors import BudgetError, PlanError

HIDDEN = "hidden constants (of d, K and B) and logarithms of n are dropped"


@dataclass(frozen=True, slots=True)
class Power:
    """A quantity factor * n^exponent; `value` is infinite where no such bound exists."""

    exponent: float
    value: float

    def __str__(self) -> str:
        if math.isinf(self.value) and math.isinf(self.exponent):
            return "super-exponential"
        return f"n^{self.exponent:.3f} = {self.value:.3g}"


@dataclass(frozen=True, slots=True)
class Rate:
    """What one method promises: its accuracy, and its time and table size where a theorem gives them."""

    method: str
    accuracy: Power
    time: Power | None = None
    size: Power | None = None


@dataclass(frozen=True, slots=True)
class Theory:
    """The promises of the theorems for a table of n rows, d columns and K-smooth queries."""

    rows: int
    dimensions: int
    order: int
    epsilon: float
    delta: float
    rates: tuple[Rate, ...]
    smoothness: tuple[Rate, ...]  # the paper's Table 1: K = 1, K, 2d and 10d

    def rate(self, method: str) -> Rate:
        """Return the rate of the method with this name."""
        for rate in self.rates:
            if rate.method == method:
                return rate
        known = ", ".join(rate.method for rate in self.rates)
        raise PlanError(f"method must be one of: {known}; found {method!r}. Use one of these names.")

    def __str__(self) -> str:
        budget = f"epsilon = {self.epsilon:g}" + (f", delta = {self.delta:g}" if self.delta else "")
        head = f"n = {self.rows:,}, d = {self.dimensions}, K = {self.order}, {budget} ({HIDDEN})"
        compared = _table("method", self.rates)
        ladder = _table("order of smoothness", self.smoothness)
        return "\n".join([head, "", *compared, "", "Performance against smoothness (Table 1)", *ladder])


def theory(n: int, d: int, K: int, *, epsilon: float, delta: float = 0.0) -> Theory:
    """Evaluate the theorems for n rows, d columns and K-smooth queries.

    pure eps           n^(-K/(2d+K)) / eps                                    Theorem 3.1
    (eps, delta)       n^(-2K/(3d+2K)) log(1/delta)^(K/(3d+2K)) / eps         Theorem 3.2, if delta > 0
    BLR                n^(-K/(d+3K))                                          Proposition 3.3
    minimax            n^(-min(1, K/d))                                       Ding, He and Zhu 2026
    sampling           n^(-1/2)
    """
    _check(n, d, K=K, epsilon=epsilon, delta=delta)
    rates = [_pure("paper, pure", n, d, K=K, epsilon=epsilon)]
    if delta > 0.0:
        rates.append(_approximate("paper, (eps, delta)", n, d, K=K, epsilon=epsilon, delta=delta))
    never = Power(math.inf, math.inf)
    rates += [
        Rate("BLR", _power(n, -blr_exponent(d, K)), time=never),
        Rate("minimax", _power(n, -minimax_exponent(d, K))),
        Rate("sampling error", _power(n, -0.5)),
    ]
    ladder = sorted({1, K, 2 * d, 10 * d})
    smoothness = tuple(_pure(_order_name(k, d), n, d, K=k, epsilon=epsilon) for k in ladder)
    return Theory(n, d, K, epsilon, delta, tuple(rates), smoothness)


def pure_exponent(d: int, K: int) -> float:
    """Return K/(2d+K): the paper's accuracy at pure epsilon (Theorem 3.1)."""
    return K / (2 * d + K)


def approximate_exponent(d: int, K: int) -> float:
    """Return 2K/(3d+2K): the paper's accuracy at (epsilon, delta) (Theorem 3.2)."""
    return 2 * K / (3 * d + 2 * K)


def blr_exponent(d: int, K: int) -> float:
    """Return K/(d+3K): the accuracy of BLR on discretised smooth queries (Proposition 3.3)."""
    return K / (d + 3 * K)


def minimax_exponent(d: int, K: int) -> float:
    """Return min(1, K/d): the best possible accuracy, up to a logarithm (Ding, He and Zhu 2026)."""
    return min(1.0, K / d)


def pure_weighted_exponent(d: int, K: int) -> float:
    """Return min(1, 2K/(3d)): Laplace noise that grows with the degree (docs/proofs/minimax.md)."""
    return min(1.0, 2 * K / (3 * d))


def _pure(method: str, n: int, d: int, *, K: int, epsilon: float) -> Rate:
    return Rate(
        method,
        accuracy=_power(n, -pure_exponent(d, K), factor=1.0 / epsilon),
        time=_power(n, (3 * d * K + 5 * d) / (4 * d + 2 * K)),
        size=_power(n, 1 + (K + 1) / (2 * d + K)),
    )


def _approximate(method: str, n: int, d: int, *, K: int, epsilon: float, delta: float) -> Rate:
    log, s = math.log(1.0 / delta), 3 * d + 2 * K
    return Rate(
        method,
        accuracy=_power(n, -approximate_exponent(d, K), factor=log ** (K / s) / epsilon),
        time=_power(n, (3 * d * K + 5 * d) / s, factor=log ** (-(3 * d * K + 5 * d) / (2 * s))),
        size=_power(n, (4 * d + 4 * K + 2) / s, factor=log ** (-(2 * d + 2 * K + 1) / s)),
    )


def _power(n: int, exponent: float, *, factor: float = 1.0) -> Power:
    logarithm = exponent * math.log(n)
    return Power(exponent, factor * math.exp(logarithm) if logarithm < 700.0 else math.inf)


def _order_name(K: int, d: int) -> str:
    names = {1: "K = 1", 2 * d: f"K = 2d = {K}", 10 * d: f"K = 10d = {K}"}
    return names.get(K, f"K = {K}")


def _table(title: str, rates: tuple[Rate, ...]) -> list[str]:
    lines = [(title, "accuracy", "time", "rows")]
    lines += [(r.method, str(r.accuracy), _cell(r.time), _cell(r.size)) for r in rates]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _cell(power: Power | None) -> str:
    return "-" if power is None else str(power)


def _check(n: int, d: int, *, K: int, epsilon: float, delta: float) -> None:
    if n < 2 or d < 1 or K < 1:
        raise PlanError(f"n must be at least 2, d and K at least 1; found {n}, {d} and {K}. Correct the arguments.")
    if not (math.isfinite(epsilon) and epsilon > 0) or not 0.0 <= delta < 1.0:
        raise BudgetError(
            f"epsilon must be positive and finite and delta in [0, 1); found {epsilon} and {delta}. "
            "Give another budget."
        )
