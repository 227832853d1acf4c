"""Edit rules: what must hold in every row between levels, missing cells, numbers and days.

MSP is null where AGEP < 15        relation = 'husband' implies sex = 'm'        discharge >= admission where stay = 'day'
education -> education_num         EDU in ('1', '2') where AGEP < 5              sex = 'f' or prostate is null

A comparison with a missing cell is false, in a condition and in what it implies: "husband implies m" asks for an m that is
there. Official statistics calls such rules edits (Fellegi and Holt, JASA 71, 1976). They are public facts: no private row
is ever held against them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import SchemaError
from smoothsynth.schema.category import Category
from smoothsynth.schema.valued import PRIVATE, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.schema.constraints import Relation
    from smoothsynth.schema.encoding import Column

    Truth = NDArray[np.bool_]
    Values = Callable[[str], NDArray[Any]]


MOST_CHARACTERS, MOST_DEPTH = 2000, 20
MOST_CODED = 256
_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?(?![\w.]))|(?P<name>[^\W\d]\w*)"
    r"|'(?P<text>(?:[^']|'')*)'|`(?P<quoted>[^`]+)`|(?P<sign>->|<=|>=|<>|!=|==|[()<>=,]))"
)
_WORDS = ("implies", "where", "and", "or", "not", "in", "is", "null", "between")
# What tells an edit rule from a linear relation, outside of quoted names.
_MARKS = re.compile(
    r"'|->|!=|<>|\S\s+(?:implies|where)\s+\S|\bis\s+(?:not\s+)?null\b|\bin\s*\(|\bbetween\b|\S\s+(?:and|or)\s+\S|"
    r"=\s*(?:true|false)\b",
    re.I,
)
_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
REVERSED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_ALIASES = {"==": "=", "<>": "!="}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with constants: levels of a category by their places, -1 for a missing cell, or numbers.

    The sign is that of a comparison with one number; "in" asks for one of several; "null" and "not null" for a cell.
    """

    column: str
    sign: str
    values: tuple[float, ...] = ()
    category: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the comparison."""
        return (self.column,)

    def holds(self, values: Values) -> Truth:
        """Say in which rows it holds."""
        cells = values(self.column)
        missing = cells < 0 if self.category else np.isnan(cells)
        if self.sign in ("null", "not null"):
            return np.asarray(missing == (self.sign == "null"))
        if self.sign in ("in", "not in"):
            return np.asarray(np.isin(cells, self.values, invert=self.sign == "not in") & ~missing)
        return np.asarray(_SIGNS[self.sign](cells, self.values[0]) & ~missing)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two columns of numbers, or of days, compared with one another."""

    left: str
    sign: str
    right: str

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the comparison."""
        return self.left, self.right

    def holds(self, values: Values) -> Truth:
        """Say in which rows it holds."""
        left, right = values(self.left), values(self.right)
        return np.asarray(_SIGNS[self.sign](left, right) & ~np.isnan(left) & ~np.isnan(right))


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear relation, which says nothing of rows without one of its columns."""

    relation: Relation

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the relation."""
        return self.relation.names

    def holds(self, values: Values) -> Truth:
        """Say in which rows it holds."""
        from smoothsynth.schema.constraints import exceeds

        return ~exceeds(self.relation, values)


Atom = Comparison | Pair | Linear


@dataclass(frozen=True, slots=True)
class Junction:
    """All or any of some conditions."""

    every: bool
    parts: tuple[Node, ...]


Node = Atom | Junction


def atoms_of(node: Node) -> Iterator[Atom]:
    """Yield the comparisons of a condition."""
    if isinstance(node, Junction):
        for part in node.parts:
            yield from atoms_of(part)
    else:
        yield node


def names_of(node: Node | None) -> tuple[str, ...]:
    """Return the columns of a condition, each once."""
    return () if node is None else tuple(dict.fromkeys(name for atom in atoms_of(node) for name in atom.names))


def evaluate(node: Node, truth: Callable[[Atom], Truth]) -> Truth:
    """Say in which rows a condition holds, given where its comparisons do."""
    if not isinstance(node, Junction):
        return truth(node)
    found = [evaluate(part, truth) for part in node.parts]
    return np.asarray((np.logical_and if node.every else np.logical_or).reduce(found))


@dataclass(frozen=True, slots=True)
class Edit:
    """In every row in which the condition holds, the consequent does; without a condition, in every row."""

    text: str
    consequent: Node
    condition: Node | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the rule."""
        return tuple(dict.fromkeys((*names_of(self.condition), *names_of(self.consequent))))

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The comparisons of the rule."""
        nodes = (self.consequent,) if self.condition is None else (self.condition, self.consequent)
        return tuple(dict.fromkeys(atom for node in nodes for atom in atoms_of(node)))

    def broken(self, truth: Callable[[Atom], Truth]) -> Truth:
        """Say which rows break the rule, given where its comparisons hold."""
        wrong = ~evaluate(self.consequent, truth)
        return wrong if self.condition is None else wrong & evaluate(self.condition, truth)


def is_edit(text: str) -> bool:
    """Whether a constraint is an edit rule; others are linear relations and public moments."""
    return bool(_MARKS.search(re.sub(r"`[^`]+`", "x", text)))


def coded_columns(text: str) -> tuple[str, str] | None:
    """Return the columns of "a -> b"; None if the rule is none such."""
    tokens = _Parser(text).tokens
    signs = [token for token in tokens if token == ("sign", "->")]
    if not signs:
        return None
    if len(tokens) != 3 or tokens[1] != ("sign", "->") or {tokens[0][0], tokens[2][0]} - {"name", "quoted"}:
        raise SchemaError(f"Constraint {text!r:.200}: a rule with codes is COLUMN -> COLUMN and nothing else.")
    return tokens[0][1], tokens[2][1]


def parse_edit(text: str) -> None:
    """Read an edit rule, or say what is wrong with its words."""
    if len(text) > MOST_CHARACTERS:
        raise SchemaError(f"A rule may have {MOST_CHARACTERS:,} characters; one has {len(text):,}.")
    if coded_columns(text) is None:
        _Parser(text).rule()


def bound_edits(
    text: str, columns: Mapping[str, Column], codes: Mapping[str, Mapping[str, object]]
) -> tuple[Edit, ...]:
    """Read an edit rule of these columns; one with codes is a rule for each of them."""
    pair = coded_columns(text)
    if pair is not None:
        return tuple(_coded(text, pair, columns, codes.get(text)))
    condition, consequent = _Parser(text).rule()
    binder = _Binder(text, columns)
    if isinstance(consequent, _Raw) and consequent.sign == "null" and not binder.column(consequent.column).nullable:
        raise binder.problem(
            f"{consequent.column!r} has no missing cells: write nullable = true, or leave the rule out"
        )
    return (Edit(text, binder.bound(consequent), None if condition is None else binder.bound(condition)),)


def checked_codes(codes: object, constraints: Sequence[str]) -> Mapping[str, Mapping[str, object] | str]:
    """Return tables of codes, or the word for private ones, as they are; or say what is wrong with them."""
    if not isinstance(codes, Mapping) or not all(isinstance(t, Mapping) or t == PRIVATE for t in codes.values()):
        example = '{"education -> years": {"primary": 6, "secondary": 12}}'
        raise SchemaError(f'codes must be tables such as {example}, or "{PRIVATE}" to be found and paid for.')
    for text, table in codes.items():
        if text not in constraints:
            raise SchemaError(f"codes has a table for {text!r:.200}, which is no constraint: add it, word for word.")
        pairs = () if table == PRIVATE else table.items()
        if not all(isinstance(value, (str, int)) and isinstance(code, (str, int, float)) for value, code in pairs):
            raise SchemaError(f"The codes of {text!r:.200} must be texts, numbers or truth values.")
    return MappingProxyType({text: _by_text(table) for text, table in codes.items()})


def _by_text(table: Any) -> Mapping[str, object] | str:
    return PRIVATE if table == PRIVATE else MappingProxyType({_text(value): code for value, code in table.items()})


def _coded(
    text: str, pair: tuple[str, str], columns: Mapping[str, Column], codes: Mapping[str, object] | None
) -> Iterator[Edit]:
    binder = _Binder(text, columns)
    source, _ = (binder.column(name) for name in pair)
    if not codes:
        raise SchemaError(
            f"Constraint {text!r:.200}: which value of {pair[1]!r} belongs to which of {pair[0]!r} must be public. "
            f"Give the table: [codes.{text!r:.200}] in a schema file, codes={{{text!r:.200}: {{...}}}} in Python. "
            f'Or write "{PRIVATE}" for it, to be found and paid for.'
        )
    wanted = _sources(text, pair[0], source)
    lacking = [value for value in wanted if value not in codes]
    if lacking or len(codes) > len(wanted):
        what = f"{lacking[0]!r:.80} has none" if lacking else "there are more codes than values"
        raise SchemaError(f"Constraint {text!r:.200}: every value of {pair[0]!r} must have one code; {what}.")
    for value in wanted:
        code, sign = codes[value], "="
        literal = _Raw(pair[1], sign, (_text(code),))
        yield Edit(text, binder.bound(literal), binder.bound(_Raw(pair[0], sign, (value,))))


def _sources(text: str, name: str, column: Column) -> tuple[str, ...]:
    if isinstance(column, Category):
        return column.texts
    lower, upper = column.bounds
    if column.kind == "boolean":
        return "false", "true"
    if column.kind != "integer" or upper - lower >= MOST_CODED:
        raise SchemaError(
            f"Constraint {text!r:.200}: {name!r} must be a category, true or false, or at most {MOST_CODED} whole numbers."
        )
    return tuple(str(value) for value in range(int(lower), int(upper) + 1))


def _text(code: object) -> str:
    return str(code).lower() if isinstance(code, bool) else str(code)


@dataclass(frozen=True, slots=True)
class _Raw:
    """A comparison as it is written: constants are texts, or a column is named."""

    column: str
    sign: str
    texts: tuple[str, ...] = ()
    other: str | None = None


@dataclass(frozen=True, slots=True)
class _RawJunction:
    every: bool
    parts: tuple[_Raw | _RawJunction, ...]


_RawNode = _Raw | _RawJunction


@dataclass(frozen=True, slots=True)
class _Binder:
    """Comparisons as written, made comparisons of the columns of a schema."""

    text: str
    columns: Mapping[str, Column]

    def bound(self, node: _RawNode) -> Node:
        if isinstance(node, _RawJunction):
            return Junction(node.every, tuple(map(self.bound, node.parts)))
        column = self.column(node.column)
        if node.sign in ("null", "not null"):
            return Comparison(node.column, node.sign, category=isinstance(column, Category))
        if node.other is not None:
            return self._pair(node, column, self.column(node.other))
        self._refuse_private(node.column, column)
        if not isinstance(column, Category):
            return Comparison(
                node.column, node.sign, tuple(self._number(text, node.column, column) for text in node.texts)
            )
        if node.sign not in ("=", "!=", "in", "not in"):
            raise self.problem(f"{node.column!r} is a category; its levels have no order: use =, != or in (...)")
        places = tuple(float(self._place(text, node.column, column)) for text in node.texts)
        return Comparison(node.column, {"=": "in", "!=": "not in"}.get(node.sign, node.sign), places, category=True)

    def column(self, name: str) -> Column:
        from smoothsynth.schema.roles import unknown_column

        if name not in self.columns:
            raise self.problem(unknown_column(name, tuple(self.columns)).rstrip("."))
        return self.columns[name]

    def _pair(self, node: _Raw, left: Column, right: Column) -> Node:
        self._refuse_private(node.column, left)
        self._refuse_private(str(node.other), right)
        kinds = {left.kind, right.kind}
        if "category" in kinds or (kinds & {"date", "datetime"} and len(kinds) > 1):
            raise self.problem("two columns are compared as numbers, as dates or as datetimes; a text is in 'quotes'")
        if node.sign in ("=", "!=") and "number" in kinds:
            raise self.problem("two columns of type number are compared with <= or >=; equal ones must be integers")
        return Pair(node.column, node.sign, str(node.other))

    def _refuse_private(self, name: str, column: Column) -> None:
        facts = (getattr(column, fact, None) for fact in ("lower", "upper", "levels"))
        if any(isinstance(fact, str) and fact == PRIVATE for fact in facts):
            raise self.problem(
                f"the values of {name!r} are private, so nobody can tell beforehand whether it can hold. Give public "
                "bounds or levels, or leave it out"
            )

    def _place(self, text: str, name: str, column: Category) -> int:
        if text.strip() not in column.texts:
            raise self.problem(f"{text!r:.80} is no level of {name!r}")
        return column.texts.index(text.strip())

    def _number(self, text: str, name: str, column: Column) -> float:
        try:
            timed = column.kind in ("date", "datetime", "boolean")
            found = float(plain(np.array([text], dtype=object), column.kind)[0]) if timed else float(text)
        except ValueError:
            found = np.nan
        if not np.isfinite(found):
            raise self.problem(f"{text!r:.80} is no value of {name!r}, which is of type {column.kind}")
        return found

    def problem(self, words: str) -> SchemaError:
        return SchemaError(f"Constraint {self.text!r:.200}: {words}.")


class _Parser:
    """Recursive descent over the tokens of one rule."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text.strip(), 0, 0
        self.tokens = list(self._split())

    def rule(self) -> tuple[_RawNode | None, _RawNode]:
        """Return the condition, None without one, and the consequent."""
        first, condition = self._either(), None
        if self._take("implies"):
            condition, first = first, self._either()
        elif self._take("where"):
            condition = self._either()
        if self._at < len(self.tokens):
            raise self._problem(f"{self.tokens[self._at][1]!r:.40} is not expected there")
        return condition, first

    def _either(self) -> _RawNode:
        return self._joined("or", self._both, every=False)

    def _both(self) -> _RawNode:
        return self._joined("and", self._comparison, every=True)

    def _joined(self, word: str, read: Callable[[], _RawNode], *, every: bool) -> _RawNode:
        parts = [read()]
        while self._take(word):
            parts.append(read())
        return parts[0] if len(parts) == 1 else _RawJunction(every, tuple(parts))

    def _comparison(self) -> _RawNode:
        if self._take("("):
            self._depth += 1
            if self._depth > MOST_DEPTH:
                raise self._problem("it has too many parentheses")
            inner = self._either()
            self._need(")")
            self._depth -= 1
            return inner
        kind, word = self._operand()
        if kind == "name" and self._take("is"):
            turned = self._take("not")
            self._need("null")
            return _Raw(word, "not null" if turned else "null")
        turned = kind == "name" and self._take("not")
        if kind == "name" and self._take("in"):
            return _Raw(word, "not in" if turned else "in", self._listed())
        if kind == "name" and not turned and self._take("between"):
            low = self._constant()
            self._need("and")
            return _RawJunction(True, (_Raw(word, ">=", (low,)), _Raw(word, "<=", (self._constant(),))))  # noqa: FBT003
        return self._chain((kind, word))

    def _chain(self, left: tuple[str, str]) -> _RawNode:
        parts: list[_Raw] = []
        while self._sign() in (*_SIGNS, *_ALIASES):
            sign = _ALIASES.get(self._sign(), self._sign())
            self._at += 1
            right = self._operand()
            parts.append(self._one(left, sign, right))
            left = right
        if not parts:
            raise self._problem("a condition compares a column: col = 'level', col < 15, col in (...), col is null")
        return parts[0] if len(parts) == 1 else _RawJunction(True, tuple(parts))  # noqa: FBT003

    def _one(self, left: tuple[str, str], sign: str, right: tuple[str, str]) -> _Raw:
        if left[0] != "name":
            left, sign, right = right, {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(sign, sign), left
        if left[0] != "name":
            raise self._problem("a comparison needs a column; a name that is not a word goes in `backquotes`")
        return _Raw(left[1], sign, (), right[1]) if right[0] == "name" else _Raw(left[1], sign, (right[1],))

    def _operand(self) -> tuple[str, str]:
        """Return ("name", a column) or ("constant", its text)."""
        if self._at == len(self.tokens):
            raise self._problem("it ends too early")
        kind, word = self.tokens[self._at]
        if kind == "sign" or (kind == "name" and word.lower() in _WORDS):
            raise self._problem(f"{word!r:.40} is not expected there")
        self._at += 1
        if kind == "quoted":
            return "name", word
        return ("name", word) if kind == "name" and word.lower() not in ("true", "false") else ("constant", word)

    def _constant(self) -> str:
        kind, word = self._operand()
        if kind == "name":
            raise self._problem(f"{word!r:.40} must be a number or a 'text'")
        return word

    def _listed(self) -> tuple[str, ...]:
        self._need("(")
        found = [self._constant()]
        while self._take(","):
            found.append(self._constant())
        self._need(")")
        return tuple(found)

    def _sign(self) -> str:
        kind, word = self.tokens[self._at] if self._at < len(self.tokens) else ("", "")
        return word if kind == "sign" else ""

    def _take(self, word: str) -> bool:
        kind, found = self.tokens[self._at] if self._at < len(self.tokens) else ("", "")
        taken = kind in ("name", "sign") and found.lower() == word
        self._at += taken
        return taken

    def _need(self, word: str) -> None:
        if not self._take(word):
            raise self._problem(f"{word!r} is missing")

    def _split(self) -> Iterator[tuple[str, str]]:
        at = 0
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            if match is None or match.lastgroup is None:
                raise self._problem(
                    f"{self._text[at:].strip()[:10]!r} cannot be read; texts go in 'quotes', other names in `backquotes`"
                )
            content = match[match.lastgroup]
            yield match.lastgroup, content.replace("''", "'") if match.lastgroup == "text" else content
            at = match.end()

    def _problem(self, words: str) -> SchemaError:
        return SchemaError(f"Constraint {self._text!r:.200}: {words}.")
