"""The second reader: what it reads is what the walk reads, and the walk needs it for nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3

from ktxkit.base import process
from ktxkit.base.rules.manifest import unpack
from ktxkit.observer import second_reader
from ktxkit.observer.manifest_file import Stored
from ktxkit.observer.rules.paths_policy import CandidatePathPolicy
from ktxkit.observer.rules.projection import Tracked
from ktxkit.observer.scan import scan
from ktxkit.observer.scanned import Level, Scan, ScanSubject
from ktxkit.observer.second_reader import SecondReader

POLICY = CandidatePathPolicy()
EMPTY = Stored.empty(POLICY.digest)
NAMES = [
    *(f"a{n:02}/{'b/' * (n % 3)}f{m}" for n in range(20) for m in range(4)),
    "a05.x", "a05/z.d/y", "top", "\udcff/bad\udcfe", "z/new\nline",
]  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of all sizes, a link, a FIFO, and a link that stands where a directory was."""
    made = tmp_path_factory.mktemp("second") / "r"
    for number, name in enumerate(NAMES):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(b"%d" % number * (number * 50))
    (made / "link").symlink_to("top")
    os.mkfifo(made / "fifo")
    (made / "outside").symlink_to(made.parent)
    return made


@pytest.fixture
def subject(root: Path) -> Iterator[ScanSubject]:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    gone = [b"gone", b"a01/gone/x", b"fifo", b"outside/r/top", b"link"]
    yield ScanSubject(fd, POLICY, Tracked.of([*map(os.fsencode, NAMES), *gone]))
    os.close(fd)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is always worth it, and asked for small runs from the first one on."""
    monkeypatch.setattr(second_reader, "worth_it", lambda *_: True)
    monkeypatch.setattr(second_reader, "RUN", 40)
    monkeypatch.setattr(second_reader, "HEAD_START", 0)


def alone(subject: ScanSubject, stored: Stored = EMPTY) -> Scan:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(second_reader, "worth_it", lambda *_: False)
        return scan(subject, stored, Level.CONTENT)


def same(one: Scan, other: Scan) -> bool:
    return (one.stored.digest, one.holds, one.unstable, one.changes, one.files_read) == (
        other.stored.digest, other.holds, other.unstable, other.changes, other.files_read
    )  # fmt: skip


@pytest.mark.usefixtures("eager")
def test_two_find_what_one_finds(subject: ScanSubject, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_other: list[int] = []
    close = SecondReader.close

    def closing(reader: SecondReader) -> None:
        by_other.append(reader.files)
        close(reader)

    monkeypatch.setattr(SecondReader, "close", closing)
    found = scan(subject, EMPTY, Level.CONTENT)
    assert same(found, alone(subject))
    (root / "top").write_text("changed")
    (root / "a03/new").write_text("new")
    (root / "a04/b/f1").unlink()
    again = scan(subject, found.stored, Level.CONTENT)
    assert same(again, alone(subject, found.stored))
    assert [change.path for change in again.changes] == [b"a03/new", b"a04/b/f1", b"top"]
    assert min(by_other) > len(NAMES) // 4  # of tracked paths, and of stored ones


def test_it_reads_what_a_path_means_below_the_root_and_follows_no_link(subject: ScanSubject, root: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(second_reader, "HEAD_START", 0)
        reader = SecondReader(subject, EMPTY, 1)
    try:
        assert [reader.found(name) for name in (b"fifo", b"gone", b"link", b"outside/r/top")] == [None] * 4
        top = reader.found(b"top")
        assert top is not None
        assert unpack(top[0])[0].blake3 == blake3((root / "top").read_bytes()).digest()
        assert reader.found(b"zz") is None
    finally:
        reader.close()


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("after", [0, 1, 2])
def test_where_it_dies_the_walk_reads_on(subject: ScanSubject, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    children: list[process.Child] = []
    turns: list[int] = []
    start, turn = process.start, SecondReader._turn

    def noting(*args: object, **options: object) -> process.Child:
        children.append(start(*args, **options))  # type: ignore[arg-type]
        return children[-1]

    def killing(reader: SecondReader) -> None:
        if len(turns) == after:
            children[0].kill()
            children[0].wait()
        turns.append(1)
        turn(reader)

    monkeypatch.setattr(process, "start", noting)
    monkeypatch.setattr(SecondReader, "_turn", killing)
    found = scan(subject, EMPTY, Level.CONTENT)
    assert len(turns) > after
    assert found.stored.digest == alone(subject).stored.digest


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("program", ["/nonexistent", "/bin/true"])
def test_where_it_cannot_run_the_walk_reads_alone(
    subject: ScanSubject, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    assert same(scan(subject, EMPTY, Level.CONTENT), alone(subject))


def test_it_is_worth_it_for_many_files_only(subject: ScanSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_reader, "_idle_processor", lambda: True)
    many = ScanSubject(subject.root, POLICY, Tracked.of(b"%05d" % n for n in range(second_reader.WORTH)))
    assert second_reader.worth_it(many, EMPTY)
    assert not second_reader.worth_it(subject, EMPTY)
    mounted = ScanSubject(subject.root, POLICY, many.tracked, mounts=frozenset({b"m"}))
    assert not second_reader.worth_it(mounted, EMPTY)
