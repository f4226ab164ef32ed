"""Gates that any repository has use for: syntax, links of Markdown, merge markers, large files; and the file that names
them for a repository that has none yet (`git ktx install-hooks --starter`).

Gate `schema`: JSON or YAML files that must follow a JSON Schema of the repository.

Gate `swallow`: exceptions that Python code discards.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ktxkit.base import contracts, files
from ktxkit.base.errors import CannotRun, Refused
from ktxkit.base.rules import strict_yaml
from ktxkit.base.rules.patterns import matches, text
from ktxkit.base.rules.strict_yaml import Node, YamlProblem
from ktxkit.base.rules.text import plural
from ktxkit.gates import inputs
from ktxkit.gates.command import CONFIG as PRE_COMMIT
from ktxkit.gates.configuration import NAME
from ktxkit.gates.facts import NOT_A_FILE
from ktxkit.gates.plugin import PLAIN, Answer, Finding, Subject
from ktxkit.gates.rules import markdown, source, swallow
from ktxkit.gates.rules.model import GateOptions, Layer, kind_of
from ktxkit.gates.rules.targets import RawFacts, Targets, is_kept
from ktxkit.store.world import World

JSON = (".json", ".jsonc", ".geojson", ".webmanifest", ".ipynb")
JSON_LINES = (".jsonl", ".ndjson")
STRUCTURED = (*JSON, *JSON_LINES, ".yaml", ".yml", ".toml")
MARKDOWN = (".md", ".markdown", ".mdown", ".mkd", ".mkdn", ".mdwn")
# JSON in which their programs take comments.
COMMENTED = ("**/tsconfig*.json", "**/jsconfig*.json", ".vscode/*.json", "**/.vscode/*.json", ".devcontainer/**",
             "**/devcontainer.json", "**/.eslintrc.json", "**/*.jsonc", "**/.babelrc.json")  # fmt: skip
# SchemaStore's name of the schema of a file that many repositories have.
SCHEMAS = {
    ".github/workflows/*.yml": "github-workflow.json",
    ".github/workflows/*.yaml": "github-workflow.json",
    ".github/dependabot.yml": "dependabot-2.0.json",
    "**/action.yml": "github-action.json",
    "**/package.json": "package.json",
    ".pre-commit-config.yaml": "pre-commit-config.json",
    ".gitlab-ci.yml": "gitlab-ci.json",
    "mkdocs.yml": "mkdocs-1.0.json",
    "**/docker-compose*.yml": "compose-spec.json",
    "**/compose.yaml": "compose-spec.json",
    "renovate.json": "renovate.json",
    "**/dbt_project.yml": "dbt_project-latest.json",
}
SCHEMA_FOLDERS = ("schemas", ".schemas", "schema")
MAX_BYTES = 1_000_000  # of a file, unless `settings: {maxBytes: N}` says otherwise
_MARK = re.compile(rb"^(<{7,}|={7}|>{7,})( [^\r\n]*)?\r?$", re.MULTILINE)  # of seven; more by conflict-marker-size


def check_syntax(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """JSON, YAML and TOML that nothing can read; and what departs from a schema of the tree that has its name."""
    chosen = _named(subject, settings, STRUCTURED)
    found = [
        one for path, data in subject.each(chosen) for one in unreadable(path, data) or _departures(subject, path, data)
    ]
    templates = [one for one in found if one.level == "advice"]
    said = f"{plural(len(chosen), 'file')}, {plural(len(templates), 'template')} not read" if templates else ""
    return Answer([one for one in found if one not in templates], len(chosen), said)


def _named(subject: Subject, settings: Mapping[str, Any], suffixes: tuple[str, ...]) -> list[bytes]:
    """The files that the gate's entry names, or else those with one of the suffixes, in letters of any case."""
    patterns = settings.get("files", ())
    return [one for one in subject.chosen(patterns) if patterns or text(one).lower().endswith(suffixes)]


