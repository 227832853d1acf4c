"""All checks of a release, in the order in which they build on each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import SmoothsynthError
from smoothsynth.verification.charges import check_budget, check_charges, check_noise, check_words
from smoothsynth.verification.check import Check, Verification
from smoothsynth.verification.folder import (
    check_constraints,
    check_files,
    check_form,
    check_hashes,
    check_prior,
    check_rows,
    read_evidence,
)
from smoothsynth.verification.moments import (
    check_earlier,
    check_found,
    check_range,
    check_rows_against_moments,
    check_search,
    check_sensitivities,
)
from smoothsynth.verification.replay import check_replay
from smoothsynth.verification.written import check_csv, check_metadata, check_page, check_parquet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from smoothsynth.verification.folder import Evidence


# Each check with the files that it reads, beside the receipt.
_CHECKS: tuple[tuple[str, Callable[[Evidence], list[Check]], tuple[str, ...]], ...] = (
    ("files", check_files, ()),
    ("hashes", check_hashes, ()),
    ("form", check_form, ()),
    ("rows", check_rows, ("rows",)),
    ("constraints", check_constraints, ("rows",)),
    ("parquet", check_parquet, ("rows",)),
    ("csv", check_csv, ("rows",)),
    ("metadata", check_metadata, ()),
    ("charges", check_charges, ("moments",)),
    ("sensitivities", check_sensitivities, ("moments",)),
    ("search", check_search, ("moments",)),
    ("noise", check_noise, ()),
    ("budget", check_budget, ()),
    ("words", check_words, ()),
    ("range", check_range, ("moments",)),
    ("earlier", check_earlier, ("moments",)),
    ("found", check_found, ("moments",)),
    ("prior", check_prior, ("prior",)),
    ("moments", check_rows_against_moments, ("moments", "rows")),
    ("transformations", check_replay, ("moments", "prior")),
    ("page", check_page, ("moments", "rows", "prior")),
)


def verify(path: str | Path) -> Verification:
    """Check a release folder without believing it: files, rows, the receipt's arithmetic, moments, transformations.

    A folder that is no release is a ReleaseError; everything else is a check that passed or not. What no check can show
    is in docs/verify.md: that noise was drawn at all, and from which rows.
    """
    evidence = read_evidence(path)
    checks = [Check(name, "failed", words) for name, words in evidence.unreadable.items()]
    with np.errstate(all="ignore"):
        for name, check, needed in _CHECKS:
            if not set(needed) & set(evidence.unreadable):
                checks += _tried(name, check, evidence)
    return Verification(evidence.folder, evidence.fingerprint, tuple(checks))


def _tried(name: str, check: Callable[[Evidence], list[Check]], evidence: Evidence) -> list[Check]:
    """Carry out a check; one that cannot be carried out has failed, whatever the reason."""
    try:
        return check(evidence)
    except SmoothsynthError as error:
        return [Check(name, "failed", str(error))]
    except Exception as error:
        return [Check(name, "failed", f"This cannot be checked: the figures make no sense ({type(error).__name__}).")]
