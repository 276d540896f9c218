"""As much of a model hub's API as a download of one commit needs, on loopback.

It runs in a thread of the test's own process and notes every request. `lose` names a file whose
download breaks off.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


@dataclass
class Hub:
    """One repository at one commit, which is also its branch `main`."""

    repository: str
    commit: str
    files: dict[str, bytes]
    lose: str | None = None
    requests: list[str] = field(default_factory=list)
    url: str = ""

    def downloads(self) -> list[str]:
        begin = f"GET /{self.repository}/resolve/{self.commit}/"
        return [line.removeprefix(begin) for line in self.requests if line.startswith(begin)]


def _handler(hubs: tuple[Hub, ...]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _send(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            hub = next((each for each in hubs if each.repository in path), hubs[0])
            hub.requests.append(f"{self.command} {path}")
            for branch in ("/revision/main", "/tree/main", "/resolve/main/"):
                path = path.replace(branch, branch.replace("main", hub.commit))
            if path == f"/api/models/{hub.repository}/revision/{hub.commit}":
                siblings = [{"rfilename": name} for name in hub.files]
                about = {"id": hub.repository, "sha": hub.commit, "siblings": siblings}
                self._send(200, json.dumps(about).encode(), Content_Type="application/json")
                return
            if path.startswith(f"/api/models/{hub.repository}/tree/{hub.commit}"):
                entries = [
                    {
                        "type": "file",
                        "path": name,
                        "size": len(content),
                        "oid": hashlib.sha1(content).hexdigest(),
                    }
                    for name, content in hub.files.items()
                ]
                self._send(200, json.dumps(entries).encode(), Content_Type="application/json")
                return
            name = path.removeprefix(f"/{hub.repository}/resolve/{hub.commit}/")
            if name not in hub.files:
                self._send(404, b"", X_Error_Code="EntryNotFound")
                return
            if name == hub.lose and self.command == "GET":
                self._send(404, b"")
                return
            etag = f'"{hashlib.sha1(hub.files[name]).hexdigest()}"'
            self._send(200, hub.files[name], ETag=etag, X_Repo_Commit=hub.commit)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def running(hub: Hub, *others: Hub) -> Iterator[Hub]:
    """Serve a hub for the body; others: more repositories at the same address."""
    hubs = hub, *others
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hubs))
    for each in hubs:
        each.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
