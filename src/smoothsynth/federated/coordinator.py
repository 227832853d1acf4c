"""What the coordinator of a federated study does: start, sums, add, status.

The folder of a study: requests and released moments, round by round. Nothing in it is private.

    request-1.json  moments-1.json  request-2.json  moments-2.json  ...

The study is in the round that has a request and no moments; each file is written whole or not at all, and never again.

Start a study, answer a request, add the answers.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsynth._runtime import VERSION
from smoothsynth.accounting.charges import Budget
from smoothsynth.accounting.ledger import Ledger
from smoothsynth.errors import FederatedError, PlanError, SmoothsynthError
from smoothsynth.methods import Adaptive
from smoothsynth.methods.options import chosen_method, facts_of, from_facts
from smoothsynth.pipeline.plan import Plan, plan
from smoothsynth.pipeline.rounds import Rounds
from smoothsynth.pipeline.run import check_seed, finish
from smoothsynth.private.engines import open_engine, read_address
from smoothsynth.private.measure import measure
from smoothsynth.private.sites import keys
from smoothsynth.private.sites.answers import Answered, add_answers, answer, table_elsewhere
from smoothsynth.private.sites.keys import check_new, write_new
from smoothsynth.private.sites.protocol import Request, Site, Study, read_json, read_request, write_request
from smoothsynth.private.sites.store import AnswerRecord, StudyAccount
from smoothsynth.private.table import open_table
from smoothsynth.queries.measurement import NoisyMoments
from smoothsynth.schema import Category

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from smoothsynth.methods.options import Method
    from smoothsynth.pipeline.release import Release
    from smoothsynth.private.sealed import Engine
    from smoothsynth.private.sites.keys import Key
    from smoothsynth.schema import Schema

    Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True)
class Status:
    """Where a study stands: which round waits for answers, of whom; None when all rounds are done."""

    study: Study
    round: int | None
    request: Path | None

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return len(self.study.charges)

    def __str__(self) -> str:
        sites = ", ".join(f"{name} ({site.rows:,} rows)" for name, site in self.study.sites.items())
        budget = f"epsilon = {self.study.budget.epsilon:g}, delta = {self.study.budget.delta:g}"
        where = (
            "All rounds are done: add without files makes the release (again), at no further cost."
            if self.round is None
            else f"Round {self.round} of {self.rounds} waits for the sealed answer of every site to {self.request}."
        )
        return f"Study {self.study.identity[:16]}: {self.study.rows:,} rows, {budget}.\nSites: {sites}.\n{where}"


def status(folder: str | Path) -> Status:
    """Say where a study stands."""
    study, done = read_study(folder), len(read_moments(folder))
    if done == len(study.charges):
        return Status(study, None, None)
    return Status(study, done + 1, request_path(folder, done + 1))


def request_path(folder: str | Path, number: int) -> Path:
    """Return where the request of a round is."""
    return Path(folder) / f"request-{number}.json"


def read_study(folder: str | Path) -> Study:
    """Read the study from its first request."""
    first = request_path(folder, 1)
    if not first.is_file():
        raise FederatedError(f"{folder} is not the folder of a study: it has no request-1.json. Make one with: start.")
    return read_request(first).study


def read_moments(folder: str | Path) -> list[NoisyMoments]:
    """Read what was released in the rounds that are done."""
    found: list[NoisyMoments] = []
    while (path := _moments_path(folder, len(found) + 1)).exists():
        try:
            found.append(NoisyMoments.from_dict(read_json(path)))
        except (SmoothsynthError, KeyError, TypeError, ValueError, AttributeError):
            raise FederatedError(
                f"{path} is damaged. Put back a copy: drawing the noise again would cost again."
            ) from None
    return found


def check_moments(folder: str | Path, *, number: int) -> None:
    """Find out that what a round releases could not be written, before its noise is drawn."""
    check_new(_moments_path(folder, number))


def write_moments(folder: str | Path, noisy: NoisyMoments, *, number: int) -> None:
    """Write what a round released, once."""
    try:
        write_new(_moments_path(folder, number), json.dumps(noisy.as_dict()) + "\n", private=False)
    except FederatedError as error:
        raise FederatedError(
            f"The noise of round {number} was drawn and is lost, so its cost is spent: {error}"
        ) from None


def check_planned(request: Request) -> None:
    """Refuse a request for other features than the plan of its study has in that round; only the transformation is open."""
    planned = _planned(request.study).measurements[request.round - 1]
    names = [field.name for field in fields(planned) if field.compare and field.name != "transformation"]
    if any(getattr(request.measurement, name) != getattr(planned, name) for name in names):
        raise FederatedError(
            f"Round {request.round} asks for other features, or other noise, than the plan of the study. Do not answer it; "
            "ask the coordinator."
        )


def _planned(study: Study) -> Plan:
    planned = plan_of(study)
    if planned.charges != study.charges:
        raise FederatedError(
            f"The study was started with smoothsynth {study.version}, which plans otherwise than this version. Finish it "
            "with that one."
        )
    return planned


def plan_of(study: Study) -> Plan:
    """Plan the release from the public facts of the study."""
    method, choices = from_facts(study.choices)
    return plan(
        study.schema,
        study.rows,
        epsilon=study.budget.epsilon,
        delta=study.budget.delta,
        rows_per_person=study.rows_per_person,
        method=method,
        **choices,
    )


def open_request(folder: str | Path, number: int) -> Request:
    """Read the request of a round."""
    return read_request(request_path(folder, number))


def _moments_path(folder: str | Path, number: int) -> Path:
    return Path(folder) / f"moments-{number}.json"


def make_key(path: str | Path) -> str:
    """Make a key (`north.key`, for its owner only) and its public part (`north.pub`, to be sent); return the text of that."""
    return keys.make_key(path)


def start(
    folder: str | Path,
    *,
    schema: Schema,
    sites: Mapping[str, Site],
    epsilon: float,
    delta: float = 0.0,
    key: str | Path,
    seed: int | None = None,
    rows_per_person: int = 1,
    method: str | Method = "auto",
    **choices: Any,
) -> Path:
    """Start a study: plan a release of the rows of all sites together, and write the first request.

    `sites` names every site with its number of rows and its public key; `key` is the coordinator's own key. `method`
    and the other choices are those of `plan`. Send the request that is returned to every site, and your public key on
    another way.
    """
    check_seed(seed)
    method, choices = chosen_method(method, choices, called=[start, plan])
    coordinator = keys.read_key(key)
    known = {name: Site(site.rows, keys.read_public(site.key)) for name, site in sites.items()}
    rows = sum(site.rows for site in known.values())
    method = _without_selection(method)
    settings = {"epsilon": epsilon, "delta": delta, "rows_per_person": rows_per_person, "method": method, **choices}
    if schema.person is not None:
        raise PlanError(
            "A study cannot tell persons apart: one may have rows at several sites, and no site knows. Leave person out of "
            "the schema, and say rows_per_person for all sites together."
        )
    planned = plan(schema, max(rows, 1), **settings)
    choices = {**facts_of(method), **choices}
    _check_plain(choices)
    if planned.discovery is not None:
        raise PlanError(
            "A study needs public bounds, levels and codes: its sites would have to count in cells that they cannot check. "
            "Declare them, or let one site find them in a release of its own rows."
        )
    many = [name for name, c in schema.columns.items() if isinstance(c, Category) and c.hierarchy is not None]
    if many:
        raise PlanError(
            f"A study cannot count levels below the nodes that stand for a column ({many[0]!r}). Declare the nodes as its "
            "levels."
        )
    if planned.design.subspace is not None:
        raise PlanError(
            "A study cannot do the paper's subspace iteration. Take method=ss.methods.Paper(candidates='hypercube'), or "
            "method='auto'."
        )
    study = Study(
        schema=schema,
        sites=known,
        budget=Budget(epsilon, delta),
        rows_per_person=rows_per_person,
        choices=choices,
        seed=seed,
        charges=planned.charges,
        coordinator=coordinator.public,
        mark=os.urandom(16).hex(),
        version=VERSION,
    )
    _make_folder(Path(folder))
    return _ask(folder, study, Rounds.planned(_planned(study)), key=coordinator)


def sums(
    request: str | Path,
    data: Any,
    *,
    output: str | Path,
    key: str | Path,
    coordinator: str | Path,
    schema: Schema | None = None,
    ledger: str | Path | None = None,
    engine: str | Engine | None = None,
    cluster: str | None = None,
    memory: str | int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Answer a request of a study: sum the rows of one site exactly, and seal the sums for the coordinator.

    `coordinator` is the coordinator's public key, which has to come on another way than the request: whoever it belongs
    to can open the sums. With `schema`, a request for other columns or bounds is refused. The whole study is recorded in
    the site's `ledger` before its first answer is written, and refused if it does not fit. A round is answered once: the
    folder `north.answered` beside `north.key` remembers to which request, and with which sums.
    """
    own = keys.read_key(key)
    asked = read_request(request, coordinator=keys.read_public(coordinator))
    study = asked.study
    name = study.site_of(own.public)
    if schema is not None:
        _check_schema(schema, study.schema)
    check_planned(asked)
    check_new(output)
    record = AnswerRecord.beside(key)
    record.refuse(asked)
    account = None if ledger is None else StudyAccount(ledger, study)
    if account is not None:
        account.refuse()
    summing = open_engine(engine, data, cluster=cluster, memory=memory)
    table = open_table(read_address(data, summing), study.schema, memory=memory)
    del data  # as in pipeline.release
    told = None if progress is None else _told(progress, f"summing for {name}")
    sealed = answer(asked, table, engine=summing, key=own, record=record, progress=told)
    if account is not None:
        account.record()
    write_new(output, sealed, private=True)
    return Path(output)


