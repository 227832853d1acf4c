"""The language of questions: text to a tree, by recursive descent; nothing is ever handed to Python's own `eval`.

avg(exp(-power((age - 50) / 10, 2)))        avg(visits * cost) / avg(visits)        avg(age >= 50 and age < 60)
avg(region = 'A')        avg(region in ('A', 'B'))        avg(bmi is null)        avg(income where region = 'A')
corr(age, income)        median(income where age >= 50)        quantile(cost, 0.9)        avg(visit < '2020-01-31')
avg(income) group by sex        avg(income) / avg(cost) where age >= 50 group by sex
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothsynth.errors import PlanError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeGuard


MOST_CHARACTERS, MOST_DEPTH, MOST_SIGNS = 2000, 40, 400

AVERAGES = ("avg", "mean", "average")
AGGREGATES = ("avg", "corr", "quantile")
# Names of functions, with the fewest and the most arguments.
FUNCTIONS = {
    **dict.fromkeys(("exp", "ln", "log10", "sqrt", "abs", "sin", "cos", "tan", "tanh", "atan", "erf"), (1, 1)),
    **dict.fromkeys(("logistic", "sigmoid", "floor", "ceil", "round"), (1, 1)),
    "log": (1, 1),
    "power": (2, 2),
    "least": (2, 8),
    "greatest": (2, 8),
    **dict.fromkeys(AVERAGES, (1, 1)),
    **dict.fromkeys(("corr", "correlation", "quantile"), (2, 2)),
    "median": (1, 1),
}
_ALIASES = {"log": "ln", "sigmoid": "logistic", "mean": "avg", "average": "avg", "correlation": "corr"}
_ALIASES |= {"^": "**", "<>": "!=", "==": "="}
_OVER_ROWS = (*AVERAGES, "corr", "correlation", "median", "quantile")
EXAMPLE = (
    "For example: avg(age), avg(cost where sex = 'f'), corr(age, cost), quantile(cost, 0.9), avg(cost) group by sex."
)
# What is often asked for by other names, and how it is asked for here.
_INSTEAD = {
    "sum": "a sum is the public number of private rows times avg(...)",
    "count": "a count is the public number of private rows times a share, such as avg(age >= 50)",
    **dict.fromkeys(("min", "max"), "extremes cannot be released; quantile(age, 0.99) comes near"),
    **dict.fromkeys(("std", "stddev", "stdev"), "write sqrt(avg(age * age) - avg(age) ** 2)"),
    **dict.fromkeys(("var", "variance"), "write avg(age * age) - avg(age) ** 2"),
    **dict.fromkeys(("percentile", "percentile_cont"), "write quantile(age, 0.9)"),
}
_WORDS = ("and", "or", "not", "between", "case", "when", "then", "else", "end")
_COMPARISONS = ("<=", ">=", "<>", "!=", "==", "=", "<", ">")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)"
    r"|'(?P<text>(?:[^']|'')*)'"
    r'|"(?P<quoted>(?:[^"]|"")*)"|(?P<sign>\*\*|<=|>=|<>|!=|==|[-+*/^()<>=,]))'
)


@dataclass(frozen=True, slots=True)
class Number:
    """A number."""

    value: float


@dataclass(frozen=True, slots=True)
class Text:
    """A level of a category, or a day."""

    value: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """A function or an operator with its arguments; `case` has condition, value, condition, value, ..., otherwise.

    `where`, the first argument of an aggregate, has what is aggregated and the condition. `group by`, around a whole
    question, has the question and the columns.
    """

    name: str
    arguments: tuple[Node, ...]


Node = Number | Text | Column | Apply


def parse(text: str) -> Node:
    """Read a question as a tree, or say in one sentence what is wrong with it."""
    if not isinstance(text, str) or not text.strip():
        raise PlanError("A question must be a text such as avg(age); it is empty.")
    if len(text) > MOST_CHARACTERS:
        raise PlanError(f"A question may have {MOST_CHARACTERS:,} characters; this one has {len(text):,}.")
    return _Parser(text).whole()


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and everything below it."""
    yield node
    if isinstance(node, Apply):
        for argument in node.arguments:
            yield from walk(argument)


def columns_of(node: Node) -> tuple[str, ...]:
    """Return the names of the columns of a question, each once, in the order of their first use."""
    return tuple(dict.fromkeys(one.name for one in walk(node) if isinstance(one, Column)))


def aggregates_of(node: Node) -> tuple[Apply, ...]:
    """Return the averages, correlations and quantiles of a question, each once."""
    return tuple(dict.fromkeys(one for one in walk(node) if is_aggregate(one)))


