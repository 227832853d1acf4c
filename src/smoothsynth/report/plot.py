"""Pictures of a release: its columns, pairs of them, correlations, and answers with their intervals.

All of it is drawn from the synthetic rows and the released moments. Matplotlib is imported here only, and late.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from smoothsynth.answer.estimate import Estimate
from smoothsynth.errors import PlanError, meant
from smoothsynth.report.limits import correlations
from smoothsynth.schema import Boolean, Category, unknown_column

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from smoothsynth.pipeline.release import Release

MOST_COLUMNS, MOST_IN_PAIRS, MOST_CORRELATED = 30, 6, 40
_MOST_LEVELS, _BINS, _MOST_POINTS = 12, 32, 2_000
_LONGEST = 28


class Picture(Figure):
    """A figure of matplotlib that a notebook shows once, whether or not pyplot is in use."""

    def _repr_png_(self) -> bytes:
        page = io.BytesIO()
        self.savefig(page, format="png", bbox_inches="tight")
        return page.getvalue()


def plot(
    release: Release, what: str | Sequence[str] = "columns", *, columns: Sequence[str] | None, confidence: float
) -> Figure:
    """Draw "columns", "pairs" or "correlations" of the synthetic rows, or the answers to questions."""
    if isinstance(what, str) and what in DRAWN:
        return DRAWN[what](release, columns)
    questions = [what] if isinstance(what, str) else list(what)
    for question in questions:
        if not isinstance(question, str) or "(" not in question:
            known = question in release.schema.columns
            hint = f". To draw a column: columns=[{question!r:.80}]" if known else meant(str(question), DRAWN)
            raise PlanError(
                f"plot draws {', '.join(DRAWN)}, or a question such as 'avg(age)'; not {question!r:.80}{hint}"
            )
    return _answers(release, questions, confidence=confidence)


def _chosen(release: Release, columns: Sequence[str] | None, most: int) -> list[str]:
    """Return the columns to draw: those that are named, or the first ones."""
    names = list(release.schema.names if columns is None else [columns] if isinstance(columns, str) else columns)
    for name in names:
        if name not in release.schema.columns:
            raise PlanError(unknown_column(str(name), release.schema.names))
    if columns is not None and len(names) > most:
        raise PlanError(f"At most {most} columns are drawn at once; {len(names)} are named. Name fewer.")
    if not names:
        raise PlanError("There is no column to draw.")
    return names[:most]


def _columns(release: Release, columns: Sequence[str] | None) -> Figure:
    names = _chosen(release, columns, MOST_COLUMNS)
    wide = min(3, len(names))
    tall = math.ceil(len(names) / wide)
    figure = Picture(figsize=(4.0 * wide, 2.6 * tall), layout="constrained")
    for place, name in enumerate(names):
        _column(release, name, figure.add_subplot(tall, wide, place + 1))
    return figure


def _column(release: Release, name: str, axes: Any) -> None:
    """Draw the shares of levels, or a histogram of values, over all synthetic rows."""
    column, cells = release.schema.columns[name], release.table[name]
    there = cells.drop_null()
    if isinstance(column, (Category, Boolean)):
        labels, shares = _shares(there, len(cells))
        axes.barh(labels[::-1], shares[::-1])
    elif len(there):
        values = there.to_numpy()
        axes.hist(values, bins=_BINS, weights=np.full(len(values), 1.0 / len(cells)))
        if values.dtype.kind == "M":
            # Side by side, the ticks of a narrow picture run into each other.
            axes.tick_params("x", rotation=30)
    missing = f", {cells.null_count / len(cells):.1%} missing" if column.nullable else ""
    axes.set_title(_plain(name) + missing, fontsize="medium")


def _shares(cells: Any, rows: int) -> tuple[list[str], list[float]]:
    values, counts = np.unique(np.asarray(cells.to_pylist(), dtype=str), return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_LEVELS]
    return [_plain(values[k]) for k in order], [float(counts[k] / rows) for k in order]


def _pairs(release: Release, columns: Sequence[str] | None) -> Figure:
    names = _chosen(release, columns, MOST_IN_PAIRS)
    points = [_coded(release, name) for name in names]
    figure = Picture(figsize=(2.2 * len(names),) * 2, layout="constrained")
    for place, axes in enumerate(np.ravel(figure.subplots(len(names), len(names), squeeze=False))):
        row, column = divmod(place, len(names))
        if row == column:
            _column(release, names[row], axes)
            continue
        axes.plot(points[column], points[row], ".", markersize=2, alpha=0.4, rasterized=True)
        axes.set_xlabel(_plain(names[column]) if row == len(names) - 1 else "")
        axes.set_ylabel(_plain(names[row]) if column == 0 else "")
    return figure


def _coded(release: Release, name: str) -> NDArray[Any]:
    """Return the first rows of a column, levels by their place in the schema, what is missing as not a number."""
    column, cells = release.schema.columns[name], release.table[name].slice(0, _MOST_POINTS)
    if isinstance(column, Category):
        codes = {str(level): float(code) for code, level in enumerate(column.texts)}
        return np.array([codes.get(str(cell), math.nan) for cell in cells.to_pylist()])
    values: NDArray[Any] = cells.to_numpy()
    return values.astype(np.float64) if isinstance(column, Boolean) else values


def _correlations(release: Release, columns: Sequence[str] | None) -> Figure:
    """Draw correlations of columns, of categories the strongest level; those below their noise are in brackets."""
    names = _chosen(release, columns, MOST_CORRELATED)
    found = correlations(release, names)
    size = max(4.0, 0.55 * len(names) + 2.0)
    figure = Picture(figsize=(size + 1.0, size), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(found.values, vmin=-1.0, vmax=1.0, cmap="RdBu_r")
    labels = [_plain(name) for name in names]
    axes.set_xticks(range(len(names)), labels, rotation=90)
    axes.set_yticks(range(len(names)), labels)
    for (row, column), value in np.ndenumerate(found.values):
        seen = row == column or found.visible[row, column]
        words = f"{value:.2f}" if seen else f"({value:.2f})"
        axes.text(column, row, words, ha="center", va="center", fontsize="x-small")
    figure.colorbar(image, label="correlation; (below its noise)")
    return figure


def _answers(release: Release, questions: Sequence[str], *, confidence: float) -> Figure:
    """Draw what the synthetic rows say, and the interval for the private rows."""
    labels: list[str] = []
    found: list[Estimate] = []
    for question in questions:
        made = release.answer(question, confidence=confidence)
        groups = {"": made} if isinstance(made, Estimate) else {", ".join(k): v for k, v in made.estimates.items()}
        labels += [f"{level}: {question}" if level else question for level in groups]
        found += groups.values()
    figure = Picture(figsize=(7.0, 1.2 + 0.5 * len(found)), layout="constrained")
    axes = figure.add_subplot()
    values, heights = [one.value for one in found], range(len(found))[::-1]
    widths = [[one.value - one.low for one in found], [one.high - one.value for one in found]]
    axes.errorbar(values, list(heights), xerr=widths, fmt="o", capsize=4)
    axes.set_yticks(list(heights), [_plain(label, 60) for label in labels])
    axes.set_ylim(-0.5, len(found) - 0.5)
    axes.set_xlabel(f"synthetic rows (dot), private rows with {100 * confidence:g} % confidence (line)")
    return figure


def _plain(words: str, longest: int = _LONGEST) -> str:
    """Return words that matplotlib takes for no formula."""
    shown = words if len(words) <= longest else words[: longest - 1] + "\u2026"
    return shown.replace("$", r"\$")


DRAWN: dict[str, Callable[[Release, Sequence[str] | None], Figure]] = {
    "columns": _columns,
    "pairs": _pairs,
    "correlations": _correlations,
}
