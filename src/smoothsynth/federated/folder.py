"""The folder of a study: requests and released moments, round by round. Nothing in it is private.

    request-1.json  moments-1.json  request-2.json  moments-2.json  ...

The study is in the round that has a request and no moments; each file is written whole or not at all, and never again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from smoothsynth.errors import SmoothsynthError, StudyError
from smoothsynth.pipeline.plan import Plan, plan
from smoothsynth.pipeline.rounds import Stages
from smoothsynth.private.sites.keys import check_new, write_new
from smoothsynth.private.sites.protocol import read_json, read_request
from smoothsynth.queries.measurement import NoisyMoments

if TYPE_CHECKING:
    from smoothsynth.private.sites.protocol import Request, Study


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
        raise StudyError(f"{folder} is not the folder of a study: it has no request-1.json. Make one with: start.")
    return read_request(first).study


def read_moments(folder: str | Path) -> list[NoisyMoments]:
    """Read what was released in the rounds that are done."""
    found: list[NoisyMoments] = []
    while (path := _moments_path(folder, len(found) + 1)).exists():
        try:
            found.append(NoisyMoments.from_dict(read_json(path)))
        except (SmoothsynthError, KeyError, TypeError, ValueError, AttributeError):
            raise StudyError(f"{path} is damaged. Put back a copy: drawing the noise again would cost again.") from None
    return found


def check_moments(folder: str | Path, *, number: int) -> None:
    """Find out that what a round releases could not be written, before its noise is drawn."""
    check_new(_moments_path(folder, number))


def write_moments(folder: str | Path, noisy: NoisyMoments, *, number: int) -> None:
    """Write what a round released, once."""
    try:
        write_new(_moments_path(folder, number), json.dumps(noisy.as_dict()) + "\n", private=False)
    except StudyError as error:
        raise StudyError(f"The noise of round {number} was drawn and is lost, so its cost is spent: {error}") from None


def stages_of(study: Study, moments: list[NoisyMoments]) -> Stages:
    """Take up the plan of a study after what was released."""
    return Stages.of(_planned(study), moments)


def check_planned(request: Request) -> None:
    """Refuse a request for other features than the plan of its study has in that round; only the view is open."""
    planned = _planned(request.study).measurements[request.round - 1]
    names = [field.name for field in fields(planned) if field.name != "view"]
    if any(getattr(request.measurement, name) != getattr(planned, name) for name in names):
        raise StudyError(
            f"Round {request.round} asks for other features, or other noise, than the plan of the study. Do not answer it; "
            "ask the coordinator."
        )


def _planned(study: Study) -> Plan:
    planned = plan_of(study)
    if planned.charges != study.charges:
        raise StudyError(
            f"The study was started with smoothsynth {study.version}, which plans otherwise than this version. Finish it "
            "with that one."
        )
    return planned


def plan_of(study: Study) -> Plan:
    """Plan the release from the public facts of the study."""
    return plan(
        study.schema,
        study.rows,
        epsilon=study.budget.epsilon,
        delta=study.budget.delta,
        rows_per_person=study.rows_per_person,
        **study.choices,
    )


def open_request(folder: str | Path, number: int) -> Request:
    """Read the request of a round."""
    return read_request(request_path(folder, number))


def _moments_path(folder: str | Path, number: int) -> Path:
    return Path(folder) / f"moments-{number}.json"
