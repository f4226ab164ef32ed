"""The same question about the same content: its verdict is kept, so that the gates are not even loaded.

A kept verdict is named by all that it follows from: the files, what is inherited, the options, and the gates' sources.
Where a gate looks at more than the tree (a command, a gate of somebody's own) none is kept.

What `gate-check` looks at: the index as git's environment has it, a tree, everything or a change of it.

The pages of the gates' rules: `docs/rules/` in the sources, `ktxkit.rule_pages` when installed.

The pages of rules, for `gate-check --explain`.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base import files
from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.text import nearest, plural
from ktxkit.gates import inputs
from ktxkit.gates.inputs import FileListing
from ktxkit.gates.rules.findings import RULES, idle
from ktxkit.gates.rules.formats import Content, no_content
from ktxkit.git.objects import Objects
from ktxkit.store.rules import names
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.gates import configuration
    from ktxkit.gates.facts import FactCache
    from ktxkit.gates.judging import JudgeRequest, TreeFacts


KIND = "verdict"
MANAGED = ("PRE_COMMIT_FROM_REF", "PRE_COMMIT_TO_REF", "PRE_COMMIT_LOCAL_BRANCH")


@dataclass(frozen=True)
class GateRequest:
    """What is judged, and by what. `pushed`: the remote of a push, whose lines (pre-push) are `push_lines`. `message`:
    the file of a commit's message; `messages`: a range of commits with theirs. `files`,
    `config` and the baselines are named from the caller's directory.
    """

    everything: bool = False
    index: bool = False
    tree: str | None = None
    changed_since: str | None = None
    files: Sequence[str] = ()
    message: str | None = None
    messages: str | None = None
    pushed: str | None = None
    push_lines: bytes = b""
    root: str = ""
    config: str | None = None
    gates: Sequence[str] = ()
    advise: bool = False
    strict_connections: bool = False
    baseline: str | None = None
    write_baseline: str | None = None
    update_baseline: str | None = None
    require_input: bool = False
    require_expressions: bool = False
    prune: bool = False
    fix: bool = False
    write: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the index, as a whole or against HEAD, is judged, by gates that are configured as it says."""
        said = (
            self.tree,
            self.changed_since,
            self.files,
            self.config,
            self.baseline,
            self.update_baseline,
            self.prune,
            self.fix,
        )
        absent = (self.message, self.messages, self.pushed, self.write_baseline)
        return not any(said) and all(option is None for option in absent)

    @property
    def names_range(self) -> bool:
        """Whether the caller says what is judged, so that no range of a hook manager is asked for."""
        return bool(self.everything or self.index or self.tree or self.changed_since or self.files)

    @property
    def options(self) -> dict[str, Any]:
        """What is said over the configuration file."""
        said: dict[str, Any] = {}
        if self.root:
            said["root"] = self.root
        if self.advise:
            said["advise"] = True
        if self.strict_connections:
            said["strictConnections"] = True
        if self.config:
            said["config"] = self.config
        if self.baseline or self.update_baseline:
            said["baseline"] = self.update_baseline or self.baseline
        if self.write_baseline is not None:
            said["baseline"] = ""  # every finding is written, those that are known among them
        if self.gates:
            said["only"] = [*self.gates]
        return said


@dataclass(frozen=True)
class GateAnswer:
    """A verdict, the content of what was judged, what a person should know, and whether the verdict may be kept."""

    verdict: Document
    content: Content
    notes: Sequence[str] = ()
    repeatable: bool = False
    lines: Sequence[str] = ()  # what is shown in place of findings: the diff of a mend


@dataclass(frozen=True)
class CommitState:
    """What is being committed: the index; the trees of HEAD (None where there is none) and of a merge's other sides.

    `objects`: the reader that told of HEAD.
    """

    listed: inputs.FileListing
    base: str | None = None
    heads: tuple[str, ...] = ()
    objects: Objects | None = None


def check(world: World, request: GateRequest) -> GateAnswer:
    """The verdict that is asked for.

    Raises CannotRun for a revision or file that does not exist, and if nothing was looked at but had to be.
    """
    answer = _kept(world, request) if _is_plain(world, request) else judge_anew(world, request, None)
    verdict = answer.verdict
    if request.require_input and not any(gate.get("looked") for gate in verdict["gates"]):
        hint = "--root names the place of semantic-layer/ and wiki/, `files` in ktx-gates.yaml that of others"
        raise CannotRun("nothing was looked at", hint=hint)
    if request.require_expressions and verdict.get("unread", {}).get("expressions"):
        hint = "pip install 'ktxkit[sql]' brings sqlglot, which reads them"
        raise CannotRun(
            f"{plural(verdict['unread']['expressions'], 'expression')} of SQL cannot be read here", hint=hint
        )
    if request.require_input and idle(verdict):
        hint = "its `files` in ktx-gates.yaml match nothing, or --root names another place"
        raise CannotRun(f"nothing was looked at by {', '.join(idle(verdict))}", hint=hint)
    return answer