def is_aggregate(node: Node) -> TypeGuard[Apply]:
    """Whether a node stands for one number of all rows."""
    return isinstance(node, Apply) and node.name in AGGREGATES


def parts_of(aggregate: Apply) -> tuple[tuple[Node, ...], Node | None]:
    """Return what an aggregate is taken of, and the condition after `where`, if there is one."""
    first, *others = aggregate.arguments
    if isinstance(first, Apply) and first.name == "where":
        return (first.arguments[0], *others), first.arguments[1]
    return aggregate.arguments, None


def restricted(node: Node, condition: Node) -> Node:
    """Return a question about those rows only for which a condition holds."""
    if not isinstance(node, Apply):
        return node
    if not is_aggregate(node):
        return Apply(node.name, tuple(restricted(argument, condition) for argument in node.arguments))
    arguments, own = parts_of(node)
    both = condition if own is None else Apply("and", (own, condition))
    return Apply(node.name, (Apply("where", (arguments[0], both)), *arguments[1:]))


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int


class _Parser:
    """One pass over the tokens; each method reads what binds tighter than its own operators."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._either()
        if self._take("where"):
            node = restricted(node, self._either())
        if self._take("group"):
            node = self._groups(node)
        if self._peek().kind != "end":
            raise self._unexpected("an operator, where, group by (after where) or the end")
        return node

    def _groups(self, node: Node) -> Node:
        self._need("by")
        columns = [self._column()]
        while self._take(","):
            columns.append(self._column())
        return Apply("group by", (node, *dict.fromkeys(columns)))

    def _column(self) -> Column:
        if self._peek().kind not in ("name", "quoted"):
            raise self._unexpected("a column")
        return Column(self._advance().text)

    def _either(self) -> Node:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise PlanError(f"A question may be nested {MOST_DEPTH} deep; this one is deeper. Write it more simply.")
        node = self._chain(self._both, ("or",))
        self._depth -= 1
        return node

    def _both(self) -> Node:
        return self._chain(self._negation, ("and",))

    def _negation(self) -> Node:
        negations = 0
        while self._take("not"):
            negations += 1
        node = self._comparison()
        return Apply("not", (node,)) if negations % 2 else node

    def _comparison(self) -> Node:
        node = self._sum()
        if self._take("is"):
            return self._absence(node)
        turned = self._take("not")
        if self._take("in"):
            return self._membership(node, turned=turned)
        if turned or self._peek().text == "between":
            self._need("between")
            low = self._sum()
            self._need("and")
            inside = Apply("and", (Apply(">=", (node, low)), Apply("<=", (node, self._sum()))))
            return Apply("not", (inside,)) if turned else inside
        parts: list[Node] = []
        while self._peek().kind == "sign" and self._peek().text in _COMPARISONS:
            sign = self._advance().text
            right = self._sum()
            parts.append(Apply(_ALIASES.get(sign, sign), (node, right)))
            node = right
        if not parts:
            return node
        whole = parts[0]
        for part in parts[1:]:
            whole = Apply("and", (whole, part))
        return whole

    def _absence(self, node: Node) -> Node:
        turned = self._take("not")
        self._need("null")
        return Apply("not", (Apply("is null", (node,)),)) if turned else Apply("is null", (node,))

    def _membership(self, node: Node, *, turned: bool) -> Node:
        self._need("(")
        whole: Node = Apply("=", (node, self._sum()))
        while self._take(","):
            whole = Apply("or", (whole, Apply("=", (node, self._sum()))))
        self._need(")")
        return Apply("not", (whole,)) if turned else whole

    def _sum(self) -> Node:
        return self._chain(self._product, ("+", "-"))

    def _product(self) -> Node:
        return self._chain(self._signed, ("*", "/"))

    def _signed(self) -> Node:
        minus = False
        while self._peek().kind == "sign" and self._peek().text in ("-", "+"):
            minus ^= self._advance().text == "-"
        node = self._power()
        return Apply("minus", (node,)) if minus else node

    def _power(self) -> Node:
        node = self._atom()
        if not (self._peek().kind == "sign" and self._peek().text in ("**", "^")):
            return node
        self._advance()
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise PlanError(f"A question may be nested {MOST_DEPTH} deep; this one is deeper. Write it more simply.")
        exponent = self._signed()
        self._depth -= 1
        return Apply("power", (node, exponent))

    def _atom(self) -> Node:
        token = self._peek()
        if token.kind == "number":
            return Number(float(self._advance().text))
        if token.kind == "text":
            return Text(self._advance().text)
        if token.kind == "quoted":
            return Column(self._advance().text)
        if token.kind == "sign" and token.text == "(":
            self._advance()
            node = self._either()
            self._need(")")
            return node
        if token.kind == "name" and token.text.lower() == "case":
            return self._case()
        if token.kind == "name" and token.text.lower() not in _WORDS:
            return self._named()
        raise self._unexpected("a number, a column or a function")

    def _named(self) -> Node:
        place, name = self._peek().place, self._advance().text
        if not (self._peek().kind == "sign" and self._peek().text == "("):
            return Column(name)
        function = name.lower()
        if function not in FUNCTIONS:
            raise _pointed(self._text, place, f"There is no function {name!r:.60}{_near(function)}")
        self._advance()
        arguments = [self._either()]
        while self._take(","):
            arguments.append(self._either())
        fewest, most = FUNCTIONS[function]
        if not fewest <= len(arguments) <= most:
            wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
            words = f"{function} takes {wanted} argument{'s' * (most > 1)}; it was given {len(arguments)}."
            raise _pointed(self._text, place, words)
        if function in _OVER_ROWS and self._take("where"):
            arguments[0] = Apply("where", (arguments[0], self._either()))
        self._need(")")
        if function == "median":
            return Apply("quantile", (arguments[0], Number(0.5)))
        return Apply(_ALIASES.get(function, function), tuple(arguments))

    def _case(self) -> Node:
        self._advance()
        arguments: list[Node] = []
        while self._take("when"):
            arguments.append(self._either())
            self._need("then")
            arguments.append(self._either())
        if not arguments:
            raise self._unexpected("when")
        self._need("else")
        arguments.append(self._either())
        self._need("end")
        return Apply("case", tuple(arguments))

    def _chain(self, tighter: Callable[[], Node], signs: tuple[str, ...]) -> Node:
        """Read a row of operators that bind equally, from left to right."""
        node = tighter()
        while self._peek().kind in ("sign", "name") and self._peek().text.lower() in signs:
            sign = self._advance().text.lower()
            node = Apply(sign, (node, tighter()))
        return node

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _take(self, text: str) -> bool:
        token = self._peek()
        found = token.kind in ("sign", "name") and token.text.lower() == text
        if found:
            self._advance()
        return found

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise self._unexpected(repr(text))

    def _unexpected(self, wanted: str) -> PlanError:
        token = self._peek()
        found = "the question ends" if token.kind == "end" else f"there is {token.text!r:.40}"
        words = f"At character {token.place + 1} of the question {wanted} must stand, but {found}."
        return _pointed(self._text, token.place, words)


def _tokens(text: str) -> list[_Token]:
    tokens, place = [], 0
    end = len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if not found or found.lastgroup is None:
            wrong = len(text[:place]) + len(text[place:]) - len(text[place:].lstrip())
            words = f"At character {wrong + 1} of the question {text[wrong]!r} means nothing here."
            raise _pointed(text, wrong, words)
        kind = found.lastgroup
        content = found.group(kind)
        if kind in ("quoted", "text"):
            mark = '"' if kind == "quoted" else "'"
            content = content.replace(2 * mark, mark)
        tokens.append(_Token(kind, content, found.end() - len(found.group(0).lstrip())))
        place = found.end()
    if len(tokens) > MOST_SIGNS:
        raise PlanError(f"A question may have {MOST_SIGNS} numbers, names and signs; this one has {len(tokens)}.")
    return [*tokens, _Token("end", "", end)]


_BEFORE, _AFTER = 36, 24


def _pointed(text: str, place: int, words: str) -> PlanError:
    """Return an error that shows the question with a caret below the place, and questions that are right."""
    start = max(0, place - _BEFORE)
    before, after = one_line(text[start:place]), one_line(text[place : place + _AFTER])
    sql = " Write the question alone: SQL is for smoothsynth sql." if text.lstrip()[:7].lower() == "select " else ""
    return PlanError(f"{words}{sql}", f"    {before}{after}", f"    {' ' * len(before)}^", EXAMPLE)


def _near(name: str) -> str:
    import difflib

    if name in _INSTEAD:
        return f": {_INSTEAD[name]}."
    near = difflib.get_close_matches(name, FUNCTIONS, n=1)
    return f". Did you mean {near[0]!r}?" if near else f". There are: {', '.join(sorted(FUNCTIONS))}."
