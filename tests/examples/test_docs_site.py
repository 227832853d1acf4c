"""The documentation site: it builds without a warning, loads nothing from elsewhere, and its reference is complete."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ENTRY = re.compile(r"^::: (?P<path>[\w.]+)\n    options:\n      heading: (?P<name>[\w.]+)$", re.MULTILINE)
LOADED = re.compile(r'<(?:script|img|iframe)\b[^>]*\bsrc="(https?:)?//|<link\b[^>]*\brel="(?:stylesheet|preconnect|icon)"'
                    r'[^>]*\bhref="(https?:)?//')  # fmt: skip


def load_hook(name):
    spec = importlib.util.spec_from_file_location(f"docs_hook_{name}", DOCS / "hooks" / f"{name}.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    return hook


COMMANDS = load_hook("command_line")
NAVIGATION = load_hook("navigation")
NAMES = load_hook("page_names")


def entries():
    text = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    return {found["name"]: found["path"] for found in ENTRY.finditer(text)}


def follow(path, found):
    for part in path.split(".")[1:]:
        found = getattr(found, part)
    return found


def imported(path):
    module, _, name = path.rpartition(".")
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), name)


def test_the_reference_names_everything_public():
    errors = {
        name for name in ss.__all__ if isinstance(getattr(ss, name), type) and issubclass(getattr(ss, name), Exception)
    }
    public = {f"ss.{name}" for name in set(ss.__all__) - errors - {"__version__"}}
    public |= {f"ss.{room.__name__.split('.')[1]}.{n}" for room in (ss.federated, ss.methods) for n in room.__all__}
    assert public - entries().keys() == set()
    assert len(errors) > 5
    assert "smoothsynth.errors" in entries()


@pytest.mark.parametrize("name", sorted(entries()))
def test_an_entry_of_the_reference_is_what_it_says(name):
    if name.startswith("ss."):
        assert imported(entries()[name]) is follow(name, ss)


def test_the_command_line_reference_says_what_help_says():
    text = COMMANDS.reference()
    sections = dict(re.findall(r"^## (smoothsynth[\w -]*)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert len(sections) > 15
    for path, section in sections.items():
        shown = CliRunner().invoke(app, [*path.split()[1:], "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", shown)) - {"--help"}
        assert options <= set(re.findall(r"--[a-z][a-z-]+", section)), path
        for command in re.findall(r"^[│|] (\w[\w-]*)\s{2,}\S", shown.partition("Commands")[2], re.MULTILINE):
            assert f"{path} {command}" in sections


def test_a_cell_of_a_table_is_not_read_as_markup():
    assert "local\\[\\*\\]" in COMMANDS.reference()


def test_a_pattern_stands_for_the_pages_without_a_place(tmp_path):
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / name).touch()
    nav = ["b.md", {"More": ["*.md", {"Deep": "b.md"}]}]
    named = set(NAVIGATION.leaves(nav))
    assert NAVIGATION.expand(nav, tmp_path, named=named) == ["b.md", {"More": ["a.md", "c.md", {"Deep": "b.md"}]}]


def test_the_name_of_a_page_becomes_a_link():
    places = {"ledger.md": "ledger.html"}
    text = '<p title="docs/ledger.md">See docs/ledger.md, docs/none.md, <a href="x">docs/ledger.md</a>.</p>'
    assert NAMES.linked(text, places, here="reference") == (
        '<p title="docs/ledger.md">See <a href="../ledger.html">docs/ledger.md</a>, docs/none.md, '
        '<a href="x">docs/ledger.md</a>.</p>'
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="the site needs the dependency group docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return folder, done


def test_the_site_builds_without_a_warning(site):
    folder, done = site
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    assert (folder / "index.html").is_file()
    assert len(list(folder.rglob("*.html"))) > 35


def test_the_site_loads_nothing_from_elsewhere(site):
    folder, _ = site
    pages = list(folder.rglob("*.html"))
    assert pages
    assert [page.name for page in pages if LOADED.search(page.read_text(encoding="utf-8"))] == []
    sheets = [sheet.read_text(encoding="utf-8") for sheet in folder.rglob("*.css")]
    assert sheets
    assert not [sheet for sheet in sheets if re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheet)]


def test_what_would_be_loaded_from_elsewhere_is_noticed():
    assert LOADED.search('<script src="https://cdn.example.org/x.js">')
    assert LOADED.search('<link rel="stylesheet" href="https://fonts.example.org/css">')
    assert not LOADED.search('<a href="https://example.org"><script src="assets/x.js">')


def test_the_reference_is_in_the_site(site):
    folder, _ = site
    python = (folder / "reference" / "python.html").read_text(encoding="utf-8")
    assert all(f"{name}" in python for name in entries())
    assert "seeds the drawing of rows, never the noise" in python
    assert "smoothsynth ledger show" in (folder / "reference" / "command-line.html").read_text(encoding="utf-8")
