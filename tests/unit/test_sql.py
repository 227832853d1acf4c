"""SQL sees the synthetic rows and nothing else of the machine."""

import builtins
import contextlib
import csv
import io
import json
import socket

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.cli.main import app


@pytest.fixture
def release(frame, schema):
    return ss.release(frame, schema=schema, epsilon=1.0, seed=7, synthetic_rows=100)


@pytest.fixture
def folder(release, tmp_path):
    return release.write(tmp_path / "out")


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_answers_are_of_the_synthetic_rows(release):
    pd = release.to_pandas()
    answer = release.sql("select avg(age) as mean, count(*) as rows, max(visits) as most from synthetic where age > 40")
    chosen = pd[pd.age > 40]
    assert isinstance(answer, pa.Table)
    assert answer.to_pylist() == [
        {"mean": pytest.approx(chosen.age.mean()), "rows": len(chosen), "most": chosen.visits.max()}
    ]
    assert release.sql("from SYNTHETIC").to_pandas().equals(pd)


def test_weights_count_private_rows(release):
    assert release.sql("select sum(weight()), count(*) from synthetic").to_pandas().iloc[0].tolist() == [400.0, 100]


def test_a_column_named_weight_does_not_clash():
    schema = ss.Schema({"weight": ss.Number(0, 200), "Weight": ss.Number(0, 1)})
    made = ss.release(pa.table({"weight": [70.0] * 50, "Weight": [0.5] * 50}), schema=schema, epsilon=1.0)
    answer = made.sql("select avg(weight) / avg(weight), sum(weight()) from synthetic")
    assert [c[0].as_py() for c in answer.columns] == [1.0, 50.0]


@pytest.mark.parametrize(
    "query",
    [
        "with old as (select * from synthetic where age > 60) select count(*) from old",
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 9) select * from n",
        "select a.age from synthetic a join (select max(age) as m from synthetic) b on a.age = b.m",
        "select bin, sum(weight()) from (select floor(age / 10) as bin from synthetic) group by bin order by bin",
        "select i, (select count(*) from synthetic where visits = i) from range(5) r(i)",
        "describe synthetic",
        "summarize synthetic",
        "select regr_slope(income, age), quantile_cont(age, [0.1, 0.9]) from synthetic",
        "select 1; -- and nothing else",
    ],
)
def test_what_a_select_can_do(release, query):
    assert release.sql(query).num_rows >= 1


OUTSIDE = {
    "read_csv": "select * from read_csv('<file>')",
    "read_text": "select * from read_text('<file>')",
    "read_blob in a subquery": "select age from synthetic where age > (select max(size) from read_blob('<file>'))",
    "a file as table": "select * from '<file>'",
    "a file in an expression": "with x as (select * from '<file>') select * from x",
    "glob": "select * from glob('<folder>/*')",
    "parquet": "select * from parquet_metadata('<file>')",
    "network": "select * from 'http://127.0.0.1:<port>/x.csv'",
    "network by function": "select * from read_csv('http://127.0.0.1:<port>/x.csv')",
    "copy to": "copy synthetic to '<new>'",
    "copy a query": "copy (select 1) to '<new>' (format csv)",
    "copy from": "copy synthetic from '<file>'",
    "export": "export database '<new>'",
    "install": "install httpfs",
    "load": "load httpfs",
    "attach": "attach '<new>' as other",
    "attach in memory": "attach ':memory:' as other",
    "set": "set threads = 4",
    "set external access": "set enable_external_access = true",
    "reset": "reset memory_limit",
    "pragma": "pragma threads = 4",
    "pragma as statement": "pragma database_list",
    "call": "call pragma_version()",
    "logging to a file": "select * from enable_logging(storage = 'file', storage_config = {'path': '<new>'})",
    "settings": "select * from duckdb_settings()",
    "secrets": "select * from duckdb_secrets()",
    "the catalogue": "select * from information_schema.tables",
    "pointers": "select * from arrow_scan(1, 2, 3)",
    "a query in a query": "select * from query('select 1')",
    "a variable of Python": "select * from secret",
    "create": "create table t as select * from synthetic",
    "insert": "insert into synthetic values (1, 2, 3)",
    "delete": "delete from synthetic",
    "drop": "drop view synthetic",
    "two": "select 1; select 2",
    "hidden second": "select 1; copy synthetic to '<new>'",
    "nothing": "",
    "a comment": "-- select 1",
    "nonsense": "selec age from synthetic",
    "an unknown column": "select salary from synthetic",
    "a parameter": "select ?",
    "too deep": "select " + "(select " * 2000 + "1" + ")" * 2000,
    "a lone surrogate": "select '\ud800'",
    "too much memory": "select * from range(10000000000) t(i) order by i desc",
}


