"""Other projects' own suites, from their source distributions: what we record beside pytest's JUnit XML and reportlog.

    python bench/real_suites.py [--rounds N] DIRECTORY [NAME ...]

Each project is unpacked below DIRECTORY, committed, and run by its own test command under test-run, plain and with
`-n 2`: ids, outcomes and counts must be those of JUnit and of reportlog from the same run. Then it is run with the
recorder and without it, in turns; the ratio of the smallest processor times is what recording costs. Prints a table;
ends with status 1 where anything differs. The environment with what the suites need is made below DIRECTORY, too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
OFF = ("asyncio", "subtests")


class Project(NamedTuple):
    """A distribution, the arguments of its documented test command, and what kind of suite it is."""

    name: str
    args: tuple[str, ...] = ()
    kind: str = ""
    plugins: tuple[str, ...] = ()
    spread: tuple[str, ...] = ()  # further arguments with `-n 2`

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments, without the plugins that other suites need."""
        off = [word for name in OFF if name not in self.plugins for word in ("-p", f"no:{name}")]
        return (*off, *self.args)


# Of httpx: each worker would start its server on the same port, and wait for it for ever, with pytest alone, too.
PORT_8000 = (
    *(
        "client/test_async_client.py",
        "client/test_client.py",
        "client/test_event_hooks.py",
        "test_api.py",
        "test_main.py",
    ),
    *("test_timeouts.py", "test_utils.py", "test_config.py", "test_exceptions.py"),
)
PROJECTS = (
    Project("click"),
    Project("jinja2"),
    Project("attrs"),
    Project("packaging"),
    Project("tomlkit"),
    Project("httpx", kind="asyncio and trio", spread=tuple(f"--ignore=tests/{name}" for name in PORT_8000)),
    Project("more-itertools", kind="unittest only", plugins=("subtests",)),
    Project("pluggy"),
    Project("iniconfig"),
    Project("pytest-asyncio", kind="asyncio; runs pytest inside", plugins=("asyncio",)),
    Project("pytest-subtests", kind="subtests; runs pytest inside", plugins=("subtests",)),
)
NEEDED = (
    "pytest", "pytest-xdist", "pytest-reportlog", "pytest-asyncio", "pytest-subtests", "trio", "anyio", "httpx",
    "httpcore", "h2", "socksio", "brotli", "zstandard", "chardet", "uvicorn", "trustme", "cryptography", "click",
    "rich", "typing-extensions", "pretend", "tomli-w", "pyyaml", "hypothesis", "cloudpickle", "zope.interface",
    "markupsafe", "jinja2", "attrs", "packaging", "tomlkit", "poetry-core", "pluggy", "iniconfig",
    "sortedcontainers", "more-itertools", "annotated-types", "pympler",
)  # fmt: skip


def environment(place: Path) -> Path:
    """An interpreter that has ktxkit and what the suites need."""
    python = place / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "-e", str(ROOT)], check=True)
        for one in NEEDED:
            subprocess.run([*pip, one], check=False)
    return python


def unpack(place: Path, name: str) -> Path:
    """The source distribution, committed. Raises FileNotFoundError where pip cannot get it."""
    folder = place / "sd"
    folder.mkdir(exist_ok=True)
    stem = name.replace("-", "_")
    found = [one for one in folder.glob("*.tar.gz") if one.name.lower().replace("-", "_").startswith(stem + "_")]
    if not found:
        argv = ["pip", "download", "-q", "--no-deps", "--no-binary", name, "-d", str(folder), name]
        subprocess.run([sys.executable, "-m", *argv], check=False)
        found = [one for one in folder.glob("*.tar.gz") if one.name.lower().replace("-", "_").startswith(stem + "_")]
    if not found:
        raise FileNotFoundError(f"pip could not download the source distribution of {name}")
    work = place / "work" / name
    if not work.exists():
        with tarfile.open(found[0]) as archive:
            archive.extractall(work, filter="data")
    (root,) = [one for one in work.iterdir() if one.is_dir()]
    if not (root / ".git").exists():
        with open(root / ".gitignore", "a") as ignore:
            ignore.write("\n__pycache__/\n.pytest_cache/\n.hypothesis/\n")
        for words in (
            ("init", "-q"),
            ("add", "-A"),
            ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"),
        ):
            subprocess.run(["git", *words], cwd=root, check=True)
        (root / ".ktx").mkdir()
    return root


