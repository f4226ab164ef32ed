"""Which paths could become source: one policy for the observer and the collector, so that they cannot disagree.

The first that applies decides: internal control, declared deliverables, what was copied in, configured generated paths,
tracked, volatile, git-ignored, plausible untracked. The policy is a snapshot: its document holds everything that a
verdict depends on, its digest stands in the lease, and an edit of any configuration affects the next attempt only.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.patterns import matches, text
from ktxkit.observer.rules.gitignore import IgnoreRules

VERSION = 1  # of the order and of the tables below; a change of either is a new version


class PathClass(Enum):
    """What a path is to a unit's candidate. The value is the word in documents."""

    CONTROL = "control"
    DELIVERABLE = "deliverable"
    COPIED = "copied"
    GENERATED = "generated"
    TRACKED = "tracked"
    VOLATILE = "volatile"
    IGNORED = "ignored"
    UNTRACKED = "untracked"


CANDIDATES = (PathClass.TRACKED, PathClass.UNTRACKED, PathClass.DELIVERABLE)


@dataclass(frozen=True)
class Classified:
    """A verdict with its stable reason code."""

    path_class: PathClass
    reason: str

    @property
    def candidate(self) -> bool:
        """Whether the path could become source."""
        return self.path_class in CANDIDATES


_CONTROL, _TRACKED = Classified(PathClass.CONTROL, "internal_control"), Classified(PathClass.TRACKED, "tracked")
_UNTRACKED = Classified(PathClass.UNTRACKED, "untracked")

# Names that mean the same in every project: they count at any depth, as a directory, a link or a file.
_ANYWHERE: dict[bytes, str] = {
    **dict.fromkeys(
        b".next .nuxt .svelte-kit .output .eggs CMakeFiles dist-newstyle .stack-work htmlcov .vite cmake-build-debug"
        b" cmake-build-release .bazel-out .docusaurus .vercel .serverless".split(),
        "volatile_build",
    ),
    **dict.fromkeys(
        b"node_modules .venv venv virtualenv bower_components jspm_packages site-packages .bundle .tox .nox .pnpm-store"
        b" elm-stuff Pods .terraform .m2 .direnv".split(),
        "volatile_dependency",
    ),
    **dict.fromkeys(
        b"__pycache__ .pytest_cache .mypy_cache .ruff_cache .cache .parcel-cache .turbo .eslintcache .hypothesis"
        b" .ipynb_checkpoints .nyc_output .coverage .sass-cache .ccache .dart_tool .npm .pytype .stylelintcache .gradle"
        b" .import_linter_cache .phpunit.result.cache .sccache".split(),
        "volatile_cache",
    ),
    **dict.fromkeys(b".tmp .temp .DS_Store Thumbs.db desktop.ini .Trash".split(), "volatile_temporary"),
    b"nohup.out": "volatile_log",
}
# Names that are words too (a page may lie in `wiki/build/`): only a directory at the top of the worktree.
_AT_TOP: dict[bytes, str] = {
    **dict.fromkeys((b"target", b"build", b"dist", b"_build"), "volatile_build"),
    **dict.fromkeys((b"tmp", b"temp"), "volatile_temporary"),
    b"logs": "volatile_log",
}
# Below the top such a word needs a second name that only a build tool gives.
_PAIRS: dict[tuple[bytes, bytes], str] = dict.fromkeys(
    [
        *((b"target", name) for name in b"debug release classes test-classes surefire-reports maven-status".split()),
        *((b"build", name) for name in b"classes intermediates libs CMakeFiles generated kotlin".split()),
    ],
    "volatile_build",
)
# Endings and shapes of file names.
_FILES: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb".*\.log(?:\.[0-9]+)?(?:\.gz)?\Z|(?:npm|yarn|pnpm)-(?:debug|error)\.log.*\Z", re.S), "volatile_log"),
    (re.compile(rb".*\.pid\Z", re.S), "volatile_log"),
    (re.compile(rb".*(?:~|\.sw[a-p]|\.tmp|\.temp|\.part|\.crdownload)\Z|\.#.*|#.*#\Z|\.nfs[0-9a-f]+\Z|4913\Z", re.S),
     "volatile_temporary"),
    (re.compile(rb".*\.(?:pyc|pyo|tsbuildinfo)\Z|\.coverage\..*", re.S), "volatile_cache"),
    (re.compile(rb".*\.(?:o|obj|class|gcda|gcno|profraw|egg-info)\Z", re.S), "volatile_build"),
)  # fmt: skip


def volatile(path: bytes) -> str:
    """The reason code where a path is volatile by its name, else `""`."""
    parts = path.split(b"/")
    for depth, part in enumerate(parts):
        if part in _ANYWHERE:
            return _ANYWHERE[part]
        if depth + 1 < len(parts):
            if depth == 0 and part in _AT_TOP:
                return _AT_TOP[part]
            if (part, parts[depth + 1]) in _PAIRS and depth + 2 < len(parts):
                return _PAIRS[part, parts[depth + 1]]
            if part.endswith(b".egg-info"):
                return "volatile_build"
    return next((reason for pattern, reason in _FILES if pattern.match(parts[-1])), "")


