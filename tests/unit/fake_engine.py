"""Stands for vLLM in the tests of the lease: answers GET /health on a Unix socket.

    python fake_engine.py SOCKET EVENTS [--exit WORDS] [--deaf] [--stubborn] [--children]

writes to EVENTS, a line each, `load PID DEVICES` when it begins, `child PID` for each child.
--exit: say WORDS and end. --deaf: never healthy. --stubborn: ignore SIGTERM. --children: have a
child, one that left the session, and one that left it and renamed itself as vLLM's do.
"""

from __future__ import annotations

import argparse
import os
import signal
import socketserver
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

SLEEP = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
RENAMED = f"import setproctitle; setproctitle.setproctitle('VLLM::EngineCore'); {SLEEP}"


class Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def address_string(self) -> str:
        return "socket"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("socket")
    parser.add_argument("events", type=Path)
    parser.add_argument("--exit")
    parser.add_argument("--deaf", action="store_true")
    parser.add_argument("--stubborn", action="store_true")
    parser.add_argument("--children", action="store_true")
    arguments = parser.parse_args()

    def tell(what: str, *words: object) -> None:
        with arguments.events.open("a") as file:
            file.write(" ".join(map(str, (what, *words))) + "\n")

    if arguments.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if arguments.children:
        for code, apart in ((SLEEP, False), (SLEEP, True), (RENAMED, True)):
            child = subprocess.Popen([sys.executable, "-c", code], start_new_session=apart)
            tell("child", child.pid)
    tell("load", os.getpid(), os.environ["LLM_VARIABILITY_DEVICE"])
    if arguments.exit:
        sys.exit(arguments.exit)
    if arguments.deaf:
        signal.pause()
    with socketserver.ThreadingUnixStreamServer(arguments.socket, Health) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