def written(name, folder, *, port=9):
    """Return a query with its places filled in, and a file that it would like to read."""
    (folder / "secret.csv").write_text("age\n47.11235813\n")
    places = {"port": port, "folder": folder, "file": folder / "secret.csv", "new": folder / "new"}
    query = OUTSIDE[name]
    for place, value in places.items():
        query = query.replace(f"<{place}>", str(value))
    return query


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n == "too much memory" else ()) for n in OUTSIDE]
)
def test_everything_else_is_refused_in_one_sentence(name, release, tmp_path):
    secret = pa.table({"age": [47.11235813]})
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        with pytest.raises(ss.ReleaseError) as caught:
            release.sql(written(name, tmp_path, port=server.getsockname()[1]))
        with pytest.raises(TimeoutError):
            server.accept()
    words = str(caught.value)
    assert 20 < len(words) < 600
    assert "\n" not in words
    assert words.endswith((".", "!", "?"))
    assert "47.11235813" not in words
    assert [p.name for p in tmp_path.iterdir()] == ["secret.csv"]
    assert secret.num_rows == 1


# What DuckDB must refuse on its own, or carry out without any effect outside its memory.
FENCED = [
    n for n in OUTSIDE if n.startswith(("read", "a ", "copy", "export", "inst", "load", "att", "logg", "glob", "netw"))
]


@pytest.mark.parametrize("name", FENCED)
def test_duckdb_itself_refuses_too(name, release, tmp_path, monkeypatch):
    """The second fence stands without the first."""
    monkeypatch.setattr("smoothsynth.answer.sql._check", lambda connection, query: None)
    shown = ""
    with contextlib.suppress(ss.ReleaseError, AttributeError, UnicodeEncodeError):
        shown = str(release.sql(written(name, tmp_path)).to_pydict())
    assert "47.11235813" not in shown
    assert [p.name for p in tmp_path.iterdir()] == ["secret.csv"]


def test_an_unknown_column_brings_the_known_ones(release):
    with pytest.raises(ss.ReleaseError, match=r"agee.*age"):
        release.sql("select agee from synthetic")


def test_without_duckdb_the_way_to_get_it(release, monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name == "duckdb":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ss.ReleaseError, match=r"pip install 'smoothsynth\[sql\]'"):
        release.sql("select 1")


def test_the_command_prints_a_table_csv_and_json(folder):
    query = (
        "select visits, count(*) as n, avg(age) as age, avg(age) as age from synthetic group by visits order by visits"
    )
    shown = run("sql", folder, query)
    assert shown.exit_code == 0, shown.output
    assert "visits" in shown.stdout
    assert "smoothsynth answer" in shown.stderr
    assert "100 synthetic rows stand for 400 private ones" in shown.stderr
    lines = list(csv.reader(io.StringIO(run("sql", folder, query, "--csv").stdout)))
    document = json.loads(run("sql", folder, query, "--json").stdout)
    assert lines[0][:2] == document["columns"][:2] == ["visits", "n"]
    assert sum(int(line[1]) for line in lines[1:]) == sum(row[1] for row in document["rows"]) == 100
    assert [float(x) for x in lines[1]] == pytest.approx(document["rows"][0])


def test_values_that_json_and_tables_do_not_have(folder):
    query = (
        "select 'nan'::double as a, date '2020-01-02' as b, null as c, [1, 2] as d, '[red]x' as e, 1e300 * 1e300 as f"
    )
    document = json.loads(run("sql", folder, query, "--json").stdout)
    assert document["rows"][0][:5] == ["nan", "2020-01-02", None, "[1, 2]", "[red]x"]
    assert "[red]x" in run("sql", folder, query).stdout
    assert run("sql", folder, query, "--csv").exit_code == 0


def test_a_long_answer_is_cut_on_the_screen_only(folder):
    assert "60 more rows" in run("sql", folder, "select age from synthetic").stdout
    assert len(run("sql", folder, "select age from synthetic", "--csv").stdout.splitlines()) == 101


def test_a_bad_query_is_one_line_and_exit_code_1(folder):
    shown = run("sql", folder, "copy synthetic to 'x.csv'")
    assert shown.exit_code == 1
    assert shown.stdout == ""
    assert shown.stderr.count("\n") == 1


def test_a_tampered_release_is_not_asked(folder):
    (folder / "synthetic.parquet").write_bytes(b"PAR1")
    shown = run("sql", folder, "select 1")
    assert shown.exit_code == 1
    assert "synthetic.parquet" in shown.stderr


def test_help_teaches():
    for command in ("sql", "verify"):
        shown = run(command, "--help")
        assert shown.exit_code == 0
        assert "Example" in shown.output
