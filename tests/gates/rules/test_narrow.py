"""A change that leaves the semantic layer alone: judging what refers to it gives what judging both trees gives."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from ktxkit.gates import judging
from ktxkit.gates.judging import JudgeRequest, TreeFacts, options_of
from ktxkit.gates.rules import scope
from ktxkit.gates.rules.groups import names_in
from tests.support.gates import facts_in, in_groups, some_files

FULL = os.environ.get("KTX_TEST_FULL") == "1"
RAW = "raw-sources/a/b/2024-01-01-x/"


def edited(chance: random.Random, files: dict[str, str]) -> dict[str, str]:
    """A few edits of pages and of what is no artifact."""
    made = dict(files)
    pages = sorted(name for name in files if name.startswith("wiki/"))
    for _ in range(chance.randrange(1, 4)):
        page = chance.choice(pages)
        kind = chance.randrange(10)
        if kind < 3 and page in made:
            odd = ["`s1.gone`", "[[nowhere]]", "[[p3#part]]", f"<!-- from: {RAW}new -->", "`s2.m`", "[[ p5 ]]"]
            made[page] += f"\n{chance.choice(odd)}\n"
        elif kind == 3:
            made.pop(page, None)
        elif kind == 4:
            made[f"wiki/global/new{chance.randrange(3)}.md"] = "---\nsummary: a\nrefs: [p2, new1]\n---\n[[new2]]\n"
        elif kind == 5 and page in made:
            made[f"wiki/global/moved{chance.randrange(3)}.md"] = made.pop(page)
        elif kind == 6:
            made[RAW + chance.choice(["c", "new"])] = str(chance.random())
        elif kind == 7:
            made["links/provenance.json"] = f'[{{"artifactKind": "wiki", "artifactKey": "p{chance.randrange(9)}"}}]'
        elif kind == 8:
            made["wiki/user/anna/own.md"] = "---\nsummary: a\n---\n[[p1]] [[own]] [[nowhere]]\n"
        else:
            made.pop(chance.choice([RAW + "c", "README"]), None)
    return made


def read(files: dict[str, str], size: int) -> TreeFacts:
    blobs = {name.encode(): text.encode() for name, text in files.items()}
    listed = {path: ("100644", f"{data!r}") for path, data in blobs.items()}
    facts = facts_in(blobs, b"")
    return TreeFacts(listed, in_groups(facts, size) if size else facts)


def told(asked: JudgeRequest, how: dict[str, Any]) -> Any:
    assert asked.before is not None
    return judging.findings(asked, judging.changed(asked.before, asked.after), options_of(how))


@pytest.mark.parametrize("seed", range(400 if FULL else 40))
def test_the_same_as_a_judgement_of_both_trees(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    files = some_files(chance, 20) | {"README": "a", RAW + "c": "raw"}
    files["links/provenance.json"] = (
        f'[{{"artifactKind": "wiki", "artifactKey": "p1", "rawPath": "{RAW}c"}}, '
        '{"artifactKind": "wiki", "artifactKey": "README"}, {"artifactKind": "sl", "artifactKey": "s1.gone"}]'
    )
    files["semantic-layer/wh/p2.yaml"] = files.pop("semantic-layer/wh/s2.yaml").replace("name: s2", "name: p2")
    before, after = read(files, chance.choice([0, 1, 5])), read(edited(chance, files), chance.choice([0, 1, 5]))
    asked = JudgeRequest(after, before)
    for how in ({}, {"strictConnections": True}, {"advise": True}, {"rawCurrent": [RAW + "new"]}):
        found = told(asked, how)
        with monkeypatch.context() as patched:
            patched.setattr(scope, "applies", lambda *_: False)
            assert told(asked, how) == found


def test_a_change_of_a_page_is_narrow_and_one_of_a_source_is_not() -> None:
    files = {b"semantic-layer/wh/a.yaml": 1, b"wiki/global/a.md": 1, b"raw-sources/a/b": 1}
    how = options_of({})
    assert scope.applies([b"wiki/global/a.md"], files, files, how)
    assert scope.applies([b"wiki/global/b.md"], {**files, b"wiki/global/b.md": 1}, files, how)
    assert not scope.applies([b"semantic-layer/wh/a.yaml"], files, files, how)
    assert not scope.applies([b"raw-sources/c/d"], {**files, b"raw-sources/c/d": 1}, files, how)
    assert not scope.applies([b"raw-sources/a/b"], {b"wiki/global/a.md": 1}, files, how)


@pytest.mark.parametrize("link", ["p7#part", " p7 ", "p7 #part"])
def test_a_link_into_a_page_is_about_it(link: str) -> None:
    assert "p7" in names_in(link)
