"""Draw the page again from receipt, moments and rows, and compare it with the one in the folder.

The page is a function of these and of the version of the software, up to the last digits of figures, which depend on the
processor. Its texts and its script hold none of those.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.loading.files import plain_file
from smoothsynth.release import REPORT_FILE
from smoothsynth.verify.check import Check
from smoothsynth.version import VERSION

if TYPE_CHECKING:
    from smoothsynth.verify.evidence import Evidence

_NEAR, _TINY = 1e-6, 1e-9
# Figures of other last digits may be longer or shorter.
_LONGER = 2.0
_DATA = re.compile(r'(?<=<script type="application/json" id="release-data">)([^<]*)(?=</script>)')
_FIGURE = re.compile(r'("[A-Za-z0-9+/]{12,}={0,2}"|-?\d+(?:\.\d+)?(?:e[+-]\d+)?)')
_KINDS = (np.dtype("<f8"), np.dtype("<f4"))


def check_page(evidence: Evidence) -> list[Check]:
    """Draw the page again; any difference is a failure, but that of last digits, as on another kind of machine."""
    if REPORT_FILE not in evidence.facts["sha256"]:
        return [Check("page", "note", f"There is no {REPORT_FILE} in this release.")]
    path = plain_file(evidence.folder, REPORT_FILE)
    if not evidence.stated.receipt.ours:
        words = (
            f"{REPORT_FILE} was drawn by another version; this one ({VERSION}) cannot compare it. Do not rely on it."
        )
        return [Check("page", "warning", words)]
    again = evidence.release().page(evidence.folder).encode("utf-8")
    page = path.read_bytes() if path.stat().st_size <= _LONGER * len(again) else b""
    if page == again:
        words = f"{REPORT_FILE}, drawn again from receipt, moments and rows, is the same byte for byte."
        return [Check("page", "passed", words)]
    if _near(page.decode("utf-8", errors="replace"), again.decode("utf-8")):
        words = (
            f"{REPORT_FILE}, drawn again, differs in the last digits of figures, as it may on another kind of machine."
        )
        return [Check("page", "warning", words)]
    return [Check("page", "failed", f"{REPORT_FILE} is not the page that receipt, moments and rows give.")]


def _near(page: str, again: str) -> bool:
    """Whether two pages have the same texts and script, and figures that differ by one part in a million at most."""
    texts = [_DATA.split(text) for text in (page, again)]
    if [len(parts) for parts in texts] != [3, 3] or texts[0][::2] != texts[1][::2]:
        return False
    # Every second piece is a figure or an array of figures; those between must be equal.
    stated, drawn = (_FIGURE.split(parts[1]) for parts in texts)
    return len(stated) == len(drawn) and stated[::2] == drawn[::2] and all(map(_alike, stated[1::2], drawn[1::2]))


def _alike(one: str, other: str) -> bool:
    if one == other:
        return True
    if not (one.startswith('"') and other.startswith('"')):
        return '"' not in one + other and repr(float(one)) == one and _close(float(one), float(other))
    try:
        kept, drawn = (base64.b64decode(text[1:-1], validate=True) for text in (one, other))
    except binascii.Error:
        return False
    plain = len(kept) == len(drawn) and base64.b64encode(kept).decode("ascii") == one[1:-1]
    sizes = [kind for kind in _KINDS if plain and len(kept) % kind.itemsize == 0]
    return any(_close(np.frombuffer(kept, kind), np.frombuffer(drawn, kind)) for kind in sizes)


def _close(one: Any, other: Any) -> bool:
    return bool(np.isclose(one, other, rtol=_NEAR, atol=_TINY).all())
