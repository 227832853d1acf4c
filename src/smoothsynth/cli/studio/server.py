"""The studio's server: on 127.0.0.1 alone, behind a token in the address, for one browser of one owner.

Every request must name this machine as its host (a page elsewhere cannot point a name of its own here), must come from the
studio's page (a page elsewhere cannot send forms here), and must know the token. Nothing is logged, cached or framed.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import shutil
import socketserver
import threading
import zipfile
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from smoothsynth.cli.studio.walk import ConflictError, in_words
from smoothsynth.errors import SmoothsynthError
from smoothsynth.report.page import asset

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from smoothsynth.cli.studio.walk import Walk


MOST_JSON, MOST_UPLOAD, _CHUNK = 2 * 2**20, 4 * 2**30, 2**20
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
# The page of the release has scripts of its own: they run, apart from the studio, and reach nothing.
_RELEASE_POLICY = "sandbox allow-scripts allow-modals; frame-ancestors 'none'"
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_STATIC = {
    "": ("studio.html", "text/html"),
    "studio.css": ("studio.css", "text/css"),
    "studio.js": ("studio.js", "text/javascript"),
    "columns.js": ("columns.js", "text/javascript"),
}
# The studio looks like the page of a release, and draws like it.
_SHARED = {"page.css": "text/css", "charts.js": "text/javascript"}


class Studio(ThreadingHTTPServer):
    """A server for one walk; `address` is what the owner opens."""

    daemon_threads = True

    def __init__(self, walk: Walk, *, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.walk = walk
        self.token = base64.urlsafe_b64encode(os.urandom(32)).decode("ascii").rstrip("=")
        self.hosts = tuple(f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost"))

    def server_bind(self) -> None:
        """Bind without asking a name server how this machine is called."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a request that failed: its traceback would show private things."""

    @property
    def address(self) -> str:
        """The address with the token."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def end(self) -> None:
        """Stop serving, once the answer that says so is sent."""
        threading.Thread(target=self.shutdown, daemon=True).start()


class _RefusalError(Exception):
    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: Studio
    # A connection that says nothing is closed.
    timeout = 60
    server_version, sys_version = "smoothsynth", ""

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: addresses hold the token and names of files."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request, or of another method, like everything else that is refused."""
        self._send_json({"error": HTTPStatus(code).phrase}, HTTPStatus(code))

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _answer(self, act: Callable[[str], None]) -> None:
        try:
            act(self._route())
        except _RefusalError as refusal:
            self._send_json({"error": str(refusal)}, refusal.status)
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except ConflictError as error:
            self._send_json(in_words(error), HTTPStatus.CONFLICT)
        except SmoothsynthError as error:
            self._send_json(in_words(error), HTTPStatus.UNPROCESSABLE_ENTITY)
        except Exception as error:
            self._send_json(in_words(error), HTTPStatus.INTERNAL_SERVER_ERROR)

    def _route(self) -> str:
        """Return what is asked for below the token, of a request that may ask."""
        if self.headers.get("Host") not in self.server.hosts:
            raise _RefusalError(HTTPStatus.FORBIDDEN, "The studio is for this machine only.")
        origin, site = self.headers.get("Origin"), self.headers.get("Sec-Fetch-Site", "none")
        own = {f"http://{host}" for host in self.server.hosts}
        if (origin or self.command == "POST") and origin not in own:
            raise _RefusalError(HTTPStatus.FORBIDDEN, "Requests from other pages are refused.")
        token, _, rest = urlsplit(self.path).path.lstrip("/").partition("/")
        # A browser is brought to the page itself from a file, or from a terminal that knows links.
        if site not in ("none", "same-origin") and (rest or self.headers.get("Sec-Fetch-Mode") != "navigate"):
            raise _RefusalError(HTTPStatus.FORBIDDEN, "Requests from other pages are refused.")
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode("ascii")):
            raise _RefusalError(
                HTTPStatus.NOT_FOUND, "There is nothing here. Open the address that the terminal shows."
            )
        return unquote(rest)

    def _get(self, route: str) -> None:
        walk = self.server.walk
        if route in _STATIC:
            name, kind = _STATIC[route]
            self._send(_page_file(name), kind)
        elif route in _SHARED:
            self._send(asset(route).encode(), _SHARED[route])
        elif route == "api/state":
            self._send_json(walk.state())
        elif route.startswith("api/job/") and route[8:].isdecimal() and len(route) < 20:
            self._send_json(walk.jobs.shown(int(route[8:])))
        elif route == "schema.toml" and walk.schema is not None:
            self._send(walk.schema.to_toml().encode(), "application/toml", saved_as="schema.toml")
        elif route == "released.toml" and walk.released is not None:
            self._send(walk.released["schema"].encode(), "application/toml", saved_as="schema.toml")
        elif route == "report.html":
            self._send(walk.file("report.html").read_bytes(), "text/html", policy=_RELEASE_POLICY)
        elif route == "release.zip":
            self._send_zip(walk.file("receipt.json").parent)
        else:
            raise _RefusalError(HTTPStatus.NOT_FOUND, "There is nothing here.")

    def _post(self, route: str) -> None:
        walk = self.server.walk
        if route == "api/upload":
            self._upload()
            return
        acts: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "api/open": lambda asked: walk.open(str(asked.get("name")), _texts(asked.get("file", {}))),
            "api/check": lambda asked: walk.check(_part(asked, "form", dict)),
            "api/plan": lambda asked: walk.plan(_budgeted(asked)),
            "api/review": lambda asked: walk.review(_budgeted(asked)),
            "api/release": lambda asked: walk.release(_part(asked, "summary", int)),
            "api/verify": lambda _: walk.verify(),
            "api/end": lambda _: {"ended": True},
        }
        if route not in acts:
            raise _RefusalError(HTTPStatus.NOT_FOUND, "There is nothing here.")
        self._send_json(acts[route](self._json()))
        if route == "api/end":
            self.server.end()

    def _json(self) -> dict[str, Any]:
        if self.headers.get_content_type() != "application/json":
            raise _RefusalError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be JSON.")
        try:
            found = json.loads(self.rfile.read(self._length(MOST_JSON)))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise _RefusalError(HTTPStatus.BAD_REQUEST, "The body must be a JSON object.")
        return found

    def _length(self, most: int) -> int:
        given = self.headers.get("Content-Length", "")
        if not given.isdecimal() or len(given) > 15:
            raise _RefusalError(HTTPStatus.LENGTH_REQUIRED, "The body must say how long it is.")
        if int(given) > most:
            raise _RefusalError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body must have at most {most:,} bytes.")
        return int(given)

    def _upload(self) -> None:
        """Write a file into the private folder of the studio, piece by piece."""
        if self.headers.get_content_type() != "application/octet-stream":
            raise _RefusalError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be the bytes of a file.")
        left = self._length(MOST_UPLOAD)
        name, path = self.server.walk.new_upload(parse_qs(urlsplit(self.path).query).get("name", [""])[0])
        # Outside: what is there already is not this upload's to delete.
        path.touch(mode=0o600, exist_ok=False)
        try:
            with path.open("wb") as file:
                while left and (piece := self.rfile.read(min(left, _CHUNK))):
                    left -= file.write(piece)
            if left:
                raise _RefusalError(HTTPStatus.BAD_REQUEST, "The file did not arrive whole. Try again.")
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        self.server.walk.uploaded[name] = path
        self._send_json({"name": name})

    def _send_json(self, found: dict[str, Any], status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(json.dumps(found).encode("ascii"), "application/json", status=status)

    def _send(
        self,
        body: bytes,
        kind: str,
        *,
        status: HTTPStatus = HTTPStatus.OK,
        policy: str = _POLICY,
        saved_as: str | None = None,
    ) -> None:
        self._send_head(kind, len(body), status=status, policy=policy, saved_as=saved_as)
        self.wfile.write(body)

    def _send_head(
        self, kind: str, length: int, *, status: HTTPStatus, policy: str = _POLICY, saved_as: str | None = None
    ) -> None:
        self.send_response(status)
        charset = "; charset=utf-8" if kind.startswith(("text/", "application/toml")) else ""
        headers = {"Content-Type": kind + charset, "Content-Length": str(length), "Content-Security-Policy": policy}
        if saved_as is not None:
            headers["Content-Disposition"] = f"attachment; filename*=utf-8''{quote(saved_as)}"
        for name, value in {**headers, **_HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_zip(self, folder: Path) -> None:
        """Send the release as one archive, which is made in the private folder of the studio."""
        packed = self.server.walk.uploads / f"{threading.get_ident()}.zip"
        try:
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
                for file in sorted(folder.iterdir()):
                    archive.write(file, f"{folder.name}/{file.name}")
            size = packed.stat().st_size
            self._send_head("application/zip", size, status=HTTPStatus.OK, saved_as=f"{folder.name}.zip")
            with packed.open("rb") as opened:
                shutil.copyfileobj(opened, self.wfile, _CHUNK)
        finally:
            packed.unlink(missing_ok=True)


def _part(asked: dict[str, Any], name: str, kind: type) -> Any:
    if type(asked.get(name)) is not kind:
        raise _RefusalError(HTTPStatus.BAD_REQUEST, f"The field {name} is missing, or of another kind.")
    return asked[name]


def _texts(found: Any) -> dict[str, str]:
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise _RefusalError(HTTPStatus.BAD_REQUEST, "How a file is written must be texts by name.")
    return found


def _budgeted(asked: dict[str, Any]) -> dict[str, Any]:
    """Return a request with a form and numbers of a budget; which numbers are a budget, the plan says."""
    _part(asked, "form", dict)
    for name in ("epsilon", "delta", "rows_per_person"):
        if type(asked.get(name)) not in (int, float):
            raise _RefusalError(HTTPStatus.BAD_REQUEST, f"The field {name} must be a number.")
    return {**asked, "epsilon": float(asked["epsilon"]), "delta": float(asked["delta"])}


def _page_file(name: str) -> bytes:
    return (resources.files("smoothsynth.cli.studio") / "page" / name).read_bytes()
