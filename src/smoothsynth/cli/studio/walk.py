"""The walk through the studio: open a table, check it, plan, look at what is spent, release, verify.

Nothing is spent but by `release`, which needs the number of a summary that was shown, and takes it once.
"""

from __future__ import annotations

import re
import threading
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsynth._files import write_whole
from smoothsynth.cli.studio.form import FormError, first_form, proposals, read_form
from smoothsynth.cli.studio.picture import forecast_with_picture
from smoothsynth.cli.studio.scripts import Choices, command_line, python_script
from smoothsynth.errors import DataError, ReleaseError, SmoothsynthError
from smoothsynth.private.sources.files import SUFFIXES
from smoothsynth.schema.file import USUAL, read_file_format

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from smoothsynth.cli.studio.form import Form
    from smoothsynth.pipeline.check import CheckReport
    from smoothsynth.pipeline.plan import Plan
    from smoothsynth.schema import Schema

    Progress = Callable[[str, int, int | None], None]
    Work = Callable[[Progress], dict[str, Any]]


_MOST_FILES = 500
_ENDS = tuple(SUFFIXES.split(", "))
_FOLDER = re.compile(r"[^\W_][\w .+-]{0,99}")
_USUAL_DELTA = 1e-6


class ConflictError(SmoothsynthError):
    """It is not the time for this: something else is under way, or it was done already."""


@dataclass(slots=True, eq=False, repr=False)
class Job:
    """Work in a thread: how far it is, and what came of it."""

    number: int
    name: str
    phase: str = ""
    done: int = 0
    total: int | None = None
    result: dict[str, Any] | None = None
    problem: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for the page."""
        state = "failed" if self.problem else "running" if self.result is None else "done"
        shown = {key: getattr(self, key) for key in ("number", "name", "phase", "done", "total", "result")}
        return {**shown, "state": state, **(self.problem or {})}

    def told(self, phase: str, done: int, total: int | None) -> None:
        """Note how far the work is."""
        self.phase, self.done, self.total = phase, done, total


class Jobs:
    """One piece of work at a time, each in a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._job: Job | None = None
        self._thread: threading.Thread | None = None

    def start(self, name: str, work: Work) -> dict[str, Any]:
        """Begin with some work, unless other work is under way."""
        with self._lock:
            if self.is_running:
                raise ConflictError("Something else is under way. Wait until it is done.")
            job = self._job = Job(1 if self._job is None else self._job.number + 1, name)
            self._thread = threading.Thread(target=_carry_out, args=(job, work), daemon=True)
            self._thread.start()
            return job.as_dict()

    @property
    def is_running(self) -> bool:
        """Whether work is under way."""
        return self.running() is not None

    def running(self) -> dict[str, Any] | None:
        """Return how far the work is that is under way, if some is."""
        job = self._job
        return None if job is None or job.result is not None or job.problem is not None else job.as_dict()

    def shown(self, number: int) -> dict[str, Any]:
        """Return how far a job is."""
        if self._job is None or self._job.number != number:
            raise ConflictError("There is no such work.")
        return self._job.as_dict()

    def wait(self) -> None:
        """Wait for the work that is under way."""
        if self._thread is not None:
            self._thread.join()


def _carry_out(job: Job, work: Work) -> None:
    try:
        job.result = work(job.told)
    # A traceback would show frames that hold private rows.
    except Exception as error:
        job.problem = in_words(error)


def in_words(error: Exception) -> dict[str, Any]:
    """Return an error for the page; of one that nobody expected only its kind, since its text may quote a cell."""
    if isinstance(error, SmoothsynthError):
        found = {"error": str(error)}
        return {**found, "columns": error.columns} if isinstance(error, FormError) else found
    return {
        "error": f"This failed for an unexpected reason ({type(error).__name__}). Nothing of the rows is shown here."
    }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OpenTable:
    """The table that was opened: its number, its name on the page, its place, and what its draft says."""

    number: int
    name: str
    path: Path
    stamp: tuple[int, int]
    shown: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Summary:
    """What is to be released and was shown to the owner; it is good for one release of the same file."""

    number: int
    table: OpenTable
    schema: Schema
    choices: Choices
    target: Path


