import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app

SENTINEL = "8675309.125"


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def said(result):
    return result.output + (result.stderr if result.stderr_bytes else "")


def test_help_teaches():
    for command in ([], ["schema"], ["plan"], ["release"], ["demo"]):
        shown = run(*command, "--help")
        assert shown.exit_code == 0
        assert "Usage" in shown.output
        assert "smoothsynth" in shown.output
    assert "smoothsynth" in run("--version").output
    # Stars in a help text would be taken for emphasis.
    assert "year=*/*.parquet" in run("release", "--help").output


def test_the_way_from_a_file_to_a_release(csv_file, schema_file, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    draft = run("schema", csv_file)
    assert draft.exit_code == 0
    assert '[columns."age"]' in draft.output
    assert 'type = "integer"' in draft.output
    assert "public knowledge" in draft.output
    with pytest.raises(ss.SchemaError, match="lower bound is missing"):
        ss.Schema.parse(draft.output)
    planned = run("plan", "--schema", schema_file, "--rows", 400, "--epsilon", 1)
    assert planned.exit_code == 0
    assert "No data was read" in planned.output.replace("\n", " ")
    made = run("release", csv_file, "--schema", schema_file, "--epsilon", 1, "-o", tmp_path / "out", "--csv")
    assert made.exit_code == 0, said(made)
    told = made.output.splitlines()
    assert len(told) == 4, made.output
    assert told[0] == f"Open {tmp_path / 'out' / 'report.html'} in a browser: what this release tells, and what not."
    assert told[2].startswith("Spent epsilon = 1 for one row on 4 measurements;")
    assert ss.load(tmp_path / "out").to_arrow().num_rows == 400


def test_json_is_json(csv_file, schema_file, tmp_path):
    planned = run("plan", "--schema", schema_file, "--rows", 400, "--epsilon", 1, "--json")
    assert json.loads(planned.output)["budget"]["epsilon"] == 1
    made = run("release", csv_file, "-s", schema_file, "-e", 1, "-o", tmp_path / "out", "--json")
    assert json.loads(made.output)["spent"]["epsilon"] <= 1


def test_a_plan_says_what_a_target_needs(schema_file):
    arguments = ("plan", "-s", schema_file, "-n", 4000, "-e", 1, "--target-error", 0.02)
    shown = run(*arguments)
    assert "or" in shown.output
    assert "rows with epsilon 1" in " ".join(shown.output.split())
    assert json.loads(run(*arguments, "--json").output)["needed"]["epsilon"] > 0


def test_a_draft_is_not_overwritten(csv_file, tmp_path):
    assert run("schema", csv_file, "-o", tmp_path / "s.toml").exit_code == 0
    again = run("schema", csv_file, "-o", tmp_path / "s.toml")
    assert again.exit_code == 1
    assert "--force" in said(again)


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


BAD = {
    "empty.csv": "",
    "header.csv": "age,income,visits\n",
    "missing.csv": "age,incme,visits\n1,8675309.125,3\n",
    "twice.csv": "age,age,income,visits\n1,8675309.125,3,4\n",
    "latin.csv": "age,income,visits,\xe9\n8675309.125,1,3,4\n".encode("latin-1"),
    "truncated.parquet": b"PAR1 8675309.125 nothing of use",
    "data.xlsx": "8675309.125",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_explained_without_their_content(name, schema_file, tmp_path):
    path = write(tmp_path / name, BAD[name])
    result = run("release", path, "-s", schema_file, "-e", 1, "-o", tmp_path / "out")
    assert result.exit_code == 1
    assert "Error:" in said(result)
    assert SENTINEL not in said(result)
    assert not (tmp_path / "out").exists()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".out")]


ODD = {
    "one row": "age,income,visits\n30,5,3\n",
    "constant": "age,income,visits\n" + "30,5,3\n" * 50,
    "out of bounds": "age,income,visits\n" + "8675309.125,-8675309.125,999\n" * 50,
    "not numbers": "age,income,visits\n" + "nan,inf,-inf\n" * 50,
    "text": "age,income,visits\n" + "8675309.125,unknown secret,3\n" * 50,
    "nulls": "age,income,visits\n" + ",,\n30,,3\n" * 25,
    "ragged": "age,income,visits\n" + "1,8675309.125,3\n1,8675309.125,3,4,5\n" * 25,
    "quote": "age,income,visits\n" + '1,8675309.125,3\n1,"8675309.125,3\n' * 25,
    "latin": ("age,income,visits\n" + "8675309.125,\xe9,3\n" * 50).encode("latin-1"),
    "more columns": "id,age,income,visits\n" + "8675309.125,30,5,3\n" * 50,
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_values_have_a_place(kind, schema_file, tmp_path):
    path = write(tmp_path / "odd.csv", ODD[kind])
    result = run("release", path, "-s", schema_file, "-e", 1, "-o", tmp_path / "out", "--csv")
    assert result.exit_code == 0, said(result)
    everything = said(result) + "".join(
        p.read_text() for p in (tmp_path / "out").iterdir() if p.suffix in (".json", ".csv")
    )
    assert "8675309" not in everything
    assert "secret" not in everything


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--epsilon", "0"], "epsilon"),
        (["--epsilon", "-1"], "epsilon"),
        (["--epsilon", "1", "--delta", "1"], "delta"),
        (["--epsilon", "1", "--delta", "-1"], "delta"),
        (["--epsilon", "1", "--method", "magic"], "method"),
        (["--epsilon", "1", "--seed", "-3"], "seed"),
        (["--epsilon", "1", "--size", "0"], "synthetic_rows"),
    ],
)
def test_bad_choices_are_explained(arguments, words, csv_file, schema_file, tmp_path):
    result = run("release", csv_file, "-s", schema_file, *arguments, "-o", tmp_path / "out")
    assert result.exit_code == 1
    assert words in said(result)
    assert not (tmp_path / "out").exists()


