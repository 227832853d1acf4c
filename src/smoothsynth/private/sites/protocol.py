"""What is asked of a site: a study, a request, files that are signed.

A study of several sites: what all of them know before the first row is read, and what each round asks for.

All of it is public. A request is a JSON file that the coordinator signs, so that a site knows whom it answers.

Requests as signed files: what the coordinator asks, and how a site knows that it was the coordinator.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from smoothsynth.accounting.charges import Budget, Charge, compose
from smoothsynth.errors import FederatedError, SmoothsynthError
from smoothsynth.private.sites.keys import read_text, signed_by, write_new
from smoothsynth.queries.measurement import Measurement, NoisyMoments
from smoothsynth.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from smoothsynth.private.sites.keys import Key


FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class Site:
    """One owner of rows: how many rows it has, and its public key (the text, or in `start` the path of its .pub file)."""

    rows: int
    key: str

    def __post_init__(self) -> None:
        if type(self.rows) is not int or self.rows < 1:
            raise FederatedError(f"The rows of a site must be a whole number of at least 1, not {self.rows!r:.40}.")
        object.__setattr__(self, "key", str(self.key))


@dataclass(frozen=True, slots=True)
class Study:
    """The sites, the schema, and what will be released of all their rows together, at what cost.

    `choices` are those of `plan`; `charges` are what the plan will cost every row; `mark` makes each study another one.
    """

    schema: Schema
    sites: Mapping[str, Site]
    budget: Budget
    rows_per_person: int
    choices: Mapping[str, Any]
    seed: int | None
    charges: tuple[Charge, ...]
    coordinator: str
    mark: str
    version: str

    def __post_init__(self) -> None:
        if not self.sites:
            raise FederatedError("A study needs at least one site; it has none.")
        for name in self.sites:
            if not _NAME.fullmatch(name):
                raise FederatedError(f"The name of a site is up to 40 letters, digits, - and _; {name!r:.60} is not.")
        keys = [site.key for site in self.sites.values()]
        if len(set(keys)) != len(keys):
            raise FederatedError("Each site must have a key of its own; two have the same. Let each make one.")
        cost = compose(self.charges, delta=self.budget.delta)
        if cost.epsilon > self.budget.epsilon or cost.delta > self.budget.delta:
            raise FederatedError("The rounds of a study must cost no more than its budget; these do.")
        object.__setattr__(self, "sites", MappingProxyType(dict(self.sites)))
        object.__setattr__(self, "choices", MappingProxyType(dict(self.choices)))

    @property
    def rows(self) -> int:
        """The rows of all sites together, which are public."""
        return sum(site.rows for site in self.sites.values())

    @property
    def identity(self) -> str:
        """The SHA-256 of everything above: two studies that differ in anything have different ones."""
        return digest(self.as_dict())

    @property
    def label(self) -> str:
        """The name under which ledgers record the study."""
        return f"federated study {self.identity[:16]}"

    def site_of(self, key: str) -> str:
        """Say which site has this public key."""
        for name, site in self.sites.items():
            if site.key == key:
                return name
        raise FederatedError(
            f"Your key is not that of any site of this study ({', '.join(self.sites)}). Use the key whose .pub file you "
            "gave to the coordinator."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "schema": self.schema.facts(),
            "sites": {name: {"rows": site.rows, "key": site.key} for name, site in self.sites.items()},
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
            "rows_per_person": self.rows_per_person,
            "choices": dict(self.choices),
            "seed": self.seed,
            "charges": [charge.as_dict() for charge in self.charges],
            "coordinator": self.coordinator,
            "mark": self.mark,
            "version": self.version,
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Study:
        """Read what `as_dict` wrote."""
        return cls(
            schema=Schema.from_facts(facts["schema"]),
            sites={str(name): Site(site["rows"], site["key"]) for name, site in facts["sites"].items()},
            budget=Budget(facts["budget"]["epsilon"], facts["budget"]["delta"]),
            rows_per_person=facts["rows_per_person"],
            choices=dict(facts["choices"]),
            seed=facts["seed"],
            charges=tuple(Charge.from_dict(charge) for charge in facts["charges"]),
            coordinator=str(facts["coordinator"]),
            mark=str(facts["mark"]),
            version=str(facts["version"]),
        )


@dataclass(frozen=True, slots=True)
class Request:
    """What one round asks of every site: the exact sums of these features, seen through this transformation."""

    study: Study
    round: int
    measurement: Measurement

    def __post_init__(self) -> None:
        if type(self.round) is not int or not 1 <= self.round <= len(self.study.charges):
            raise FederatedError(f"A study of {len(self.study.charges)} rounds has no round {self.round!r:.20}.")
        asked, planned = self.measurement.charge(), self.study.charges[self.round - 1]
        if (asked.epsilon, asked.multiplier) != (planned.epsilon, planned.multiplier):
            raise FederatedError(f"Round {self.round} must cost what the study says of it; it costs something else.")
        if self.measurement.rows_per_person != self.study.rows_per_person:
            raise FederatedError(
                f"Round {self.round} must protect as many rows of a person as the study says; it does not."
            )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "format": FORMAT,
            "round": self.round,
            "study": self.study.as_dict(),
            "measurement": measurement_facts(self.measurement),
        }

    @property
    def identity(self) -> str:
        """The SHA-256 of everything that is asked, the schema and the sites included."""
        return digest(self.as_dict())

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Request:
        """Read what `as_dict` wrote; anything else is refused in one sentence."""
        try:
            if facts["format"] != FORMAT:
                raise FederatedError(f"This version of smoothsynth reads requests of format {FORMAT}. Update it.")
            request = cls(Study.from_dict(facts["study"]), facts["round"], Measurement.from_dict(facts["measurement"]))
        except FederatedError:
            raise
        except SmoothsynthError as error:
            raise FederatedError(f"This is not a whole request: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise FederatedError(
                f"This is not a whole request: a field is missing or wrong ({type(error).__name__})."
            ) from None
        if request.as_dict() != facts:
            raise FederatedError("This is not a whole request: it holds something that this version does not know.")
        return request


def measurement_facts(measurement: Measurement) -> dict[str, Any]:
    """Return a measurement as plain values: moments without their numbers."""
    facts = NoisyMoments(measurement, 1, (0,) * len(measurement.features)).as_dict()
    return {name: value for name, value in facts.items() if name not in ("rows", "integers")}


def digest(facts: dict[str, Any]) -> str:
    """Return the SHA-256 of plain values; the order of columns and of sites counts."""
    return hashlib.sha256(json.dumps(facts, allow_nan=False).encode()).hexdigest()


_ABOUT = "PUBLIC: a request for sealed sums. Answer it with: smoothsynth federated sum"


def write_request(path: Path, request: Request, *, key: Key) -> None:
    """Write a request, signed by the coordinator."""
    signature = base64.b64encode(key.sign(_message(request))).decode("ascii")
    document = {"about": _ABOUT, "request": request.as_dict(), "signature": signature}
    write_new(path, json.dumps(document) + "\n", private=False)


def read_request(path: str | Path, *, coordinator: str | None = None) -> Request:
    """Read a request; with the public key of the `coordinator`, one that somebody else wrote is refused."""
    document = read_json(path)
    if not isinstance(document.get("request"), dict):
        raise FederatedError(
            f"{path} is not a request. It is the file request-1.json, request-2.json, ... of the study."
        )
    request = Request.from_dict(document["request"])
    expected = request.study.coordinator if coordinator is None else coordinator
    if request.study.coordinator != expected:
        raise FederatedError(
            f"{path} comes from another coordinator than the one whose key you gave. Do not answer it before you have "
            "compared the keys with the coordinator by telephone."
        )
    if not signed_by(expected, _signature(document), _message(request)):
        raise FederatedError(f"{path} is not as its coordinator signed it. Ask the coordinator to send it again.")
    return request


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON object of a study."""
    try:
        document = json.loads(read_text(path))
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise FederatedError(f"{path} is not a file of a study, or is damaged. Ask for it again.")
    return document


def _message(request: Request) -> bytes:
    return b"smoothsynth request " + request.identity.encode()


def _signature(document: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode(document.get("signature", ""), validate=True)
    except (ValueError, TypeError):
        return b""