def unreadable(path: bytes, data: bytes) -> list[Finding]:
    """Why nothing can read a JSON, YAML or TOML file; empty where something can. Never raises."""
    name = text(path).lower()
    try:
        said = data.decode("utf-8").removeprefix("\ufeff")
        if name.endswith(".toml"):
            tomllib.loads(said)
        elif name.endswith(JSON):
            bare = said if not any(matches(one, text(path)) for one in COMMENTED) else _without_comments(said)
            _load_json(bare)
        elif name.endswith(JSON_LINES):
            return [one for n, line in enumerate(said.split("\n"), 1) for one in _wrong_line(path, n, line)][:1]
        elif (wrong := _in_yaml(said)) is not None:
            place = wrong.line, wrong.column
            return [Finding("syntax", path, f"not YAML: {wrong.message}", *place, level=wrong.level, gate="syntax")]
    except UnicodeDecodeError as error:
        return [Finding("syntax", path, f"not UTF-8: byte 0x{data[error.start]:02x}", gate="syntax")]
    except json.JSONDecodeError as error:
        return [Finding("syntax", path, f"not JSON: {error.msg}", error.lineno, error.colno, gate="syntax")]
    except tomllib.TOMLDecodeError as error:
        return [Finding("syntax", path, f"not TOML: {error}", gate="syntax")]
    except RecursionError:
        return [Finding("syntax", path, "nested deeper than what is read", gate="syntax")]
    except _NoJson as error:
        return [Finding("syntax", path, f"not JSON: {error}", gate="syntax")]
    return []


def _load_json(said: str) -> Any:
    return json.loads(said, parse_constant=_no_constant, object_pairs_hook=_each_once)


def _wrong_line(path: bytes, number: int, line: str) -> list[Finding]:
    """What is wrong with a line of JSON Lines; a blank one is none."""
    try:
        if line.strip():
            _load_json(line)
    except json.JSONDecodeError as error:
        return [Finding("syntax", path, f"not JSON: {error.msg}", number, error.colno, gate="syntax")]
    except _NoJson as error:
        return [Finding("syntax", path, f"not JSON: {error}", number, 1, gate="syntax")]
    return []


class _NoJson(Exception):
    """What Python takes for JSON, and others do not, or each in its own way."""


def _no_constant(name: str) -> Any:
    raise _NoJson(f"{name} is no number of JSON")


def _each_once(pairs: list[tuple[str, Any]]) -> Any:
    made = dict(pairs)
    if len(made) < len(pairs):
        (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise _NoJson(f"the key {key[:80]!r} stands twice in one object")
    return made


_COMMENTS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_LAST_COMMAS = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])')


def _without_comments(said: str) -> str:
    """JSON without the comments and last commas that some programs take; every line stays where it is."""
    for taken in (_COMMENTS, _LAST_COMMAS):
        said = taken.sub(lambda one: one[0] if one[0][0] == '"' else re.sub(r"[^\n]", " ", one[0]), said)
    return said


_TEMPLATE = re.compile(r"(?<!\$)\{\{|\{%")


def _in_yaml(said: str) -> YamlProblem | None:
    """What is wrong with a file of YAML documents. What is none, but the template of one (`{{`, `{%`), is worth advice:
    what its program makes of it is not in the tree."""
    problem = strict_yaml.loading_problem(said)
    is_template = problem is not None and problem.rule == "yaml-syntax" and _TEMPLATE.search(said)
    return problem._replace(level="advice") if problem is not None and is_template else problem


def _departures(subject: Subject, path: bytes, data: bytes) -> Iterator[Finding]:
    """By the schema that SchemaStore has for files of that name, if the tree holds it; and by that of where the
    configuration was read, so that no change can loosen or remove what it is judged by."""
    wanted = next((schema for pattern, schema in SCHEMAS.items() if matches(pattern, text(path))), None)
    places = [f"{folder}/{wanted}".encode() for folder in SCHEMA_FOLDERS] if wanted else []
    trusted = subject.trusted or (lambda _: None)
    for place in (one for one in places if one != path):
        own = subject.read(place) if place in subject.files and subject.files[place][0] in PLAIN else None
        if own is None and trusted(place) is None:
            continue
        told = set()
        for rules, origin in ((own, ""), (trusted(place), f" {subject.trusted_name}")):
            if rules is None or (origin and rules == own):
                continue
            for one in problems(path, data, contracts.foreign(rules, text(place))):
                message = f"{one.message} (by {text(place)}{origin})"
                if one not in told:
                    yield Finding(one.rule, path, message, one.line, one.column, hint=one.hint, gate="syntax")
                told.add(one)
        return


def _is_markdown(path: bytes) -> bool:
    return text(path).lower().endswith(MARKDOWN)


