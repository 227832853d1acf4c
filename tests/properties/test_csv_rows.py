"""A cell of a CSV file changes its own row and no other, whatever it holds and however it is quoted."""

import csv
import gzip
import io

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import smoothsynth as ss
from smoothsynth.private.sources import csv as comma_separated
from smoothsynth.private.sources import csv as csv_lines
from smoothsynth.private.sources.files import open_paths

# Characters that mean something to some reader of CSV, and bytes that are no text.
ODD = st.text(st.sampled_from('",; \t\0ab1é\ufeff')).map(str.encode) | st.sampled_from(
    [b'"', b'""', b'"""', b'"a', b'a"', b'"a"b', b'",', b',"', b"\xff", b"\xc3", b"\xef\xbb\xbf", b"NA", b"", b'"\xff']
)
CELLS = st.sampled_from(["", "x", "1.5", "a,b", 'say "yes"', '"', ",", " ", "NA", "é", "'", "\\"])
TABLES = st.integers(1, 3).flatmap(
    lambda columns: st.lists(st.lists(CELLS, min_size=columns, max_size=columns), min_size=1, max_size=6)
)
MODES = st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
ENDS = st.sampled_from(["\n", "\r\n"])


def written(rows, mode, end):
    """Return the lines of a table as Python writes them."""
    lines = []
    for row in rows:
        out = io.StringIO()
        csv.writer(out, quoting=mode, lineterminator="").writerow(row)
        lines.append(out.getvalue().encode())
    head = ",".join("abc"[: len(rows[0])]).encode()
    return [head, *lines], end.encode()


def read(path, content):
    """Return all rows of a file as a source of rows gives them, and their number as it was opened."""
    path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)
    names = comma_separated.read_form(path).names
    source = open_paths([path], {name: ss.Number(0, 1) for name in names})
    rows = [tuple(row[name] for name in names) for batch in source.batches(2) for row in batch.to_pylist()]
    assert source.rows == len(rows)
    return rows


@given(rows=TABLES, mode=MODES, end=ENDS, data=st.data(), closed=st.booleans(), small=st.booleans())
def test_a_cell_changes_its_own_row_only(rows, mode, end, data, closed, small, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    lines, end = written(rows, mode, end)
    at = data.draw(st.integers(0, len(rows) - 1))
    place = data.draw(st.integers(0, len(rows[0]) - 1))
    cells = [b'"' + cell.encode().replace(b'"', b'""') + b'"' for cell in rows[at]]
    odd = data.draw(ODD)
    cells[place] = b'"' + odd.replace(b'"', b'""') + b'"' if closed else odd
    changed = [*lines[: at + 1], b",".join(cells), *lines[at + 2 :]]
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(csv_lines, "_BLOCK", 5)
        before, after = (read(path, end.join(some) + end) for some in (lines, changed))
    assert len(before) == len(after) == len(rows)
    assert before[:at] + before[at + 1 :] == after[:at] + after[at + 1 :]
    if closed:
        others = [before[at][i] for i in range(len(cells)) if i != place]
        assert [after[at][i] for i in range(len(cells)) if i != place] == others


@given(rows=TABLES, mode=MODES, end=ENDS)
def test_what_python_writes_is_read(rows, mode, end, tmp_path_factory):
    lines, end = written(rows, mode, end)
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    expected = [tuple(None if cell in ("", "NA") else cell for cell in row) for row in rows]
    assert read(path, end.join(lines) + end) == expected


PIECES = st.lists(
    st.sampled_from([b'"', b'""', b",", b"\n", b"\r\n", b"\r", b"a", b" ", b"\xff", b"\0", b"\xef\xbb\xbf"])
)


def by_hand(block, columns):
    """Return the rows of a block, each line by itself and with nothing but the reference."""
    rows = []
    for line in (ended.removesuffix(b"\r") for ended in block.split(b"\n")[:-1]):
        if line or columns == 1:
            cells = csv_lines.cells_of(line)
            cells = cells if len(cells) == columns else [b""] * columns
            rows.append([cell.decode("utf-8", "replace") or None for cell in cells])
    return rows


@given(pieces=PIECES, columns=st.integers(1, 3))
@example(pieces=[b'"', b"a", b'"', b'"', b","], columns=2)
@example(pieces=[b"a", b'"', b",", b'"', b"a"], columns=2)
@example(pieces=[b'"', b"\n", b'"'], columns=1)
def test_both_ways_to_read_a_block_give_the_same_cells(pieces, columns):
    block = b"".join(pieces) + b"\n"
    form = csv_lines.Form(tuple("abc"[:columns]), 0)
    expected = by_hand(block, columns)
    # Beside other lines a line is read the quick way or not.
    for company in (b"", b'"x"' + b",1" * (columns - 1) + b"\n", b'x"y' + b',"' * (columns - 1) + b"\n"):
        text = comma_separated.read_block(company + block, form, form.names)
        found = [list(row.values()) for row in text.to_pylist()]
        assert found == by_hand(company, columns) + expected
        assert csv_lines.count_rows(company + block, columns) == len(found)


@given(line=st.text(st.sampled_from('",ab '), min_size=1, max_size=12))
def test_the_cells_of_a_line_are_those_that_python_finds(line):
    assert csv_lines.cells_of(line.encode()) == [cell.encode() for cell in next(csv.reader([line]))]


@settings(max_examples=60)
@given(rows=TABLES, mode=MODES, end=ENDS, size=st.integers(1, 40), suffix=st.sampled_from(["csv", "csv.gz"]))
def test_rows_do_not_depend_on_where_blocks_end(rows, mode, end, size, suffix, tmp_path_factory):
    lines, end = written(rows, mode, end)
    path = tmp_path_factory.getbasetemp() / f"rows.{suffix}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_lines, "_BLOCK", size)
        found = read(path, end.join(lines) + end)
    assert found == read(path, end.join(lines) + end)
