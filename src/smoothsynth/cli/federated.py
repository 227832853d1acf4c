"""The commands `federated` and `update`.

The commands for several owners of rows: keys, a study, sealed answers, their sum.

The command for new rows that come after a release.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from smoothsynth.errors import FederatedError
from smoothsynth.pipeline.terminal import in_words, progress_bar, say, say_json, say_released

if TYPE_CHECKING:
    from smoothsynth.federated import Site


federated = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="One synthetic table of the rows of several owners (sites), who never show them to each other.\n\n"
    "Everybody makes a **key** once and sends the .pub file. The coordinator **start**s a study; for each round, every "
    "site answers the request with **sum**, and the coordinator **add**s the sealed answers. After the last round "
    "(four, mostly) add writes the release. The coordinator sees exact sums and is trusted with them; sites see "
    "nothing of each other. More: docs/federated.md.",
)

KeyOption = Annotated[Path, typer.Option("--key", "-k", help="Your own private key (smoothsynth federated key).")]
EpsilonOption = Annotated[float, typer.Option("--epsilon", "-e", help="The privacy budget; smaller protects more.")]
DeltaOption = Annotated[float, typer.Option(help="0 for pure epsilon, or at most 1/(100 rows): 1e-6 for 10,000 rows.")]
SeedOption = Annotated[Optional[int], typer.Option(help="Seeds the drawing of rows, never the noise.")]
MemoryOption = Annotated[Optional[str], typer.Option(help="How much memory reading and summing may take.")]
CsvOption = Annotated[
    bool, typer.Option("--csv/--no-csv", help="Also write the rows and their codebook as CSV, for R and spreadsheets.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
StudyArgument = Annotated[Path, typer.Argument(help="The folder of the study.")]


@federated.command()
@in_words
def key(
    file: Annotated[Path, typer.Argument(help="The key file to make, such as north.key.")],
) -> None:
    """Make your key: FILE stays with you (only you can read it), the .pub file beside it goes to the others.

    A key signs what you send and opens what is sealed for you. Make one per site, and one for the coordinator.

    Example:  **smoothsynth federated key north.key**
    """
    from smoothsynth.federated import fingerprint, make_key

    public = make_key(file)
    say(f"Wrote {file}: keep it, keep a copy in a safe place, send it to nobody.")
    say(f"Wrote {file.with_name(file.name.removesuffix('.key') + '.pub')}: send this one.")
    say(f"Fingerprint, to be compared by telephone: {fingerprint(public)}")


@federated.command()
@in_words
def start(
    folder: Annotated[Path, typer.Argument(help="The folder of the study: new, and public throughout.")],
    schema: Annotated[Path, typer.Option("--schema", "-s", help="The schema file that all sites agreed on.")],
    site: Annotated[list[str], typer.Option(help="NAME=ROWS,PUBFILE for each site, such as north=1200,north.pub.")],
    epsilon: EpsilonOption,
    key: KeyOption,
    delta: DeltaOption = 0.0,
    focus: Annotated[
        str, typer.Option(help="Lean towards queries, marginals, correlations, or balanced.")
    ] = "balanced",
    size: Annotated[Optional[int], typer.Option(help="How many synthetic rows [default: as many as rows].")] = None,
    rows_per_person: Annotated[
        int, typer.Option(help="The most rows that one person can have, at all sites together.")
    ] = 1,
    seed: SeedOption = None,
) -> None:
    """Coordinator: plan one release of all sites' rows together, and write the first request.

    Nothing is measured yet. The number of rows of each site becomes public.

    Example:  **smoothsynth federated start study -s schema.toml -e 1 --delta 1e-6 -k coordinator.key
    --site north=1200,north.pub --site south=800,south.pub**
    """
    from smoothsynth import federated as verbs
    from smoothsynth.methods import Adaptive
    from smoothsynth.schema import Schema

    choices: dict[str, Any] = {} if size is None else {"synthetic_rows": size}
    request = verbs.start(
        folder,
        schema=Schema.load(schema),
        sites=_sites(site),
        epsilon=epsilon,
        delta=delta,
        key=key,
        seed=seed,
        rows_per_person=rows_per_person,
        method=Adaptive(focus=focus),
        **choices,
    )
    say(str(verbs.status(folder)))
    say(f"Send {request} to every site; they answer with:")
    say(f"  smoothsynth federated sum {request.name} DATA --key OWN.key --coordinator COORDINATOR.pub -o SITE-1.sealed")


@federated.command("sum")
@in_words
def sums(
    request: Annotated[Path, typer.Argument(help="The request that the coordinator sent.")],
    data: Annotated[list[str], typer.Argument(help="Your table: Parquet, CSV or Arrow files.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The sealed file to write, such as north-1.sealed.")],
    key: KeyOption,
    coordinator: Annotated[
        str, typer.Option(help="The coordinator's .pub file, which you got on another way than the request.")
    ],
    schema: Annotated[
        Optional[Path], typer.Option("--schema", "-s", help="Your schema file: a request for anything else is refused.")
    ] = None,
    ledger: Annotated[
        Optional[Path], typer.Option(help="Your data set's ledger: the whole study is recorded there, once.")
    ] = None,
    memory: MemoryOption = None,
    quiet: QuietOption = False,
) -> None:
    """Site: answer a request with the exact sums of your rows, sealed for the coordinator.

    The sealed file is PRIVATE: send it to the coordinator and to nobody else, then delete it. Your rows stay with you.

    Example:  **smoothsynth federated sum request-1.json patients.csv -k north.key --coordinator coordinator.pub
    --ledger patients.ledger -o north-1.sealed**
    """
    from smoothsynth import federated as verbs
    from smoothsynth.schema import Schema

    with progress_bar(quiet=quiet) as progress:
        verbs.sums(
            request,
            data[0] if len(data) == 1 else data,
            output=output,
            key=key,
            coordinator=coordinator,
            schema=None if schema is None else Schema.load(schema),
            ledger=ledger,
            memory=memory,
            progress=progress,
        )
    if not quiet:
        say(f"Wrote {output}. It is PRIVATE: send it to the coordinator only, and delete it afterwards.")
        if ledger is None:
            say("No ledger was named: note yourself what this study spends of your rows' budget.")


@federated.command()
@in_words
def add(
    folder: StudyArgument,
    files: Annotated[
        Optional[list[Path]], typer.Argument(help="The sealed answers of all sites to the request.")
    ] = None,
    key: KeyOption = Path("coordinator.key"),
    output: Annotated[
        Optional[Path], typer.Option("--output", "-o", help="The release folder to write after the last round.")
    ] = None,
    ledger: Annotated[
        Optional[Path], typer.Option(help="A ledger of your own: the whole study is recorded there with round 1.")
    ] = None,
    csv: CsvOption = True,
    quiet: QuietOption = False,
) -> None:
    """Coordinator: add the sealed answers of all sites, draw noise once, and write the next request or the release.

    Nothing is charged, drawn or written unless every site's answer is there, once, and whole. Delete the sealed files
    afterwards. If all rounds are done, add without files makes the release (again), at no further cost.

    Example:  **smoothsynth federated add study north-1.sealed south-1.sealed -k coordinator.key -o out**
    """
    from smoothsynth import federated as verbs
    from smoothsynth._files import write_whole

    state = verbs.status(folder)
    last = state.round is None or state.round == state.rounds
    if last and output is None:
        raise FederatedError("This is the last round: name the release folder to write with -o. Nothing was added.")
    with progress_bar(quiet=quiet) as progress:
        if not last or output is None:
            made = verbs.add(folder, files or (), key=key, ledger=ledger, progress=progress)
        else:
            with write_whole(output) as place:
                made = verbs.add(folder, files or (), key=key, ledger=ledger, progress=progress)
                if not isinstance(made, Path):
                    made.write_files(place, csv=csv)
    if quiet:
        return
    if isinstance(made, Path):
        say(f"Round {state.round} of {state.rounds} is released. Send {made} to every site.")
    else:
        say_released(made.receipt, output or Path())


@federated.command()
@in_words
def status(folder: StudyArgument, as_json: JsonOption = False) -> None:
    """Say where a study stands: its sites, its budget, and what it waits for.

    Example:  **smoothsynth federated status study**
    """
    from smoothsynth import federated as verbs

    found = verbs.status(folder)
    if as_json:
        say_json({"round": found.round, "rounds": found.rounds, "in_words": str(found)})
    else:
        say(str(found))


def _sites(options: list[str]) -> dict[str, Site]:
    """Read NAME=ROWS,PUBFILE."""
    from smoothsynth.federated import Site

    found: dict[str, Site] = {}
    for option in options:
        name, _, rest = option.partition("=")
        rows, _, key = rest.partition(",")
        if not (name and key and rows.isdecimal()):
            raise FederatedError(
                f"A site must be given as NAME=ROWS,PUBFILE (such as north=1200,north.pub), not {option!r:.80}."
            )
        if name in found:
            raise FederatedError(f"Site {name} is named twice. Each site has one name, one number of rows and one key.")
        found[name] = Site(int(rows), key)
    return found


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
    csv: CsvOption = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
    as_json: JsonOption = False,
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
        cost = update_cost(store, **budget)
        if as_json:
            say_json({"cost": str(cost)})
        else:
            say(str(cost))
        return
    if output is None:
        raise FederatedError("Name the release folder to write with -o (or say --cost to see only what it would cost).")
    with write_whole(output) as place:
        with progress_bar(quiet=quiet or as_json) as progress:
            made = make_update(
                store,
                None if not data else data[0] if len(data) == 1 else data,
                **budget,
                seed=seed,
                label=output.name,
                synthetic_rows=size,
                memory=memory,
                progress=progress,
                cost=None if quiet or as_json else lambda cost: say(str(cost)),
            )
        made.write_files(place, csv=csv)
    if as_json or not quiet:
        say_released(made.receipt, output, as_json=as_json)
