"""Rows of the ledger: what recording costs a test run, and what questions cost."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import ledger_store
from harness import BIN, ENV, Row, Work, ours, run

PLUGINS_OFF = [
    word
    for name in ("xdist", "timeout", "rerunfailures", "asyncio", "hypothesispytest")
    for word in ("-p", f"no:{name}")
]


def trivial_suite(place: Path) -> Callable[..., object]:
    """10,000 tests that do nothing, in a repository with a store; returns a function that runs them."""
    repo = place / "suite"
    repo.mkdir()
    for module in range(100):
        (repo / f"test_m{module:03d}.py").write_text("".join(f"def test_{number}(): pass\n" for number in range(100)))
    (repo / "pytest.ini").write_text("[pytest]\n")
    (repo / ".gitignore").write_text("__pycache__\n.pytest_cache\n")
    run("git", "init", "-q", "-b", "main", repo, cwd=place)
    run("git", "add", "-A", cwd=repo)
    run("git", "commit", "-q", "-m", "base", cwd=repo)
    with open(repo / ".git/info/exclude", "a") as exclude:
        exclude.write("/.ktx/\n")
    (repo / ".ktx").mkdir()
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGINS_OFF]
    run(*pytest, "-p", "no:ktxkit", "-p", "no:reportlog", cwd=repo)  # bytecode is there before anything is measured
    return lambda *options: run(*pytest, *options, cwd=repo)


def plugin(place: Path) -> tuple[Work, Work]:
    tests = trivial_suite(place)
    return lambda: tests("-p", "no:reportlog"), lambda: tests("-p", "no:ktxkit", "-p", "no:reportlog")


def plugin_and_reportlog(place: Path) -> tuple[Work, Work]:
    tests = trivial_suite(place)
    return lambda: tests("-p", "no:reportlog"), lambda: tests("-p", "no:ktxkit", f"--report-log={place}/log.jsonl")


STORE: list[Path] = []  # the big ledger, made once
READ = (
    "read_ndjson('flat.ndjson', columns={run: 'VARCHAR', event: 'VARCHAR', test: 'VARCHAR', outcome: 'VARCHAR',"
    " setup: 'DOUBLE', call: 'DOUBLE', teardown: 'DOUBLE'}) WHERE event = 'test_result'"
)
TIMED = f"SELECT run, test, outcome, setup + call + teardown AS total FROM {READ}"


def big_ledger() -> Path:
    """63 runs and 2,085,069 records; see ledger_store.py."""
    if not STORE:
        place = Path(tempfile.mkdtemp(prefix="ktx-bench-"))
        atexit.register(shutil.rmtree, place)
        ledger_store.make(place)
        STORE.append(place)
        query(place, "runs")  # the index is made
    return STORE[0]


def query(place: Path, *words: str) -> None:
    env = {**ENV, "KTX_PROJECT": "bench", "KTX_DIR": str(place / ".ktx")}
    done = subprocess.run([ours("ledger-query"), *words], cwd=place, env=env, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr


def duckdb(place: Path, sql: str) -> None:
    code = f"import duckdb, json\nprint(json.dumps(duckdb.sql({sql!r}).fetchall(), default=str))"
    run(BIN / "../peers/bin/python", "-c", code, cwd=place)


def asked(words: tuple[str, ...], sql: str) -> Callable[[Path], tuple[Work, Work]]:
    """A question to a warm index, beside the same question to DuckDB over the same records, also warm."""

    def make(_: Path) -> tuple[Work, Work]:
        place = big_ledger()
        query(place, *words)
        return lambda: query(place, *words), lambda: duckdb(place, sql)

    return make


def index_build(place: Path) -> tuple[Work, Work]:
    store = big_ledger()
    loop = "import json\nfor line in open('flat.ndjson', 'rb'): json.loads(line)"

    def mine() -> None:
        (store / ".ktx/ledger/index.sqlite").unlink()
        query(store, "runs", "--limit", "1")

    return mine, lambda: run(sys.executable, "-c", loop, cwd=store)


def index_one(place: Path) -> tuple[Work, Work]:
    """What the index pays for one more run, without the start of an interpreter; beside the run."""
    from ktxkit.flows.ledger_index import ensure
    from ktxkit.world import World

    tests = trivial_suite(place)
    tests("-p", "no:reportlog")
    env = {**ENV, "KTX_PROJECT": "bench"}
    ensure(World(place / "suite", {**env, "KTX_DIR": str(place / "other")}))  # what it loads is loaded
    ensure(World(place / "suite", env))
    return lambda: ensure(World(place / "suite", env)) and None, lambda: tests("-p", "no:reportlog")


LAST, BEFORE, ONE = "20260102T030462Z", "20260102T030459Z", "tests/integration/area_03/test_module_100.py"
ONE += "::TestThing::test_case_00100"
SIDES = [f"(SELECT * FROM ({TIMED}) WHERE run LIKE '{run_id}%')" for run_id in (BEFORE, LAST)]
ROWS = [
    Row("pytest plugin, 10,000 tests", "pytest without it", 1.05, plugin),
    Row("pytest plugin, 10,000 tests again", "pytest-reportlog", 1.0, plugin_and_reportlog),
    Row("index: one run of 10,000 tests more", "the run itself", 0.01, index_one),
    Row("index of 2,085,069 records", "a loop of json.loads", 1.0, index_build),
    Row(
        "ledger-query slowest, 2,085,069 records",
        "DuckDB on the same NDJSON",
        0.1,
        asked(("slowest", LAST), f"SELECT * FROM ({TIMED}) WHERE run LIKE '{LAST}%' ORDER BY total DESC LIMIT 10"),
    ),
    Row(
        "ledger-query compare, 2,085,069 records",
        "DuckDB on the same NDJSON",
        0.1,
        asked(
            ("compare", BEFORE, LAST),
            "SELECT a.test, a.outcome, b.outcome, b.total - a.total AS d"
            f" FROM {SIDES[0]} a JOIN {SIDES[1]} b USING (test)"
            " ORDER BY a.outcome = b.outcome, abs(d) DESC LIMIT 100",
        ),
    ),
    Row(
        "ledger-query history, 2,085,069 records",
        "DuckDB on the same NDJSON",
        0.1,
        asked(("history", ONE), f"SELECT * FROM ({TIMED}) WHERE test = '{ONE}'"),
    ),
]
