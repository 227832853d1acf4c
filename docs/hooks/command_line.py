"""Write the reference of the command line from the commands themselves, so that it says what --help says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = "<!-- the commands -->"
_EXAMPLES = re.compile(r"(?:^Example:\s+\*\*.+\*\*$\n*)+", re.MULTILINE)
_EXAMPLE = re.compile(r"^Example:\s+\*\*(.+)\*\*$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the commands in the place that a page keeps for them."""
    return markdown.replace(HERE, reference()) if HERE in markdown else markdown


def reference() -> str:
    """Return the sections of all commands."""
    from typer.main import get_command

    from smoothsynth.cli.main import app

    return "\n".join(section(path, command) for path, command in commands(get_command(app), "smoothsynth"))


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every command under its full name, parents before children."""
    yield path, command
    for name in command.list_commands(None) if hasattr(command, "commands") else ():
        if not command.commands[name].hidden:
            yield from commands(command.commands[name], f"{path} {name}")


def section(path: str, command: Any) -> str:
    """Return what one command does, its usage, and what each argument and option means."""
    usage = " ".join([path, *(piece for param in command.params for piece in _usage(param)), *_more(command)])
    parts = [f"## {path}", "", "```text", usage, "```", "", in_markdown(command.help or ""), ""]
    rows = [f"| {names(param)} | {_cell(_meaning(param))} |" for param in command.params if param.name != "help"]
    if rows:
        parts += ["| option | meaning |", "|---|---|", *rows, ""]
    return "\n".join(parts)


def names(param: Any) -> str:
    """Return how an argument or option is written."""
    if param.param_type_name == "argument":
        return f"`{_placeholder(param)}`"
    value = "" if param.is_flag else f" {_placeholder(param)}"
    return ", ".join(f"`{name}`" for name in [*param.opts[1:], param.opts[0] + value, *param.secondary_opts])


def in_markdown(text: str) -> str:
    """Return a help text with its examples in one block of code."""

    def block(found: re.Match[str]) -> str:
        lines = _EXAMPLE.findall(found[0])
        return "\n".join(["Examples:" if len(lines) > 1 else "Example:", "", "```text", *lines, "```", ""])

    return _EXAMPLES.sub(block, text)


def _usage(param: Any) -> list[str]:
    if param.param_type_name == "argument":
        shown = _placeholder(param) + ("..." if param.nargs == -1 else "")
        return [shown if param.required else f"[{shown}]"]
    return [f"{param.opts[0]} {_placeholder(param)}"] if param.required else []


def _more(command: Any) -> list[str]:
    if getattr(command, "commands", None):
        return ["COMMAND ..."]
    return ["[OPTIONS]"] if any(not p.required and p.param_type_name == "option" for p in command.params) else []


def _placeholder(param: Any) -> str:
    # Types are kept in other places by each version of typer: names are enough.
    return str(param.opts[0]).lstrip("-").replace("-", "_").upper()


def _meaning(param: Any) -> str:
    text = param.help or ""
    if param.param_type_name == "argument":
        return text
    if param.required or param.is_flag or param.default is None or param.default == ():
        return text
    return f"{text} Default: {param.default}."


def _cell(text: str) -> str:
    return re.sub(r"([|*<_\[\]])", r"\\\1", text)
