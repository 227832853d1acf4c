"""What a site has answered: for each round of each study one request, once and for all (docs/proofs/sites.md).

    north.answered/STUDY-ROUND      beside north.key: the identity of the request, and a digest of the sums

A name is taken in one step, so of two processes one is first. The digest needs the site's key: to others it tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from smoothsynth.errors import StudyError
from smoothsynth.private.sites.files import check_replaceable, read_text, write_new

if TYPE_CHECKING:
    from smoothsynth.study import Request


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
            raise StudyError(f"The record of your answers, {self.folder}, cannot be made: {error.strerror}.") from None
        check_replaceable(self._path(request, request.round))
        for earlier in range(1, request.round):
            if not self._path(request, earlier).exists():
                raise StudyError(
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
        except StudyError:
            if not path.exists():
                raise
        self._check_request(request)
        if self._said(request)[1:] != [digest]:
            raise StudyError(
                f"You answered round {request.round} of this study before, and your table has changed since: both answers "
                "together would tell what changed. Name the table as it was then, or have the study started again."
            )

    def _check_request(self, request: Request) -> None:
        if self._said(request)[:1] != [request.identity]:
            raise StudyError(
                f"You answered round {request.round} of this study before, to a request with other features or another view. "
                "A round is answered once. If the coordinator cannot explain it, do not go on; else have the study started "
                "again."
            )

    def _said(self, request: Request) -> list[str]:
        return read_text(self._path(request, request.round)).split()

    def _path(self, request: Request, number: int) -> Path:
        return self.folder / f"{request.study.identity}-{number}"
