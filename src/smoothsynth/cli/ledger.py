"""The commands about the ledger of a data set: its total, what was spent, what is left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from smoothsynth.errors import LedgerError
from smoothsynth.pipeline.terminal import in_words, say, say_json, show

if TYPE_CHECKING:
    from rich.table import Table

    from smoothsynth.accounting.statement import Statement


ledger = typer.Typer(
    no_args_is_help=True,
    help="The ledger of a data set: its total privacy budget and every charge, in one file that only its owner can "
    "read. Use one ledger for one data set, and name it in every release of it.",
    rich_markup_mode="markdown",
)

FileArgument = Annotated[Path, typer.Argument(help="The ledger of the data set.")]
FORMATS = ("json", "dp-accounting")


@ledger.command("set")
@in_words
def set_total(
    file: FileArgument,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="What all releases together may spend.")],
    delta: Annotated[
        float, typer.Option(help="0 for pure epsilon, or at most 1/(100 rows): 1e-6 for 10,000 rows.")
    ] = 0.0,
    rows_per_person: Annotated[
        Optional[int], typer.Option(help="The most rows that one person can have in the table [default: 1].")
    ] = None,
    pure_epsilon: Annotated[
        Optional[float],
        typer.Option(
            help="Of a total with delta: how much of epsilon to keep for pure noise [default: what the first release needs]."
        ),
    ] = None,
    raised: Annotated[bool, typer.Option("--raise", help="Raise the total of an existing ledger.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """Make the ledger of a data set, or raise its total.

    A total with delta is divided between pure and Gaussian noise before the first Gaussian charge, in the proportions of
    that release; say --pure-epsilon if pure releases shall follow Gaussian ones.

    Example:  **smoothsynth ledger set patients.ledger --epsilon 3 --delta 1e-6**
    """
    from smoothsynth.accounting.charges import Budget
    from smoothsynth.accounting.ledger import LedgerFile

    total = Budget(epsilon, delta)
    if raised and (rows_per_person, pure_epsilon) != (None, None):
        raise LedgerError(
            "The rows of a person and the part for pure noise belong to every charge so far: they cannot be changed with "
            "--raise."
        )
    if raised:
        LedgerFile(file).raise_total(total)
    elif file.exists():
        LedgerFile(file)
        raise LedgerError(f"{file} exists already. To change its total, say --raise.")
    else:
        LedgerFile.create(
            file,
            total,
            rows_per_person=1 if rows_per_person is None else rows_per_person,
            pure_epsilon=pure_epsilon or 0.0,
        )
    if as_json:
        say_json(LedgerFile(file).read().as_dict())
    else:
        say(f"{file}: the total is epsilon = {epsilon:g}, delta = {delta:g}.")


@ledger.command("show")
@in_words
def show_ledger(
    file: FileArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """Show the total, what was spent, what is left, and every charge.

    Example:  **smoothsynth ledger show patients.ledger**
    """
    from smoothsynth.accounting.ledger import LedgerFile
    from smoothsynth.accounting.statement import rounded_up

    statement = LedgerFile(file).read()
    if as_json:
        say_json(statement.as_dict())
        return
    total, (epsilon, delta) = statement.total, statement.spent
    show(
        *([_charges_table(statement)] if statement.lines else []),
        f"Total:  epsilon = {total.epsilon:g}, delta = {total.delta:g}, {_unit(statement)}",
        f"Spent:  epsilon = {rounded_up(epsilon)}, delta = {delta:g}",
        f"Left:   {statement.left_in_words()}",
        *([statement.parts_in_words()] if total.delta else []),
    )


@ledger.command()
@in_words
def export(
    file: FileArgument,
    form: Annotated[str, typer.Option("--format", help="json, or dp-accounting (events of that library).")] = "json",
) -> None:
    """Print every charge as JSON, as it is or as events that the dp_accounting library composes.

    Example:  **smoothsynth ledger export patients.ledger --format dp-accounting**
    """
    from smoothsynth.accounting.ledger import LedgerFile
    from smoothsynth.accounting.statement import accounting_events

    if form not in FORMATS:
        raise LedgerError(f"The format must be one of {', '.join(FORMATS)}, not {form!r}.")
    statement = LedgerFile(file).read()
    document = statement.as_dict()
    if form == "dp-accounting":
        document = {
            "relation": "ADD_OR_REMOVE_ONE",
            "total": document["total"],
            "spent": document["spent"],
            "events": accounting_events(statement.charges),
        }
    say_json(document)


def _charges_table(statement: Statement) -> Table:
    from rich.table import Table

    from smoothsynth.accounting.statement import rounded_up

    table = Table()
    for heading in ("when (UTC)", "release", "what", "noise", "cost"):
        table.add_column(heading, overflow="fold")
    for line in statement.lines:
        charge = line.charge
        pure = charge.epsilon is not None
        cost = f"epsilon {rounded_up(charge.epsilon or 0.0)}" if pure else f"multiplier {charge.multiplier:.6g}"
        cost += f", delta {charge.delta:g}" if charge.delta else ""
        when = line.time.removesuffix("+00:00").replace("T", " ")
        table.add_row(when, line.label, charge.purpose, charge.mechanism, cost)
    return table


def _unit(statement: Statement) -> str:
    if statement.rows_per_person == 1:
        return "for one row."
    return f"for one person (up to {statement.rows_per_person} rows)."
