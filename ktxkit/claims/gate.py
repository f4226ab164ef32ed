"""The claims of a text, held against the ledger and against the content that the text speaks of.

The message gate `claims`: what a commit's message says of test runs is held against the ledger.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from typing import Any

from ktxkit.base import contracts, files, kinds
from ktxkit.base.errors import KtxError
from ktxkit.claims.rules import verdicts
from ktxkit.claims.rules.verdicts import ClaimEvidence, ClaimRuling
from ktxkit.claims.rules.words import Record
from ktxkit.gates.plugin import MESSAGE_PATH, Answer, Finding
from ktxkit.git import snapshot
from ktxkit.ledger import answers, asking, chain
from ktxkit.ledger.answers import executions, repetitions
from ktxkit.ledger.asking import LedgerQuery, ensure
from ktxkit.ledger.index_file import EXECUTIONS, OUTCOMES, Index
from ktxkit.ledger.rules import scope
from ktxkit.ledger.rules.evidence import blind_outcomes, judge, names_failures
from ktxkit.ledger.rules.fold import LOST
from ktxkit.store import config
from ktxkit.store.rules import names
from ktxkit.store.world import World

RUNS_LIMIT = 200  # the newest runs; an older one bears out nothing that is said today
ERRORS_LIMIT = 2000
MAP_LIMIT = 1 << 40  # bytes
NAMED_LIMIT = 200  # tests that one name stands for
LIKE = "t.test LIKE ? ESCAPE '\\'"
FILE_RECORD = b'"record":"file"'


def literal(text: str) -> str:
    """The text as a pattern of LIKE that means nothing but itself."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def rulings(world: World, message: str, commit: str = "") -> list[ClaimRuling]:
    """The rulings on a message; `commit` where it is committed already. Nothing is opened for one without a claim."""
    rules = answers.load()
    if not any(True for _ in verdicts.claims_in(message, rules)):
        return []
    evidence = Evidence(world, commit)
    found = [_with_others(one, evidence) for one in verdicts.rulings(message, evidence.facts)]
    if commit or world.store.exists(names.LEDGER) or chain.gone(world):
        return found
    return [
        replace(one, level="warning") for one in found
    ]  # nothing was ever recorded here: it is said, not held against


def _with_others(ruling: ClaimRuling, evidence: Evidence) -> ClaimRuling:
    """With the runs of other projects, where there is none of this one."""
    if ruling.rule != "claim-unknown" or evidence.runs:
        return ruling
    ask = LedgerQuery(projects=(evidence.project,))
    others = asking.under_others(evidence.index, ask, "git config ktx.project")
    return replace(ruling, message=f"{ruling.message}{others}")


