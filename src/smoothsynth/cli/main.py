"""The command line: parse, call one function, print."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from smoothsynth._files import why_not_new, write_whole
from smoothsynth.cli.demo import demo
from smoothsynth.cli.federated import federated, update
from smoothsynth.cli.inspect import answer, attack, audit, report, sample, sql, verify
from smoothsynth.cli.ledger import ledger as ledger_commands
from smoothsynth.cli.start import ABOUT, COMMANDS
from smoothsynth.cli.studio.command import studio
from smoothsynth.cli.walk import one_or_many, schema_name, stop_if_unreadable, walk, write_new
from smoothsynth.errors import ReleaseError, SchemaError
from smoothsynth.pipeline.terminal import (
    EXIT_CODES,
    REFUTED,
    in_words,
    never_fail_to_encode,
    progress_bar,
    say,
    say_json,
    say_released,
    show,
)

if TYPE_CHECKING:
    from smoothsynth.methods.options import Method
    from smoothsynth.schema import Schema


class InOrder(TyperGroup):
    """Commands in the order in which they are needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in order."""
        places = {name: place for place, name in enumerate(COMMANDS)}
        return sorted(self.commands, key=lambda name: places.get(name, len(places)))


app = typer.Typer(
    cls=InOrder,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help=ABOUT,
    epilog=EXIT_CODES,
)

app.command()(demo)
app.command()(studio)
app.command()(audit)
app.command()(answer)
app.command()(report)
app.command()(attack)
app.command()(sample)
app.command()(verify)
app.command()(sql)
app.add_typer(ledger_commands, name="ledger")
app.add_typer(federated, name="federated")
app.command()(update)
# Rooms above this one bring their own commands: the paper's, and those of other packages.
for brought in entry_points(group="smoothsynth.commands"):
    app.add_typer(brought.load(), name=brought.name)

SchemaOption = Annotated[Path, typer.Option("--schema", "-s", help="The schema file: columns, types, public bounds.")]
EpsilonOption = Annotated[float, typer.Option("--epsilon", "-e", help="The privacy budget; smaller protects more.")]
DeltaOption = Annotated[float, typer.Option(help="0 for pure epsilon, or at most 1/(100 rows): 1e-6 for 10,000 rows.")]
MethodOption = Annotated[
    str,
    typer.Option(
        help="auto (best known plan), paper (its mechanism, correct constants) or minimax (the best rate; up to 3 columns)."
    ),
]
CandidatesOption = Annotated[
    str | None, typer.Option(help="Where rows may lie: model (of the noisy moments), hypercube, grid or ellipsoid.")
]
FitOption = Annotated[str | None, typer.Option(help="'maximum entropy' or 'linear program'.")]
SizeOption = Annotated[
    int | None, typer.Option("--size", help="How many synthetic rows [default: as many as rows, at most a million].")
]
PersonOption = Annotated[
    int,
    typer.Option(
        help="The most rows that one person can have in the table; with `person` in the schema, the most that are taken."
    ),
]
FeaturesOption = Annotated[
    int | None, typer.Option(help="With --method paper: how many lowest basis functions to measure.")
]
SmoothnessOption = Annotated[
    int | None,
    typer.Option(
        help="The order K of the queries that matter (a kernel of width s: K = s^2) [default: 16; minimax: 2]."
    ),
]
BoundsShareOption = Annotated[
    float, typer.Option(help="The share of the budget that finds bounds which the schema calls private.")
]
LevelsShareOption = Annotated[
    float, typer.Option(help="The share of the budget that finds levels which the schema calls private.")
]
CodesShareOption = Annotated[
    float, typer.Option(help="The share of the budget that finds codes which the schema calls private.")
]
TablesOption = Annotated[
    int | None,
    typer.Option(
        help="How many tables of two and three columns are measured; by default as many as the rows allow, 0 is none."
    ),
]
TargetOption = Annotated[
    list[str] | None,
    typer.Option(help="A column that all these tables hold, such as what will be predicted; can be repeated."),
]
FocusOption = Annotated[
    str | None,
    typer.Option(help="Lean towards queries, marginals, correlations, or stay balanced [default: balanced]."),
]
EngineOption = Annotated[
    str | None, typer.Option(help="Where the rows are summed: local, spark or dask; the result is the same bits.")
]
MasterOption = Annotated[
    str | None, typer.Option(help="With --engine spark: the master, such as spark://host:7077, yarn or local[*].")
]
MemoryOption = Annotated[
    str | None, typer.Option(help="How much memory reading and summing may take [default: 1GiB; docs/scaling.md].")
]
SchedulerOption = Annotated[
    str | None, typer.Option(help="With --engine dask: the scheduler, such as tcp://host:8786.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
CsvOption = Annotated[
    bool, typer.Option("--csv/--no-csv", help="Also write the rows and their codebook as CSV, for R and spreadsheets.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing release in that folder.")]
DecimalOption = Annotated[
    str | None, typer.Option(help="The decimal sign of numbers in text, such as , [schema: decimal].")
]
DateOption = Annotated[
    list[str] | None,
    typer.Option(help="How days are written, such as %d.%m.%Y; can be repeated [schema: date_format]."),
]
NullOption = Annotated[
    list[str] | None,
    typer.Option(help="A cell that means a missing one, such as 999; repeatable [schema: null_values]."),
]
DelimiterOption = Annotated[
    str | None,
    typer.Option(help="What is between the cells of a CSV file: , ; | : or tab [schema: delimiter in file]."),
]
EncodingOption = Annotated[
    str | None, typer.Option(help="The encoding of a CSV file, such as cp1252 [schema: encoding in file].")
]
SheetOption = Annotated[
    str | None, typer.Option(help="The sheet of an Excel file [default: the first; schema: sheet].")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]


def _version(value: bool) -> None:  # noqa: FBT001
    if value:
        from smoothsynth._runtime import VERSION

        say(f"smoothsynth {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    pass


@app.command()
@in_words
def schema(
    data: Annotated[Path, typer.Argument(help="A CSV, Excel or Parquet file.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it [default: print].")] = None,
    names: Annotated[
        str | None, typer.Option(help="The names of the columns, such as a,b,c, if the first line of a CSV has none.")
    ] = None,
    private: Annotated[
        bool,
        typer.Option("--private", help="Write all bounds and levels as private: a release finds and pays for them."),
    ] = False,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    sheet: SheetOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Draft a schema file by looking at the cells: names, types, formats; bounds are left for you to fill in.

    Bounds must be public knowledge (a code book, a law, the range of an instrument), so they are never
    read from the data here. Where nobody knows them, write "private": a release finds them, for a part of its budget.
    The draft is PRIVATE as long as its comments are in it: they tell of the cells without noise.

    Example:  **smoothsynth schema patients.csv -o schema.toml**
    """
    from smoothsynth.pipeline.check import draft, guessed_format

    if output is not None and (output.absolute().parent / "receipt.json").is_file():
        raise SchemaError(f"{output} is inside a release folder, and a draft is private. Write it elsewhere.")
    if output is not None and not force and (problem := why_not_new(output)):
        raise SchemaError(problem + (" Or replace it with --force." if output.is_file() else ""))
    called = None if names is None else [name.strip() for name in names.split(",")]
    file = replace(guessed_format(str(data)), **_file(delimiter, encoding, sheet))
    text = draft(str(data), names=called, private=private, file=file)
    if output is not None:
        write_new(output, text, force=force)
    if as_json:
        say_json({"schema": text, "wrote": None if output is None else str(output)})
        return
    if output is None:
        say(text, nl=False)
        return
    say(f"Wrote {output}. Fill in the bounds, then run: smoothsynth check {data} --schema {output}")


