"""Watched Spark jobs; package shipping.

A pass on Spark under watch: progress, a cluster that goes away, and no private value in an error or a log.

Spark's own errors quote cells (a cast that fails names the value), and it writes them into the driver's log. None
of them leaves this module; while a pass runs, the loggers of the driver that would print them are silent. The logs
of executors are where the rows are, and are not changed.

The package as one file that can be sent to the machines of a cluster.
"""

from __future__ import annotations

import contextlib
import logging
import re
import tempfile
import threading
import time
import uuid
import warnings
import zipfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import smoothsynth
from smoothsynth.errors import DataError, EngineError, SmoothsynthError
from smoothsynth.private.engines.partial import not_readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


T = TypeVar("T")

# Seconds without any executor after which a cluster counts as gone, and between two looks.
PATIENCE = 60.0
_LOOK = 0.25
# Seconds that the tasks of a failed job are given to end.
_STRAGGLERS = 30.0
_LOCAL_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
_LOGGERS = tuple(
    f"org.apache.spark.{name}"
    for name in ("scheduler.TaskSetManager", "scheduler.DAGScheduler", "executor", "storage", "api", "util", "sql")
)
_GONE = re.compile(
    r"stopped SparkContext|SparkContext was shut down|has been (killed|shut ?down)|removed our application"
    r"|unresponsive|[Cc]onnection (refused|reset)|network connection|Answer from Java side is empty|UNAVAILABLE"
    r"|SESSION_OR_CONTEXT_NOT_EXISTS|'NoneType' object has no attribute"
)
_LOST = re.compile(r"ExecutorLostFailure|exited unexpectedly|OutOfMemory|MetadataFetchFailed|FetchFailed")
_MODULE = re.compile(r"No module named '(smoothsynth|numpy|pyarrow|pandas)\b")
_PYTHON = re.compile(r"PYTHON_VERSION_MISMATCH|different minor version|Cannot run program")


def attempt(action: Callable[[], T], *, reading: str = "") -> T:
    """Do something with Spark; a foreign error, which may quote values, is replaced and not chained."""
    try:
        return action()
    except SmoothsynthError:
        raise
    except Exception as error:
        problem = _in_words(error)
    raise not_readable(reading) if reading and isinstance(problem, DataError) else problem


