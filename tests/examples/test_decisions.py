"""Decisions are short, have the note they name, and are in the index with constants that exist."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECISIONS, NOTES = ROOT / "docs" / "decisions", ROOT / "docs" / "notes"
PAGES = sorted(DECISIONS.glob("[0-9]*.md"))
INDEX = (DECISIONS / "index.md").read_text(encoding="utf-8")
PARTS = ("**Context.**", "**Decision.**", "**Consequence.**", "**Status.**")
MOST_WORDS = 150

ENTRY = re.compile(r"^- \[(\d{4})\]\((\d{4}-[\w-]+\.md)\): (.*?)(?=^- |^$)", re.MULTILINE | re.DOTALL)
FIXED = re.compile(r"`([a-z_/]+)\.py`:((?:\s+`\w+`,?)+)")
# Code may name a page by its number alone: docs/decisions/0002.
NUMBERED = re.compile(r"docs/(decisions|notes)/(\d{4})")


def constants(text):
    """Return each module and constant that a text lists, as `model/copula.py`: `_SPLIT`, `_ROUNDS`."""
    return [(path, name) for path, names in FIXED.findall(text) for name in re.findall(r"\w+", names)]


def exists(path, name):
    return hasattr(importlib.import_module("smoothsynth." + path.replace("/", ".")), name)


def unresolved(text):
    return [
        found[0] for found in NUMBERED.finditer(text) if not list((ROOT / "docs" / found[1]).glob(f"{found[2]}-*.md"))
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem[:4])
def test_a_decision_is_short_and_has_every_part(page):
    text = page.read_text(encoding="utf-8")
    assert len(text.split()) <= MOST_WORDS
    assert [part for part in PARTS if text.count(part) != 1] == []
    assert text.startswith(f"# {page.stem[:4]}: ")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem[:4])
def test_a_decision_names_its_note_and_the_note_its_decision(page):
    note = NOTES / page.name
    assert (f"](../notes/{page.name})" in page.read_text(encoding="utf-8")) == note.exists()
    assert not note.exists() or f"](../decisions/{page.name})" in note.read_text(encoding="utf-8")


def test_a_note_belongs_to_a_decision():
    notes = {note.name for note in NOTES.glob("[0-9]*.md")}
    assert len(notes) >= 15
    assert notes <= {page.name for page in PAGES}


def test_the_index_has_every_decision_once_with_what_it_fixes():
    entries = ENTRY.findall(INDEX)
    assert [name for _, name, _ in entries] == [page.name for page in PAGES]
    assert all(name.startswith(number) for number, name, _ in entries)
    assert [number for number, _, text in entries if not constants(text) and "*Fixes* no constant." not in text] == []


def test_every_constant_in_the_index_is_in_the_code():
    listed = constants(INDEX)
    assert len(listed) > 90
    assert [f"{path}.{name}" for path, name in listed if not exists(path, name)] == []


def test_code_and_pages_name_decisions_that_exist():
    files = [path for room in ("src", "benchmarks", "tests", "docs") for path in (ROOT / room).rglob("*.*")]
    named = [path for path in files if path.suffix in {".py", ".md"} and path != Path(__file__)]
    texts = {path: path.read_text(encoding="utf-8") for path in [*named, ROOT / "README.md", ROOT / "CHANGELOG.md"]}
    assert sum(len(NUMBERED.findall(text)) for text in texts.values()) > 10
    assert {path.name: unresolved(text) for path, text in texts.items() if unresolved(text)} == {}


def test_what_is_not_there_is_noticed():
    text = (
        "`model/copula.py`: `_SPLIT`,\n  `_NONE`; `methods/layout.py`: `FOCUSES`. docs/decisions/0002, docs/notes/9999."
    )
    assert [exists(*constant) for constant in constants(text)] == [True, False, True]
    assert unresolved(text) == ["docs/notes/9999"]