def test_usage_errors_exit_with_two(csv_file):
    assert run("release", csv_file).exit_code == 2
    assert run("relase").exit_code == 2


def test_an_output_that_cannot_be_written_is_found_before_the_data_is_read(schema_file, tmp_path):
    (tmp_path / "file").write_text("")
    result = run("release", tmp_path / "no-such.csv", "-s", schema_file, "-e", 1, "-o", tmp_path / "file")
    assert result.exit_code == 1
    assert "is a file" in said(result)


def test_the_demo_tells_the_story(tmp_path):
    result = run("demo", "--output", tmp_path / "demo")
    assert result.exit_code == 0, said(result)
    assert "only because the table is public" in result.output.replace("\n", " ")
    assert "file://" in result.output
    assert ss.load(tmp_path / "demo").to_arrow().num_rows == 20_000


def interrupted(process):
    """Press Ctrl-C until the process ends: Python ignores one that comes while it cleans up after an import."""
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=15)[1]
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    return process.communicate()[1]


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_leaves_nothing(schema_file, tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("age,income,visits\n" + "30,5,3\n" * 3_000_000)
    command = [sys.executable, "-c", "from smoothsynth.cli.main import main; main()", "release", str(path),
               "-s", str(schema_file), "-e", "1", "-o", str(tmp_path / "out")]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".out*")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    # The folder is made a moment before its removal is promised; a process that ends in between leaves it to the next.
    time.sleep(0.2)
    complaint = interrupted(process)
    assert process.returncode == 130, complaint
    assert "Interrupted" in complaint
    assert "Traceback" not in complaint or "Exception ignored" in complaint
    assert not list(tmp_path.glob(".out*"))
    assert not (tmp_path / "out").exists()


def test_help_has_the_order_of_work_and_completion():
    shown = run("--help").output
    names = ["demo", "schema", "plan", "release", "answer", "verify", "attack", "ledger", "federated", "audit", "paper"]
    places = [re.search(rf"^\W*{name} ", shown, re.MULTILINE).start() for name in names]
    assert places == sorted(places)
    assert "--install-completion" in shown
    assert "130 interrupted" in shown


def test_a_pure_plan_shows_what_a_delta_would_give(schema_file):
    arguments = ["plan", "-s", schema_file, "-n", 3000, "-e", 1]
    assert "with delta" in run(*arguments).output
    assert "with delta" not in run(*arguments, "--delta", 1e-6).output
    beside = json.loads(run(*arguments, "--json").output)["with_delta"]
    delta = json.loads(run(*arguments, "--delta", 1e-6, "--json").output)
    assert beside == {"delta": 1e-6, "expected_errors": delta["expected_errors"]}
    assert "with_delta" not in delta
    assert "with delta" not in run(*arguments, "--method", "paper").output


def test_commands_that_write_have_json(csv_file, schema_file, tmp_path):
    release = json.loads(run("release", csv_file, "-s", schema_file, "-e", 1, "-o", tmp_path / "out", "--json").output)
    assert release["page"] == str(tmp_path / "out" / "report.html")
    drawn = json.loads(run("sample", tmp_path / "out", "-n", 5, "-o", tmp_path / "more.csv", "--json").output)
    assert (drawn["wrote"], drawn["rows"]) == (str(tmp_path / "more.csv"), 5)
    page = json.loads(run("report", tmp_path / "out", "-o", tmp_path / "page.html", "--json").output)
    assert page == {"wrote": str(tmp_path / "page.html"), "for_release": True}
    draft = json.loads(run("schema", csv_file, "--json").output)
    assert "[columns." in draft["schema"]
    total = json.loads(run("ledger", "set", tmp_path / "all.ledger", "-e", 2, "--json").output)
    assert total["total"]["epsilon"] == 2
