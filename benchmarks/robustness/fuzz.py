"""Damage inputs in great number, and count which are accepted and which are refused in words.

    python -m benchmarks fuzz [--inputs 100000] [--seed N] [--only schema csv parquet arrow release ...]

Valid files are damaged by a seeded mutator, by bytes and by structure: schema files, CSV, Parquet and Arrow tables, and the
JSON and Parquet files of release folders, whose hashes are made right again so that the damage is really read; and
queries in SQL and questions. What is accepted is then used. Anything but an accepted input or an error of smoothsynth's
own is *unhandled*, and must not occur; nor may an error chain of a table show a value of it. Parquet and Arrow files are
read in a child process (benchmarks/robustness/fuzz_files.py), whose end is *unhandled* too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import smoothsynth as ss
from smoothsynth.errors import ReleaseError, SmoothsynthError
from smoothsynth.pipeline.release import as_text
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.private.owner import draft_schema
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import total_degree
from smoothsynth.schema.encoding import outside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SENTINEL = "8675309.125"
SCHEMA = ss.Schema({"age": ss.Number(0, 120), "income": ss.Number(0, 1e6), "visits": ss.Integer(0, 20)})
TOKENS = [
    b"", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\n", b"\r", b"\r\n", b",", b'"', b"'", b'""', b"[", b"]", b"{", b"}",
    b"=", b".", b"-", b"+", b"e9", b"1e999", b"-0", b"nan", b"inf", b"Infinity", b"NaN", b"null", b"true", b"lower",
    b"upper", b"type", b"columns", b"age", b"number", b"integer", b"\\ud800", b"\\u0000", b"0x" + b"f" * 4000,
    b"9" * 400, b"9" * 5000, b"2026-13-01", b"[" * 3000, b"1979-05-27T07:32:00Z", b"\xc3\x28", b"#", b"\\", b"PAR1",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 2**31, 2**53 + 1, 2**63, 10**9, 10**30, 10**400, 0.5, -0.5, 1e-320, 1e308, "", "x",
    "1", "../../x", "\ud800", "a\x00b", "number", "discrete gaussian", "cube", [], {}, [0], [[0]], [[[0, 1]]], {"a": 1},
]  # fmt: skip

EXPRESSIONS = [
    "avg ( exp ( - power ( ( age - 50 ) / 10 , 2 ) ) )",
    "avg ( age * visits ) / avg ( visits ) - sqrt ( avg ( age ) )",
    "avg ( age >= 50 and not age < 60 or visits between 1 and 3 )",
    'avg ( case when age > 50 then "visits" else floor ( age ) end ) ** 2',
    "avg ( least ( age , 3e2 , greatest ( visits , .5 ) ) + abs ( ln ( 1 + age ) ) )",
]
QUERIES = [
    "select avg(age), count(*) from synthetic where visits > 3",
    "with x as (select age as a from synthetic) select max(a) from x group by a order by 1 limit 5",
    "select sum(weight()), quantile_cont(income, 0.5) from synthetic",
    "copy synthetic to 'age.csv'",
    "select * from read_csv('age.csv')",
]


@dataclass(slots=True)
class Count:
    """What became of the inputs of one target."""

    target: str
    accepted: int = 0
    refused: int = 0
    unhandled: Counter[str] = field(default_factory=Counter)

    @property
    def inputs(self) -> int:
        """How many there were."""
        return self.accepted + self.refused + sum(self.unhandled.values())

    def note(self, outcome: str) -> None:
        """Count an outcome that is given in words."""
        if outcome in ("accepted", "refused"):
            setattr(self, outcome, getattr(self, outcome) + 1)
        else:
            self.unhandled[outcome] += 1

    def tally(self, action: Callable[[], object], *, sentinel: str = SENTINEL) -> None:
        """Do something with one input, and note how it ended."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                action()
        except SmoothsynthError as error:
            if sentinel in "".join(traceback.format_exception(error)):
                self.unhandled["an error that quotes a value"] += 1
            else:
                self.refused += 1
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)[-3:]
            places = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
            self.unhandled[f"{type(error).__name__} at {places}: {error!s:.100}"] += 1
        else:
            self.accepted += 1


