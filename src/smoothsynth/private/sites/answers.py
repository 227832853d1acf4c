"""What sites answer and the coordinator adds: B_r of all rows = the sum over sites of their own B_r.

Whole numbers add up exactly, in any order (docs/proofs/sites.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from smoothsynth.errors import DataError, FederatedError, PlanError
from smoothsynth.private.sites.envelope import keyed_digest, seal, taken_apart
from smoothsynth.private.sites.keys import read_text
from smoothsynth.private.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from smoothsynth.private.sealed import Engine, SealedSums
    from smoothsynth.private.sites.envelope import Envelope
    from smoothsynth.private.sites.keys import Key
    from smoothsynth.private.sites.protocol import Request
    from smoothsynth.private.sites.store import AnswerRecord
    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.transformation import Transformation
    from smoothsynth.schema import Schema


def answer(
    request: Request,
    table: Table,
    *,
    engine: Engine,
    key: Key,
    record: AnswerRecord,
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """Sum what a request asks for over the rows of one site, and seal it for the coordinator, once for each round."""
    study = request.study
    name = study.site_of(key.public)
    if table.rows != study.sites[name].rows:
        raise FederatedError(
            f"The study says that {name} has {study.sites[name].rows:,} rows; this table has {table.rows:,}. Name the "
            "table that was agreed on, or tell the coordinator the right number: the study has to be started again."
        )
    asked = request.measurement
    sums = engine.sums(table, asked.features, transformation=asked.transformation, progress=progress)
    record.claim(request, keyed_digest(sums, key))
    return seal([sums], _header(request, name), recipient=study.coordinator, sender=key)


def add_answers(request: Request, files: Sequence[str | Path], *, key: Key) -> SealedSums:
    """Open the answers of all sites to one request and add them; one that is missing, double or wrong is refused."""
    if key.public != request.study.coordinator:
        raise FederatedError(
            "Your key is not that of this study's coordinator. Name the key that the study was started with."
        )
    answers: dict[str, tuple[str | Path, Envelope]] = {}
    for file in files:
        envelope = taken_apart(read_text(file))
        name = _check(envelope, request, file)
        if name in answers:
            raise FederatedError(f"Site {name} is there twice: {answers[name][0]} and {file}. Leave one of them out.")
        answers[name] = (file, envelope)
    missing = [name for name in request.study.sites if name not in answers]
    if missing:
        raise FederatedError(
            f"The answer of {', '.join(missing)} to round {request.round} is missing. Noise is drawn once, for all "
            "sites together: wait for it, and add all files in one go."
        )
    features = [request.measurement.features]
    return reduce(add, (envelope.open(key).sums(features)[0] for _, envelope in answers.values()))


@dataclass(frozen=True, slots=True)
class Answered:
    """An engine whose sums have been computed elsewhere: at the sites."""

    request: Request
    total: SealedSums

    def sums(
        self,
        table: Table,
        features: Sequence[Feature],
        *,
        transformation: Transformation | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> SealedSums:
        """Return what the sites answered, if it is what was asked."""
        asked = self.request.measurement
        if (tuple(features), transformation, table.rows) != (
            tuple(asked.features),
            asked.transformation,
            self.request.study.rows,
        ):
            raise PlanError("The sites were asked for other sums than these.")
        if progress is not None:
            progress(table.rows, table.rows)
        return self.total


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Rows that are known by their number only."""

    rows: int

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Refuse: nobody here has the rows."""
        raise DataError(f"{self.rows:,} rows stayed where they are; only their sums are here.")


def table_elsewhere(rows: int, schema: Schema) -> Table:
    """Return a handle on rows that are not here."""
    return Table(Elsewhere(rows), schema)


def _header(request: Request, name: str) -> dict[str, str]:
    return {
        "study": request.study.identity,
        "round": str(request.round),
        "request": request.identity,
        "site": name,
    }


def _check(envelope: Envelope, request: Request, file: str | Path) -> str:
    """Refuse an answer to something else, of somebody else, or changed on its way; return whose it is."""
    said, study = envelope.header, request.study
    name = said.get("site", "")
    if said.get("study") != study.identity:
        raise FederatedError(f"{file} answers another study. Add the files that this study's sites sent.")
    if name not in study.sites:
        raise FederatedError(
            f"{file} is of a site {name:.40} that this study does not have ({', '.join(study.sites)})."
        )
    if not envelope.is_from(study.sites[name].key):
        raise FederatedError(
            f"{file} is not as site {name} sealed it: it was changed or cut off on its way, or sealed with another key. "
            f"Ask {name} to send it again."
        )
    if said.get("round") != str(request.round):
        raise FederatedError(
            f"{file} answers round {said.get('round', '?'):.10}; the study is in round {request.round}. Ask {name} to answer "
            f"request-{request.round}.json."
        )
    if said.get("request") != request.identity:
        raise FederatedError(
            f"{file} answers a request with another schema, other features or another view. Ask {name} to answer "
            f"the request-{request.round}.json of this study."
        )
    return name
