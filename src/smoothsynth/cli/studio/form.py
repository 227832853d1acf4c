"""The form of the schema in the studio: what a draft fills in, and what its fields make of a schema.

Bounds and levels are never filled in from the cells: they must be public knowledge, or are private and paid for.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import SchemaError
from smoothsynth.schema import Schema
from smoothsynth.schema.encoding import KINDS
from smoothsynth.schema.schema import WHY_PUBLIC, WHY_PUBLIC_LEVELS, parse
from smoothsynth.schema.valued import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from smoothsynth.private.findings import Finding
    from smoothsynth.private.owner import Drafted
    from smoothsynth.schema.file import FileFormat

    Form = Mapping[str, Any]


TEXTS = ("name", "type", "lower", "upper", "levels", "other", "decimal", "date_format", "null_values", "more")
SWITCHES = ("use", "private", "nullable")
_INTEGER, _NUMBER = re.compile(r"[+-]?\d+"), re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

_IN_A_FILE = re.compile(r"; write \w+ = \S+( in its section)?(?=\.)")


class FormError(SchemaError):
    """The form makes no schema; `columns` has the reason for each column that is in the way."""

    def __init__(self, *problems: str, columns: Mapping[str, str] | None = None) -> None:
        super().__init__(*problems)
        self.columns = dict(columns or {})


def first_form(columns: Sequence[Drafted], written: FileFormat) -> dict[str, Any]:
    """Return the form that a draft begins with: types and how file and cells are written; no bound and no level."""
    return {"columns": [_drafted(one) for one in columns], "person": "", "constraints": "", "file": written.facts()}


def _drafted(one: Drafted) -> dict[str, Any]:
    fields: dict[str, Any] = {**dict.fromkeys(TEXTS, ""), **dict.fromkeys(SWITCHES, False)}
    kind = one.kind if one.kind in KINDS else "category"
    stated = {key: _lines(value) for line in one.stated for key, value in parse(line).items()}
    return {**fields, "name": one.name, "use": one.is_usable, "type": kind, **stated}


def proposals(found: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return what was found in the cells of a column, each with the fields that it asks to be filled in."""
    return [{**dataclasses.asdict(one), "fields": _fields(one)} for one in found]


def _fields(one: Finding) -> dict[str, Any]:
    if one.is_unusable:
        return {"use": False}
    facts = parse(one.write)
    if facts.get("levels") == PRIVATE:
        return {"private": True}
    return {key: value if isinstance(value, bool) else _lines(value) for key, value in facts.items()}


def _lines(value: object) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def read_form(form: object) -> Schema:
    """Return the schema that the form describes; all that is wrong with its columns is said at once."""
    if not isinstance(form, dict) or not isinstance(form.get("columns"), list):
        raise FormError("The form must have a list of columns. Open the table again.")
    columns = [_checked(one) for one in form["columns"]]
    described, problems = {}, {}
    for fields in columns:
        if not fields["use"]:
            continue
        name = fields["name"]
        try:
            described[name] = _facts(fields)
            Schema.from_facts({"columns": {name: described[name]}})
        except SchemaError as error:
            problems[name] = _at_its_column(str(error), name)
    if problems:
        raise FormError(_heading(len(problems)), *problems.values(), columns=problems)
    if not described:
        raise FormError("A release needs at least one column. Tick one.")
    return Schema.from_facts({"columns": described, **_above(form)})


def _at_its_column(text: str, name: str) -> str:
    """Return a reason without what is for a file, and what the page says above all columns."""
    for known in (f"Column {name!r}: ", f" {WHY_PUBLIC}", f" {WHY_PUBLIC_LEVELS}"):
        text = text.replace(known, "")
    text = _IN_A_FILE.sub("", text)
    return text[:1].upper() + text[1:]


def _checked(fields: object) -> dict[str, Any]:
    """Refuse what the page would never send."""
    if not isinstance(fields, dict) or not (
        all(isinstance(fields.get(key), str) for key in TEXTS)
        and all(type(fields.get(key)) is bool for key in SWITCHES)
    ):
        raise FormError("Each column of the form must have all its fields. Reload the page.")
    return fields


def _above(form: Form) -> dict[str, Any]:
    """Return what is said of the table as a whole."""
    person, rules = str(form.get("person") or ""), _split(str(form.get("constraints") or ""))
    said = {"person": person, "constraints": rules, "file": form.get("file")}
    return {key: value for key, value in said.items() if value}


def _heading(count: int) -> str:
    columns = "1 column needs" if count == 1 else f"{count} columns need"
    return f"{columns} another look; the reason stands at each."


def _facts(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a schema file would say of a column; fields that its type has not, or that are empty, say nothing."""
    kind = fields["type"]
    bound = _number if kind in ("number", "integer") else str
    given: dict[str, Any] = {
        "lower": PRIVATE if fields["private"] else bound(fields["lower"].strip()),
        "upper": PRIVATE if fields["private"] else bound(fields["upper"].strip()),
        "levels": PRIVATE if fields["private"] else _split(fields["levels"]),
        "other": fields["other"].strip(),
        "decimal": fields["decimal"],
        "date_format": _split(fields["date_format"]),
        "null_values": [bound(cell) for cell in _split(fields["null_values"])],
        "nullable": fields["nullable"],
    }
    known = {field.name for field in dataclasses.fields(KINDS[kind])} if kind in KINDS else set()
    said = {key: value for key, value in given.items() if key in known and value not in ("", []) and value is not False}
    return {"type": kind, **said, **parse(fields["more"])}


def _split(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _number(text: str) -> Any:
    """Return the number that a text is; another text stays, for the schema to refuse or, as a null value, to take."""
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) < 20 else float(text)
    return float(text) if _NUMBER.fullmatch(text) else text