def control(path: bytes) -> bool:
    """git's administration at any depth, and ktxkit's own store at the top."""
    if path.startswith(b".ktx") and path.partition(b"/")[0] == b".ktx":
        return True
    lower = path.lower()
    return b".git" in lower and b".git" in lower.split(b"/")


@dataclass(frozen=True)
class CandidatePathPolicy:
    """Everything that a verdict depends on but the facts of the path. Patterns are those of `core.patterns`."""

    deliverables: tuple[str, ...] = ()
    generated: tuple[str, ...] = ()
    copied: frozenset[bytes] = frozenset()
    ignore: IgnoreRules = field(default_factory=IgnoreRules)

    def classify(self, path: bytes, *, tracked: bool, ignored: bool | None = None) -> Classified:
        """The class. `tracked`: it is in the attempt's tracked set; `ignored`: None asks the snapshot's rules."""
        if control(path):
            return _CONTROL
        if self.deliverables and _matches_one(self.deliverables, path):
            return Classified(PathClass.DELIVERABLE, "declared_deliverable")
        if path in self.copied:
            return Classified(PathClass.COPIED, "copied_in")
        if self.generated and _matches_one(self.generated, path):
            return Classified(PathClass.GENERATED, "generated")
        if tracked:
            return _TRACKED
        reason = volatile(path)
        if reason:
            return Classified(PathClass.VOLATILE, reason)
        if self.ignore.ignored(path) if ignored is None else ignored:
            return Classified(PathClass.IGNORED, "git_ignored")
        return _UNTRACKED

    def prunes(self, directory: bytes) -> Classified | None:
        """Why no untracked path below a directory can be a candidate, or None where one could be.

        Tracked paths below it count all the same: whoever prunes must look at those that the tracked set names.
        """
        if control(directory):
            return _CONTROL
        if any(may_hold(pattern, directory) for pattern in self.deliverables):
            return None
        if any(_covers(pattern, text(directory)) for pattern in self.generated):
            return Classified(PathClass.GENERATED, "generated")
        reason = volatile(directory + b"/x")
        if reason:
            return Classified(PathClass.VOLATILE, reason)
        if self.ignore.ignored(directory, is_dir=True):
            return Classified(PathClass.IGNORED, "git_ignored")
        return None

    def document(self) -> dict[str, Any]:
        """The snapshot, as JSON."""
        rules = [
            {"directoryB64": _b64(directory), "textB64": _b64(content)} for directory, content in self.ignore.sources
        ]
        return {
            "version": VERSION,
            "deliverables": list(self.deliverables),
            "generated": list(self.generated),
            "copiedB64": sorted(map(_b64, self.copied)),
            "ignore": rules,
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> CandidatePathPolicy:
        """The policy of a snapshot. Raises ValueError for another version or damaged base64."""
        if document["version"] != VERSION:
            raise ValueError(f"path policy version {document['version']} is unknown; this is {VERSION}")
        sources = [(_raw(rule["directoryB64"]), _raw(rule["textB64"])) for rule in document["ignore"]]
        return cls(
            tuple(document["deliverables"]),
            tuple(document["generated"]),
            frozenset(map(_raw, document["copiedB64"])),
            IgnoreRules(tuple(sources)),
        )

    @cached_property
    def digest(self) -> str:
        """Names this policy: two with the same digest give every path the same class."""
        return digest_of(self.document())


def from_lease(lease: Mapping[str, Any], ignore: IgnoreRules) -> CandidatePathPolicy:
    """The policy of a lease (its `policy`, its `copied`) over a snapshot of the ignore rules."""
    policy = lease.get("policy", {})
    copied: Iterable[str] = lease.get("copied", ())
    return CandidatePathPolicy(
        tuple(policy.get("deliverables", ())),
        tuple(policy.get("generated", ())),
        frozenset(name.encode("utf-8", "surrogateescape") for name in copied),
        ignore,
    )


def _matches_one(patterns: Iterable[str], path: bytes) -> bool:
    name = text(path)
    return any(matches(pattern, name) for pattern in patterns)


def may_hold(pattern: str, directory: bytes) -> bool:
    """Whether a path below the directory could match the pattern; True where it cannot be told."""
    wanted, have = pattern.removesuffix("/").split("/"), text(directory).split("/")
    for one, other in zip(wanted, have, strict=False):
        if "**" in one:
            return True
        if not matches(one, other):
            return False
    return True


def _covers(pattern: str, directory: str) -> bool:
    """Whether a pattern matches everything below a directory: it names the directory, or a place above it."""
    return matches(pattern, directory) or (pattern.endswith("/") and matches(pattern, f"{directory}/x"))


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _raw(encoded: str) -> bytes:
    return base64.b64decode(encoded, validate=True)
