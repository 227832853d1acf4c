"""What the pages name must exist: code by import, files by path."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

REFERENCE = re.compile(r"(?<![\w/.-])smoothsynth(?:\.[A-Za-z_]\w*)+")
IMPORT = re.compile(r"^\s*from (smoothsynth[\w.]*) import ([\w, ]+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:docs|tests|src|benchmarks)/[\w./-]+)`")


def resolves(name):
    """Import the longest module that the dotted name begins with, then follow attributes."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError as error:
            if not ".".join(parts[:cut]).startswith(str(error.name)):
                raise
            continue
        return all((found := getattr(found, part, None)) is not None for part in parts[cut:])
    return False


def code_named(text):
    imported = [f"{module}.{name.strip()}" for module, names in IMPORT.findall(text) for name in names.split(",")]
    return sorted({*REFERENCE.findall(text), *imported})


def files_named(text, folder):
    links = [link.split("#")[0] for link in LINK.findall(text) if not re.match(r"[a-z]+:", link)]
    return [folder / link for link in links if link] + [ROOT / path for path in PATH.findall(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_that_a_page_names_exists(page):
    missing = [name for name in code_named(page.read_text(encoding="utf-8")) if not resolves(name)]
    assert not missing, f"{page.relative_to(ROOT)} names code that is not there: {', '.join(missing)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page):
    named = files_named(page.read_text(encoding="utf-8"), page.parent)
    missing = [str(path) for path in named if not path.exists()]
    assert not missing, f"{page.relative_to(ROOT)} names files that are not there: {', '.join(missing)}"


def test_the_page_on_the_paper_names_much_code():
    """Else the first test could pass because nothing is recognised any more."""
    assert len(code_named((ROOT / "docs" / "paper.md").read_text(encoding="utf-8"))) > 60


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`smoothsynth.paper.theory.theory`", []),
        ("`smoothsynth.accounting.charges.Budget.epsilon`", []),
        ("`smoothsynth.accounting.charges.Budget.gamma`", ["smoothsynth.accounting.charges.Budget.gamma"]),
        ("`smoothsynth.nowhere.at_all`", ["smoothsynth.nowhere.at_all"]),
        ("    from smoothsynth.queries.bases import lowest, highest", ["smoothsynth.queries.bases.highest"]),
        ("https://example.org/smoothsynth.git", []),
    ],
)
def test_a_name_that_does_not_exist_is_noticed(text, missing):
    assert [name for name in code_named(text) if not resolves(name)] == missing


def test_a_file_that_does_not_exist_is_noticed():
    text = "[a](proofs/subspace.md#x), [b](proofs/none.md), [c](https://x.org/y.md), [d](#here), `docs/none.md`"
    named = files_named(text, ROOT / "docs")
    assert [path.name for path in named if not path.exists()] == ["none.md", "none.md"]
    assert len(named) == 3
