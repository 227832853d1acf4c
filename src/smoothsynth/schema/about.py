"""What a schema says of its table and its columns in plain words: public texts, for people and catalogues."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from smoothsynth.errors import SchemaError

# Letters that a text can have.
MOST_LETTERS = {"title": 200, "description": 2000, "owner": 200, "licence": 200, "contact": 200, "url": 500, "unit": 50}
_ADDRESS = re.compile(r"https?://[^\s<>\"\\^`{|}]+")


@dataclass(frozen=True, slots=True)
class About:
    """Who publishes which table, under which licence: what readers and catalogues ask first.

    `licence` is best an SPDX name such as "CC-BY-4.0", or an address; `contact` an e-mail address; `published` the day.
    """

    title: str | None = None
    description: str | None = None
    owner: str | None = None
    licence: str | None = None
    contact: str | None = None
    url: str | None = None
    published: str | None = None

    def __post_init__(self) -> None:
        for key in fields(self):
            object.__setattr__(self, key.name, tidy(getattr(self, key.name)))
        problem = next(filter(None, (text_problem(name, text) for name, text in self.facts().items())), None)
        if problem or (problem := self._form_problem()):
            raise SchemaError(f"[about]: {problem}.")

    def _form_problem(self) -> str | None:
        if self.url is not None and not _ADDRESS.fullmatch(self.url):
            return "url must be an address that begins with https:// or http://; it is another text"
        try:
            day = None if self.published is None else datetime.date.fromisoformat(self.published).isoformat()
        except ValueError:
            day = None
        return None if day == self.published else "published must be a day such as 2025-01-31; it is another text"

    def facts(self) -> dict[str, str]:
        """Return what a schema file says in its section [about]."""
        return {key.name: text for key in fields(self) if (text := getattr(self, key.name)) is not None}

    @property
    def licence_address(self) -> str | None:
        """Where the licence can be read: its own address, or that of its SPDX name."""
        if self.licence is None or _ADDRESS.fullmatch(self.licence):
            return self.licence
        return f"https://spdx.org/licenses/{self.licence}" if re.fullmatch(r"[A-Za-z0-9.-]+", self.licence) else None

    @property
    def email(self) -> str | None:
        """The contact, if it is an e-mail address."""
        return self.contact if re.fullmatch(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", self.contact or "", re.A) else None


def read_about(section: object) -> About:
    """Read the section [about] of a schema."""
    if isinstance(section, About):
        return section
    known = [key.name for key in fields(About)]
    if not isinstance(section, Mapping) or not set(section) <= set(known):
        raise SchemaError(f"[about] must be a section with some of {', '.join(known)}, and nothing else.")
    return About(**section)


def tidy(text: Any) -> Any:
    """Return a text with single spaces for all white space, and a day as text; what else there is stays."""
    if isinstance(text, datetime.date):
        return text.isoformat()
    return " ".join(text.split()) if isinstance(text, str) else text


def text_problem(name: str, text: object) -> str | None:
    """Say why a text cannot be published, in words, or None."""
    if text is None:
        return None
    if not isinstance(text, str) or not text or not text.isprintable():
        return f"{name} must be plain text that is not empty, without characters that cannot be printed"
    most = MOST_LETTERS.get(name, MOST_LETTERS["title"])
    return None if len(text) <= most else f"{name} must have at most {most:,} letters; it has {len(text):,}"


# Of a schema without a section [about].
NOTHING = About()
