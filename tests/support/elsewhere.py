"""A command as another container runs it over one repository: in a pid namespace of its own, or after another boot."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.commands import Ran, script

BOOT = "/proc/sys/kernel/random/boot_id"
FAKE = "11111111-2222-4333-8444-555555555555"
PLACES = ("both", "pid namespace", "boot")


def _prefixes() -> dict[str, list[str]]:
    """How to enter each place; empty where the kernel refuses namespaces."""
    fake = f'printf "%s\\n" {FAKE} > "$0" && mount --bind "$0" {BOOT} && exec "$@"'
    root = ["unshare"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]
    return {
        "pid namespace": [*root, "--pid", "--fork", "--mount-proc"],
        "boot": [*root, "--mount", "sh", "-c", fake],
        "both": [*root, "--pid", "--fork", "--mount-proc", "--mount", "sh", "-c", fake],
    }


class Elsewhere:
    """One of `PLACES`. `scratch` is a directory of the test."""

    def __init__(self, place: str, scratch: Path) -> None:
        self.prefix = _prefixes()[place]
        if "sh" in self.prefix:
            self.prefix = [*self.prefix, str(scratch / "boot-id")]

    @property
    def refused(self) -> str:
        """Why the kernel does not let us in; empty where it does."""
        try:
            done = subprocess.run([*self.prefix, "true"], capture_output=True, check=False)
        except FileNotFoundError:
            return "there is no unshare(1)"
        return "" if done.returncode == 0 else f"no namespaces: {done.stderr.decode().strip()}"

    def argv(self, name: str, *args: str | Path) -> list[str]:
        return [*self.prefix, script(name), *map(str, args)]

    def run(self, name: str, *args: str | Path, cwd: Path) -> Ran:
        """The command there, to its end."""
        done = subprocess.run(self.argv(name, *args), cwd=cwd, capture_output=True, text=True, check=False)
        return Ran(done.returncode, done.stdout, done.stderr)

    def begin(
        self, name: str, *args: str | Path, cwd: Path, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        return _begun(self.argv(name, *args), cwd, env)


def begin_here(words: Sequence[str | Path], cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    name, *rest = words
    return _begun([script(str(name)), *map(str, rest)], cwd, env)


def _begun(argv: Sequence[str], cwd: Path, env: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv, cwd=cwd, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
