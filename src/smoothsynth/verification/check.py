"""What a check found, in one sentence with its numbers, and all of them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothsynth._display import escaped, page
from smoothsynth.errors import one_line

if TYPE_CHECKING:
    from pathlib import Path


# A note says what could not be looked at; a warning is worth a question to the publisher; only a failure refutes.
OUTCOMES = ("passed", "note", "warning", "failed")
# Checks that compare whole files; a warning of theirs leaves room for something else.
FILES = ("parquet", "csv", "metadata", "page")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked: its name, how it came out (see OUTCOMES), and a sentence with the numbers.

    It is not `compared` if this version cannot tell what an earlier one would have written.
    """

    name: str
    outcome: str
    sentence: str
    compared: bool = True

    @property
    def passed(self) -> bool:
        """Whether nothing was refuted."""
        return self.outcome != "failed"

    def _repr_html_(self) -> str:
        return page(f"{self.name}: {self.outcome}", [("what was found", self.sentence)])

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"name": self.name, "passed": self.passed, "outcome": self.outcome, "sentence": self.sentence}


@dataclass(frozen=True, slots=True)
class Verification:
    """All checks of one release folder, and the SHA-256 of its receipt, by which the publisher can confirm it."""

    folder: Path
    fingerprint: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.passed for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if not check.passed)

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The files that could not be compared byte for byte, and what this version cannot compare: it may be anything."""
        return tuple(
            check.name
            for check in self.checks
            if not check.compared or (check.name in FILES and check.outcome == "warning")
        )

    @property
    def summary(self) -> str:
        """The verdict in one line, with what could not be checked."""
        if not self.passed:
            return f"{len(self.failures)} of {len(self.checks)} checks failed."
        left = f" But not everything could be checked: {', '.join(self.unchecked)}." if self.unchecked else ""
        return f"Nothing was refuted.{left}"

    def __repr__(self) -> str:
        return one_line(f"<Verification of {self.folder}: {len(self.checks)} checks. {self.summary}>")

    def _repr_html_(self) -> str:
        rows = [(escaped(check.outcome), escaped(check.name), escaped(check.sentence, 300)) for check in self.checks]
        facts = [("verdict", self.summary), ("SHA-256 of the receipt", self.fingerprint)]
        return page(f"Verification of {self.folder}", facts, ("outcome", "check", "what was found"), rows)

    def __getitem__(self, name: str) -> Check:
        return next(check for check in self.checks if check.name == name)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "folder": str(self.folder),
            "passed": self.passed,
            "unchecked": list(self.unchecked),
            "receipt_sha256": self.fingerprint,
            "checks": [check.as_dict() for check in self.checks],
        }

    def __str__(self) -> str:
        lines = [f"{check.outcome:<8}{check.name}: {check.sentence}" for check in self.checks]
        return "\n".join([*lines, self.summary])


def verdict(name: str, problems: list[str], sentence: str) -> list[Check]:
    """Fail with the first problem (and how many more there are), or pass with the sentence."""
    if not problems:
        return [Check(name, "passed", sentence)]
    more = f" (and {len(problems) - 1} more like it)" if len(problems) > 1 else ""
    return [Check(name, "failed", problems[0] + more)]
