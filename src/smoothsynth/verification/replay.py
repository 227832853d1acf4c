"""Show that the transformations, and the rows, follow from released numbers alone.

The model learns again from the released moments. If each transformation is what the model would have chosen by then, no look
at private rows went into it; if the rows are what the model draws with the seed of the receipt, none went into them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.model.sampling import generator
from smoothsynth.model.synthesis import rows_of_model
from smoothsynth.pipeline.release import FORMAT
from smoothsynth.pipeline.rounds import Rounds
from smoothsynth.queries.bases import LATTICE
from smoothsynth.schema.encoding import as_numbers
from smoothsynth.verification.check import Check

if TYPE_CHECKING:
    from smoothsynth.model.model import Model
    from smoothsynth.queries.transformation import Transformation
    from smoothsynth.verification.folder import Evidence


# Other processors round other last digits; the knots they lead to differ by a step or two of 65,536.
_CLOSE = 16
_NEAR = 1e-6


@dataclass(frozen=True, slots=True)
class Replay:
    """The model after all releases, how many transformations it chose, and their largest knot difference in lattice steps."""

    model: Model
    transformations: int
    farthest: int
    unfounded: int | None


def replay(evidence: Evidence) -> Replay:
    """Let the model learn from the moments in order; stop at a transformation that it would not have chosen."""
    rounds, transformations, farthest = _begun(evidence), 0, 0
    for i, noisy in enumerate(evidence.moments, start=1):
        transformation = noisy.measurement.transformation
        if transformation is not None:
            difference = _difference(transformation, rounds.proposed)
            transformations, farthest = transformations + 1, max(farthest, difference)
            if difference > _CLOSE:
                return Replay(rounds.model, transformations, farthest, i)
        rounds = rounds.after(noisy)
    return Replay(rounds.model, transformations, farthest, None)


def _begun(evidence: Evidence) -> Rounds:
    adaptive = evidence.modelled or any(noisy.measurement.transformation is not None for noisy in evidence.moments)
    rows, earlier = evidence.facts["rows"], evidence.earlier
    prior = evidence.release().unit_prior()
    return Rounds.released(
        evidence.schema, evidence.moments, rows=rows, earlier=earlier, adaptive=adaptive, prior=prior
    )


def check_replay(evidence: Evidence) -> list[Check]:
    """Replay once; then look at the transformations, and at the rows."""
    replayed = replay(evidence)
    transformations = _check_transformations(evidence, replayed)
    return (
        [transformations]
        if "rows" in evidence.unreadable
        else [transformations, _check_reproduction(evidence, replayed)]
    )


def _check_transformations(evidence: Evidence, replayed: Replay) -> Check:
    """Say whether every transformation is what the model chooses that learned from the earlier releases."""
    if replayed.unfounded is not None:
        return _unfounded(replayed, evidence.stated.receipt.format)
    if evidence.subspace is not None and evidence.facts["seed"] is not None:
        shape = evidence.subspace.start.shape
        if not np.array_equal(generator(evidence.facts["seed"]).standard_normal(shape), evidence.subspace.start):
            return Check(
                "transformations", "failed", "The subspace iteration does not start where the seed of the receipt says."
            )
    if evidence.subspace is not None and evidence.facts["seed"] is None:
        return Check(
            "transformations",
            "note",
            "There is no seed, so nobody can tell where the subspace iteration got its start.",
        )
    if not replayed.transformations:
        return Check(
            "transformations", "passed", "All measurements are of the rows as they are, without a transformation."
        )
    which = (
        "The one transformation"
        if replayed.transformations == 1
        else f"Each of {replayed.transformations} transformations"
    )
    which += " (those of an earlier release, whose moments are in the folder)" if evidence.earlier else ""
    if replayed.farthest:
        most = replayed.farthest
        words = f"{which} is close to what follows from earlier releases: knots differ by at most {most}"
        return Check("transformations", "warning", f"{words} of {LATTICE:,}, as they may on another kind of machine.")
    return Check("transformations", "passed", f"{which} is exactly what follows from earlier releases.")


def _unfounded(replayed: Replay, format_: int) -> Check:
    """Refute a transformation that the model does not propose; the model of an earlier format may have proposed it."""
    words = f"Measurement {replayed.unfounded} has a transformation that does not follow from earlier releases"
    words += f" (knots differ by {replayed.farthest:,} of {LATTICE:,}"
    words += ")"
    if format_ == FORMAT:
        return Check("transformations", "failed", f"{words}.")
    other = f"as format {FORMAT} proposes them, and the folder has format {format_}"
    untold = "whether private rows went into it cannot be told"
    return Check("transformations", "warning", f"{words}, {other}: {untold}.", compared=False)


def _check_reproduction(evidence: Evidence, replayed: Replay) -> Check:
    """Draw the rows again from the moments and the seed, and compare: informative, a difference is a warning."""
    name, seed = "reproduction", evidence.facts["seed"]
    if seed is None:
        return Check(name, "note", "There is no seed in the receipt: rows cannot be drawn again, only compared above.")
    if evidence.stated.receipt.format != FORMAT:
        words = (
            f"The folder has format {evidence.stated.receipt.format}; rows are drawn again for format {FORMAT} only."
        )
        return Check(name, "note", words)
    if not evidence.modelled:
        return Check(
            name, "note", "Rows that were weighed among candidates are not drawn again; they were compared above."
        )
    if replayed.unfounded is not None:
        return Check(
            name, "note", "Rows were not drawn again, since the transformations do not follow from earlier releases."
        )
    made = rows_of_model(evidence.schema, replayed.model, evidence.facts["synthetic_rows"], seed=seed)
    table, exact, near = evidence.table, 0, 0
    for column, facts in evidence.schema.columns.items():
        stated, again = as_numbers(facts, table[column]), as_numbers(facts, made.table[column])
        exact += int(np.count_nonzero((stated == again) | (np.isnan(stated) & np.isnan(again))))
        near += int(np.count_nonzero(np.isclose(stated, again, rtol=_NEAR, equal_nan=True)))
    total = table.num_rows * table.num_columns
    if exact == total:
        return Check(
            name, "passed", f"All {total:,} values were drawn again from the moments and the seed, to the bit."
        )
    words = f"Drawn again from the moments and the seed, {exact / total:.1%} of {total:,} values are equal and "
    words += f"{near / total:.1%} within 1e-6."
    return Check(name, "passed" if near == total else "warning", words)


def _difference(stated: Transformation, chosen: Transformation | None) -> int:
    """Return the largest difference of knots, or more than any if the transformations are of different kinds."""
    if chosen is None or stated.knots.shape != chosen.knots.shape or stated.family != chosen.family:
        return 2 * LATTICE + 1
    return int(np.abs(stated.knots - chosen.knots).max(initial=0))