class _Pages:
    """The pages of a tree, each read once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._read: dict[bytes, tuple[markdown.Body, YamlProblem | None]] = {}

    def body(self, path: bytes) -> markdown.Body:
        return self._of(path)[0]

    def unread(self, path: bytes) -> YamlProblem | None:
        """Why a page cannot be read: where it leads is not known then, and that is told."""
        return self._of(path)[1]

    def anchors(self, path: bytes) -> tuple[str, ...] | None:
        there = _is_markdown(path) and path in self._subject.files and self._subject.files[path][0] in PLAIN
        return self.body(path).anchors if there and self.unread(path) is None else None

    def _of(self, path: bytes) -> tuple[markdown.Body, YamlProblem | None]:
        if path not in self._read:
            said, problem = markdown.decode(self._subject.read(path))
            body = markdown.Body() if problem is not None else _body(said)
            self._read[path] = body, problem or next(iter(body.problems), None)
        return self._read[path]


def _body(said: str) -> markdown.Body:
    """A page without its front matter; a rule at its top (`---`) begins none."""
    parts = markdown.split(said)
    if parts.front is None:
        return markdown.read(said)
    root = strict_yaml.read_text(parts.front).root
    is_front = root.kind == "map" if root is not None else not parts.front.strip()
    return markdown.read(parts.body, parts.body_line) if is_front else markdown.read(said)


def check_links(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Links and images of Markdown that lead to no file of the tree, or to no heading of it. Where a change takes a
    file away, or touches headings, all pages are looked at."""
    touched = subject.touched
    wide = touched is not None and any(one not in subject.files or _is_markdown(one) for one in touched)
    chosen = _named(replace(subject, touched=None) if wide else subject, settings, MARKDOWN)
    pages = _Pages(subject)
    known = RawFacts(subject.files, frozenset(), Layer())
    targets = Targets(known, GateOptions(), pages.anchors)
    found = []
    for path in chosen:
        why = pages.unread(path)
        if why is not None:
            message = f"no link of it was looked at: {why.message}"
            place = why.line, why.column
            found.append(Finding(why.rule, path, message, *place, hint=why.hint, level="warning", gate="links"))
            continue
        for span in (one for one in pages.body(path).targets if is_kept(one.text)):
            wrong = targets.broken(span.text.strip(), path, pages.body(path).anchors)
            if wrong is not None:
                hint = f"did you mean {wrong.near[0]}?" if wrong.near else "add it, or take the link out"
                said = (
                    wrong.rule,
                    path,
                    wrong.message,
                    span.line,
                    span.column,
                    span.text.strip(),
                    (),
                    wrong.near,
                    hint,
                )
                found.append(Finding(*said, gate="links"))
    return Answer(found, len(chosen))


