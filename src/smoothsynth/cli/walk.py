"""What a release asks its owner on a terminal: to describe each column where there is no schema, and whether to go on.

Questions and the report are on standard error, for the owner's eyes. A bound or a level is never proposed from the rows.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from smoothsynth._files import why_not_new
from smoothsynth.errors import DataError, PlanError, ReleaseError, SchemaError
from smoothsynth.pipeline.terminal import FAILED, INTERRUPTED, REFUTED, as_text, room, say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from smoothsynth.pipeline.check import CheckReport
    from smoothsynth.private.owner import Drafted
    from smoothsynth.schema import Schema

_TYPES = ("number", "integer", "boolean", "category", "date", "datetime")
_ASKED = ("decimal", "date_format", "null_values", "nullable")
_WELCOME = """\
No schema was named, so {count} columns are asked about. Your answers become public: bounds and levels must be public
knowledge (a code book, a law, the range of an instrument), never what you see in the rows. Enter takes the answer in
[brackets], ? explains, back returns to the column before. Ctrl-C stops: until the last question nothing is written
or spent."""
_HELP = {
    "type": "number, integer, boolean, category, date or datetime; drop leaves the column out; person says that its cells "
    "are ids of persons, who can have several rows: it is read and never released.",
    "bound": "A number or a day such as 2020-01-31 that all values are known to keep to, from public knowledge; values "
    "beyond it are moved to it. private: the release finds it, for a share of its budget. drop leaves the column out.",
    "levels": "The values that the column can have, from a form or a code book, with commas between them. private: the "
    "release finds the frequent ones, for a share of its budget and with a delta. drop leaves the column out.",
    "other": "The level at which cells count that are none of the levels. none: they count nowhere.",
    "line": "yes writes this line into the schema, where everybody can read it; no leaves it out.",
    "lost": "yes leaves the column out of the release; no asks about it again.",
    "release": "yes goes on and spends the budget; no stops, and nothing is spent.",
    "delta": "Private levels need a small probability with which a value of a single person may show: at most 1/(100 rows).",
    "last": "yes writes the schema file and spends the budget, which cannot be undone; schema writes the file only.",
}


class _Back(Exception):  # noqa: N818
    """The owner wants to go back."""


@dataclass(frozen=True, slots=True)
class Described:
    """What the owner said: the schema, what is left out, and the budget."""

    schema: Schema
    dropped: tuple[str, ...]
    epsilon: float
    delta: float


@dataclass(slots=True)
class _Answers:
    """What the owner said so far of each column: its facts as a schema file has them, "drop" or "person"."""

    columns: dict[str, dict[str, Any] | str] = field(default_factory=dict)
    file: dict[str, str] = field(default_factory=dict)

    def schema(self) -> Schema:
        """Return the schema that follows; an error says why there is none."""
        from smoothsynth.schema import Schema

        persons = [name for name, said in self.columns.items() if said == "person"]
        if len(persons) > 1:
            raise SchemaError(f"Only one column can hold the ids of persons, and {len(persons)} do.")
        facts: dict[str, Any] = {name: said for name, said in self.columns.items() if isinstance(said, dict)}
        named = {"person": persons[0]} if persons else {}
        return Schema.from_facts({"columns": facts, "file": self.file, **named})

    @property
    def dropped(self) -> tuple[str, ...]:
        return tuple(name for name, said in self.columns.items() if said == "drop")


def schema_name(data: Sequence[str]) -> str:
    """Return the name after which files for a table are called: that of its first file."""
    return re.sub(r"\W+", "-", Path(data[0]).name.split(".")[0]).strip("-") or "table"


def walk(
    data: Sequence[str], *, file: Mapping[str, str], delta: float, choices: Mapping[str, Any], ledger: Path | None
) -> tuple[Path, float]:
    """Ask the owner for a schema, show the check and the plan, write the schema file, and return its path and the delta.

    `choices` are all others of a plan, epsilon too.
    """
    path = Path(f"{schema_name(data)}.toml")
    _refuse_without_terminal(data, path)
    _refuse_budget(delta, choices, ledger)
    try:
        return path, _walk(data, path, file=file, delta=delta, choices=choices)
    except (KeyboardInterrupt, EOFError):
        say("\nStopped. Nothing was written and nothing was spent.", err=True)
        raise typer.Exit(INTERRUPTED) from None


def is_watched() -> bool:
    """Whether somebody can answer questions."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _refuse_without_terminal(data: Sequence[str], path: Path) -> None:
    if not is_watched():
        raise ReleaseError(
            f"A release needs a schema, and none is named. Draft one with: smoothsynth schema {data[0]} -o {path}; fill in "
            f"its bounds; see what would be lost with: smoothsynth check {data[0]} --schema {path}; and add --schema {path} "
            "to this command. On a terminal, it asks for what is missing."
        )
    if problem := why_not_new(path):
        raise ReleaseError(f"{problem} If it is the schema of this table, add --schema {path}.")


