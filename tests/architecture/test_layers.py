"""The tree reads as the method: imports go one way, and rows exist only in private/."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import smoothsynth

ROOT = Path(smoothsynth.__file__).parent

# A module sees those on earlier lines, and its own folder. Modules on one line do not see each other.
LAYERS = [
    ["errors", "_runtime", "_display"],
    ["_files", "schema", "accounting"],
    ["queries"],
    ["discovery", "methods", "fit"],
    ["private", "model"],
    ["pipeline"],
    ["answer"],
    ["report"],
    ["verification", "audit", "federated", "adapters", "demo"],
    ["cli", "paper"],
]
# Seen by a release only inside functions, for printing and asking.
PRINTING = {
    ("pipeline", "answer"),
    ("pipeline", "report"),
    ("pipeline", "adapters"),
}
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
SOURCES = sorted(ROOT.rglob("*.py"))


def room(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "smoothsynth":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("smoothsynth."))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_one_way(path):
    own = room(path)
    if own == "__init__":
        return
    for other in imported_rooms(path):
        if other != own and (own, other) not in PRINTING:
            assert LEVEL[other] < LEVEL[own], f"{own} must not import {other}"


def test_nothing_imports_the_paper_but_the_root_late():
    seen = {p.relative_to(ROOT).as_posix() for p in SOURCES if "paper" in set(imported_rooms(p)) and room(p) != "paper"}
    assert seen == {"__init__.py"}
    code = "import sys, smoothsynth; print([m for m in sys.modules if m.startswith('smoothsynth.paper')])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_the_house_is_small():
    modules = [path for path in SOURCES if path.name != "__init__.py"]
    # 150 before tables about people: attacks, given rows, priors, persons, rules over levels, many levels, weights;
    # 175 before the way in: checks, drafts, descriptions, plots, the walk and the studio.
    assert len(modules) <= 200
    # Four, and how objects of every room show themselves.
    assert len(list(ROOT.glob("*.py"))) <= 5
    assert len(LAYERS) <= 10
    assert len(PRINTING) <= 3
    assert all(len(path.read_text(encoding="utf-8").splitlines()) <= 500 for path in SOURCES)
    assert not {path.parent.name for path in SOURCES} & {
        n for n in smoothsynth.__all__ if callable(getattr(smoothsynth, n))
    }


def test_every_room_is_on_the_list():
    assert {room(path) for path in SOURCES} - {"__init__", "__main__"} == set(LEVEL)


def test_post_processing_cannot_see_rows():
    for path in [*ROOT.rglob("model/**/*.py"), *ROOT.rglob("fit/**/*.py")]:
        assert "private" not in set(imported_rooms(path)), path


def test_only_the_pipeline_sees_both_sides():
    both = {p.relative_to(ROOT).as_posix() for p in SOURCES if {"private", "model"} <= set(imported_rooms(p))}
    assert both <= {"pipeline/run.py"} | {p for p in both if p.startswith("paper/")}


def uses(pattern, *, outside):
    found = {p.relative_to(ROOT).as_posix() for p in SOURCES if re.search(pattern, p.read_text(encoding="utf-8"))}
    return found - set(outside)


def test_there_is_one_door():
    assert not uses(r"\.unseal\(", outside={"private/measure.py"})
    assert uses(r"\.unseal\(", outside=()) == {"private/measure.py"}


def test_exact_sums_are_packed_only_to_be_encrypted():
    assert uses(r"\.packed\(", outside=()) == {"private/sites/envelope.py"}
    assert uses(r"(import|from) cryptography", outside=()) == {"private/sites/keys.py"}


def test_there_is_one_noise_source():
    assert not uses(r"\bopendp\b.*import|import opendp|\bsecrets\b", outside={"private/noise.py"})
    assert uses(r"opendp", outside=()) >= {"private/noise.py"}


def test_the_loop_that_learns_is_written_once():
    # Candidates to be weighed are drawn from a model of the columns alone, of one round.
    inside = {"model/model.py", "model/synthesis.py"}
    assert uses(r"update_through\(", outside=inside) == {"pipeline/rounds.py"}


def test_all_that_is_printed_is_made_visible():
    # Examples and scripts for the reader print for themselves.
    examples = {"__init__.py", "cli/studio/scripts.py"}
    assert uses(r"typer\.echo|rich\.print|\bprint\(", outside=examples) == {"pipeline/terminal.py"}
    assert uses(r"\bConsole\(", outside=()) == {"pipeline/terminal.py"}


def test_only_sql_asks_duckdb():
    assert uses(r"import duckdb|from duckdb|import_module\(.duckdb", outside=()) == {"answer/sql.py"}


@pytest.mark.parametrize(
    ("library", "engine"),
    [
        ("pyspark", "private/engines/spark.py"),
        ("dask", "private/engines/dask.py"),
        ("distributed", "private/engines/dask.py"),
    ],
)
def test_only_its_engine_imports_the_library_of_a_cluster(library, engine):
    pattern = rf"(?m)^\s*(import|from) {library}\b|import_module\(.{library}"
    assert uses(pattern, outside=()) == {engine}


@pytest.mark.parametrize(
    ("library", "adapters"),
    [
        ("sklearn", {"adapters/scikit_learn.py"}),
        ("snsynth", {"adapters/smartnoise.py"}),
        ("narwhals", {"adapters/frames.py"}),
        # The release only names the type of a figure.
        ("matplotlib", {"report/plot.py", "pipeline/release.py"}),
        ("yaml", {"adapters/dpsynth.py"}),
        ("sdv", set()),
        ("dpsynth", set()),
    ],
)
def test_only_its_adapter_imports_the_library_of_a_tool(library, adapters):
    pattern = rf"(?m)^\s*(import|from) {library}\b|import_module\(.{library}"
    assert uses(pattern, outside=()) == adapters


def test_a_release_is_verified_without_private_rows():
    for path in ROOT.rglob("verification/**/*.py"):
        text = path.read_text(encoding="utf-8")
        assert "private" not in set(imported_rooms(path)), path
        assert "smoothsynth.pipeline.run" not in text, path


def test_nothing_seeded_in_private():
    for path in ROOT.rglob("private/**/*.py"):
        # A study of several sites names the public seed of its rows.
        seed = "" if path.name == "protocol.py" else r"|\bseed\b="
        assert not re.search(rf"default_rng|np\.random|numpy\.random|import random{seed}", path.read_text()), path


def test_heavy_modules_are_imported_late():
    code = (
        "import sys, smoothsynth; heavy = 'pyarrow opendp highspy pandas polars duckdb pyspark dask distributed "
        "scipy rich typer cryptography sklearn snsynth sdv narwhals yaml'.split(); "
        "print([m for m in heavy if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_proof_pages_and_functions_name_each_other():
    proofs = ROOT.parent.parent / "docs" / "proofs"
    for page in proofs.glob("*.md"):
        assert uses(rf"docs/proofs/{page.name}", outside=()), f"no function names {page.name}"
    for path in SOURCES:
        for name in re.findall(r"docs/proofs/([a-z-]+\.md)", path.read_text(encoding="utf-8")):
            assert (proofs / name).is_file(), f"{path.name} names {name}, which is not there"
