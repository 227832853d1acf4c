"""The command that asks a release: one question, one estimate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smoothsynth.commands import in_words, say_json, show

if TYPE_CHECKING:
    from smoothsynth.answer.estimate import Estimate


@in_words
def answer(
    folder: Annotated[Path, typer.Argument(help="The release folder.")],
    question: Annotated[
        str, typer.Argument(help='Averages, such as "avg(age)"; columns by name, odd names in quotes.')
    ],
    confidence: Annotated[float, typer.Option("--confidence", "-c", help="How sure the interval shall be.")] = 0.95,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """Answer a question on the synthetic rows, with an interval for what the private rows would say.

    A question is made of averages **avg(...)** of arithmetic on columns: + - * /, power, exp, ln, log10, sqrt, abs, sin, cos,
    tan, tanh, atan, erf, logistic, least, greatest. Comparisons, and, or, not, between, case, floor, ceil and
    round may be used too: what jumps is answered between two smooth questions, with a wider interval. Levels are compared
    with = <> in, missing values with is null; a group is named with where. Rows without a value are left out.

    Example:  **smoothsynth answer out/ "avg(exp(-power((age - 50) / 10, 2)))"**

    Example:  **smoothsynth answer out/ "avg(visits * cost) / avg(visits)" --confidence 0.9**

    Example:  **smoothsynth answer out/ "avg(age >= 50 and age < 60)" --json**

    Example:  **smoothsynth answer out/ "avg(income where region = 'A')"**, **"avg(bmi is null)"**

    Example:  **smoothsynth answer out/ 'avg("blood pressure")'**
    """
    from smoothsynth.pipeline.load import load

    found = load(folder).answer(question, confidence=confidence)
    if as_json:
        say_json({"question": question, **found.as_dict(), "in_words": found.in_words()})
    else:
        _show(found)


def _show(found: Estimate) -> None:
    from rich.table import Table

    table = Table(box=None, show_header=False)
    table.add_row("on the synthetic rows", f"{found.value:.6g}")
    table.add_row(f"interval, {100 * found.confidence:g} %", f"{found.low:.6g} to {found.high:.6g}")
    table.add_row("  noise", f"± {found.noise:.3g}")
    table.add_row(f"  unseen ({found.unseen_is})", f"± {found.unseen:.3g}")
    table.add_row("  sampling of rows", f"± {found.sampling:.3g}")
    table.add_row("  fit, known shift", f"{found.fit + 0.0:+.3g}")
    show(table, found.in_words())
