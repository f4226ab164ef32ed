"""The cache of facts: the same verdict with it, without it, and with whatever is left of it."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ktxkit.core.gates.artifacts import judge
from ktxkit.core.gates.groups import Group, Grouped, summarized, summary_of
from ktxkit.core.gates.scope import close
from ktxkit.flows import gate_facts, gate_groups, gates
from ktxkit.flows.gates import options_of
from tests.support.commands import call
from tests.support.gates import as_bytes, facts_in, source
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
RAW = "raw-sources/a/b/2024-01-01-x/c"
IGNORE = "<!-- ktx-gate: ignore=stale-entity -->"
PLACE = ".ktx/cache/facts.sqlite"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache for small trees too, and nothing that this process remembers."""
    monkeypatch.setattr(gate_groups, "FEWEST", 1)
    monkeypatch.setattr(gates, "_memory", {})


def files(chance: random.Random, count: int = 40) -> dict[str, str]:
    """Sources and pages; some of them wrong."""
    made: dict[str, str] = {}
    names = [f"s{n}" for n in range(8)]
    for name in names:
        made |= source(name, measures="m total", joins=chance.choice([*names, "gone"]) if chance.random() < 0.5 else "")
    for n in range(count):
        parts = [f"`{chance.choice(names)}.{chance.choice(['m', 'total', 'id', 'id', 'm'])}`" for _ in range(4)]
        odd = [
            "`s1.former`",
            "[[nowhere]]",
            "`source:gone`",
            "<!-- ktx-gate: ignore=stale-entity -->",
            "`table:raw.s2`",
        ]
        odd += [f"<!-- from: {RAW} -->", "`raw.s1`", "`word`", f"[[p{n}]]", "`s3.nearly`"]
        parts += chance.sample(odd, 1 if chance.random() < 0.2 else 0)
        folder = "user/anna" if chance.random() < 0.05 else "global"
        front = (
            "" if chance.random() < 0.03 else f"---\nsummary: a\nsl_refs: [{chance.choice(names)}]\nrefs: [p1]\n---\n"
        )
        made[f"wiki/{folder}/p{n}.md"] = front + "\n\n".join(parts) + "\n"
    return made


def grouped(facts: dict[bytes, Any], size: int) -> Grouped:
    """The same facts in groups."""
    pages = [path for path, one in facts.items() if one["kind"] == "page"]
    parts = [pages[n : n + size] for n in range(0, len(pages), size)]
    parts.append([path for path in facts if path not in pages])
    return Grouped([_group({path: facts[path] for path in part}) for part in parts])


def _group(part: dict[bytes, Any]) -> Group:
    return Group(list(part), summary_of(part, b""), lambda: list(part.values()))


@pytest.mark.parametrize("seed", range(60 if FULL else 8))
def test_groups_change_no_verdict(seed: int) -> None:
    chance = random.Random(seed)
    blobs = as_bytes(files(chance))
    if chance.random() < 0.5:
        del blobs[f"semantic-layer/wh/s{chance.randrange(8)}.yaml".encode()]
    facts = facts_in(blobs, b"")
    inside = grouped(facts, chance.choice([1, 2, 5, 40]))
    for options in (
        {},
        {"advise": True},
        {"strictConnections": True},
        {"rawCurrent": ["raw-sources/a/b/2024-01-01-x/c"]},
    ):
        how = options_of(options)
        former = frozenset(chance.sample(["s1", "gone", "s9"], 2))
        one, two = judge(facts, blobs.keys(), how, former), judge(inside, blobs.keys(), how, former)
        assert one.findings == two.findings and one.looked == two.looked and one.suppressed == two.suppressed
    for path in chance.sample(sorted(blobs), 6):
        assert close([path], [facts], b"") == close([path], [inside], b"")


def test_what_is_in_order_is_not_read() -> None:
    blobs = as_bytes(
        {
            **source("s1", measures="m"),
            **{f"wiki/global/p{n}.md": "---\nsummary: a\n---\n`s1.m` [[p1]]\n" for n in range(4)},
        }
    )
    facts = facts_in(blobs, b"")
    inside = grouped(facts, 2)
    assert len(summarized(inside)) == 2
    judge(inside, blobs.keys(), options_of({}))
    assert ["facts" in vars(group) for group in inside.groups] == [False, False, True]


@pytest.fixture
def wiki(repo: Repo) -> Repo:
    for name, text in files(random.Random(3)).items():
        repo.write(name, text)
    repo.commit("a wiki")
    return repo


def verdict(repo: Repo, *args: str) -> dict[str, Any]:
    gates._memory.clear()
    ran = call("gate-check", "--json", *(args or ("--all",)), cwd=repo.path)
    assert ran.status in (0, 1), ran.out + ran.err
    document: dict[str, Any] = ran.document
    return document


