"""The value of an expression at rows: exactly, or between two smooth functions where it has jumps.

    1[t >= 0]  lies between  s(t / h)  and  s(1 + t / h),     s(u) = 0 for u <= 0, 1 for u >= 1, smooth between

and every operation carries a lower and an upper function along (interval arithmetic, row by row).
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.answer.language import EXAMPLE, Apply, Column, Node, Number, Text, is_aggregate, walk
from smoothsynth.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Table = Mapping[str, Array]
    Bounds = tuple[Array, Array]

# Squares and sums of squares of such numbers are far from where doubles end.
LARGEST = 1e100
COMPARISONS = ("<", "<=", ">", ">=", "=", "!=")
# A case jumps if one of its conditions does: a level or a missing value is 0 or 1 in every row and has no jump.
_JUMPS = (*COMPARISONS, "floor", "ceil", "round")
TRUTHS = (*COMPARISONS, "and", "or", "not", "is level", "is true", "is null")


def has_jumps(node: Node) -> bool:
    """Whether an expression is not continuous: comparisons, rounding."""
    return any(isinstance(one, Apply) and one.name in _JUMPS for one in walk(node))


def check_meaning(node: Node) -> None:
    """Refuse `and`, `or`, `not`, `where` and `case when` of numbers, and averages inside averages."""
    for one in walk(node):
        if not isinstance(one, Apply):
            continue
        conditions = one.arguments if one.name in ("and", "or", "not") else ()
        if one.name == "case":
            conditions = one.arguments[:-1:2]
        elif one.name == "where":
            conditions = one.arguments[1:]
        if any(not (isinstance(c, Apply) and c.name in TRUTHS) for c in conditions):
            raise PlanError(f"{one.name!r} needs comparisons such as age >= 50; it was given a number.")
        if is_aggregate(one) and any(is_aggregate(inner) for part in one.arguments for inner in walk(part)):
            raise PlanError(
                f"An average of an average has no meaning here. Write {one.name}(...) inside no other. {EXAMPLE}"
            )


def exact(node: Node, table: Table) -> Array:
    """Return the value of an expression at every row; a comparison counts 1 if it holds, else 0."""
    if isinstance(node, Number):
        return np.asarray(node.value)
    if isinstance(node, Text):
        raise PlanError("A text in single quotes must stand beside a category, as in region = 'A'.")
    if isinstance(node, Column):
        return table[node.name]
    values = [exact(argument, table) for argument in node.arguments]
    with np.errstate(all="ignore"):
        if node.name == "case":
            conditions = [v > 0.5 for v in values[:-1:2]]
            return np.asarray(np.select(np.broadcast_arrays(*conditions), values[1:-1:2], values[-1]), dtype=np.float64)
        return np.asarray(_OPERATIONS[node.name](*values), dtype=np.float64)


def scales_of(node: Node, table: Table) -> dict[Node, float]:
    """Return the spread of the difference of both sides of every comparison: the unit of its steps."""
    found: dict[Node, float] = {}
    for one in walk(node):
        if isinstance(one, Apply) and one.name in COMPARISONS:
            difference = exact(Apply("-", one.arguments), table)
            if not np.all(np.abs(difference) <= LARGEST):
                raise PlanError(
                    f"Both sides of a comparison must be finite, at most {LARGEST:g}, wherever a row may be; one is not."
                )
            found[one] = max(float(np.std(difference)), 1e-9 * (1.0 + float(np.max(np.abs(difference)))))
    return found


def bounds(node: Node, table: Table, *, scales: Mapping[Node, float], width: float) -> Bounds:
    """Return a lower and an upper function of an expression at every row; steps have `width` times their scale."""
    if not isinstance(node, Apply) or not has_jumps(node):
        value = exact(node, table)
        return value, value
    parts = [bounds(argument, table, scales=scales, width=width) for argument in node.arguments]
    with np.errstate(all="ignore"):
        return combine(node, parts, step=scales.get(node, 1.0) * width)


def combine(node: Apply, parts: list[Bounds], *, step: float = 1.0) -> Bounds:
    """Return the bounds of an operation from those of its arguments."""
    name = node.name
    if name in COMPARISONS:
        return _compare(name, _minus(parts[0], parts[1]), step)
    if name == "case":
        return _case(parts)
    if name in _BOUNDED:
        return _BOUNDED[name](*parts)
    if name in _RISING:
        return _OPERATIONS[name](parts[0][0]), _OPERATIONS[name](parts[0][1])
    if all(low is high for low, high in parts):
        value = _OPERATIONS[name](*(low for low, _ in parts))
        return value, value
    raise PlanError(f"{name!r} of something with jumps cannot be bounded. Write the question without it.")


def smooth_step(u: Array) -> Array:
    """Return 0 for u <= 0, 1 for u >= 1, and 6u^5 - 15u^4 + 10u^3 between: two continuous derivatives."""
    u = np.clip(u, 0.0, 1.0)
    return np.asarray(u**3 * (10.0 + u * (6.0 * u - 15.0)))


def _compare(name: str, difference: Bounds, step: float) -> Bounds:
    low, high = difference
    if name in ("<", "<="):
        low, high = -high, -low
    if name in ("=", "!="):
        upper = smooth_step(1.0 + high / step) * smooth_step(1.0 - low / step)
        return (np.zeros_like(upper), upper) if name == "=" else (1.0 - upper, np.ones_like(upper))
    return smooth_step(low / step), smooth_step(1.0 + high / step)


def _case(parts: list[Bounds]) -> Bounds:
    low, high = parts[-1]
    for (unlikely, likely), (then_low, then_high) in reversed(list(zip(parts[:-1:2], parts[1:-1:2], strict=True))):
        low, high = (
            np.minimum(unlikely * then_low + (1.0 - unlikely) * low, likely * then_low + (1.0 - likely) * low),
            np.maximum(unlikely * then_high + (1.0 - unlikely) * high, likely * then_high + (1.0 - likely) * high),
        )
    return low, high


def _minus(a: Bounds, b: Bounds) -> Bounds:
    return a[0] - b[1], a[1] - b[0]


def _times(a: Bounds, b: Bounds) -> Bounds:
    corners = [x * y for x in a for y in b]
    return reduce(np.minimum, corners), reduce(np.maximum, corners)


def _divide(a: Bounds, b: Bounds) -> Bounds:
    if np.any((b[0] <= 0.0) & (b[1] >= 0.0)):
        raise PlanError("What is divided by may be zero within its uncertainty, so the quotient has no bounds.")
    return _times(a, (1.0 / b[1], 1.0 / b[0]))


def _absolute(a: Bounds) -> Bounds:
    both = np.abs(a[0]), np.abs(a[1])
    inside = (a[0] <= 0.0) & (a[1] >= 0.0)
    return np.where(inside, 0.0, np.minimum(*both)), np.maximum(*both)


def _power(a: Bounds, b: Bounds) -> Bounds:
    exponents = np.unique(np.concatenate([np.ravel(b[0]), np.ravel(b[1])]))
    if len(exponents) != 1 or exponents[0] <= 0.0:
        raise PlanError("A power of something uncertain needs a fixed exponent above 0. Write the question without it.")
    exponent = float(exponents[0])
    if exponent.is_integer() and exponent % 2 == 0:
        a = _absolute(a)
    elif not exponent.is_integer():
        a = np.maximum(a[0], 0.0), np.maximum(a[1], 0.0)
    return a[0] ** exponent, a[1] ** exponent


def _error_function(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def _logistic(x: Array) -> Array:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


_OPERATIONS: dict[str, Callable[..., Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "minus": np.negative,
    "power": lambda a, b: np.power(np.asarray(a, dtype=np.float64), b),
    "exp": np.exp,
    "ln": np.log,
    "log10": np.log10,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "atan": np.arctan,
    "erf": _error_function,
    "logistic": _logistic,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "least": lambda *values: reduce(np.minimum, values),
    "greatest": lambda *values: reduce(np.maximum, values),
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "=": np.equal,
    "!=": np.not_equal,
    "and": np.minimum,
    "or": np.maximum,
    "not": lambda a: 1.0 - a,
    "is level": np.equal,
    "is true": lambda a: a,
    "is null": np.isnan,
}
_RISING = ("exp", "ln", "log10", "sqrt", "tanh", "atan", "erf", "logistic")
_BOUNDED: dict[str, Callable[..., Bounds]] = {
    "+": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "-": _minus,
    "*": _times,
    "/": _divide,
    "minus": lambda a: (-a[1], -a[0]),
    "power": _power,
    "abs": _absolute,
    "floor": lambda a: (a[0] - 1.0, a[1]),
    "ceil": lambda a: (a[0], a[1] + 1.0),
    "round": lambda a: (a[0] - 0.5, a[1] + 0.5),
    "least": lambda *p: (reduce(np.minimum, [a for a, _ in p]), reduce(np.minimum, [b for _, b in p])),
    "greatest": lambda *p: (reduce(np.maximum, [a for a, _ in p]), reduce(np.maximum, [b for _, b in p])),
    # Products of smooth steps stay smooth, and lie between the least and what is true where both are.
    "and": lambda a, b: (a[0] * b[0], a[1] * b[1]),
    "or": lambda a, b: (1.0 - (1.0 - a[0]) * (1.0 - b[0]), 1.0 - (1.0 - a[1]) * (1.0 - b[1])),
    "not": lambda a: (1.0 - a[1], 1.0 - a[0]),
}