def _refuse_budget(delta: float, choices: Mapping[str, Any], ledger: Path | None) -> None:
    """Refuse a budget that cannot be spent before the first question, not after the last."""
    from smoothsynth.accounting.charges import Budget
    from smoothsynth.accounting.ledger import LedgerFile

    budget = Budget(choices["epsilon"], delta)
    if ledger is not None:
        known = LedgerFile(ledger).read()
        known.refuse_release(budget, rows_per_person=max(choices["rows_per_person"], known.rows_per_person))


def _walk(
    data: Sequence[str], path: Path, *, file: Mapping[str, str], delta: float, choices: Mapping[str, Any]
) -> float:
    from smoothsynth.pipeline.check import guessed_format, lost, proposals

    written = replace(guessed_format(one_or_many(data)), **file)
    said, most = lost(one_or_many(data), written)
    if most:
        raise DataError(said)
    drafts = {one.name: one for one in proposals(one_or_many(data), written)}
    say(_WELCOME.format(count=len(drafts)), err=True)
    if said:
        say(f"\n{said}", err=True)
    if written.facts():
        say("\nThe file has " + ", ".join(f"{key} {value!r}" for key, value in written.facts().items()) + ".", err=True)
    answers, at = _Answers(file=written.facts()), 0
    while True:
        _describe_all(list(drafts.values()), answers, at)
        try:
            found = _until_readable(data, drafts, answers)
            rows, schema = found.columns[0].rows, answers.schema()
            chosen = _delta(schema, rows, delta)
            possible = _show_plan(schema, rows, {**choices, "delta": chosen})
            described = Described(schema, answers.dropped, choices["epsilon"], chosen)
            _last_question(described, path, possible=possible)
        except (_Back, SchemaError) as error:
            say(f"  {error}", err=True)
            at = len(drafts) - 1
        else:
            return chosen


def _describe_all(drafts: Sequence[Drafted], answers: _Answers, at: int) -> None:
    """Ask about one column after the other, and go back where the owner wants to."""
    while at < len(drafts):
        try:
            answers.columns[drafts[at].name] = _describe(drafts[at], f"{at + 1} of {len(drafts)}")
            at += 1
        except _Back:
            at = max(at - 1, 0)


def _describe(draft: Drafted, place: str) -> dict[str, Any] | str:
    """Ask about a column until its description holds."""
    said = "" if draft.is_usable else f"   looks like {draft.held}"
    say(f"\n{place}   {draft.name}{said}", err=True)
    while True:
        kind = _choose("type", (*_TYPES, "drop", "person"), default=draft.kind if draft.is_usable else "drop")
        if kind in ("drop", "person"):
            return kind
        facts = {"type": kind, **_options(draft, kind)}
        bounds = _bounds(kind)
        if bounds is None:
            return "drop"
        facts |= bounds
        try:
            _Answers({draft.name: facts}).schema()
        except SchemaError as error:
            say(f"  {error.problems[0]}", err=True)
            continue
        return facts


