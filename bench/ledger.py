"""Rows of the ledger: what recording costs a test run, and what questions cost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from harness import ENV, PEERS, PeerMissing, Row, Works, ours, run, shared

PLUGINS_OFF = [
    word
    for name in ("xdist", "timeout", "rerunfailures", "asyncio", "hypothesispytest", "hypofuzz")
    for word in ("-p", f"no:{name}")
]


def trivial_suite(place: Path, tests: int) -> Callable[..., object]:
    """Tests that do nothing, a hundred in a module, in a repository with a store; returns a function that runs them."""
    repo = place / "suite"
    repo.mkdir()
    for module in range(-(-tests // 100)):
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


def plugin(place: Path, n: int) -> Works:
    tests = trivial_suite(place, n)
    return lambda: tests("-p", "no:reportlog"), lambda: tests("-p", "no:ktxkit", "-p", "no:reportlog")


def plugin_and_reportlog(place: Path, n: int) -> Works:
    tests = trivial_suite(place, n)
    return lambda: tests("-p", "no:reportlog"), lambda: tests("-p", "no:ktxkit", f"--report-log={place}/log.jsonl")


READ = (
    "read_ndjson('flat.ndjson', columns={run: 'VARCHAR', event: 'VARCHAR', test: 'VARCHAR', outcome: 'VARCHAR',"
    " setup: 'DOUBLE', call: 'DOUBLE', teardown: 'DOUBLE'}) WHERE event = 'test_result'"
)
TIMED = f"SELECT run, test, outcome, setup + call + teardown AS total FROM {READ}"
RUNS, RECORDS = 63, 2_085_069  # of the whole store; a part of it has its first runs


def store(records: int) -> Path:
    """A store of so many records, indexed; see ledger_store.py."""

    def build(place: Path) -> None:
        run(sys.executable, Path(__file__).with_name("ledger_store.py"), place, str(records / RECORDS), cwd=place)
        query(place, "runs")  # the index is made

    return shared(f"ledger-{records}", build)


def query(place: Path, *words: str) -> None:
    env = {**ENV, "KTX_PROJECT": "bench", "KTX_DIR": str(place / ".ktx")}
    run("env", *(f"{key}={value}" for key, value in env.items() if key.startswith("KTX_")),
        ours("ledger-query"), *words, cwd=place, ok=(0, 1))  # fmt: skip


def duckdb(place: Path, sql: str) -> None:
    if not (PEERS / "python").exists():
        raise PeerMissing("peer missing: duckdb")
    code = f"import duckdb, json\nprint(json.dumps(duckdb.sql({sql!r}).fetchall(), default=str))"
    run(PEERS / "python", "-c", code, cwd=place)


def asked(question: Callable[[str, str], tuple[tuple[str, ...], str]]) -> Callable[[Path, int], Works]:
    """A question to a warm index, beside the same question to DuckDB over the same records, also warm."""

    def make(_: Path, n: int) -> Works:
        place = store(n)
        runs = sorted(path.stem for path in (place / ".ktx/ledger/events").iterdir())
        full = [name for number, name in enumerate(runs) if number % 3 == 2]
        words, sql = question(full[-2] if len(full) > 1 else runs[-2], full[-1])
        query(place, *words)
        return lambda: query(place, *words), lambda: duckdb(place, sql)

    return make


def index_build(_: Path, n: int) -> Works:
    place = store(n)
    loop = "import json\nfor line in open('flat.ndjson', 'rb'): json.loads(line)"

    def mine() -> None:
        (place / ".ktx/ledger/index.sqlite").unlink()
        query(place, "runs", "--limit", "1")

    return mine, lambda: run(sys.executable, "-c", loop, cwd=place)


def index_one(place: Path, n: int) -> Works:
    """What the index pays for one more run, without the start of an interpreter; beside the run."""
    from ktxkit.ledger.asking import ensure
    from ktxkit.store.world import World

    tests = trivial_suite(place, n)
    tests("-p", "no:reportlog")
    env = {**ENV, "KTX_PROJECT": "bench"}
    ensure(World(place / "suite", {**env, "KTX_DIR": str(place / "other")}))  # what it loads is loaded
    ensure(World(place / "suite", env))
    return lambda: ensure(World(place / "suite", env)) and None, lambda: tests("-p", "no:reportlog")


def slowest(_: str, last: str) -> tuple[tuple[str, ...], str]:
    return ("slowest", last), f"SELECT * FROM ({TIMED}) WHERE run = '{last}' ORDER BY total DESC LIMIT 10"


def compare(before: str, last: str) -> tuple[tuple[str, ...], str]:
    one, two = (f"(SELECT * FROM ({TIMED}) WHERE run = '{name}')" for name in (before, last))
    return ("compare", before, last), (
        f"SELECT a.test, a.outcome, b.outcome, b.total - a.total AS d FROM {one} a JOIN {two} b USING (test)"
        " ORDER BY a.outcome = b.outcome, abs(d) DESC LIMIT 100"
    )


def history(_: str, __: str) -> tuple[tuple[str, ...], str]:
    test = "tests/integration/area_03/test_module_100.py::TestThing::test_case_00100"
    return ("history", test), f"SELECT * FROM ({TIMED}) WHERE test = '{test}'"


PARTS = (RECORDS // 20, RECORDS // 5)
DUCKDB = "DuckDB on the same NDJSON"
ROWS = [
    Row("pytest plugin", 10_000, "tests", "pytest without it", 1.05, plugin, rounds=4,
        growth=(100, 1_000), seconds=150),
    Row("pytest plugin again", 10_000, "tests", "pytest-reportlog", 1.0, plugin_and_reportlog, rounds=2, seconds=120),
    Row("index: one run more", 10_000, "tests", "the run itself", 0.01, index_one, rounds=2, growth=(100, 1_000)),
    Row("index", RECORDS, "records", "a loop of json.loads", 1.0, index_build, rounds=1, growth=PARTS, seconds=150),
    *(
        Row(f"ledger-query {question.__name__}", RECORDS, "records", DUCKDB, 0.1, asked(question), rounds=4,
            growth=PARTS, limit=0.06)
        for question in (slowest, compare, history)
    ),
]  # fmt: skip
