"""The end of the ledger: what is cut off or put in its place is noticed, and mended as far as can be."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktxkit.ledger import chain, ledger
from ktxkit.store.rules import names
from ktxkit.store.world import World
from tests.support.commands import Ran, call
from tests.support.ledgers import PROJECT, Past
from tests.support.repos import Repo
from tests.support.suites import Suite


@pytest.fixture
def past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Past:
    monkeypatch.setenv("KTX_PROJECT", PROJECT)
    Repo.init(tmp_path)
    return Past(tmp_path)


def ask(past: Past, *words: str) -> Ran:
    return call("ledger-query", *words, "--json", cwd=past.root)


def repair(past: Past) -> Ran:
    return call("ledger-append", "--repair", "--json", cwd=past.root)


def doctor(past: Past) -> list[dict[str, Any]]:
    checked = call("git-ktx", "doctor", "--json", cwd=past.root)
    return [one for one in checked.document["findings"] if one["check"] == "ledger"]


def keep_lines(count: int) -> Callable[[Path], None]:
    return replaced(lambda data: b"".join(data.splitlines(keepends=True)[:count]))


def replaced(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.write_bytes(change(path.read_bytes()))

    return replace


def unmark(world: World) -> None:
    """What a store of an earlier version has, or one whose writer was killed before it wrote the marks."""
    lock, *own = world.store.ledger_marks()
    lock.write_bytes(b"")
    for mark in own:
        mark.unlink()


def as_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "the last line": keep_lines(3),
    "the last run": keep_lines(2),
    "all lines": keep_lines(0),
    "the file": lambda path: path.unlink(),
    "the last newline": replaced(lambda data: data[:-1]),
    "half of the last line": replaced(lambda data: data[:-400]),
    "NULs of the same size": replaced(lambda data: bytes(len(data))),
    "NULs behind a whole line": replaced(lambda data: data.splitlines(keepends=True)[0] + bytes(500)),
    "garbage": replaced(lambda data: os.urandom(len(data))),
    "garbage that ends": replaced(lambda data: os.urandom(100) + b"\n"),
    "a line doubled": replaced(lambda data: data + data.splitlines(keepends=True)[-1]),
    "a directory": as_directory,
    "a pipe": as_pipe,
    "a link to it": as_link,
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_ledger_whose_end_is_not_the_one_that_was_written_answers_nothing(past: Past, name: str) -> None:
    past.run({"a": "passed"})
    past.run({"a": "failed"})
    assert ask(past, "last").document["verdict"] == "false"
    DAMAGE[name](past.world.store.path(names.LEDGER))
    asked = ask(past, "last")
    assert asked.status == 5 and "verdict" not in asked.out, asked.out
    (told,) = doctor(past)
    assert told["level"] == "error" and "--repair" in told["hint"]


@pytest.mark.parametrize("name", DAMAGE)
def test_repair_moves_the_damage_aside_and_enters_the_runs_again(past: Past, name: str) -> None:
    past.run({"a": "passed"})
    red = past.run({"a": "failed"})
    DAMAGE[name](past.world.store.path(names.LEDGER))
    mended = repair(past)
    assert mended.status == 0, mended.out + mended.err
    found = ask(past, "last").document
    assert found["verdict"] == "false" and found["rows"][0]["run"] == red
    assert all(one["level"] != "error" for one in doctor(past))
    past.run({"a": "passed"})
    assert ask(past, "last").document["verdict"] == "true"


def test_what_cannot_be_made_good_is_said_to_be_lost(past: Past) -> None:
    past.run({"a": "passed"})
    gone = past.run({"a": "failed"})
    path = past.world.store.path(names.LEDGER)
    body = path.read_bytes()
    path.write_bytes(body.replace(b'"seq":3', b'"seq":4'))
    ledger.events_path(past.world, gone).unlink()
    told = json.loads(repair(past).out)["data"]
    assert told["lost"] == [gone] and told["kept"] == 2
    (aside,) = told["moved"]
    assert Path(aside).read_bytes() == body.replace(b'"seq":3', b'"seq":4')
    assert json.loads(repair(past).out)["outcome"] == "noop"


def test_a_cut_of_which_nothing_is_known_is_counted(past: Past) -> None:
    past.run({"a": "passed"})
    gone = past.run({"a": "failed"})
    keep_lines(2)(past.world.store.path(names.LEDGER))
    ledger.events_path(past.world, gone).unlink()
    first, second = json.loads(repair(past).out), json.loads(repair(past).out)
    assert (first["data"]["missing"], second["outcome"]) == (2, "noop")


@pytest.mark.parametrize("data", [b"", b"{}", b"\0" * 200, b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_head_is_status_5_until_it_is_repaired(past: Past, data: bytes) -> None:
    past.run({"a": "passed"})
    past.world.store.path(names.LEDGER_HEAD).write_bytes(data)
    assert ask(past, "last").status == 5
    assert repair(past).status == 0 and ask(past, "last").document["verdict"] == "true"


def test_another_ledger_that_is_whole_in_itself_is_not_taken_for_this_one(past: Past) -> None:
    red = past.run({"a": "failed"})
    other = Past(past.root / "other")
    other.run({"a": "passed"})
    other.run({"a": "passed"})
    shutil.copy(other.world.store.path(names.LEDGER), past.world.store.path(names.LEDGER))
    assert ask(past, "last").status == 5
    assert repair(past).status == 0
    found = ask(past, "last").document
    assert (found["verdict"], found["rows"][0]["run"]) == ("false", red)


def test_a_ledger_of_an_earlier_version_has_no_head_and_gets_one(past: Past) -> None:
    past.run({"a": "passed"})
    head = past.world.store.path(names.LEDGER_HEAD)
    head.unlink()
    unmark(past.world)
    assert ask(past, "last").document["verdict"] == "true"
    past.run({"a": "failed"})
    assert head.exists() and ask(past, "last").document["verdict"] == "false"


def test_lines_that_are_cut_together_with_the_head_come_back_from_the_events(past: Past) -> None:
    past.run({"a": "passed"})
    red = past.run({"a": "failed"})
    keep_lines(2)(past.world.store.path(names.LEDGER))
    past.world.store.path(names.LEDGER_HEAD).unlink()
    assert ask(past, "last").status == 5, "the marks know of more"
    unmark(past.world)
    found = ask(past, "last").document
    assert (found["verdict"], found["rows"][0]["run"]) == ("false", red)


def test_a_store_that_has_a_key_has_a_head(past: Past) -> None:
    """The head is written from the first line on, the key comes later: without the head lines can be missing."""
    past.run({"a": "passed"})
    red = past.run({"a": "failed"})
    ledger.events_path(past.world, red).unlink()
    keep_lines(2)(past.world.store.path(names.LEDGER))
    assert chain.own_key(past.world)
    past.world.store.path(names.LEDGER_HEAD).unlink()
    asked = ask(past, "last")
    assert asked.status == 5 and "head is gone" in asked.out
    assert [one["level"] for one in doctor(past)] == ["error"]
    assert repair(past).status == 0 and ask(past, "last").status == 0
    past.run({"a": "failed"})
    assert ask(past, "last").document["verdict"] == "false"


def test_a_first_line_whose_writer_was_killed_before_the_head_counts(past: Past) -> None:
    assert chain.own_key(past.world)
    past.run({"a": "passed"}, settle=False)
    past.world.store.path(names.LEDGER_HEAD).unlink()
    unmark(past.world)
    assert ask(past, "last").status == 0
    past.run({"a": "failed"})
    assert ask(past, "last").document["verdict"] == "false"


BOOT = {"bootId": "b", "pid": 1, "machine": "another"}


@pytest.mark.parametrize("ending", ["ask", "repair"])
def test_runs_that_are_entered_again_stand_in_the_order_in_which_they_began(past: Past, ending: str) -> None:
    """Neither their ids, which have seconds and chance, nor a clock that was set back decides."""
    past.run({"a": "passed"}, owner={**BOOT, "startTime": 700})
    past.run({"a": "failed"}, owner={**BOOT, "startTime": 900}, at="2026-01-01T00:00:00.000Z")
    past.run({"a": "passed"}, owner={**BOOT, "startTime": 800}, at="2026-01-02T09:00:00.000Z")
    for name in (names.LEDGER, names.LEDGER_HEAD):
        past.world.store.path(name).unlink()
    if ending == "ask":
        unmark(past.world)
    if ending == "repair":
        assert repair(past).status == 0
    assert ask(past, "last").document["verdict"] == "false"


def test_runs_of_lost_lines_are_entered_between_those_that_are_known(past: Past) -> None:
    past.run({"a": "passed"}, owner={**BOOT, "startTime": 700})
    past.run({"a": "failed"}, owner={**BOOT, "startTime": 800})
    path = past.world.store.path(names.LEDGER)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"garbage\n" * 2 + b"".join(lines[2:]))
    assert repair(past).status == 0
    assert ask(past, "last").document["verdict"] == "false"


def test_a_line_whose_writer_was_killed_before_the_head_counts(past: Past) -> None:
    past.run({"a": "passed"})
    head = past.world.store.path(names.LEDGER_HEAD)
    before = head.read_bytes()
    past.run({"a": "failed"})
    for behind in (head, *past.world.store.ledger_marks()):
        behind.write_bytes(before)
    assert ask(past, "last").document["verdict"] == "false"
    keep_lines(3)(past.world.store.path(names.LEDGER))
    assert ask(past, "last").status == 0, "the head counts two lines, and they are there"


def test_nothing_is_appended_to_a_ledger_that_was_cut(past: Past) -> None:
    past.run({"a": "passed"})
    path = past.world.store.path(names.LEDGER)
    keep_lines(1)(path)
    before = path.read_bytes()
    report = past.root / "r.xml"
    report.write_text('<testsuite><testcase name="a"/></testsuite>')
    words = ("--from", "junit", str(report))
    assert call("ledger-append", *words, cwd=past.root).status == 5
    assert path.read_bytes() == before and len(list((past.root / ".ktx/ledger/events").iterdir())) == 1


# -- the end, marked elsewhere

PARTS = {
    "lines": names.LEDGER,
    "head": names.LEDGER_HEAD,
    "index": names.LEDGER_INDEX,
    "key": names.LEDGER_KEY,
    "lock": names.LEDGER_LOCK,
}


def lose(suite: Suite, *parts: str, newest: bool = True) -> None:
    """Remove parts of a store, and with `newest` the events of the last run."""
    if newest:
        last = sorted(suite.world.store.path(names.EVENTS).glob("*.ndjson"))[-1]
        last.unlink()
    for part in parts:
        suite.world.store.path(PARTS[part]).unlink()


@pytest.fixture(scope="module")
def turned_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    suite = Suite.make(
        tmp_path_factory.mktemp("turned") / "s",
        {"test_m.py": "import os\ndef test_a(): assert 'RED' not in os.environ\n"},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KTX_PROJECT", PROJECT)
        assert call("test-run", "-q", cwd=suite.repo.path).status == 0
        time.sleep(1.1)  # ids of runs have seconds: the newest file is the last run's
        patch.setenv("RED", "1")
        assert call("test-run", "-q", cwd=suite.repo.path).status == 1
        assert [one["verdict"] for one in suite.records] == ["passed", "failed"]
    return suite.repo.path


@pytest.fixture
def turned(turned_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A full run that passed, and after it one that failed on the same content."""
    shutil.copytree(turned_once, tmp_path / "s")
    monkeypatch.setenv("KTX_PROJECT", PROJECT)
    monkeypatch.setenv("RED", "1")
    suite = Suite(Repo(tmp_path / "s"))
    assert call("ledger-query", "last", cwd=suite.repo.path).status == 0  # an index
    return suite


