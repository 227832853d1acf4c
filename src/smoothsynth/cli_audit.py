"""The command that tries to catch the mechanisms leaking."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from smoothsynth.commands import REFUTED, in_words, progress_bar, say, say_json, show


@in_words
def audit(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer trials: about a minute, weaker bounds.")] = False,
    trials: Annotated[
        Optional[int], typer.Option(min=1_000, help="Trials on each table [default: 10,000; with --quick 1,500].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """Try to catch the mechanisms leaking: lower bounds on the epsilon that they really have.

    Every mechanism and the whole pipeline run thousands of times on two tables that differ in one row. What tells
    the tables apart better than epsilon allows would disprove the claim. The paper's constants as printed are put
    to the same test, and must be caught. Needs no data. The exit code is 3 if one of ours exceeds its claim, or if
    a printed one escapes.

    Example:  **smoothsynth audit --quick**
    """
    from smoothsynth.audit import run
    from smoothsynth.audit.show import as_terminal_table

    with progress_bar(quiet=as_json) as progress:
        report = run.run(trials=trials or (run.QUICK_TRIALS if quick else run.TRIALS), progress=progress)
    if as_json:
        say_json(report.as_dict())
    else:
        title = "The paper's constants as printed: not private"
        show(
            as_terminal_table(report.ours, title="Ours", verdicts=("below", "ABOVE ITS CLAIM")),
            as_terminal_table(report.printed, title=title, verdicts=("missed", "caught")),
            width=150,
        )
        say(f"{len(report.ours) + len(report.printed)} bounds in {report.seconds:.0f} s; ", nl=False)
        say(f"the probability that any of them is too high is at most {report.alpha:g} (docs/audit.md).")
    for finding in report.exceeding:
        say(f"Error: {finding.mechanism} shows epsilon >= {finding.bound:.3f}, above its claim.", err=True)
    for name in report.missed:
        say(f"Error: {name} was not caught: too few trials to show anything. Give --trials.", err=True)
    if not report.passed:
        raise typer.Exit(REFUTED)
