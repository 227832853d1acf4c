"""Constraint language (linear relations, public totals) and its meaning for a schema.

The language of constraints: text to linear relations and public moments, in exact fractions, by recursive descent.

diastolic <= systolic      net + tax = gross      born <= admitted <= discharged      2 * (a - b) <= 10
sum(visits) = 12000        mean(age) = 41.3       mean(age^2) = 1900                  `my column` >= 3

The constraints of a schema: what they say of its columns, whether they can hold, and which rows break them.

They are public facts like bounds. No row of the data is ever held against them: that would tell something about it.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import SchemaError
from smoothsynth.schema.category import Category
from smoothsynth.schema.edits import is_edit, parse_edit
from smoothsynth.schema.integer_points import Block, blocks_of, point_inside
from smoothsynth.schema.valued import PRIVATE, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.schema.encoding import Column, Measure


MOST_CHARACTERS, MOST_DEPTH = 500, 20
# Published values are whole multiples of a small step; larger coefficients would make that step coarse.
MOST_COEFFICIENT = 1_000_000

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?(?![\w.]))|(?P<name>[^\W\d]\w*)"
    r"|`(?P<quoted>[^`]+)`|(?P<sign>\*\*|<=|>=|==|[-+*/^()<>=]))"
)
_AGGREGATES = {"sum": True, "total": True, "mean": False, "avg": False, "average": False}
_COMPARISONS = ("<=", ">=", "=", "==")


@dataclass(frozen=True, slots=True)
class Relation:
    """sum_i c_i x_i <= b, or = b, in every row that has all these columns; the c_i are whole and have no common factor."""

    coefficients: tuple[tuple[str, int], ...]
    equal: bool
    bound: Fraction
    text: str

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the relation."""
        return tuple(name for name, _ in self.coefficients)


@dataclass(frozen=True, slots=True)
class PublicMoment:
    """The mean of x or x^2 over the rows that have it, or its sum over all private rows: known, hence without noise."""

    column: str
    power: int
    total: bool
    value: Fraction
    text: str

    def mean(self, private_rows: int, *, missing: float = 0.0) -> float:
        """Return the mean over the rows that have a value, if a share of the private rows has none."""
        return float(self.value) / (private_rows * (1.0 - missing)) if self.total else float(self.value)


Rule = Relation | PublicMoment


def parse_constraint(text: object) -> tuple[Rule, ...]:
    """Read one constraint; a chain a <= b <= c is several relations."""
    if not isinstance(text, str) or not text.strip():
        raise SchemaError('A constraint must be a text such as "diastolic <= systolic"; one is not.')
    if len(text) > MOST_CHARACTERS:
        raise SchemaError(f"A constraint may have {MOST_CHARACTERS} characters; one has {len(text):,}.")
    return _Parser(text).rules()


@dataclass(frozen=True, slots=True)
class _Linear:
    """constant + sum_i c_i x_i; or, as an aggregate, (sum or mean) of a column to a power."""

    constant: Fraction = Fraction(0)
    terms: tuple[tuple[str, Fraction], ...] = ()
    power: int = 1
    total: bool | None = None

    @property
    def known(self) -> bool:
        return not self.terms

    def plus(self, other: _Linear, sign: int) -> _Linear:
        terms = dict(self.terms)
        for name, factor in other.terms:
            terms[name] = terms.get(name, Fraction(0)) + sign * factor
        return _Linear(self.constant + sign * other.constant, tuple((n, f) for n, f in terms.items() if f))

    def times(self, factor: Fraction) -> _Linear:
        return _Linear(self.constant * factor, tuple((n, f * factor) for n, f in self.terms if factor))

    @property
    def plain(self) -> bool:
        return self.total is None and self.power == 1


