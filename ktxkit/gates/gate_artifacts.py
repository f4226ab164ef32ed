"""The gate of artifacts on what was asked for: the whole of both trees, or what a change concerns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ktxkit.gates.gate_facts import NOT_A_FILE
from ktxkit.gates.gate_read import Files, path_of
from ktxkit.gates.rules import narrow
from ktxkit.gates.rules import scope as scoping
from ktxkit.gates.rules.groups import looked_at
from ktxkit.gates.rules.model import Options, kind_of
from ktxkit.git.tree_files import TreeFiles

if TYPE_CHECKING:
    from ktxkit.gates.gates import Asked, Read
    from ktxkit.gates.rules.findings import Finding


SLASH = ord("/")
Told = tuple[list["Finding"], dict[str, int], int]  # findings, what was looked at, how many are suppressed


def findings(asked: Asked, touched: Sequence[bytes] | None, how: Options) -> Told:
    """What is told of what was asked for. `touched` None: everything."""
    after, before = asked.after, asked.before
    if touched is not None and before is not None and not asked.also and asked.earlier is None:
        differ = changed(before, after)
        if differ == sorted(touched) and narrow.applies(differ, after.files, before.files, how):
            return _narrow(after, before, differ, how)
    return _whole(asked, touched, how)


def _narrow(after: Read, before: Read, touched: Sequence[bytes], how: Options) -> Told:
    kept = after.kept
    fine = kept.fine(after.facts, how.strict) if kept else None
    part = narrow.judged((after.facts, after.files), (before.facts, before.files), touched, how, fine)
    if kept:
        kept.keep_fine(after.facts, how.strict, part.fine)
    return part.findings, _looked(after, part.scope), part.suppressed


def _whole(asked: Asked, touched: Sequence[bytes] | None, how: Options) -> Told:
    from ktxkit.gates.rules.artifacts import judge
    from ktxkit.gates.rules.findings import mark_inherited

    after, before = asked.after, asked.before
    trees = [one for one in (before, *asked.also) if before is not None and one is not None]
    bases = [judge(one.facts, one.files, replace(how, raw_current=None)) for one in trees]
    past = [one for one in (*trees, asked.earlier) if one is not None]
    former = frozenset(name for base in bases for name in base.layer.homes)
    if asked.earlier is not None:
        former |= judge(asked.earlier.facts, asked.earlier.files, how).layer.homes.keys()
    judged = judge(after.facts, after.files, how, former)
    if after.kept:
        after.kept.keep_fine(after.facts, how.strict, judged.fine)
    found = list(judged.findings)
    for one, base in zip(trees, bases, strict=True):
        found = mark_inherited(found, base.findings, moved(one, after))
    if touched is None:
        return found, dict(judged.looked), judged.suppressed
    scope = scoping.close(touched, [after.facts, *(one.facts for one in past)], how.root)
    if before is None:
        found = [one for one in found if scope.holds(one)]
    else:
        found = [one for one in found if not one.inherited or one.path in scope.files]
    return found, _looked(after, scope), judged.suppressed


def hidden(asked: Asked, touched: Sequence[bytes] | None, root: bytes) -> list[Finding]:
    """A finding for each link or submodule that the change puts in the place of a directory of artifacts: who reads
    there gets what nobody looked at. `touched` None: what differs from the base is meant."""
    from ktxkit.gates.rules.findings import Finding

    after = asked.after
    if touched is None:
        touched = changed(asked.before, after) if asked.before is not None else ()
    gone = [path for path in touched if kind_of(path, root) and not _mode(after, path)]
    above = {path[:at] for path in gone for at, sign in enumerate(path) if sign == SLASH}
    odd = {path: _mode(after, path) for path in sorted(above.intersection(touched))}
    said = "stands where a directory of artifacts was: what it leads to was not looked at"
    return [
        Finding("not-a-file", path, f"{NOT_A_FILE[mode]} {said}", hint="commit plain files", inherited=known)
        for path, mode in odd.items()
        if mode in NOT_A_FILE
        for known in [any(_mode(one, path) in NOT_A_FILE for one in asked.also)]
    ]


def _mode(read: Read, path: bytes) -> str:
    return read.files[path][0] if path in read.files else ""


def _looked(after: Read, scope: scoping.Scope) -> dict[str, int]:
    return looked_at({path: after.facts[path] for path in scope.files if path in after.facts})


def changed(before: Read, after: Read) -> list[bytes]:
    """Paths that differ between two trees."""
    if isinstance(after.files, TreeFiles) and isinstance(before.files, TreeFiles):
        return after.files.differing(before.files)
    if isinstance(before.files, Files) and isinstance(after.files, Files):
        one, two = before.files.listed, after.files.listed
        return sorted({path_of(line) for line in (*one.without(two), *two.without(one))})
    return sorted({path for path, _ in before.files.items() ^ after.files.items()})


def moved(before: Read, after: Read) -> dict[bytes, bytes]:
    """New path to old path of each file that only moved."""
    return narrow.moved(before.files, after.files, changed(before, after))
