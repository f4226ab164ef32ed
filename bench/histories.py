"""Histories of real repositories through patch-collect and patch-apply, beside what git makes of them.

reads    a repository with merges (a clone of anything); it is not written to, a shared clone of it is
writes   a line for each difference and a row of a table on stdout
exits    0 no tree differs without a word, 1 one does, or what conflicts for git was accepted
example  python bench/histories.py ~/src/click --merges 300 --commits 300

A merge is a unit: what its second parent changed since the merge base goes onto its first parent. A commit is a unit on
its parent, staged. The trees are compared with those of `git merge-tree` and of the commit.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ANY_CONTROL = ("--allow-control", "**")
# Outcomes of ours that say no where git merges, each with its reason: told in the row, never a silent difference.
CAREFUL = ("suspect_revert", "policy_rejected", "textual_conflict")


class Histories:
    """A shared clone with two checkouts: of the unit, and of the branch that it is applied to."""

    def __init__(self, source: Path, scratch: Path) -> None:
        self.repo, self.unit, self.onto = scratch / "repo", scratch / "unit", scratch / "onto"
        self.patch = scratch / "unit.patch"
        subprocess.run(["git", "clone", "-q", "-s", "--bare", source, self.repo], check=True)
        for name, value in (
            ("user.name", "bench"),
            ("user.email", "bench@example.invalid"),
            ("core.autocrlf", "false"),
        ):
            self.git("config", name, value)
        for place, branch in ((self.unit, "ktx-unit"), (self.onto, "ktx-onto")):
            self.git("worktree", "add", "-q", "-B", branch, str(place), "HEAD")
        self.count: Counter[str] = Counter()
        self.told: list[str] = []

    def git(self, *words: str, at: Path | None = None, ok: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(["git", *words], cwd=at or self.repo, capture_output=True, check=False)
        if done.returncode not in ok:
            raise SystemExit(f"git {' '.join(words)}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode(errors="surrogateescape").strip()

    def commits(self, wanted: int, *how: str) -> list[list[str]]:
        """Commits, spread over the whole history, each with its parents."""
        lines = self.git("rev-list", "--parents", *how, "HEAD").splitlines()
        step = max(1, len(lines) // max(1, wanted))
        return [line.split() for line in lines[::step]][:wanted]

    def stand(self, place: Path, commit: str) -> None:
        self.git("reset", "-q", "--hard", commit, at=place)
        self.git("clean", "-qffdx", at=place)

    def handed_over(self, base: str, onto: str) -> tuple[str, str]:
        """Outcome and tree of what stands in the unit's checkout, on `onto`; control files are counted and allowed."""
        more: tuple[str, ...] = ()
        self.patch.unlink(missing_ok=True)  # a change without a patch is refused beside an earlier one
        while True:
            took = command("patch_collect", "-C", self.unit, "--base", base, "-o", self.patch, *more)
            outcome = str(took.get("outcome", "refused"))
            if outcome == "policy_rejected" and not more and rules_of(took) == {"control-file"}:
                self.count["control"] += 1
                more = ANY_CONTROL
                continue
            if outcome != "collected":
                return outcome, self.git("rev-parse", f"{onto}^{{tree}}") if outcome == "noop" else ""
            self.stand(self.onto, onto)
            done = command("patch_apply", "-C", self.onto, self.patch, "--no-gates", *more)
            return str(done.get("outcome", "refused")), self.git("rev-parse", "ktx-onto^{tree}")

    def merge(self, commit: str, first: str, second: str) -> None:
        bases = self.git("merge-base", "--all", first, second, ok=(0, 1)).split()
        if len(bases) != 1:
            self.count["several merge bases"] += 1
            return
        self.count["merges"] += 1
        done = subprocess.run(
            ["git", "-c", "merge.directoryRenames=false", "merge-tree", "--write-tree", first, second],
            cwd=self.repo, capture_output=True, check=False,
        )  # fmt: skip
        clean, tree = done.returncode == 0, done.stdout.decode(errors="replace").split("\n")[0]
        self.stand(self.unit, second)
        outcome, ours = self.handed_over(bases[0], first)
        if outcome in ("accepted", "subsumed", "noop"):
            self.judged(commit, "merge", ours == tree if clean else None, outcome)
        elif clean:
            self.count[outcome if outcome in CAREFUL else "differ"] += 1
            self.told.append(f"merge {commit}: git merges, ours is {outcome}")
        else:
            self.count["conflicts in both"] += 1

    def commit(self, commit: str, parent: str) -> None:
        self.count["commits"] += 1
        self.stand(self.unit, parent)
        self.git("read-tree", "-u", "--reset", commit, at=self.unit)
        outcome, ours = self.handed_over(parent, parent)
        self.judged(commit, "commit", ours == self.git("rev-parse", f"{commit}^{{tree}}"), outcome)

    def judged(self, commit: str, kind: str, same: bool | None, outcome: str) -> None:
        """`same`: None where git has a conflict, which ours accepted."""
        word = "accepted a conflict" if same is None else "same" if same else "differ"
        self.count[f"{kind} {word}"] += 1
        if not same:
            self.told.append(f"{kind} {commit}: {word} ({outcome})")


def command(name: str, *words: str | Path) -> dict[str, Any]:
    """The document that one of our commands prints."""
    module = importlib.import_module(f"ktx_{name}")
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        module.main(["--json", *map(str, words)])
        out.flush()
    assert isinstance(out.buffer, io.BytesIO)
    told = json.loads(out.buffer.getvalue())
    found: dict[str, Any] = told.get("document") or told.get("error") or told
    return found


def rules_of(document: dict[str, Any]) -> set[str]:
    return {breach["rule"] for breach in document.get("breaches", ())}


def main() -> int:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("repository", type=Path)
    made.add_argument("--merges", type=int, default=300)
    made.add_argument("--commits", type=int, default=300)
    args = made.parse_args()
    with tempfile.TemporaryDirectory(prefix="ktx-histories-") as scratch:
        it = Histories(args.repository.resolve(), Path(scratch))
        for commit, *parents in it.commits(args.merges, "--min-parents=2", "--max-parents=2"):
            it.merge(commit, *parents)
        for commit, parent in it.commits(args.commits, "--min-parents=1", "--max-parents=1"):
            it.commit(commit, parent)
    print("\n".join(it.told))
    print(json.dumps(dict(sorted(it.count.items()))))
    return int(any(it.count[key] for key in ("differ", "merge differ", "commit differ", "merge accepted a conflict")))


if __name__ == "__main__":
    raise SystemExit(main())
