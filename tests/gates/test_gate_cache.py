"""The cache of facts: the same verdict with it, without it, and with whatever is left of it."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base.clock import LIMITS, Limits
from ktxkit.gates import checking, inputs, version
from ktxkit.gates import facts as gate_facts
from ktxkit.gates.judging import check_tree, options_of
from ktxkit.gates.rules.artifacts import judge
from ktxkit.gates.rules.groups import TEXTS, Group, marks_of, summarized, texts_of
from ktxkit.gates.rules.scope import close
from ktxkit.store.world import World
from tests.support.commands import call
from tests.support.gates import RAW, as_bytes, facts_in, in_groups, some_files, source
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
IGNORE = "<!-- ktx-gate: ignore=stale-entity -->"
PLACE = ".ktx/cache/facts.sqlite"


ALWAYS = Limits(cached_artifacts=1)  # a cache for small trees too


@pytest.mark.parametrize("seed", range(60 if FULL else 8))
def test_groups_change_no_verdict(seed: int) -> None:
    chance = random.Random(seed)
    blobs = as_bytes(some_files(chance))
    if chance.random() < 0.5:
        del blobs[f"semantic-layer/wh/s{chance.randrange(8)}.yaml".encode()]
    facts = facts_in(blobs, b"")
    inside = in_groups(facts, chance.choice([1, 2, 5, 40]))
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
    inside = in_groups(facts, 2)
    assert len(summarized(inside)) == 2
    judge(inside, blobs.keys(), options_of({}))
    assert ["facts" in vars(group) for group in inside.groups] == [False, False, True]


@pytest.fixture
def wiki(repo: Repo) -> Repo:
    for name, text in some_files(random.Random(3)).items():
        repo.write(name, text)
    repo.commit("a wiki")
    return repo


def verdict(repo: Repo, *args: str, limits: Limits = ALWAYS) -> dict[str, Any]:
    ran = call("gate-check", "--json", *(args or ("--all",)), cwd=repo.path, limits=limits)
    assert ran.status in (0, 1), ran.out + ran.err
    document: dict[str, Any] = ran.document
    return document


def forget(place: Path) -> None:
    """No verdict is kept any more, only facts."""
    with sqlite3.connect(place) as db:
        db.execute("DELETE FROM notes")
    db.close()


def spied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of the files that are read from now on."""
    read: list[str] = []
    plain = gate_facts.read

    def reading(kind: str, data: bytes) -> dict[str, Any]:
        read.append(kind)
        return plain(kind, data)

    monkeypatch.setattr(gate_facts, "read", reading)
    return read


def test_the_same_with_and_without(wiki: Repo) -> None:
    cold = verdict(wiki)
    assert (wiki.path / PLACE).is_file() and cold["counts"]["error"] > 3
    assert verdict(wiki) == cold
    assert wiki.git("status", "--porcelain") == ""
    assert verdict(wiki, limits=Limits(cached_artifacts=1_000_000)) == cold


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
    forget(wiki.path / PLACE)
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
        db.execute("UPDATE notes SET body = replace(CAST(body AS TEXT), 'error', 'advice')")
    db.close()


def _anothers(place: Path) -> None:
    """Every row has the content of another one, whole and with its seal."""
    with sqlite3.connect(place) as db:
        for table, columns in (("facts", "summary marks body"), ("notes", "body")):
            keys = [row[0] for row in db.execute(f"SELECT rowid FROM {table}")]
            db.execute(f"CREATE TEMP TABLE was_{table} AS SELECT rowid AS n, * FROM {table}")
            for one, two in zip(keys, [*keys[1:], *keys[:1]], strict=True):
                for name in columns.split():
                    for part in (name, f"{name}_seal"):
                        query = f"SELECT {part} FROM was_{table} WHERE n = ?"
                        db.execute(f"UPDATE {table} SET {part} = ({query}) WHERE rowid = ?", (two, one))
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
    "another's": _anothers,
    "foreign": _foreign,
}


