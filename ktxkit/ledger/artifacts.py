"""Bodies kept by their content: `ledger/artifacts/<aa>/<digest>`. Equal bodies are one file."""

from __future__ import annotations

import os
from pathlib import Path

from ktxkit.base import files
from ktxkit.base.errors import BrokenContract
from ktxkit.base.rules.digests import digest

VOLUME = 256 * 1024 * 1024  # bytes that one run may add; what is beyond is counted, not kept


class Artifacts:
    """Reads and adds bodies under one directory. Nothing is ever changed or removed."""

    def __init__(self, root: Path, volume: int = VOLUME) -> None:
        self.root = root
        self.left = volume
        self.refused = 0
        self._known: set[str] = set()

    def place(self, name: str) -> Path:
        plain = name.removeprefix("b3:")
        return self.root / plain[:2] / plain

    def keep(self, data: bytes) -> str:
        """Keep a body; returns its digest. A body beyond the volume has a digest but no file, and is counted."""
        name = digest(data)
        if name in self._known:
            return name
        self._known.add(name)
        path = self.place(name)
        if not os.path.lexists(path):
            if len(data) > self.left:
                self.refused += 1
                return name
            self.left -= len(data)
            files.write_atomic(path, data, durable=False)
        return name

    def load(self, name: str) -> bytes:
        """The body of a digest. Raises BrokenContract where it is missing or is not what its name says."""
        path = self.place(name)
        try:
            data = files.read(path)
        except FileNotFoundError as error:
            raise BrokenContract(
                "an artifact that a record names is missing",
                where=str(path),
                hint="it was removed: what the record says of it cannot be shown any more",
            ) from error
        if digest(data) != name:
            raise BrokenContract(
                "an artifact is not what its name says",
                where=str(path),
                hint="it was changed after it was kept: the run cannot be judged by it any more",
            )
        return data
