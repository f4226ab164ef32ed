"""A partial clone's missing objects, fetched many at once from the remote that promised them.

The neutral directory has no remote, so nothing is fetched there one by one and unasked. Source of the options:
promisor-remote.c in git, which fetches so itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import plural, printable
from ktxkit.git import remote
from ktxkit.git.git import Argument, Git

PATIENCE = 600.0  # seconds that one fetch may take
FETCH = (
    "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance",
    "--filter=blob:none", "--stdin",
)  # fmt: skip


@dataclass(frozen=True)
class Promised:
    """The remotes of a partial clone. `git` stands in the user's repository and asks nobody anything."""

    git: Git

    def fetch(self, oids: Iterable[str]) -> None:
        """Fetch objects, in one call for each remote until one has them. Raises CannotRun where none does."""
        wanted = sorted(set(oids))
        block = "".join(f"{oid}\n" for oid in wanted).encode("ascii")
        said = "it has no promisor remote any more"
        for name in self._remotes():
            git = self.git.configured(fetch_negotiationAlgorithm="noop")
            answer = git.run(*FETCH, "--end-of-options", name, stdin=block, ok=None, timeout=PATIENCE)
            if answer.status == 0:
                return
            told = answer.err.strip().rpartition(b"\n")[2]
            said = f"{name} did not give them: {printable(told)}"
        raise CannotRun(
            f"{plural(len(wanted), 'object')} of this partial clone cannot be fetched: {said}",
            where=str(self.git.cwd),
            hint="reach the remote (network, credentials) and run it again; nothing was changed",
        )

    def warm(self, *args: Argument, env: Mapping[str, str] | None = None) -> None:
        """Run a read in the user's repository, where git itself fetches what it misses, whatever it answers."""
        self.git.run(*args, ok=None, env=env, timeout=PATIENCE)

    def _remotes(self) -> list[str]:
        """Remotes that promised objects. Source: git-config(1), remote.<name>.promisor and extensions.partialClone."""
        query = ("config", "-z", "--get-regexp", r"^(remote\..*\.promisor|extensions\.partialclone)$")
        found = []
        for item in self.git.run(*query, ok=(0, 1)).nul:
            key, _, value = os.fsdecode(item).partition("\n")
            if key == "extensions.partialclone":
                found.append(value)
            elif value != "false":
                found.append(key.removeprefix("remote.").removesuffix(".promisor"))
        return list(dict.fromkeys(found))


def promised(git: Git, objects: Path, environ: Mapping[str, str]) -> Promised | None:
    """The promise of a repository, or None where it is no partial clone: it has no pack from a promisor."""
    try:
        partial = any(name.endswith(".promisor") for name in os.listdir(objects / "pack"))  # noqa: PTH208
    except FileNotFoundError:
        partial = False
    if not partial:
        return None
    reach = {key: environ[key] for key in remote.REACH if key in environ}
    return Promised(git.having(**{**remote.QUIET, **reach}))
