"""A release without a schema asks its owner on a terminal, proposes no bound, and spends nothing before the last answer."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.accounting.charges import Budget
from smoothsynth.accounting.ledger import LedgerFile
from smoothsynth.cli import walk
from smoothsynth.cli.main import app

FILE = "people.csv"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"P{i:04},{20 + i % 60},{150 + i % 50},{'fm'[i % 2]}" for i in range(300)]
    (tmp_path / FILE).write_text("\n".join(["patient_id,age,height,sex", *rows]) + "\n")
    return tmp_path


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.setattr(walk, "is_watched", lambda: True)


def run(*answers, options=()):
    return CliRunner().invoke(
        app, ["release", FILE, "--epsilon", "5", *options], input="".join(f"{a}\n" for a in answers)
    )


ALL = ("", "", "0", "120", "", "100", "230", "", "f, m", "")


def test_answers_make_a_schema_and_a_release(folder, watched):
    made = run(*ALL, "yes")
    assert made.exit_code == 0, made.output
    schema = ss.Schema.load(folder / "people.toml")
    assert schema.columns == {
        "age": ss.Integer(0, 120),
        "height": ss.Integer(100, 230),
        "sex": ss.Category(["f", "m", "other"], other="other"),
    }
    assert 'drop = ["patient_id"]' in (folder / "people.toml").read_text()
    assert ss.load(folder / "people-release").schema == schema
    assert "spends epsilon = 5" in made.stderr
    assert "PRIVATE" in made.stderr


@pytest.mark.parametrize("count", range(len(ALL) + 1))
def test_an_end_at_any_time_leaves_nothing(folder, watched, count):
    stopped = run(*ALL[:count])
    assert stopped.exit_code == 130
    assert "Nothing was written and nothing was spent." in stopped.stderr
    assert os.listdir(folder) == [FILE]


@pytest.mark.parametrize(("last", "code", "left"), [("no", 1, [FILE]), ("schema", 0, [FILE, "people.toml"])])
def test_the_last_question_can_be_declined(folder, watched, last, code, left):
    stopped = run(*ALL, last)
    assert stopped.exit_code == code
    assert "othing was" in stopped.stderr
    assert sorted(os.listdir(folder)) == left


def test_nothing_is_released_by_enter_alone(folder, watched):
    assert run(*ALL, "", "").exit_code == 130
    assert os.listdir(folder) == [FILE]


def test_no_bound_or_level_is_proposed(watched):
    # Of 20, 79, 150 and 199 none may be shown as a default; an empty answer is asked for again.
    asked = run(*ALL, "no").stderr
    assert not [n for n in ("[20", "[79", "[150", "[199", "[f", "[0") if n in asked]
    again = run("", "", "", "", "5", "4", "integer", "0", "120", *ALL[4:], "no")
    assert again.stderr.count("lower bound, or private:") == 5
    assert "swap them" in again.stderr


def test_help_and_back(folder, watched):
    made = run("?", "", "", "0", "back", "drop", "number", "0", "120", *ALL[4:], "schema")
    assert "drop leaves the column out" in made.stderr
    assert ss.Schema.load(folder / "people.toml").columns["age"] == ss.Number(0, 120)


def test_private_facts_are_asked_a_delta_for(folder, watched):
    made = run("", "", "private", "private", "", "drop", "", "private", "", "schema")
    assert made.exit_code == 0, made.output
    assert "delta, for private levels [1e-06]" in made.stderr
    schema = ss.Schema.load(folder / "people.toml")
    assert schema.columns == {"age": ss.Integer("private", "private"), "sex": ss.Category("private")}


def test_a_budget_that_finds_nothing_is_refused_before_it_is_spent(folder, watched):
    arguments = ["release", FILE, "--epsilon", "0.01"]
    made = CliRunner().invoke(app, arguments, input="\n\nprivate\nprivate\ndrop\ndrop\nyes\nno\n")
    assert made.exit_code == 1
    assert "This cannot be released: Private bounds" in made.stderr
    assert os.listdir(folder) == [FILE]


def test_what_would_be_lost_is_left_out(folder, watched):
    made = run("", "", "0", "120", "date", "2000-01-01", "2020-01-01", "drop", "", "schema")
    assert "most cells of height would be lost" in made.stderr
    assert ss.Schema.load(folder / "people.toml").columns == {"age": ss.Integer(0, 120)}


def test_ids_can_be_persons(folder, watched):
    run("person", *ALL[1:], "schema")
    assert ss.Schema.load(folder / "people.toml").person == "patient_id"


def test_without_a_terminal_it_says_what_to_run(folder):
    made = run()
    assert made.exit_code == 1
    assert "smoothsynth schema people.csv -o people.toml" in made.stderr
    assert os.listdir(folder) == [FILE]


def test_an_existing_schema_is_named(folder, watched):
    (folder / "people.toml").write_text("")
    assert "add --schema people.toml" in run(*ALL).stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--ledger", "no.ledger"), "There is no ledger no.ledger"),
        (("--ledger", "small.ledger"), "the ledger's total is epsilon = 1"),
        (("--delta", "1.5"), "delta must be at least 0 and below 1"),
    ],
)
def test_a_budget_that_cannot_be_spent_is_refused_before_the_first_question(folder, watched, options, said):
    LedgerFile.create("small.ledger", Budget(1.0))
    refused = run(*ALL, "yes", options=options)
    assert refused.exit_code == 1
    assert said in refused.stderr
    assert "columns are asked about" not in refused.stderr


@pytest.mark.parametrize(("broken", "asked"), [(30, True), (400, False)])
def test_lines_that_are_lost_are_named_before_the_first_question(folder, watched, broken, asked):
    with (folder / FILE).open("a") as file:
        file.write("P0,20,150,f,\n" * broken)
    said = run().stderr
    assert f"{broken} of {300 + broken} lines" in said
    assert ("type [drop]: " in said) is asked


@pytest.mark.parametrize(("delta", "warned"), [("1e-3", True), ("1e-5", False)])
def test_a_delta_that_promises_little_is_said(folder, delta, warned):
    ss.Schema({name: ss.Integer(0, 250) for name in ("age", "height")}).save(folder / "s.toml")
    made = run(options=("--schema", "s.toml", "--delta", delta, "-o", "out"))
    assert made.exit_code == 0, made.output
    assert ("Warning: delta should be at most 1/(100 rows), 3e-05 for 300 rows" in made.stderr) is warned


def test_on_a_real_terminal(folder):
    near, far = pty.openpty()
    command = [sys.executable, "-c", "from smoothsynth.cli.start import main; main()", "release", FILE, "-e", "5"]
    with subprocess.Popen(command, stdin=far, stderr=far, stdout=subprocess.PIPE, cwd=folder) as running:
        os.close(far)
        seen = b""
        while b"type [drop]: " not in seen:
            seen += os.read(near, 1024)
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=60) == 130
    assert b"columns are asked about" in seen
    assert os.listdir(folder) == [FILE]
    os.close(near)


def test_tables_fit_a_narrow_terminal(folder):
    near, far = pty.openpty()
    ss.Schema({"age": ss.Integer(0, 40, description="x" * 90)}).save(folder / "s.toml")
    command = [sys.executable, "-c", "from smoothsynth.cli.start import main; main()", "check", FILE, "-s", "s.toml"]
    with subprocess.Popen(
        command, stdin=far, stderr=far, stdout=far, cwd=folder, env=os.environ | {"TERM": "xterm", "COLUMNS": "60"}
    ) as run:
        os.close(far)
        seen = b""
        with contextlib.suppress(OSError):
            while more := os.read(near, 1024):
                seen += more
        assert run.wait(timeout=60) == 0
    os.close(near)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode()).splitlines()
    assert any(line.startswith("  outside, ") for line in lines)
    assert max(len(line) for line in lines) <= 60
