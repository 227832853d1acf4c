"""What a site keeps: its accounts, its record of answers.

Exact sums of a release, kept sealed for its owner, so that new rows can be added to them later.

    B_r of all rows = B_r of the rows so far + B_r of the new rows,      each seen through the same transformation

Later rounds look at rows through transformations made of what the first release published, so the transformations are kept
with the sums.

What a study costs, in the ledgers of its sites and of its coordinator: recorded whole, before anything leaves.

What a site has answered: for each round of each study one request, once and for all (docs/proofs/sites.md).

    north.answered/STUDY-ROUND      beside north.key: the identity of the request, and a digest of the sums

A name is taken in one step, so of two processes one is first. The digest needs the site's key: to others it tells nothing.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsynth.accounting.charges import Charge
from smoothsynth.accounting.ledger import LedgerFile
from smoothsynth.errors import BudgetError, FederatedError, PlanError, SmoothsynthError
from smoothsynth.private.sites.envelope import fingerprint_of, seal, taken_apart
from smoothsynth.private.sites.keys import check_replaceable, read_text, write_new
from smoothsynth.queries.measurement import NoisyMoments
from smoothsynth.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from smoothsynth.accounting.charges import Budget
    from smoothsynth.private.sealed import Engine, SealedSums
    from smoothsynth.private.sites.keys import Key
    from smoothsynth.private.sites.protocol import Request, Study
    from smoothsynth.private.table import Table
    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.transformation import Transformation


_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """What is public about stored sums: the plan and the moments of the first release, all that was spent, whose rows.

    `choices` are the plain fields of the plan; `batches` are digests of the rows that were added, one for each time.
    """

    schema: Schema
    rows: int
    choices: Mapping[str, Any]
    earlier: tuple[NoisyMoments, ...]
    spent: tuple[Charge, ...]
    batches: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """Write it as JSON."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        facts |= {
            "format": _FORMAT,
            "schema": self.schema.facts(),
            "choices": dict(self.choices),
            "earlier": [noisy.as_dict() for noisy in self.earlier],
            "spent": [charge.as_dict() for charge in self.spent],
        }
        return json.dumps(facts).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Kept:
        """Read what `to_bytes` wrote."""
        facts = json.loads(text)
        if facts["format"] != _FORMAT:
            raise FederatedError(
                "These stored sums have another format. Use the version of smoothsynth that wrote them."
            )
        return cls(
            schema=Schema.from_facts(facts["schema"]),
            rows=int(facts["rows"]),
            choices=facts["choices"],
            earlier=tuple(NoisyMoments.from_dict(noisy) for noisy in facts["earlier"]),
            spent=tuple(Charge.from_dict(charge) for charge in facts["spent"]),
            batches=tuple(facts["batches"]),
        )


