"""SQL over the synthetic rows, on DuckDB: one SELECT that sees the table `synthetic` and nothing else of this machine.

There are two fences. The parsed query may be one SELECT and name `synthetic`, its own common table expressions and a
few functions that make rows. And DuckDB has no access to files, the network or Python's variables, cannot load
extensions, and its configuration is locked.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow

    from smoothsynth.pipeline.release import Release


TABLE = "synthetic"
NOTE = (
    "Answers are of synthetic rows: smooth ones (means, kernel averages, regressions) are close to those of the private "
    "rows; counts, extremes and groups on thresholds can be far off. For intervals: smoothsynth answer."
)
# External access goes last but for the lock: with it gone, the folder for temporary files cannot be taken away any more.
_SETTINGS = {
    "temp_directory": "''",
    "max_temp_directory_size": "'0B'",
    "memory_limit": "'2GB'",
    "threads": "2",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "enable_external_access": "false",
}
# Functions that stand where a table stands. All others (read_csv, glob, duckdb_settings, ...) look elsewhere.
_ROW_MAKERS = {"range", "generate_series", "unnest", "repeat"}
_ONE_SELECT = 'A query must be one SELECT, such as "select avg(COLUMN) from synthetic"'


def sql(release: Release, query: str) -> pyarrow.Table:
    """Answer one SELECT over the table `synthetic`; `weight()` in it is n/m, so `sum(weight())` counts private rows.

    n is the public number of private rows and m that of synthetic ones; all synthetic rows weigh the same.
    """
    duckdb = _duckdb()
    receipt = release.receipt
    try:
        with duckdb.connect(":memory:") as connection:
            connection.register(TABLE, release.table)
            weight = receipt.rows / receipt.synthetic_rows
            connection.execute(f"create macro weight() as ({weight!r}::double)")
            for name, value in _SETTINGS.items():
                connection.execute(f"set {name} = {value}")
            connection.execute("set lock_configuration = true")
            _check(connection, query)
            return connection.sql(query).to_arrow_table()
    except duckdb.Error as error:
        raise ReleaseError(f"The query cannot be answered: {_first_line(error)}") from None


def weights_note(release: Release) -> str:
    """Say what one synthetic row stands for, where that is not one private row."""
    rows, made = release.receipt.rows, release.receipt.synthetic_rows
    if rows == made:
        return ""
    ones = "private ones" if release.schema.person is None else "persons"
    return f" {made:,} synthetic rows stand for {rows:,} {ones}: count(*) counts the former, sum(weight()) the latter."


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise ReleaseError("SQL needs DuckDB, which is not installed. Run: pip install 'smoothsynth[sql]'") from None
    return duckdb


def _check(connection: Any, query: str) -> None:
    """Refuse what is not one SELECT, and tables other than those it may see, before anything is carried out."""
    if not isinstance(query, str) or any("\ud800" <= letter <= "\udfff" for letter in query):
        raise ReleaseError(f"{_ONE_SELECT}; this is not text.")
    parsed = _parsed(connection, query)
    if len(parsed["statements"]) != 1:
        raise ReleaseError(f"{_ONE_SELECT}; there are {len(parsed['statements'])} statements.")
    nodes = list(_nodes(parsed))
    own = {
        entry["key"] for node in nodes for entry in node.get("map", ()) if isinstance(entry, dict) and "key" in entry
    }
    for node in nodes:
        kind, name = node.get("type"), node.get("table_name", "")
        if node.get("schema_name") or (kind == "BASE_TABLE" and name.lower() != TABLE and name not in own):
            raise ReleaseError(f"A query sees only the table {TABLE}; there is no {name!r:.80} here.")
        if kind == "TABLE_FUNCTION" and node["function"]["function_name"] not in _ROW_MAKERS:
            unknown = node["function"]["function_name"]
            raise ReleaseError(f"A query sees only the table {TABLE}: no files, no network, no {unknown!s:.80}.")


def _parsed(connection: Any, query: str) -> dict[str, Any]:
    """Return the parse tree of a SELECT, as DuckDB writes it in JSON."""
    try:
        text = connection.execute("select json_serialize_sql(?::varchar)", [query]).fetchall()[0][0]
        parsed: dict[str, Any] = json.loads(text)
    except RecursionError:
        raise ReleaseError("The query is nested too deeply. Write it with fewer parentheses.") from None
    if parsed["error"] and "SELECT" in parsed["error_message"]:
        raise ReleaseError(f"{_ONE_SELECT}; other statements are not carried out.")
    if parsed["error"]:
        raise ReleaseError(f"The query cannot be read: {parsed['error_message']!s:.300}.")
    return parsed


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a parse tree; without recursion, which a long query would exhaust."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left.extend(node.values())
        elif isinstance(node, list):
            left.extend(node)


def _first_line(error: Exception) -> str:
    """Return what DuckDB says up to the first empty line, which is where it begins to quote the query."""
    words = " ".join(str(error).strip().split("\n\n", 1)[0].split())
    return f"{words:.400}" if words.endswith((".", "!", "?")) else f"{words:.400}."
