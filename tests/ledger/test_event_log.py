"""The event file: no acknowledged record is lost and no torn one joined, whatever is done to its writers."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ktxkit.ledger import event_log
from ktxkit.ledger.event_log import EventWriter

WRITER = """
import json, os, sys, time
from pathlib import Path
from ktxkit.ledger.event_log import EventWriter
writer = EventWriter(Path(sys.argv[1]), join=True)
number = 0
while True:
    writer.put(json.dumps({"by": sys.argv[2], "n": number, "body": "x" * (7919 * number % 20000)}))
    os.write(1, b"%d\\n" % number)
    number += 1
    if number % 20 == 0:
        time.sleep(0.02)
"""
KILLS = 150 if os.environ.get("KTX_TEST_FULL") else 40


def read(path: Path) -> list[object]:
    return [record for _, record in event_log.read(path)]


def test_a_framed_record_each(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path / "e")
    writer.put('{"a":1}')
    writer.put('{"b":2}')
    writer.close()
    assert (tmp_path / "e").read_bytes() == b'\n{"a":1}\n\n{"b":2}\n'
    assert read(tmp_path / "e") == [{"a": 1}, {"b": 2}]


def test_killed_writers_lose_and_join_nothing(tmp_path: Path) -> None:
    path = tmp_path / "e"
    path.touch()
    chance = random.Random(7)
    acknowledged: set[tuple[str, int]] = set()
    living: list[tuple[str, subprocess.Popen[bytes]]] = []
    for kill in range(KILLS + 8):
        name = str(kill)
        argv = [sys.executable, "-c", WRITER, str(path), name]
        living.append((name, subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ})))
        if len(living) < 8:
            continue
        victim, child = living.pop(chance.randrange(len(living)))
        assert child.stdout is not None
        first = child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
        said = (first + child.stdout.read()).split(b"\n")[:-1]  # the last one may be torn itself
        child.wait()
        child.stdout.close()
        acknowledged |= {(victim, int(word)) for word in said}
    for name, child in living:
        os.kill(child.pid, signal.SIGKILL)
        assert child.stdout is not None
        acknowledged |= {(name, int(word)) for word in child.stdout.read().split(b"\n")[:-1]}
        child.wait()
        child.stdout.close()
    found = {(record["by"], record["n"]) for record in read(path) if isinstance(record, dict)}
    assert len(acknowledged) > KILLS and len({name for name, _ in acknowledged}) > KILLS // 2
    assert acknowledged - found == set(), "an acknowledged record was lost"
    for record in read(path):
        if isinstance(record, dict):
            assert len(record["body"]) == 7919 * record["n"] % 20000, "a record was joined with another"


def test_threads_hand_over(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path / "e")

    def work(name: int) -> None:
        for number in range(500):
            writer.put(json.dumps({"by": name, "n": number}))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    found = read(tmp_path / "e")
    assert len(found) == 4000 and None not in found
    for name in range(8):
        order = [record["n"] for record in found if isinstance(record, dict) and record["by"] == name]
        assert order == list(range(500)), "each thread's records keep their order"


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path / "e")
    writer.put('{"a":1}')
    pid = os.fork()
    if pid == 0:
        writer.put('{"child":1}')
        writer.last_word('{"child":2}')
        os._exit(0)
    os.waitpid(pid, 0)
    writer.put('{"b":2}')
    assert read(tmp_path / "e") == [{"a": 1}, {"b": 2}] and writer.forks == 1


def test_a_closed_descriptor_is_opened_again(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path / "e")
    writer.put('{"a":1}')
    os.close(writer.fd)
    foreign = os.open(tmp_path / "foreign", os.O_WRONLY | os.O_CREAT)
    assert foreign == writer.fd, "the number is someone else's now"
    writer.put('{"b":2}')
    writer.put('{"c":3}')
    os.close(foreign)
    assert (tmp_path / "foreign").read_bytes() == b""
    assert read(tmp_path / "e") == [{"a": 1}, {"b": 2}, {"c": 3}] and writer.dropped == 0


def test_a_file_that_is_removed_is_missed_soon(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path / "e")
    for number in range(1000):
        writer.put(f'{{"n":{number}}}')
        if number == 400:
            (tmp_path / "e").unlink()
    assert "removed" in writer.fault and 600 <= writer.dropped <= 600 + event_log.LOOK


def test_a_descriptor_without_a_mark_is_told_from_another_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system that marks no files: the file itself is looked at before each record."""

    def refuse(*_: object) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(event_log, "fcntl", refuse)
    test_a_closed_descriptor_is_opened_again(tmp_path)
    (tmp_path / "e").unlink()
    test_a_framed_record_each(tmp_path)


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_file_that_is_gone_is_a_counted_loss(tmp_path: Path, how: str) -> None:
    writer = EventWriter(tmp_path / "e")
    writer.put('{"a":1}')
    if how == "removed":
        (tmp_path / "e").unlink()
    else:
        os.close(writer.fd)
        (tmp_path / "e").rename(tmp_path / "old")
        (tmp_path / "e").write_bytes(b"foreign")
    writer.put('{"b":2}')
    writer.last_word('{"c":3}')
    assert writer.dropped == (3 if how == "removed" else 2) and how in writer.fault
    if how == "replaced":
        assert (tmp_path / "e").read_bytes() == b"foreign"


def test_a_short_write_is_cut_back_and_the_last_word_still_fits(tmp_path: Path) -> None:
    code = """
import resource, signal, sys
from pathlib import Path
from ktxkit.ledger.event_log import EventWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = EventWriter(Path(sys.argv[1]))
writer.put('{"a":1}')
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
writer.put('{"b":"' + "x" * 200 + '"}')
writer.put('{"c":3}')
print(writer.dropped, writer.size, writer.fault)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
writer.last_word('{"dropped":%d}' % writer.dropped)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "e"], capture_output=True, check=True, text=True)
    assert done.stdout.split()[:2] == ["2", "9"]
    assert read(tmp_path / "e") == [{"a": 1}, {"dropped": 2}]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n\n\n", []),
        (b'\n{"a":1}\n\n{"to\n{"b":2}\n', [{"a": 1}, None, {"b": 2}]),
        (b'\n{"a":1}\n\n[1]\n', [{"a": 1}, None]),
        (b'\n{"a":1}\n\xff\xfe\n', [{"a": 1}, None]),
    ],
)
def test_readers_pass_over_blanks_and_tell_torn_lines(tmp_path: Path, data: bytes, expected: list[object]) -> None:
    (tmp_path / "e").write_bytes(data)
    assert read(tmp_path / "e") == expected
