"""What is printed: brackets are no styles, nothing that a terminal obeys gets through, and no encoding is too small."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli import app
from smoothsynth.privacy import Budget
from smoothsynth.private.ledger_file import LedgerFile
from smoothsynth.terminal import as_text, visible

MARKUP = "o[red]q[/]:smile:"
# An escape sequence, a title with a bell, the one-character form of ESC [, a mark of direction.
OBEYED = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202egpj"
STRANGE = {"markup": MARKUP, "obeyed": OBEYED}


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert isinstance(result.exception, (SystemExit, type(None))), result.exception
    return result


def unprintable(text):
    return sorted({c for c in text if not (c.isprintable() or c == "\n")})


@given(st.text())
def test_visible_text_is_printable_and_means_the_same_in_json(text):
    shown = visible(text)
    assert unprintable(shown) == []
    if not unprintable(text):
        assert shown == text
    document = json.dumps([text], ensure_ascii=False)
    assert json.loads(visible(document)) == [text]


def test_the_cells_of_a_table_are_visible_too():
    table = Table(title=OBEYED)
    table.add_column(MARKUP)
    table.add_row(OBEYED)
    text = as_text(table, width=100)
    assert unprintable(text) == []
    assert MARKUP in text
    assert text.count("\\u001b[31m") == 2


@pytest.fixture(scope="module", params=STRANGE)
def place(request, tmp_path_factory):
    """A table, a schema, a ledger and a release in which all names are strange."""
    folder, word = tmp_path_factory.mktemp("strange"), STRANGE[request.param]
    file = word.replace("/", "")
    schema = ss.Schema(
        {word: ss.Number(0, 9), f"kind {word}": ss.Category([word, "b"])}, constraints=[f"`{word}` <= 8"]
    )
    schema.save(folder / "schema.toml")
    lines = [f"{k % 7},{word if k % 2 else 'b'}\n" for k in range(200)]
    (folder / "rows.csv").write_text(f"{word},kind {word}\n" + "".join(lines), encoding="utf-8", newline="")
    LedgerFile.create(folder / f"l{file}", Budget(9.0, 1e-6))
    made = run("release", folder / "rows.csv", "-s", folder / "schema.toml", "-e", 1, "--delta", 1e-6, "-o",
               folder / f"out{file}", "--ledger", folder / f"l{file}", "--csv")  # fmt: skip
    assert made.exit_code == 0, made.output
    assert unprintable(made.output) == []
    return folder, word, file


COMMANDS = {
    "plan": ("plan", "-s", "SCHEMA", "-n", 200, "-e", 1),
    "plan as json": ("plan", "-s", "SCHEMA", "-n", 200, "-e", 1, "--json"),
    "schema": ("schema", "DATA"),
    "verify": ("verify", "OUT"),
    "verify as json": ("verify", "OUT", "--json"),
    "answer": ("answer", "OUT", "QUESTION"),
    "answer as json": ("answer", "OUT", "QUESTION", "--json"),
    "sql": ("sql", "OUT", "select * from synthetic limit 9"),
    "sql as json": ("sql", "OUT", "select * from synthetic limit 9", "--json"),
    "ledger": ("ledger", "show", "LEDGER"),
    "ledger as json": ("ledger", "show", "LEDGER", "--json"),
    "export": ("ledger", "export", "LEDGER"),
    "report": ("report", "OUT", "-o", "PAGE", "--force"),
    "release onto the schema": ("release", "DATA", "-s", "SCHEMA", "-e", 1, "-o", "SCHEMA"),
    "release there already": ("release", "DATA", "-s", "SCHEMA", "-e", 1, "-o", "OUT"),
    "an unknown table": ("release", "WORD", "-s", "SCHEMA", "-e", 1, "-o", "NEW"),
    "an unknown schema": ("release", "DATA", "-s", "WORD", "-e", 1, "-o", "NEW"),
    "an unknown release": ("verify", "WORD"),
    "an unknown question": ("answer", "OUT", "WORD"),
    "an unknown method": ("plan", "-s", "SCHEMA", "-n", 200, "-e", 1, "--method", "WORD"),
    "an unknown query": ("sql", "OUT", "WORD"),
    "an unknown ledger": ("ledger", "show", "WORD"),
    "an unknown key": ("federated", "start", "NEW", "-s", "SCHEMA", "-e", 1, "-k", "WORD", "--site", "a=1,WORD"),
    "an unknown site": ("federated", "start", "NEW", "-s", "SCHEMA", "-e", 1, "-k", "WORD", "--site", "WORD"),
    "an unknown study": ("federated", "status", "WORD"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_prints_what_a_terminal_obeys_or_takes_a_name_for_markup(name, place):
    folder, word, file = place
    places = {"SCHEMA": folder / "schema.toml", "DATA": folder / "rows.csv", "OUT": folder / f"out{file}",
              "LEDGER": folder / f"l{file}", "PAGE": folder / f"page{file}", "NEW": folder / "new", "WORD": word,
              "QUESTION": f"avg(\"kind {word}\" = '{word}')"}  # fmt: skip
    shown = run(*(places.get(part, part) for part in COMMANDS[name]))
    assert shown.exit_code == ("there" in name or "onto" in name or "unknown" in name), shown.output
    assert unprintable(shown.output) == []
    if "json" in name or name == "export":
        json.loads(shown.stdout)
    if name in ("plan", "verify as json", "answer as json", "ledger as json", "report") and word == MARKUP:
        assert (word in shown.output) or (file in shown.output.replace("\n", ""))


@pytest.mark.parametrize(("harm", "code"), [(False, 0), (True, 3)])
def test_a_small_encoding_does_not_change_the_verdict(harm, code, place):
    folder, _, file = place
    if harm:
        shutil.copytree(folder / f"out{file}", folder / "harmed")
        (folder / "harmed" / "synthetic.csv").write_text("")
    command = [sys.executable, "-c", "from smoothsynth.cli import main; main()", "verify"]
    place = folder / ("harmed" if harm else f"out{file}")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ran = subprocess.run([*command, place], env=environment, capture_output=True, check=False)
    assert ran.returncode == code, ran.stderr
    assert b"Traceback" not in ran.stderr
    assert b"\\u2713" in ran.stdout


def test_a_warning_is_one_line_for_a_reader(csv_file, schema_file, tmp_path, monkeypatch):
    def fail(*_args):
        raise ValueError(f"a page {OBEYED}")

    monkeypatch.setattr("smoothsynth.report.contents.contents", fail)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.filters", [("always", None, Warning, None, 0)])
        shown = run("release", csv_file, "-s", schema_file, "-e", 1, "-o", tmp_path / "out", "-q")
    assert shown.stderr.startswith("Warning: The page of the release could not be drawn: a page \\u001b[31m")
    assert ".py" not in shown.stderr
