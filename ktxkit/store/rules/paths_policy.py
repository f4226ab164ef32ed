"""gitignore(5) over a snapshot of the rules: the text that was read decides, not the files of today.

Sources: gitignore(5) and git's dir.c and wildmatch.c; the tests compare every verdict with `git check-ignore`.

Which paths could become source. The first that applies decides: internal control, declared deliverables, what was
copied in, what is generated or left out by pattern, tracked, volatile, git-ignored, plausible untracked. Volatile names
are advice to the observer alone: what is collected, kept or removed is what git does not ignore. The policy is a
snapshot: its document holds everything that a verdict depends on, its digest stands in the lease, and an edit of any
configuration affects the next attempt only.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.patterns import matches, plain_name, text

if TYPE_CHECKING:
    from ktxkit.base.documents import Lease, PathPolicyRules, PathPolicyRulesIgnore


_POSIX = {
    b"alnum": rb"a-zA-Z0-9", b"alpha": rb"a-zA-Z", b"blank": rb" \t", b"cntrl": rb"\x00-\x1f\x7f", b"digit": rb"0-9",
    b"graph": rb"\x21-\x7e", b"lower": rb"a-z", b"print": rb"\x20-\x7e", b"space": rb"\s",
    b"punct": rb"!-/:-@\[-`{-~", b"upper": rb"A-Z", b"xdigit": rb"0-9A-Fa-f",
}  # fmt: skip


class Pattern(NamedTuple):
    """One line. `base` is the directory of its file, `b""` or with a slash at its end."""

    base: bytes
    regex: re.Pattern[bytes]
    whole_path: bool  # matched against the path below `base`; otherwise against the last name
    directory_only: bool
    negated: bool

    def matches(self, path: bytes, *, is_dir: bool) -> bool:
        if (self.directory_only and not is_dir) or not path.startswith(self.base):
            return False
        name = path[len(self.base) :] if self.whole_path else path[path.rfind(b"/") + 1 :]
        return bool(self.regex.match(name))


class IgnoreRules:
    """The text of ignore files, weakest first: (directory that the file lies in, content)."""

    def __init__(self, sources: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.sources = sources

    @cached_property
    def _patterns(self) -> tuple[Pattern, ...]:
        """Strongest first: deeper files before higher ones, later lines before earlier ones."""
        found: list[Pattern] = []
        for directory, content in sorted(self.sources, key=lambda source: source[0].count(b"/") + bool(source[0])):
            base = directory + b"/" if directory else b""
            lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
            found += [made for line in lines if (made := parse(line, base)) is not None]
        return tuple(reversed(found))

    def matches(self, path: bytes, *, is_dir: bool) -> bool:
        """Whether a rule ignores this very path; its parents are not looked at."""
        for pattern in self._patterns:
            if pattern.matches(path, is_dir=is_dir):
                return not pattern.negated
        return False

    def ignored(self, path: bytes, *, is_dir: bool = False) -> bool:
        """Whether the path is ignored, by itself or below an ignored directory: nothing there is included again."""
        if not self._patterns:
            return False
        at = path.find(b"/")
        while at >= 0:
            if self.matches(path[:at], is_dir=True):
                return True
            at = path.find(b"/", at + 1)
        return self.matches(path, is_dir=is_dir)


def parse(line: bytes, base: bytes = b"") -> Pattern | None:
    """One line of an ignore file; None for a comment, a blank line or a pattern that can match nothing."""
    body = _without_trailing_spaces(line.removesuffix(b"\r"))
    if not body or body.startswith(b"#"):
        return None
    negated = body.startswith(b"!")
    if negated:
        body = body[1:]
    directory_only = body.endswith(b"/")
    if directory_only:
        body = body[:-1]
    whole_path = b"/" in body
    body = body.removeprefix(b"/")
    if not body:
        return None
    translated = _translate(body, crossing=whole_path)
    if translated is None:
        return None
    return Pattern(base, re.compile(translated, re.DOTALL), whole_path, directory_only, negated)


def _without_trailing_spaces(line: bytes) -> bytes:
    """Trailing blanks go, unless a backslash quotes them."""
    end = len(line)
    while end and line[end - 1 : end] == b" ":
        quotes = len(line[: end - 1]) - len(line[: end - 1].rstrip(b"\\"))
        if quotes % 2:
            break
        end -= 1
    return line[:end]


def _translate(pattern: bytes, *, crossing: bool) -> bytes | None:
    """A wildmatch pattern as a regular expression for a whole name or path; None where it is malformed."""
    out, at = [], 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        if char == b"*":
            piece, at = _stars(pattern, at, crossing=crossing)
        elif char == b"?":
            piece, at = b"[^/]", at + 1
        elif char == b"[":
            made = _bracket(pattern, at)
            if made is None:
                return None
            piece, at = made
        elif char == b"\\":
            if at + 1 == len(pattern):
                return None
            piece, at = re.escape(pattern[at + 1 : at + 2]), at + 2
        else:
            piece, at = re.escape(char), at + 1
        out.append(piece)
    return b"".join(out) + rb"\Z"


def _stars(pattern: bytes, at: int, *, crossing: bool) -> tuple[bytes, int]:
    end = at
    while pattern[end : end + 1] == b"*":
        end += 1
    # git compares what stands before the first special character by itself: after it, `**` counts as at the start.
    opens = pattern[at - 1 : at] == b"/" or not re.search(rb"[*?\[\\]", pattern[:at])
    closes = end == len(pattern) or pattern[end : end + 1] == b"/"
    if not crossing or end - at < 2 or not opens or not closes:
        return b"[^/]*", end
    if end == len(pattern):
        return b".+" if at else b".*", end
    return b"(?:.*/)?", end + 1


def _bracket(pattern: bytes, at: int) -> tuple[bytes, int] | None:
    """A character class; it never matches a slash. None where it does not end."""
    i = at + 1
    negated = pattern[i : i + 1] in (b"!", b"^")
    i += negated
    parts: list[bytes] = []
    first = True
    while first or pattern[i : i + 1] != b"]":
        first = False
        if i >= len(pattern):
            return None
        named = re.match(rb"\[:([a-z]+):\]", pattern[i:])
        if named:
            if named.group(1) not in _POSIX:
                return None
            parts.append(_POSIX[named.group(1)])
            i += named.end()
            continue
        low, i = _one(pattern, i)
        if pattern[i : i + 1] == b"-" and pattern[i + 1 : i + 2] not in (b"]", b""):
            high, i = _one(pattern, i + 1)
            if high and low <= high:
                parts.append(_quoted(low) + b"-" + _quoted(high))
            continue
        parts.append(_quoted(low))
    inner = b"".join(parts)
    if not inner:
        return (b"[^/]" if negated else b"(?!)"), i + 1
    return b"(?!/)[" + (b"^" if negated else b"") + inner + b"]", i + 1


def _one(pattern: bytes, i: int) -> tuple[bytes, int]:
    if pattern[i : i + 1] == b"\\":
        return pattern[i + 1 : i + 2], i + 2
    return pattern[i : i + 1], i + 1


def _quoted(char: bytes) -> bytes:
    return b"\\x%02x" % char[0] if char else b""


def rules_of(files: Iterable[tuple[bytes, bytes]], exclude: bytes = b"") -> IgnoreRules:
    """Rules from `.gitignore` files (path, content) and the repository's `info/exclude`, which is the weakest."""
    found = [(path.rpartition(b"/")[0], text) for path, text in sorted(files)]
    return IgnoreRules(((b"", exclude), *found) if exclude else tuple(found))


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


