"""The patch policy: which paths a unit may touch, and as what. Judged on the paths git reports, on both sides of each.

A denied pattern covers every spelling of the same place (case, Unicode normalisation) and the places on the way to it
where they stop being directories; an allowed pattern covers only what is spelt exactly so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.patterns import PatternSet, fold, is_glob, matches_folded, plain_name, text
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
# Names, wherever they stand, that git, a hook runner or ktxkit itself takes orders from.
CONTROL_NAMES = frozenset({
    ".git", ".gitattributes", ".gitignore", ".gitmodules", ".gitconfig", ".lfsconfig", ".githooks", ".git-hooks",
    ".ktx", ".ktx-config.yaml", "ktx-gates.yaml", ".husky", ".pre-commit-config.yaml", "lefthook.yml", "lefthook.yaml",
})  # fmt: skip
# Paths from the top that forges take orders from: what their CI runs, and who must approve.
FORGES = frozenset({
    ".github/workflows", ".github/actions", ".github/dependabot.yml", ".github/dependabot.yaml", ".github/codeowners",
    "codeowners", "docs/codeowners", ".gitlab-ci.yml", ".gitlab/ci", ".gitlab/agents", ".gitlab/codeowners",
    ".gitea/workflows", ".forgejo/workflows", ".circleci", ".travis.yml", ".appveyor.yml", "appveyor.yml",
    ".buildkite", ".cirrus.yml", ".cirrus.star", ".drone.yml", ".woodpecker", ".woodpecker.yml", ".woodpecker.yaml",
    ".build.yml", ".builds", ".teamcity", ".azure-pipelines", ".azuredevops", "azure-pipelines.yml", "jenkinsfile",
    "bitbucket-pipelines.yml", "buildspec.yml", "cloudbuild.yaml", "cloudbuild.yml",
})  # fmt: skip
_FORGE_FOLDERS = frozenset(name.rpartition("/")[0] for name in FORGES if name.startswith("."))
_SHORT_GIT = re.compile(r"git(?:att|con|hoo|ign|mod)?~[0-9]+\Z")  # what NTFS calls those in its short form


TEXT_ROOTS = ("wiki", "semantic-layer")  # where a policy names none


class Policy(NamedTuple):
    """What one unit may do. Empty: anything but control files, foreign links and undeclared submodules."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    allow_control: tuple[str, ...] = ()
    text_roots: tuple[str, ...] = TEXT_ROOTS
    sl_disallowed: bool = False
    foreign_links: bool = False  # symbolic links may leave the tree
    allow_unpublished: bool = False  # a submodule may be at a commit that no remote of it has
    max_file_bytes: int | None = None
    max_patch_bytes: int | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Policy:
        """From the `policy` of a lease."""
        return cls(
            allow=tuple(document.get("allow", ())),
            deny=tuple(document.get("deny", ())),
            allow_control=tuple(document.get("allowControl", ())),
            text_roots=tuple(document.get("textRoots", TEXT_ROOTS)),
            sl_disallowed=bool(document.get("slDisallowed", False)),
            foreign_links=bool(document.get("foreignLinks", False)),
            allow_unpublished=bool(document.get("allowUnpublished", False)),
            max_file_bytes=document.get("maxFileBytes"),
            max_patch_bytes=document.get("maxPatchBytes"),
        )


def is_below(path: bytes, roots: Iterable[str]) -> bool:
    """Whether a path lies below one of these directories, whatever the case of its letters."""
    named = text(path)
    return any(matches_folded(root, named) for root in roots)


def policy_digest(document: Mapping[str, Any]) -> str:
    return digest_of(dict(document))


class TreeContents(NamedTuple):
    """What must be known of the new tree beside its paths: link targets by path, content by object id."""

    links: Mapping[bytes, bytes] = {}
    content: Mapping[str, Content] = {}
    submodules: frozenset[bytes] = frozenset()  # paths that .gitmodules declares
    unpublished: frozenset[bytes] = frozenset()  # those of them that are at a commit which no remote of theirs has
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
    lists = _Lists.of(policy)
    found = [breach for entry in entries for breach in _judge_entry(entry, policy, lists, facts)]
    if policy.max_patch_bytes is not None and facts.patch_bytes > policy.max_patch_bytes:
        size = f"the patch has {facts.patch_bytes} bytes, {policy.max_patch_bytes} are allowed"
        found.append(Breach(b".", "patch-size", size))
    return sorted(set(found))


