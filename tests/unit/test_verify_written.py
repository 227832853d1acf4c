"""Nothing rides along in a release folder: every file is what its own values give, byte for byte."""

import base64
import itertools
import json
import os
import re
import shutil
import struct
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import smoothsynth as ss
from smoothsynth.pipeline.release import FORMAT, as_text, sha256, write_csv, write_rows
from smoothsynth.verification.folder import read_evidence
from smoothsynth.verification.verify import _CHECKS, _tried

RECEIPT, MOMENTS, ROWS, CSV, PAGE = (
    "receipt.json",
    "moments.json",
    "synthetic.parquet",
    "synthetic.csv",
    "report.html",
)
CARRIED = "row 17 has it"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A release with all that its files can hold: categories, private bounds, chosen tables, a CSV file."""
    rng = np.random.default_rng(3)
    columns = {"age": rng.uniform(0, 100, 1200), "v": rng.integers(0, 50, 1200), "w": rng.random(1200)}
    described = {"age": ss.Number(0, 100), "v": ss.Integer("private", 50), "w": ss.Number(0, 1)}
    schema = ss.Schema({**described, "sex": ss.Category(["f", "m"])})
    table = pa.table({**columns, "sex": ["f", "m", "m"] * 400})
    made = ss.release(table, schema=schema, epsilon=3.0, delta=1e-6, method=ss.methods.Adaptive(tables=2), seed=7)
    return made.write(tmp_path_factory.mktemp("whole") / "out", csv=True)


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "out")


def put(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    reseal(path.parent)


def reseal(folder):
    """Put the right hashes into the receipt, as a forger would."""
    edit_receipt(folder, lambda d: d["sha256"].update({name: sha256(folder / name) for name in d["sha256"]}))


def edit_receipt(folder, change):
    document = json.loads((folder / RECEIPT).read_text(encoding="utf-8"))
    change(document)
    (folder / RECEIPT).write_bytes(as_text(document).encode())


def edit(folder, name, change):
    if name == RECEIPT:
        return edit_receipt(folder, change)
    document = json.loads((folder / name).read_text(encoding="utf-8"))
    change(document)
    return put(folder / name, as_text(document))


def outcomes(folder, *names):
    """Carry out some of the checks, since all of them take a while."""
    evidence = read_evidence(folder)
    found = dict.fromkeys(evidence.unreadable, "failed")
    for name, check, _ in _CHECKS:
        if name in names and name not in found:
            found |= {made.name: made.outcome for made in _tried(name, check, evidence)}
    return {name: found.get(name) for name in names}


def fails(folder, *names):
    return set(outcomes(folder, *names).values()) == {"failed"}


def test_a_whole_release_is_written_again_byte_for_byte(whole):
    found = ss.verify(whole)
    assert {found[name].outcome for name in ("form", "parquet", "csv", "page")} == {"passed"}, str(found)
    assert not [check for check in found.checks if check.outcome == "warning"], str(found)
    assert json.loads((whole / MOMENTS).read_text())["found"]["rounds"]


def objects(value, place=()):
    """Go through all objects of a JSON document, of lists of them the last ones only."""
    if isinstance(value, dict):
        yield place
        for key, inner in value.items():
            yield from objects(inner, (*place, key))
    elif isinstance(value, list) and value:
        yield from objects(value[-1], (*place, len(value) - 1))


def at(document, place):
    for key in place:
        document = document[key]
    return document


def test_no_object_of_any_document_takes_an_unknown_key(folder):
    """By `load`, for each object in both files; by `verify` below, for one of each file."""
    tried = 0
    for name in (RECEIPT, MOMENTS):
        original = (folder / name).read_bytes()
        for place in objects(json.loads(original)):
            edit(folder, name, lambda d, place=place: at(d, place).update(note=CARRIED))
            with pytest.raises(ss.ReleaseError):
                ss.load(folder)
            tried += 1
        put(folder / name, original)
    assert tried > 15
    assert ss.load(folder)


FREE = {
    "a key of the receipt": (RECEIPT, lambda d: d.update(note=CARRIED), {"form"}),
    "a key of a charge": (RECEIPT, lambda d: d["charges"][0].update(note=CARRIED), {"form"}),
    "a key of the budget": (RECEIPT, lambda d: d["budget"].update(note=CARRIED), {"form"}),
    "a key of the fit": (RECEIPT, lambda d: d["fit"].update(note=CARRIED), {"form"}),
    "another order": (RECEIPT, lambda d: d.update(format=d.pop("format")), {"form"}),
    "a whole number for a number": (RECEIPT, lambda d: d["budget"].update(epsilon=3), {"form"}),
    "a key of the moments": (MOMENTS, lambda d: d.update(exact=[1, 2]), {"form"}),
    "a key of a measurement": (MOMENTS, lambda d: d["moments"][0].update(exact=[1, 2]), {"form"}),
    "a key of a view": (MOMENTS, lambda d: d["moments"][1]["view"].update(note=CARRIED), {"form"}),
    "a key of a choice": (MOMENTS, lambda d: d["moments"][-1]["choice"].update(note=CARRIED), {"form"}),
    "an empty search": (MOMENTS, lambda d: d.update(subspace_=None), {"form"}),
    "an outcome": (RECEIPT, lambda d: d["fit"].update(outcome=CARRIED), {"words"}),
    "more of an outcome": (RECEIPT, lambda d: d["fit"].update(outcome=d["fit"]["outcome"] + " " + CARRIED), {"words"}),
    "many digits": (RECEIPT, lambda d: d["fit"].update(outcome=re.sub(r"\d+", "4" * 40, d["fit"]["outcome"])), {"words"}),
    "a method": (RECEIPT, lambda d: d.update(method=CARRIED), {"words"}),
    "another method": (RECEIPT, lambda d: d.update(method="paper"), {"words"}),
    "candidates": (RECEIPT, lambda d: d.update(candidates=CARRIED), {"words"}),
    "a fit": (RECEIPT, lambda d: d["fit"].update(method=CARRIED), {"words"}),
    "another fit": (RECEIPT, lambda d: d["fit"].update(method="linear program"), {"words"}),
    "not converged": (RECEIPT, lambda d: d["fit"].update(converged=not d["fit"]["converged"]), {"words"}),
    "other candidates": (RECEIPT, lambda d: d.update(candidates="hypercube"), {"words"}),
    "a zero": (RECEIPT, lambda d: d["fit"].update(outcome=re.sub(r"(\d+)", r"0\1", d["fit"]["outcome"])), {"words"}),
    "software": (RECEIPT, lambda d: d.update(software=f"smoothsynth 9.9.9 {CARRIED}"), {"words"}),
    "another software": (RECEIPT, lambda d: d.update(software="other 0.1.0"), {"words"}),
    "a version with zeros": (RECEIPT, lambda d: d.update(software="smoothsynth 0.1.00"), {"words"}),
    "a local version": (RECEIPT, lambda d: d.update(software="smoothsynth 0.1.0+secret"), {"words"}),
    "a seed of many digits": (RECEIPT, lambda d: d.update(seed=2**128), {"words"}),
    "a purpose": (MOMENTS, lambda d: d["moments"][0].update(purpose=CARRIED), {"words", "charges"}),
    "a purpose of a search": (MOMENTS, lambda d: d["found"]["rounds"][0].update(purpose=CARRIED), {"found", "charges"}),
}  # fmt: skip


@pytest.mark.parametrize("name", FREE)
def test_free_text_is_found_and_refused(name, folder):
    file, change, noticed = FREE[name]
    edit(folder, file, change)
    assert fails(folder, *noticed)
    with pytest.raises(ss.ReleaseError):
        ss.load(folder)


@pytest.mark.parametrize("part", [("moments",), ("found", "rounds")])
def test_a_sum_that_no_rows_and_noise_reach_is_refused(part, folder):
    edit(folder, MOMENTS, lambda d: at(d, part)[-1]["integers"].__setitem__(0, -(2**200)))
    assert fails(folder, "range")
    with pytest.raises(ss.ReleaseError, match="what rows and noise can reach"):
        ss.load(folder)


def rewrite_purposes(folder, words, places):
    """Give measurements another purpose in both files, and leave out the page: all agree with each other then."""
    before = [m["purpose"] for m in json.loads((folder / MOMENTS).read_text())["moments"]]
    renamed = {before[place]: words for place in places}

    def change(d):
        for charge in (charge for charge in d["charges"] if charge["purpose"] in renamed):
            charge["in_words"] = charge["in_words"].replace(charge["purpose"], words)
            charge["purpose"] = words
        d["sha256"].pop(PAGE)

    edit(folder, MOMENTS, lambda d: [d["moments"][place].update(purpose=words) for place in places])
    edit_receipt(folder, change)
    (folder / PAGE).unlink()


@pytest.mark.parametrize("words", [CARRIED, "the mean of each column", "3 cosines of the ranks in each column"])
def test_a_purpose_that_is_rewritten_everywhere(words, folder):
    """Charges and measurements agree then: only what is measured tells."""
    rewrite_purposes(folder, words, [0])
    assert {check.name for check in ss.verify(folder).failures} == {"words"}
    with pytest.raises(ss.ReleaseError, match="purpose of measurement 1"):
        ss.load(folder)


def test_no_measurement_takes_the_purpose_of_another(whole, tmp_path):
    purposes = [m.measurement.purpose for m in ss.load(whole).moments]
    for place, other in itertools.permutations(range(len(purposes)), 2):
        if purposes[place] != purposes[other]:
            folder = shutil.copytree(whole, tmp_path / f"{place} {other}")
            rewrite_purposes(folder, purposes[other], [place])
            assert fails(folder, "words")
            assert outcomes(folder, "charges") == {"charges": "passed"}


DEEP = {
    "lists too deep to be read": "[" * 100_000 + "]" * 100_000,
    "objects too deep to be read": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "too deep to be written again": "[" * 600 + "]" * 600,
    "a little too deep": "[" * 16 + "]" * 16,
}


@pytest.mark.parametrize("file", [RECEIPT, MOMENTS])
@pytest.mark.parametrize("name", DEEP)
def test_a_deeply_nested_document_is_refused_in_words(name, file, folder):
    carry(folder / file, DEEP[name])
    refused = f"{file} .*(deeper ones|cannot be read as JSON)"
    with pytest.raises(ss.ReleaseError, match=refused):
        ss.load(folder)
    if file == MOMENTS:
        assert re.match(refused, read_evidence(folder).unreadable["moments"])
    else:
        with pytest.raises(ss.ReleaseError, match=refused):
            ss.verify(folder)


def carry(path, value):
    """Put a value, as text, into a JSON file, whatever its hash."""
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("{", f'{{"note": {value},', 1), encoding="utf-8")


@pytest.mark.parametrize("read", [ss.load, ss.verify])
def test_a_document_of_more_values_than_a_release_can_have_is_not_parsed(read, folder):
    """Seventy bytes of memory for three of the file."""
    carry(folder / RECEIPT, f"[{'[],' * 1_100_000}[]]")
    with pytest.raises(ss.ReleaseError, match="more values than a file of a release"):
        read(folder)


def test_a_receipt_that_does_not_fit_into_memory_is_refused_in_words(folder, monkeypatch):
    def fail(*_given, **_named):
        raise MemoryError

    monkeypatch.setattr(sys.modules[read_evidence.__module__], "check_sizes", fail)
    with pytest.raises(ss.ReleaseError, match="does not fit into memory"):
        ss.verify(folder)


LAYOUTS = {
    "a space": lambda t: t.replace('": ', '":  ', 1),
    "a line": lambda t: t + "\n",
    "no line": lambda t: t.rstrip("\n"),
    "other ends of lines": lambda t: t.replace("\n", "\r\n"),
    "another form of a number": lambda t: re.sub(r"(: \d\.\d+)", r"\g<1>0", t, count=1),
    "an escaped letter": lambda t: t.replace('"format"', '"\\u0066ormat"', 1),
    "in one line": lambda t: json.dumps(json.loads(t)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_another_layout_of_the_same_values(name, folder):
    for file in (RECEIPT, MOMENTS):
        text = (folder / file).read_text(encoding="utf-8")
        changed = LAYOUTS[name](text)
        if changed == text:
            continue
        (folder / file).write_bytes(changed.encode())
        if file == MOMENTS:
            reseal(folder)
        assert fails(folder, "form")
        with pytest.raises(ss.ReleaseError, match="byte for byte"):
            ss.load(folder)
        (folder / file).write_bytes(text.encode())


def test_a_release_of_another_version_is_read_but_its_page_is_not_compared(folder):
    edit_receipt(folder, lambda d: d.update(software="smoothsynth 99.0.0"))
    (folder / PAGE).write_text("another page")
    reseal(folder)
    found = ss.verify(folder)
    assert found.passed
    assert found["page"].outcome == "warning"
    assert "another version" in found["page"].sentence
    assert ss.load(folder).receipt.version == "99.0.0"
    edit_receipt(folder, lambda d: d["charges"][0].update(note=CARRIED))
    assert fails(folder, "form")
    with pytest.raises(ss.ReleaseError, match="note"):
        ss.load(folder)


def test_what_could_not_be_checked_is_in_the_last_line():
    from smoothsynth.verification.check import Check, Verification

    checks = (Check("files", "passed", ""), Check("page", "warning", ""), Check("moments", "warning", ""))
    found = Verification("out", "", checks)
    assert str(found).endswith("Nothing was refuted. But not everything could be checked: page.")
    assert found.as_dict()["unchecked"] == ["page"]


def test_a_schema_of_too_many_coordinates_is_refused(folder, monkeypatch):
    from smoothsynth.pipeline import stored_rows as sizes

    monkeypatch.setattr(sizes, "MOST_COORDINATES", 3)
    with pytest.raises(ss.ReleaseError, match="at most 3 coordinates"):
        ss.verify(folder)


def test_a_purpose_is_quoted_without_what_a_terminal_would_obey(folder):
    edit(folder, MOMENTS, lambda d: d["moments"][0].update(purpose="\x1b[2J", rows=1300))
    said = [made.sentence for name, check, _ in _CHECKS if name == "charges" for made in check(read_evidence(folder))]
    assert said
    assert "\x1b" not in "".join(said)


def test_the_page_is_drawn_by_one_thread(whole, monkeypatch):
    """With two, sums of larger tables have other last digits."""
    from smoothsynth import _runtime as blas
    from smoothsynth.report import contents

    get, set_ = blas._controls()
    seen, drawn, before = [], contents.answering, get()
    monkeypatch.setattr(contents, "answering", lambda *given: seen.append(get()) or drawn(*given))
    try:
        set_(2)
        ss.load(whole).page(whole)
    finally:
        set_(before)
    assert seen == [1]


PAGES = {
    "another figure": lambda t: t.replace("epsilon = 3", "epsilon = 0.01"),
    "another page": lambda _: "<h1>epsilon = 0.0001, verified</h1>",
    "nothing": lambda _: "",
    "a comment": lambda t: t + f"<!-- {CARRIED} -->",
    "a comment in front": lambda t: f"<!-- {CARRIED} -->" + t,
    "a line": lambda t: t + "\n",
    "a script": lambda t: t.replace("</body>", "<script>alert(1)</script></body>"),
    "a second element of data": lambda t: t.replace(
        "</body>", '<script type="application/json" id="release-data">1</script></body>'),
    "a name": lambda t: t.replace('"name":"age"', '"name":"years"'),
    "a chart": lambda t: t.replace('<path class="bars" d="M2 ', '<path class="bars" d="M3 ', 1),
    "the score": lambda t: re.sub(r"<strong>(\d+) %", lambda m: f"<strong>{int(m[1]) + 1} %", t, count=1),
    "a key of the data": lambda t: t.replace('{"columns"', f'{{"note":"{CARRIED}","columns"', 1),
    "a very large page": lambda t: t + " " * 10_000_000,
}  # fmt: skip
# Last digits are free in computed figures only.
SMALL = {
    "a figure that is not computed": lambda t: re.sub(r'"upper":100.0', '"upper":100.00000000000001', t, count=1),
    "another text of a figure": lambda t: re.sub(r'"width":(0\.\d+)', r'"width":\g<1>0', t, count=1),
    "digits beyond five": lambda t: re.sub(r'"correlations":\[(-?0\.\d+)', r'"correlations":[\g<1>0000001', t, count=1),
    "knots": lambda t: re.sub(r'"knots":"(.)', lambda m: f'"knots":"{"BA"[m[1] == "B"]}', t, count=1),
}  # fmt: skip


@pytest.mark.parametrize("change", [*PAGES.values(), *SMALL.values()], ids=[*PAGES, *SMALL])
def test_any_other_page_is_found(change, folder):
    page = (folder / PAGE).read_text(encoding="utf-8")
    changed = change(page)
    assert changed != page
    put(folder / PAGE, changed)
    assert fails(folder, "page")


def nudged(page, key, factor):
    """Change the first double of an array of the page."""
    start = page.index(f'"{key}":"') + len(key) + 4
    end = page.index('"', start)
    values = np.frombuffer(base64.b64decode(page[start:end]), "<f8").copy()
    values[0] *= factor
    return page[:start] + base64.b64encode(values.tobytes()).decode() + page[end:]


def test_last_digits_of_another_machine_are_worth_a_warning(folder):
    page = (folder / PAGE).read_text(encoding="utf-8")
    for factor, outcome in ((1.0 + 1e-13, "warning"), (1.0 + 1e-3, "failed")):
        put(folder / PAGE, nudged(page, "variances", factor))
        assert outcomes(folder, "page")["page"] == outcome


def test_rows_in_the_page_are_exact(folder):
    """Their low digits could carry anything, and units can be tiny."""
    page = (folder / PAGE).read_text(encoding="utf-8")
    put(folder / PAGE, nudged(page, "base64", 1.0 + 1e-15))
    assert fails(folder, "page")


def test_a_page_that_is_no_utf_8_is_another_page():
    from smoothsynth.verification.written import _near

    drawn = '\ufffd<script type="application/json" id="release-data">{"answering":{"test_encoding":"float64"}}</script>'
    assert _near(drawn.encode(), drawn)
    assert not _near(drawn.encode().replace("\ufffd".encode(), b"\xff"), drawn)


@pytest.mark.skipif(os.name == "nt", reason="needs sparse files")
@pytest.mark.parametrize("name", [PAGE, CSV, MOMENTS, ROWS, RECEIPT])
def test_files_of_absurd_sizes_are_refused_before_they_are_read(name, folder, monkeypatch):
    from smoothsynth.pipeline import load as reading
    from smoothsynth.verification import folder as files

    os.truncate(folder / name, 2**40)
    for module in (reading, files):
        # What the receipt has as a whole is its fingerprint.
        hashed = lambda path: pytest.fail(f"{path} was hashed") if path.name == name else "0" * 64  # noqa: E731
        monkeypatch.setattr(module, "sha256", hashed)
    with pytest.raises(ss.ReleaseError, match=r"too large|at most"):
        ss.load(folder)
    with pytest.raises(ss.ReleaseError, match=r"too large|at most"):
        ss.verify(folder)


def test_a_release_without_a_page_is_whole(folder):
    (folder / PAGE).unlink()
    edit_receipt(folder, lambda d: d["sha256"].pop(PAGE))
    found = ss.verify(folder)
    assert found.passed
    assert found["page"].outcome == "note"


def rewritten(**settings):
    def change(folder):
        parquet.write_table(parquet.read_table(folder / ROWS), folder / ROWS, **{"compression": "zstd", **settings})

    return change


def noted(metadata=None, field=None):
    def change(folder):
        table = parquet.read_table(folder / ROWS)
        fields = [table.schema.field(0).with_metadata(field), *list(table.schema)[1:]]
        parquet.write_table(pa.table(table.columns, pa.schema(fields, metadata)), folder / ROWS, compression="zstd")

    return change


def footer(data):
    (length,) = struct.unpack("<I", data[-8:-4])
    return data[: -8 - length], data[-8 - length : -8]


def with_bytes(change):
    return lambda folder: (folder / ROWS).write_bytes(change((folder / ROWS).read_bytes()))


def before_footer(data):
    body, tail = footer(data)
    return body + CARRIED.encode() + tail + data[-8:]


def after_footer(data):
    body, tail = footer(data)
    return body + tail + CARRIED.encode() + struct.pack("<I", len(tail) + len(CARRIED)) + data[-4:]


def other_writer(data):
    return data.replace(b"parquet-cpp-arrow version", b"SECRET-SECRET-SECRET: row")


TABLES = {
    "metadata": noted({"secret": CARRIED}),
    "metadata of a column": noted(field={"secret": CARRIED}),
    "bytes before the footer": with_bytes(before_footer),
    "bytes after the footer": with_bytes(after_footer),
    "another writer": with_bytes(other_writer),
    "an index of pages": rewritten(write_page_index=True),
}


@pytest.mark.parametrize("name", TABLES)
def test_what_is_in_a_parquet_file_beside_rows_is_refused(name, folder):
    TABLES[name](folder)
    reseal(folder)
    assert fails(folder, "rows")
    with pytest.raises(ss.ReleaseError, match=ROWS):
        ss.load(folder)


def test_no_byte_of_a_footer_ends_the_process(tmp_path):
    """Arrow does so where levels contradict the schema and one asks for such a column."""
    parquet.write_table(pa.table({"a": [0.5, None, 0.25]}), tmp_path / "a.parquet", compression="zstd")
    tried = subprocess.run([sys.executable, "-c", _FOOTERS, tmp_path / "a.parquet"], capture_output=True, check=False)
    assert tried.returncode == 0, tried.stderr.decode()[-500:]
    assert int(tried.stdout) > 500


_FOOTERS = """
import pathlib, sys
import smoothsynth as ss
from smoothsynth.pipeline.stored_rows import read_rows
path, schema, refused = pathlib.Path(sys.argv[1]), ss.Schema({"a": ss.Number(0, 1, nullable=True)}), 0
data = path.read_bytes()
read_rows(path, schema, 3)
for place in range(len(data) - 8 - int.from_bytes(data[-8:-4], "little"), len(data)):
    for value in (0, 127, data[place] ^ 16, data[place] ^ 48):
        path.write_bytes(data[:place] + bytes([value]) + data[place + 1 :])
        try:
            read_rows(path, schema, 3)
        except ss.ReleaseError:
            refused += 1
