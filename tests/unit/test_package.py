"""What the package shows and imports at its door, and what it says of itself where it is published."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import smoothsynth as ss
from smoothsynth.cli import start
from smoothsynth.cli.main import app

ROOT = Path(__file__).parents[2]
HELP = "sys.argv = ['smoothsynth', '--help']; from smoothsynth.cli.start import main; main()"
LIBRARIES = {
    "numpy",
    "pyarrow",
    "opendp",
    "highspy",
    "pandas",
    "polars",
    "duckdb",
    "pyspark",
    "dask",
    "distributed",
    "scipy",
    "matplotlib",
    "cryptography",
    "sklearn",
    "snsynth",
    "sdv",
    "narwhals",
    "yaml",
}


def modules_after(code):
    """Return the names of all modules that a new interpreter has imported after running some code."""
    code = f"import sys; {code}; print('', *sorted(sys.modules), sep='\\nmodule ')"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(re.findall(r"(?m)^module (\S+)$", shown.stdout)), shown.stdout


def test_the_package_is_imported_without_its_rooms():
    seen, _ = modules_after("import smoothsynth")
    assert {name for name in seen if name.startswith("smoothsynth")} == {"smoothsynth"}
    assert not seen & (LIBRARIES | {"typer", "rich"})


def test_the_first_page_of_help_comes_without_the_rooms_of_the_method():
    seen, shown = modules_after(HELP)
    assert "Usage: smoothsynth" in shown
    ours = {name for name in seen if name.startswith("smoothsynth")}
    assert ours == {"smoothsynth"} | {
        f"smoothsynth.{name}" for name in ("cli", "cli.start", "errors", "pipeline", "pipeline.terminal")
    }
    assert not seen & (LIBRARIES | {"typer"})


def test_commands_are_listed_without_numerical_libraries():
    seen, _ = modules_after("import smoothsynth.cli.main")
    assert not seen & LIBRARIES


def test_the_first_page_of_help_says_what_typer_would_say():
    built = get_command(app)
    listed = {name: one.help.split("\n\n")[0].replace("\n", " ") for name, one in built.commands.items()}
    assert listed == start.COMMANDS
    assert built.list_commands(None) == list(start.COMMANDS)
    assert {param.opts[0]: param.help for param in built.params} | {"--help": start.OPTIONS["--help"]} == start.OPTIONS
    assert built.help == start.ABOUT


def test_the_first_page_of_help_leaves_other_commands_lines_to_typer(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["smoothsynth", "plan", "--help"])
    with pytest.raises(SystemExit) as stopped:
        start.main()
    assert stopped.value.code == 0
    assert "--target-error" in capsys.readouterr().out


def test_commands_of_another_package_are_on_the_first_page_too(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["smoothsynth", "--help"])
    monkeypatch.setattr(start, "COMMANDS", {k: v for k, v in start.COMMANDS.items() if k != "paper"})
    with pytest.raises(SystemExit):
        start.main()
    assert "paper" in capsys.readouterr().out


def test_only_public_names_are_listed():
    assert set(dir(ss)) == {*ss.__all__, "Synthesizer"}
    assert not [name for name in dir(ss) if name.startswith("_") and name != "__version__"]
    assert all(getattr(ss, name) is not None for name in ss.__all__)


def test_a_name_is_the_same_however_it_is_imported():
    from smoothsynth.pipeline.run import release
    from smoothsynth.verification.verify import verify

    assert (ss.release, ss.verify) == (release, verify)
    assert "release" in vars(ss)


def test_a_mistyped_name_is_answered_with_the_right_one():
    with pytest.raises(AttributeError, match=r"has no attribute 'Catgory'\. Did you mean 'Category'"):
        _ = ss.Catgory
    with pytest.raises(AttributeError, match=r"has no attribute '__wrapped__'$"):
        _ = ss.__wrapped__


def version_in(name, pattern):
    return re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)[1]


def test_the_project_the_citation_and_the_changelog_name_one_version():
    version = version_in("pyproject.toml", r'^version = "(.+)"$')
    assert version_in("CITATION.cff", r"^version: (.+)$") == version
    # The newest heading with a version, or what the unreleased changes will be called.
    assert version_in("CHANGELOG.md", r"^(?:## \[|These changes become version )(\d+\.\d+\.\d+)") == version


def test_every_supported_python_is_tried():
    named = set(re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', (ROOT / "pyproject.toml").read_text()))
    tried = version_in("Makefile", r"\$\(foreach minor,([\d ]+),").split()
    assert set(tried) == named
