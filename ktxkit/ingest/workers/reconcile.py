"""Subsume what two units made alike, and list what is nearly alike. Runs on the integrated tree, after all units.

An artifact is removed only where another says wholly the same, nothing refers to it, and no projection would make it
again; everything else is listed.

reads    wiki/, semantic-layer/ of the worktree, $KTX_INDEX (what was there before)
writes   the worktree, $KTX_RESULT
exits    0 done
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from ktxkit.base import files
from ktxkit.ingest.rules.artifacts import Artifact, Pair, Text, artifact_of, essence, exact, near
from ktxkit.ingest.rules.projection import owner_of

NAME = re.compile(r"^name:[^\n]*\n", re.MULTILINE)
WORD = re.compile(r"[A-Za-z0-9_-]+")


def main() -> int:
    index = json.loads(Path(os.environ["KTX_INDEX"]).read_bytes())
    before = {one["path"] for one in (*index["pages"], *index["sources"])}
    texts = dict(_artifacts())
    pages = [_text(path, texts[path], path not in before) for path in texts if path.startswith("wiki/")]
    sources = [_text(path, texts[path], path not in before) for path in texts if not path.startswith("wiki/")]
    alike = [*exact(pages), *exact(sources)]
    removed = {pair.path: pair for pair in alike if _can_go(pair, texts)}
    for path in removed:
        Path(path).unlink()
    kept = [pair for pair in alike if pair.path not in removed]
    similar = [pair for pair in near([one for one in pages if one.path not in removed]) if pair.path not in removed]
    result = {
        "schemaVersion": 1,
        "actions": [
            {
                "path": pair.path,
                "actionType": "subsumed",
                "subsumedBy": pair.other,
                "detail": f"the same as {pair.other}",
            }
            for pair in removed.values()
        ],
        "nearDuplicates": [_listed(pair) for pair in (*kept, *similar)],
    }
    Path(os.environ["KTX_RESULT"]).write_text(json.dumps(result), "utf-8")
    return 0


def _artifacts() -> Iterator[tuple[str, str]]:
    """Every page and source of the worktree that is a plain UTF-8 file."""
    for top in ("wiki/global", "semantic-layer"):
        for path in sorted(Path(place) / name for place, found in files.walk(top) for name in found):
            name = path.as_posix()
            if artifact_of(name) is None or path.is_symlink() or not path.is_file() or "/_schema/" in name:
                continue
            try:
                yield name, path.read_bytes().decode("utf-8")
            except UnicodeDecodeError:
                continue  # gate-ok: the gates name it; it is alike to nothing


def _text(path: str, text: str, new: bool) -> Text:
    return Text(path, essence(NAME.sub("", text) if not path.startswith("wiki/") else text), new)


def _can_go(pair: Pair, texts: dict[str, str]) -> bool:
    artifact = artifact_of(pair.path)
    assert artifact is not None
    if owner_of(texts[pair.path]) is not None or artifact.connection != _connection(pair.other):
        return False
    name = _name(artifact)
    return not any(name in WORD.findall(text) for path, text in texts.items() if path != pair.path)


def _connection(path: str) -> str:
    artifact = artifact_of(path)
    return artifact.connection if artifact is not None else ""


def _name(artifact: Artifact) -> str:
    return artifact.key.rpartition("/")[2]


def _listed(pair: Pair) -> dict[str, object]:
    return {"path": pair.path, "other": pair.other, "similarity": pair.similarity}


if __name__ == "__main__":
    raise SystemExit(main())