def _is_plain(world: World, request: GateRequest) -> bool:
    named = request.everything or request.index
    return request.is_plain and (named or not any(world.env.get(key) for key in MANAGED))


def _kept(world: World, request: GateRequest) -> GateAnswer:
    if request.everything:
        return _answer(world, request, CommitState(inputs.committable(inputs.index(world))))
    with Objects(world.git) as objects:  # they are read by it too: one process less
        listed, head = inputs.committable(inputs.index(world)), objects.find("HEAD^{tree}")
        heads = inputs.merge_heads(world) if head else []
        trees = tuple(inputs.resolved(world, one) for one in heads)
        return _answer(world, request, CommitState(listed, head[0] if head else None, trees, objects))


def _answer(world: World, request: GateRequest, standing: CommitState) -> GateAnswer:
    cache = _cache(world)
    name = _name(world, request, standing) if cache is not None else ""
    known = cache.note(KIND, name) if cache is not None else None
    if known is not None:
        return GateAnswer(json.loads(known), _content(world, standing.listed), _not_added(world, standing.listed))
    answer = judge_anew(world, request, standing)
    cache = cache or _cache(world)
    if answer.repeatable and cache is not None:
        cache.keep_note(KIND, name or _name(world, request, standing), json.dumps(answer.verdict).encode("ascii"))
    return answer


def _cache(world: World) -> FactCache | None:
    """The cache, where one was made already; none through a link, or where something else is in its place."""
    try:
        place = world.store.path(names.FACTS)
    except BrokenContract:
        return None
    if not place.is_file():
        return None
    from ktxkit.gates.facts import GateCache

    return world.shared(GateCache).table(place, world.limits.cache_wait)


def _name(world: World, request: GateRequest, standing: CommitState) -> str:
    from ktxkit.gates import version

    said = [request.everything, request.index, request.root, request.advise, request.strict_connections]
    said.append(sorted(request.gates))
    asked = [version.version(), said, "GIT_INDEX_FILE" in world.env, standing.base, standing.heads]
    return digest(json.dumps([*asked, standing.listed.tree, digest(standing.listed.raw)]).encode("ascii"))


def _content(world: World, listed: inputs.FileListing) -> Content:
    def content(path: bytes) -> bytes | None:
        return content_of(world, listed.files)(path)

    return content


def judge_anew(world: World, request: GateRequest, known: CommitState | None) -> GateAnswer:
    """The verdict without any that was kept. `known`: what is being committed, if it was looked at already.

    Raises CannotRun for a revision or file that does not exist.
    """
    if request.everything and request.files:
        raise CannotRun(f"--all is everything, {request.files[0]} is a part", hint="leave out one of them")
    message = request.message
    if message is not None and request.messages is not None:
        raise CannotRun("--message is one message, --messages are those of commits", hint="leave out one of them")
    if _of_messages(request.gates) and message is None and len(request.files) == 1:
        message = request.files[0]  # `--gate claims FILE`: a text, not a file of the tree
    if message is not None:
        from ktxkit.gates import hooks as hook_inputs

        said = hook_inputs.message_in(world, message)
        return GateAnswer(hook_inputs.check_messages(world, [said], request.gates), no_content)
    if request.messages is not None:
        from ktxkit.gates import hooks as hook_inputs

        said_by = hook_inputs.messages_of(world, request.messages)
        return GateAnswer(hook_inputs.check_messages(world, said_by, request.gates), no_content)
    if request.pushed is not None:
        from ktxkit.gates import hooks as hook_inputs

        return GateAnswer(
            hook_inputs.check_pushes(world, request.pushed, request.push_lines, request.options), no_content
        )
    return _check(world, _in_managed_range(world, request), known)


def _of_messages(names: Sequence[str]) -> bool:
    if not names:
        return False
    from ktxkit.gates import plugin
    from ktxkit.gates.plugin import MESSAGE_GATES

    return set(names) <= plugin.named(MESSAGE_GATES).keys()


