"""Suppressions in the files that the gates beside the one of artifacts looked at, or found something in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ktxkit.git.objects import Objects

if TYPE_CHECKING:
    from ktxkit.gates.rules import suppressing
    from ktxkit.gates.rules.findings import Finding


class Comments:
    """The comments of one tree, gathered while its files are read; which of them cover something, and how much."""

    def __init__(self, files: Mapping[bytes, tuple[str, str]], objects: Objects) -> None:
        self._files = files
        self._objects = objects
        self._ignores: dict[bytes, list[suppressing.Ignore]] = {}
        self._used: set[tuple[bytes, int]] = set()
        self.count = 0

    def read(self, path: bytes) -> bytes:
        """A file's bytes; its comments are kept."""
        return self._noted(path, self._objects.read(self._files[path][1]))

    def each(self, paths: Sequence[bytes]) -> Iterator[bytes]:
        """The bytes of files, in order; their comments are kept."""
        contents = self._objects.each([self._files[path][1] for path in paths])
        return map(self._noted, paths, contents)

    def _noted(self, path: bytes, data: bytes) -> bytes:
        if path not in self._ignores:
            from ktxkit.gates.rules import suppressing

            marked = suppressing.MARK in data
            self._ignores[path] = suppressing.in_text(data.decode("utf-8", "replace")) if marked else []
        return data

    def without(self, found: Iterable[Finding]) -> list[Finding]:
        """Findings without those that a comment covers."""
        from ktxkit.gates.plugin import PLAIN
        from ktxkit.gates.rules import suppressing

        findings = list(found)
        for path in {one.path for one in findings if one.line} - self._ignores.keys():
            if path in self._files and self._files[path][0] in PLAIN:
                self.read(path)
        done = suppressing.apply(findings, self._ignores)
        self._used |= done.used
        self.count += done.count
        return done.kept

    def idle(self, artifacts: Collection[bytes]) -> list[Finding]:
        """Comments that cover nothing, but for files whose comments the gate of artifacts answers for."""
        if not self._ignores:
            return []
        from ktxkit.gates.rules import suppressing

        others = {path: listed for path, listed in self._ignores.items() if path not in artifacts}
        return suppressing.idle(others, self._used, foreign=True)

    def agreed(self, found: Iterable[Finding]) -> list[Finding]:
        """The artifacts' findings without those on a comment that covers another gate's finding."""
        covering = {(path, *self._ignores[path][number][:2]) for path, number in self._used}
        about = ("suppression-unused", "suppression-unknown")
        return [one for one in found if one.rule not in about or (one.path, one.reference, one.line) not in covering]