def combinations() -> list[tuple[str, ...]]:
    rest = [name for name in PARTS if name != "lines"]
    return [("lines", *some) for count in range(len(rest) + 1) for some in itertools.combinations(rest, count)]


@pytest.mark.parametrize("lost", combinations(), ids=lambda lost: "+".join(lost))
def test_a_tail_that_is_lost_with_whatever_knew_it_is_no_older_pass(turned: Suite, lost: tuple[str, ...]) -> None:
    lose(turned, *lost)
    for words in (["last"], ["last-full"], ["runs"]):
        asked = call("ledger-query", *words, "--json", cwd=turned.repo.path)
        assert asked.status == 5 and "verdict" not in asked.out, (words, asked.out)
    checked = call("git-ktx", "doctor", "--json", cwd=turned.repo.path)
    assert checked.status != 0
    assert "error" in [one["level"] for one in checked.document["findings"] if one["check"] == "ledger"]


@pytest.mark.parametrize("lost", [("lines", "head"), ("lines", "head", "lock"), ("lines", "head", "key", "index")])
def test_what_is_lost_stands_in_the_order_until_a_newer_full_run(
    turned: Suite, lost: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(turned, *lost)
    mended = call("ledger-append", "--repair", "--json", cwd=turned.repo.path)
    assert mended.status == 0 and json.loads(mended.out)["data"]["missing"] == 2
    for word in ("last", "last-full"):
        found = call("ledger-query", word, "--json", cwd=turned.repo.path).document
        assert found["verdict"] == "unknown" and found.get("reason"), found
    assert claimed(turned) == ["claim-unknown"]
    assert call("git-ktx", "doctor", "--json", cwd=turned.repo.path).document["findings"]
    monkeypatch.delenv("RED")
    assert call("test-run", "-q", cwd=turned.repo.path).status == 0
    for word in ("last", "last-full"):
        assert call("ledger-query", word, "--json", cwd=turned.repo.path).document["verdict"] == "true"
    assert claimed(turned) == []


def claimed(suite: Suite) -> list[str]:
    """The rules that a claim breaks."""
    from ktxkit.claims import gate

    return [one.rule for one in gate.rulings(suite.world, "Fix it\n\nAll tests pass.\n") if one.rule]


def test_an_older_copy_of_the_ledger_and_its_head_is_noticed(turned: Suite) -> None:
    path, head = (turned.world.store.path(name) for name in (names.LEDGER, names.LEDGER_HEAD))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))
    line = json.loads(lines[1])
    head.write_text(json.dumps(json.loads(head.read_text()) | {"lines": 2, "hash": line["hash"]}))
    lose(turned)
    asked = call("ledger-query", "last", "--json", cwd=turned.repo.path)
    assert asked.status == 5 and "2 of at least 4" in asked.out


