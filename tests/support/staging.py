"""Staging without a job: a sink in memory, and a snapshot to read back."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from ktxkit.base.clock import Clock, SystemClock
from ktxkit.ingest.connectors.interface import Origin, Reading, Setting, Staged, connector
from ktxkit.ingest.rules.places import check, sort_key

Stand = Callable[[Path], None]
STANDS_FOR_A_FILE: dict[str, Stand] = {
    "a link": lambda path: path.symlink_to(__file__),
    "a link that leads nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to a directory": lambda path: path.symlink_to("/"),
    "a FIFO": os.mkfifo,
    "a directory": Path.mkdir,
}


class Held:
    """A sink and a snapshot at once."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def put(self, raw_path: str, data: bytes) -> None:
        assert check(raw_path) not in self.files
        self.files[raw_path] = data

    @property
    def paths(self) -> list[str]:
        return sorted(self.files, key=sort_key)

    def read(self, raw_path: str) -> bytes:
        return self.files[raw_path]


def stage(
    kind: str,
    place: Path | None = None,
    *,
    url: str = "",
    env: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    options: Mapping[str, str] | None = None,
) -> tuple[Held, Staged]:
    """What a connector hands over."""
    held = Held()
    origin = Origin(place, url, env or {}, options or {}, clock or SystemClock())
    return held, connector(kind).stage(origin, held)


def read(kind: str, held: Held, connection: str = "w", **options: str) -> Reading:
    return connector(kind).read(held, Setting(connection, options))