def damaged_bytes(whole: bytes, rng: np.random.Generator) -> bytes:
    """Change, drop, repeat, insert or cut a few bytes."""
    data = bytearray(whole)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(0, len(data) + 1))
        size = int(rng.integers(1, 17))
        match int(rng.integers(0, 7)):
            case 0 if at < len(data):
                data[at] ^= 1 << int(rng.integers(0, 8))
            case 1 if at < len(data):
                data[at] = int(rng.integers(0, 256))
            case 2:
                del data[at : at + size]
            case 3:
                data[at:at] = data[at : at + size]
            case 4:
                data[at:at] = TOKENS[int(rng.integers(0, len(TOKENS)))]
            case 5:
                data[at : at + size] = TOKENS[int(rng.integers(0, len(TOKENS)))]
            case 6 if rng.random() < 0.2:
                del data[at:]
            case _:
                data[at : at + size] = rng.bytes(size)
    return bytes(data)


def damaged_document(document: Any, rng: np.random.Generator) -> Any:
    """Exchange, drop or add values somewhere in a JSON document; the original stays as it was."""
    copy = deepcopy(document)
    for _ in range(int(rng.integers(1, 4))):
        spot, key = _somewhere(copy, rng)
        value = deepcopy(VALUES[int(rng.integers(0, len(VALUES)))])
        match int(rng.integers(0, 6)):
            case 0:
                del spot[key]
            case 1 if isinstance(spot, list):
                spot.insert(key, deepcopy(spot[key]))
            case 2 if type(spot[key]) in (int, float) and abs(spot[key]) < 1e300:
                spot[key] = spot[key] * [2, -1, 0.5, 1 + 1e-5][int(rng.integers(0, 4))]
            case 3 if isinstance(spot[key], list):
                spot[key] = spot[key] + deepcopy(spot[key])
            case _:
                spot[key] = value
        if not isinstance(copy, (dict, list)) or not copy:
            break
    return copy


