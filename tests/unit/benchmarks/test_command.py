"""python -m benchmarks: every name runs, every name is listed, and a wrong one is told the right one."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.__main__ import NAMES, listing, main, summary

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_tells_its_options(name, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv)
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert f"python -m benchmarks {name}" in shown or sys.version_info >= (3, 14)
    assert "options:" in shown


def test_options_reach_the_benchmark():
    command = [sys.executable, "-m", "benchmarks", "fuzz", "--inputs", "12", "--only", "schema"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "schema" in ran.stdout
    assert "parquet" not in ran.stdout


def test_without_a_name_all_are_listed(capsys):
    main([])
    shown = capsys.readouterr().out
    assert shown == listing() + "\n"
    for name in NAMES:
        assert re.search(rf"(?m)^  {name} +\S.{{20}}", shown), name
    assert all(len(summary(name)) <= 110 for name in NAMES)


@pytest.mark.parametrize(("given", "meant"), [("kind", "kinds"), ("mixed_tables", "mixed-tables"), ("zzz", None)])
def test_a_wrong_name_is_told_the_right_one(given, meant):
    with pytest.raises(SystemExit) as ended:
        main([given])
    said = str(ended.value.code)
    assert f"no benchmark {given!r}" in said
    assert (f"Did you mean {meant!r}?" in said) == (meant is not None)
    assert listing() in said


def test_every_benchmark_has_a_name():
    """A module with options of its own is run by a name, or by nobody."""
    found = {p for p in (ROOT / "benchmarks").rglob("*.py") if "def main" in p.read_text(encoding="utf-8")}
    names = {".".join(p.relative_to(ROOT / "benchmarks").with_suffix("").parts) for p in found} - {"__main__"}
    children = {"robustness.fuzz_files", "robustness.witness"}
    drawn = {f"figures.{name}" for name in importlib.import_module("benchmarks.figures.draw").FIGURES}
    assert names == {*NAMES.values(), *children, *drawn}


PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "benchmarks/peers/README.md"]
TEXTS = (
    [ROOT / page for page in PAGES]
    + sorted((ROOT / "docs").rglob("*.md"))
    + sorted((ROOT / "benchmarks").rglob("*.py"))
)
COMMAND = re.compile(r"-m benchmarks ([a-z][a-z-]*)|\bNAME=([a-z][a-z-]*)")


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_that_is_named_exists(path):
    text = path.read_text(encoding="utf-8")
    assert {first or second for first, second in COMMAND.findall(text)} <= set(NAMES)
    assert not re.search(r"\bbench-[a-z]|-m benchmarks\.(?!robustness\.(fuzz_files|witness)\b)", text)


def test_commands_are_recognised():
    """Else the test above could pass because nothing is found any more."""
    assert sum(len(COMMAND.findall(path.read_text(encoding="utf-8"))) for path in TEXTS) > 60
