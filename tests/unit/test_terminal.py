"""What is printed: brackets are no styles, nothing that a terminal obeys gets through, and no encoding is too small."""

import io
import json
import os
import re
import shutil
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, parquet
from rich.table import Table
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.accounting.charges import Budget
from smoothsynth.accounting.ledger import LedgerFile
from smoothsynth.answer.estimate import Estimate
from smoothsynth.answer.statistics import Regression
from smoothsynth.cli.main import app
from smoothsynth.pipeline.terminal import as_text, progress_bar, visible

MARKUP = "o[red]q[/]:smile:"
# An escape sequence, a title with a bell, the one-character form of ESC [, a mark of direction.
OBEYED = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202egpj"
# A line that looks like one of ours, and isolates that turn what follows round.
FORGED = "Error: nothing is wrong"
STRANGE = {"markup": MARKUP, "obeyed": OBEYED, "lines": f"a\n{FORGED}\n\u2066\u2029b"}


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


JSON = ("receipt.json", "moments.json")


@pytest.fixture(scope="module", params=STRANGE)
def place(request, tmp_path_factory):
    """A table, a schema, a ledger and a release in which all names are strange."""
    folder, word = tmp_path_factory.mktemp("strange"), STRANGE[request.param]
    # A place is named by whoever gives the command.
    file = word.replace("/", "").replace("\n", " ")
    schema = ss.Schema(
        {word: ss.Number(0, 9), f"kind {word}": ss.Category([word, "b"])}, constraints=[f"`{word}` <= 8"]
    )
    schema.save(folder / "schema.toml")
    data = write_table(folder, {word: [k % 7 for k in range(200)], f"kind {word}": [word, "b"] * 100})
    LedgerFile.create(folder / f"l{file}", Budget(9.0, 1e-6))
    made = run("release", data, "-s", folder / "schema.toml", "-e", 1, "--delta", 1e-6, "-o",
               folder / f"out{file}", "--ledger", folder / f"l{file}", "--csv")  # fmt: skip
    assert made.exit_code == 0, made.output
    assert unprintable(made.output) == []
    harm(folder, word, file)
    return {
        "SCHEMA": folder / "schema.toml", "DATA": data, "OUT": folder / f"out{file}", "HARMED": folder / "harmed",
        "LEDGER": folder / f"l{file}", "PAGE": folder / f"page{file}", "NEW": folder / "new", "WORD": word,
        "QUESTION": f"avg(\"kind {word}\" = '{word}')", "CATEGORY": f'avg("kind {word}")',
        "NO COLUMN": f'avg("no {word}")', "NO SECTION": folder / "section.toml", "NO TYPE": folder / "type.toml",
        "NO RULE": folder / "rule.toml",
    }  # fmt: skip


def write_table(folder, columns):
    """Write a table: names with lines in them are not for CSV."""
    if any("\n" in name for name in columns):
        parquet.write_table(pa.table(columns), folder / "rows.parquet")
        return folder / "rows.parquet"
    csv.write_csv(pa.table(columns), folder / "rows.csv")
    return folder / "rows.csv"


