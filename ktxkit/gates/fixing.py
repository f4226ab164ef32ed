"""Mends that are certain: one spelling is wrong, and there is one that is meant. Shown as a diff, written if asked.

Certain is: other letters (upper and lower case) than the one name there is; a character that is not what it looks like;
a connection where one alone has the source; an entity that the change renamed, where its source lost one and got one.

What a repair makes of files, written into the checkout.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ktxkit.base import files
from ktxkit.base.contracts import Document
from ktxkit.base.errors import Refused
from ktxkit.base.rules.text import plural, printable
from ktxkit.gates import judging
from ktxkit.gates.configuration import Config
from ktxkit.gates.judging import JudgeRequest, TreeFacts
from ktxkit.gates.rules import model, spelling
from ktxkit.gates.rules.findings import Finding
from ktxkit.gates.rules.groups import others_of
from ktxkit.gates.rules.model import Layer
from ktxkit.gates.rules.prune import Pruned, offsets
from ktxkit.git.git import Git
from ktxkit.git.objects import Objects
from ktxkit.store.world import World

REACH = 4  # characters between a finding's place and its text: ticks, quotes, a blank
PAGES = ("stale-entity", "unknown-sl-ref", "unknown-source", "near-source", "odd-character", "unknown-connection",
         "ref-format", "unknown-page", "unknown-link", "join-case")  # fmt: skip


class Mend(NamedTuple):
    """One text of a file that is to be another one."""

    path: bytes
    line: int
    column: int
    old: str
    new: str


def certain(findings: Iterable[Finding], layer: Layer, before: Layer | None) -> Iterator[Mend]:
    """The mends of findings. `layer`: of the tree; `before`: of what it is a change of."""
    for one in findings:
        new = _meant(one, layer, before) if one.rule in PAGES else ""
        if new and new != one.reference:
            for line, column in one.places or ((one.line, one.column),):
                yield Mend(one.path, line, column, one.reference, new)


def _meant(one: Finding, layer: Layer, before: Layer | None) -> str:
    """The one spelling that is meant; empty where there is more than one, or none."""
    same = [name for name in one.nearest if name.casefold() == one.reference.casefold()]
    if one.rule in ("odd-character", "ref-format") and len(one.nearest) == 1:
        return one.nearest[0]
    if len(same) == 1:
        return same[0]
    if one.rule == "unknown-connection":
        source, dot, entity = one.reference.partition("/")[2].partition(".")
        homes = layer.homes.get(source, [])
        return f"{homes[0]}/{source}{dot}{entity}" if len(homes) == 1 else ""
    if one.rule in ("unknown-sl-ref", "unknown-source"):
        head, dot, entity = one.reference.removeprefix("source:").partition(".")
        known = layer.folds.get(head.casefold(), [])
        if len(known) == 1 and known[0] != head and (not dot or any(item.has(entity) for item in layer.find(known[0]))):
            prefix = "source:" if one.reference.startswith("source:") else ""
            return f"{prefix}{known[0]}{dot}{entity}"
    return _renamed(one, layer, before) if one.rule == "stale-entity" and before is not None else ""


def _renamed(one: Finding, layer: Layer, before: Layer) -> str:
    """The entity's new name, where its source lost this one and no other of its kind, and got one."""
    lead, _, old = one.reference.rpartition(".")
    names = spelling.words_of(lead) & layer.homes.keys()
    found: set[str] = set()
    for now in (item for name in names for item in layer.find(name)):
        was = before.connections.get(now.connection, {}).get(now.name)
        for kind in ("columns", "measures", "segments") if was is not None else ():
            gone, new = getattr(was, kind) - getattr(now, kind), getattr(now, kind) - getattr(was, kind)
            if gone == {old} and len(new) == 1:
                found |= new
    return f"{lead}.{found.pop()}" if len(found) == 1 else ""


def applied(mends: Iterable[Mend], read: Callable[[bytes], bytes]) -> dict[bytes, bytes]:
    """The new content of each file. A text that is not where its finding is, is left alone."""
    by_path: dict[bytes, list[Mend]] = {}
    for one in mends:
        by_path.setdefault(one.path, []).append(one)
    made: dict[bytes, bytes] = {}
    for path, wanted in by_path.items():
        data = read(path)
        mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
        text = data[len(mark) :].decode("utf-8")
        starts = offsets(text)
        edits = set()
        for one in wanted:
            at = starts[one.line - 1] + one.column - 1
            found = text.find(one.old, at, at + len(one.old) + REACH)
            raw = one.old
            if found < 0:  # what hides a character stands otherwise in the text
                raw = next((text[at + n : end] for n in range(REACH) for end in _ends(text, at + n, one)), "")
                found = text.find(raw, at) if raw else -1
            if found >= 0:
                edits.add((found, found + len(raw), one.new))
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        made[path] = mark + text.encode("utf-8")
    return made