class _Lists(NamedTuple):
    """The patterns of a policy, each list ready to be asked of many paths."""

    allow: PatternSet
    deny: PatternSet
    layer: PatternSet
    control: PatternSet

    @classmethod
    def of(cls, policy: Policy) -> _Lists:
        by_name = [one for one in policy.allow if not is_glob(one) and is_control(one.removesuffix("/"))]
        layer = (SEMANTIC_LAYER,) if policy.sl_disallowed else ()
        return cls(
            PatternSet(policy.allow),
            PatternSet(policy.deny, folded=True),
            PatternSet(layer, folded=True),
            PatternSet((*policy.allow_control, *by_name)),
        )


def _judge_entry(entry: Entry, policy: Policy, lists: _Lists, facts: TreeContents) -> Iterable[Breach]:
    path = text(entry.path)
    rules = [
        ("denied", _denied(path, entry, lists.deny)),
        ("sl-disallowed", _denied(path, entry, lists.layer)),
        ("not-allowed", _not_allowed(path, policy.allow, lists.allow)),
        ("control-file", _control(path, lists.control)),
        ("text-root", _text_root(path, entry, policy.text_roots, facts)),
        ("symlink", "" if policy.foreign_links else _link(entry, facts)),
        ("gitlink", _gitlink(entry, policy, facts)),
        ("file-size", _size(entry, policy, facts)),
    ]
    return [Breach(entry.path, rule, message) for rule, message in rules if message]


def _denied(path: str, entry: Entry, denied: PatternSet) -> str:
    if pattern := denied.match(path):
        return f"{pattern} is denied"
    solid = entry.new.kind in ("symlink", "gitlink") or (
        entry.new.kind in ("regular", "executable") and entry.change in ("added", "typechange")
    )
    if solid and (pattern := denied.leads_into(path)):
        return f"{pattern} is denied, and this becomes a {entry.new.kind} on the way to it"
    return ""


def _not_allowed(path: str, patterns: Sequence[str], allowed: PatternSet) -> str:
    if not patterns or allowed.match(path):
        return ""
    return f"only {', '.join(patterns[:10])}{' and others' if len(patterns) > 10 else ''} may be touched"


def is_control(path: str) -> bool:
    """Whether git, a hook runner, a forge or ktxkit itself takes orders from the path, or from what lies below it."""
    segments = [plain_name(segment) for segment in path.split("/")]
    if any(s in CONTROL_NAMES or _SHORT_GIT.match(s) for s in segments):
        return True
    from_top = ["/".join(segments[:depth]) for depth in range(1, min(len(segments), 3) + 1)]
    if any(place in FORGES for place in from_top) or from_top[-1] in _FORGE_FOLDERS - {""}:
        return True
    return len(segments) > 1 and segments[-2] == "hooks" and segments[-1] in GIT_HOOKS


def _control(path: str, allowed: PatternSet) -> str:
    if not is_control(path) or allowed.match(path):
        return ""
    return "git, hooks, a forge or ktxkit take orders from this file; it must be allowed by name"


def _text_root(path: str, entry: Entry, roots: Iterable[str], facts: TreeContents) -> str:
    root = next((root for root in roots if matches_folded(root, path)), None)
    if root is None or entry.new.kind == "absent":
        return ""
    if entry.new.mode != "100644":
        return f"only plain text files may stand under {root}; this is {entry.new.kind} ({entry.new.mode})"
    content = facts.content.get(entry.new.oid)
    if content is None or not (content.binary or content.foreign):
        return ""
    what = "this holds a NUL byte" if content.binary else "this is not UTF-8"
    return f"only text may stand under {root}; {what} (textRoots in the policy says where)"


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


def _gitlink(entry: Entry, policy: Policy, facts: TreeContents) -> str:
    if entry.new.kind == "gitlink" and entry.path not in facts.submodules:
        return "a nested repository that .gitmodules does not declare: its files are in no tree"
    if entry.path in facts.unpublished and not policy.allow_unpublished:
        return f"the submodule is at {entry.new.oid[:12]}, which no remote of it has: push it, or allowUnpublished"
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
