"""The gate of artifacts: all findings of one tree, from the facts of its files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from ktxkit.gates.rules import model, sources, suppressions
from ktxkit.gates.rules.findings import ADVICE, Finding, grouped, level_of
from ktxkit.gates.rules.groups import (
    COUNTED,
    Group,
    key_of,
    looked_at,
    loose,
    others_of,
    pages_of,
    special_of,
    summarized,
)
from ktxkit.gates.rules.model import GateOptions, Layer
from ktxkit.gates.rules.references import References, Wrong, is_fine, listed
from ktxkit.gates.rules.targets import RawFacts, Targets, artifact, raw_path, raw_path_of

Facts = dict[str, Any]


class TreeFindings:
    """The findings of a tree, in order, and what was looked at."""

    __slots__ = ("covered", "findings", "fine", "layer", "looked", "suppressed")

    def __init__(
        self,
        findings: tuple[Finding, ...],
        looked: Mapping[str, int],
        suppressed: int = 0,
        layer: Layer | None = None,
        fine: Mapping[str, Collection[str]] | None = None,
        covered: tuple[Finding, ...] = (),
    ) -> None:
        self.covered = covered  # the findings that a comment suppresses, at these places
        self.findings = findings
        self.looked = looked
        self.suppressed = suppressed
        self.layer: Layer = Layer() if layer is None else layer
        self.fine: Mapping[str, Collection[str]] = {} if fine is None else fine  # texts that the layer answers, by kind


def judge(
    facts: Mapping[bytes, Facts],
    files: Collection[bytes],
    options: GateOptions,
    former: Collection[str] = frozenset(),
    only: Collection[bytes] | None = None,
    layer: Layer | None = None,
) -> TreeFindings:
    """Judge a tree. `facts`: of each artifact by path; `files`: every path; `former`: the base's sources.

    `only`: the findings of these files are wanted, and which are suppressed anywhere; `looked` says nothing then.
    `layer`: of these facts, where it is known.
    """
    groups = [] if options.advise or only is not None else summarized(facts)
    if only is None:
        rest = loose(facts, groups)
    else:
        rest = {path: facts[path] for path in (*only, *special_of(facts)) if path in facts}
    if layer is None:
        layer = model.build(rest if only is None else others_of(facts), options.root)
    keys = model.page_keys(pages_of(facts), options.root)
    references = References(layer, strict=options.strict, former=former, pins=dict(options.pins))
    known = RawFacts(files, keys[""], layer, options.root, options.raw_current, options.raw_deleted)
    leads = Targets(known, options, lambda path: facts[path].get("anchors") if path in facts else None)
    is_quiet = _Quiet(references, known, leads)
    quiet = [group for group in groups if is_quiet(group.summary)]
    for group in (one for one in groups if one not in quiet):
        rest.update(group.facts)
    found = list(_problems(rest, options.root))
    if only is None or any(one["kind"] == "sources" and (one["ignores"] or path in only) for path, one in rest.items()):
        found += (*sources.judge(layer, dict(options.dialects)), *sources.pinned(layer, options.pins, keys[""]))
    for path, one in sorted(rest.items()):
        if one["kind"] == "page":
            found += (*_page(path, one, references, keys, known, options), *_targets(path, one, leads))
        elif one["kind"] == "provenance":
            found += _rows(path, one, known)
    kept = [one for one in grouped(found) if options.advise or one.severity != ADVICE]
    findings, done = _unsuppressed(kept, rest)
    said = _summed(looked_at(rest), quiet), done.hidden, layer, references.fine(), done.covered
    return TreeFindings(tuple(findings), *said)


class _Quiet:
    """Whether pages have no finding: every text that they refer with is answered. Each text is asked about once."""

    def __init__(self, references: References, known: RawFacts, leads: Targets) -> None:
        self._known = known
        self._leads = leads
        self._asked = {"spans": references.span, "slRefs": references.sl_ref, "tables": references.table}
        self._fine: dict[str, set[str]] = {key: set() for key in ("links", "comments", "targets", *self._asked)}

    def __call__(self, summary: Facts) -> bool:
        return (
            self._known.pages >= set(summary["refs"])
            and all(self._all(summary, key, self._answered(answer)) for key, answer in self._asked.items())
            and self._all(summary, "links", lambda text: key_of(text) in self._known.pages or not key_of(text))
            and self._all(summary, "comments", self._kept)
            and self._all(summary, "targets", self._leads_on)
        )

    def _all(self, summary: Facts, key: str, good: Callable[[str], bool]) -> bool:
        new = set(summary[key]) - self._fine[key]
        if not all(map(good, new)):
            return False
        self._fine[key] |= new
        return True

    @staticmethod
    def _answered(answer: Callable[[str], Wrong | None]) -> Callable[[str], bool]:
        return lambda text: is_fine(answer(text))

    def _leads_on(self, said: str) -> bool:
        """Whether a target of `_beside` leads somewhere. Of anchors the page itself is asked."""
        where, _, text = said.partition("\0")
        return (
            not text.startswith("#") and self._leads.broken(text, where.encode("utf-8", "surrogateescape"), ()) is None
        )

    def _kept(self, raw: str) -> bool:
        refused = raw_path(raw, self._known)
        return refused is None or level_of(refused[0]) == ADVICE


def _summed(looked: dict[str, int], groups: Iterable[Group]) -> dict[str, int]:
    for counts in (group.summary["counts"] for group in groups):
        looked["files"] += counts["pages"]
        looked["pages"] += counts["pages"]
        looked["references"] += sum(counts[key] for key in COUNTED)
    return looked


def _problems(facts: Mapping[bytes, Facts], root: bytes) -> Iterator[Finding]:
    """What each file has by itself."""
    for path, one in facts.items():
        if one["kind"] == model.UNREAD:
            message, hint = model.why_unread(path, root)
            yield Finding("not-read", path, message, hint=hint)
        for rule, line, column, message, hint, level in one["problems"]:
            yield Finding(rule, path, message, line, column, hint=hint, level=level)


def _page(
    path: bytes,
    page: Facts,
    references: References,
    keys: Mapping[str, set[str]],
    known: RawFacts,
    options: GateOptions,
) -> Iterator[Finding]:
    where = model.artifact_path(path, options.root)
    if not model.PAGE_KEY.match(where.key):
        message = f"the page key {where.key!r} cannot be used in refs and links"
        yield Finding("page-key", path, message, reference=where.key, hint="letters, digits, _ and - only; no folders")
    yield from _told(path, page["slRefs"], references.sl_ref)
    yield from _told(path, page["tables"], references.table)
    spans = page["spans"]
    yield from (one for one in _told(path, spans, references.span) if options.advise or one.severity != ADVICE)
    pages = keys[where.user]
    near = lambda key: known.layer.near.names(key, ("pages", where.user), lambda: pages)  # noqa: E731
    yield from _links(path, page["refs"], pages, "unknown-page", near)
    yield from _links(path, page["links"], pages, "unknown-link", near)
    for raw, line, column in page["comments"]:
        wrong = raw_path(raw, known)
        if wrong is not None:
            yield Finding(wrong[0], path, wrong[1], line, column, raw)
    if options.advise:
        yield from _words(path, page, known.layer)


def _told(path: bytes, items: Iterable[list[Any]], answer: Callable[[str], Wrong | None]) -> Iterator[Finding]:
    for text, line, column in items:
        wrong = answer(text)
        if wrong is not None:
            said = (text, wrong.searched, wrong.nearest, wrong.hint, wrong.level)
            yield Finding(wrong.rule, path, wrong.message, line, column, *said)


def _links(
    path: bytes, items: Iterable[list[Any]], pages: Collection[str], rule: str, nearest: Callable[[str], list[str]]
) -> Iterator[Finding]:
    for text, line, column in items:
        key = key_of(text) if rule == "unknown-link" else text
        if key in pages or not key:
            continue
        near = nearest(key)
        level = "" if model.PAGE_KEY.match(key) or rule == "unknown-page" else "warning"
        message = f"there is no page {key}"
        hint = f"did you mean {near[0]}?" if near else "add the page, or remove the reference"
        yield Finding(rule, path, message, line, column, key, listed(()), tuple(near), hint, level)


def _targets(path: bytes, page: Facts, leads: Targets) -> Iterator[Finding]:
    """What Markdown's own links and images do not lead to."""
    for text, line, column in page["targets"]:
        wrong = leads.broken(text, path, page["anchors"])
        if wrong is not None:
            hint = f"did you mean {wrong.near[0]}?" if wrong.near else "add it, or take the link out"
            yield Finding(wrong.rule, path, wrong.message, line, column, text, (), wrong.near, hint)