def _options(draft: Drafted, kind: str) -> dict[str, Any]:
    """Ask of each line that a draft would propose whether it is written."""
    from smoothsynth.schema.encoding import KINDS

    found: dict[str, Any] = {}
    for one in draft.found:
        key, _, value = one.write.partition(" = ")
        if key in _ASKED and key in KINDS[kind].__dataclass_fields__:
            say(f"  {one.sentence}", err=True)
            if _yes(f"write {one.write}?", default=one.sure, helped="line"):
                found[key] = json.loads(value)
    return found


def _bounds(kind: str) -> dict[str, Any] | None:
    """Ask for bounds or levels; None to leave the column out."""
    if kind == "boolean":
        return {}
    if kind == "category":
        return _levels()
    found = {}
    for side in ("lower", "upper"):
        said = _ask(f"{side} bound, or private", "bound", accepted=lambda text: text == "drop" or _is_bound(text, kind))
        if said == "drop":
            return None
        found[side] = _bound(said, kind)
    return found


def _levels() -> dict[str, Any] | None:
    said = _ask("levels with commas between them, or private", "levels", accepted=bool)
    if said in ("drop", "private"):
        return None if said == "drop" else {"levels": "private"}
    levels = [level.strip() for level in said.split(",") if level.strip()]
    other = _ask("where do other cells count? [other]", "other", default="other", accepted=bool)
    if other == "none":
        return {"levels": levels}
    return {"levels": [*(level for level in levels if level != other), other], "other": other}


def _bound(text: str, kind: str) -> Any:
    if text == "private" or kind in ("date", "datetime"):
        return text
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def _is_bound(text: str, kind: str) -> bool:
    try:
        return bool(text) and _bound(text, kind) is not None
    except ValueError:
        return False


def _until_readable(data: Sequence[str], drafts: dict[str, Drafted], answers: _Answers) -> CheckReport:
    """Show the check; columns of which most cells would be lost are left out or described again."""
    from smoothsynth.pipeline.check import check as check_rows

    while True:
        say("\nLooking at the cells as a release would read them ...", err=True)
        found = check_rows(one_or_many(data), answers.schema())
        show_check(found)
        for name in found.mostly_lost:
            if _yes(f"most cells of {name} would be lost; leave it out?", default=True, helped="lost"):
                answers.columns[name] = "drop"
            else:
                answers.columns[name] = _describe(drafts[name], "again")
        if found.passed:
            return found


def _delta(schema: Schema, rows: int, delta: float) -> float:
    """Ask for a delta where private levels need one and none was given."""
    from smoothsynth.accounting.charges import MOST_DELTA
    from smoothsynth.schema.unresolved import open_levels

    if delta or not open_levels(schema):
        return delta
    usual = min(1e-6, MOST_DELTA / rows)

    def accepted(text: str) -> bool:
        return _is_bound(text, "number") and text != "private" and 0.0 < float(text) <= MOST_DELTA / rows

    return float(_ask(f"delta, for private levels [{usual:.3g}]", "delta", default=f"{usual:.3g}", accepted=accepted))


def _show_plan(schema: Schema, rows: int, choices: Mapping[str, Any]) -> bool:
    """Show the plan; return whether a release can be made. Of persons the plan is made once they are counted."""
    from smoothsynth.pipeline.forecast import plan_view
    from smoothsynth.pipeline.plan import plan

    if schema.person is not None:
        return True
    try:
        made = plan(schema, rows, **choices)
        if made.discovery is not None:
            made.discovery.refuse(rows)
    except PlanError as error:
        say(f"\nThis cannot be released: {error}", err=True)
        return False
    say(as_text(plan_view(made), width=room(100, err=True)), err=True)
    return True


