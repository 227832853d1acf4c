"""Requests as signed files: what the coordinator asks, and how a site knows that it was the coordinator."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import StudyError
from smoothsynth.private.sites.files import read_text, write_new
from smoothsynth.private.sites.keys import signed_by
from smoothsynth.study import Request

if TYPE_CHECKING:
    from pathlib import Path

    from smoothsynth.private.sites.keys import Key

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
        raise StudyError(f"{path} is not a request. It is the file request-1.json, request-2.json, ... of the study.")
    request = Request.from_dict(document["request"])
    expected = request.study.coordinator if coordinator is None else coordinator
    if request.study.coordinator != expected:
        raise StudyError(
            f"{path} comes from another coordinator than the one whose key you gave. Do not answer it before you have "
            "compared the keys with the coordinator by telephone."
        )
    if not signed_by(expected, _signature(document), _message(request)):
        raise StudyError(f"{path} is not as its coordinator signed it. Ask the coordinator to send it again.")
    return request


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON object of a study."""
    try:
        document = json.loads(read_text(path))
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise StudyError(f"{path} is not a file of a study, or is damaged. Ask for it again.")
    return document


def _message(request: Request) -> bytes:
    return b"smoothsynth request " + request.identity.encode()


def _signature(document: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode(document.get("signature", ""), validate=True)
    except (ValueError, TypeError):
        return b""
