"""One word for one thing: what docs/explanation/vocabulary.md calls otherwise is not an identifier any more."""

import ast
from pathlib import Path

import pytest

import smoothsynth

ROOT = Path(smoothsynth.__file__).parent

# Retired name -> what it is called now.
RETIRED = {
    "View": "Transformation",
    "view": "transformation",
    "look_of": "Measurement.family",
    "learn_through": "update_through",
    "Stages": "Rounds",
    "Stage": "Round",
    "Columns": "Marginals",
    "flat_columns": "flat_marginals",
    "Marks": "Indicators",
    "marks": "indicators",
    "PairChoice": "TableSelection",
    "PairSelection": "TableSelection",
    "short_rows_l1": "clipped_l1",
    "short_rows_l2": "clipped_l2",
    "soft_counts_l1": "hat_l1",
    "soft_counts_l2": "hat_l2",
    "Look": "BlockTransformation",
    "chosen_pairs": "tables",
    "selected_pairs": "tables",
    "StudyError": "FederatedError",
    "Knowledge": "Evidence",
    "knowledge": "evidence",
    "strangeness": "pair_misfit",
    "surprise": "joint_misfit",
    "Frame": "OrthonormalBasis",
    "Asked": "Query",
}
# Old keywords of `plan` and flags of the command line go on to work, and say what replaced them.
STILL_TAKEN = {"methods/options.py": {"chosen_pairs"}, "cli/main.py": {"chosen_pairs"}}


def defined(tree):
    """Yield every name that a module defines: functions, classes, arguments, variables and fields."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_retired_words_name_nothing(path):
    found = set(defined(ast.parse(path.read_text(encoding="utf-8")))) & set(RETIRED)
    found -= STILL_TAKEN.get(path.relative_to(ROOT).as_posix(), set())
    assert not found, {name: RETIRED[name] for name in found}
