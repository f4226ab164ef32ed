"""A scratch repository of one tree: its own git directory, our objects, nothing else of the user's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ktxkit.base import files
from ktxkit.git.git import Git
from ktxkit.git.neutral import AUTHOR, ENV, Placed, scratch_dir

PLAIN = {
    "core.autocrlf": "false",
    "core.fsync": "none",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "gc.auto": "0",
    "maintenance.auto": "false",
}


@contextmanager
def checkout(world: Placed, entries: Iterable[tuple[str, bytes, str]], base_tree: str = "") -> Iterator[Path]:
    """Files, as (mode, path, object id), checked out in a repository of its own for the block.

    HEAD is a commit of the base tree (of nothing where there is none), the index has the files.

    Objects are borrowed through `info/alternates`; whatever runs there writes none into the user's store.
    """
    with scratch_dir(world) as place:
        top = place / "tree"
        files.make_dirs(top)
        kept = {key: value for key, value in world.env.items() if not key.startswith("GIT_")}
        git = Git(top, {**kept, **{key: ENV[key] for key in ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL")}}, PLAIN)
        kind = f"--object-format={world.repository.object_format}"
        git.run("init", "-q", "--template=", "-b", "main", kind, str(top))
        store = os.fsencode(world.repository.objects)
        files.write_atomic(top / ".git/objects/info/alternates", store + b"\n", durable=False)
        who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in AUTHOR.items()}
        base_tree = base_tree or git.run("mktree", stdin=b"").text
        commit = git.run("commit-tree", "-m", "base", base_tree, env=who).text
        git.run("update-ref", "refs/heads/main", commit)
        listed = b"".join(f"{mode} {oid}\t".encode() + path + b"\0" for mode, path, oid in entries)
        git.run("update-index", "-z", "--index-info", stdin=listed)
        git.run("checkout-index", "-a", "-q", "-f")
        git.run("update-index", "-q", "--refresh", ok=None)
        yield top
