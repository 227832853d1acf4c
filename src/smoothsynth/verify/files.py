"""Hold the files against the receipt: those it was written for, and no others; and against what the writer writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsynth.errors import SmoothsynthError
from smoothsynth.loading.files import plain_file
from smoothsynth.loading.wording import KNOWN, NEEDED
from smoothsynth.release import RECEIPT_FILE, sha256
from smoothsynth.verify.check import Check, verdict

if TYPE_CHECKING:
    from smoothsynth.loading.documents import Measured, Stated
    from smoothsynth.verify.evidence import Evidence


def check_files(evidence: Evidence) -> list[Check]:
    """Hold the names in the folder against those in the receipt; links and unknown files are refused."""
    named = set(evidence.facts["sha256"])
    found = {path.name for path in evidence.folder.iterdir()} - {RECEIPT_FILE}
    problems = [f"The receipt does not name {name}." for name in sorted(NEEDED - named)]
    problems += [f"The receipt names {name!r:.80}, which no release has." for name in sorted(named - KNOWN)]
    problems += [f"{name!r:.80} is named in the receipt and is not there." for name in sorted(named - found)]
    problems += [f"{name!r:.80} is there and not named in the receipt." for name in sorted(found - named)]
    for name in sorted({*(found & named), RECEIPT_FILE}):
        path = evidence.folder / name
        if path.is_symlink() or not path.is_file():
            problems.append(f"{name!r:.80} is a link or no plain file.")
    return verdict("files", problems, f"{len(found) + 1} files, each named in the receipt, and nothing else.")


def check_hashes(evidence: Evidence) -> list[Check]:
    """Compute the SHA-256 of every file that the receipt names."""
    hashes = evidence.facts["sha256"]
    problems, size = [], 0
    for name, digest in sorted(hashes.items()):
        path = plain_file(evidence.folder, name)
        size += path.stat().st_size
        if sha256(path) != digest:
            problems.append(f"{name!r:.80} is not the file that the receipt was written for.")
    return verdict("hashes", problems, f"{len(hashes)} files ({size:,} bytes) have the SHA-256 in the receipt.")


def check_form(evidence: Evidence) -> list[Check]:
    """Write receipt and moments again from the values in them, and compare: nothing else may be in the files."""
    problems = []
    read: list[Stated | Measured] = [evidence.stated]
    read += [] if "moments" in evidence.unreadable else [evidence.measured]
    for document in read:
        try:
            document.check_form()
        except SmoothsynthError as error:
            problems.append(str(error))
    return verdict(
        "form", problems, "Receipt and moments, written again from their values, are the same byte for byte."
    )