def _last_question(described: Described, path: Path, *, possible: bool) -> None:
    """Ask whether to spend the budget; write the schema file whole before anything else happens."""
    price = f"epsilon = {described.epsilon:g}" + (f", delta = {described.delta:g}" if described.delta else "")
    choices = ("yes", "schema", "no") if possible else ("schema", "no")
    spend = f"yes writes {path} and spends {price}; " if possible else ""
    said = _choose(f"{spend}schema writes {path} only; no stops", choices, helped="last")
    if said == "no":
        say("Nothing was written and nothing was spent.", err=True)
        raise typer.Exit(FAILED)
    drop = f"drop = {json.dumps(described.dropped, ensure_ascii=False)}\n" if described.dropped else ""
    write_new(path, drop + described.schema.to_toml())
    say(f"Wrote {path}.", err=True)
    if said == "schema":
        say("Nothing was spent.", err=True)
        raise typer.Exit


def _choose(question: str, choices: Sequence[str], *, default: str = "", helped: str = "type") -> str:
    """Ask for one of some words, of which the beginning is enough."""

    def meant(text: str) -> list[str]:
        exact = [choice for choice in choices if choice == text]
        return exact or [choice for choice in choices if text and choice.startswith(text)]

    shown = f"{question} [{default}]" if default else question
    said = _ask(shown, helped, default=default, accepted=lambda text: len(meant(text)) == 1)
    return meant(said)[0]


def _yes(question: str, *, default: bool, helped: str) -> bool:
    return _choose(question, ("yes", "no"), default="yes" if default else "no", helped=helped) == "yes"


def _ask(question: str, helped: str, *, accepted: Callable[[str], bool], default: str = "") -> str:
    """Ask until an answer is accepted; an empty one is the default, if there is one."""
    while True:
        say(f"  {question}: ", err=True, nl=False)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        said = line.strip() or default
        if said == "back":
            raise _Back
        if accepted(said) and said != "?":
            return said
        say(f"  {_HELP[helped]}", err=True)


def show_check(found: CheckReport) -> None:
    """Print the report of a check on standard error."""
    from smoothsynth.report.attack import as_check_tables

    for part in as_check_tables(found):
        say(as_text(part, width=room(120, err=True)), err=True)


def stop_if_unreadable(data: Sequence[str], schema: Schema) -> None:
    """Show the report of a check; stop if a column is mostly lost, and ask on a terminal."""
    from smoothsynth.pipeline.check import check as check_rows

    found = check_rows(one_or_many(data), schema)
    show_check(found)
    if not found.passed:
        say("Error: nothing was released and nothing was spent.", err=True)
        raise typer.Exit(REFUTED)
    if found.has_findings and is_watched() and (code := _declined()):
        say("Nothing was released and nothing was spent.", err=True)
        raise typer.Exit(code)


def _declined() -> int:
    """Ask whether to release; return the exit code of who does not want to, else 0."""
    try:
        return 0 if _yes("release it like this?", default=False, helped="release") else FAILED
    except KeyboardInterrupt:
        say("", err=True)
        return INTERRUPTED
    except (_Back, EOFError):
        return FAILED


def write_new(path: Path, text: str, *, force: bool = False) -> None:
    """Write a text file that only its owner can read, whole or not at all."""
    if not force and path.exists():
        raise SchemaError(f"{path} exists already. Choose another name, or replace it with --force.")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
        with contextlib.ExitStack() as left, open(handle, "w", encoding="utf-8") as file:
            left.callback(Path(name).unlink, missing_ok=True)
            file.write(text)
            file.flush()
            os.replace(name, path)
    except OSError as error:
        raise SchemaError(f"{path} cannot be written: {error.strerror}.") from None


def one_or_many(data: Sequence[str]) -> str | list[str]:
    """Return one path by itself, and several in a list."""
    return data[0] if len(data) == 1 else list(data)
