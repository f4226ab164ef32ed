"""Gates that any repository has use for: syntax, links of Markdown, merge markers, large files; and the file that names
them for a repository that has none yet (`git ktx install-hooks --starter`).

Gate `schema`: JSON or YAML files that must follow a JSON Schema of the repository.

Gate `swallow`: exceptions that Python code discards.
"""

from __future__ import annotations

import collections
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from ktxkit.base import contracts, files
from ktxkit.base.errors import CannotRun, Refused
from ktxkit.base.rules import strict_yaml
from ktxkit.base.rules.patterns import matches, text
from ktxkit.base.rules.strict_yaml import Node, YamlProblem
from ktxkit.gates import inputs
from ktxkit.gates.command import CONFIG as PRE_COMMIT
from ktxkit.gates.configuration import NAME
from ktxkit.gates.facts import NOT_A_FILE
from ktxkit.gates.plugin import PLAIN, Answer, Finding, Subject
from ktxkit.gates.rules import markdown, source, swallow
from ktxkit.gates.rules.model import GateOptions, Layer, kind_of
from ktxkit.gates.rules.targets import RawFacts, Targets, is_kept
from ktxkit.store.world import World

STRUCTURED = ("**/*.json", "**/*.yaml", "**/*.yml", "**/*.toml")
MARKDOWN = ("**/*.md", "**/*.markdown")
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
_OPEN = re.compile(rb"^<{7}(?: .*)?\r?$", re.MULTILINE)
_CLOSE = re.compile(rb"^>{7}(?: .*)?\r?$", re.MULTILINE)