def test_a_store_that_is_gone_as_a_whole_is_said_to_be_until_a_newer_full_run(
    turned: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`git clean -fdx` removes it; the mark in the git directory knows that there was a ledger."""
    turned.repo.git("clean", "-fdxq")
    assert not (turned.repo.path / ".ktx").exists()
    assert call("ledger-query", "last", "--json", cwd=turned.repo.path).document["verdict"] == "unknown"
    checked = call("git-ktx", "doctor", "--json", cwd=turned.repo.path)
    (finding,) = [one for one in checked.document["findings"] if one["check"] == "ledger"]
    assert checked.status != 0 and finding["level"] == "error" and "it had 4 lines" in finding["message"]
    monkeypatch.delenv("RED")
    assert claimed(turned) == ["claim-unknown"] and levels(turned) == ["error"]
    assert call("test-run", "--", "-q", "-k", "test_a", cwd=turned.repo.path).status == 0
    records = [line["record"] for line in chain.lines(turned.world) if line["kind"] == "run-closed"]
    assert [one["verdict"] for one in records] == ["incomplete", "passed"]
    assert records[0]["trigger"] == "lost" and "4 lines" in records[0]["lost"]["fault"]
    assert levels(turned) == ["error"]
    assert call("git-ktx", "doctor", cwd=turned.repo.path).status == 0
    assert call("test-run", "-q", cwd=turned.repo.path).status == 0
    assert call("ledger-query", "last", "--json", cwd=turned.repo.path).document["verdict"] == "true"
    assert levels(turned) == []


def levels(suite: Suite) -> list[str]:
    """How heavy the findings on a claim are."""
    from ktxkit.claims import gate

    return [one.level for one in gate.rulings(suite.world, "Fix it\n\nAll tests pass.\n") if one.rule]


def test_repair_says_what_a_store_had_that_is_gone(turned: Suite) -> None:
    shutil.rmtree(turned.repo.path / ".ktx")
    mended = call("ledger-append", "--repair", cwd=turned.repo.path)
    assert mended.status == 0 and "lost: 4 lines" in mended.out and "is whole" not in mended.out
    assert claimed(turned) == ["claim-unknown"]


@pytest.mark.parametrize("between", [["--collect-only"], ["-k", "test_a"]], ids=["a plan", "a part"])
def test_a_run_after_an_older_store_was_put_back_does_not_stand_for_one_that_is_lost(
    turned: Suite, monkeypatch: pytest.MonkeyPatch, between: list[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(turned.repo.path.parent / "state"))
    store, older = turned.repo.path / ".ktx", turned.repo.path.parent / "older"
    shutil.copytree(store, older, symlinks=True)
    assert call("test-run", "-q", cwd=turned.repo.path).status == 1
    shutil.rmtree(store)
    shutil.copytree(older, store, symlinks=True)
    monkeypatch.delenv("RED")
    turned.run("-q", *between)
    mended = call("ledger-append", "--repair", "--json", cwd=turned.repo.path)
    assert mended.status == 0 and json.loads(mended.out)["data"]["missing"] == 2, mended.out
    assert claimed(turned) == ["claim-unknown"]


def test_nothing_that_is_recorded_after_a_loss_hides_it(turned: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(turned.repo.path.parent / "state"))
    lose(turned, "lines", "head")
    monkeypatch.delenv("RED")
    ran = turned.run("-q")
    assert ran.status == 0 and "head is gone" in ran.out
    assert call("ledger-query", "last", "--json", cwd=turned.repo.path).status == 5


def test_a_mark_that_is_damaged_is_status_5_until_it_is_repaired(turned: Suite) -> None:
    lock, own = turned.world.store.ledger_marks()
    for mark, data in ((lock, b"{}"), (own, b"{}"), (own, b""), (own, bytes(200))):
        mark.write_bytes(data)
        assert call("ledger-query", "last", "--json", cwd=turned.repo.path).status == 5, (mark, data)
        assert call("ledger-append", "--repair", cwd=turned.repo.path).status == 0
        assert call("ledger-query", "last", "--json", cwd=turned.repo.path).document["verdict"] == "false"


def test_events_of_a_closed_run_that_are_gone_are_an_error_and_said_where_they_are_asked_for(turned: Suite) -> None:
    """The run's own verdict stands in its line; its tests do not."""
    lose(turned)
    (told,) = [
        one
        for one in call("git-ktx", "doctor", "--json", cwd=turned.repo.path).document["findings"]
        if one["check"] == "ledger" and one["level"] == "error"
    ]
    assert "events are gone" in told["message"]
    found = call("ledger-query", "last", "--json", cwd=turned.repo.path).document
    assert found["verdict"] == "false" and found["rows"][0]["evidence"] == "its events are gone"
    for words in (["slowest", "last"], ["history", "test_a"], ["warnings", "last"]):
        document = call("ledger-query", *words, "--json", cwd=turned.repo.path).document
        assert "its events are gone" in document["reason"], words
    assert call("ledger-query", "failing-since", "--json", cwd=turned.repo.path).document["verdict"] == "false"
    assert claimed(turned) == ["claim-false"]


def test_events_that_come_back_are_read_again(turned: Suite) -> None:
    path = sorted(turned.world.store.path(names.EVENTS).glob("*.ndjson"))[-1]
    away = turned.repo.path.parent / "away"
    path.rename(away)
    assert "gone" in call("ledger-query", "history", "test_a", cwd=turned.repo.path).out
    away.rename(path)
    assert "gone" not in call("ledger-query", "history", "test_a", cwd=turned.repo.path).out


def test_artifacts_that_are_gone_or_changed_are_an_error(turned: Suite) -> None:
    kept = next(path for path in turned.world.store.path(names.ARTIFACTS).rglob("*") if path.is_file())
    body = kept.read_bytes()
    for change in (lambda: kept.write_bytes(body + b"x"), kept.unlink):
        change()
        levels = call("git-ktx", "doctor", "--json", cwd=turned.repo.path).document["findings"]
        assert any("artifact" in one["message"] and one["level"] == "error" for one in levels)


# -- one run's damage


def spoil(past: Past, run: str, change: Callable[[bytes], bytes]) -> None:
    path = ledger.events_path(past.world, run)
    path.write_bytes(change(path.read_bytes()))


ODD: dict[str, Callable[[bytes], bytes]] = {
    "an object that is no event": lambda data: data + b"\n{}\n",
    "an unknown event": lambda data: data + b'\n{"event":"party","t":1}\n',
    "another run's beginning": lambda data: data.replace(b'"run": "2026', b'"run": "2025'),
    "a number for a name": lambda data: data.replace(b'"test": "a"', b'"test": 5'),
    "an unknown version": lambda data: data.replace(b'"schemaVersion": 1', b'"schemaVersion": 9'),
}


@pytest.mark.parametrize("name", ODD)
def test_a_run_whose_events_are_damaged_ends_alone(past: Past, name: str) -> None:
    before = past.run({"a": "passed"})
    bad = past.run({"a": "passed"}, settle=False)
    spoil(past, bad, ODD[name])
    after = past.run({"a": "passed"})
    found = ask(past, "runs").document
    states = {row["run"]: row["state"] for row in found["rows"]}
    assert states == {before: "finished", bad: "damaged", after: "finished"}
    assert ask(past, "last").document["rows"][0]["run"] == after
    told = ask(past, "run", bad).document
    assert told["verdict"] == "unknown" and told["facts"]["lost"]["damaged"] >= 1
    assert any(one["level"] == "warning" and bad in one["message"] for one in doctor(past))


def test_a_failure_that_a_damaged_run_shows_is_one(past: Past) -> None:
    bad = past.run({"a": "failed", "b": "passed"}, settle=False)
    spoil(past, bad, lambda data: data + b"\n{}\n")
    assert ask(past, "last").document["verdict"] == "false"


@pytest.mark.parametrize("kind", ["gone", "directory", "pipe", "link"])
def test_events_that_are_no_file_end_their_run_alone(past: Past, kind: str) -> None:
    good = past.run({"a": "passed"})
    bad = past.run({"a": "passed"}, settle=False, owner=DEAD)
    path = ledger.events_path(past.world, bad)
    path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/dev/zero")
    states = {row["run"]: row["state"] for row in ask(past, "runs").document["rows"]}
    assert states[good] == "finished" and states[bad] in ("damaged", "running or not closed")
    assert ask(past, "history", "a").status == 0 and ask(past, "live").status == 0


DEAD = {"bootId": "b", "pid": 1, "startTime": 1, "machine": "another"}


def test_a_record_that_the_ledger_cannot_have_does_not_stay_open(past: Past) -> None:
    tests = {f"t{number}" + "x" * 60_000: "failed" for number in range(150)}
    run = past.run(tests)
    found = ask(past, "run", run).document
    assert found["verdict"] == "false" and found["facts"]["state"] == "finished"


# -- the seal


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite.make(tmp_path / "s", {"test_m.py": "def test_a(): pass\ndef test_b(): pass\n"})


def forget(suite: Suite) -> Path:
    """The event file of the only run, beside a store that knows nothing of it any more."""
    (path,) = (suite.repo.path / ".ktx/ledger/events").glob("*.ndjson")
    kept = suite.repo.path.parent / path.name
    path.rename(kept)
    for name in (names.LEDGER, names.LEDGER_HEAD, names.LEDGER_INDEX):
        (suite.repo.path / ".ktx" / name).unlink(missing_ok=True)
    unmark(suite.world)
    return kept


def recorded(suite: Suite) -> Path:
    ran = call("test-run", "--scope", "full", "--", "-q", cwd=suite.repo.path)
    assert ran.status == 0 and suite.record["authoritative"]
    return forget(suite)


def taken_in(suite: Suite, path: Path) -> dict[str, Any]:
    ran = call("ledger-append", "--from", "events", str(path), cwd=suite.repo.path)
    assert ran.status == 0, ran.err
    return suite.record


def test_events_that_a_recorder_of_this_store_sealed_are_what_they_were(suite: Suite) -> None:
    record = taken_in(suite, recorded(suite))
    assert record["trigger"] != "imported" and record["scope"]["kind"] == "full" and record["authoritative"]


EDITS: dict[str, Callable[[bytes], bytes]] = {
    "one byte": lambda data: data.replace(b"test_b", b"test_c"),
    "a line more": lambda data: data + b'\n{"event":"phase","t":9,"phase":"tests","edge":"start"}\n',
    "the last line twice": lambda data: data + data.splitlines(keepends=True)[-1],
    "no seal": lambda data: b"".join(
        line if b'"mac":' not in line else json.dumps(unsealed(line)).encode() + b"\n" for line in data.splitlines(True)
    ),
    "a line less": lambda data: b"".join(line for line in data.splitlines(True) if b'"phase"' not in line),
}


def unsealed(line: bytes) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(line)
    return {key: found for key, found in record.items() if key != "mac"}


@pytest.mark.parametrize("name", EDITS)
def test_events_that_were_edited_are_imported(suite: Suite, name: str) -> None:
    path = recorded(suite)
    before = path.read_bytes()
    path.write_bytes(EDITS[name](before))
    assert path.read_bytes() != before
    record = taken_in(suite, path)
    assert record["trigger"] == "imported" and record["scope"]["kind"] == "partial" and not record["authoritative"]


def test_events_that_another_store_sealed_are_imported(suite: Suite, tmp_path: Path) -> None:
    path = recorded(suite)
    suite.world.store.path(names.LEDGER_KEY).write_text("0" * 64)
    assert taken_in(suite, path)["trigger"] == "imported"


def test_a_file_that_was_put_among_the_events_is_imported(suite: Suite) -> None:
    path = recorded(suite)
    data = path.read_bytes().replace(b"test_b", b"test_c")
    (suite.repo.path / ".ktx/ledger/events" / path.name).write_bytes(data)
    found = call("ledger-query", "last", "--json", cwd=suite.repo.path).document
    assert found["rows"][0]["scope"].startswith("partial") and suite.record["trigger"] == "imported"


def test_events_that_change_between_the_tests_and_the_closing_are_damaged(suite: Suite) -> None:
    suite.run()
    (path,) = (suite.repo.path / ".ktx/ledger/events").glob("*.ndjson")
    raw = suite.world.store.path(names.LEDGER).read_bytes().splitlines(keepends=True)
    suite.world.store.path(names.LEDGER).write_bytes(raw[0])
    chain.set_head(suite.world, json.loads(raw[0]))
    path.write_bytes(path.read_bytes().replace(b"test_b", b"test_c"))
    assert (suite.record["state"], suite.record["verdict"]) == ("damaged", "incomplete")


def test_the_key_is_the_stores_own_and_nobody_elses(suite: Suite) -> None:
    suite.run()
    place = suite.world.store.path(names.LEDGER_KEY)
    assert place.stat().st_mode & 0o777 == 0o600 and len(bytes.fromhex(place.read_text())) == 32
    before = place.read_bytes()
    suite.run()
    assert place.read_bytes() == before