@pytest.mark.parametrize("notes", [True, False], ids=["a verdict is kept", "facts alone"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_made_again(wiki: Repo, damage: str, notes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = verdict(wiki)
    place = wiki.path / PLACE
    if not notes:
        forget(place)
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
    if byte % 2:
        forget(place)
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


def test_a_locked_one_is_waited_for_and_left(wiki: Repo) -> None:
    cold = verdict(wiki)
    wiki.write("wiki/global/p7.md", "---\nsummary: a\n---\n`s1.gone`\n")
    wiki.git("add", "-A")
    held = sqlite3.connect(wiki.path / PLACE, isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    changed = verdict(wiki, limits=ALWAYS._replace(cache_wait=0.05))
    held.execute("ROLLBACK")
    held.close()
    assert verdict(wiki) == changed != cold
    assert (wiki.path / PLACE).is_file()


def test_few_artifacts_make_no_store(wiki: Repo) -> None:
    verdict(wiki, limits=LIMITS)
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
    monkeypatch.setattr(version, "version", lambda: "another")
    read = spied(monkeypatch)
    verdict(wiki)
    assert len(read) > 40 and json.dumps(read).count("page") > 30
    # what a verdict follows from is in its name too
    assert verdict(wiki)["counts"]["error"] > 3


def said(repo: Repo, *args: str) -> tuple[int, str]:
    ran = call("gate-check", "--json", *args, cwd=repo.path, limits=ALWAYS)
    return ran.status, ran.out


def edit(repo: Repo, chance: random.Random) -> None:
    """Something else is staged or committed."""
    names = [name for name in repo.git("ls-files").splitlines() if not (repo.path / name).is_symlink()]
    page, other = (chance.choice([n for n in names if n.startswith(start)]) for start in ("wiki", "semantic-layer"))
    kind = chance.randrange(12)
    if kind < 4:
        odd = ["`s1.gone`", "[[nowhere]]", "[[p3]]", f"<!-- from: {RAW} -->", "`s2.m`", IGNORE]
        repo.write(page, (repo.path / page).read_text() + f"\n{chance.choice(odd)}\n")
    elif kind == 4:
        (repo.path / page).unlink()
    elif kind == 5:
        repo.write(f"wiki/global/n{chance.randrange(3)}.md", "---\nsummary: a\nrefs: [p2]\n---\n[[n1]] `s3.total`\n")
    elif kind == 6:
        (repo.path / page).rename(repo.path / f"wiki/global/m{chance.randrange(99)}.md")
    elif kind == 7:
        (repo.path / other).write_text(
            (repo.path / other).read_text().replace("total", chance.choice(["sum", "total"]))
        )
    elif kind == 8:
        repo.write(RAW, str(chance.random()))
    elif kind == 9:
        (repo.path / "wiki/global/link.md").unlink(missing_ok=True)
        (repo.path / "wiki/global/link.md").symlink_to("p1.md")
    elif kind == 10:
        strict = chance.choice(["true", "false"])
        repo.write("ktx-gates.yaml", f"strictConnections: {strict}\ngates: [{{gate: artifacts}}]\n")
    else:
        repo.commit("a step")
    repo.git("add", "-A")


@pytest.mark.parametrize("seed", range(12 if FULL else 1))
def test_whatever_was_edited_the_answer_is_that_without_a_cache(wiki: Repo, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    for step in range(40 if FULL else 8):
        edit(wiki, chance)
        for args in (["--all"], ["--index"], ["--index", "--advise"], []):
            cold = said(wiki, *args, "--ktx-dir", str(tmp_path / f"{step}{''.join(args)}"))
            assert said(wiki, *args) == cold, (step, args)
            assert said(wiki, *args) == cold, (step, args, "again")


def test_the_same_question_is_answered_without_the_gates(wiki: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    first = {args: said(wiki, *args) for args in (("--all",), ("--index",), ("--all", "--advise"))}
    with monkeypatch.context() as patched:
        patched.setattr(checking, "judge_anew", lambda *_: pytest.fail("asked again"))
        assert {args: said(wiki, *args) for args in first} == first
        text = call("gate-check", "--all", "--format", "rdjsonl", cwd=wiki.path, limits=ALWAYS)
        assert text.status == 1 and text.out
        with pytest.raises(pytest.fail.Exception, match="asked again"):
            said(wiki, "--all", "--strict-connections")
        with pytest.raises(pytest.fail.Exception, match="asked again"):
            said(wiki, "--all", "--gate", "artifacts", "--root", "other")
    assert (
        text.out
        == call("gate-check", "--all", "--format", "rdjsonl", "--ktx-dir", "o", cwd=wiki.path, limits=ALWAYS).out
    )


def test_what_a_command_says_is_never_kept(wiki: Repo) -> None:
    said_by = wiki.write("say", "#!/bin/sh\nexit ${WANTED:-0}\n")
    said_by.chmod(0o755)
    count = wiki.path / "../count"
    gate = {"gate": "command", "name": "artifacts", "run": ["sh", "-c", f"echo x >> {count}"]}
    wiki.write("ktx-gates.yaml", json.dumps({"gates": [gate]}))
    wiki.git("add", "-A")
    for _ in range(3):
        call("gate-check", "--all", cwd=wiki.path, limits=ALWAYS)
    assert count.read_text() == "x\n" * 3


def test_head_moves_and_what_is_inherited_with_it(wiki: Repo) -> None:
    wiki.write("wiki/global/p7.md", "---\nsummary: a\n---\n`s1.gone`\n")
    wiki.git("add", "-A")
    assert said(wiki, "--index")[0] == 1
    wiki.commit("with what is wrong")
    assert said(wiki, "--index")[0] == 0
    assert said(wiki, "--index")[0] == 0


def in_child(work: Callable[[], bool]) -> int:
    """The wait status of a fork that does some work; 0 where it says yes."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if work() else 1)
    return os.waitpid(pid, 0)[1]


@pytest.mark.parametrize("limit", [0, 8_192, 60_000])
def test_a_full_disk_fails_no_gate(wiki: Repo, limit: int, tmp_path: Path) -> None:
    cold = said(wiki, "--all", "--ktx-dir", str(tmp_path / "other"))

    def full() -> bool:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return said(wiki, "--all") == cold == said(wiki, "--all")

    assert in_child(full) == 0
    assert said(wiki, "--all") == cold


def test_killed_while_it_writes(wiki: Repo, tmp_path: Path) -> None:
    cold = said(wiki, "--all", "--ktx-dir", str(tmp_path / "other"))
    place, died = wiki.path / PLACE, 0
    for write in range(1, 60 if FULL else 16, 1 if FULL else 3):
        place.unlink(missing_ok=True)

        def killed(limit: int = write * 8192) -> bool:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # a write beyond ends the process where it stands
            return said(wiki, "--all") == cold

        status = in_child(killed)
        died += os.WIFSIGNALED(status)
        assert os.WIFSIGNALED(status) or status == 0
        assert said(wiki, "--all") == cold, write
    assert died


@pytest.mark.parametrize("size", [1, 100])
def test_marks_are_found_in_the_bytes_and_in_the_values(size: int) -> None:
    names = ["a", 'a"', '"a', "\\", '\\"a', ',"a":[', '{"a":[', "ä", "\ud800", "names", "special", "", "a]", "p7", "\n"]
    pages = {}
    for n, name in enumerate([*names, *names[:3]]):
        pages[b"wiki/global/%d.md" % n] = {
            "kind": "page", "problems": [], "ignores": [], "targets": [],
            **{key: [] for key in TEXTS}, "comments": [[name, 1, 1]],
        }  # fmt: skip
    group = Group(list(pages), texts_of(pages, b""), marks_of(pages), lambda: list(pages.values()))
    for n, name in enumerate(names):
        wanted = [list(pages)[n]] + ([list(pages)[n + len(names)]] if n < 3 else [])
        assert group.mentioning([name] * 1 if size == 1 else [name, *map(str, range(size))]) == wanted, name
    assert group.mentioning(["b", 'special":[']) == []


def test_every_source_of_a_verdict_is_in_its_version(wiki: Repo) -> None:
    code = (
        "import sys, ktx_gate_check as it\n"
        "it.main(['--all', '-q', '--json', '-C', sys.argv[1]])\n"
        "print('\\n'.join(n for n in sys.modules if n.startswith('ktxkit.')))"
    )
    ran = subprocess.run([sys.executable, "-c", code, wiki.path], capture_output=True, text=True, check=True)
    used = {line.removeprefix("ktxkit.") for line in ran.stdout.splitlines() if line.startswith("ktxkit.")}
    assert "gates.rules.artifacts" in used and "base.rules.strict_yaml" in used
    judging = {module for module in used if module.startswith("gates.") or ".rules." in module}
    for module in judging - {"gates.rules.formats"}:
        folder, _, name = module.replace(".", "/").rpartition("/")
        held = any(folder == place and name.startswith(start) for place, start in version.SOURCES)
        package = (Path(version.HERE) / folder / name / "__init__.py").is_file()
        assert held or package or module.startswith("gates.rules.formats."), module


def test_files_are_listed_alike_by_index_and_tree(repo: Repo) -> None:
    odd = ["a b", "\ttab", "x\ta b", 'quote"', "line\nbreak", "ä", "d/e f", "d/100644 1 0\tq", "1 2\t3"]
    for name in odd:
        repo.write(name, name)
    (repo.path / "d/link").symlink_to("x")
    repo.commit()
    world = World(repo.path, os.environ, limits=ALWAYS)
    index, tree = inputs.index(world), inputs.tree(world, repo.tree)
    assert index.raw == tree.raw and index.without(tree) == [] and len(index.files) == len(odd) + 2
    for name in [*odd, "b", "q", "tab", "3", "d"]:
        path = name.encode()
        asked = [files.get(path) for files in (inputs.FileListing(index.raw).files, dict(index.files))]
        assert asked[0] == asked[1] and (asked[0] is not None) == (name in odd), name


def test_what_a_merge_left_open_is_not_listed(repo: Repo) -> None:
    repo.write("page 2\t", "a\n")
    repo.write("both", "a\n")
    repo.commit()
    repo.git("checkout", "-q", "-b", "other")
    repo.write("both", "b\n")
    repo.commit()
    repo.git("checkout", "-q", "main")
    repo.write("both", "c\n")
    repo.commit()
    repo.git("merge", "-q", "other", check=False)
    found = inputs.index(World(repo.path, os.environ, limits=ALWAYS)).files
    assert b"both" not in found and list(found) == [b"README", b"page 2\t"] and found[b"page 2\t"][0] == "100644"


def test_a_command_opens_its_file_once_and_closes_it(wiki: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict(wiki)
    opened: list[gate_facts.FactCache] = []
    plain = gate_facts.FactCache

    def opening(path: Path, wait: float) -> gate_facts.FactCache:
        opened.append(plain(path, wait))
        return opened[-1]

    monkeypatch.setattr(gate_facts, "FactCache", opening)
    forget(wiki.path / PLACE)
    wiki.write("wiki/global/p7.md", "---\nsummary: another\n---\n")
    wiki.git("add", "-A")
    verdict(wiki, "--index")
    assert len(opened) == 1
    assert vars(opened[0])["_db"] is None


def test_one_base_is_read_once_in_a_world_and_forgotten_with_it(wiki: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(wiki.path, os.environ, limits=ALWAYS)
    wiki.write("wiki/global/p7.md", "---\nsummary: another\n---\n`s1.gone`\n")
    tree = wiki.commit("a change") and wiki.tree
    base = wiki.git("rev-parse", "HEAD~^{tree}")
    read = spied(monkeypatch)
    first = check_tree(world, tree, base_tree=base)
    count = len(read)
    assert count > 40
    assert check_tree(world.at(wiki.path), tree, base_tree=base) == first
    assert len(read) == count
    world.close()
    assert check_tree(world, tree, base_tree=base) == first
    assert len(read) == 2 * count