def run(
    context: Any,
    action: Callable[[], T],
    *,
    loggers: Sequence[logging.Logger],
    rows: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> T:
    """Run a job under watch, with Python's `loggers` silent. Without a context (Spark Connect) nothing can be watched."""
    with _silent_python(loggers):
        if context is None:
            return attempt(action)
        watch = attempt(lambda: _Watch(context, rows, progress))
        problem: BaseException | None = None
        with _silent_java(context), watch:
            try:
                result = attempt(action)
            except SmoothsynthError as error:
                # A job that was running when its cluster was stopped can fail with any error.
                problem = _gone() if _stopped(context) else error
                watch.wait_for_stragglers()
    problem = watch.reason or problem
    if problem is not None:
        raise problem
    return result


class _Watch:
    """Looks after a job from a thread of its own: says how far it is, and ends it where nobody works on it."""

    def __init__(self, context: Any, rows: int, progress: Callable[[int, int], None] | None) -> None:
        self._context, self._rows, self._progress = context, rows, progress
        self._group, self._done = f"smoothsynth-{uuid.uuid4()}", 0
        self._local = bool(context._jsc.sc().isLocal())
        self._ended, self._thread = threading.Event(), threading.Thread(target=self._look, daemon=True)
        self.reason: BaseException | None = None

    def __enter__(self) -> None:
        self._before = [self._context.getLocalProperty(name) for name in _LOCAL_PROPERTIES]
        self._context.setJobGroup(self._group, "smoothsynth: exact sums", interruptOnCancel=True)
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(Exception):
            if kind is not None:  # Ctrl-C: nobody waits for the job any more
                self._context.cancelJobGroup(self._group)
            for name, value in zip(_LOCAL_PROPERTIES, self._before, strict=True):
                self._context.setLocalProperty(name, value)

    def wait_for_stragglers(self) -> None:
        """Wait until the other tasks of a failed job have ended: each of them logs once more why it was stopped."""
        with contextlib.suppress(Exception):
            tracker, deadline = self._context.statusTracker(), time.monotonic() + _STRAGGLERS
            while self._active(tracker) and time.monotonic() < deadline:
                time.sleep(_LOOK)

    def _active(self, tracker: Any) -> int:
        return sum(stage.numActiveTasks for stage in self._stages(tracker))

    def _stages(self, tracker: Any) -> list[Any]:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        return [stage for stage in stages if stage is not None]

    def _look(self) -> None:
        seen = time.monotonic()
        while not self._ended.wait(_LOOK):
            try:
                if self._local or self._context._jsc.sc().getExecutorMemoryStatus().size() > 1:
                    seen = time.monotonic()
                if time.monotonic() - seen > PATIENCE:
                    raise EngineError(
                        f"The Spark cluster must have an executor and had none for {PATIENCE:.0f} seconds. Look at its "
                        "master, and release again; no noise was drawn by this pass and nothing was charged for it."
                    )
                rows = self._rows_done()
            except EngineError as error:
                return self._cancel(error)
            except Exception:
                # The status of a context that is being stopped cannot be asked for; the job itself will say so.
                return None
            try:
                self._report(rows)
            except BaseException as error:
                return self._cancel(error)
        return None

    def _cancel(self, reason: BaseException) -> None:
        """End the job, again and again: a part of it may not have been submitted yet."""
        self.reason = reason
        with contextlib.suppress(Exception):
            while not self._ended.is_set():
                self._context.cancelJobGroup(self._group)
                self._ended.wait(_LOOK)

    def _rows_done(self) -> int:
        """Estimate the rows by the tasks that are done of the stage with most of them, which goes through the rows."""
        if self._progress is None:
            return 0
        tasks = [(stage.numTasks, stage.numCompletedTasks) for stage in self._stages(self._context.statusTracker())]
        count, done = max(tasks, default=(1, 0))
        return self._rows * done // max(count, 1)

    def _report(self, rows: int) -> None:
        if self._progress is not None and self._done < rows < self._rows:
            self._done = rows
            self._progress(rows, self._rows)


@contextlib.contextmanager
def _silent_python(loggers: Sequence[logging.Logger]) -> Iterator[None]:
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        with warnings.catch_warnings():
            # PySpark warns of the version of pandas, which is not used here.
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def _silent_java(context: Any) -> Iterator[None]:
    """Silence the loggers on the driver that print the text of a failed task."""
    before = _set_levels(context, dict.fromkeys(_LOGGERS, "OFF"))
    try:
        yield
    finally:
        _set_levels(context, before)


def _set_levels(context: Any, levels: dict[str, str | None]) -> dict[str, str | None]:
    """Set the levels of loggers in the driver's Java, and return those they had; None for one that has no own level."""
    before: dict[str, str | None] = {}
    with contextlib.suppress(Exception):
        log4j = context._jvm.org.apache.logging.log4j
        loggers = log4j.LogManager.getContext(False)  # noqa: FBT003
        for name, level in levels.items():
            own = loggers.getConfiguration().getLoggers().get(name)
            before[name] = None if own is None else own.getLevel().toString()
            if level is None:
                loggers.getConfiguration().removeLogger(name)
            else:
                log4j.core.config.Configurator.setLevel(name, log4j.Level.toLevel(level))
        loggers.updateLoggers()
    return before


def _stopped(context: Any) -> bool:
    try:
        return bool(context._jsc.sc().isStopped())
    except Exception:
        return True


def _gone() -> EngineError:
    return EngineError(
        "The Spark cluster must be there during the whole pass, and is gone: its session was stopped or cannot be "
        "reached. Start a new session, and release again; nothing was charged for this pass."
    )


def _in_words(error: Exception) -> SmoothsynthError:
    """Say what went wrong without a word of the error itself."""
    text = type(error).__name__
    with contextlib.suppress(Exception):
        text = f"{text}: {error}"
    if found := _MODULE.search(text):
        return EngineError(
            f"The Python of every executor must have {found[1]}, and one has not. Install numpy, pyarrow and pandas on "
            "all machines of the cluster, and name that Python in PYSPARK_PYTHON (smoothsynth itself is sent along)."
        )
    if _PYTHON.search(text):
        return EngineError(
            "The executors must run the same version of Python as this program and do not. Name it in PYSPARK_PYTHON."
        )
    if _LOST.search(text):
        return EngineError(
            "The executors must live through the pass, and one was lost again and again. Give them more memory "
            "(spark.executor.memoryOverhead), and release again; nothing was charged for this pass."
        )
    if _GONE.search(text):
        return _gone()
    return DataError(
        "Spark must be able to compute every row of the frame, and failed. Look at the frame with Spark itself: its "
        "error may quote rows and is not repeated here. Nothing was charged for this pass."
    )


# Kept until this process ends: a machine that joins late still asks for the file.
_folders: list[tempfile.TemporaryDirectory[str]] = []


@cache
def packed_package() -> Path:
    """Write the sources of this package into a zip file; its name changes with its contents."""
    root = Path(smoothsynth.__file__).parent
    sources = [(path.relative_to(root.parent).as_posix(), path.read_bytes()) for path in sorted(root.rglob("*.py"))]
    digest = sha256(b"\0".join(part for name, text in sources for part in (name.encode(), text)))
    _folders.append(tempfile.TemporaryDirectory(prefix="smoothsynth-"))
    target = Path(_folders[-1].name) / f"smoothsynth-{digest.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sources:
            archive.writestr(name, text)
    return target