def harm(folder, word, file):
    """Put a strange word wherever a release or a schema may have one that is refused."""
    harmed = shutil.copytree(folder / f"out{file}", folder / "harmed")
    (harmed / f"extra {word.replace('/', '')}").touch()
    receipt, moments = (json.loads((harmed / name).read_text(encoding="utf-8")) for name in JSON)
    receipt["method"], receipt["sha256"][word], moments[word] = word, word, word
    moments["moments"][0] |= {"purpose": word, "rows": 9}
    for name, document in zip(JSON, (receipt, moments), strict=True):
        (harmed / name).write_text(json.dumps(document), encoding="utf-8")
    quoted = json.dumps(word)
    (folder / "section.toml").write_text(f"columns.{quoted} = 3")
    (folder / "type.toml").write_text(f"[columns.{quoted}]\ntype = {quoted}")
    (folder / "rule.toml").write_text(
        f"constraints = [{quoted}]\n[columns.{quoted}]\ntype = 'number'\nlower = 0\nupper = 1"
    )


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
    "a refuted release": ("verify", "HARMED"),
    "a refuted release as json": ("verify", "HARMED", "--json"),
    "an unknown file in a release": ("answer", "HARMED", "QUESTION"),
    "an unknown use of a category": ("answer", "OUT", "CATEGORY"),
    "an unknown column": ("answer", "OUT", "NO COLUMN"),
    "an unknown section": ("plan", "-s", "NO SECTION", "-n", 200, "-e", 1),
    "an unknown type": ("plan", "-s", "NO TYPE", "-n", 200, "-e", 1),
    "an unknown constraint": ("plan", "-s", "NO RULE", "-n", 200, "-e", 1),
    "an unknown table to describe": ("schema", "WORD"),
    "an unknown study": ("federated", "status", "WORD"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_prints_what_a_terminal_obeys_or_takes_a_name_for_markup(name, place):
    shown = run(*(place.get(part, part) for part in COMMANDS[name]))
    refused = "there" in name or "onto" in name or "unknown" in name
    assert shown.exit_code == (3 if "refuted" in name else refused), shown.output
    assert unprintable(shown.output) == []
    assert not any(line.startswith(FORGED) for line in shown.output.splitlines())
    # A question is shown with a caret below it, and questions that are right: four lines, whatever it holds.
    assert shown.stderr.count("\n") == (4 if name == "an unknown question" else 1) or not refused
    if "json" in name or name == "export":
        json.loads(shown.stdout)
    if name.startswith(("verify", "a refuted")) and name.endswith("json"):
        assert shown.stdout.isascii()
    word = place["WORD"]
    if name in ("plan", "verify as json", "answer as json", "ledger as json", "report") and word == MARKUP:
        assert (word in shown.output) or (word.replace("/", "") in shown.output.replace("\n", ""))


@pytest.mark.parametrize("place", ["markup"], indirect=True)
@pytest.mark.parametrize(("release", "code"), [("OUT", 0), ("HARMED", 3)])
def test_a_small_encoding_does_not_change_the_verdict(release, code, place):
    command = [sys.executable, "-c", "from smoothsynth.cli.main import main; main()", "verify"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ran = subprocess.run([*command, place[release]], env=environment, capture_output=True, check=False)
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


def test_progress_takes_no_name_for_markup(monkeypatch):
    """A closing style that nothing opened would end a release after noise was drawn."""
    shown = io.StringIO()
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setattr("sys.stderr", shown)
    with progress_bar(quiet=False) as told:
        told("the bounds of column 'a[/x][red]b', round 1 of 2", 1, 2)
    assert "'a[/x][red]b'" in shown.getvalue()


@pytest.mark.parametrize("width", [30, 40, 80, 200])
def test_there_is_a_bar_at_every_width(monkeypatch, width):
    shown = io.StringIO()
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stderr", shown)
    with progress_bar(quiet=False) as told:
        told("measuring 4 of 5", 1, 2)
        told("drawing rows", 0, None)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", shown.getvalue()).splitlines()
    assert max(map(len, lines)) <= width
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue())
    first = next(line for line in text.splitlines() if "50%" in line)
    assert "measuring 4 of 5" in first
    assert "\u2501" in first
    assert "[" not in first


def test_every_phase_of_a_release_is_told(csv_file, schema_file):
    told = []
    schema = ss.Schema.load(schema_file)
    made = ss.release(csv_file, schema=schema, epsilon=1.0, seed=1, progress=lambda *phase: told.append(phase))
    count = len(made.moments)
    names = list(dict.fromkeys(name for name, _, _ in told))
    assert names[-1] == "drawing rows"
    assert [name for name in names if name.startswith("fitting")] == [
        f"fitting {k} of {count}" for k in range(1, count + 1)
    ]
    assert "measuring 1 of" in names[0]
    assert all(len(name) <= 22 for name in names)
    # What has begun ends: no bar is left moving.
    assert all(done == total for done, total in {name: (done, total) for name, done, total in told}.values())


def test_a_program_can_ask_for_the_bar(csv_file, schema_file, monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setattr("sys.stderr", shown)
    ss.release(csv_file, schema=ss.Schema.load(schema_file), epsilon=1.0, progress=True)
    assert "drawing rows" in shown.getvalue()
    assert "\x1b[?25h" in shown.getvalue()


@pytest.mark.parametrize("progress", [True, False, None])
def test_nothing_is_drawn_where_nobody_watches(csv_file, schema_file, capsys, progress):
    ss.release(csv_file, schema=ss.Schema.load(schema_file), epsilon=1.0, progress=progress)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("word", STRANGE.values(), ids=STRANGE)
def test_a_regression_names_its_columns_visibly(word):
    one = Estimate(
        value=1.0, low=0.5, high=1.5, noise=0.1, unseen=0.1, sampling=0.1, fit=0.0, confidence=0.95, unseen_is="a guess"
    )
    shown = str(Regression(word, one, {f"x {word}": one}))
    assert unprintable(shown) == []
    assert len(shown.splitlines()) == 3
