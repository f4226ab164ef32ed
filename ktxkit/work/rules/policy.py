"""The patch policy: which paths a unit may touch, and as what. Judged on the paths git reports, on both sides of each.

A denied pattern covers every spelling of the same place (case, Unicode normalisation) and the places on the way to it
where they stop being directories; an allowed pattern covers only what is spelt exactly so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.patterns import fold, is_glob, leads_into, matches, matches_folded, plain_name, text
from ktxkit.base.rules.text import path_fields
from ktxkit.git.rules.patch import Content, Entry

if TYPE_CHECKING:
    from ktxkit.base.documents import PathBreach


SEMANTIC_LAYER = "semantic-layer/"
BREACHES_KEPT = 10_000  # in a document; all of them are counted
GIT_HOOKS = frozenset({
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout", "post-commit",
    "post-index-change", "post-merge", "post-receive", "post-rewrite", "post-update", "pre-applypatch", "pre-auto-gc",
    "pre-commit", "pre-merge-commit", "pre-push", "pre-rebase", "pre-receive", "prepare-commit-msg", "proc-receive",
    "push-to-checkout", "reference-transaction", "sendemail-validate", "update",
})  # fmt: skip
CONTROL_NAMES = frozenset({
    ".ktx", ".ktx-config.yaml", "ktx-gates.yaml", ".husky", ".pre-commit-config.yaml", "lefthook.yml", "lefthook.yaml",
})  # fmt: skip
_SHORT_GIT = re.compile(r"git~[0-9]+\Z")  # what NTFS calls `.git` in its short form


class Policy(NamedTuple):
    """What one unit may do. Empty: anything but control files, foreign links and undeclared submodules."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    allow_control: tuple[str, ...] = ()
    text_roots: tuple[str, ...] = ()
    sl_disallowed: bool = False
    foreign_links: bool = False  # symbolic links may leave the tree
    max_file_bytes: int | None = None
    max_patch_bytes: int | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Policy:
        """From the `policy` of a lease."""
        return cls(
            allow=tuple(document.get("allow", ())),
            deny=tuple(document.get("deny", ())),
            allow_control=tuple(document.get("allowControl", ())),
            text_roots=tuple(document.get("textRoots", ())),
            sl_disallowed=bool(document.get("slDisallowed", False)),
            foreign_links=bool(document.get("foreignLinks", False)),
            max_file_bytes=document.get("maxFileBytes"),
            max_patch_bytes=document.get("maxPatchBytes"),
        )


def policy_digest(document: Mapping[str, Any]) -> str:
    return digest_of(dict(document))


class TreeContents(NamedTuple):
    """What must be known of the new tree beside its paths: link targets by path, content by object id."""

    links: Mapping[bytes, bytes] = {}
    content: Mapping[str, Content] = {}
    submodules: frozenset[bytes] = frozenset()  # paths that .gitmodules declares
    patch_bytes: int = 0


class Breach(NamedTuple):
    """One path that breaks one rule."""

    path: bytes
    rule: str
    message: str

    def document(self) -> PathBreach:
        return {"rule": self.rule, **path_fields(self.path), "message": self.message}


def judge(entries: Sequence[Entry], policy: Policy, facts: TreeContents) -> list[Breach]:
    """Every breach, by path and rule."""
    found = [breach for entry in entries for breach in _judge_entry(entry, policy, facts)]
    if policy.max_patch_bytes is not None and facts.patch_bytes > policy.max_patch_bytes:
        size = f"the patch has {facts.patch_bytes} bytes, {policy.max_patch_bytes} are allowed"
        found.append(Breach(b".", "patch-size", size))
    return sorted(set(found))


def _judge_entry(entry: Entry, policy: Policy, facts: TreeContents) -> Iterable[Breach]:
    path = text(entry.path)
    rules = [
        ("denied", _denied(path, entry, policy.deny)),
        ("sl-disallowed", _denied(path, entry, (SEMANTIC_LAYER,)) if policy.sl_disallowed else ""),
        ("not-allowed", _not_allowed(path, policy.allow)),
        ("control-file", _control(path, policy)),
        ("text-root", _text_root(path, entry, policy.text_roots, facts)),
        ("symlink", "" if policy.foreign_links else _link(entry, facts)),
        ("gitlink", _gitlink(entry, facts)),
        ("file-size", _size(entry, policy, facts)),
    ]
    return [Breach(entry.path, rule, message) for rule, message in rules if message]