def _ends(text: str, start: int, one: Mend) -> Iterator[int]:
    """Where a text ends that looks like the one that is meant."""
    for end in range(start + len(one.old), start + len(one.old) + 2 * REACH):
        if spelling.folded(text[start:end]).strip() == one.new and not text[start : start + 1].isspace():
            yield end


def diff(path: bytes, old: bytes, new: bytes) -> list[str]:
    """What changes in a file, as `diff -u` shows it."""
    name = printable(path)
    before, after = (data.decode("utf-8", "replace").splitlines() for data in (old, new))
    lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm="", n=1)
    return [printable(line) for line in lines]


class Mended(NamedTuple):
    """The verdict as the files stand now, the diff, and what a person should know."""

    verdict: Document
    lines: list[str]
    notes: list[str]


def mend(world: World, objects: Objects, request: JudgeRequest, config: Config, *, write: bool) -> Mended:
    """What can be mended for certain, as a diff; with `write` in the files of the checkout, where all of it is proven:
    what was mended is found no more, and nothing new is. Raises Refused where a file is not as it was judged."""
    root, after, before = config.options.root, request.after, request.before
    told = judging.own_findings(request, config)
    layers = [model.build(others_of(one.facts), root) if one is not None else None for one in (after, before)]
    assert layers[0] is not None, "there is a tree that is judged"
    wanted = list(certain(told, layers[0], layers[1]))

    def read(path: bytes) -> bytes:
        return objects.read(after.files[path][1])

    made = {path: data for path, data in applied(wanted, read).items() if data != read(path)}
    lines = [line for path, data in sorted(made.items()) for line in diff(path, read(path), data)]
    if not made:
        return Mended(
            judging.verdict(world, objects, request, config), [], ["gate-check: nothing that is certain to mend"]
        )
    repair = Pruned()
    repair.files.update(made)
    new = judging.with_content(world, objects, after, repair, config)
    left = {one.identity for one in judging.own_findings(request._replace(after=new), config)}
    unproven = left - {one.identity for one in told}
    if unproven:
        said = ", ".join(sorted({rule for rule, _, _ in unproven}))
        notes = [f"gate-check: not written: the mend would lead to {said}"]
        return Mended(judging.verdict(world, objects, request, config), lines, notes)
    count = plural(len(made), "file")
    if not write:
        notes = [f"gate-check: {count} can be mended so; gate-check --fix --write does it"]
        return Mended(judging.verdict(world, objects, request, config), lines, notes)
    into_checkout(world, objects, after, new)
    notes = [f"gate-check: mended {count}; nothing is staged"]
    return Mended(judging.verdict(world, objects, request._replace(after=new), config), lines, notes)


def repair_notes(verdict: Mapping[str, Any], tree: str | None) -> list[str]:
    """What a repair took out, and where its result is."""
    said = [
        f"gate-check: pruned {one['kind']} {one['artifact']}: {one['removedRef']}" for one in verdict.get("pruned", ())
    ]
    if "pruned" in verdict and verdict["outcome"] == "findings":
        said.append("gate-check: the repair is not complete; nothing was written")
    elif said and tree is not None:
        said.append(f"gate-check: the repaired tree is {verdict['prunedTree']}")
    return said


def into_checkout(world: World, objects: Objects, before: TreeFacts, after: TreeFacts) -> list[bytes]:
    """Write a repair into the files of the checkout; nothing is staged. Returns the paths, sorted.

    Raises Refused, and writes nothing, where a file is not as it was judged: what only lies there would be lost.
    """
    cut = judging.changed(before, after)
    top = world.repository.top or world.cwd
    places = {path: top / os.fsdecode(path) for path in cut}
    plain = {path for path, place in places.items() if _bytes(place) == objects.read(before.files[path][1])}
    git = world.inherited.at(top)
    dirty = [path for path in places if path not in plain and _cleaned(git, path) != before.files[path][1]]
    if dirty:
        shown = ", ".join(os.fsdecode(path) for path in dirty[:5])
        hint = "stage or put back what was cut there, then prune again"
        raise Refused(f"not as they were judged: {shown}", hint=hint, outcome="dirty_target")
    for path, place in places.items():
        if path in after.files:
            mode = place.stat().st_mode & 0o777
            oid = after.files[path][1]
            data = objects.read(oid) if path in plain else _smudged(git, path, oid)
            files.write_atomic(place, data, mode=mode, durable=False)
        else:
            files.remove(place)
    return cut


def _cleaned(git: Git, path: bytes) -> str:
    """The blob that git would stage of a file as it lies there (line ends, filters); "" where it is no file."""
    place = Path(os.fsdecode(os.fsencode(git.cwd) + b"/" + path))
    if place.is_symlink() or not place.is_file():
        return ""
    return git.text("hash-object", b"--path=" + path, "--", path)


def _smudged(git: Git, path: bytes, oid: str) -> bytes:
    """A blob as git would write it at that path."""
    return git.run("cat-file", "--filters", b"--path=" + path, oid).out


def _bytes(place: Path) -> bytes | None:
    try:
        return files.read(place)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
