"""One path policy: its order, its tables, its digest, and that pruning never hides a candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktxkit.store.rules.paths_policy import CandidatePathPolicy, PathClass, from_lease, may_hold, rules_of

if TYPE_CHECKING:
    from ktxkit.base.documents import Lease

PLAIN = CandidatePathPolicy()
IGNORING = CandidatePathPolicy(ignore=rules_of([(b".gitignore", b"*.secret\nprivate/\n")]))
DECLARED = CandidatePathPolicy(deliverables=("target/report.md", "out/**"), generated=("gen/", "src/*.pb.go"))

UNTRACKED = [
    # policy, path, class, reason
    (PLAIN, b"src/a.py", PathClass.UNTRACKED, "untracked"),
    (PLAIN, b"wiki/build/page.md", PathClass.UNTRACKED, "untracked"),  # a word, not a build tree
    (PLAIN, b"tables/target/orders.yaml", PathClass.UNTRACKED, "untracked"),
    (PLAIN, b"build", PathClass.UNTRACKED, "untracked"),  # a script of that name
    (PLAIN, b"target/debug/app", PathClass.VOLATILE, "volatile_build"),
    (PLAIN, b"mod/target/classes/A.class", PathClass.VOLATILE, "volatile_build"),
    (PLAIN, b"pkg.egg-info/PKG-INFO", PathClass.VOLATILE, "volatile_build"),
    (PLAIN, b"src/a.o", PathClass.VOLATILE, "volatile_build"),
    (PLAIN, b"web/node_modules/x/i.js", PathClass.VOLATILE, "volatile_dependency"),
    (PLAIN, b"node_modules", PathClass.VOLATILE, "volatile_dependency"),  # a link to it
    (PLAIN, b".venv/bin/python", PathClass.VOLATILE, "volatile_dependency"),
    (PLAIN, b"a/__pycache__/b.pyc", PathClass.VOLATILE, "volatile_cache"),
    (PLAIN, b"docs/.x.md.swp", PathClass.VOLATILE, "volatile_temporary"),
    (PLAIN, b"docs/x.md~", PathClass.VOLATILE, "volatile_temporary"),
    (PLAIN, b"run/agent.log", PathClass.VOLATILE, "volatile_log"),
    (PLAIN, b"agent.log.3", PathClass.VOLATILE, "volatile_log"),
    (PLAIN, b"catalog/x", PathClass.UNTRACKED, "untracked"),
    (PLAIN, b".git", PathClass.CONTROL, "internal_control"),
    (PLAIN, b"sub/.GIT/config", PathClass.CONTROL, "internal_control"),
    (PLAIN, b".ktx/jobs/j/job.json", PathClass.CONTROL, "internal_control"),
    (PLAIN, b"sub/.ktx/x", PathClass.UNTRACKED, "untracked"),
    (PLAIN, b"worktree-observer/activity.jsonl", PathClass.UNTRACKED, "untracked"),  # named like our journal
    (PLAIN, b"bad\xff\n\x1bname", PathClass.UNTRACKED, "untracked"),
    (IGNORING, b"a.secret", PathClass.IGNORED, "git_ignored"),
    (IGNORING, b"private/x", PathClass.IGNORED, "git_ignored"),
    (DECLARED, b"target/report.md", PathClass.DELIVERABLE, "declared_deliverable"),
    (DECLARED, b"target/other.md", PathClass.VOLATILE, "volatile_build"),
    (DECLARED, b"out/x.log", PathClass.DELIVERABLE, "declared_deliverable"),
    (DECLARED, b"gen/x", PathClass.GENERATED, "generated"),
    (DECLARED, b"src/a.pb.go", PathClass.GENERATED, "generated"),
]
TRACKED = [
    (PLAIN, b"run/agent.log", PathClass.TRACKED, "tracked"),
    (PLAIN, b"target/x", PathClass.TRACKED, "tracked"),
    (IGNORING, b"a.secret", PathClass.TRACKED, "tracked"),
    (DECLARED, b"gen/x", PathClass.GENERATED, "generated"),  # configured generated paths come before tracked
    (DECLARED, b"out/x", PathClass.DELIVERABLE, "declared_deliverable"),
    (PLAIN, b".git/config", PathClass.CONTROL, "internal_control"),
]


@pytest.mark.parametrize(("policy", "path", "path_class", "reason"), UNTRACKED)
def test_untracked(policy: CandidatePathPolicy, path: bytes, path_class: PathClass, reason: str) -> None:
    found = policy.classify(path, tracked=False)
    assert (found.path_class, found.reason) == (path_class, reason)
    assert found.candidate == (path_class in (PathClass.UNTRACKED, PathClass.DELIVERABLE))


@pytest.mark.parametrize(("policy", "path", "path_class", "reason"), TRACKED)
def test_tracked(policy: CandidatePathPolicy, path: bytes, path_class: PathClass, reason: str) -> None:
    found = policy.classify(path, tracked=True)
    assert (found.path_class, found.reason) == (path_class, reason)


def test_the_answer_of_git_may_be_given() -> None:
    assert PLAIN.classify(b"x", tracked=False, ignored=True).path_class is PathClass.IGNORED
    assert IGNORING.classify(b"a.secret", tracked=False, ignored=False).path_class is PathClass.UNTRACKED


def test_copied_files_are_no_work() -> None:
    lease = {"copied": [".env"], "policy": {"deliverables": ["d"], "generated": ["g"]}}
    policy = from_lease(cast("Lease", lease), PLAIN.ignore)
    assert policy.classify(b".env", tracked=False).path_class is PathClass.COPIED
    assert policy.classify(b"d", tracked=False).path_class is PathClass.DELIVERABLE
    assert policy.classify(b"g", tracked=True).path_class is PathClass.GENERATED


def parts(policy: CandidatePathPolicy) -> tuple[object, ...]:
    return policy.deliverables, policy.generated, policy.copied, policy.ignore.sources


@pytest.mark.parametrize("policy", [PLAIN, IGNORING, DECLARED, CandidatePathPolicy(copied=frozenset({b"\xff"}))])
def test_the_snapshot_is_the_policy(policy: CandidatePathPolicy) -> None:
    again = CandidatePathPolicy.of(policy.document())
    assert parts(again) == parts(policy)
    assert again.digest == policy.digest


def test_each_part_is_in_the_digest() -> None:
    rules = rules_of([(b".gitignore", b"x")])
    parts = [
        PLAIN,
        CandidatePathPolicy(deliverables=("a",)),
        CandidatePathPolicy(generated=("a",)),
        CandidatePathPolicy(copied=frozenset({b"a"})),
        CandidatePathPolicy(ignore=rules),
    ]
    assert len({policy.digest for policy in parts}) == len(parts)


def test_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 2"):
        CandidatePathPolicy.of({**PLAIN.document(), "version": 2})


@pytest.mark.parametrize(
    ("pattern", "directory", "verdict"),
    [
        ("target/report.md", b"target", True), ("target/report.md", b"target/debug", False), ("**/x", b"a/b", True),
        ("out", b"out/deep/er", True), ("o*/x", b"out", True), ("other", b"out", False),
    ],
)  # fmt: skip
def test_may_hold(pattern: str, directory: bytes, verdict: bool) -> None:
    assert may_hold(pattern, directory) is verdict


NAME = st.sampled_from(
    [b"a", b"build", b"target", b"debug", b"node_modules", b"gen", b"x.log", b".git", b"out", b".tmp"]
)
PATTERN = st.sampled_from(
    ["a/**", "gen/", "**/x.log", "out", "target/debug", "build/*", "a/gen", "*.log", "node_modules/a"]
)
IGNORE = st.sampled_from([b"", b"a/", b"/out", b"*\n!a\n!a/out", b"build\n"])


@given(
    path=st.lists(NAME, min_size=2, max_size=5).map(b"/".join),
    deliverables=st.lists(PATTERN, max_size=2).map(tuple),
    generated=st.lists(PATTERN, max_size=2).map(tuple),
    ignore=IGNORE,
)
def test_pruning_hides_no_candidate(
    path: bytes, deliverables: tuple[str, ...], generated: tuple[str, ...], ignore: bytes
) -> None:
    policy = CandidatePathPolicy(deliverables, generated, ignore=rules_of([(b".gitignore", ignore)]))
    parts = path.split(b"/")
    pruned = [policy.prunes(b"/".join(parts[:n])) for n in range(1, len(parts))]
    if any(found is not None for found in pruned):
        assert not policy.classify(path, tracked=False).candidate


@pytest.mark.parametrize(
    "name", [b".git", b".GIT", b"GIT~1", b"git~1 ", b".git.", b".git::$INDEX", ".g\u200cit".encode()]
)
def test_every_spelling_of_git_is_control(name: bytes) -> None:
    assert PLAIN.classify(b"sub/" + name + b"/config", tracked=False).path_class is PathClass.CONTROL


@pytest.mark.parametrize("name", [b"git", b".gitx", b"git~2", b"xgit~1", b".github"])
def test_what_git_takes_is_none(name: bytes) -> None:
    assert PLAIN.classify(b"sub/" + name + b"/config", tracked=False).path_class is PathClass.UNTRACKED
