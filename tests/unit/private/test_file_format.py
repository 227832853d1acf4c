"""What is between cells, encodings and sheets: stated facts, with which a cell still changes its own row only."""

import pickle
import zipfile
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app
from smoothsynth.private.sources import csv as reader
from smoothsynth.private.sources.files import open_paths
from smoothsynth.schema.file import DELIMITERS, FileFormat
from smoothsynth.schema.texts import TYPED

COLUMNS = {"größe": ss.Number(0, 300, decimal=","), "ort": ss.Category(["Köln", "Ulm", "a;b"])}
CELLS = [("180,5", "Köln"), ("170", "Ulm"), ("1,5", '"a;b"'), ("", "Köln")]
SEMICOLONS = {"delimiter": ";", "encoding": "cp1252"}


def rows_of(path, columns=None, **written):
    source = open_paths([path], columns or COLUMNS, FileFormat(**written))
    found = [row for batch in source.batches(100) for row in batch.to_pylist()]
    assert len(found) == source.rows
    return found


@pytest.fixture
def path(tmp_path):
    text = "\n".join(["größe;ort", *(";".join(row) for row in CELLS)]) + "\n"
    (tmp_path / "t.csv").write_bytes(text.encode("cp1252"))
    return tmp_path / "t.csv"


def test_cells_are_read_as_they_are_written(path):
    assert [tuple(row.values()) for row in rows_of(path, **SEMICOLONS)] == [
        ("180,5", "Köln"),
        ("170", "Ulm"),
        ("1,5", "a;b"),
        (None, "Köln"),
    ]


@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "koi8-r"])
def test_a_cell_changes_its_own_row_only(tmp_path, delimiter, encoding):
    rng, sign = np.random.default_rng(8), delimiter.encode()
    pieces = [b"a", b'"', sign, b"\xe4", b"\x81", b",", b" ", b'""', b"\r", b"1", b"\xc3", b"\xff"]
    columns = {"x": ss.Category(["a", "b"]), "y": ss.Number(0, 1)}
    lines = [b"a" + sign + b"%d" % i for i in range(30)]
    (tmp_path / "before.csv").write_bytes(b"\n".join([b"x" + sign + b"y", *lines, b""]))
    before = rows_of(tmp_path / "before.csv", columns, delimiter=delimiter, encoding=encoding)
    for number in range(40):
        at = int(rng.integers(30))
        changed = b"".join(rng.choice(pieces) for _ in range(rng.integers(1, 9))) + b"z"
        (tmp_path / f"{number}.csv").write_bytes(
            b"\n".join([b"x" + sign + b"y", *lines[:at], changed, *lines[at + 1 :], b""])
        )
        after = rows_of(tmp_path / f"{number}.csv", columns, delimiter=delimiter, encoding=encoding)
        assert [*after[:at], *after[at + 1 :]] == [*before[:at], *before[at + 1 :]]


@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_quick_and_careful_readers_agree(delimiter):
    form = reader.Form(("x", "y"), 0, delimiter.encode())
    block = f'a{delimiter}1\n"b{delimiter}"{delimiter}2\n{delimiter}\n'.encode()
    assert reader.is_regular(block, form.delimiter)
    quick = reader.read_block(block, form, form.names)
    careful = reader.read_block(block + b'c"\n', form, form.names)
    assert quick.to_pylist() == careful.to_pylist()[:3]
    assert quick["x"].to_pylist() == ["a", f"b{delimiter}", None]


@pytest.mark.parametrize(
    "facts",
    [
        {"delimiter": "ab"},
        {"delimiter": "1"},
        {"delimiter": '"'},
        {"delimiter": ""},
        *(
            {"encoding": name}
            for name in (
                "utf-16",
                "utf-7",
                "gbk",
                "shift_jis",
                "euc-jp",
                "big5",
                "iso2022_jp",
                "hz",
                "unicode_escape",
                "cp037",
                "x\0",
            )
        ),
        {"encoding": "base64"},
        {"sheet": ""},
        {"quote": "'"},
    ],
)
def test_what_could_let_a_cell_reach_others_is_refused(facts):
    with pytest.raises(ss.SchemaError, match=r"\[file\]"):
        ss.Schema(COLUMNS, file=facts)


def test_a_schema_keeps_it(tmp_path):
    schema = ss.Schema(COLUMNS, file={"delimiter": "tab", "encoding": "latin-1", "sheet": "a"})
    assert schema.file == FileFormat("\t", "iso8859-1", "a")
    schema.save(tmp_path / "s.toml")
    for again in (
        ss.Schema.load(tmp_path / "s.toml"),
        ss.Schema.from_facts(schema.facts()),
        pickle.loads(pickle.dumps(schema)),
    ):
        assert again == schema
    assert "file" not in ss.Schema(COLUMNS).facts()