class _Parser:
    """Recursive descent over the tokens of one constraint."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self._tokens = self._split()
        self._at = 0
        self._depth = 0

    def rules(self) -> tuple[Rule, ...]:
        sides, signs = [self._sum()], []
        while self._sign() in (*_COMPARISONS, "<", ">"):
            signs.append(self._take())
            sides.append(self._sum())
        if self._at < len(self._tokens):
            raise self._problem(f"{self._tokens[self._at][1]!r} is not expected there")
        if not signs:
            raise self._problem("it must compare two sides, with <=, >= or =")
        if {"<", ">"} & set(signs):
            raise self._problem("write <= or >= instead of < or >: numbers that are just below are no different")
        if any(side.total is not None for side in sides):
            return (self._moment(sides, signs),)
        if not all(side.plain for side in sides):
            raise self._problem("a relation between columns must be linear: squares only inside mean(...)")
        return tuple(self._relation(*pair) for pair in zip(sides, signs, sides[1:], strict=False))

    def _relation(self, left: _Linear, sign: str, right: _Linear) -> Relation:
        moved = right.plus(left, -1) if sign == ">=" else left.plus(right, -1)
        if not moved.terms:
            raise self._problem("no column is left in it")
        factors = [factor for _, factor in moved.terms]
        common = Fraction(math.gcd(*(f.numerator for f in factors)), math.lcm(*(f.denominator for f in factors)))
        whole = tuple((name, int(factor / common)) for name, factor in moved.terms)
        if max(abs(c) for _, c in whole) > MOST_COEFFICIENT:
            raise self._problem(
                f"its coefficients must be whole multiples of one number, at most {MOST_COEFFICIENT:,} times: round them"
            )
        return Relation(whole, sign in ("=", "=="), -moved.constant / common, self._text)

    def _moment(self, sides: list[_Linear], signs: list[str]) -> PublicMoment:
        left, right = sides[0], sides[-1]
        if left.total is None:
            left, right = right, left
        if len(sides) != 2 or signs[0] not in ("=", "==") or not right.known or right.total is not None:
            raise self._problem("a public moment is one sum or mean of a column and a number: mean(age) = 41.3")
        return PublicMoment(left.terms[0][0], left.power, bool(left.total), right.constant, self._text)

    def _sum(self) -> _Linear:
        found = self._product()
        while self._sign() in ("+", "-"):
            sign = 1 if self._take() == "+" else -1
            other = self._product()
            self._refuse_bent(found, other)
            found = found.plus(other, sign)
        return found

    def _product(self) -> _Linear:
        found = self._factor()
        while self._sign() in ("*", "/"):
            divides, other = self._take() == "/", self._factor()
            self._refuse_bent(found, other)
            if divides and not (other.known and other.constant):
                raise self._problem("it must be linear: only numbers other than 0 can divide")
            if not found.known and not other.known:
                raise self._problem("it must be linear, and multiplies two columns")
            if divides:
                found = found.times(1 / other.constant)
            else:
                found = found.times(other.constant) if other.known else other.times(found.constant)
        return found

    def _factor(self) -> _Linear:
        sign = self._sign()
        if sign in ("+", "-"):
            self._take()
            inner = self._deeper(self._factor)
            return inner if sign == "+" else self._negative(inner)
        found = self._atom()
        if self._sign() in ("^", "**"):
            self._take()
            power = self._factor()
            if not (power.known and power.constant == 2 and found.plain and _single(found)):
                raise self._problem("the only power is the square of a column, inside mean(...) or sum(...)")
            return _Linear(terms=found.terms, power=2)
        return found

    def _atom(self) -> _Linear:
        if self._at == len(self._tokens):
            raise self._problem("it ends too early")
        kind, word = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            return _Linear(Fraction(word))
        if kind == "name" and word.lower() in _AGGREGATES and self._sign() == "(":
            return self._aggregate(total=_AGGREGATES[word.lower()])
        if kind != "sign":
            return _Linear(terms=((word, Fraction(1)),))
        if word == "(":
            found = self._deeper(self._sum)
            self._close()
            return found
        raise self._problem(f"{word!r} is not expected there")

    def _aggregate(self, *, total: bool) -> _Linear:
        self._take()
        found = self._deeper(self._sum)
        self._close()
        if not (found.total is None and _single(found)):
            raise self._problem("sum(...) and mean(...) take one column or its square")
        return _Linear(terms=found.terms, power=found.power, total=total)

    def _negative(self, inner: _Linear) -> _Linear:
        if not inner.plain:
            raise self._problem("a sum, a mean or a square stands alone")
        return inner.times(Fraction(-1))

    def _refuse_bent(self, *parts: _Linear) -> None:
        if not all(part.plain for part in parts):
            raise self._problem("a sum, a mean or a square stands alone: it cannot be part of a relation")

    def _deeper(self, read: Callable[[], _Linear]) -> _Linear:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._problem("it has too many parentheses")
        found = read()
        self._depth -= 1
        return found

    def _close(self) -> None:
        if self._sign() != ")":
            raise self._problem("a parenthesis is not closed")
        self._take()

    def _sign(self) -> str | None:
        if self._at == len(self._tokens):
            return None
        kind, token = self._tokens[self._at]
        return token if kind == "sign" else None

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _split(self) -> list[tuple[str, str]]:
        found, at = [], 0
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            if match is None:
                raise self._problem(
                    f"{self._text[at:].strip()[:10]!r} cannot be read; a name that is not a word goes in `backquotes`"
                )
            kind = str(match.lastgroup)
            found.append((kind, match[kind]))
            at = match.end()
        return found

    def _problem(self, words: str) -> SchemaError:
        return SchemaError(f"Constraint {self._text!r:.200}: {words}.")


def _single(found: _Linear) -> bool:
    return not found.constant and len(found.terms) == 1 and found.terms[0][1] == 1


MOST_CONSTRAINTS = 200


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """Relations of columns in a row, public moments, and the blocks of columns that they tie together."""

    relations: tuple[Relation, ...]
    moments: tuple[PublicMoment, ...]
    blocks: tuple[Block, ...]

    def steps(self) -> dict[str, float]:
        """Return the step of each tied column: its published values are whole multiples of it."""
        return {n: float(s) for b in self.blocks for n, s in zip(b.names, b.steps, strict=True)}

    def check_totals(self, columns: Mapping[str, Column], rows: int) -> None:
        """Refuse totals that so many rows cannot have; means were checked before."""
        for block in self.blocks:
            if any(moment.total for moment in block.moments):
                _check_moments(block, columns, rows)


def checked_texts(constraints: object) -> tuple[str, ...]:
    """Return constraints as texts, or say that they are none."""
    if isinstance(constraints, str) or not isinstance(constraints, (list, tuple)):
        raise SchemaError('constraints must be a list of texts such as ["diastolic <= systolic"].')
    if len(constraints) > MOST_CONSTRAINTS:
        raise SchemaError(f"A schema may have {MOST_CONSTRAINTS} constraints; this one has {len(constraints):,}.")
    for text in constraints:
        if isinstance(text, str) and is_edit(text):
            parse_edit(text)
        else:
            parse_constraint(text)
    return tuple(text.strip() for text in constraints)


@functools.lru_cache(maxsize=64)
def read_constraints(texts: tuple[str, ...], columns: tuple[tuple[str, Column], ...]) -> Constraints:
    """Read the constraints of a schema with these columns; an impossible one is named."""
    known = dict(columns)
    rules = [rule for text in texts for rule in parse_constraint(text)]
    for rule in rules:
        _check_columns(rule, known)
    relations = tuple(rule for rule in rules if isinstance(rule, Relation))
    moments = tuple(rule for rule in rules if isinstance(rule, PublicMoment))
    seen: dict[tuple[str, int], str] = {}
    for moment in moments:
        other = seen.setdefault((moment.column, moment.power), moment.text)
        if other is not moment.text:
            raise SchemaError(f"Constraint {moment.text!r} says again what {other!r} says: keep one of them.")
    measures: dict[str, Measure] = {n: c for n, c in known.items() if not isinstance(c, Category)}
    blocks = blocks_of(measures, relations, moments)
    for block in blocks:
        if block.moments:
            _check_moments(block, known, None)
    return Constraints(relations, moments, blocks)


def broken(relation: Relation, table: Mapping[str, Any], columns: Mapping[str, Column]) -> NDArray[np.bool_]:
    """Say which published rows break a relation; rows without one of its columns cannot.

    An equality with a constant that is no dyadic fraction is off by rounding: 1e-9 of what its columns reach is allowed.
    """
    reach = sum(abs(c) * max(map(abs, _span(columns[name]))) for name, c in relation.coefficients)
    return exceeds(relation, lambda name: plain(table[name], columns[name].kind), reach=reach)


def exceeds(
    relation: Relation, values: Callable[[str], NDArray[Any]], *, reach: float | None = None
) -> NDArray[np.bool_]:
    """Say which rows of numbers break a relation; an equality by more than 1e-9 of what its columns reach."""
    parts = [c * values(name) for name, c in relation.coefficients]
    excess = np.sum(parts, axis=0)
    if not relation.equal:
        return np.asarray(excess > float(relation.bound))
    most = np.sum(np.abs(parts), axis=0) if reach is None else reach
    return np.asarray(np.abs(excess - float(relation.bound)) > 1e-9 * (most + abs(float(relation.bound))))


def _check_columns(rule: Relation | PublicMoment, columns: Mapping[str, Column]) -> None:
    from smoothsynth.schema.roles import unknown_column

    names = rule.names if isinstance(rule, Relation) else (rule.column,)
    for name in names:
        if name not in columns:
            raise SchemaError(f"Constraint {rule.text!r}: {unknown_column(name, tuple(columns))}")
        if isinstance(columns[name], Category):
            raise SchemaError(
                f"Constraint {rule.text!r}: {name!r} is a category; constraints are about columns with numbers."
            )
        if PRIVATE in (getattr(columns[name], "lower", None), getattr(columns[name], "upper", None)):
            raise SchemaError(
                f"Constraint {rule.text!r}: the bounds of {name!r} are private, so nobody can tell beforehand whether it "
                "can hold. Give public bounds, or leave it out."
            )
    kinds = {columns[name].kind for name in names}
    if isinstance(rule, PublicMoment) and kinds & {"date", "datetime"}:
        raise SchemaError(f"Constraint {rule.text!r}: sums and means are about numbers, not days.")
    if kinds >= {"date", "datetime"}:
        raise SchemaError(
            f"Constraint {rule.text!r}: dates count days and datetimes count seconds; make all of one type."
        )


def _check_moments(block: Block, columns: Mapping[str, Column], rows: int | None) -> None:
    """Refuse public moments that no rows within bounds and relations have.

    Means of rows of a convex set are its points, so all means together are possible if one point has them.
    """
    known = [m for m in block.moments if rows is not None or not m.total]
    lines: list[tuple[Sequence[float], bool, float]] = [
        ([dict(r.coefficients).get(n, 0) for n in block.names], r.equal, float(r.bound))
        for r in block.relations
        if not any(columns[n].nullable for n in r.names)
    ]
    spans = [_span(columns[name]) for name in block.names]
    for moment in known:
        if moment.power == 1 and not (moment.total and columns[moment.column].nullable):
            wanted = moment.mean(rows or 1)
            lines.append(([float(n == moment.column) for n in block.names], True, wanted))
            if point_inside(spans, [False] * len(spans), lines) is None:
                raise SchemaError(_impossible(moment, spans[block.names.index(moment.column)], rows))
    means = {m.column: m.mean(rows or 1) for m in known if m.power == 1}
    for moment in known:
        low, high = spans[block.names.index(moment.column)]
        if moment.power == 2 and not _square_fits(moment.mean(rows or 1), low, high, means.get(moment.column)):
            raise SchemaError(_impossible(moment, (low, high), rows))


def _square_fits(square: float, low: float, high: float, mean: float | None) -> bool:
    """Whether E x^2 can be so much: at least (E x)^2, at most what the two bounds have with that mean."""
    if mean is not None:
        return mean**2 <= square <= (low + high) * mean - low * high
    return (0.0 if low <= 0.0 <= high else min(low**2, high**2)) <= square <= max(low**2, high**2)


def _span(column: Column) -> tuple[float, float]:
    if isinstance(column, Category):
        raise SchemaError("a category has no bounds")
    return column.bounds


def _impossible(moment: PublicMoment, span: tuple[float, float], rows: int | None) -> str:
    low, high = span
    many = f" and {rows:,} rows" if moment.total and rows is not None else ""
    return (
        f"Constraint {moment.text!r} cannot hold with bounds {low:g} to {high:g}{many} and the other constraints. "
        "Widen the bounds, or correct the constraint."
    )
