"""Events on a Redis stream: a copy for readers elsewhere, that never costs a test anything."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base.errors import CannotRun
from ktxkit.ledger import live
from ktxkit.ledger.asking import LedgerQuery
from ktxkit.ledger.redis import Mirror, Wire, address, own_database
from ktxkit.ledger.rules.fold import Fold
from ktxkit.store.world import World
from tests.support.commands import script
from tests.support.redis import Server, free_port, server
from tests.support.suites import Suite

MANY = "import pytest\n@pytest.mark.parametrize('i', range(200))\ndef test_x(i): assert i != 7\n"


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Server]:
    with server(tmp_path) as made:
        yield made


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite.make(tmp_path / "s", {"test_m.py": MANY})


def streamed(redis: Server, db: int = 7) -> list[Any]:
    """The events of the only stream."""
    with Wire(address(redis.url(db)), 5.0) as wire:
        (name,) = wire.command("KEYS", "*")
        entries = wire.command("XRANGE", name, "-", "+")
        assert 0 < wire.command("TTL", name) <= 7 * 24 * 3600
    return [json.loads(pairs[1]) for _, pairs in entries]


def test_the_stream_has_what_the_file_has(suite: Suite, redis: Server) -> None:
    ended = suite.run(KTX_REDIS_URL=redis.url())
    assert ended.status == 1 and "not whole" not in ended.out
    assert streamed(redis) == suite.events()
    record = suite.record
    assert "transportDegraded" not in record and record["counts"]["failed"] == 1
    with Wire(address(redis.url()), 5.0) as wire:
        (name,) = wire.command("KEYS", "*")
    assert name.decode() == f"test:run:{record['project']}:{record['run']}:events"


def test_a_late_joiner_replays(suite: Suite, redis: Server, tmp_path: Path) -> None:
    suite.run(KTX_REDIS_URL=redis.url())
    fold = Fold().feed(streamed(redis))
    assert fold.counts(ended=True)["passed"] == 199 and fold.end["exitStatus"] == 1


def test_another_machine_follows(suite: Suite, redis: Server, tmp_path: Path) -> None:
    """A reader with nothing but the address and the project, before the run starts and until it ends."""
    project = "file:" + str(suite.repo.path)
    elsewhere = World(tmp_path, {**os.environ, "KTX_REDIS_URL": redis.url()}, ktx_dir=str(tmp_path / "none"))
    rows: list[dict[str, Any]] = []
    reader = threading.Thread(
        target=lambda: rows.extend(live.follow(elsewhere, LedgerQuery(projects=(project,)), redis=True)), daemon=True
    )
    reader.start()
    suite.run(KTX_REDIS_URL=redis.url())
    reader.join(30)
    assert not reader.is_alive()
    assert rows[-1]["state"] == "finished" and rows[-1]["done"] == 200 and "199 passed" in rows[-1]["tests"]
    assert all(row["state"] == "running" for row in rows[:-1])


def test_another_process_joins_late(suite: Suite, redis: Server, tmp_path: Path) -> None:
    """`live --follow --redis` in a process that began after the tests did: what went before is replayed."""
    wait = "    while not os.path.exists('../go'): time.sleep(0.02)\n"
    body = f"import os, time\ndef test_a(): pass\ndef test_b(): pass\ndef test_wait():\n{wait}def test_c(): pass\n"
    suite.repo.write("test_m.py", body)
    child = suite.start(KTX_REDIS_URL=redis.url())
    with Wire(address(redis.url()), 5.0) as wire:
        while not (names := wire.command("KEYS", "*")) or b'"test_m.py::test_wait"' not in b"".join(
            field for _, pairs in wire.command("XRANGE", names[0], "-", "+") for field in pairs
        ):
            assert child.poll() is None
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    argv = [script("ledger-query"), "live", "--follow", "--redis", "--project", "file:" + str(suite.repo.path)]
    env = {**os.environ, "KTX_REDIS_URL": redis.url(), "KTX_DIR": str(elsewhere / "ktx")}
    with subprocess.Popen(argv, cwd=elsewhere, env=env, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        first = follower.stdout.readline()
        (tmp_path / "go").touch()
        rest = follower.stdout.read()
    child.communicate()
    assert "running" in first and "2 of 4: 2 passed" in first and "1 busy" in first
    assert "finished full" in rest.splitlines()[-1] and "4 of 4: 4 passed" in rest.splitlines()[-1]
    assert follower.returncode == 0 and not (elsewhere / "ktx").exists()


def test_follow_from_the_file(suite: Suite) -> None:
    suite.repo.write("test_m.py", "import time\ndef test_a(): pass\ndef test_b(): time.sleep(1.5)\n")
    child = suite.start()
    done = subprocess.run(
        [script("ledger-query"), "live", "--follow"],
        cwd=suite.repo.path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    child.communicate()
    assert done.returncode == 0, done.stderr
    assert "finished full" in done.stdout.splitlines()[-1] and "2 passed" in done.stdout.splitlines()[-1]


def test_a_closed_port_costs_nothing(suite: Suite) -> None:
    """No retries, no waiting: the file is whole, the run is marked."""
    ended = suite.run(KTX_REDIS_URL=f"redis://127.0.0.1:{free_port()}/3")
    assert ended.status == 1 and "not whole" in ended.out
    record = suite.record
    assert (
        record["transportDegraded"] is True and record["scope"]["kind"] == "full" and record["counts"]["passed"] == 199
    )
    assert "redis" in record["lost"]["fault"]


def test_one_try_and_no_storm() -> None:
    """A server that hangs up at once is called once: the file has everything anyway."""
    calls: list[int] = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)

        def hang_up() -> None:
            while True:
                try:
                    listener.accept()[0].close()
                except OSError:
                    return  # gate-ok: the listener was closed: the test is over
                calls.append(1)

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        made = Mirror(f"redis://127.0.0.1:{listener.getsockname()[1]}/3", "s", {})
        for _ in range(3000):
            made.put("{}")
        made.close()
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)
    assert made.fault and made.degraded and made.sent == 0
    assert len(calls) == 1


def test_a_server_that_dies_in_mid_run_degrades(suite: Suite, tmp_path: Path) -> None:
    kill = "    time.sleep(0.5)\n    os.kill(int(os.environ['VICTIM']), 9)\n    time.sleep(0.3)\n"
    body = f"import time, os\ndef test_a(): pass\ndef test_kill():\n{kill}def test_c(): pass\n"
    suite.repo.write("test_m.py", body)
    with server(tmp_path) as redis:
        ended = suite.run(KTX_REDIS_URL=redis.url(), VICTIM=str(redis.process.pid))
    assert ended.status == 0 and suite.record["counts"]["passed"] == 3
    assert suite.record["transportDegraded"] is True


def test_a_server_that_never_answers_is_left(suite: Suite) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(1)
        ended = suite.run(KTX_REDIS_URL=f"redis://127.0.0.1:{deaf.getsockname()[1]}/3")
    assert ended.status == 1 and suite.record["counts"]["passed"] == 199
    assert "not whole" in ended.out and suite.record["transportDegraded"] is True


SHARED: dict[str, tuple[str, dict[str, str], bool]] = {
    "its own": ("redis://h:1/7", {"REDIS_URL": "redis://h:1/0"}, True),
    "the suite's": ("redis://h:1/7", {"REDIS_URL": "redis://h:1/7"}, False),
    "the suite's by another name": ("redis://localhost/7", {"CELERY_BROKER_URL": "redis://127.0.0.1:6379/7"}, False),
    "the default one": ("redis://h:1", {}, False),
    "database 0 that the suite names without": ("redis://h:1/0", {"CACHE": "redis://h:1"}, False),
    "another server": ("redis://h:1/7", {"REDIS_URL": "redis://h:2/7"}, True),
    "no address": ("http://h/7", {}, False),
    "no number": ("redis://h/x", {}, False),
}


@pytest.mark.parametrize("name", SHARED)
def test_the_database_is_its_own(name: str) -> None:
    url, env, good = SHARED[name]
    if good:
        assert own_database(url, env).db == 7
    else:
        with pytest.raises(CannotRun):
            own_database(url, env)


def test_a_suite_that_flushes_its_database_wipes_nothing(suite: Suite, redis: Server) -> None:
    body = (
        "import os\nfrom ktxkit.ledger.redis import Wire, address\n"
        "def test_a():\n    Wire(address(os.environ['REDIS_URL']), 5).command('FLUSHDB')\ndef test_b(): pass\n"
    )
    suite.repo.write("test_m.py", body)
    suite.run(KTX_REDIS_URL=redis.url(7), REDIS_URL=redis.url(0))
    assert streamed(redis) == suite.events()
    ended = suite.run(KTX_REDIS_URL=redis.url(7), REDIS_URL=redis.url(7))
    assert "could wipe it" in ended.out


def test_what_overflows_is_counted() -> None:
    """At a server that takes the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        made = Mirror(f"redis://127.0.0.1:{silent.getsockname()[1]}/3", "s", {}, bound=10)
        for _ in range(25):
            made.put("{}")
        assert made.dropped == 15 and made.degraded
    made.close()


def test_a_password(tmp_path: Path) -> None:
    with server(tmp_path, "--requirepass", "s3cret") as redis:
        url = redis.url().replace("redis://", "redis://:s3cret@")
        with Wire(address(url), 5.0) as wire:
            assert wire.command("PING") == "PONG"
        with pytest.raises(OSError, match="NOAUTH"), Wire(address(redis.url()), 5.0):
            pass


def test_a_password_is_never_said() -> None:
    with pytest.raises(CannotRun) as caught:
        address("redis://:s3cret@h:x/1")
    assert "s3cret" not in caught.value.message + caught.value.hint