def _denied(path: str, entry: Entry, patterns: Iterable[str]) -> str:
    for pattern in patterns:
        if matches_folded(pattern, path):
            return f"{pattern} is denied"
        solid = entry.new.kind in ("symlink", "gitlink") or (
            entry.new.kind in ("regular", "executable") and entry.change in ("added", "typechange")
        )
        if solid and leads_into(pattern, path):
            return f"{pattern} is denied, and this becomes a {entry.new.kind} on the way to it"
    return ""


def _not_allowed(path: str, patterns: Sequence[str]) -> str:
    if not patterns or any(matches(pattern, path) for pattern in patterns):
        return ""
    return f"only {', '.join(patterns[:10])}{' and others' if len(patterns) > 10 else ''} may be touched"


def is_control(path: str) -> bool:
    """Whether git, a hook runner or ktxkit itself takes orders from the path."""
    segments = [plain_name(segment) for segment in path.split("/")]
    if any(s.startswith(".git") or s in CONTROL_NAMES or _SHORT_GIT.match(s) for s in segments):
        return True
    return len(segments) > 1 and segments[-2] == "hooks" and segments[-1] in GIT_HOOKS


def _control(path: str, policy: Policy) -> str:
    if not is_control(path):
        return ""
    by_name = [pattern for pattern in policy.allow if not is_glob(pattern) and is_control(pattern.removesuffix("/"))]
    if any(matches(pattern, path) for pattern in (*policy.allow_control, *by_name)):
        return ""
    return "git, hooks or ktxkit take orders from this file; it must be allowed by name"


def _text_root(path: str, entry: Entry, roots: Iterable[str], facts: TreeContents) -> str:
    root = next((root for root in roots if matches_folded(root, path)), None)
    if root is None or entry.new.kind == "absent":
        return ""
    if entry.new.mode != "100644":
        return f"only plain text files may stand under {root}; this is {entry.new.kind} ({entry.new.mode})"
    content = facts.content.get(entry.new.oid)
    return f"only text may stand under {root}; this holds a NUL byte" if content and content.binary else ""


def _link(entry: Entry, facts: TreeContents) -> str:
    if entry.new.kind != "symlink" or entry.new == entry.old:
        return ""
    target = text(facts.links.get(entry.path, b""))
    if target.startswith("/"):
        return "a symbolic link to an absolute path leaves the tree"
    place = text(entry.path).split("/")[:-1]
    named = False
    for part in target.split("/"):
        if part == "..":
            if named or not place:
                return "a symbolic link that leaves the tree, or may: '..' after a name follows what that name is"
            place.pop()
        elif part not in ("", "."):
            named = True
            place.append(part)
    if place and plain_name(place[0]) in (".git", ".ktx"):
        return f"a symbolic link into {place[0]}"
    return ""


def _gitlink(entry: Entry, facts: TreeContents) -> str:
    if entry.new.kind == "gitlink" and entry.path not in facts.submodules:
        return "a nested repository that .gitmodules does not declare: its files are in no tree"
    return ""


def _size(entry: Entry, policy: Policy, facts: TreeContents) -> str:
    content = facts.content.get(entry.new.oid)
    if policy.max_file_bytes is None or content is None or content.size <= policy.max_file_bytes:
        return ""
    return f"{content.size} bytes, {policy.max_file_bytes} are allowed"


def collisions(added: Iterable[bytes], siblings: Mapping[bytes, Iterable[bytes]]) -> list[tuple[bytes, bytes]]:
    """Added paths that some file system takes for another path of the tree: pairs (added, other).

    `siblings` gives the names in each directory (`b""` is the root) on the way to an added path.
    """
    found = set()
    alike: dict[bytes, dict[str, list[bytes]]] = {}  # of each directory
    for path in {way for one in added for way in _ways(one)}:
        parent, _, name = path.rpartition(b"/")
        if parent not in alike:
            alike[parent] = _by_fold(siblings.get(parent, ()))
        others = alike[parent].get(fold(text(name)), ()) if alike[parent] else ()
        found |= {(path, (parent + b"/" if parent else b"") + other) for other in others if other != name}
    return sorted(found)


def _ways(path: bytes) -> Iterable[bytes]:
    """The path and every directory on the way to it."""
    while path:
        yield path
        path = path.rpartition(b"/")[0]


def _by_fold(names: Iterable[bytes]) -> dict[str, list[bytes]]:
    """The names by what they fold to."""
    made: dict[str, list[bytes]] = {}
    for name in names:
        made.setdefault(fold(text(name)), []).append(name)
    return made
