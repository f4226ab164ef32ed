"""Thousands of patches onto a large repository: no checkout, and memory that stays where it was.

The long form (KTX_TEST_FULL=1) integrates 2,000 patches onto 50,000 files.
"""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from blake3 import blake3

from ktxkit.base import contracts
from ktxkit.store import jobs
from ktxkit.store.active import Unit
from ktxkit.store.rules import names
from ktxkit.work import integrate
from tests.support.integration import Job, world_at
from tests.support.repos import Repo
from tests.support.trees import Store

FULL = os.environ.get("KTX_TEST_FULL") == "1"
FILES, UNITS, MARKS = (50_000, 2_000, (100, 1_000, 2_000)) if FULL else (2_000, 30, (10, 20, 30))
FOLDER = 100  # files in one
MB = 1024 * 1024
SPARE = 40 * MB if FULL else 6 * MB  # between the first mark and the last: two listings of every place are kept


@dataclass
class Wide:
    """A repository of many small files, with everything that is needed to make a change without git."""

    repo: Repo
    store: Store
    folders: list[dict[bytes, str]]

    @classmethod
    def made(cls, path: Path) -> Wide:
        repo = Repo.init(path)
        lines = ["commit refs/heads/main\ncommitter A <a@b.c> 1700000000 +0000\ndata 1\nm\n"]
        lines += [f"M 100644 inline {place(n)}\ndata {len(content(n))}\n{content(n)}\n" for n in range(FILES)]
        subprocess.run(["git", "fast-import", "--quiet"], cwd=path, input="".join(lines).encode(), check=True)
        store = Store(path / ".git/objects")
        folders: list[dict[bytes, str]] = []
        for number in range(FILES):
            if number % FOLDER == 0:
                folders.append({})
            folders[-1][place(number)[6:].encode()] = store.name("blob", content(number).encode())
        return cls(repo, store, folders)

    def change(self, number: int, text: str) -> tuple[str, str]:
        """One file replaced: the new tree and blob."""
        blob = self.store.put("blob", text.encode())
        trees = list(self.trees)
        mine = self.folders[number // FOLDER] | {place(number)[6:].encode(): blob}
        trees[number // FOLDER] = self.store.put("tree", self._lines(mine))
        root = (b"40000 d%04d\0" % at + bytes.fromhex(oid) for at, oid in enumerate(trees))
        return self.store.put("tree", b"".join(root)), blob

    @cached_property
    def trees(self) -> list[str]:
        """The base's folders, by their ids."""
        return [self.store.name("tree", self._lines(folder)) for folder in self.folders]

    @staticmethod
    def _lines(folder: dict[bytes, str]) -> bytes:
        return b"".join(b"100644 %s\0" % name + bytes.fromhex(oid) for name, oid in sorted(folder.items()))


def place(number: int) -> str:
    return f"d{number // FOLDER:04d}/f{number:06d}.txt"


def content(number: int) -> str:
    return f"file {number}\n"


def hand_over(wide: Wide, job: Job, unit: Unit, number: int) -> None:
    """A collected patch: its file, its document and its objects."""
    text, path = f"changed by {unit.key}\n", place(number)
    tree, blob = wide.change(number, text)
    old = wide.store.name("blob", content(number).encode())
    patch = (
        f"diff --git a/{path} b/{path}\nindex {old}..{blob} 100644\n--- a/{path}\n+++ b/{path}\n"
        f"@@ -1 +1 @@\n-{content(number)}+{text}"
    ).encode()
    at = (job.document["jobId"], unit.position, unit.key)
    file = job.world.writable_store.path(names.patch_file(*at))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(patch)
    sides = {"oldMode": "100644", "newMode": "100644", "oldId": old, "newId": blob}
    document = {
        "schemaVersion": 1, "kind": "patch", "outcome": "collected", "objectFormat": "sha1",
        "jobId": at[0], "unitKey": unit.key, "position": unit.position,
        "base": job.document["base"], "baseTree": wide.repo.tree, "tree": tree, "transport": "patch",
        "patchDigest": f"b3:{blake3(patch).hexdigest()}", "patchBytes": len(patch),
        "paths": [{"path": path, "change": "modified", **sides, "kind": "regular", "oldKind": "regular"}],
        "collectedAt": "2026-01-01T00:00:00.000Z",
    }  # fmt: skip
    job.world.store.write("patch", names.unit_doc(*at, "patch"), document, durable=False)


def resident(pid: str = "self") -> int:
    """Bytes of memory that a process has now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def children() -> int:
    """Bytes of memory of the readers that live beside us."""
    me = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return sum(resident(pid) for pid in me)


def test_memory_stays_flat(tmp_path: Path) -> None:
    wide = Wide.made(tmp_path / "repo")
    assert not [path for path in wide.repo.path.iterdir() if path.name != ".git"], "there is no checkout"
    world = world_at(wide.repo.path)
    units = [Unit(number + 1, f"u{number:04d}") for number in range(UNITS)]
    active = jobs.create(world, "j1", target="refs/heads/main", base=wide.repo.head, units=units)
    job = Job(wide.repo, active)
    contracts.expect_many()  # imported after some hundred documents otherwise: between two marks
    seen: list[tuple[int, int, int]] = []
    began = time.perf_counter()
    for count, unit in enumerate(active.units, 1):
        hand_over(wide, job, unit, count * 23 % FILES)
        receipt = integrate.apply_unit(active, unit, options=integrate.ApplyOptions())
        assert receipt["outcome"] == "accepted", receipt
        if count in MARKS:
            gc.collect()
            seen.append((count, resident(), children()))
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    told = ", ".join(f"{count}: {own / MB:.1f} + {readers / MB:.1f} MB" for count, own, readers in seen)
    print(
        f"{UNITS} patches onto {FILES} files in {time.perf_counter() - began:.0f} s; {told}; git {largest / MB:.1f} MB"
    )
    assert wide.repo.show(job.head, place(23)) == b"changed by u0000\n"
    assert int(wide.repo.git("rev-list", "--count", f"{job.document['base']}..{job.head}")) == UNITS
    (_, own, readers), (_, last_own, last_readers) = seen[0], seen[-1]
    assert last_own - own < SPARE and last_readers - readers < SPARE
    assert not [path for path in wide.repo.path.iterdir() if path.name not in (".git", ".ktx")]
