"""The studio serves one owner on one machine, shows no row, and spends only what was summed up, once."""

import http.client
import io
import json
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

import smoothsynth as ss
from smoothsynth.accounting.ledger import LedgerFile
from smoothsynth.cli.main import app
from smoothsynth.cli.studio import walk as walk_module
from smoothsynth.cli.studio.form import FormError, first_form, proposals, read_form
from smoothsynth.cli.studio.picture import forecast_with_picture
from smoothsynth.cli.studio.server import MOST_JSON, MOST_UPLOAD, Studio
from smoothsynth.cli.studio.walk import Walk
from smoothsynth.private.owner import drafted
from smoothsynth.private.sources.files import SUFFIXES
from smoothsynth.schema.file import USUAL

BOUNDS = {"age": ("0", "120"), "income": ("0", "1000000"), "visits": ("0", "20")}
SENTINEL = "8675309.125"


class Client:
    """What a browser would send to a studio, and what it would not."""

    def __init__(self, server):
        self.server, self.port = server, server.server_port
        self.own = {"Origin": f"http://127.0.0.1:{self.port}", "Content-Type": "application/json"}

    def send(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, body, {} if headers is None else headers)
        response = connection.getresponse()
        found = response.status, response.headers, response.read()
        connection.close()
        return found

    def get(self, route, **headers):
        return self.send("GET", f"/{self.server.token}/{route}", headers=headers)

    def post(self, route, body):
        status, _, answer = self.send("POST", f"/{self.server.token}/api/{route}", json.dumps(body), self.own)
        return status, json.loads(answer)

    def upload(self, name, content):
        path = f"/{self.server.token}/api/upload?name={quote(name)}"
        status, _, answer = self.send("POST", path, content, {**self.own, "Content-Type": "application/octet-stream"})
        return status, json.loads(answer)

    def work(self, route, body):
        """Begin with some work, wait for it and return what came of it."""
        status, job = self.post(route, body)
        assert status == 200, job
        while job["state"] == "running":
            time.sleep(0.01)
            job = json.loads(self.get(f"api/job/{job['number']}")[2])
        return job

    def form(self, name="people.csv", bounds=BOUNDS):
        """Open a table, and fill in what is public."""
        form = self.work("open", {"name": name})["result"]["form"]
        for column in form["columns"]:
            column["lower"], column["upper"] = bounds.get(column["name"], ("", ""))
        return form

    def asked(self, folder="out", **changes):
        return {"form": self.form(), "epsilon": 1, "delta": 0, "rows_per_person": 1, "folder": folder, **changes}


@contextmanager
def served(place, uploads, ledger=None):
    server = Studio(Walk(place, uploads, ledger))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Client(server)
    finally:
        server.shutdown()
        server.server_close()
        server.walk.jobs.wait()
        thread.join()


@pytest.fixture
def uploads(tmp_path):
    folder = tmp_path / "uploads"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def place(csv_file, tmp_path):
    folder = tmp_path / "place"
    folder.mkdir()
    csv_file.rename(folder / "people.csv")
    return folder


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "people.ledger"
    LedgerFile.create(path, ss.Budget(3.0))
    return path


@pytest.fixture
def client(place, uploads, ledger):
    with served(place, uploads, ledger) as found:
        yield found


def test_only_this_machine_can_reach_it(client):
    assert client.server.server_address[0] == "127.0.0.1"
    assert client.server.socket.family == socket.AF_INET


def test_nothing_is_served_without_the_token(client):
    token = client.server.token
    assert len(token) >= 40
    for wrong in ("", "x", token[:-1], token + "x", token.swapcase(), "é"):
        for route in ("", "studio.js", "api/state", "schema.toml", "release.zip"):
            status, _, body = client.send("GET", f"/{quote(wrong)}/{route}")
            assert status == 404
            assert token.encode() not in body
    assert client.send("GET", "/")[0] == 404
    assert client.send("POST", "/x/api/end", "{}", client.own)[0] == 404
    assert client.get("")[0] == 200


