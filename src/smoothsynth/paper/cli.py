"""The commands about the paper: its tables and its rates, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothsynth._files import why_not_beside
from smoothsynth.errors import DataError, ReleaseError
from smoothsynth.pipeline.terminal import in_words, progress_bar, say, show

paper = typer.Typer(
    no_args_is_help=True,
    help="The paper (Jin et al.): its tables and rates run again, beside ours. Public data only.",
    rich_markup_mode="markdown",
)


@paper.command()
@in_words
def tables(
    data: Annotated[Path | None, typer.Option(help="Folder with the public data sets [SMOOTHSYNTH_DATA].")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results.")] = Path("paper-tables"),
    quick: Annotated[
        bool, typer.Option("--quick", help="3 rounds and 1,000 queries, the four small data sets.")
    ] = False,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds to average over.")] = 20,
    queries: Annotated[int, typer.Option(min=1, help="Random queries for each sigma and round.")] = 10_000,
    only: Annotated[list[str] | None, typer.Option(help="Names of data sets, such as wdbc.")] = None,
) -> None:
    """Run the four result tables again: printed figure, as printed, correct constants, auto, baselines.

    Interrupted, it goes on where it stopped when it is started again with the same output folder.

    Example:  **smoothsynth paper tables --data DIR --quick**
    """
    from smoothsynth.paper import reproduction
    from smoothsynth.paper.tables import as_page, as_terminal_table, result_tables, run

    folder = reproduction.data_folder(str(data) if data else None)
    small = tuple(name for name in reproduction.NAMES if not name.startswith("pam"))
    found, missing = reproduction.available(folder, tuple(only) if only else small if quick else reproduction.NAMES)
    if not found:
        raise DataError(f"None of {', '.join(missing)} is in {folder}. Name the folder with --data.")
    for name in missing:
        say(f"skipped: {name} is not in {folder}", err=True)
    rounds, queries = (3, 1_000) if quick else (rounds, queries)
    _make_folder(output)
    with progress_bar(quiet=False) as report:
        results = run(
            found,
            output,
            rounds=rounds,
            queries=queries,
            progress=(lambda done, total, text: report(text, done, total)) if report else None,
        )
    made = result_tables(results)
    show(*map(as_terminal_table, made), width=170)
    note = (
        f"{rounds} rounds, {queries:,} queries per sigma. Runs as printed are not private and have no receipt; like the "
        "paper's figures they scale columns by the data's own range, the private runs and baselines by public bounds, so "
        "only on CRM (where both are 0 to 1) are the queries the same."
    )
    (output / "tables.html").write_text(as_page(made, note=note), encoding="utf-8")
    say(f"{note} Wrote {output / 'results.csv'} and {output / 'tables.html'}.")


@paper.command()
@in_words
def rates(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results.")] = Path("paper-rates"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes and rounds: about a minute.")] = False,
    releases: Annotated[
        bool, typer.Option("--releases", help="Whole releases, auto and minimax, instead of the mechanisms.")
    ] = False,
) -> None:
    """Measure the error against the number of rows: Algorithm 1, its variant, degree-weighted noise; slopes and theory.

    Example:  **smoothsynth paper rates --quick**
    """
    from smoothsynth.paper.rates import run_rates

    _make_folder(output)
    with progress_bar(quiet=False) as report:
        found = run_rates(
            quick=quick,
            output=output,
            releases=releases,
            progress=(lambda done, total, text: report(text, done, total)) if report else None,
        )
    say(found.text())
    say(f"Wrote {output / 'rates.csv'}, {output / 'slopes.csv'} and {output / 'rates.svg'}.")


def _make_folder(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError):
        raise ReleaseError(f"{output} must be a folder, and none can be made there. Choose another place.") from None
    if problem := why_not_beside(output / "results.csv"):
        raise ReleaseError(problem)
