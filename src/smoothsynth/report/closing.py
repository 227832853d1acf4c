"""The last sections of the page: what was spent, what the release cannot tell, how to cite and verify it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from smoothsynth.report.tables import count, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.report.contents import Contents

_COMMANDS = """\
smoothsynth verify out/                     # hashes, schema, receipt, moments against rows
sha256sum synthetic.parquet moments.json    # compare with the figures above
smoothsynth report out/ -o again.html       # draws this page again, byte for byte"""


def spent_intro(contents: Contents) -> str:
    """Say how much was spent in all."""
    receipt = contents.receipt
    spent, budget = receipt.spent, receipt.budget
    delta = f" and delta = {budget.delta:g}" if budget.delta else ""
    together = "Costs of Gaussian noise add up as 1/m²." if any(c.multiplier for c in receipt.charges) else ""
    return (
        f"{count(len(receipt.charges), 'measurement')} of exact sums over the private rows, each released once with noise. "
        f"Together they cost epsilon = {spent.epsilon:.6g} of {budget.epsilon:g}{delta}. {together}"
    ).rstrip()


def charges(contents: Contents) -> str:
    """List the charges: what for, how many numbers, which share, which noise."""
    lines = [
        f'<tr><th scope="row">{escape(c.purpose)}</th><td class="number" data-label="Numbers">{c.numbers:,}</td>'
        f'<td class="number" data-label="Share">{100 * c.share:.3g} %</td>'
        f'<td class="number" data-label="Cost">{escape(c.cost)}</td>'
        f"<td>{escape(c.noise)}<details><summary>In full</summary>"
        f'<p class="words">{escape(c.in_words)}</p></details></td></tr>'
        for c in contents.spending
    ]
    return table(
        ["Measured", "Numbers", "Share", "Cost", "Noise"], lines, label="What was spent on what", numbers={1, 2, 3}
    )


def limits(contents: Contents) -> str:
    """List what the release cannot tell."""
    items = "".join(f"<div><h3>{escape(x.title)}</h3><p>{escape(x.text)}</p></div>" for x in contents.limits)
    return f'<div class="limits">{items}</div>'


def _constraints(texts: Sequence[str]) -> str:
    """List what was known of the rows beforehand, and holds for the synthetic ones."""
    if not texts:
        return ""
    lines = "".join(f"<li><code>{escape(text)}</code></li>" for text in texts)
    return f"<p>Public facts that the rows were made to satisfy:</p><ul>{lines}</ul>"


def verify(contents: Contents) -> str:
    """Say how to cite the release, what its files are and how to check them."""
    receipt = contents.receipt
    lines = [
        f'<tr><th scope="row">{escape(name)}</th><td class="hash">{escape(digest)}</td></tr>'
        for name, digest in sorted(contents.hashes.items())
    ]
    rows_hash = next(iter(contents.hashes.values()), "")
    delta = f", delta = {receipt.budget.delta:g}" if receipt.budget.delta else ""
    cite = (
        f"Synthetic table of {receipt.synthetic_rows:,} rows and {len(receipt.schema.names)} columns, differentially private "
        f"with epsilon = {receipt.budget.epsilon:g}{delta}. Made with smoothsynth {receipt.version}. "
        f"SHA-256 {rows_hash[:16]}…"
    )
    made = (
        f"Method: {receipt.method}. Candidates: {receipt.candidates}. Fit: {receipt.fit}. {receipt.outcome} "
        f"Software: smoothsynth {receipt.version}."
    )
    return (
        f'<div class="columns-of-text"><div><h3>Cite</h3><p>{escape(cite)}</p></div><div><h3>How the rows were made</h3>'
        f"<p>{escape(made)}</p>{_constraints(receipt.schema.constraints)}</div></div><h3>The files of the release</h3>"
        + table(["File", "SHA-256"], lines, label="Hashes of the files", numbers=set())
        + '<h3>Check it yourself</h3><pre tabindex="0" aria-label="Commands that verify the release"><code>'
        f"{escape(_COMMANDS)}</code></pre>"
        "<p>The receipt (receipt.json) lists every charge, and the hash of this page. Whoever holds the folder can check "
        "that the noise fits the charges, that the charges add up to the budget and that the rows fit the moments; "
        "nobody can check, from the release, that the noise was really random.</p>"
    )