def test_a_release_does_not_guess_and_says_what_to_write(path):
    with pytest.raises(ss.DataError, match=r"encoding = .*file="):
        ss.release(path, schema=COLUMNS, epsilon=1.0)
    with pytest.raises(ss.DataError, match=r"delimiter = .*\[file\]"):
        ss.release(path, schema=ss.Schema(COLUMNS, file={"encoding": "cp1252"}), epsilon=1.0)


def test_a_draft_guesses_and_a_check_and_a_release_follow(path, tmp_path):
    rows = [line.encode("cp1252") for line in ["größe;ort", *["180,5;Köln", "170,5;Ulm"] * 200, ""]]
    path.write_bytes(b"\n".join(rows))
    text = ss.draft(str(path))
    assert '[file]\ndelimiter = ";"\nencoding = "cp1252"' in text
    assert 'decimal = ","' in text
    schema = tmp_path / "s.toml"
    ss.Schema(COLUMNS).save(schema)
    flags = ["--delimiter", ";", "--encoding", "cp1252"]
    checked = CliRunner().invoke(app, ["check", str(path), "-s", str(schema), *flags])
    assert checked.exit_code == 0, checked.output
    assert "Every cell that is there can be read." in checked.stdout
    out = tmp_path / "out"
    made = CliRunner().invoke(app, ["release", str(path), "-s", str(schema), "-e", "5", "-o", str(out), *flags])
    assert made.exit_code == 0, made.output
    assert ss.load(out).schema.file == FileFormat(**SEMICOLONS)
    assert ss.verify(out).passed


SHEET = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{rows}</sheetData></worksheet>'
BOOK = (
    '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/'
    'officeDocument/2006/relationships"><sheets>{sheets}</sheets></workbook>'
)
LINKS = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{links}</Relationships>'
KIND = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


# A day and a span of time, as cells are written that have the first and the second of these formats.
STYLES = (
    '<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><numFmts count="2">'
    '<numFmt numFmtId="164" formatCode="yyyy-mm-dd"/><numFmt numFmtId="165" formatCode="[h]:mm:ss"/></numFmts>'
    '<cellXfs count="3"><xf numFmtId="0"/><xf numFmtId="164"/><xf numFmtId="165"/></cellXfs></styleSheet>'
)


@dataclass
class Styled:
    """A number in one of the formats."""

    number: float
    style: int


def cell(value):
    if isinstance(value, Styled):
        return f'<c s="{value.style}"><v>{value.number}</v></c>'
    if isinstance(value, bool):
        return f'<c t="b"><v>{int(value)}</v></c>'
    if isinstance(value, (int, float)):
        return f"<c><v>{value}</v></c>"
    return "<c/>" if value is None else f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'


def write_excel(path, **sheets):
    """Write a workbook by hand: the least that Excel takes."""
    parts = {
        "_rels/.rels": LINKS.format(
            links=f'<Relationship Id="a" Type="{KIND}/officeDocument" Target="xl/workbook.xml"/>'
        ),
        "xl/workbook.xml": BOOK.format(
            sheets="".join(f'<sheet name="{n}" sheetId="{i}" r:id="r{i}"/>' for i, n in enumerate(sheets, 1))
        ),
        "xl/_rels/workbook.xml.rels": LINKS.format(
            links="".join(
                f'<Relationship Id="r{i}" Type="{KIND}/worksheet" Target="s{i}.xml"/>'
                for i in range(1, len(sheets) + 1)
            )
            + f'<Relationship Id="styles" Type="{KIND}/styles" Target="styles.xml"/>'
        ),
        "xl/styles.xml": STYLES,
    }
    for i, rows in enumerate(sheets.values(), 1):
        body = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
        parts[f"xl/s{i}.xml"] = SHEET.format(rows=body)
    with zipfile.ZipFile(path, "w") as book:
        for name, text in parts.items():
            book.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>' + text)
    return path


@pytest.fixture
def excel(tmp_path):
    pytest.importorskip("python_calamine")
    rows = [(180.5, "Köln"), ("n/a", "Ulm"), (170, None), (None, None), (True, "a;b")]
    return write_excel(tmp_path / "t.xlsx", first=[("größe", "ort"), *rows], notes=[("ort", "größe"), ("Ulm", 3)])


