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
    Row("adult (24,421 rows): AUC on real rows of boosting trained on synthetic ones", "learning", "adult", "boosting",
        more_is_better=True),
    Row("adult: error of two-way tables", "learning", "adult", "pairs"),
    Row("bank (33,908 rows): AUC", "learning", "bank", "boosting", more_is_better=True),
    Row("Texas, 21 columns: NIST's k-marginal (of 1,000)", "nist", "nist_tx2019, simple", "k-marginal",
        more_is_better=True),
    Row("Massachusetts, the same", "nist", "nist_ma2019, simple", "k-marginal", more_is_better=True),
)  # fmt: skip


def main() -> None:
    """Write both."""
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(with_table(README.read_text(encoding="utf-8"), table()), encoding="utf-8")
    print(f"Wrote {PAGE} and the table of {README}")


def page() -> str:
    """Return the page: every recorded table, under the command that made it."""
    parts = [
        "# Figures\n\nEvery table here was printed by the command above it; `python -m benchmarks figures results` writes this page. "
        "Noise is drawn afresh in each run. What the measures mean: [accuracy](accuracy.md).\n"
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
    path = FOLDER / f"{row.file}.json"
    if not path.is_file():
        return None
    delta = "delta = 1e-05" if row.file == "nist" else "delta = 1e-06"
    one = next((t for t in read(path)["tables"] if t["title"].startswith(row.title) and delta in t["title"]), None)
    if one is None:
        return None
    place = next(i for i, name in enumerate(one["head"]) if row.column in name)
    method = one["head"].index("method")
    found = {line[method]: _figure(line[place], row.part) for line in one["rows"] if row.within in line[0]}
    ours, limit = found.pop(OURS), next((v for name, v in found.items() if "not private" in name), None)
    others = {name: v for name, v in found.items() if v is not None and "not private" not in name and OURS not in name}
    best = (max if row.more_is_better else min)(others, key=lambda name: others[name], default=None)
    assert ours is not None
    wins = best is None or (ours >= others[best]) == row.more_is_better or ours == others[best]
    own = f"**{ours:g}**" if wins else f"{ours:g} (behind)"
    return [row.words, "" if best is None else f"{others[best]:g} ({best})", own, "" if limit is None else f"{limit:g}"]


def _figure(cell: str, part: int | None) -> float | None:
    word = cell if part is None else cell.split(" / ")[part]
    return float(word) if re.fullmatch(r"-?[\d.]+", word) else None


def with_table(text: str, made: str) -> str:
    """Return a text with what is between the marks replaced."""
    start, end = (text.index(mark) for mark in MARKS)
    return f"{text[: start + len(MARKS[0])]}\n\n{made}\n\n{text[end:]}"
