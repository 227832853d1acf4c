"""How the files of a table are written: the sign between cells, the encoding, the sheet. Public facts that somebody states.

An encoding must have one byte for each character, and those of ASCII (or be UTF-8): then every byte is read by itself, the
ends of lines are known without it, and a byte that means nothing changes its own cell only.
"""

from __future__ import annotations

import codecs
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, fields

from smoothsynth.errors import SchemaError

DELIMITERS = ",;\t|:^~"
# What a shell can write in place of a tab.
_TABS = ("\\t", "tab")


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The delimiter and the encoding of CSV files, and the name of the sheet of Excel files (None is the first)."""

    delimiter: str = ","
    encoding: str = "utf-8"
    sheet: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter in _TABS:
            object.__setattr__(self, "delimiter", "\t")
        problem = self._problem()
        if problem:
            raise SchemaError(f"[file]: {problem}.")
        object.__setattr__(self, "encoding", codecs.lookup(self.encoding).name)

    def _problem(self) -> str | None:
        if not isinstance(self.delimiter, str) or len(self.delimiter) != 1 or self.delimiter not in DELIMITERS:
            return f"delimiter must be one of {' '.join(DELIMITERS.replace(chr(9), ''))} or tab; it is {self.delimiter!r:.40}"
        if not isinstance(self.encoding, str) or not is_encoding(self.encoding):
            return (
                "encoding must be utf-8, or one with a byte for each character such as cp1252 or latin-1; it is "
                f"{self.encoding!r:.40}. Save the file as UTF-8"
            )
        if self.sheet is not None and (not isinstance(self.sheet, str) or not self.sheet):
            return f"sheet must be the name of a sheet; it is {self.sheet!r:.40}"
        return None

    def facts(self) -> dict[str, str]:
        """Return what a schema file says in its section [file]: what is not the usual."""
        found = {key.name: getattr(self, key.name) for key in fields(self)}
        return {name: value for name, value in found.items() if value != getattr(USUAL, name)}


def read_file_format(section: object) -> FileFormat:
    """Read the section [file] of a schema."""
    if isinstance(section, FileFormat):
        return section
    known = [key.name for key in fields(FileFormat)]
    if not isinstance(section, Mapping) or not set(section) <= set(known):
        raise SchemaError(f"[file] must be a section with some of {', '.join(known)}, and nothing else.")
    return FileFormat(**section)


def is_encoding(name: str) -> bool:
    """Whether an encoding is UTF-8, or a table of 256 characters that begins with those of ASCII."""
    try:
        known = codecs.lookup(name).name
        if known == "utf-8":
            return True
        module = importlib.import_module(f"encodings.{known.replace('-', '_')}")
    except (LookupError, ImportError, ValueError):
        return False
    # Without a table an encoding may have states, or take several bytes for a character.
    return str(getattr(module, "decoding_table", ""))[:128] == "".join(map(chr, range(128)))


# Of a schema without a section [file].
USUAL = FileFormat()