@app.command()
@in_words
def check(
    data: Annotated[list[str], typer.Argument(help="The private table.")],
    schema: SchemaOption,
    decimal: DecimalOption = None,
    date_format: DateOption = None,
    null_values: NullOption = None,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    sheet: SheetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look at the private cells as a release would read them, and say what it would lose.

    For the owner only, before anything is spent: the share of cells of each column that are missing, cannot be read, lie
    outside the bounds or are no level; what looks like ids, free text, decimal commas, mixed dates, yes and no, codes for a
    missing value, constants and spikes; and what to write into the schema. The report is PRIVATE: nothing in it is noisy.
    The exit code is 3 if most cells of a column would be lost.

    Example:  **smoothsynth check patients.csv --schema schema.toml**
    """
    from smoothsynth.pipeline.check import check as check_rows
    from smoothsynth.report.attack import as_check_tables

    file = _file(delimiter, encoding, sheet)
    described = _described(schema, file, decimal=decimal, date_format=date_format, null_values=null_values)
    with progress_bar(quiet=as_json) as progress:
        found = check_rows(one_or_many(data), described, progress=progress)
    if as_json:
        say_json(found.as_dict())
    else:
        show(*as_check_tables(found), width=120)
    if not found.passed:
        raise typer.Exit(REFUTED)


@app.command()
@in_words
def plan(
    schema: SchemaOption,
    rows: Annotated[int, typer.Option("--rows", "-n", help="The number of rows of the table (public).")],
    epsilon: EpsilonOption,
    delta: DeltaOption = 0.0,
    method: MethodOption = "auto",
    candidates: CandidatesOption = None,
    fit: FitOption = None,
    features: FeaturesOption = None,
    smoothness: SmoothnessOption = None,
    focus: FocusOption = None,
    size: SizeOption = None,
    rows_per_person: PersonOption = 1,
    bounds_share: BoundsShareOption = 0.1,
    levels_share: LevelsShareOption = 0.1,
    codes_share: CodesShareOption = 0.1,
    tables: TablesOption = None,
    target: TargetOption = None,
    target_error: Annotated[
        float | None, typer.Option(help="Also say which epsilon, or how many rows, would keep all noise below this.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a release would measure, what it costs and how accurate it will be; reads no data.

    Example:  **smoothsynth plan --schema schema.toml --rows 20000 --epsilon 1 --target-error 0.01**
    """
    from smoothsynth.pipeline.forecast import needed_epsilon, needed_rows, plan_view, with_delta
    from smoothsynth.pipeline.plan import plan as make_plan
    from smoothsynth.schema import Schema

    described = Schema.load(schema)
    choices: dict[str, Any] = {
        "delta": delta,
        "method": _method(
            method,
            candidates=candidates,
            fit=fit,
            features=features,
            smoothness=smoothness,
            focus=focus,
            tables=tables,
            target=tuple(target) if target else None,
        ),
        "rows_per_person": rows_per_person,
        "bounds_share": bounds_share,
        "levels_share": levels_share,
        "codes_share": codes_share,
    }
    made = make_plan(described, rows, epsilon=epsilon, synthetic_rows=size, **choices)
    needed: dict[str, float | None] = {}
    if target_error is not None:
        needed = {
            "epsilon": needed_epsilon(described, rows, target_error, **choices),
            "rows": needed_rows(described, target_error, epsilon=epsilon, **choices),
        }
    if as_json:
        say_json({**made.as_dict(), **with_delta(made), **({"needed": needed} if needed else {})})
        return
    show(plan_view(made))
    if needed:
        enough = f"epsilon {needed['epsilon']:.3g}" if needed["epsilon"] else "no epsilon up to 100"
        many = f"{needed['rows']:,} rows" if needed["rows"] else "no number of rows that can be measured"
        say(
            f"\nFor noise of at most {target_error:g} on all of these: {enough} with {rows:,} rows, "
            f"or {many} with epsilon {epsilon:g}."
        )


@app.command()
@in_words
def release(
    data: Annotated[
        list[str],
        typer.Argument(
            help="Parquet, CSV, Excel or Arrow files, a folder of Parquet, `year=*/*.parquet`, or an address on the cluster."
        ),
    ],
    epsilon: EpsilonOption,
    schema: Annotated[
        Path | None, typer.Option("--schema", "-s", help="The schema file [default: you are asked, on a terminal].")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The release folder to write [without a schema: NAME-release]."),
    ] = None,
    delta: DeltaOption = 0.0,
    method: MethodOption = "auto",
    candidates: CandidatesOption = None,
    fit: FitOption = None,
    features: FeaturesOption = None,
    smoothness: SmoothnessOption = None,
    focus: FocusOption = None,
    size: SizeOption = None,
    rows_per_person: PersonOption = 1,
    bounds_share: BoundsShareOption = 0.1,
    levels_share: LevelsShareOption = 0.1,
    codes_share: CodesShareOption = 0.1,
    tables: TablesOption = None,
    target: TargetOption = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The data set's ledger: refused if too little is left, else recorded there.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seeds the drawing of rows, never the noise.")] = None,
    engine: EngineOption = None,
    master: MasterOption = None,
    scheduler: SchedulerOption = None,
    memory: MemoryOption = None,
    keep: Annotated[
        Path | None, typer.Option(help="Keep the exact sums in this file, sealed for --key: see smoothsynth update.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="With --keep: your own key (smoothsynth federated key).")] = None,
    prior: Annotated[
        Path | None,
        typer.Option(help="A *public* table of the same columns, or an earlier release folder, to begin with."),
    ] = None,
    csv: CsvOption = True,
    decimal: DecimalOption = None,
    date_format: DateOption = None,
    null_values: NullOption = None,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    sheet: SheetOption = None,
    checked: Annotated[
        bool,
        typer.Option("--check", help="First look at the cells (smoothsynth check), and stop before anything is spent."),
    ] = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a synthetic table and write its release folder, whole or not at all.

    The budget is spent when noise is drawn; a second run spends it again. With **--check** the cells are looked at first: a
    column that is mostly unreadable stops the release with exit code 3, and on a terminal you are asked whether to go on.
    Without **--schema** a terminal asks about each column, shows the check and the plan, and writes the schema file first.

    Example:  **smoothsynth release patients.csv --schema schema.toml --epsilon 1 -o out/ --check**

    Example:  **smoothsynth release patients.csv --epsilon 1**
    """
    from smoothsynth.pipeline.run import release as make_release

    if output is None and schema is not None:
        raise typer.BadParameter("name the release folder to write.", param_hint="'--output' / '-o'")
    output = output or Path(f"{schema_name(data)}-release")
    file = _file(delimiter, encoding, sheet)
    chosen = _method(
        method,
        candidates=candidates,
        fit=fit,
        features=features,
        smoothness=smoothness,
        focus=focus,
        tables=tables,
        target=tuple(target) if target else None,
    )
    if keep is not None and keep.absolute() == output.absolute():
        raise ReleaseError(f"{output} cannot be the release folder and the file of the kept sums. Name another file.")
    with write_whole(output, force=force) as folder:
        if schema is None:
            choices: dict[str, Any] = {"method": chosen, "synthetic_rows": size, "rows_per_person": rows_per_person}
            choices |= {"bounds_share": bounds_share, "levels_share": levels_share, "epsilon": epsilon}
            (schema, delta), checked = walk(data, file=file, delta=delta, choices=choices, ledger=ledger), False
        described = _described(schema, file, decimal=decimal, date_format=date_format, null_values=null_values)
        if checked:
            stop_if_unreadable(data, described)
        with progress_bar(quiet=quiet or as_json) as progress:
            made = make_release(
                one_or_many(data),
                schema=described,
                epsilon=epsilon,
                delta=delta,
                seed=seed,
                method=chosen,
                synthetic_rows=size,
                rows_per_person=rows_per_person,
                bounds_share=bounds_share,
                levels_share=levels_share,
                codes_share=codes_share,
                progress=progress,
                ledger=ledger,
                label=output.name,
                engine=engine or (master and "spark") or (scheduler and "dask"),
                cluster=master or scheduler,
                memory=memory,
                keep=keep,
                key=key,
                prior=prior,
            )
        made.write_files(folder, csv=csv)
    if as_json or not quiet:
        say_released(made.receipt, output, as_json=as_json)


def main() -> None:
    """Run the command line."""
    never_fail_to_encode(sys.stdout, sys.stderr)
    app()


def _described(path: Path, file: dict[str, str], **options: Any) -> Schema:
    """Read a schema file; options are for columns that have none of their own, and `file` for this table whatever it says."""
    from smoothsynth.schema import Schema
    from smoothsynth.schema.file import read_file_format
    from smoothsynth.schema.reading import with_options

    given = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    found = with_options(Schema.load(path), **given)
    return replace(found, file=replace(read_file_format(found.file), **file)) if file else found


def _file(delimiter: str | None, encoding: str | None, sheet: str | None) -> dict[str, str]:
    """Return what the command line says of how a file is written."""
    given = (("delimiter", delimiter), ("encoding", encoding), ("sheet", sheet))
    return {key: value for key, value in given if value is not None}


def _method(name: str, **flags: Any) -> Method:
    """Return the method with the options whose flags were given."""
    from smoothsynth.methods.options import method_with

    return method_with(name, {option: value for option, value in flags.items() if value is not None})
