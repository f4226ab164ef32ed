"""Selections of tests on real projects: injected mutants, what is selected against the whole suite, beside testmon.

Each project is an sdist from the package index, made into a repository. A mutant goes into its checkout; `test-select`
says which tests to run; what lives through them meets the whole suite. Where all tests are selected none can be missed,
and only some of those mutants are run. Some meet pytest-testmon too. Nothing of this is part of the tests.

    python bench/affected.py --work DIR [--project NAME] [--mutants 100] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktxkit.affected import select
from ktxkit.affected.rules.mutants import Mutant, mutants, sample
from ktxkit.store.world import World

COLLECTED = re.compile(r"collected (\d+) items?(?: / (\d+) errors?)?(?: / (\d+) deselected)?(?: / (\d+) selected)?")
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
NO_TESTS = 5
TIMED = 8  # mutants of which the selected tests are run to their end and timed
TESTMON_EACH = 8  # of so many mutants one meets testmon too


@dataclass(frozen=True)
class Project:
    """An sdist. `sources`: where its own code is; `needs`: what its tests import."""

    name: str
    sources: str
    needs: tuple[str, ...] = ()
    root: str = "."


PROJECTS = {
    "markdown-it-py": Project("markdown-it-py", "markdown_it", ("mdurl", "linkify-it-py", "pytest-regressions")),
    "tomlkit": Project("tomlkit", "tomlkit", ("pyyaml",)),
    "parso": Project("parso", "parso"),
    "humanize": Project("humanize", "src/humanize", ("freezegun", "pytest-benchmark"), "src"),
}


@dataclass
class Bench:
    """One project, prepared. `times`: seconds of runs to their end, by who."""

    project: Project
    work: Path
    top: Path = field(init=False)
    times: dict[str, list[float]] = field(default_factory=lambda: {"selected": [], "testmon": [], "selecting": []})
    rows: list[dict[str, Any]] = field(default_factory=list)
    total: int = 0
    suite: float = 0.0

    @property
    def python(self) -> str:
        return str(self.work / "venv/bin/python")

    def prepare(self) -> None:
        """The sdist as a repository of one commit, an environment, a suite that passes, testmon's data."""
        self.work.mkdir(parents=True, exist_ok=True)
        if not (self.work / "venv").exists():
            subprocess.run([sys.executable, "-m", "venv", self.work / "venv"], check=True)
            words = ["pytest", "pytest-testmon", *self.project.needs]
            subprocess.run([self.python, "-m", "pip", "install", "-q", *words], check=True)
        found = list(self.work.glob("*.tar.gz"))
        if not found:
            words = ["--no-binary", ":all:", "--no-deps", "-d", str(self.work), self.project.name]
            subprocess.run([self.python, "-m", "pip", "download", "-q", *words], check=True)
            found = list(self.work.glob("*.tar.gz"))
        self.top = self.work / "tree"
        shutil.rmtree(self.top, ignore_errors=True)
        with tarfile.open(found[0]) as archive:
            archive.extractall(self.work / "aside", filter="data")
        (unpacked,) = (self.work / "aside").iterdir()
        unpacked.rename(self.top)
        (self.top / ".gitignore").write_text("__pycache__\n.pytest_cache\n.testmondata*\n*.egg-info\n")
        who = ["-c", "user.name=bench", "-c", "user.email=bench@invalid"]
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-q", "-m", "sdist"]):
            subprocess.run(["git", *words], cwd=self.top, check=True)
        began = time.monotonic()
        done = self.pytest("-q")
        self.suite = time.monotonic() - began
        assert done.returncode == 0, done.stdout[-3000:]
        self.total = self.collected(self.pytest("--collect-only"))
        assert self.pytest("--testmon").returncode == 0

    def pytest(self, *words: str, limit: float | None = None) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": self.project.root, "KTX_LEDGER": "off"}
        monitor = [] if "--testmon" in words else ["-p", "no:testmon", "-p", "no:cacheprovider"]
        argv = [self.python, "-m", "pytest", "--tb=no", "-rfE", *monitor, *words]
        try:
            return subprocess.run(
                argv, cwd=self.top, env=env, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 1, "", "")

    def collected(self, done: subprocess.CompletedProcess[str]) -> int:
        found = COLLECTED.search(done.stdout)
        return int(found[4] or found[1]) if found else 0

    def meet(self, mutant: Mutant, data: bytes, timed: bool, monitored: bool) -> dict[str, Any]:
        """One mutant: what is selected, then the suite if it lives; and testmon."""
        place = self.top / mutant.path
        place.write_bytes(mutant.apply(data))
        limit = max(30.0, 4 * self.suite)
        try:
            began = time.monotonic()
            made = select.select(World(self.top, os.environ), select.SelectionRequest())
            self.times["selecting"].append(time.monotonic() - began)
            if made.decision.selected == made.decision.total and not (timed or monitored):
                whole = {"where": mutant.where, "unit": mutant.unit, "kind": mutant.kind, "whole": True}
                return whole | {"selected": self.total, "noticed": None}  # all of it is selected: nothing can be missed
            ids = [one.id for one in made.decision.tests]
            first = [] if timed else ["-x"]
            row: dict[str, Any] = {
                "where": mutant.where,
                "unit": mutant.unit,
                "kind": mutant.kind,
                "text": mutant.text[:80],
            }
            row["verdict"] = made.decision.verdict
            began = time.monotonic()
            done = self.pytest(*first, *ids, limit=limit) if ids else None
            if timed:
                self.times["selected"].append(time.monotonic() - began)
            row["selected"] = self.collected(done) if done is not None else 0
            row["noticed"] = done is not None and done.returncode not in (0, NO_TESTS)
            if monitored:
                began = time.monotonic()
                done = self.pytest("--testmon", "--testmon-nocollect", *first, limit=limit)
                if timed:
                    self.times["testmon"].append(time.monotonic() - began)
                row["testmon"] = {"noticed": done.returncode not in (0, NO_TESTS), "selected": self.collected(done)}
            if not row["noticed"] and row["selected"] < self.total:
                done = self.pytest("-q", "-x", limit=limit)
                row["suite"] = done.returncode != 0
                found = FAILED.search(done.stdout)
                row["test"] = found[1] if found else ""
            return row
        finally:
            place.write_bytes(data)

    def run(self, count: int, seed: int) -> None:
        files = sorted((self.top / self.project.sources).rglob("*.py"))
        contents = {str(one.relative_to(self.top)): one.read_bytes() for one in files}
        every = [one for path, data in contents.items() for one in mutants(path, data)]
        picked = sample(every, contents, count, seed)
        out = self.work / "rows.jsonl"
        with open(out, "w") as stream:
            for number, mutant in enumerate(picked):
                timed = number % max(1, count // TIMED) == 0
                row = self.meet(mutant, contents[mutant.path], timed, timed or number % TESTMON_EACH == 0)
                self.rows.append(row)
                stream.write(json.dumps(row) + "\n")
                stream.flush()
                print(f"{number + 1} of {len(picked)} {json.dumps(row)}", file=sys.stderr, flush=True)

    def table(self) -> str:
        """What was seen, as rows of Markdown."""
        rows, name = self.rows, self.project.name
        caught = [one for one in rows if one["noticed"] or one.get("suite")]
        missed = [one for one in caught if not one["noticed"]]
        ran = sum(1 for one in rows if "whole" not in one)
        met = [one for one in rows if "testmon" in one]
        theirs = [one for one in met if one in caught and not one["testmon"]["noticed"]]
        mean = {key: sum(found) / max(1, len(found)) for key, found in self.times.items()}
        ours = sum(one["selected"] for one in rows) / max(1, len(rows))
        other = sum(one["testmon"]["selected"] for one in met) / max(1, len(met))
        size = f"| {name} | {self.total} | {len(rows)} | {ran} | {len(caught)} "
        took = f"{mean['selected']:.1f} s + {mean['selecting']:.2f} s"
        mine = f"| {len(missed)} | {ours:.0f} ({ours / self.total:.0%}) | {took} "
        them = f"{len(theirs)} of {len(met)} | {other:.0f} ({other / self.total:.0%}) | {mean['testmon']:.1f} s"
        return f"{size}{mine}| {them} | {self.suite:.1f} s |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--project", action="append", choices=sorted(PROJECTS))
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for name in args.project or ["markdown-it-py", "tomlkit"]:
        bench = Bench(PROJECTS[name], args.work / name)
        bench.prepare()
        bench.run(args.mutants, args.seed)
        print(bench.table(), flush=True)


if __name__ == "__main__":
    main()
