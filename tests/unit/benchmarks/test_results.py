"""The README's table and the page of figures are what recorded results say."""

import json

import pytest
from benchmarks import results
from benchmarks.figures import results as figures
from rich.table import Table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    monkeypatch.setattr(results.Console, "recorded", None)
    return tmp_path


def shown(title, head, *rows):
    table = Table(*head, title=title)
    for row in rows:
        table.add_row(*row)
    results.Console(quiet=True).print(table)


def test_tables_are_kept_with_their_command(folder):
    rest = results.start("learning", ["--rounds", "1", "--record", "learning", "--only", "adult"])
    assert rest == ["--rounds", "1", "--only", "adult"]
    shown("one", ("method", "x"), ("a", "1"))
    shown("two", ("method", "x"), ("b", "2"))
    found = json.loads((folder / "learning.json").read_text())
    assert found["command"] == "python -m benchmarks learning --rounds 1 --only adult"
    assert [table["title"] for table in found["tables"]] == ["one", "two"]
    assert "| b | 2 |" in figures.page()


def test_nothing_is_kept_unless_asked_for(folder):
    assert results.start("learning", ["--rounds", "1"]) == ["--rounds", "1"]
    shown("one", ("method", "x"), ("a", "1"))
    assert list(folder.iterdir()) == []


def test_a_loss_is_called_one_and_peers_may_be_older(folder):
    title = "adult, 9 rows, epsilon = 1, delta = 1e-06, 1 rounds"
    other = title.replace("adult", "bank")
    results.start("learning", ["--record", "learning-peers"])
    shown(title, ("method", "boosting"), ("smoothsynth", "0.5"), ("opendp-aim", "0.88"))
    results.start("learning", ["--record", "learning-peers-bank"])
    shown(other, ("method", "boosting"), ("opendp-aim", "0.95"))
    results.start("learning", ["--record", "learning"])
    shown(title, ("method", "boosting"), ("smoothsynth", "0.9"), ("real rows (not private)", "0.93"))
    shown(other, ("method", "boosting"), ("smoothsynth", "0.9"))
    lines = figures.table().splitlines()
    assert lines[2].endswith("| 0.880 (opendp-aim) | **0.900** | 0.930 |")
    assert lines[3].endswith("| 0.950 (opendp-aim) | 0.900 (behind) |  |")


def test_the_readme_and_the_page_are_those_of_the_recorded_results():
    text = figures.README.read_text(encoding="utf-8")
    assert figures.with_table(text, figures.table()) == text
    assert figures.PAGE.read_text(encoding="utf-8") == figures.page()
    assert len(text.splitlines()) <= 70
