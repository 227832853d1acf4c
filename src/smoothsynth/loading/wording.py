"""Free text in a release: what stands where a text may stand must be one that the software writes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from smoothsynth.fit.result import is_outcome
from smoothsynth.methods.layout import purpose_of
from smoothsynth.plan import CANDIDATES, FITS, METHODS
from smoothsynth.release import CSV_FILE, MOMENTS_FILE, REPORT_FILE, ROWS_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smoothsynth.loading.documents import Measured, Stated

NEEDED = {ROWS_FILE, MOMENTS_FILE}
KNOWN = NEEDED | {CSV_FILE, REPORT_FILE}
# Versions of a source tree that is not installed have the second form.
_PART = r"(0|[1-9]\d{0,3})"
_SOFTWARE = re.compile(
    rf"smoothsynth ({_PART}(\.{_PART}){{2}}((a|b|rc){_PART})?(\.dev{_PART})?|0\.0\.0\+source)", re.ASCII
)
_MOST_SEED = 2**128


def strange_receipt(stated: Stated) -> Iterator[str]:
    """Say what a receipt has that no version writes: another software, a seed that is none, other files."""
    if not _SOFTWARE.fullmatch(stated.facts["software"]):
        yield "The receipt must say that smoothsynth wrote it, and which version; it says something else."
    if stated.facts["seed"] is not None and not 0 <= stated.facts["seed"] < _MOST_SEED:
        yield "The seed must be a whole number from 0 to 2^128 - 1; it is none."
    facts = stated.facts
    choices = ((facts["method"], METHODS), (facts["candidates"], CANDIDATES), (facts["fit"]["method"], FITS))
    for name in (name for name, known in choices if name not in known):
        yield f"The receipt names {name!r:.80}, which is no way to make rows."
    for name in stated.facts["sha256"]:
        if name not in KNOWN:
            yield f"The receipt names {name!r:.80}, which no release has."


def strange_sentences(stated: Stated, measured: Measured) -> Iterator[str]:
    """Say which sentences, beside those that follow from figures, this version does not write.

    The purposes of a search follow from its schema.
    """
    fit, schema = stated.facts["fit"], stated.receipt.schema
    if not is_outcome(fit["outcome"], schema.names, method=fit["method"], converged=fit["converged"]):
        yield "The outcome of the fit must be one of the sentences that say how such a fit ended; it is another."
    counted = any(m.measurement.view is not None and m.measurement.view.counts for m in measured.moments)
    if counted and (stated.facts["candidates"], fit["method"]) != ("model", "maximum entropy"):
        yield "Soft counts tell a model of the columns; the receipt names another way to make rows."
    if measured.subspace is not None and stated.facts["candidates"] != "ellipsoid":
        yield "Candidates of a release with a subspace must be those of its ellipsoid; the receipt names others."
    for number, noisy in enumerate(measured.moments, start=1):
        if noisy.measurement.purpose != purpose_of(noisy.measurement, schema, method=stated.facts["method"]):
            yield f"The purpose of measurement {number} must be the one of such features in a plan; it is another."