def check_syntax(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """JSON, YAML and TOML that nothing can read; and what departs from a schema of the tree that has its name."""
    chosen = subject.chosen(settings.get("files", ()), STRUCTURED)
    found = [
        one
        for path, data in subject.each(chosen)
        for one in _unreadable(path, data) or _departures(subject, path, data)
    ]
    return Answer(found, len(chosen))


def _unreadable(path: bytes, data: bytes) -> list[Finding]:
    name = text(path)
    try:
        said = data.decode("utf-8").removeprefix("\ufeff")
        if name.endswith(".toml"):
            tomllib.loads(said)
        elif name.endswith(".json"):
            if not any(matches(one, name) for one in COMMENTED):
                json.loads(said)
        elif "{{" not in said and "{%" not in said:  # else the template of a file
            collections.deque(strict_yaml.events(said), maxlen=0)
    except UnicodeDecodeError as error:
        return [Finding("syntax", path, f"not UTF-8: byte 0x{data[error.start]:02x}", gate="syntax")]
    except json.JSONDecodeError as error:
        return [Finding("syntax", path, f"not JSON: {error.msg}", error.lineno, error.colno, gate="syntax")]
    except tomllib.TOMLDecodeError as error:
        return [Finding("syntax", path, f"not TOML: {error}", gate="syntax")]
    except RecursionError:
        return [Finding("syntax", path, "nested deeper than what is read", gate="syntax")]
    except strict_yaml.syntax_errors() as error:
        problem = strict_yaml.syntax_problem(error, said)
        return [Finding("syntax", path, f"not YAML: {problem.message}", problem.line, problem.column, gate="syntax")]
    return []


def _departures(subject: Subject, path: bytes, data: bytes) -> Iterator[Finding]:
    """By the schema that SchemaStore has for files of that name, if the tree holds it."""
    wanted = next((schema for pattern, schema in SCHEMAS.items() if matches(pattern, text(path))), None)
    places = [f"{folder}/{wanted}".encode() for folder in SCHEMA_FOLDERS] if wanted else []
    place = next((one for one in places if one in subject.files and one != path), None)
    if place is None:
        return
    validator = contracts.foreign(subject.read(place), text(place))
    for one in problems(path, data, validator):
        message = f"{one.message} (by {text(place)})"
        yield Finding(one.rule, path, message, one.line, one.column, hint=one.hint, gate="syntax")


def check_links(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Links and images of Markdown that lead to no file of the tree, or to no heading of it. Where a change takes a
    file away, or touches headings, all pages are looked at."""
    patterns = settings.get("files", ()) or MARKDOWN
    touched = subject.touched
    wide = touched is not None and any(one not in subject.files or one.endswith(b".md") for one in touched)
    chosen = subject.anywhere(patterns) if wide else subject.chosen(patterns)
    bodies: dict[bytes, markdown.Body] = {}

    def body(path: bytes) -> markdown.Body:
        if path not in bodies:
            parts = markdown.split(subject.read(path).decode("utf-8", "replace").removeprefix("\ufeff"))
            bodies[path] = markdown.read(parts.body, parts.body_line)
        return bodies[path]

    def anchors(path: bytes) -> tuple[str, ...] | None:
        return body(path).anchors if path.endswith((b".md", b".markdown")) and path in subject.files else None

    known = RawFacts(subject.files, frozenset(), Layer())
    targets = Targets(known, GateOptions(), anchors)
    found = []
    for path in chosen:
        for span in (one for one in body(path).targets if is_kept(one.text)):
            wrong = targets.broken(span.text.strip(), path, body(path).anchors)
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
        opened = _OPEN.search(data) if b"\0" not in data[:8000] else None
        closed = _CLOSE.search(data, opened.end()) if opened is not None else None
        if opened is not None and closed is not None:
            line, last = (data.count(b"\n", 0, one.start()) + 1 for one in (opened, closed))
            message = f"a merge left this open, up to line {last}"
            found.append(Finding("merge-marker", path, message, line, 1, gate="markers", hint="settle it"))
    return Answer(found, len(chosen))


def check_large(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Files that are larger than a repository is for."""
    limit = (settings.get("settings") or {}).get("maxBytes", MAX_BYTES)
    if not isinstance(limit, int) or limit < 1:
        raise CannotRun(
            "maxBytes is a number of bytes", location="the gate large", hint="settings: {maxBytes: 1000000}"
        )
    chosen = subject.chosen(settings.get("files", ()))
    hint = "keep it elsewhere (Git LFS), or raise `settings: {maxBytes: N}`"
    sizes = ((path, len(data)) for path, data in subject.each(chosen))
    told = [(path, f"{size} bytes are more than {limit}") for path, size in sizes if size > limit]
    return Answer([Finding("large-file", path, said, hint=hint, gate="large") for path, said in told], len(chosen))


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


NOTHING = (
    f"no gate applies here yet: there is no {NAME}, semantic-layer/ or wiki/\n"
    f"  hint: git ktx install-hooks --starter writes a {NAME} of gates for any repository; --root names another place"
)


def next_step(world: World) -> list[str]:
    """What to say where nothing was looked at: nothing where a gate applies to the repository."""
    return [] if gates_something(world) else [NOTHING]


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
    if path not in subject.files or subject.files[path][0] not in PLAIN:
        raise CannotRun("the schema of a gate is no file of the tree", location=where, hint="see ktx-gates.yaml")
    validator = contracts.foreign(subject.read(path), where)
    former = _former(subject, path, where)
    patterns = settings.get("files", ())
    whole = subject.touched is not None and path in subject.touched  # a new schema judges all of its files
    chosen = subject.anywhere(patterns) if whole else subject.chosen(patterns, ())
    found: list[Finding] = []
    for name, data in subject.each(chosen):
        found += _findings(name, data, validator)
        if former is not None and (subject.touched is None or name in subject.touched):
            found += _findings(name, data, former, subject.trusted_name)
    odd = [_not_a_file(one, subject.files[one][0]) for one in subject.not_files(patterns, whole=whole)]
    return Answer([*found, *odd], len(chosen) + len(odd))


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
    parsed = strict_yaml.read(data)
    if parsed.root is not None:
        return [*parsed.problems, *source.judged("", parsed.root, validator)]
    if not path.endswith(b".json"):  # a YAML document without content is null
        return list(parsed.problems) or source.judged("", Node("scalar", 1, 1, 0, 0, None), validator)
    try:  # JSON that YAML does not take (tabs, surrogate pairs): judged without places
        value = json.loads(data)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # no JSON either, or half a character (a lone surrogate)
        said = "comments alone are not JSON" if data.strip() else "an empty file is not JSON"
        return list(parsed.problems) or [YamlProblem("yaml-syntax", 1, 1, said, "write a value: null, {} or []")]
    return source.judged("", Node("scalar", 1, 1, 0, 0, value), validator)


def check_swallowed(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Judge the Python files that `files` names (default: all)."""
    chosen = subject.chosen(settings.get("files", ()), ("**/*.py",))
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
