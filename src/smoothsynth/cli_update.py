"""The command for new rows that come after a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from smoothsynth.commands import in_words, progress_bar, say
from smoothsynth.errors import StudyError


@in_words
def update(
    store: Annotated[Path, typer.Argument(help="The sealed sums that an earlier release kept (release --keep).")],
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="The budget of this release.")],
    key: Annotated[Path, typer.Option("--key", "-k", help="Your own private key, with which the sums were kept.")],
    data: Annotated[
        Optional[list[str]], typer.Argument(help="The new rows only; without them the stored rows are released again.")
    ] = None,
    delta: Annotated[
        float, typer.Option(help="0 for pure epsilon, or at most 1/(100 rows): 1e-6 for 10,000 rows.")
    ] = 0.0,
    output: Annotated[Optional[Path], typer.Option("--output", "-o", help="The release folder to write.")] = None,
    ledger: Annotated[
        Optional[Path], typer.Option(help="The data set's ledger: this release is recorded there.")
    ] = None,
    size: Annotated[Optional[int], typer.Option(help="How many synthetic rows [default: as many as rows].")] = None,
    rows_per_person: Annotated[
        Optional[int], typer.Option(help="The most rows of one person, old and new [default: as before].")
    ] = None,
    seed: Annotated[Optional[int], typer.Option(help="Seeds the drawing of rows, never the noise.")] = None,
    memory: Annotated[Optional[str], typer.Option(help="How much memory reading and summing may take.")] = None,
    cost_only: Annotated[bool, typer.Option("--cost", help="Say what it would cost, and stop.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Also write synthetic.csv.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Release the rows so far and new ones, without reading the old ones again.

    Whoever is in an earlier release too spends again; what all releases cost together is said before anything is read
    (with --cost, that is all). The store takes in the new rows.

    Example:  **smoothsynth update patients.sums march.csv -e 1 --delta 1e-6 -k owner.key --ledger patients.ledger -o march**
    """
    from smoothsynth._files import write_whole
    from smoothsynth.pipeline.update import update as make_update
    from smoothsynth.pipeline.update import update_cost

    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "key": key, "ledger": ledger}
    budget["rows_per_person"] = rows_per_person
    if cost_only:
        say(str(update_cost(store, **budget)))
        return
    if output is None:
        raise StudyError("Name the release folder to write with -o (or say --cost to see only what it would cost).")
    with write_whole(output) as place:
        with progress_bar(quiet=quiet) as progress:
            made = make_update(
                store,
                None if not data else data[0] if len(data) == 1 else data,
                **budget,
                seed=seed,
                label=output.name,
                synthetic_rows=size,
                memory=memory,
                progress=progress,
                cost=None if quiet else lambda cost: say(str(cost)),
            )
        made.write_files(place, csv=csv)
    if not quiet:
        say(f"Wrote {output}: {made.receipt.synthetic_rows:,} synthetic rows.")
        say(made.receipt.promise())