@dataclass(slots=True, eq=False, repr=False)
class Walk:
    """What the studio knows: where tables are and releases go (`place`), where uploads are kept, and how far it is."""

    place: Path
    uploads: Path
    ledger: Path | None = None
    jobs: Jobs = field(default_factory=Jobs)
    uploaded: dict[str, Path] = field(default_factory=dict)
    table: OpenTable | None = None
    form: dict[str, Any] | None = None
    schema: Schema | None = None
    summary: Summary | None = None
    # How many there were: a number is given once.
    tables: int = 0
    arrivals: int = 0
    summaries: int = 0
    folder: Path | None = None
    released: dict[str, Any] | None = None
    # The number of rows, or of persons, of the file as it is now.
    _rows: dict[Any, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def state(self) -> dict[str, Any]:
        """Return where the walk is, for a page that is loaded."""
        return {
            "place": str(self.place),
            "files": list(self._files()),
            "ledger": self._left(),
            "table": None if self.table is None else self.table.shown,
            "form": self.form,
            "released": self.released,
            "job": self.jobs.running(),
        }

    def _files(self) -> dict[str, Path]:
        """Return the tables that can be opened: those in the folder, and those that were uploaded."""
        inside = sorted(p for p in self.place.iterdir() if p.name.lower().endswith(_ENDS) and p.name[:1] != ".")
        return {**self.uploaded, **{path.name: path for path in inside[:_MOST_FILES] if path.is_file()}}

    def new_upload(self, name: str) -> tuple[str, Path]:
        """Return the name on the page and the place of a file that is being uploaded."""
        ends = [end for end in _ENDS if name.lower().endswith(end)]
        if not ends:
            raise DataError(f"A table must be a file that ends in {SUFFIXES}. Choose another file.")
        with self._lock:
            self.arrivals += 1
            count = self.arrivals
        return f"{Path(name).name[-80:]} (upload {count})", self.uploads / f"{count}{max(ends, key=len)}"

    def open(self, name: str, said: Mapping[str, str]) -> dict[str, Any]:
        """Draft the schema of a table that is on the list; `said` is how its file is written, where that is not guessed."""
        path = self._files().get(name)
        if path is None:
            raise DataError("There is no such table on the list. Choose one of the list.")
        return self.jobs.start("open", lambda told: self._opened(name, path, said, told))

    def _opened(self, name: str, path: Path, said: Mapping[str, str], told: Progress) -> dict[str, Any]:
        from smoothsynth.private.owner import drafted
        from smoothsynth.private.table import guess_format

        told("looking at cells", 0, None)
        stamp = _stamp(path)
        guessed = USUAL if set(said) >= {"delimiter", "encoding"} else guess_format(str(path))
        written = read_file_format({**guessed.facts(), **said})
        columns = drafted(str(path), written=written)
        held = [{"name": one.name, "holds": one.kind, "findings": proposals(one.found)} for one in columns]
        shown = {"name": name, "columns": held}
        self.tables += 1
        self.table, self.summary = OpenTable(self.tables, name, path, stamp, shown), None
        self.form = {**first_form(columns, written), "table": self.tables}
        return {"table": shown, "form": self.form}

    def check(self, form: dict[str, Any]) -> dict[str, Any]:
        """Look at the cells as a release would read them."""
        table, schema = self._opened_table(form), read_form(form)
        self.form, self.schema = form, schema
        return self.jobs.start("check", lambda told: self._checked(table, schema, told))

    def _checked(self, table: OpenTable, schema: Schema, told: Progress) -> dict[str, Any]:
        from smoothsynth.pipeline.check import check

        return {"check": _shown(check(str(table.path), schema, progress=told)), "schema": schema.to_toml()}

    def plan(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the expected errors at a budget, and the illustration of a column; reads no cell but counts rows."""
        schema = read_form(asked.get("form"))
        made = self._planned(schema, asked)
        name = str(asked.get("column"))
        typical, picture = forecast_with_picture(made, name if name in schema.columns else schema.names[0])
        return {**_plan_facts(made), "expected_errors": [one.as_dict() for one in typical], "picture": picture}

    def _planned(self, schema: Schema, asked: Mapping[str, Any]) -> Plan:
        from smoothsynth.pipeline.plan import plan
        from smoothsynth.private.table import open_table

        most = asked.get("rows_per_person", 1)
        table = self._opened_table(asked["form"])
        key = (table.path, _stamp(table.path), schema.person)
        if key not in self._rows:
            self._rows = {key: open_table(str(table.path), schema, rows_per_person=most).rows}
        return plan(schema, self._rows[key], epsilon=asked["epsilon"], delta=asked["delta"], rows_per_person=most)

    def review(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Say what a release would lose and spend; only what was said here can be released."""
        form = asked["form"]
        table, schema, target = self._opened_table(form), read_form(form), self._target(asked.get("folder"))
        self.form, self.schema, self.summary = form, schema, None
        return self.jobs.start("review", lambda told: self._reviewed(table, schema, target, asked, told))

    def _reviewed(
        self, table: OpenTable, schema: Schema, target: Path, asked: Mapping[str, Any], told: Progress
    ) -> dict[str, Any]:
        from smoothsynth.pipeline.check import check

        stamp, report = _stamp(table.path), check(str(table.path), schema, progress=told)
        told("planning", 0, None)
        made = self._planned(schema, asked)
        self._refuse_beyond_ledger(made)
        found = {"check": _shown(report), "passed": report.passed}
        if report.passed:
            with self._lock:
                self.summaries += 1
                now = replace(table, stamp=stamp)
                self.summary = Summary(self.summaries, now, schema, self._choices(table, made, target), target)
            found["summary"] = self.summaries
        return {**found, **_plan_facts(made), "table": table.name, "folder": str(target), "ledger": self._left()}

    def _choices(self, table: OpenTable, made: Plan, target: Path) -> Choices:
        uploaded = table.name in self.uploaded
        return Choices(
            data=table.name.rpartition(" (upload ")[0] if uploaded else str(table.path),
            folder=f"{target}-again",
            rows=made.rows,
            epsilon=made.budget.epsilon,
            delta=made.budget.delta,
            rows_per_person=made.rows_per_person,
            ledger=None if self.ledger is None else str(self.ledger),
        )

    def release(self, number: int) -> dict[str, Any]:
        """Spend what the summary says; a summary is taken once, however often this is asked for."""
        with self._lock:
            summary = self.summary
            if summary is None or summary.number != number:
                raise ConflictError("This was released already, or changed since. Look at what is spent once more.")
            job = self.jobs.start("release", lambda told: self._released(summary, told))
            self.summary = None
        return job

    def _released(self, summary: Summary, told: Progress) -> dict[str, Any]:
        from smoothsynth.pipeline.run import release

        table, choices = summary.table, summary.choices
        if _stamp(table.path) != table.stamp:
            raise DataError("The file was written to since its cells were checked. Nothing was spent: check it again.")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with write_whole(summary.target) as folder:
                made = release(
                    str(table.path),
                    schema=summary.schema,
                    epsilon=choices.epsilon,
                    delta=choices.delta,
                    rows_per_person=choices.rows_per_person,
                    ledger=self.ledger,
                    label=summary.target.name,
                    progress=told,
                )
                told("writing", 0, None)
                made.write_files(folder)
        self.folder, self.schema = summary.target, summary.schema
        self.released = {
            "folder": str(summary.target),
            "epsilon": made.receipt.spent.epsilon,
            "delta": made.receipt.spent.delta,
            "outcome": made.receipt.outcome,
            "warnings": [str(one.message) for one in said],
            "files": sorted(file.name for file in summary.target.iterdir()),
            "schema": summary.schema.to_toml(),
            "command_line": command_line(choices),
            "python": python_script(choices),
            "ledger": self._left(),
        }
        return self.released

    def verify(self) -> dict[str, Any]:
        """Check the release as somebody would who got it."""
        folder = self._release_folder()
        return self.jobs.start("verify", lambda told: _verified(folder, told))

    def file(self, name: str) -> Path:
        """Return a file of the release; its name must be one of those in the folder."""
        found = {path.name: path for path in self._release_folder().iterdir() if path.is_file()}
        if name not in found:
            raise ReleaseError("There is no such file in the release.")
        return found[name]

    def _release_folder(self) -> Path:
        if self.folder is None:
            raise ConflictError("Nothing was released yet.")
        return self.folder

    def _opened_table(self, form: Form) -> OpenTable:
        """Return the table that is open, for a form that was drafted for it and not for one before."""
        if self.table is None:
            raise ConflictError("No table is open. Open one first.")
        if form.get("table") != self.table.number:
            raise ConflictError(f"{self.table.name} was opened since, perhaps in another tab. Reload this page.")
        return self.table

    def _target(self, name: object) -> Path:
        """Return the folder of the release, which is new and inside the folder of the studio."""
        if not isinstance(name, str) or not _FOLDER.fullmatch(name) or name[-1] in " .":
            raise ReleaseError("The release folder must be a plain name: letters, digits, blanks, . + - and _.")
        target = self.place / name
        if target.exists() or target.is_symlink():
            raise ReleaseError(f"{target} exists already. Choose another name.")
        return target

    def _left(self) -> str | None:
        from smoothsynth.accounting.ledger import LedgerFile

        return None if self.ledger is None else LedgerFile(self.ledger).read().left_in_words()

    def _refuse_beyond_ledger(self, made: Plan) -> None:
        from smoothsynth.accounting.ledger import LedgerFile
        from smoothsynth.pipeline.run import protected_rows

        if self.ledger is not None:
            file = LedgerFile(self.ledger)
            together = protected_rows(made.schema, made.rows_per_person, file)
            file.read().refuse(made.charges, rows_per_person=together, planned=made.charges)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        raise DataError(f"{path.name} is gone. Choose another table.") from None
    return found.st_size, found.st_mtime_ns


def _shown(report: CheckReport) -> dict[str, Any]:
    found = report.as_dict()
    for one, column in zip(report.columns, found["columns"], strict=True):
        column["findings"] = proposals(one.findings)
    return found


def _plan_facts(made: Plan) -> dict[str, Any]:
    from smoothsynth.accounting.charges import MOST_DELTA
    from smoothsynth.pipeline.forecast import NO_DEPENDENCE

    notes = [] if made.discovery is None else list(made.discovery.sentences(made.rows))
    if len(made.schema.names) > 1 and not made.dependence:
        notes.append(NO_DEPENDENCE)
    return {
        "rows": made.rows,
        "unit": "rows" if made.schema.person is None else "persons",
        "protects": made.protects,
        "cost": {"epsilon": made.cost.epsilon, "delta": made.cost.delta},
        "charges": [{"purpose": one.purpose, "in_words": one.sentence()} for one in made.charges],
        "notes": notes,
        "usual_delta": min(_USUAL_DELTA, MOST_DELTA / made.rows),
    }


def _verified(folder: Path, told: Progress) -> dict[str, Any]:
    from smoothsynth.verification.verify import verify

    told("verifying", 0, None)
    found = verify(folder)
    return {**found.as_dict(), "summary": found.summary}
