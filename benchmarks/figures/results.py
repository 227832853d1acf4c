"""Write the page of all figures, and the table of the README, from the results that were recorded (benchmarks/results)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import FOLDER, read

ROOT = Path(__file__).parents[2]
PAGE, README = ROOT / "docs" / "explanation" / "figures.md", ROOT / "README.md"
OURS = "smoothsynth"
MARKS = ("<!-- figures: python -m benchmarks figures results -->", "<!-- end of figures -->")


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the README's table: a column of one recorded table, ours beside the best of the others."""

    words: str
    file: str
    title: str
    column: str
    more_is_better: bool = False
    part: int | None = None
    within: str = ""


ROWS = (
    Row("six clusters in 4 columns, 10^5 rows: relative error of kernels on three of them", "fading", "", "100,000",
        part=1, within="clusters"),
    Row("adult (24,130 rows): AUC on real rows of boosting trained on synthetic ones", "learning", "adult", "boosting",
        more_is_better=True),
    Row("bank (36,169 rows), the same", "learning", "bank", "boosting", more_is_better=True),
    Row("Texas, 21 columns: NIST's k-marginal (of 1,000)", "nist", "nist_tx2019, simple", "k-marginal",
        more_is_better=True),
    Row("Massachusetts, the same", "nist", "nist_ma2019, simple", "k-marginal", more_is_better=True),
    Row("Texas, 10 demographic columns", "nist", "nist_tx2019, demographic", "k-marginal", more_is_better=True),
)  # fmt: skip


def main() -> None:
    """Write both."""
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(with_table(README.read_text(encoding="utf-8"), table()), encoding="utf-8")
    print(f"Wrote {PAGE} and the table of {README}")


def page() -> str:
    """Return the page: every recorded table, under the command that made it."""
    parts = [
        "# Figures\n\nEvery table here was printed by the command above it; `python -m benchmarks figures results` writes "
        "this page. Noise is drawn afresh in each run. What the measures mean: [accuracy](accuracy.md).\n"
    ]
    for path in sorted(FOLDER.glob("*.json")):
        found = read(path)
        parts.append(f"## {path.stem}\n\n    {found['command']}\n\n{found['date']}.\n")
        parts += [f"{one['title']}\n\n{markdown(one['head'], one['rows'])}\n" for one in found["tables"]]
    return "\n".join(parts)


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Return a table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def table() -> str:
    """Return the table of the README."""
    head = ["(epsilon, delta) = (1, 1e-6), NIST 1e-5", "best other", "**smoothsynth**", "real rows, drawn again"]
    return markdown(head, [line for line in map(_line, ROWS) if line])


def _line(row: Row) -> list[str] | None:
    # Peers take long and do not change: they may have been recorded in runs of their own, before ours.
    found: dict[str, float] = {}
    for path in [*sorted(FOLDER.glob(f"{row.file}-peers*.json")), FOLDER / f"{row.file}.json"]:
        found.update(_found(row, path))
    if OURS not in found:
        return None
    ours, limit = found.pop(OURS), next((v for name, v in found.items() if "not private" in name), None)
    others = {name: v for name, v in found.items() if "not private" not in name and OURS not in name}
    best = (max if row.more_is_better else min)(others, key=lambda name: others[name], default=None)
    ahead = best is None or ours == others[best] or (ours > others[best]) == row.more_is_better
    own = f"**{_shown(ours)}**" if ahead else f"{_shown(ours)} (behind)"
    peer = "" if best is None else f"{_shown(others[best])} ({best})"
    return [row.words, peer, own, "" if limit is None else _shown(limit)]


def _shown(value: float) -> str:
    """Return three digits, also where the last of them are 0."""
    return f"{value:.0f}" if value >= 1.0 else f"{value:.3f}" if value >= 0.1 else f"{value:.4f}"


def _found(row: Row, path: Path) -> dict[str, float]:
    """Return the figure of each method that a file of results has."""
    delta = "delta = 1e-05" if row.file == "nist" else "delta = 1e-06"
    kept = read(path)["tables"] if path.is_file() else []
    one = next((table for table in kept if table["title"].startswith(row.title) and delta in table["title"]), None)
    if one is None:
        return {}
    place = next(i for i, head in enumerate(one["head"]) if row.column in head)
    method = one["head"].index("method")
    cells = {line[method]: _figure(line[place], row.part) for line in one["rows"] if row.within in line[0]}
    return {name: figure for name, figure in cells.items() if figure is not None}


def _figure(cell: str, part: int | None) -> float | None:
    word = cell if part is None else cell.split(" / ")[part]
    return float(word) if re.fullmatch(r"-?[\d.]+", word) else None


def with_table(text: str, made: str) -> str:
    """Return a text with what is between the marks replaced."""
    start, end = (text.index(mark) for mark in MARKS)
    return f"{text[: start + len(MARKS[0])]}\n\n{made}\n\n{text[end:]}"
