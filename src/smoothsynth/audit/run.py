"""Run all cases of the audit, and print them.

Run all cases and say what was found: ours must stay below their claims, the printed ones must be caught.

A report as tables for the terminal.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from smoothsynth.audit.case import Case, Finding, examine
from smoothsynth.audit.mechanisms import mechanism_cases
from smoothsynth.audit.releases import adaptive_cases, choosing_cases, found_cases, release_cases
from smoothsynth.errors import SmoothsynthError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table


# The probability that a whole report holds any false alarm, divided evenly over its cases.
ALPHA = 1e-6
TRIALS = 10_000
QUICK_TRIALS = 1_500
_MOST_WORKERS = 2


@dataclass(frozen=True, slots=True)
class Report:
    """What was found of our mechanisms, and of the paper's constants as printed."""

    ours: tuple[Finding, ...]
    printed: tuple[Finding, ...]
    alpha: float
    seconds: float

    @property
    def exceeding(self) -> tuple[Finding, ...]:
        """Our mechanisms that do not keep their claim."""
        return tuple(finding for finding in self.ours if finding.exceeds)

    @property
    def missed(self) -> tuple[str, ...]:
        """Printed mechanisms that no look has caught: this run was too weak to show anything."""
        claims = {(finding.mechanism, finding.delta): False for finding in self.printed}
        for finding in self.printed:
            claims[finding.mechanism, finding.delta] |= finding.exceeds
        return tuple(mechanism for (mechanism, _), caught in claims.items() if not caught)

    @property
    def passed(self) -> bool:
        """Whether ours keep their claims and the printed ones are caught."""
        return not self.exceeding and not self.missed

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "passed": self.passed,
            "alpha": self.alpha,
            "seconds": round(self.seconds, 1),
            "ours": [finding.as_dict() for finding in self.ours],
            "printed": [finding.as_dict() for finding in self.printed],
        }


def run(*, trials: int = TRIALS, progress: Callable[[str, int, int | None], None] | None = None) -> Report:
    """Audit every mechanism, the pipeline and the printed constants, on two cores if there are two."""
    started = time.perf_counter()
    ours, printed = _cases()
    count = len(ours) + len(printed)
    found: dict[int, tuple[Finding, ...]] = {}
    # Fresh processes: a fork could copy locks of threads that are not copied with it.
    workers = min(_MOST_WORKERS, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        # The slow cases are the last of the list: they begin first, so that none is left alone at the end.
        waiting = {pool.submit(_examine, index, trials, ALPHA / count): index for index in reversed(range(count))}
        for done in as_completed(waiting):
            found[waiting[done]] = done.result()
            if progress is not None:
                progress("cases", len(found), count)
    return Report(
        ours=_flat([found[index] for index in range(len(ours))]),
        printed=(*_brought("exact_findings"), *_flat([found[index] for index in range(len(ours), count)])),
        alpha=ALPHA,
        seconds=time.perf_counter() - started,
    )


def examine_all(cases: Sequence[Case], *, trials: int, alpha: float = ALPHA) -> tuple[Finding, ...]:
    """Examine cases in this process, one after the other."""
    return _flat([examine(case, trials=case.trials(trials), alpha=alpha / len(cases)) for case in cases])


@functools.lru_cache(maxsize=1)
def _cases() -> tuple[list[Case], list[Case]]:
    return [*mechanism_cases(), *choosing_cases(), *adaptive_cases(), *found_cases(), *release_cases()], _brought(
        "cases"
    )


def _brought(name: str) -> list[Any]:
    """Return what the paper as printed brings to the audit: known to leak, it shows that leaks are found."""
    functions = entry_points(group="smoothsynth.audit", name=name)
    if not functions:
        raise SmoothsynthError("The audit must have mechanisms to catch, and finds none. Install smoothsynth again.")
    return [item for function in functions for item in function.load()()]


def _examine(index: int, trials: int, alpha: float) -> tuple[Finding, ...]:
    case = [case for cases in _cases() for case in cases][index]
    return examine(case, trials=case.trials(trials), alpha=alpha)


def _flat(parts: Sequence[tuple[Finding, ...]]) -> tuple[Finding, ...]:
    return tuple(finding for part in parts for finding in part)


def as_terminal_table(
    findings: Sequence[Finding],
    *,
    title: str,
    verdicts: tuple[str, str],
    names: tuple[str, str] = ("mechanism", "a row replaced"),
) -> Table:
    """Return one line for each mechanism and pair of tables: claim, reach, the bound of each look, trials.

    `verdicts` are the words for a claim that stands and for one that does not.
    """
    from rich import box
    from rich.table import Table

    looks = tuple(dict.fromkeys(finding.look for finding in findings))
    table = Table(title=title, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(names[0], max_width=52)
    table.add_column(names[1], max_width=40)
    for name in ("claimed", "delta", "reach", *looks, "trials"):
        table.add_column(name, justify="right")
    table.add_column("")
    for lines in _by_case(findings):
        one, bounds = lines[0], {finding.look: f"{finding.bound:.2f}" for finding in lines}
        table.add_row(
            one.mechanism,
            one.pair,
            f"{one.claimed:.2f}",
            f"{one.delta:.0e}" if one.delta else "0",
            "" if one.reach is None else f"{one.reach:.2f}",
            *(bounds.get(look, "") for look in looks),
            f"{one.trials:,}" if one.trials else "none",
            verdicts[any(finding.exceeds for finding in lines)],
        )
    return table


def _by_case(findings: Sequence[Finding]) -> list[list[Finding]]:
    lines: dict[tuple[str, str, float], list[Finding]] = {}
    for finding in findings:
        lines.setdefault((finding.mechanism, finding.pair, finding.delta), []).append(finding)
    return list(lines.values())
