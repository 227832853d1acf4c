"""Read receipt.json and moments.json into objects, and hold both files against what these objects write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothsynth.discovery.search import Found
from smoothsynth.errors import ReleaseError
from smoothsynth.loading.earlier import check_earlier
from smoothsynth.loading.files import parse, read_text
from smoothsynth.loading.form import check_form
from smoothsynth.loading.shapes import CHOICE, FOUND, MOMENTS, RECEIPT, SUBSPACE, check_shape
from smoothsynth.loading.sizes import MOST_MOMENTS, MOST_RECEIPT
from smoothsynth.methods.paper import NoisySubspace
from smoothsynth.queries.measurement import NoisyMoments
from smoothsynth.release import FORMAT, MOMENTS_FILE, RECEIPT_FILE, Receipt, moments_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

MOST_CHARGES = 1000
# Beyond what noise reaches with any budget worth the name, and far from where doubles end.
_LARGEST = 2**256


@dataclass(frozen=True, slots=True)
class Measured:
    """What moments.json holds: moments, the products of a subspace iteration, moments whose views were kept, a search."""

    text: str
    moments: tuple[NoisyMoments, ...]
    subspace: NoisySubspace | None
    earlier: tuple[NoisyMoments, ...]
    found: Found | None

    def check_form(self) -> None:
        """Refuse a file that says anything else, or says it otherwise."""
        again = moments_document(self.moments, self.subspace, found=self.found, earlier=self.earlier)
        check_form(MOMENTS_FILE, self.text, again)


@dataclass(frozen=True, slots=True)
class Stated:
    """What receipt.json holds, as text and as plain values of the right types."""

    text: str
    facts: dict[str, Any]

    @property
    def receipt(self) -> Receipt:
        """The receipt, if its figures can be those of one."""
        return Receipt.from_dict(self.facts)

    def check_form(self) -> None:
        """Refuse a file that says anything else, or says it otherwise; other versions may have other words."""
        facts, receipt = self.facts, self.receipt
        again = receipt.as_dict()
        # The last digits of what was spent depend on the machine; `load` and `verify` add it up again.
        again["spent"] = {name: facts["spent"][name] for name in again["spent"]}
        again["sha256"] = dict(sorted(facts["sha256"].items()))
        check_form(RECEIPT_FILE, self.text, again, words=receipt.ours)


def read_receipt(folder: Path) -> Stated:
    """Read the receipt; of another format, or with values of other types, it is refused."""
    text = read_text(folder, RECEIPT_FILE, most=MOST_RECEIPT)
    facts = parse(text, RECEIPT_FILE)
    if facts.get("format") != FORMAT:
        raise ReleaseError(
            f"The receipt has format {facts.get('format')!r:.40}; this version reads format {FORMAT}. "
            "Update smoothsynth, or read it with the version that wrote it."
        )
    check_shape(facts, RECEIPT, "receipt")
    if len(facts["charges"]) > MOST_CHARGES:
        raise ReleaseError(f"A receipt has at most {MOST_CHARGES:,} charges; this one has more. It is not one of ours.")
    return Stated(text, facts)


def read_measured(folder: Path) -> Measured:
    """Read all that was measured."""
    text = read_text(folder, MOMENTS_FILE, most=MOST_MOMENTS)
    document = parse(text, MOMENTS_FILE)
    check_shape(document, {"format": int, "moments": [MOMENTS]}, "moments")
    if document["format"] != FORMAT:
        raise ReleaseError(f"{MOMENTS_FILE} must have format {FORMAT}, and has not.")
    moments, earlier = _moments(document["moments"]), _moments(document.get("earlier", []))
    check_earlier(earlier, moments)
    subspace = _subspace(document["subspace"]) if "subspace" in document else None
    found = _found(document["found"]) if document.get("found") is not None else None
    return Measured(text, moments, subspace, earlier, found)


def _moments(facts: Sequence[dict[str, Any]]) -> tuple[NoisyMoments, ...]:
    check_shape(facts, [MOMENTS], "moments")
    check_shape([m.get("choice") for m in facts], [CHOICE], "choice of pairs")
    if len(facts) > MOST_CHARGES:
        raise ReleaseError(f"{MOMENTS_FILE} must have at most {MOST_CHARGES:,} measurements; it has more.")
    moments = tuple(NoisyMoments.from_dict(m) for m in facts)
    for m in moments:
        _check_figures((*m.integers, *m.measurement.weights))
    return moments


def _subspace(facts: dict[str, Any]) -> NoisySubspace:
    check_shape(facts, SUBSPACE, "subspace")
    subspace = NoisySubspace.from_dict(facts)
    _check_figures(z for product in subspace.products for z in product)
    return subspace


def _found(facts: dict[str, Any]) -> Found:
    check_shape(facts, FOUND, "search")
    if len(facts["rounds"]) + len(facts["levels"]) > MOST_CHARGES:
        raise ReleaseError(f"A search has at most {MOST_CHARGES:,} measurements; this one has more.")
    found = Found.from_dict(facts)
    for m in found.rounds:
        _check_figures((*m.integers, *m.measurement.weights))
    for levels in found.levels:
        _check_figures(count for _, count in levels.counts)
    return found


def _check_figures(integers: Iterable[int]) -> None:
    if any(abs(z) > _LARGEST for z in integers):
        raise ReleaseError(f"{MOMENTS_FILE} must have figures that noise can reach, and has larger ones.")