class Keeping:
    """An engine that remembers what it summed, sealed, and adds it to what was kept before."""

    __slots__ = ("_batch", "_before", "_engine", "_known", "_rows", "_sums")

    def __init__(self, engine: Engine, *, rows: Table | None = None, before: Store | None = None) -> None:
        self._engine, self._rows, self._before = engine, rows, before
        self._sums: list[SealedSums] = []
        self._known = () if before is None else before.kept.batches
        self._batch: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "<engine that keeps sealed sums>"

    @property
    def batches(self) -> tuple[str, ...]:
        """Digests of all rows that were added, those of this time last."""
        return (*self._known, *self._batch)

    @property
    def kept(self) -> tuple[SealedSums, ...]:
        """The sums of all rounds so far."""
        return tuple(self._sums)

    def sums(
        self,
        table: Table,
        features: Sequence[Feature],
        *,
        transformation: Transformation | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> SealedSums:
        """Sum the rows that are here, and add them to those that were."""
        number, before = len(self._sums), self._before
        if before is not None and transformation != before.kept.earlier[number].measurement.transformation:
            raise PlanError("Stored sums were seen through another view.")
        here = table if before is None else self._rows
        total = None if before is None else before.sums[number]
        if here is not None:
            new = self._engine.sums(here, features, transformation=transformation, progress=progress)
            if not number:
                self._note(new)
            total = new if total is None else total + new
        if total is None:
            raise AssertionError("no rows and nothing stored")
        self._sums.append(total)
        return total

    def _note(self, new: SealedSums) -> None:
        found = fingerprint_of(new)
        if found in self._known:
            raise FederatedError("These rows were added before: they would count twice. Name the new rows only.")
        self._batch = (found,)


@dataclass(frozen=True, slots=True)
class Store:
    """Stored sums, opened by their owner: what is public, and the sums of each round, which stay sealed."""

    kept: Kept
    sums: tuple[SealedSums, ...]

    def after(self, engine: Keeping, *, rows: int, charges: Sequence[Charge]) -> Store:
        """Return the store after a further release."""
        kept = replace(self.kept, rows=rows, spent=(*self.kept.spent, *charges), batches=engine.batches)
        return Store(kept, engine.kept)


def write_store(path: str | Path, store: Store, *, key: Key, replace_it: bool = False) -> None:
    """Seal a store for its owner, and write it."""
    header = {"store": "sums-of-a-release", "rows": str(store.kept.rows)}
    text = seal(store.sums, header, recipient=key.public, sender=key, document=store.kept.to_bytes())
    write_new(path, text, private=True, replace=replace_it)


@dataclass(frozen=True, slots=True)
class Owner:
    """Where sums are kept, and for whom they are sealed."""

    path: str | Path
    key: Key

    def keep(self, store: Store, *, replace_it: bool = False) -> None:
        """Write a store after a release was made; its budget is spent, so it is not lost if that fails."""
        try:
            write_store(self.path, store, key=self.key, replace_it=replace_it)
        except FederatedError as error:
            kept = "still holds what it held before" if replace_it else "is not there"
            words = f"The sums of this release could not be kept; {self.path} {kept}: {error}"
            warnings.warn(words, RuntimeWarning, stacklevel=3)


def read_store(path: str | Path, *, key: Key) -> Store:
    """Open a store with the key of its owner."""
    envelope = taken_apart(read_text(path))
    if "store" not in envelope.header:
        raise FederatedError(
            f"{path} is not a store of sums; it is the answer of a site. Name the file made by keep= (--keep)."
        )
    if not envelope.is_from(key.public):
        raise FederatedError(
            f"{path} was changed or cut off, or belongs to another key. Name the key that it was made with."
        )
    try:
        opened = envelope.open(key)
        kept = Kept.from_bytes(opened.document)
    except FederatedError:
        raise
    except (SmoothsynthError, KeyError, TypeError, ValueError):
        raise FederatedError(f"{path} was written by another version of smoothsynth. Use that one.") from None
    return Store(kept, tuple(opened.sums([noisy.features for noisy in kept.earlier])))


@dataclass(frozen=True, slots=True)
class StudyAccount:
    """The charges of one study upon a ledger file, all of them or none.

    A site records the whole study before its first answer (round 0): from then on the coordinator can draw noise without
    asking again. The coordinator records it with its first round, each round that it draws, and a round that is drawn once
    more, as from a copied folder, as a further charge.
    """

    path: str | Path
    study: Study
    number: int = 0

    def refuse(self) -> None:
        """Raise BudgetError if what this round has still to be charged does not fit."""
        statement = LedgerFile(self.path).read()
        due = statement.due(self.study.identity, self.number, self.study.charges)
        if due:
            statement.refuse(due, rows_per_person=self.study.rows_per_person)

    def record(self) -> None:
        """Record durably what this round has still to be charged."""
        LedgerFile(self.path).charge_study(
            self.study.identity,
            self.number,
            self.study.charges,
            label=self.study.label,
            rows_per_person=self.study.rows_per_person,
        )

    @property
    def budget(self) -> Budget:
        """The total of the data set."""
        return LedgerFile(self.path).budget

    @property
    def charges(self) -> Sequence[Charge]:
        """What the study may spend."""
        return self.study.charges

    def charge(self, charge: Charge) -> None:
        """Record this round before its noise is drawn; a charge that the study has not planned for it is refused."""
        planned = self.study.charges[self.number - 1]
        if (charge.epsilon, charge.multiplier, charge.delta) != (planned.epsilon, planned.multiplier, planned.delta):
            raise BudgetError("A study can be charged only for what it planned; this is something else.")
        self.record()


@dataclass(frozen=True, slots=True)
class AnswerRecord:
    """The folder in which a site remembers its answers."""

    folder: Path

    @classmethod
    def beside(cls, key: str | Path) -> AnswerRecord:
        """Return the record that belongs to a key file: a folder that is copied with the key takes it along."""
        path = Path(key)
        return cls(path.with_name(path.name.removesuffix(".key") + ".answered"))

    def refuse(self, request: Request) -> None:
        """Refuse a request for a round that was answered otherwise, or whose earlier rounds were not; reads no data."""
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise FederatedError(
                f"The record of your answers, {self.folder}, cannot be made: {error.strerror}."
            ) from None
        check_replaceable(self._path(request, request.round))
        for earlier in range(1, request.round):
            if not self._path(request, earlier).exists():
                raise FederatedError(
                    f"{self.folder} has no record that you answered round {earlier} of this study, so it cannot say whether "
                    f"round {request.round} was asked otherwise before. Put the folder back that was beside your key then."
                )
        if self._path(request, request.round).exists():
            self._check_request(request)

    def claim(self, request: Request, digest: str) -> None:
        """Take the round for this request and these sums, durably; later ones have to be the same."""
        path = self._path(request, request.round)
        try:
            write_new(path, f"{request.identity} {digest}\n", private=True)
        except FederatedError:
            if not path.exists():
                raise
        self._check_request(request)
        if self._said(request)[1:] != [digest]:
            raise FederatedError(
                f"You answered round {request.round} of this study before, and your table has changed since: both answers "
                "together would tell what changed. Name the table as it was then, or have the study started again."
            )

    def _check_request(self, request: Request) -> None:
        if self._said(request)[:1] != [request.identity]:
            raise FederatedError(
                f"You answered round {request.round} of this study before, to a request with other features or another view. "
                "A round is answered once. If the coordinator cannot explain it, do not go on; else have the study started "
                "again."
            )

    def _said(self, request: Request) -> list[str]:
        return read_text(self._path(request, request.round)).split()

    def _path(self, request: Request, number: int) -> Path:
        return self.folder / f"{request.study.identity}-{number}"