def add(
    folder: str | Path,
    files: Sequence[str | Path] = (),
    *,
    key: str | Path,
    ledger: str | Path | None = None,
    progress: Progress | None = None,
) -> Path | Release:
    """Add the sealed answers of all sites, draw noise once, and return the next request, or the release after the last.

    Nothing is charged or drawn unless every site's answer is there, once, whole, and to the right request. `ledger` is one
    of the coordinator's own, if there is one: the whole study is recorded there with the first round.
    """
    own, study = keys.read_key(key), read_study(folder)
    planned = _planned(study)
    rounds = Rounds.planned(planned).after(*read_moments(folder))
    if not rounds.done and request_path(folder, len(rounds.moments) + 1).exists():
        rounds = _add_round(folder, rounds, study, files=files, key=own, ledger=ledger)
    elif rounds.done and files:
        raise FederatedError("All rounds of this study are done. Call add without files to get the release.")
    if not rounds.done:
        return _ask(folder, study, rounds, key=own)
    spent = [charge for noisy in rounds.moments for charge in noisy.measurement.charges]
    return finish(planned, rounds, spent, seed=study.seed, progress=progress)


def _add_round(
    folder: str | Path,
    rounds: Rounds,
    study: Study,
    *,
    files: Sequence[str | Path],
    key: Key,
    ledger: str | Path | None,
) -> Rounds:
    """Carry out one round: open, add, charge, draw noise, and write what was released."""
    number = len(rounds.moments) + 1
    request = open_request(folder, number)
    account = None if ledger is None else StudyAccount(ledger, study, number)
    if account is not None:
        account.refuse()
    check_moments(folder, number=number)
    answered = Answered(request, add_answers(request, files, key=key))
    before = [earlier.measurement.charge() for earlier in rounds.moments]
    spending = Ledger(study.budget, planned=study.charges, before=before, upon=account)
    noisy = measure(table_elsewhere(study.rows, study.schema), request.measurement, engine=answered, ledger=spending)
    write_moments(folder, noisy, number=number)
    return rounds.after(noisy)