def test_every_studio_has_a_token_of_its_own(client, place, uploads):
    other = Studio(Walk(place, uploads))
    other.server_close()
    assert other.token != client.server.token


def test_names_of_other_machines_are_refused(client):
    for host in (
        "evil.example",
        f"evil.example:{client.port}",
        "127.0.0.1",
        f"127.0.0.1.evil.example:{client.port}",
        "",
    ):
        assert client.get("", Host=host)[0] == 403
        assert client.get("api/state", Host=host)[0] == 403
    assert client.get("", Host=f"localhost:{client.port}")[0] == 200


def test_other_pages_are_refused(client):
    route = f"/{client.server.token}/api/open"
    for origin in ("https://evil.example", "null", f"http://evil.example:{client.port}", "http://127.0.0.1:1"):
        assert client.get("api/state", Origin=origin)[0] == 403
        assert client.send("POST", route, "{}", {**client.own, "Origin": origin})[0] == 403
    assert client.send("POST", route, "{}", {"Content-Type": "application/json"})[0] == 403
    for site in ("cross-site", "same-site"):
        assert client.get("api/state", **{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"})[0] == 403
        assert client.get("", **{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"})[0] == 403
        # A link in a terminal, or the file that opens the browser.
        assert client.get("", **{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"})[0] == 200


def test_every_answer_is_for_this_page_alone(client):
    answers = [client.get(route) for route in ("", "page.css", "charts.js", "api/state", "nothing", "api/job/7")]
    answers += [client.send("GET", "/x"), client.send("PUT", "/x"), client.get("", Host="evil.example")]
    for _, headers, _ in answers:
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
    page = answers[0][2].decode()
    assert "://" not in page
    assert "style=" not in page
    assert "onclick" not in page


def test_a_wrong_guess_of_how_a_file_is_written_can_be_put_right(client, place):
    """More commas than semicolons in the names: the guess is a comma."""
    (place / "places.csv").write_text("city, country, zip;visits;notes, free, long\nRome, IT, 1;3;a\nOslo, NO, 2;4;b\n")
    found = client.work("open", {"name": "places.csv"})
    assert ";" not in found.get("result", {}).get("form", {}).get("file", {}).values()
    form = client.work("open", {"name": "places.csv", "file": {"delimiter": ";"}})["result"]["form"]
    assert form["file"] == {"delimiter": ";"}
    assert [column["name"] for column in form["columns"]] == ["city, country, zip", "visits", "notes, free, long"]


@pytest.mark.parametrize("said", [{"delimiter": "abc"}, {"encoding": "utf-16"}, {"quote": "'"}])
def test_a_file_written_in_no_way_is_refused_in_words(client, said):
    found = client.work("open", {"name": "people.csv", "file": said})
    assert "[file]" in found["error"]


def test_how_a_file_is_written_must_be_texts(client):
    for said in ([], {"delimiter": 3}, "comma"):
        assert client.post("open", {"name": "people.csv", "file": said})[0] == 400


def test_paths_lead_nowhere_else(client, place):
    (place.parent / "secret.csv").write_text(f"a\n{SENTINEL}\n")
    names = ("../secret.csv", "..%2fsecret.csv", str(place.parent / "secret.csv"), "people.csv/../../secret.csv", "")
    for name in names:
        status, answer = client.post("open", {"name": name})
        assert status == 422, name
        assert "no such table" in answer["error"]
        assert client.get(name or "x")[0] == 404
        assert client.get(f"release/{name}")[0] == 404


def test_releases_are_written_into_the_folder_and_nowhere_else(client, place):
    (place / "there").mkdir()
    form = client.form()
    for name in (
        "../out",
        "/out",
        "a/b",
        "..",
        ".",
        ".hidden",
        "",
        "a\\b",
        "a\0b",
        "a\n",
        "out.",
        "there",
        3,
        None,
    ):
        asked = {"form": form, "epsilon": 1, "delta": 0, "rows_per_person": 1, "folder": name}
        assert client.post("review", asked)[0] == 422, name
    assert sorted(path.name for path in place.iterdir()) == ["people.csv", "there"]


def test_bodies_are_bounded(client):
    route = f"/{client.server.token}/api/"
    raw = {**client.own, "Content-Type": "application/octet-stream"}

    def status(path, headers):
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
        connection.putrequest("POST", route + path)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status

    assert status("check", {**client.own, "Content-Length": str(MOST_JSON + 1)}) == 413
    assert status("upload?name=a.csv", {**raw, "Content-Length": str(MOST_UPLOAD + 1)}) == 413
    for length in ("-1", "1e3", "x", "9" * 40):
        assert status("check", {**client.own, "Content-Length": length}) == 411
    assert status("check", client.own) == 411
    assert client.server.walk.uploaded == {}


@pytest.mark.parametrize("body", ["", "[]", "3", "{", "null", '{"form": 3}', "[" * 10_000])
def test_what_is_no_request_is_refused(client, body):
    for route in ("open", "check", "plan", "review", "release"):
        status, _, answer = client.send("POST", f"/{client.server.token}/api/{route}", body, client.own)
        assert status in (400, 409, 422), (route, answer)
        assert json.loads(answer)["error"]
    assert client.send("POST", f"/{client.server.token}/api/open", "{}", {"Origin": client.own["Origin"]})[0] == 415


def test_unknown_routes_and_methods(client):
    assert client.get("api/unknown")[0] == 404
    assert client.post("unknown", {})[0] == 404
    assert client.get("api/open")[0] == 404
    assert client.get("api/job/x")[0] == 404
    for method in ("PUT", "DELETE", "OPTIONS", "HEAD"):
        assert client.send(method, f"/{client.server.token}/")[0] == 501


def test_steps_before_their_time_are_refused(client):
    for route, body in (("verify", {}), ("release", {"summary": 1}), ("check", {"form": {"columns": []}})):
        status, answer = client.post(route, body)
        assert status == 409, answer
    assert client.get("report.html")[0] == 409
    assert client.get("schema.toml")[0] == 404


@pytest.fixture(scope="module")
def messy(tmp_path_factory, write_messy):
    return drafted(str(write_messy(tmp_path_factory.mktemp("messy") / "messy.csv")))


def test_no_bound_and_no_level_is_filled_in(messy):
    for column in first_form(messy, USUAL)["columns"]:
        assert [column[field] for field in ("lower", "upper", "levels", "other", "null_values", "more")] == [""] * 6
        assert not column["private"]
    found = {column["name"]: column for column in first_form(messy, USUAL)["columns"]}
    assert found["height"]["decimal"] == ","
    assert found["admitted"]["date_format"] == "%d.%m.%Y\n%Y-%m-%d"
    assert not any(found[name]["use"] for name in ("patient_id", "name", "country"))


def test_what_was_found_says_which_fields_to_fill_in(messy):
    found = {column.name: proposals(column.found) for column in messy}
    assert {"use": False} in [one["fields"] for one in found["patient_id"]]
    assert {"null_values": "999"} in [one["fields"] for one in found["age"]]
    assert {"nullable": True} in [one["fields"] for one in found["weight"]]
    assert {"private": True} in [one["fields"] for one in found["diagnosis"]]


def column(**fields):
    return {
        "name": "x", "use": True, "type": "number", "lower": "", "upper": "", "private": False, "levels": "", "other": "",
        "decimal": "", "date_format": "", "null_values": "", "nullable": False, "more": "", **fields,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "described"),
    [
        ({"lower": "0", "upper": "1"}, ss.Number(0, 1)),
        ({"lower": "-1.5", "upper": "2e3", "decimal": ","}, ss.Number(-1.5, 2000.0, decimal=",")),
        ({"type": "integer", "lower": "0", "upper": "9", "null_values": "999\n-", "nullable": True},
         ss.Integer(0, 9, null_values=[999, "-"], nullable=True)),
        ({"type": "category", "levels": " a \n\nb", "other": "b", "lower": "3"}, ss.Category(["a", "b"], other="b")),
        ({"type": "category", "private": True}, ss.Category("private")),
        ({"private": True}, ss.Number("private", "private")),
        ({"type": "boolean", "lower": "3", "decimal": ","}, ss.Boolean()),
        ({"type": "date", "lower": "2020-01-31", "upper": "2021-01-31", "date_format": "%d.%m.%Y"},
         ss.Date("2020-01-31", "2021-01-31", date_format=["%d.%m.%Y"])),
        ({"lower": "1", "upper": "9", "more": 'transform = "log"\nunit = "kg"'}, ss.Number(1, 9, transform="log", unit="kg")),
    ],
)  # fmt: skip
def test_fields_make_a_column(fields, described):
    assert read_form({"columns": [column(**fields)]}).facts() == ss.Schema({"x": described}).facts()


def test_all_that_is_wrong_is_said_at_its_column():
    form = {"columns": [column(name="a"), column(name="b", lower="0", upper="1"), column(name="c", more="=")]}
    with pytest.raises(FormError) as caught:
        read_form(form)
    assert set(caught.value.columns) == {"a", "c"}
    assert caught.value.columns["a"] == "The lower bound is missing."
    with pytest.raises(FormError, match="at least one column"):
        read_form({"columns": [column(use=False)]})
    for wrong in (None, {}, {"columns": [3]}, {"columns": [{"name": "x"}]}, {"columns": [column(use="yes")]}):
        with pytest.raises(FormError):
            read_form(wrong)
    whole = read_form({"columns": [column(lower="0", upper="1")], "person": "id", "constraints": "mean(x) = 0.5"})
    assert (whole.person, tuple(whole.constraints)) == ("id", ("mean(x) = 0.5",))


def test_the_picture_is_made_up_and_narrows_with_epsilon(schema):
    names = {
        "age": ss.Number(0, 120),
        "sex": ss.Category(["f", "m", "d"]),
        "ill": ss.Boolean(),
        "day": ss.Date("private", "private"),
    }
    described = ss.Schema(names)
    for name, kind, count in (("age", "curve", 33), ("sex", "shares", 3), ("ill", "shares", 1), ("day", "curve", 33)):
        pictures = [forecast_with_picture(ss.plan(described, 2000, epsilon=e, delta=1e-6), name)[1] for e in (0.3, 3.0)]
        wide, narrow = (picture["all"] for picture in pictures)
        assert pictures[0]["kind"] == kind
        assert len(narrow) == count
        assert max(narrow) < max(wide)
        # What is drawn is the same whatever the budget, and there are no rows to take it from.
        assert pictures[0]["values"] == pictures[1]["values"]
    typical, _ = forecast_with_picture(ss.plan(schema, 400, epsilon=1.0), "age")
    planned = ss.plan(schema, 400, epsilon=1.0).forecast()
    assert [(one.query, pytest.approx(one.noise)) for one in planned] == [(one.query, one.noise) for one in typical]


def test_a_walk_from_a_file_to_a_release(client, place, ledger):
    state = json.loads(client.get("api/state")[2])
    assert state["files"] == ["people.csv"]
    assert state["ledger"] == "epsilon = 3"
    form = client.form()
    found = client.work("check", {"form": form})["result"]
    assert found["check"]["passed"]
    assert found["check"]["private"].startswith("PRIVATE")
    status, planned = client.post(
        "plan", {"form": form, "epsilon": 1, "delta": 0, "rows_per_person": 1, "column": "income"}
    )
    assert status == 200, planned
    assert planned["rows"] == 400
    assert planned["picture"]["column"] == "income"
    # Nothing was spent so far.
    assert LedgerFile(ledger).charges == ()
    asked = {"form": form, "epsilon": 1, "delta": 0, "rows_per_person": 1, "folder": "out"}
    said = client.work("review", asked)["result"]
    assert said["cost"] == {"epsilon": pytest.approx(1.0), "delta": 0.0}
    assert LedgerFile(ledger).charges == ()
    made = client.work("release", {"summary": said["summary"]})["result"]
    assert made["ledger"] == "epsilon = 2"
    assert ss.load(place / "out").to_arrow().num_rows == 400
    assert client.work("verify", {})["result"]["passed"]
    status, headers, page = client.get("report.html")
    assert (status, page) == (200, (place / "out" / "report.html").read_bytes())
    assert headers["Content-Security-Policy"].startswith("sandbox")
    assert "allow-same-origin" not in headers["Content-Security-Policy"]
    packed = zipfile.ZipFile(io.BytesIO(client.get("release.zip")[2]))
    assert sorted(packed.namelist()) == [f"out/{name}" for name in sorted(made["files"])]
    assert ss.Schema.parse(client.get("schema.toml")[2].decode()).names == ("age", "income", "visits")
    assert json.loads(client.get("api/state")[2])["released"] == made


def test_a_summary_is_released_once(client, place, ledger):
    said = client.work("review", client.asked())["result"]
    pressed = []
    threads = [
        threading.Thread(target=lambda: pressed.append(client.post("release", {"summary": said["summary"]})))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(status for status, _ in pressed) == [200] + [409] * 7
    client.server.walk.jobs.wait()
    assert client.post("release", {"summary": said["summary"]})[0] == 409
    assert LedgerFile(ledger).read().left == 2.0
    assert [path.name for path in place.iterdir() if path.is_dir()] == ["out"]


def test_only_the_last_summary_is_good(client, ledger):
    first = client.work("review", client.asked("one"))["result"]["summary"]
    second = client.work("review", client.asked("two", epsilon=0.5))["result"]["summary"]
    assert client.post("release", {"summary": first})[0] == 409
    client.form()
    assert client.post("release", {"summary": second})[0] == 409
    for wrong in (0, -1, 99, True, "1", None, 1.0):
        assert client.post("release", {"summary": wrong})[0] in (400, 409)
    assert LedgerFile(ledger).charges == ()


def test_a_file_that_changed_since_is_not_released(client, place, ledger):
    said = client.work("review", client.asked())["result"]
    with (place / "people.csv").open("a") as file:
        file.write("1,2,3\n")
    job = client.work("release", {"summary": said["summary"]})
    assert job["state"] == "failed"
    assert "Nothing was spent" in job["error"]
    assert LedgerFile(ledger).charges == ()
    assert not (place / "out").exists()


def test_mostly_lost_columns_cannot_be_released(client, place):
    (place / "commas.csv").write_text("height\n" + '"171,5"\n' * 19 + '"171,6"\n')
    form = client.form("commas.csv")
    form["columns"][0] |= {"lower": "50", "upper": "230", "decimal": ""}
    said = client.work("review", {"form": form, "epsilon": 1, "delta": 0, "rows_per_person": 1, "folder": "out"})[
        "result"
    ]
    assert not said["passed"]
    assert "summary" not in said
    assert said["check"]["columns"][0]["unreadable"] == 20


def test_a_ledger_refuses_before_anything_is_spent(client, ledger):
    job = client.work("review", client.asked(epsilon=7))
    assert job["state"] == "failed"
    assert "epsilon" in job["error"]
    for wrong in ({"epsilon": 0}, {"epsilon": -1}, {"delta": 2}, {"rows_per_person": 0}, {"rows_per_person": 1.5}):
        asked = client.asked(**wrong)
        assert client.post("plan", {**asked, "column": "age"})[0] == 422, wrong
        assert client.work("review", asked)["state"] == "failed", wrong
    assert LedgerFile(ledger).charges == ()


def test_an_unexpected_error_tells_nothing(client, monkeypatch, capfd):
    def broken(*_, **__):
        raise ValueError(f"cell {SENTINEL}")

    form = client.form()
    monkeypatch.setattr("smoothsynth.pipeline.check.check", broken)
    job = client.work("check", {"form": form})
    assert job["state"] == "failed"
    assert "ValueError" in job["error"]
    monkeypatch.setattr(walk_module, "read_form", broken)
    status, answer = client.post("plan", {"form": form, "epsilon": 1, "delta": 0, "rows_per_person": 1})
    assert status == 500
    assert SENTINEL not in json.dumps([job, answer])
    assert capfd.readouterr() == ("", "")


def test_no_row_is_sent(client, place, capfd):
    rows = "".join(f"P{i},{SENTINEL if i == 7 else i}.5,Anna Secret{i},{i % 2}\n" for i in range(60))
    (place / "secret.csv").write_text("id,value,name,bit\n" + rows.replace(f"{SENTINEL}.5", SENTINEL))
    sent = [json.dumps(client.work("open", {"name": "secret.csv"}))]
    form = client.form("secret.csv", {"value": ("0", "100"), "bit": ("0", "1")})
    for column_ in form["columns"]:
        column_["use"] = column_["name"] in ("value", "bit")
    asked = {"form": form, "epsilon": 1, "delta": 0, "rows_per_person": 1, "folder": "out", "column": "value"}
    sent += [json.dumps(client.work("check", asked)), json.dumps(client.post("plan", asked))]
    sent += [json.dumps(client.work("review", asked)), client.get("api/state")[2].decode(), *capfd.readouterr()]
    for text in sent:
        assert not any(cell in text for cell in (SENTINEL, "Secret", "P7", "7.5")), text


def test_uploads_are_private(client, uploads, place):
    status, answer = client.upload("../../patients.csv", b"age,income,visits\n" + b"50,1000,2\n" * 30)
    assert status == 200
    assert answer["name"] == "patients.csv (upload 1)"
    (file,) = uploads.iterdir()
    assert file.name == "1.csv"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert client.work("open", {"name": answer["name"]})["state"] == "done"
    assert client.upload("patients.exe", b"x")[0] == 422
    assert client.upload("", b"x")[0] == 422
    assert [path.name for path in place.iterdir()] == ["people.csv"]


def test_uploads_at_the_same_time_are_apart(client, uploads):
    head = (
        f"POST /{client.server.token}/api/upload?name=slow.csv HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n"
        f"Origin: http://127.0.0.1:{client.port}\r\nContent-Type: application/octet-stream\r\nContent-Length: 6\r\n\r\na\n"
    )
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(head.encode())
        while not list(uploads.iterdir()):
            time.sleep(0.01)
        assert client.upload("fast.csv", b"b\n2\n")[0] == 200
        connection.sendall(b"11\n\n")
        assert b" 200 " in connection.recv(99)
    assert {path.name: path.read_bytes() for path in uploads.iterdir()} == {"1.csv": b"a\n11\n\n", "2.csv": b"b\n2\n"}
    assert sorted(client.server.walk.uploaded) == ["fast.csv (upload 2)", "slow.csv (upload 1)"]


def test_the_page_offers_every_kind_of_file(client):
    page = client.get("")[2].decode()
    for end in SUFFIXES.split(", "):
        assert f"{Path(end).suffix}," in page or f'{Path(end).suffix}"' in page, end


def test_an_upload_that_breaks_off_is_deleted(client, uploads):
    head = (
        f"POST /{client.server.token}/api/upload?name=a.csv HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n"
        f"Origin: http://127.0.0.1:{client.port}\r\nContent-Type: application/octet-stream\r\nContent-Length: 99\r\n\r\na\n"
    )
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(head.encode())
        connection.shutdown(socket.SHUT_WR)
        assert b" 400 " in connection.recv(99)
    assert list(uploads.iterdir()) == []
    assert client.server.walk.uploaded == {}


def test_the_same_again(client, place, tmp_path, monkeypatch):
    """The commands and the script that the studio ends with run as they stand."""
    said = client.work("review", client.asked("my out"))["result"]
    made = client.work("release", {"summary": said["summary"]})["result"]
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(client.get("schema.toml")[2].decode())
    for line in made["command_line"].splitlines():
        name, *arguments = shlex.split(line)
        assert name == "smoothsynth"
        shown = CliRunner().invoke(app, arguments)
        assert shown.exit_code == 0, shown.output
    again = place / "my out-again"
    assert ss.load(again).receipt.budget == ss.Budget(1.0)
    again.rename(tmp_path / "moved")
    exec(made["python"], {})  # noqa: S102
    assert ss.load(again).receipt.budget == ss.Budget(1.0)


def test_the_schema_of_a_release_is_not_one_that_was_checked_later(client):
    asked = client.asked()
    client.work("release", {"summary": client.work("review", asked)["result"]["summary"]})
    asked["form"]["columns"][0]["upper"] = "99"
    assert client.work("check", asked)["state"] == "done"
    uppers = [
        ss.Schema.parse(client.get(name)[2].decode()).columns["age"].upper for name in ("schema.toml", "released.toml")
    ]
    assert uppers == [99, 120]


def test_a_form_of_another_table_is_refused(client, place):
    """Two tabs: what one shows is not done to the table that the other opened, though it has the same columns."""
    (place / "later.csv").write_bytes((place / "people.csv").read_bytes())
    asked = client.asked()
    later = client.form("later.csv")
    for route in ("check", "plan", "review"):
        status, answer = client.post(route, asked)
        assert (status, "later.csv was opened since" in answer["error"]) == (409, True)
    assert client.server.walk.form["table"] == later["table"]
    assert client.work("check", {"form": later})["state"] == "done"


def test_a_page_that_is_loaded_again_learns_of_the_work(client, monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr("smoothsynth.pipeline.check.check", lambda *_, **__: go_on.wait(30) and {}["gone"])
    status, job = client.post("check", {"form": client.form()})
    try:
        assert status == 200
        assert json.loads(client.get("api/state")[2])["job"]["number"] == job["number"]
    finally:
        go_on.set()
    client.server.walk.jobs.wait()
    assert json.loads(client.get("api/state")[2])["job"] is None


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_it_ends_cleanly(place, tmp_path, number):
    command = [
        sys.executable,
        "-c",
        "from smoothsynth.cli.start import main; main()",
        "studio",
        str(place),
        "--no-open",
    ]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as started:
        address = started.stdout.readline().split()[-1]
        port, token = address.split(":")[2].split("/")[:2]
        (folder,) = temporary.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
        connection.request("GET", f"/{token}/")
        assert connection.getresponse().status == 200
        started.send_signal(getattr(signal, number))
        out, err = started.communicate(timeout=30)
    assert started.returncode == 0
    assert "has ended" in out
    assert err == ""
    assert list(temporary.iterdir()) == []


def test_the_page_can_end_it(place, monkeypatch):
    """The browser is opened by a private file: the arguments of a process, which all users see, have no token."""
    opened = []

    def browser(address):
        opened.append((address, Path(address.removeprefix("file://")).read_text()))
        target = opened[0][1].split("url=")[1].split('"')[0]
        port, token = target.split(":")[2].split("/")[:2]
        own = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/json"}

        def press():
            connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
            connection.request("POST", f"/{token}/api/end", "{}", own)
            connection.getresponse().read()

        threading.Thread(target=press).start()

    monkeypatch.setattr("webbrowser.open", browser)
    shown = CliRunner().invoke(app, ["studio", str(place)])
    assert shown.exit_code == 0, shown.output
    token = shown.output.split()[6 - 1].split("/")[3]
    assert token in opened[0][1]
    assert token not in opened[0][0]


def test_what_cannot_be_served_is_said(place, tmp_path, client):
    assert "must be a folder" in CliRunner().invoke(app, ["studio", str(place / "people.csv")]).stderr
    taken = CliRunner().invoke(app, ["studio", str(place), "--no-open", "--port", str(client.port)])
    assert taken.exit_code == 1
    assert "cannot be used" in taken.stderr
    missing = CliRunner().invoke(app, ["studio", str(place), "--no-open", "--ledger", str(tmp_path / "none")])
    assert missing.exit_code == 1
