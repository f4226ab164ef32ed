"""The linked journal: every cut and flipped bit is seen, a torn last record told apart, nothing follows damage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ktxkit.base import contracts
from ktxkit.base.contracts import Document
from ktxkit.base.errors import Blocked
from ktxkit.observer.attempt import JournalSegment
from ktxkit.observer.rules.projection import Anchor, linked
from tests.support.clocks import TurnedClock

FULL = os.environ.get("KTX_TEST_FULL") == "1"
DOMAIN = {
    "leaseId": "l", "generation": 1, "attempt": 1, "fence": 1, "leaseEpoch": 1, "processEpoch": 1, "observerEpoch": 1,
    "path": "/w", "adminDir": "/g", "device": 1, "inode": 2, "nonce": "n",
}  # fmt: skip


def body(reason: str) -> Document:
    return {
        "event": "fence",
        "domain": DOMAIN,
        "at": "2026-01-01T00:00:00.000Z",
        "timelineNs": 1,
        "clock": {"boot": "b", "bootNs": 1, "wallNs": 1},
        "source": "lifecycle",
        "reason": reason,
    }


def opened(path: Path) -> JournalSegment:
    return JournalSegment(path, 1, TurnedClock())


def grown(path: Path, count: int) -> JournalSegment:
    chain = opened(path)
    for number in range(count):
        with chain.locked(Anchor()):
            chain.append([linked(body(f"r{number}"), len(chain.records) + 1, chain.head, 1)])
    return chain


def read(path: Path, anchor: Anchor | None = None) -> JournalSegment:
    chain = opened(path)
    chain.catch_up(anchor or Anchor())
    return chain


def anchor_of(chain: JournalSegment) -> Anchor:
    return Anchor(1, len(chain.records), chain.head, 1)


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    chain = grown(tmp_path / "a", 5)
    again = read(tmp_path / "a", anchor_of(chain))
    assert (again.records, again.problem) == (chain.records, "")
    assert [record["seq"] for record in again.records] == [1, 2, 3, 4, 5]


def test_another_process_s_records_are_caught_up_with(tmp_path: Path) -> None:
    one, other = grown(tmp_path / "a", 1), opened(tmp_path / "a")
    for chain, reason in ((other, "x"), (one, "y"), (other, "z")):
        with chain.locked(Anchor()):
            chain.append([linked(body(reason), len(chain.records) + 1, chain.head, 1)])
    one.catch_up(Anchor())
    assert [record["reason"] for record in one.records] == ["r0", "x", "y", "z"]


def test_every_cut(tmp_path: Path) -> None:
    """Where nothing is anchored, a cut leaves the whole records before it; with the anchor it is a rollback."""
    path = tmp_path / "a"
    chain = grown(path, 4)
    whole = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    for cut in range(0, len(whole), 1 if FULL else 7):
        path.write_bytes(whole[:cut])
        found = read(path)
        assert (len(found.records), found.problem) == (sum(end <= cut for end in ends), "")
        problem = read(path, anchor_of(chain)).problem
        assert problem in ("rollback", "missing", "corrupt")
        assert (problem == "missing") <= (cut < ends[0])


def test_every_flipped_bit(tmp_path: Path) -> None:
    """Of an anchored chain: none goes unseen. Of the last record of an unanchored one: it counts as torn."""
    path = tmp_path / "a"
    chain = grown(path, 3)
    whole = path.read_bytes()
    last = whole[:-1].rfind(b"\n") + 1
    for at in range(0, len(whole), 1 if FULL else 5):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        assert read(path, anchor_of(chain)).problem
        unanchored = read(path)
        assert unanchored.problem if at < last - 1 else (unanchored.problem, len(unanchored.records)) != ("", 3)


def test_any_record_taken_out_put_in_twice_or_moved_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a"
    grown(path, 4)
    lines = path.read_bytes().splitlines(keepends=True)
    wrong = [
        [*lines[:1], *lines[2:]],
        [lines[0], lines[0], *lines[1:]],
        [lines[0], lines[2], lines[1], lines[3]],
        lines[1:],
    ]
    for order in wrong:
        path.write_bytes(b"".join(order))
        assert read(path).problem == "corrupt"


def test_a_torn_tail_is_kept_beside_and_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "a"
    chain = grown(path, 2)
    with open(path, "ab") as stream:
        stream.write(b'{"torn":\r\0\xff')
    again = opened(path)
    with again.locked(anchor_of(chain)):
        again.append([linked(body("next"), 3, again.head, 1)])
    assert [record["reason"] for record in read(path).records] == ["r0", "r1", "next"]
    assert [p.read_bytes() for p in tmp_path.glob("a.torn-*")] == [b'{"torn":\r\0\xff']


def test_a_full_disk_leaves_no_part_of_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    grown(path, 2)
    before = path.read_bytes()
    real, calls = os.write, []

    def short(fd: int, data: bytes) -> int:
        calls.append(fd)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real(fd, data[:100])

    chain = opened(path)
    monkeypatch.setattr(os, "write", short)
    with chain.locked(Anchor()), pytest.raises(OSError, match="No space"):
        chain.append([linked(body("lost"), 3, chain.head, 1)])
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert (len(chain.records), chain.problem) == (2, "")


def test_after_a_failed_flush_nothing_is_ever_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = grown(tmp_path / "a", 1)

    def failing(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with chain.locked(Anchor()), pytest.raises(Blocked, match="flushed"):
        chain.append([linked(body("x"), 2, chain.head, 1)])
    monkeypatch.undo()
    assert chain.problem == "flush_failed"
    assert read(tmp_path / "a").problem == "flush_failed"


def test_a_foreign_file_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"not ours\nnot at all\n")
    assert read(path).problem == "corrupt"
    grown(tmp_path / "b", 1)
    record = contracts.loads("observation", (tmp_path / "b").read_bytes())
    path.write_bytes(contracts.line("observation", linked({**body("x"), "reason": "y"}, 1, "", 2)))
    assert read(path, Anchor(1, 1, record["hash"], 1)).problem == "corrupt"  # another segment's
