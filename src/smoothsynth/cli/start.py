"""Where the command line starts: its first page of help at once, everything else through `cli/main.py`.

Typer builds every option of every command before it prints anything, which takes longer than the page itself. So the page
is written down here; a test compares it with what typer would say.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from smoothsynth.pipeline.terminal import EXIT_CODES, never_fail_to_encode, show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.panel import Panel

ABOUT = (
    "Publish a synthetic table with a differential-privacy guarantee, such that every smooth question (means, kernel "
    "averages, regression scores) has nearly the same answer on it.\n\n"
    "Start with **smoothsynth demo**; for your own table: **schema**, **check**, **plan**, **release**."
)
OPTIONS = {
    "--version": "Show the version and stop.",
    "--install-completion": "Install completion for the current shell.",
    "--show-completion": "Show completion for the current shell, to copy it or customize the installation.",
    "--help": "Show this message and exit.",
}
# The first sentence of each command, in the order of work.
COMMANDS = {
    "demo": "Tell the whole story on a made-up table of 20,000 hospital stays: plan, release, compare.",
    "studio": "Walk from a file to a release on a page in your browser, which only this machine can reach.",
    "schema": "Draft a schema file by looking at the cells: names, types, formats; bounds are left for you to fill in.",
    "check": "Look at the private cells as a release would read them, and say what it would lose.",
    "plan": "Show what a release would measure, what it costs and how accurate it will be; reads no data.",
    "release": "Make a synthetic table and write its release folder, whole or not at all.",
    "answer": "Answer a question on the synthetic rows, with an interval for what the private rows would say.",
    "verify": "Check a release that somebody gave you, without trusting it.",
    "report": "Draw the page of a release again, or the owner's page that compares it with the private rows.",
    "sql": "Ask the synthetic rows one SELECT, on DuckDB, which sees no files and no network.",
    "sample": "Draw more rows from the model of a release, or complete given ones, at no cost.",
    "attack": "Attack your own release with the private rows, and see what is found beside what epsilon allows.",
    "ledger": "The ledger of a data set: its total privacy budget and every charge, in one file that only its owner can "
    "read. Use one ledger for one data set, and name it in every release of it.",
    "update": "Release the rows so far and new ones, without reading the old ones again.",
    "federated": "One synthetic table of the rows of several owners (sites), who never show them to each other.",
    "audit": "Try to catch the mechanisms leaking: lower bounds on the epsilon that they really have.",
    "paper": "The paper (Jin et al.): its tables and rates run again, beside ours. Public data only.",
}


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--help"] and not _brought_by_others():
        never_fail_to_encode(sys.stdout)
        _show_help()
        return
    from smoothsynth.cli.main import main as run

    run()


def _brought_by_others() -> bool:
    from importlib.metadata import entry_points

    return any(brought.name not in COMMANDS for brought in entry_points(group="smoothsynth.commands"))


def _show_help() -> None:
    from rich.padding import Padding

    usage = "Usage: smoothsynth [OPTIONS] COMMAND [ARGS]..."
    words = (Padding(text, (1, 1, 0, 1)) for text in (usage, *ABOUT.replace("**", "").split("\n\n")))
    show(*words, "", _panel("Options", OPTIONS), _panel("Commands", COMMANDS), Padding(EXIT_CODES, 1))


def _panel(title: str, lines: Mapping[str, str]) -> Panel:
    from rich.panel import Panel
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False, expand=True)
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(ratio=1)
    for name, meaning in lines.items():
        table.add_row(name, meaning)
    return Panel(table, title=title, title_align="left", border_style="dim")
