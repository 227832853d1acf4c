"""Every example on the pages of the site runs, in order, in an empty folder of its page.

```python              is executed; the blocks of a page share their names
```console             each line `$ smoothsynth ...` is run; lines of output are compared, numbers aside; `...` is any text
```toml title="x"      is written to the file x
<!-- not run: why -->  before a block: it is shown only
<!-- refused -->       before a console block: its last command must end with exit code 1
<!-- after the tutorial -->   the page begins with the table and the schema file of the tutorial
"""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from smoothsynth.cli.main import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
KINDS = ("tutorial", "how-to", "reference", "explanation")
PAGES = [DOCS / "index.md", *(page for kind in KINDS for page in sorted((DOCS / kind).glob("*.md")))]
TUTORIAL = DOCS / "tutorial" / "first-release.md"
AFTER_TUTORIAL = "<!-- after the tutorial -->"
MOST_NOT_RUN = 6

BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>not run: [^>]+|refused) -->\n\n?)?```(?P<language>\w+)(?P<facts>[^\n]*)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
TITLE = re.compile(r'title="([^"]+)"')
FRAMES = re.compile(r"[\s─-╿]+")
NUMBER = re.compile(r"[-+±]?\d[\d,.:]*(?:e[-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    title: str | None
    mark: str
    body: str

    @property
    def shown_only(self):
        return self.mark.startswith("not run")

    @property
    def runs(self):
        return (self.language in ("python", "console") or self.title is not None) and not self.shown_only


def blocks_of(text):
    found = []
    for match in BLOCK.finditer(text):
        title = TITLE.search(match["facts"])
        found.append(Block(match["language"], title and title[1], match["mark"] or "", match["body"]))
    return found


def commands_of(body):
    """Return (command, expected output) pairs; a command may go on over lines that end with a backslash."""
    body = body.replace("\\\n", " ")
    parts = re.split(r"^\$ (.*)$", body, flags=re.MULTILINE)
    assert not parts[0].strip(), "a console block begins with a command"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def words(text):
    """Return a text without frames, line breaks and the values of numbers."""
    return NUMBER.sub("#", FRAMES.sub(" ", text)).strip()


def check_output(expected, output):
    for piece in expected.split("..."):
        assert words(piece) in words(output), f"{piece!r} is not in what was printed:\n{output}"


def run_command(line, *, refused):
    program, *arguments = shlex.split(line)
    assert program == "smoothsynth", f"only smoothsynth can be run here: {line}"
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == (1 if refused else 0), f"{line}\n{result.output}"
    return result.output


def run_block(block, names, page):
    if block.title is not None:
        Path(block.title).write_text(block.body, encoding="utf-8")
    elif block.language == "python":
        exec(compile(block.body, str(page), "exec"), names)  # noqa: S102
    else:
        commands = commands_of(block.body)
        for line, expected in commands:
            last = line is commands[-1][0]
            check_output(expected, run_command(line, refused=last and block.mark == "refused"))


def prepare(page):
    """Make the files with which a page begins: those of the tutorial up to its schema."""
    if AFTER_TUTORIAL not in page.read_text(encoding="utf-8"):
        return
    blocks = blocks_of(TUTORIAL.read_text(encoding="utf-8"))
    for block in (next(b for b in blocks if b.language == "python"), next(b for b in blocks if b.title)):
        run_block(block, {}, TUTORIAL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepare(page)
    names = {"__name__": "__main__"}
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.runs:
            run_block(block, names, page)


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{20 + i % 70},{i % 9},{'fm'[i % 2]}\n" for i in range(500))
    Path("patients.csv").write_text(f"age,visits,sex\n{rows}")
    blocks = [b for b in blocks_of((ROOT / "README.md").read_text(encoding="utf-8")) if b.runs]
    assert [b.language for b in blocks] == ["python"]
    run_block(blocks[0], {}, ROOT / "README.md")
    assert {"moments.json", "receipt.json", "report.html", "synthetic.parquet"} <= set(os.listdir("out"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_no_example_is_overlooked(page):
    """A fence inside a list or a note would be shown and not run; a command outside a console block too."""
    text = page.read_text(encoding="utf-8")
    blocks = blocks_of(text)
    assert text.count("```") == 2 * len(blocks)
    assert not [b for b in blocks if b.language not in ("python", "console", "toml", "text")]
    assert not [b for b in blocks if b.language == "toml" and b.title is None]
    assert not [b for b in blocks if b.language == "text" and re.search(r"^\$ |^smoothsynth ", b.body, re.MULTILINE)]


def test_few_examples_are_not_run():
    skipped = [b for page in PAGES for b in blocks_of(page.read_text(encoding="utf-8")) if b.shown_only]
    assert len(skipped) <= MOST_NOT_RUN


def test_there_are_examples():
    """Else all of this could pass because no block is recognised any more."""
    found = [b for page in PAGES for b in blocks_of(page.read_text(encoding="utf-8")) if b.runs]
    assert sum(b.language == "python" for b in found) >= 8
    assert sum(len(commands_of(b.body)) for b in found if b.language == "console") >= 20


def test_a_block_that_fails_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ZeroDivisionError):
        run_block(*_only("```python\n1 / 0\n```"))
    with pytest.raises(AssertionError, match=r"nothing\.toml"):
        run_block(*_only("```console\n$ smoothsynth plan -s nothing.toml -n 10 -e 1\n```"))
    with pytest.raises(AssertionError, match="is not in what was printed"):
        run_block(*_only("```console\n$ smoothsynth --version\nsmoothsynth is old\n```"))
    with pytest.raises(AssertionError, match="only smoothsynth"):
        run_block(*_only("```console\n$ rm -r out\n```"))
    with pytest.raises(AssertionError):
        run_block(*_only("<!-- refused -->\n\n```console\n$ smoothsynth --version\n```"))


def test_numbers_and_frames_are_not_compared():
    check_output("Spent: 1.25\n...\nleft", "│ Spent:  │ 3e-06 │\nmore\n left │")


def _only(text):
    (block,) = blocks_of(text)
    return block, {}, Path("page.md")