def test_excel_cells_are_read_one_by_one(excel):
    found = [tuple(row.values()) for row in rows_of(excel)]
    # The mark says that the cell was a number, of which the decimal sign of the schema says nothing.
    marked = [TYPED + text for text in ("180.5", "170", "true")]
    assert found == [(marked[0], "Köln"), (None, "Ulm"), (marked[1], None), (None, None), (marked[2], "a;b")]
    assert rows_of(excel, sheet="notes") == [{"größe": TYPED + "3", "ort": "Ulm"}]


def test_an_excel_cell_changes_its_own_row_only(tmp_path):
    pytest.importorskip("python_calamine")
    rows = [(float(i), "Ulm") for i in range(20)]
    before = rows_of(write_excel(tmp_path / "a.xlsx", s=[("größe", "ort"), *rows]))
    for number, odd in enumerate(["x", "", None, True, 1e300, "2020-01-01", "NA", -1]):
        changed = [*rows[:7], (odd, "Köln"), *rows[8:]]
        after = rows_of(write_excel(tmp_path / f"{number}.xlsx", s=[("größe", "ort"), *changed]))
        assert [*after[:7], *after[8:]] == [*before[:7], *before[8:]]


@pytest.mark.parametrize("odd", [Styled(-1e300, 1), Styled(1e300, 2), Styled(-1e300, 2)])
@pytest.mark.parametrize("place", [0, 7, 19])
def test_a_day_or_span_beyond_all_is_missing_with_its_row(tmp_path, odd, place):
    """The reader panics or fails at such a cell, which must not be a reason to refuse the sheet, nor change its rows."""
    pytest.importorskip("python_calamine")
    rows = [(float(i), "Ulm") for i in range(20)]
    before = rows_of(write_excel(tmp_path / "a.xlsx", s=[("größe", "ort"), *rows]))
    rows[place] = (odd, "Köln")
    after = rows_of(write_excel(tmp_path / "b.xlsx", s=[("größe", "ort"), *rows]))
    assert [*after[:place], *after[place + 1 :]] == [*before[:place], *before[place + 1 :]]
    assert after[place] == {"größe": None, "ort": None}


def test_a_sheet_whose_names_cannot_be_read_is_refused(tmp_path):
    pytest.importorskip("python_calamine")
    with pytest.raises(ss.DataError, match="has none of them"):
        rows_of(write_excel(tmp_path / "a.xlsx", s=[(Styled(-1e300, 1), "ort"), (170, "Ulm")]))


def test_an_empty_row_of_a_sheet_is_a_row(tmp_path):
    """Else the number of rows, which is public, would tell that somebody's cells are empty."""
    pytest.importorskip("python_calamine")
    rows = [(170, "Ulm"), (180, "Köln"), (190, "Ulm")]
    whole = rows_of(write_excel(tmp_path / "a.xlsx", s=[("größe", "ort"), *rows]))
    empty = rows_of(write_excel(tmp_path / "b.xlsx", s=[("größe", "ort"), rows[0], (None, None), rows[2]]))
    assert len(empty) == len(whole) == 3
    assert (empty[0], empty[2]) == (whole[0], whole[2])


def test_excel_says_what_is_wrong(excel, tmp_path):
    with pytest.raises(ss.DataError, match="must have the sheet 'x'"):
        rows_of(excel, sheet="x")
    (tmp_path / "bad.xlsx").write_bytes(b"PK\x03\x04 Ruritania")
    with pytest.raises(ss.DataError, match="must be a whole Excel") as caught:
        rows_of(tmp_path / "bad.xlsx")
    assert caught.value.__cause__ is None


def test_an_excel_file_is_drafted_checked_and_released(excel, tmp_path):
    write_excel(tmp_path / "many.xlsx", s=[("größe", "ort"), *[(150 + i % 50, "Köln") for i in range(300)]])
    assert '[columns."größe"]\ntype = "integer"' in ss.draft(str(tmp_path / "many.xlsx"))
    assert ss.check(tmp_path / "many.xlsx", COLUMNS).passed
    made = ss.release(tmp_path / "many.xlsx", schema={"größe": ss.Integer(0, 300)}, epsilon=20.0)
    assert 170 < made.to_pandas()["größe"].mean() < 180


def test_without_the_package_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "python_calamine", None)
    with pytest.raises(ss.DataError, match=r"pip install 'smoothsynth\[excel\]'"):
        rows_of(write_excel(tmp_path / "a.xlsx", s=[("größe", "ort"), (1, "Ulm")]))