def run(python: Path, root: Path, *words: str) -> tuple[int, float]:
    """The status and the processor time, in seconds, of a command and its children."""
    paths = [str(root / one) for one in ("src", ".") if (root / one).is_dir()]
    env = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "VIRTUAL_ENV": str(python.parent.parent)}
    env |= {"PYTHONPATH": os.pathsep.join(paths), "KTX_PROJECT": root.name}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd=root, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (root.parent / "log").write_bytes(done.stdout + done.stderr)
    return done.returncode, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def of_reportlog(path: Path) -> tuple[dict[str, str], Counter[str]]:
    """The outcome of each id, and the words of pytest's summary, from the reports alone."""
    outcomes: dict[str, str] = {}
    counts: Counter[str] = Counter()
    rank = ("passed", "skipped", "xpassed", "xfailed", "error", "failed")
    for line in path.read_text("utf-8").splitlines():
        report = json.loads(line)
        kind, outcome, when = report.get("$report_type"), report.get("outcome"), report.get("when")
        if kind == "CollectReport" and outcome in ("failed", "skipped"):
            counts["errors" if outcome == "failed" else "skipped"] += 1
        if kind in ("SubTestReport", "SubtestReport") and outcome == "failed":
            counts["failed"] += 1
            outcomes[report["nodeid"]] = "failed"
        if kind != "TestReport":
            continue
        word = outcome
        if "wasxfail" in report and outcome in ("skipped", "passed"):
            word = "xfailed" if outcome == "skipped" else ("xpassed" if when == "call" else "passed")
        elif outcome == "failed" and when != "call":
            word = "error"
        if word != "passed" or when == "call":
            counts["errors" if word == "error" else word] += 1
        known = outcomes.get(report["nodeid"], "passed")
        outcomes[report["nodeid"]] = max(known, word, key=rank.index)
    return outcomes, +counts