def check_markers(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """What a merge leaves in a file that nobody settled."""
    chosen = subject.chosen(settings.get("files", ()))
    found = []
    for path, data in subject.each(chosen):
        left = _left_open(data) if b"\0" not in data[:8000] else None
        if left is not None:
            line, last = (data.count(b"\n", 0, at) + 1 for at in left)
            is_one = last == line
            message = (
                "this looks like what is left of a merge" if is_one else f"a merge left this open, up to line {last}"
            )
            level = "warning" if is_one else ""
            found.append(Finding("merge-marker", path, message, line, 1, hint="settle it", level=level, gate="markers"))
    return Answer(found, len(chosen))


def _left_open(data: bytes) -> tuple[int, int] | None:
    """Where the first conflict begins and ends: as git writes it, or a mark with its label that is left of one."""
    opened: re.Match[bytes] | None = None
    middle: re.Match[bytes] | None = None
    for mark in _MARK.finditer(data):
        if mark[1].startswith(b"<"):
            opened = opened or mark
        elif mark[1].startswith(b"="):
            middle = mark if mark[2] is None else middle
        elif opened is not None:
            return opened.start(), mark.start()
        elif middle is not None and mark[2] and len(mark[1]) == len(middle[1]):
            return middle.start(), mark.start()
    if opened is None or not opened[2] or len(opened[1]) > 7:
        return None
    return opened.start(), middle.start() if middle is not None and middle.start() > opened.start() else opened.start()


def check_large(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Files that are larger than a repository is for."""
    said = settings.get("settings") or {}
    odd = sorted(key for key in said if key != "maxBytes" and not key.startswith("x-"))
    if odd:
        raise CannotRun(
            f"there is no setting {odd[0]!r}", location="the gate large", hint="settings: {maxBytes: 1000000}"
        )
    limit = said.get("maxBytes", MAX_BYTES)
    if not isinstance(limit, int) or limit < 1:
        raise CannotRun(
            "maxBytes is a number of bytes", location="the gate large", hint="settings: {maxBytes: 1000000}"
        )
    chosen = subject.chosen(settings.get("files", ()))
    hint = "keep it elsewhere (Git LFS), or raise `settings: {maxBytes: N}`"
    sizes = ((path, len(data)) for path, data in subject.each(chosen))
    told = [(path, f"{size} bytes are more than {limit}") for path, size in sizes if size > limit]
    return Answer([Finding("large-file", path, why, hint=hint, gate="large") for path, why in told], len(chosen))


STARTER = """# Gates of this repository: what is committed, merged and pushed has to pass them.
# `gate-check --explain list` shows the rules; `git ktx help gates-config` has the other gates.
gates:
  - gate: syntax    # JSON, YAML and TOML that can be read; by schemas/NAME where that is SchemaStore's for the file
  - gate: links     # links of Markdown lead to files and headings that are there
  - gate: markers   # no <<<<<<< that a merge left
  - gate: large
    settings: {{maxBytes: {limit}}}
{more}  # - gate: command
  #   name: tests
  #   run: make test
"""


def gates_something(world: World) -> bool:
    """Whether any gate applies to what the index holds: one that is configured, or the one of artifacts."""
    listed = inputs.index(world) if world.repository.top is not None else None
    if listed is None or NAME.encode() in listed.files:
        return True
    return any(kind_of(path, b"") for path in map(inputs.path_of, listed.lines))


NOTHING = (  # one line: hooks say it at each commit
    f"no gate applies here yet: no {NAME}, semantic-layer/ or wiki/; `git ktx install-hooks --starter` adds some"
)


def next_step(world: World) -> list[str]:
    """What to say where nothing was looked at: nothing where a gate applies to the repository."""
    if gates_something(world):
        return []
    return (inputs.not_added(world, inputs.index(world)) if world.repository.top is not None else []) or [NOTHING]


def write_starter(world: World) -> str:
    """Write a `ktx-gates.yaml` of these gates into the checkout; returns its path. Raises Refused if one is there."""
    top = world.repository.top
    if top is None:
        raise CannotRun("a bare repository has no checkout to write into", hint="run it in a checkout")
    place = top / NAME
    if place.exists() or place.is_symlink():
        raise Refused(f"{NAME} is there already", location=str(place), hint="`git ktx help gates-config` has its keys")
    listed = inputs.index(world).files
    more = "  - gate: pre-commit\n" if PRE_COMMIT in listed or (top / text(PRE_COMMIT)).exists() else ""
    more += "  - gate: artifacts\n" if any(kind_of(path, b"") for path in listed) else ""
    files.write_atomic(place, STARTER.format(limit=MAX_BYTES, more=more).encode(), mode=0o644)
    return str(place)


FIRST = "a schema that allows it has to be landed before it"


def check(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Judge the files that `files` names by the schema file that `schema` names, both of the tree; and what is touched
    by the schema of where the configuration was read too, so that no change can loosen what it is judged by.

    A link or a submodule among them is a finding: what its readers get is not what stands in the tree there.
    """
    where = str(settings["schema"])
    path = where.encode("utf-8", "surrogateescape")
    is_there = path in subject.files and subject.files[path][0] in PLAIN
    if not is_there and subject.is_base:
        return Answer()  # it judged nothing, so that nothing is inherited
    if not is_there:
        raise CannotRun("the schema of a gate is no file of the tree", location=where, hint="see ktx-gates.yaml")
    rules = subject.read(path)
    try:
        validator = contracts.foreign(rules, where)
    except CannotRun:
        if subject.is_base:
            return Answer()
        raise
    former = _former(subject, path, where)
    patterns = settings.get("files", ())
    whole = subject.touched is not None and path in subject.touched  # a new schema judges all of its files
    chosen = subject.anywhere(patterns) if whole else subject.chosen(patterns, ())
    found = list(_doubts(path, json.loads(rules)))
    for name, data in subject.each(chosen):
        found += _findings(name, data, validator)
        if former is not None and (subject.touched is None or name in subject.touched):
            found += _findings(name, data, former, subject.trusted_name)
    odd = [_not_a_file(one, subject.files[one][0]) for one in subject.not_files(patterns, whole=whole)]
    return Answer([*found, *odd], len(chosen) + len(odd))


def _doubts(path: bytes, rules: Any) -> Iterator[Finding]:
    """Why a schema may refuse less than it seems to."""
    for key, near in source.misspelt_keywords(rules):
        message = f"{key!r} is no keyword of JSON Schema: it refuses nothing"
        yield Finding("schema-unknown-key", path, message, hint=f"did you mean {near}?", level="warning", gate="schema")
    if rules is True or (isinstance(rules, dict) and not source.ASSERTING & rules.keys()):
        message = "this schema refuses nothing: every file passes the gate"
        yield Finding("gate-idle", path, message, hint="say what a file has to be (`type`, `$ref`)", gate="schema")


def _former(subject: Subject, path: bytes, where: str) -> contracts.Foreign | None:
    """A judge by the schema of where the configuration was read; None where that is the tree's own, or is none."""
    data = subject.trusted(path) if subject.trusted is not None else None
    if data is None or data == subject.read(path):
        return None
    try:
        return contracts.foreign(data, where)
    except CannotRun:
        return None  # it let nothing pass: the change that mends it is judged by what it makes of it


def _not_a_file(path: bytes, mode: str) -> Finding:
    message = f"{NOT_A_FILE[mode]} stands where a file is expected: what it leads to was not looked at"
    return Finding("not-a-file", path, message, hint="commit a plain file", gate="schema")


def _findings(path: bytes, data: bytes, validator: contracts.Foreign, origin: str = "") -> Iterator[Finding]:
    """`origin`: of which schema it is, where not the tree's; it is no other finding than that of the tree's."""
    said, hint = (f" (by the schema {origin})", FIRST) if origin else ("", "")
    for one in problems(path, data, validator):
        same = one.message if origin else ""
        yield Finding(
            one.rule, path, one.message + said, one.line, one.column, same, hint=one.hint or hint, gate="schema"
        )


def problems(path: bytes, data: bytes, validator: contracts.Foreign) -> list[YamlProblem]:
    name = text(path).lower()
    if name.endswith(".toml"):
        return _by_value(data, validator, _toml, "TOML")
    parsed = strict_yaml.read(data)
    by_value = _by_value(data, validator, json.loads, "JSON") if name.endswith(".json") else []
    if parsed.root is not None and not any(one.message.startswith("not JSON: ") for one in by_value):
        return [*parsed.problems, *source.judged("", parsed.root, validator)]  # it knows the places
    if name.endswith(".json"):
        return list(parsed.problems) if by_value and parsed.problems else by_value
    return list(parsed.problems) or source.judged("", Node("scalar", 1, 1, 0, 0, None), validator)  # empty: null


def _toml(data: bytes) -> Any:
    """Its dates and times are text to a schema."""
    return json.loads(json.dumps(tomllib.loads(data.decode("utf-8")), default=str))


def _by_value(
    data: bytes, validator: contracts.Foreign, load: Callable[[bytes], Any], language: str
) -> list[YamlProblem]:
    """What YAML's reader does not take (JSON with tabs or surrogate pairs, TOML): judged without places."""
    try:
        value = load(data)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:  # it is none, or has half a character (a lone surrogate)
        if language == "JSON" and not _BARE.sub(b"", data):
            said = "comments alone are not JSON" if data.strip() else "an empty file is not JSON"
            return [YamlProblem("yaml-syntax", 1, 1, said, "write a value: null, {} or []")]
        return [YamlProblem("yaml-syntax", 1, 1, f"not {language}: {str(error)[:200]}")]
    return source.judged("", Node("scalar", 1, 1, 0, 0, value), validator)


_BARE = re.compile(rb"\s+|#[^\n]*")


def check_swallowed(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Judge the Python files that `files` names (default: all)."""
    chosen = subject.chosen(settings.get("files", ()), ("**/*.py", "**/*.pyw"))
    found: list[Finding] = []
    waived: list[Finding] = []
    for path, data in subject.each(chosen):
        problems, discarded = swallow.look(data)
        found += [_in_python(path, one) for one in problems]
        for one in discarded:
            (waived if one.waived else found).append(_in_python(path, one.problem, one.reference))
    return Answer(found, len(chosen), waived=waived)


def _in_python(path: bytes, one: YamlProblem, reference: str = "") -> Finding:
    return Finding(one.rule, path, one.message, one.line, one.column, reference, hint=one.hint, gate="swallow")
