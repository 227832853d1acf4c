"""The command line of the demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smoothsynth.pipeline.terminal import in_words, progress_bar, show


@in_words
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The release folder to write.")] = Path("demo-release"),
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="The privacy budget; smaller protects more.")] = 1.0,
    shown: Annotated[bool, typer.Option("--open", help="Open the page of the release in a browser.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Tell the whole story on a made-up table of 20,000 hospital stays: plan, release, compare.

    The comparison with the real rows is possible only because this table is public. The paper's own table comes last.

    Example:  **smoothsynth demo --output demo-release**
    """
    from smoothsynth.demo.story import tell

    with progress_bar(quiet=quiet) as progress:
        for line in tell(output, epsilon=epsilon, progress=progress):
            show(line)
    if shown:
        typer.launch((output / "report.html").resolve().as_uri())