def of_junit(path: Path) -> tuple[Counter[tuple[str, str]], dict[str, int]]:
    """Each case as class and name, and the numbers of the header."""
    suite = ET.parse(path).getroot()
    suite = suite if suite.tag == "testsuite" else suite[0]
    cases = Counter((case.get("classname", ""), case.get("name", "")) for case in suite.iter("testcase"))
    return cases, {key: int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")}


def address(nodeid: str) -> tuple[str, str]:
    """How pytest's JUnit XML calls a node id."""
    from _pytest.junitxml import mangle_test_address

    *parts, name = mangle_test_address(nodeid)
    return ".".join(parts), name


def compare(python: Path, root: Path, project: Project, *options: str) -> tuple[dict[str, Any], list[str]]:
    """One recorded run; its record, and what differs."""
    log, xml = root.parent / "log.jsonl", root.parent / "junit.xml"
    log.unlink(missing_ok=True)
    words = ("-q", "--color=no", f"--report-log={log}", f"--junitxml={xml}", *options, *project.words)
    run(python, root, "test-run", "--scope", "full", "--", *words)
    ledger = (root / ".ktx/ledger/test-runs.ndjson").read_text("utf-8").splitlines()
    lines = [json.loads(line) for line in ledger]
    closed = [line for line in lines if line["kind"] == "run-closed" and "parent" not in line["record"]]
    record: dict[str, Any] = closed[-1]["record"]
    ours = outcomes_of(python, root, record["run"])
    theirs, counts = of_reportlog(log)
    differ = [f"id {test}: {ours.get(test)} here, {theirs.get(test)} in reportlog" for test in sorted({*ours, *theirs})
              if ours.get(test) != theirs.get(test, "never ran")]  # fmt: skip
    reported = Counter(record.get("reported", {}))
    if +reported != counts:
        differ.append(f"counts {dict(reported)} here, {dict(counts)} in reportlog")
    cases, head = of_junit(xml)
    named = Counter(address(test) for test in ours)
    missing = [one for one in named if one not in cases]
    if missing or [one for one in cases if one not in named and "::" not in one[1] and one[0]]:
        differ.append(
            f"cases: {missing[:3]} are not in JUnit, {[one for one in cases if one not in named][:3]} only there"
        )
    if (head["failures"], head["errors"]) != (reported["failed"], reported["errors"]):
        differ.append(f"JUnit has {head}, here it is {dict(reported)}")
    return record, differ


def outcomes_of(python: Path, root: Path, name: str) -> dict[str, str]:
    """The verdict of each id, as `ledger-query run --format ctrf` hands it on (our own word in `rawStatus`)."""
    env = {**os.environ, "KTX_PROJECT": root.name}
    argv = [str(python.parent / "ledger-query"), "run", name, "--format", "ctrf"]
    told = subprocess.run(argv, cwd=root, env=env, capture_output=True, check=True)
    tests = json.loads(told.stdout)["results"]["tests"]
    return {one["name"]: one.get("rawStatus", one["status"]) for one in tests}


def overhead(python: Path, root: Path, project: Project, rounds: int) -> float:
    """The smallest processor time with the recorder, over the one without it; in turns."""
    pytest = (str(python), "-m", "pytest", "-q", "-p", "no:reportlog", "-p", "no:cacheprovider", *project.words)
    times: dict[str, list[float]] = {"": [], "no:ktxkit": []}
    for _ in range(rounds):
        for off, found in times.items():
            found.append(run(python, root, *pytest, *(("-p", off) if off else ()))[1])
    return min(times[""]) / min(times["no:ktxkit"])


def row(python: Path, place: Path, project: Project, rounds: int) -> tuple[str, bool]:
    """The project's row, and whether all agrees."""
    root = unpack(place, project.name)
    plain, differ = compare(python, root, project)
    spread, more = compare(python, root, project, "-n", "2", *project.spread)
    differ += [f"-n 2: {one}" for one in more]
    if spread["workers"] != 2:
        differ.append("-n 2: the record does not have two workers")
    for one in differ[:5]:
        print(f"{project.name}: {one}", file=sys.stderr)
    counts = plain["counts"]
    whole = plain["scope"]["kind"] + (f" ({plain['scope']['why'][0]})" if plain["scope"].get("why") else "")
    trust = "yes" if plain["authoritative"] else "no: " + "; ".join(plain.get("against", ())[:2])
    said = "the same" if not differ else f"{len(differ)} differ"
    ratio = overhead(python, root, project, rounds)
    tests = f"{counts['selected']} ({counts.get('failed', 0) + counts.get('errors', 0)} failed)"
    title = root.name + (f" ({project.kind})" if project.kind else "")
    return f"| {title} | {tests} | {said} | {whole} | {trust} | {ratio:.2f} |", not differ


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="DIRECTORY")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each is run for the ratio")
    args = parser.parse_args()
    place = Path(args.directory).resolve()
    place.mkdir(parents=True, exist_ok=True)
    python = environment(place)
    print("| project | tests | ids, outcomes, counts | scope | authoritative | ratio |\n|---|---|---|---|---|---|")
    good = True
    for project in PROJECTS:
        if not args.names or project.name in args.names:
            try:
                line, agrees = row(python, place, project, args.rounds)
            except (OSError, KeyError, IndexError, ValueError, subprocess.SubprocessError) as error:
                line, agrees = f"| {project.name} | could not be measured: {error} | | | | |", False
            print(line, flush=True)
            good = good and agrees
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
