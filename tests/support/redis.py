"""A real Redis server for one test: on a unix socket and a free port, nothing kept."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.browser import need


@dataclass(frozen=True)
class Server:
    """`url(db)` is the address of one of its databases."""

    port: int
    process: subprocess.Popen[bytes]

    def url(self, db: int = 7) -> str:
        return f"redis://127.0.0.1:{self.port}/{db}"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def server(directory: Path, *options: str) -> Iterator[Server]:
    """Debian's Redis. In redis-tools the server is there under another name; it is what it is called as."""
    binary = need(shutil.which("redis-server") or shutil.which("redis-check-rdb"), "Debian's redis-tools")
    port = free_port()
    argv = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", *options]
    process = subprocess.Popen(
        argv, executable=binary, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ}
    )
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield Server(port, process)
    finally:
        process.kill()
        process.wait()