def spied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of the files that are read from now on."""
    read: list[str] = []
    plain = gate_facts.read

    def reading(kind: str, data: bytes) -> dict[str, Any]:
        read.append(kind)
        return plain(kind, data)

    monkeypatch.setattr(gate_facts, "read", reading)
    return read


def test_the_same_with_and_without(wiki: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = verdict(wiki)
    assert (wiki.path / PLACE).is_file() and cold["counts"]["error"] > 3
    assert verdict(wiki) == cold
    assert wiki.git("status", "--porcelain") == ""
    monkeypatch.setattr(gate_groups, "FEWEST", 1_000_000)
    assert verdict(wiki) == cold


def test_a_change_reads_only_what_changed(wiki: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict(wiki)
    wiki.write("wiki/global/p7.md", "---\nsummary: a\n---\n`s1.gone`\n")
    wiki.git("add", "-A")
    read = spied(monkeypatch)
    found = verdict(wiki, "--index")
    assert read == ["page"]
    assert [one["path"] for one in found["findings"] if not one.get("inherited")] == ["wiki/global/p7.md"]
    read.clear()
    assert verdict(wiki, "--index") == found and read == []


def _flipped(place: Path) -> None:
    data = bytearray(place.read_bytes())
    for at in range(4096, len(data), 37):
        data[at] ^= 0x55
    place.write_bytes(bytes(data))


def _one_body(place: Path) -> None:
    with sqlite3.connect(place) as db:
        db.execute("UPDATE facts SET body = replace(CAST(body AS TEXT), 'spans', 'spins')")
        db.execute("UPDATE facts SET summary = '{\"counts\": 1}'")
    db.close()


def _foreign(place: Path) -> None:
    place.unlink()
    with sqlite3.connect(place) as db:
        db.execute("CREATE TABLE facts (other TEXT)")
        db.execute("PRAGMA user_version = 1")
    db.close()


DAMAGES = {
    "absent": lambda place: place.unlink(),
    "empty": lambda place: place.write_bytes(b""),
    "text": lambda place: place.write_bytes(b"no database\n" * 999),
    "truncated": lambda place: os.truncate(place, place.stat().st_size // 2),
    "flipped": _flipped,
    "rows": _one_body,
    "foreign": _foreign,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_made_again(wiki: Repo, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = verdict(wiki)
    place = wiki.path / PLACE
    DAMAGES[damage](place)
    assert verdict(wiki) == cold
    assert verdict(wiki) == cold
    read = spied(monkeypatch)
    assert verdict(wiki) == cold
    assert read == []  # it is whole again


@pytest.mark.parametrize("byte", range(0, 100, 7 if FULL else 25))
def test_any_damaged_page_of_it(wiki: Repo, byte: int) -> None:
    cold = verdict(wiki)
    place = wiki.path / PLACE
    data = bytearray(place.read_bytes())
    start = len(data) * byte // 100
    data[start : start + 600] = bytes(600)
    place.write_bytes(bytes(data))
    assert verdict(wiki) == cold
    assert verdict(wiki) == cold


def test_a_place_that_cannot_be_used(wiki: Repo) -> None:
    cold = verdict(wiki)
    place = wiki.path / PLACE
    place.unlink()
    place.mkdir()
    assert verdict(wiki) == cold
    place.rmdir()
    place.parent.rmdir()
    place.parent.write_bytes(b"a file")
    assert verdict(wiki) == cold


def test_a_locked_one_is_waited_for_and_left(wiki: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = verdict(wiki)
    monkeypatch.setattr("ktxkit.effects.fact_cache.WAIT", 0.05)
    wiki.write("wiki/global/p7.md", "---\nsummary: a\n---\n`s1.gone`\n")
    wiki.git("add", "-A")
    held = sqlite3.connect(wiki.path / PLACE, isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    changed = verdict(wiki)
    held.execute("ROLLBACK")
    held.close()
    assert verdict(wiki) == changed != cold
    assert (wiki.path / PLACE).is_file()


def test_few_artifacts_make_no_store(wiki: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_groups, "FEWEST", 200)
    verdict(wiki)
    assert not (wiki.path / ".ktx").exists()


def test_it_stays_small(wiki: Repo) -> None:
    for n in range(8):
        wiki.write("wiki/global/p7.md", f"---\nsummary: a\n---\n`s1.gone{n}`\n")
        wiki.git("add", "-A")
        verdict(wiki)
    with sqlite3.connect(wiki.path / PLACE) as db:
        most = db.execute("SELECT max(n) FROM (SELECT count(*) AS n FROM facts GROUP BY number)").fetchone()[0]
    db.close()
    assert most == 4


def test_the_version_of_the_readers_counts(wiki: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict(wiki)
    monkeypatch.setattr(gate_facts, "READERS_VERSION", 10_000)
    read = spied(monkeypatch)
    verdict(wiki)
    assert len(read) > 40 and json.dumps(read).count("page") > 30
