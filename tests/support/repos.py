"""Real repositories for tests."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\n")


@dataclass(frozen=True)
class Repo:
    """A checkout, with the git calls that tests need. Every call must succeed unless `check=False`."""

    path: Path

    @classmethod
    def init(cls, path: Path, *args: str) -> Repo:
        path.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "init", "-q", "-b", "main", *args, str(path)], check=True)
        return cls(path)

    def git(self, *args: str | bytes | Path, check: bool = True, stdin: bytes | None = None) -> str:
        """stdout without its last newline."""
        return os.fsdecode(self.git_bytes(*args, check=check, stdin=stdin).removesuffix(b"\n"))

    def git_bytes(self, *args: str | bytes | Path, check: bool = True, stdin: bytes | None = None) -> bytes:
        done = subprocess.run(["git", *args], cwd=self.path, input=stdin, capture_output=True, check=False)
        assert not check or done.returncode == 0, (args, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def write(self, name: str | bytes, content: str | bytes) -> Path:
        path = self.path / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def commit(self, message: str = "a change") -> str:
        """Commit everything; returns the commit's id."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.head

    def at(self, path: Path) -> Repo:
        return Repo(path)

    @property
    def head(self) -> str:
        """Read without a git where HEAD, or a loose branch that it names, says it."""
        try:
            said = (self.path / ".git/HEAD").read_text()
            if said.startswith("ref: refs/heads/"):
                said = (self.path / ".git" / said[5:].rstrip("\n")).read_text()
        except OSError:
            said = ""
        return said[:-1] if OBJECT_ID.fullmatch(said) else self.git("rev-parse", "HEAD")

    @property
    def tree(self) -> str:
        return self.git("rev-parse", "HEAD^{tree}")

    def show(self, revision: str, name: str) -> bytes:
        return self.git_bytes("show", f"{revision}:{name}")