def _words(path: bytes, page: Facts, layer: Layer) -> Iterator[Finding]:
    """Single words in code on a page with sl_refs that nothing has: perhaps a former measure, perhaps prose."""
    names = {text.partition("/")[2] or text for text, _, _ in page["slRefs"]}
    found = [one for name in names for one in layer.find(name.partition(".")[0])]
    if not found:
        return
    entities = {entity for one in found for entity in one.entities}
    for word, line, column in page["words"]:
        if word in entities or word in layer.homes or layer.knows_table(word):
            continue
        near = layer.near_entity(word, found, 3, 0.7)
        message = f"{word} is nothing that the page's sources have"
        yield Finding("unknown-word", path, message, line, column, word, listed(names), tuple(near))


def _rows(path: bytes, rows: Facts, known: RawFacts) -> Iterator[Finding]:
    for row, line, column in rows["rows"]:
        raw = raw_path_of(row)
        wrong = raw_path(raw, known) if raw is not None else None
        if raw is not None and wrong is not None:
            yield Finding(wrong[0], path, wrong[1], line, column, raw)
        absent = artifact(row, known)
        if absent is not None:
            message = f"there is no {row['artifactKind']} artifact {absent}"
            yield Finding("unknown-artifact", path, message, line, column, absent)


def _unsuppressed(found: list[Finding], facts: Mapping[bytes, Facts]) -> tuple[list[Finding], suppressions.Suppressed]:
    """Findings without those that a comment suppresses; and what is wrong with the comments."""
    ignores = {path: one["ignores"] for path, one in facts.items()}
    done = suppressions.apply(found, ignores)
    idle = suppressions.idle(ignores, done.used)
    return sorted([*done.kept, *idle], key=lambda one: one.order), done