class Evidence:
    """What the ledger and git have, looked up as it is asked for."""

    def __init__(self, world: World, commit: str = "") -> None:
        self.world = world
        self.commit = commit
        self.project = asking.resolve(world)

    @cached_property
    def index(self) -> Index:
        return ensure(self.world)

    @property
    def facts(self) -> ClaimEvidence:
        return ClaimEvidence(
            tree=self.tree,
            runs=self.runs,
            changed=self.changed,
            tests=self.tests,
            outcomes=self.outcomes,
            word=self.word,
            errors=self.errors,
            uncommitted=frozenset(self.uncommitted),
            lexicon=answers.load(),
            prose=self.is_prose,
            module=self.module,
            skipped=self.skipped,
        )

    @cached_property
    def patterns(self) -> Sequence[str]:
        return config.load_settings(self.world).get("claims", {}).get("prose", scope.PROSE)

    def is_prose(self, path: str) -> bool:
        """By the project's patterns; where a traced run has seen a test open the file, it is none. What runs themselves
        leave (bytecode, caches) no test reads, committed or not."""
        if snapshot.is_left_by_runs(os.fsencode(path)):
            return True
        return scope.is_prose(path, self.patterns) and path not in self.opened

    @cached_property
    def opened(self) -> frozenset[str]:
        """The files that tests opened, by the newest runtime map of the project. Raises BrokenContract."""
        for name in reversed(self.world.store.children(names.AFFECTED_TRACES)):
            path = self.world.store.path(f"{names.AFFECTED_TRACES}/{name}")
            lines = files.read(path, limit=MAP_LIMIT).splitlines()
            header = contracts.loads(kinds.AFFECTED_TRACE, lines[0] if lines else b"", str(path))
            if header["record"] == "header" and header["project"] == self.project:
                found = (
                    contracts.loads(kinds.AFFECTED_TRACE, line, str(path)) for line in lines if FILE_RECORD in line
                )
                return frozenset(
                    one["path"]
                    for one in found
                    if one["record"] == "file" and (one.get("opened") or one.get("openedBy") or one.get("importOpened"))
                )
        return frozenset()

    @cached_property
    def committing(self) -> bool:
        """Whether a commit is under way or prepared: then the index is the content, else the checkout is.

        What a commit is made of is said by its index, whoever asks: git in its hook, or somebody who staged something.
        """
        if self.commit:
            return False
        return "GIT_INDEX_FILE" in self.world.env or self._staged

    @property
    def _staged(self) -> bool:
        if self.world.repository.top is None:
            return False
        flags = ("diff-index", "--cached", "--quiet", "--ignore-submodules=none", "HEAD", "--")
        return self.world.inherited.run(*flags, ok=(0, 1, 128), twice=(128,)).status == 1

    @cached_property
    def checkout(self) -> snapshot.TreeState | None:
        if self.world.repository.top is None or self.commit:
            return None
        try:
            return snapshot.take(self.world.git, self.world.repository)
        except KtxError:
            return None  # not known, and said so by what follows from it

    @cached_property
    def tree(self) -> str | None:
        if self.commit:
            return self.world.git.resolve(self.commit, "tree")
        if self.committing:
            answer = self.world.inherited.run("write-tree", ok=(0, 128), twice=(128,))
            return answer.text if answer.status == 0 else None
        return self.checkout.tree if self.checkout else None

    @cached_property
    def uncommitted(self) -> list[str]:
        """Paths whose content in the checkout is not what the index has."""
        if not self.committing or self.world.repository.top is None:
            return []
        found = snapshot.uncommitted(self.world.inherited.at(self.world.repository.top))
        return sorted(path.decode("utf-8", "backslashreplace") for path in found)

    @cached_property
    def runs(self) -> Sequence[Record]:
        rows = self.index.rows(
            "SELECT record FROM runs WHERE project = ? AND closed = 1 AND parent IS NULL AND mode = 'run'"
            f" AND rid >= ? ORDER BY {asking.NEWEST} LIMIT ?",
            self.project,
            self.since,
            RUNS_LIMIT,
        )
        records = [json.loads(row["record"]) for row in rows]
        return [record for record in records if record.get("trigger") != LOST]

    @cached_property
    def since(self) -> int:
        """The newest run that is lost or damaged: what ran before it bears nothing out any more."""
        found: int = asking.gap(self.index, LedgerQuery(projects=(self.project,))).get("rid", 0)
        return found

    def changed(self, tree: str) -> list[str] | None:
        """Paths that differ between a run's tree and the content; None where the run's tree is not known any more."""
        if self.tree is None:
            return None
        if self.checkout is not None and tree == self.checkout.tree and self.committing:
            return self.uncommitted
        if self.world.git.resolve(tree, "tree") and self.world.git.resolve(self.tree, "tree"):
            return self._differ(tree, self.tree)
        return self._from_commit(tree)

    def _differ(self, one: str, other: str) -> list[str]:
        flags = ["-r", "--name-only", "--no-renames", "-z"]
        return [
            path.decode("utf-8", "backslashreplace") for path in self.world.git.run("diff-tree", *flags, one, other).nul
        ]

    def _from_commit(self, tree: str) -> list[str] | None:
        """A dirty run's tree is in no object store: its commit and its changed paths tell what may differ."""
        state: dict[str, Any] = next((run["tree"] for run in self.runs if run.get("tree", {}).get("tree") == tree), {})
        commit = state.get("commit")
        if commit is None or self.world.git.resolve(commit) is None:
            return None
        now = self.checkout.changed if self.checkout and not self.committing else ()
        paths = {*state.get("changed", ()), *now}
        if self.world.git.resolve(self.tree or "-", "tree"):
            paths |= set(self._differ(f"{commit}^{{tree}}", self.tree or ""))
        return sorted(paths)

    def tests(self, name: str) -> list[str]:
        """Recorded node ids that a name means: the id itself or the end of one, with any parameters."""
        if not name:
            return []
        ends = [head + literal(name) + tail for head in ("", "%::", "%/") for tail in ("", "[%]")]
        like = " OR ".join([LIKE] * len(ends))
        sql = f"SELECT test FROM tests t WHERE project = ? AND ({like}) ORDER BY test LIMIT ?"
        return [row["test"] for row in self.index.rows(sql, self.project, *ends, NAMED_LIMIT)]

    def module(self, path: str) -> list[tuple[Record, frozenset[str]]]:
        """Each run that executed tests of a module, newest first, with their outcomes."""
        sql = (
            f"SELECT DISTINCT runs.rid, record, r.verdict {EXECUTIONS} WHERE t.project = ? AND ({LIKE} OR {LIKE})"
            f" AND r.verdict IS NOT NULL ORDER BY {asking.NEWEST}"
        )
        found = dict[str, set[str]]()
        for row in self.index.rows(sql, self.project, f"{literal(path)}::%", f"%/{literal(path)}::%"):
            found.setdefault(row["record"], set()).add(OUTCOMES[row["verdict"]])
        return [(json.loads(record), frozenset(outcomes)) for record, outcomes in found.items()]

    def skipped(self, run: str) -> list[str]:
        """The tests that a run skipped, each with its reason."""
        sql = f"SELECT t.test, r.message {EXECUTIONS} WHERE runs.run = ? AND t.project = ? AND r.verdict = ?"
        rows = self.index.rows(sql, run, self.project, OUTCOMES.index("skipped"))
        return [f"{row['test']}: {row['message'] or ''}" for row in rows]

    def outcomes(self, test: str) -> list[tuple[Record, str]]:
        """Newest first. Of a run whose events are gone its record tells the failures."""
        rows = self.index.rows(
            f"SELECT runs.rid, record, r.verdict {EXECUTIONS} WHERE t.project = ?"
            f" AND t.test = ? AND r.verdict IS NOT NULL AND runs.rid >= ? ORDER BY {asking.NEWEST} LIMIT ?",
            self.project,
            test,
            self.since,
            RUNS_LIMIT,
        )
        found = [(row["rid"], json.loads(row["record"]), OUTCOMES[row["verdict"]]) for row in rows]
        for rid, record in self.blind:
            known = blind_outcomes(record)
            if test in known or not names_failures(record):
                found.append((rid, record, known.get(test, "unknown")))
        found.sort(key=itemgetter(0), reverse=True)
        return [(record, outcome) for _, record, outcome in found]

    @cached_property
    def blind(self) -> list[tuple[int, Record]]:
        """The runs whose tests are not known one by one."""
        query = LedgerQuery(projects=(self.project,))
        return [(row["rid"], json.loads(row["record"])) for row in asking.blind(self.index, query, self.since)]

    def word(self, predicate: str, test: str) -> str:
        """Whether a word of the lexicon holds of a test: true or unknown, never false."""
        ran = executions(self.index, (self.project,), [test]).get(test, [])
        said = judge(ran, repetitions(self.world))
        return "true" if said.word == predicate and said.verdict == "true" else "unknown"

    @cached_property
    def errors(self) -> list[str]:
        sql = "SELECT DISTINCT message FROM results WHERE message IS NOT NULL ORDER BY rid DESC LIMIT ?"
        return [row["message"] for row in self.index.rows(sql, ERRORS_LIMIT)]


def check(world: World, message: str, commit: str = "") -> Answer:
    """Findings on the claims of a message that are not borne out; a message without one is untouched.

    `commit`: whose message it is, where it is committed already.
    """
    found = rulings(world, message, commit)
    return Answer([finding(one) for one in found if one.rule], looked=len(found))


def finding(ruling: ClaimRuling) -> Finding:
    """A ruling at its place in the message, with the rows that it rests on."""
    line, column = ruling.claim.sentence.position(ruling.claim.start)
    return Finding(
        rule=ruling.rule,
        path=MESSAGE_PATH,
        message=f"{ruling.claim.text!r}: {ruling.verdict}: {ruling.message}",
        line=line,
        column=column,
        reference=ruling.claim.text,
        searched=ruling.rows,
        hint=ruling.hint,
        level=ruling.level,
        gate="claims",
    )