def _check(world: World, request: GateRequest, known: CommitState | None) -> GateAnswer:
    from ktxkit.gates import configuration, facts, fixing, judging

    reader = known.objects if known is not None else None
    notes: list[str] = []
    with facts.no_collection(), reader or Objects(world.git) as objects:
        now = known or _standing_at(world, request)
        which = configuration.BEFORE if request.tree is None else configuration.HERE
        load = _load(world, objects, request, now.listed, notes)
        config = configuration.make(request.options, load, trusted_name=which)
        root = config.options.root
        configuration.check_root(objects, root, now.listed, now.base, "--root" if request.root else request.config)
        others = (inputs.tree(world, tree) for tree in (now.base, *now.heads) if tree)
        inputs.fetch_listed(world, chain([now.listed], others), root)
        kept = judging.reader(world, objects, now.listed, root)
        after = judging.read_listed(world, now.listed, objects, root, kept)
        asked = _asked(world, objects, request, now, after, root)
        if request.prune:
            verdict, after = judging.mended(world, objects, asked, config)
            if verdict["outcome"] == "done" and request.tree is None:
                fixing.into_checkout(world, objects, asked.after, after)
            notes[:0] = fixing.repair_notes(verdict, request.tree)
        elif request.fix:
            mended = fixing.mend(world, objects, asked, config, write=request.write)
            return GateAnswer(mended.verdict, content_of(world, after.files), mended.notes, lines=mended.lines)
        else:
            verdict = judging.verdict(world, objects, asked, config)
        if request.tree is None and not request.config:
            notes[:0] = _not_added(world, now.listed)
        if now.base is not None and request.tree is None:
            names = request.config or configuration.NAME, config.debts_file
            notes[:0] = configuration.changed_judges(objects, now.base, now.listed.files, names, config)
    repeatable = not notes and all(entry["gate"] == configuration.ARTIFACTS for entry in config.gates)
    return GateAnswer(verdict, content_of(world, after.files), notes, repeatable)


def _asked(
    world: World, objects: Objects, request: GateRequest, now: CommitState, after: TreeFacts, root: bytes
) -> JudgeRequest:
    """What is judged, beside what."""
    from ktxkit.gates import judging
    from ktxkit.gates.judging import JudgeRequest

    kept = after.kept
    before = judging.read_beside(world, inputs.tree(world, now.base), after, objects, root) if now.base else None
    also = [judging.read_listed(world, inputs.tree(world, head), objects, root, kept) for head in now.heads]
    touched, earlier = _named(world, request, after, objects, root) if request.files else (None, None)
    unchanged = touched is None and before is not None and not request.changed_since
    unchanged = unchanged and before is not None and not judging.changed(before, after)
    if unchanged and not request.index and "GIT_INDEX_FILE" not in world.env:  # git names it to its hooks
        before = None  # nothing is staged: an empty check would pass for an answer, so everything is charged
    everything = request.everything or unchanged or (before is None and touched is None)
    return JudgeRequest(after, before, touched, everything, also, earlier)


def _in_managed_range(world: World, request: GateRequest) -> GateRequest:
    """With the range that pre-commit and prek tell their hooks of, unless another one is named: a push, or two
    revisions.

    Files are chosen by FROM...TO there, so what was there where TO left FROM is inherited.
    """
    if request.names_range:
        return request
    start, end = world.env.get("PRE_COMMIT_FROM_REF"), world.env.get("PRE_COMMIT_TO_REF")
    if start and end:
        fork = world.git.run("merge-base", "--end-of-options", start, end, ok=(0, 1))
        return replace(request, tree=end, changed_since=fork.text if fork.status == 0 else start)
    branch = world.env.get("PRE_COMMIT_LOCAL_BRANCH")
    return replace(request, tree=branch) if branch else request  # no history in common: all of the branch is new


def _load(
    world: World, objects: Objects, request: GateRequest, listed: FileListing, notes: list[str]
) -> configuration.Load:
    """The files that configure the gates: of what is being committed, or of where we stand where --tree names another.

    A configuration may name commands. Asking about a tree must not run what that tree says.
    """
    known = (listed if request.tree is None else _standing(world)).files
    said = {os.fsencode(name) for name in (request.config, request.baseline, request.update_baseline) if name}

    def load(path: bytes) -> bytes | None:
        if path in known:
            staged = objects.read(known[path][1])
            if path in said and beside(world, path) not in (staged, None):
                name = os.fsdecode(path)
                notes.append(f"gate-check: {name} is read as it is staged; the file there is another one")
            return staged
        return beside(world, path) if path in said else None

    return load


def _standing(world: World) -> FileListing:
    """The index; nothing in a bare repository without a commit."""
    if world.repository.top is None and world.git.resolve("HEAD", "tree") is None:
        return FileListing(b"")
    return inputs.index(world)


