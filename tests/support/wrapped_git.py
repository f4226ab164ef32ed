"""A git on PATH whose n-th start is killed or fails; those that a unit's own command starts are not counted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

FATES: Mapping[str, str] = {
    "killed at its start": "kill -KILL $$",
    "killed at its end": '"$real" "$@"; kill -KILL $$',
    "crashed": "kill -SEGV $$",
    "failed": 'echo "fatal: it failed, nobody knows why" >&2; exit 128',
    "failed at its end": '"$real" "$@"; exit 128',
    "disk full": 'echo "fatal: write error: No space left on device" >&2; exit 128',
    "no descriptors": 'echo "fatal: cannot open .git/config: Too many open files" >&2; exit 128',
    "no memory": 'echo "fatal: Out of memory, malloc failed (tried to allocate 65536 bytes)" >&2; exit 128',
}
WAITS = 'touch {count}.waits; until test -e {count}.go; do sleep 0.02; done; exec "$real" "$@"'
_SCRIPT = """#!/bin/sh
real={real}
[ -n "$KTX_LEASE_NONCE" ] && exec "$real" "$@"
case "$*" in *{word}*) ;; *) exec "$real" "$@" ;; esac
n=$(ls {count} | wc -l)
until mkdir {count}/$n 2> {count}.taken; do n=$((n + 1)); done
echo "$@" > {count}/$n/argv
case " $(cat {count}.due) " in *" $n "*) ;; *) exec "$real" "$@" ;; esac
{fate}
"""


class WrappedGit:
    """In `folder`, a git that meets its fate (of `FATES`) at starts that are due, or never."""

    def __init__(self, folder: Path) -> None:
        real = shutil.which("git")
        assert real is not None
        self._real, self._bin, self._count = real, folder / "bin", folder / "count"
        self._bin.mkdir(parents=True)

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": f"{self._bin}:{os.environ['PATH']}"}

    def prepare(self, due: int | Sequence[int], fate: str, word: str = "") -> None:
        """The next starts of gits with `word` among their arguments are counted from 0; those that are due meet the
        fate."""
        shutil.rmtree(self._count, ignore_errors=True)
        self._count.mkdir()
        self._count.with_name("count.due").write_text(" ".join(map(str, [due] if isinstance(due, int) else due)))
        script = self._bin / "git"
        word = word.replace(" ", "\\ ")
        script.write_text(_SCRIPT.format(real=self._real, count=self._count, fate=FATES[fate], word=word))
        script.chmod(0o755)

    def prepare_pause(self, due: int, word: str = "") -> None:
        """The start that is due (of gits with `word` among their arguments) waits until `go_on`."""
        self.prepare(due, "failed", word)
        for name in ("count.waits", "count.go"):
            self._count.with_name(name).unlink(missing_ok=True)
        script = self._bin / "git"
        script.write_text(script.read_text().replace(FATES["failed"], WAITS.format(count=self._count)))

    @property
    def waits(self) -> bool:
        return self._count.with_name("count.waits").exists()

    def go_on(self) -> None:
        self._count.with_name("count.go").touch()

    def started(self) -> list[str]:
        """The arguments of each git that was started, in order."""
        places = sorted(self._count.iterdir(), key=lambda place: int(place.name))
        return [(place / "argv").read_text().removesuffix("\n") for place in places]