def _ask(folder: str | Path, study: Study, rounds: Rounds, *, key: Key) -> Path:
    """Write the request of the next round, and return its path."""
    measurement, number = rounds.next, len(rounds.moments) + 1
    if measurement is None:
        raise AssertionError("all rounds are done")
    if key.public != study.coordinator:
        raise FederatedError(
            "Your key is not that of this study's coordinator. Name the key that the study was started with."
        )
    path = request_path(folder, number)
    write_request(path, Request(study, number, measurement), key=key)
    return path


def _without_selection(method: Method) -> Method:
    """Refuse to select tables, which no round of a study can do, and never do it by default."""
    if not isinstance(method, Adaptive):
        return method
    if method.tables or method.target is not None or method.workload is not None:
        raise PlanError(
            "A study cannot select tables of several columns: each of its rounds is one measurement that is known when the "
            "study starts. Leave out tables, target and workload."
        )
    return replace(method, tables=0)


def _check_plain(choices: Mapping[str, Any]) -> None:
    for name, value in choices.items():
        if type(value) not in (str, int, float, type(None)):
            raise PlanError(
                f"{name} must be a plain number or text to be sent to the sites; it is a {type(value).__name__}."
            )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        empty = not any(folder.iterdir())
    except OSError as error:
        raise FederatedError(f"The folder {folder} cannot be made: {error.strerror}. Choose another.") from None
    if not empty:
        raise FederatedError(f"{folder} is not empty. A study gets a new folder: choose another name.")


def _check_schema(own: Schema, asked: Schema) -> None:
    if own.names != asked.names:
        raise FederatedError(
            "The study is about other columns than your schema, or in another order. Agree on one schema file with the "
            "coordinator."
        )
    for name in own.names:
        if own.columns[name] != asked.columns[name]:
            raise FederatedError(
                f"The study describes column {name!r} otherwise than your schema. Agree on one schema file with the "
                "coordinator."
            )


def _told(progress: Progress, name: str) -> Callable[[int, int], None]:
    return lambda done, total: progress(name, done, total)
