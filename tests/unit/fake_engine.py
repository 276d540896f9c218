"""Stands for vLLM in the tests of the lease: answers GET /health on a Unix socket.

    python fake_engine.py SOCKET EVENTS [--exit WORDS] [--deaf] [--stubborn] [--children]

writes to EVENTS, a line each, `load PID DEVICES` when it begins, `child PID` for each child, and
`clash PID DEVICE` if somebody else is on a device that it got.
--exit: say WORDS and end. --deaf: never healthy. --stubborn: ignore SIGTERM. --children: have a
child, one that left the session, and one that left it and renamed itself as vLLM's do.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import socketserver
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import IO

SLEEP = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
RENAMED = f"import setproctitle; setproctitle.setproctitle('VLLM::EngineCore'); {SLEEP}"


def hold_devices(events: Path, devices: str) -> list[IO[str]]:
    """Lock a file a device for as long as this process lives; tell whoever is not alone there."""
    files = [events.with_name(f"device-{device}").open("a") for device in devices.split(",")]
    for file in files:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(events, "clash", os.getpid(), file.name)
    return files


def tell(events: Path, *words: object) -> None:
    with events.open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


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

    if arguments.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if arguments.children:
        for code, apart in ((SLEEP, False), (SLEEP, True), (RENAMED, True)):
            child = subprocess.Popen([sys.executable, "-c", code], start_new_session=apart)
            tell(arguments.events, "child", child.pid)
    devices = os.environ["LLM_VARIABILITY_DEVICE"]
    tell(arguments.events, "load", os.getpid(), devices)
    held = hold_devices(arguments.events, devices)
    if arguments.exit:
        sys.exit(arguments.exit)
    if arguments.deaf:
        signal.pause()
    with socketserver.ThreadingUnixStreamServer(arguments.socket, Health) as server:
        server.serve_forever()
    del held


if __name__ == "__main__":
    main()