def beside(world: World, path: bytes) -> bytes | None:
    """A file that is named on the command line and not in the tree: as it lies there."""
    try:
        return files.read(Path(os.path.realpath(world.cwd / os.fsdecode(path))))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _listed(world: World, revision: str | None) -> FileListing:
    """The files of a tree, or of the index that git's environment names."""
    if revision is None:
        return inputs.committable(inputs.index(world))
    return inputs.tree(world, inputs.resolved(world, revision))


def _standing_at(world: World, request: GateRequest) -> CommitState:
    """What is looked at, and beside what."""
    base = _base(world, request)
    heads = inputs.merge_heads(world) if base and not request.changed_since else []
    return CommitState(_listed(world, request.tree), base, tuple(inputs.resolved(world, head) for head in heads))


def _base(world: World, request: GateRequest) -> str | None:
    """The tree whose findings are inherited; none where everything is asked for, or there is none yet."""
    if request.changed_since:
        return inputs.resolved(world, request.changed_since)
    if request.everything or request.files or request.tree:
        return None
    return world.git.resolve("HEAD", "tree")


def _named(
    world: World, request: GateRequest, after: TreeFacts, objects: Objects, root: bytes
) -> tuple[list[bytes], TreeFacts | None]:
    """Files named on the command line, from the top of the checkout, those below a directory each; and HEAD's tree
    where one of them was there and is being deleted. Raises CannotRun for a name that is none of them.
    """
    from ktxkit.gates import judging

    top = world.repository.top or world.cwd
    found: list[bytes] = []
    earlier: TreeFacts | None = None
    for name in request.files:
        inside = os.path.relpath(os.path.normpath(world.cwd / name), top)
        if inside == ".." or inside.startswith("../"):
            raise CannotRun(f"{name} is outside this repository", location=str(top), hint="-C DIR names another one")
        path = os.fsencode(inside)
        below = _below(after, path)
        if not below and request.tree is None and world.git.resolve("HEAD", "tree") is not None:
            earlier = earlier or judging.read_listed(
                world, inputs.tree(world, inputs.resolved(world, "HEAD")), objects, root, after.kept
            )
            below = _below(earlier, path)
        if not below:
            raise _no_file(name, request.tree, os.path.lexists(world.cwd / name))
        found += below
    return found, earlier


def _below(read: TreeFacts, path: bytes) -> list[bytes]:
    """The file at a path, or all files below it where it is a directory."""
    if path in read.files:
        return [path]
    inside = b"" if path == b"." else path + b"/"
    return [name for name in read.files if name.startswith(inside)]


def _no_file(name: str, revision: str | None, exists: bool) -> CannotRun:
    if revision is not None:
        return CannotRun(f"{revision} has no file {name}", hint="files are named from where you stand")
    if exists:
        return CannotRun(f"{name} is not in the index", hint="git add it: what is being committed is judged")
    return CannotRun(f"no such file: {name}", hint="files are named from where you stand")


def content_of(world: World, listed: Mapping[bytes, tuple[str, str]]) -> Content:
    """Bytes of a path that was judged, for formats whose columns count bytes."""

    def content(path: bytes) -> bytes | None:
        if path not in listed or listed[path][0] not in ("100644", "100755"):
            return None
        with Objects(world.git) as objects:
            return objects.read(listed[path][1])

    return content


@cache
def directory() -> Path:
    """Where the pages lie."""
    module = importlib.import_module("ktxkit.rule_pages")
    assert module.__file__ is not None
    return Path(module.__file__).parent


def read(rule: str) -> str | None:
    """A rule's page, or None where there is none."""
    path = directory() / f"{rule}.md"
    return path.read_text("utf-8") if path.is_file() else None


def _not_added(world: World, listed: FileListing) -> list[str]:
    return [f"gate-check: {one}" for one in inputs.not_added(world, listed)]


def next_step(world: World) -> list[str]:
    """What to say where nothing was looked at and no gate applies to the repository."""
    from ktxkit.gates import ordinary

    return [f"gate-check: looked at nothing: {one}" for one in ordinary.next_step(world)]


def explain(rule: str) -> list[str]:
    """A rule's page; of `list`, every rule in a line. Raises CannotRun for a rule that is none."""
    if rule == "list":
        width = max(map(len, RULES))
        return [f"{name:<{width}}  {level:<7}  {said}" for name, (level, said) in RULES.items()]
    if rule not in RULES:
        near = nearest(rule, list(RULES))
        hint = f"did you mean {near[0]}?" if near else "`gate-check --explain list` shows them"
        raise CannotRun(f"there is no rule {rule!r}", hint=hint)
    page = read(rule)
    if page is None:
        raise BrokenContract(f"the page of the rule {rule} is not installed", hint="install ktxkit again")
    return page.rstrip("\n").split("\n")