def _somewhere(document: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    spot, key = document, None
    while True:
        keys = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
        key = keys[int(rng.integers(0, len(keys)))]
        inside = spot[key]
        if not isinstance(inside, (dict, list)) or not inside or rng.random() < 0.15:
            return spot, key
        spot = inside


def use_table(path: Path, schema: ss.Schema = SCHEMA) -> None:
    """Draft the schema of a table, open it and sum it, as a release would."""
    failures: list[SmoothsynthError] = []
    for step in (lambda: draft_schema(path), lambda: _sum(path, schema)):
        try:
            step()
        except SmoothsynthError as error:
            failures.append(error)
    if failures:
        raise failures[-1]


def _sum(path: Path, schema: ss.Schema) -> None:
    features = total_degree(2, schema.dimensions)
    sums = Kernel(schema, features, None).start()
    for batch in open_table(path, schema)._batches(64):
        sums.add(batch)
    assert len(sums.totals()) == len(features)


def use_schema(schema: ss.Schema) -> None:
    """Write, read and use a schema that was accepted."""
    assert ss.Schema.parse(schema.to_toml()) == schema
    values = np.array([np.nan, -np.inf, np.inf, 0.0, 1e308])
    for cells in (values, np.array(["x", None, "", "0", "2020-01-01"], dtype=object)):
        unit = schema.snap(schema.to_unit(dict.fromkeys(schema.names, cells)))
        assert np.all(np.abs(unit) <= 1)
        made = pa.table(schema.from_unit(unit))
        assert not any(outside(column, made[name]) for name, column in schema.columns.items())


def use_release(release: ss.Release) -> None:
    """Do with a release what its readers do."""
    assert repr(release).startswith("<Release")
    json.dumps(release.receipt.as_dict(), allow_nan=False)
    assert np.all(np.abs(release.unit_rows()) <= 1)
    release.to_pandas()
    for moments in release.moments:
        assert np.all(np.isfinite(moments.values))
        assert np.all(np.isfinite(moments.deviations))
        moments.of(release.unit_rows()[:2])
    if release.subspace is not None:
        release.subspace.directions()
        release.subspace.eigenvalues()


def private_csv(rng: np.random.Generator) -> bytes:
    """Return a small CSV table with the sentinel in it."""
    rows = [f"{rng.normal(50, 15):.3f},{rng.lognormal(10):.2f},{rng.poisson(3)}" for _ in range(20)]
    rows[7:9] = [f"{SENTINEL},,3", f'"{SENTINEL}",text {SENTINEL},-1']
    return ("age,income,visits\n" + "\n".join(rows) + "\n").encode()


def fuzz_schema(place: Path, inputs: int, rng: np.random.Generator) -> Count:
    """Damage the text of schema files."""
    count, whole = Count("schema file (TOML)"), SCHEMA.to_toml().encode()
    path = place / "schema.toml"

    def act() -> None:
        use_schema(ss.Schema.load(path))

    for _ in range(inputs):
        path.write_bytes(damaged_bytes(whole, rng))
        count.tally(act)
    return count


def fuzz_facts(_place: Path, inputs: int, rng: np.random.Generator) -> Count:
    """Damage the values of a schema."""
    count = Count("schema facts")
    for _ in range(inputs):
        facts = damaged_document(SCHEMA.facts(), rng)
        count.tally(lambda facts=facts: use_schema(ss.Schema.from_facts(facts)))
    return count


def fuzz_csv(place: Path, inputs: int, rng: np.random.Generator) -> Count:
    """Damage CSV files."""
    count, path = Count("CSV table"), place / "people.csv"
    wholes = [private_csv(rng) for _ in range(5)]
    for _ in range(inputs):
        path.write_bytes(damaged_bytes(wholes[int(rng.integers(0, 5))], rng))
        count.tally(lambda: use_table(path))
    return count


def fuzz_parquet(_place: Path, inputs: int, rng: np.random.Generator) -> Count:
    """Damage Parquet files."""
    return in_children(Count("Parquet table"), _files_of("parquet", rng), inputs)


def fuzz_arrow(_place: Path, inputs: int, rng: np.random.Generator) -> Count:
    """Damage Arrow files and streams."""
    return in_children(Count("Arrow table"), _files_of("arrow", rng), inputs)


def _files_of(kind: str, rng: np.random.Generator) -> list[str]:
    return [sys.executable, "-m", "benchmarks.robustness.fuzz_files", kind, str(int(rng.integers(0, 2**31)))]


def in_children(count: Count, command: list[str], inputs: int) -> Count:
    """Note what a child process says of each input; if it ends at one, another goes on with the next."""
    done = 0
    while done < inputs:
        child = subprocess.run([*command, str(done), str(inputs)], capture_output=True, text=True, check=False)
        said = child.stdout.splitlines()
        for line in said:
            count.note(line)
        done += len(said)
        if done < inputs:
            count.note(f"the process ended with {child.returncode}, first at input {done}: {child.stderr[-200:]}")
            done += 1
    return count


def make_releases(place: Path) -> list[dict[str, bytes]]:
    """Make three small releases of different kinds and return their files."""
    import pyarrow as pa

    rng = np.random.default_rng(3)
    data = pa.table({"age": rng.normal(50, 15, 40), "income": rng.lognormal(10, size=40), "visits": rng.poisson(3, 40)})
    paper = {"method": ss.methods.Paper(features=9, candidates="ellipsoid")}
    kinds: list[dict[str, Any]] = [{"epsilon": 1.0}, {"epsilon": 20.0, "delta": 1e-6}, {"epsilon": 3.0, **paper}]
    made = []
    for i, choices in enumerate(kinds):
        folder = ss.release(data, schema=SCHEMA, seed=1, **choices).write(place / f"release{i}")
        made.append({file.name: file.read_bytes() for file in folder.iterdir()})
    return made


def damaged_release(files: dict[str, bytes], rng: np.random.Generator) -> dict[str, bytes]:
    """Damage one file of a release, and make the hashes right again where there still is a receipt."""
    files = dict(files)
    names = ("receipt.json", "moments.json", "moments.json", "synthetic.parquet")
    name = names[int(rng.integers(0, 4))]
    if name.endswith(".parquet") or rng.random() < 0.25:
        files[name] = damaged_bytes(files[name], rng)
    else:
        damaged = damaged_document(json.loads(files[name]), rng)
        files[name] = (json.dumps(damaged, indent=1, ensure_ascii=False) + "\n").encode(errors="surrogatepass")
    return resealed(files) if name != "receipt.json" and rng.random() < 0.95 else files


def resealed(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files with the right hashes in the receipt, as a forger would."""
    receipt = json.loads(files["receipt.json"])
    others = sorted(name for name in files if name != "receipt.json")
    receipt["sha256"] = {name: hashlib.sha256(files[name]).hexdigest() for name in others}
    return {**files, "receipt.json": as_text(receipt).encode()}


def fuzz_release(place: Path, inputs: int, rng: np.random.Generator) -> Count:
    """Damage release folders."""
    count, wholes = Count("release folder"), make_releases(place)
    folder = place / "damaged"
    folder.mkdir()
    for _ in range(inputs):
        for name, content in damaged_release(wholes[int(rng.integers(0, len(wholes)))], rng).items():
            (folder / name).write_bytes(content)
        count.tally(lambda: use_release(ss.load(folder)))
    assert sorted(p.name for p in place.iterdir()) == ["damaged", "release0", "release1", "release2"]
    return count


def fuzz_verify(place: Path, inputs: int, rng: np.random.Generator) -> Count:
    """Damage release folders, and verify them; what cannot be read as a release must not pass."""
    count, wholes = Count("verified folder"), make_releases(place)
    folder = place / "damaged"
    folder.mkdir()
    for _ in range(inputs):
        for name, content in damaged_release(wholes[int(rng.integers(0, len(wholes)))], rng).items():
            (folder / name).write_bytes(content)
        count.tally(lambda: use_verification(folder))
    return count


def spliced(one: str, other: str, rng: np.random.Generator) -> str:
    """Return the beginning of a query, a piece of another, and the rest of the first."""
    words, others = one.split(), other.split()
    at, start, end = (int(rng.integers(0, len(w) + 1)) for w in (words, others, others))
    return " ".join(words[:at] + others[start:end] + words[at + int(rng.integers(0, 2)) :])


def damaged_text(texts: Sequence[str], rng: np.random.Generator) -> str:
    """Return two of the texts spliced, or one of them with damaged bytes."""
    one, other = (texts[int(i)] for i in rng.integers(0, len(texts), 2))
    if rng.random() < 0.5:
        return spliced(one, other, rng)
    return damaged_bytes(one.encode(), rng).decode(errors="replace")


def use_verification(folder: Path) -> None:
    """Verify a folder; refuse it if a check failed, and read it if none did."""
    found = ss.verify(folder)
    json.dumps(found.as_dict(), allow_nan=False)
    if not found.passed:
        raise ReleaseError(found.failures[0].sentence)
    ss.load(folder)


def fuzz_sql(place: Path, inputs: int, rng: np.random.Generator) -> Count:
    """Damage queries; whatever they say, nothing appears beside the release."""
    make_releases(place)
    count, release = Count("SQL query"), ss.load(place / "release0")
    for _ in range(inputs):
        query = damaged_text(QUERIES, rng)
        count.tally(lambda query=query: release.sql(query))
    assert sorted(p.name for p in place.iterdir()) == ["release0", "release1", "release2"]
    return count


def fuzz_expression(place: Path, inputs: int, rng: np.random.Generator) -> Count:
    """Damage questions; what is accepted must have an interval around its value, all of finite numbers."""
    make_releases(place)
    count, release = Count("question"), ss.load(place / "release0")
    for _ in range(inputs):
        question = damaged_text(EXPRESSIONS, rng)
        count.tally(lambda question=question: use_estimate(release.answer(question)))
    return count


def use_estimate(found: ss.Estimate) -> None:
    """Read all that an estimate says."""
    json.dumps(found.as_dict(), allow_nan=False)
    assert found.low <= found.value <= found.high
    assert found.in_words()


# How a total is divided: the cheap ones get more.
TARGETS = {
    "schema": (fuzz_schema, 0.18),
    "facts": (fuzz_facts, 0.13),
    "csv": (fuzz_csv, 0.22),
    "parquet": (fuzz_parquet, 0.15),
    "arrow": (fuzz_arrow, 0.1),
    "release": (fuzz_release, 0.12),
    "verify": (fuzz_verify, 0.04),
    "sql": (fuzz_sql, 0.04),
    "expression": (fuzz_expression, 0.02),
}


def run(inputs: int, *, seed: int, only: list[str] | None = None) -> Iterator[Count]:
    """Yield the count of each target."""
    for position, (name, (fuzz, share)) in enumerate(TARGETS.items()):
        if only is None or name in only:
            with tempfile.TemporaryDirectory(prefix="smoothsynth-fuzz-") as place:
                yield fuzz(Path(place), -(-int(inputs * share * 100) // 100), np.random.default_rng([seed, position]))


def main() -> None:
    """Fuzz, and print the counts; the exit code is 1 if anything was unhandled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="in all")
    parser.add_argument("--seed", type=int, default=1, help="of the damage")
    parser.add_argument("--only", nargs="*", choices=list(TARGETS), help="these targets only")
    given = parser.parse_args()
    form = "{:<22}{:>10}{:>10}{:>18}{:>11}{:>10}"
    print(form.format("target", "inputs", "accepted", "refused in words", "unhandled", "seconds"))
    counts, start = [], time.perf_counter()
    for count in run(given.inputs, seed=given.seed, only=given.only):
        counts.append(count)
        bad, seconds = sum(count.unhandled.values()), time.perf_counter() - start
        print(form.format(count.target, count.inputs, count.accepted, count.refused, bad, f"{seconds:.0f}"), flush=True)
        for what, times in count.unhandled.most_common():
            print(f"    {times} x {what}", flush=True)
        start = time.perf_counter()
    bad = sum(sum(count.unhandled.values()) for count in counts)
    total = [sum(getattr(count, name) for count in counts) for name in ("inputs", "accepted", "refused")]
    print(form.format("all", *total, bad, ""))
    sys.exit(bool(bad))