print(refused)
"""


def test_the_same_rows_in_other_bytes_are_worth_a_warning_of_another_arrow_only(folder, monkeypatch):
    from smoothsynth.verification import written

    rewritten(use_dictionary=False)(folder)
    reseal(folder)
    assert fails(folder, "parquet")
    monkeypatch.setattr(written, "_version", lambda: "1.0.0")
    assert outcomes(folder, "parquet")["parquet"] == "warning"
    assert ss.load(folder)


def test_rows_of_several_groups_are_written_again_byte_for_byte(tmp_path):
    rng = np.random.default_rng(1)
    rows = 2**20 + 12_345
    table = pa.table({"a": rng.random(rows), "b": pa.array(rng.choice(["x", "yy"], rows))})
    for write, name in ((write_rows, "a.parquet"), (write_csv, "a.csv")):
        write(table, tmp_path / name)
    again = parquet.ParquetFile(tmp_path / "a.parquet").read()
    assert parquet.read_metadata(tmp_path / "a.parquet").num_row_groups == 2
    for write, name in ((write_rows, "a.parquet"), (write_csv, "a.csv")):
        write(again, tmp_path / "again")
        assert sha256(tmp_path / "again") == sha256(tmp_path / name)


@pytest.mark.parametrize("end", ["\n", "\n\n\n", "1,1,1,f\n", " "])
def test_a_csv_file_with_more_than_the_rows(folder, end):
    put(folder / CSV, (folder / CSV).read_bytes() + end.encode())
    assert fails(folder, "csv")


def test_a_csv_file_of_another_arrow_is_compared_by_its_values(folder, monkeypatch):
    from smoothsynth.verification import written

    monkeypatch.setattr(written, "_version", lambda: "1.0.0")
    text = (folder / CSV).read_text()
    put(folder / CSV, text.replace('"', ""))
    assert outcomes(folder, "csv")["csv"] == "warning"
    put(folder / CSV, text.replace('"', "") + "1,1,1,f\n")
    assert fails(folder, "csv")


def test_more_rows_than_memory_are_refused_before_they_are_read(folder, monkeypatch):
    """A small file can say that it has a billion rows, and so can the receipt."""
    from smoothsynth.pipeline import stored_rows as rows

    count = 2**30
    edit_receipt(folder, lambda d: d.update(synthetic_rows=count))
    monkeypatch.setattr(rows, "memory", lambda: 16 * 2**30)
    sentence = read_evidence(folder).unreadable["rows"]
    assert "1,073,741,824 synthetic rows" in sentence
    assert "machine has 16.0 GiB" in sentence
    with pytest.raises(ss.ReleaseError, match="synthetic rows"):
        ss.load(folder)
    monkeypatch.setattr(rows, "memory", lambda: 2**60)
    assert "1,200 rows; the receipt says 1,073,741,824" in read_evidence(folder).unreadable["rows"]


@pytest.mark.skipif(os.name == "nt", reason="needs links and pipes")
@pytest.mark.parametrize("name", [PAGE, CSV])
def test_links_and_pipes_do_not_stop_it(name, folder):
    for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path), os.mkdir):
        (folder / name).unlink()
        make(folder / name)
        assert fails(folder, "files", "hashes")
        remove = os.rmdir if make is os.mkdir else os.unlink
        remove(folder / name)
        (folder / name).touch()


def test_a_folder_of_the_first_format_loads_and_answers_and_its_rows_are_not_drawn_again(folder):
    for name in (MOMENTS, RECEIPT):
        edit(folder, name, lambda d: d.update(format=1))
    reseal(folder)
    assert ss.load(folder).receipt.format == 1
    assert ss.load(folder).answer("avg(age)").value == pytest.approx(ss.load(folder).to_pandas()["age"].mean(), rel=0.2)
    found = {check.name: check for check in ss.verify(folder).checks}
    assert all(check.passed for check in found.values())
    assert "format 1" in found["reproduction"].sentence
    assert found["page"].outcome == "warning"


def claim_first_format(folder, *, file=RECEIPT, change=lambda d: None):
    """Let a folder claim the first format, change one of its files, and make the hashes right."""
    for name in (MOMENTS, RECEIPT):
        edit(folder, name, lambda d: d.update({"format": 1}))
    edit(folder, file, change)
    reseal(folder)


def test_keys_of_an_earlier_format_have_their_order_too(folder):
    """Nineteen keys in any order would carry seven bytes that nobody sees."""
    claim_first_format(folder, change=lambda d: d.update(format=d.pop("format")))
    assert fails(folder, "form")
    with pytest.raises(ss.ReleaseError, match="order"):
        ss.load(folder)


def other_knots(d):
    knots = next(m["view"]["knots"] for m in d["moments"] if m["view"] is not None)
    knots[0][256] += 400 if knots[0][256] < 0 else -400


def test_a_transformation_of_an_earlier_format_is_not_refuted_and_not_passed_over(folder):
    """The model of that time may have proposed it; a forger may have too: the verdict says that nobody can tell."""
    claim_first_format(folder, file=MOMENTS, change=other_knots)
    found = ss.verify(folder)
    assert found["transformations"].outcome == "warning"
    assert "cannot be told" in found["transformations"].sentence
    assert "transformations" in found.unchecked
    assert "transformations" in found.summary
    for name in (MOMENTS, RECEIPT):
        edit(folder, name, lambda d: d.update(format=FORMAT))
    reseal(folder)
    assert ss.verify(folder)["transformations"].outcome == "failed"


FORGED = {
    "a promise": (RECEIPT, lambda d: d.update(promise=CARRIED)),
    "neighbours": (RECEIPT, lambda d: d.update(neighbours=CARRIED)),
    "an outcome": (RECEIPT, lambda d: d["fit"].update(outcome=CARRIED)),
    "a sentence": (RECEIPT, lambda d: d["charges"][0].update(in_words=CARRIED)),
    "a key": (RECEIPT, lambda d: d.update(note=CARRIED)),
    "no promise": (RECEIPT, lambda d: d.pop("promise")),
    "a mechanism": (RECEIPT, lambda d: d["charges"][0].update(mechanism=CARRIED)),
    "weights": (MOMENTS, lambda d: d["moments"][0].update(weights=[2 * w for w in d["moments"][0]["weights"]])),
    "earlier moments that are none": (MOMENTS, lambda d: d.update(earlier="none")),
    "a subspace that is none": (MOMENTS, lambda d: d.update(subspace=None)),
}


@pytest.mark.parametrize("name", FORGED)
def test_an_earlier_format_excuses_nothing_else(name, folder):
    claim_first_format(folder, file=FORGED[name][0], change=FORGED[name][1])
    assert not ss.verify(folder).passed


def test_moments_of_another_format_than_the_receipt_are_refused(folder):
    edit(folder, MOMENTS, lambda d: d.update(format=1))
    with pytest.raises(ss.ReleaseError):
        ss.load(folder)
    assert not ss.verify(folder).passed
