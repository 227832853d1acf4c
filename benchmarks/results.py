"""Results that were kept: with --record FILE a benchmark writes every table that it prints to results/FILE.json.

`python -m benchmarks figures results` makes a page of the documentation and the table of the README from these files.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

from rich import console as rich
from rich.table import Table

FOLDER = Path(__file__).with_name("results")
FLAG = "--record"


class Console(rich.Console):
    """A console that keeps the tables which it prints, if they are to be recorded."""

    recorded: Path | None = None
    command = ""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, and keep tables."""
        super().print(*objects, **options)
        for table in objects:
            if isinstance(table, Table) and self.recorded is not None:
                keep(table, self.recorded, command=self.command)


def start(name: str, given: list[str]) -> list[str]:
    """Take --record FILE out of the arguments of a benchmark; what is recorded begins anew."""
    if FLAG not in given:
        return given
    place = given.index(FLAG)
    rest = given[:place] + given[place + 2 :]
    if place + 1 == len(given):
        sys.exit(f"{FLAG} needs a name, such as {FLAG} {name}")
    Console.recorded = FOLDER / f"{Path(given[place + 1]).name}.json"
    Console.command = " ".join(["python -m benchmarks", name, *rest])
    Console.recorded.unlink(missing_ok=True)
    return rest


def keep(table: Table, path: Path, *, command: str) -> None:
    """Add a table to a file of results."""
    head = [str(column.header) for column in table.columns]
    rows = [list(map(str, row)) for row in zip(*(column.cells for column in table.columns), strict=True)]
    made = {"title": str(table.title or ""), "head": head, "rows": [row for row in rows if any(row)]}
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    found = read(path) if path.is_file() else {"command": command, "date": today, "tables": []}
    found["tables"].append(made)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """Return a file of results."""
    return json.loads(path.read_text(encoding="utf-8"))