class Classified(NamedTuple):
    """A verdict with its stable reason code."""

    path_class: PathClass
    reason: str

    @property
    def candidate(self) -> bool:
        """Whether the path could become source."""
        return self.path_class in CANDIDATES


_CONTROL, _TRACKED = Classified(PathClass.CONTROL, "internal_control"), Classified(PathClass.TRACKED, "tracked")
_UNTRACKED, _IGNORED = Classified(PathClass.UNTRACKED, "untracked"), Classified(PathClass.IGNORED, "git_ignored")

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


_GIT = re.compile(r"\.git\Z|git~1\Z")  # as HFS+ and NTFS read it: path.c of git, is_hfs_dotgit and is_ntfs_dotgit


def control(path: bytes) -> bool:
    """git's administration at any depth in every spelling that git refuses, and ktxkit's own store at the top."""
    if path.startswith(b".ktx") and path.partition(b"/")[0] == b".ktx":
        return True
    lower = path.lower()
    if path.isascii() and b"git" not in lower:
        return False
    return any(_GIT.match(plain_name(text(segment))) for segment in path.split(b"/"))


class CandidatePathPolicy:
    """Everything that a verdict depends on but the facts of the path. Patterns are those of `core.patterns`."""

    def __init__(
        self,
        deliverables: tuple[str, ...] = (),
        generated: tuple[str, ...] = (),
        copied: frozenset[bytes] = frozenset(),
        ignore: IgnoreRules | None = None,
    ) -> None:
        self.deliverables = deliverables
        self.generated = generated
        self.copied = copied
        self.ignore: IgnoreRules = IgnoreRules() if ignore is None else ignore

    def classify(self, path: bytes, *, tracked: bool, ignored: bool | None = None) -> Classified:
        """The class. `tracked`: it is in the attempt's tracked set; `ignored`: None asks the snapshot's rules."""
        declared = self._declared(path)
        if declared is not None or tracked:
            return declared or _TRACKED
        reason = volatile(path)
        if reason:
            return Classified(PathClass.VOLATILE, reason)
        return _IGNORED if (self.ignore.ignored(path) if ignored is None else ignored) else _UNTRACKED

    def work(self, path: bytes, *, tracked: bool, ignored: bool) -> Classified:
        """The class for whoever takes, keeps or removes: git says what is ignored, and no list of names has a say."""
        declared = self._declared(path)
        if declared is not None or tracked:
            return declared or _TRACKED
        return _IGNORED if ignored else _UNTRACKED

    def _declared(self, path: bytes) -> Classified | None:
        """What the lease says of a path, or its very name."""
        if control(path):
            return _CONTROL
        if self.deliverables and _matches_one(self.deliverables, path):
            return Classified(PathClass.DELIVERABLE, "declared_deliverable")
        if path in self.copied:
            return Classified(PathClass.COPIED, "copied_in")
        if self.generated and _matches_one(self.generated, path):
            return Classified(PathClass.GENERATED, "generated")
        return None

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
            return _IGNORED
        return None

    def document(self) -> PathPolicyRules:
        """The snapshot, as JSON."""
        rules: list[PathPolicyRulesIgnore] = [
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
    def of(cls, document: PathPolicyRules) -> CandidatePathPolicy:
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


def from_lease(lease: Lease, ignore: IgnoreRules) -> CandidatePathPolicy:
    """The policy of a lease (its `policy`, its `copied`) over a snapshot of the ignore rules."""
    policy = lease.get("policy", {})
    copied: Iterable[str] = lease.get("copied", ())
    return CandidatePathPolicy(
        tuple(policy.get("deliverables", ())),
        (*policy.get("generated", ()), *policy.get("leaveOut", ())),
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
