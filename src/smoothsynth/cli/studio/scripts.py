"""A walk through the studio as commands and as a Python script that do the same."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

SCHEMA_FILE = "schema.toml"


@dataclass(frozen=True, slots=True)
class Choices:
    """What a release of the studio is made with, beside its schema.

    `folder` is where the commands and the script write: another one than that of the studio, which is there already.
    """

    data: str
    folder: str
    rows: int
    epsilon: float
    delta: float = 0.0
    rows_per_person: int = 1
    ledger: str | None = None


def command_line(choices: Choices) -> str:
    """Return the commands that check, plan, release and verify."""
    data, folder = shlex.quote(choices.data), shlex.quote(choices.folder)
    budget = f"--epsilon {choices.epsilon!r}" + (f" --delta {choices.delta!r}" if choices.delta else "")
    if choices.rows_per_person != 1:
        budget += f" --rows-per-person {choices.rows_per_person}"
    ledger = f" --ledger {shlex.quote(choices.ledger)}" if choices.ledger else ""
    return "\n".join(
        (
            f"smoothsynth check {data} --schema {SCHEMA_FILE}",
            f"smoothsynth plan --schema {SCHEMA_FILE} --rows {choices.rows} {budget}",
            f"smoothsynth release {data} --schema {SCHEMA_FILE} {budget}{ledger} --output {folder} --check",
            f"smoothsynth verify {folder}",
        )
    )


def python_script(choices: Choices) -> str:
    """Return a script that checks, releases, writes and verifies."""
    named = {"epsilon": choices.epsilon, "delta": choices.delta, "rows_per_person": choices.rows_per_person}
    usual = {"delta": 0.0, "rows_per_person": 1}
    given = [f"{key}={value!r}" for key, value in named.items() if value != usual.get(key)]
    given += [f"ledger={_text(choices.ledger)}", f"label={_text(choices.folder)}"] if choices.ledger else []
    return f"""\
import smoothsynth as ss

data, schema = {_text(choices.data)}, "{SCHEMA_FILE}"
report = ss.check(data, schema)  # private: for the owner only
print(report.in_words())
if report.passed:
    release = ss.release(data, schema=schema, {", ".join(given)})
    release.write({_text(choices.folder)})
    print(ss.verify({_text(choices.folder)}))
"""


def _text(text: str | None) -> str:
    return json.dumps(text, ensure_ascii=False)
