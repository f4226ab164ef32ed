"""What a run covered: derived from what happened, never from what was declared; and whether it may be relied upon.

`full` only where no argument narrowed, no option narrowed, nothing was deselected or lost, no module failed to collect,
and all that was selected started and finished. Whatever is not known is not full.

Whether a shell command runs pytest without the runner. Only what is a command counts: a word in a text does not.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from ktxkit.ledger.rules.fold import FINISHED, IMPORTED

if TYPE_CHECKING:
    from ktxkit.base.documents import RunRecord, RunRecordScope

WHOLE = ("testpaths", "invocation_dir", "addopts")  # pytest's own choice of arguments
WHY_SHOWN = 20
PATHS_SHOWN = 3
CHANGED = "the tree changed while it ran"
HOLD_STILL = "run the tests again while nothing edits; what tests write themselves belongs in .gitignore"
WAY_OUT = " (commit it, or declare what is made or local: ledger.generated in a committed .ktx-config.yaml)"


def requested(record: Mapping[str, Any]) -> RunRecordScope:
    """What the arguments asked for, of a record or a run's first event; the only scope a run has while it goes on."""
    selection = record.get("selection", {})
    why = [f"{one['option']} {one['value']}".strip() for one in selection.get("narrowing", ())]
    if record.get("mode", "run") != "run":
        return {"kind": "none", "why": [f"nothing is executed: {record['mode']}"]}
    if record.get("trigger") == IMPORTED:
        return {"kind": "partial", "why": ["it was imported: what it left out was not seen here", *why][:WHY_SHOWN]}
    if record.get("runner", {}).get("affected", {}).get("missed"):
        return {"kind": "partial", "why": ["a proof shows that tests are needed which this selection leaves out"]}
    if selection.get("declared") == "affected" or record.get("declared") == "affected":
        return {"kind": "affected", "why": why[:WHY_SHOWN]} if why else {"kind": "affected"}
    if why:
        return {"kind": "partial", "why": why[:WHY_SHOWN]}
    source = selection.get("argsSource", "unknown")
    if source in WHOLE:
        own = as_configured(selection)
        return {"kind": "full", "why": [own]} if own else {"kind": "full"}
    if source != "args":
        return {"kind": "partial", "why": ["where the arguments came from is not known"]}
    paths = selection.get("paths", [])
    if any("::" in path for path in paths):
        return {"kind": "partial", "why": ["node ids"], "paths": paths[:WHY_SHOWN]}
    single = len(paths) == 1 and paths[0].endswith(".py")
    return {"kind": "module" if single else "modules", "paths": paths[:WHY_SHOWN]}


def as_configured(selection: Mapping[str, Any]) -> str:
    """What the project's own configuration leaves out of every run, in words; empty where it leaves out nothing."""
    options = selection.get("configured", ())
    if not options:
        return ""
    told = [one["value"] if one["option"] in ("-m", "-k") else f"{one['option']} {one['value']}" for one in options]
    return f"as addopts has it: {', '.join(told)}"


def derive(record: RunRecord) -> RunRecordScope:
    """The scope of a run that has ended: what was asked for, unless something kept it from being covered."""
    wanted = requested(record)
    why = uncovered(record)
    if wanted["kind"] == "full" and not why:
        return wanted
    why = [*wanted.get("why", []), *why]
    if not why:
        return wanted
    made: RunRecordScope = {"kind": "none" if wanted["kind"] == "none" else "partial", "why": why[:WHY_SHOWN]}
    if "paths" in wanted:
        made["paths"] = wanted["paths"]
    return made


def uncovered(record: RunRecord) -> list[str]:
    """Each reason why what was asked for was not covered."""
    counts: Mapping[str, Any] = record["counts"]
    why = []
    if record["state"] != FINISHED:
        why.append(f"the run is {record['state']}")
    deselected = counts.get("deselected", 0) - counts.get("deselectedByConfiguration", 0)
    if deselected:
        why.append(f"{deselected} deselected")
    for key, text in (
        ("removed", "{} removed from the collection without a word"),
        ("collectionErrors", "{} not collected: errors"),
        ("notRun", "{} never ran"),
        ("interrupted", "{} interrupted"),
    ):
        if counts.get(key):
            why.append(text.format(counts[key]))
    for key in ("selected", "deselected"):
        if key not in counts and record["state"] == FINISHED:
            why.append(f"how many were {key} is not known")
    if record.get("unversioned"):
        why.append(in_no_commit(record["unversioned"]))
    lost = record.get("lost", {})
    if any(lost.get(key) for key in ("dropped", "faults", "torn")):
        why.append("the recording is incomplete")
    return why


def in_no_commit(names: Sequence[str]) -> str:
    """What took part in a run and is in no commit, in words."""
    return f"in no commit, and part of the run: {_first(names)}"[: 2500 - len(WAY_OUT)] + WAY_OUT


def less_than(scope: RunRecordScope, before: Sequence[str] | None, ids: Sequence[str] | None) -> RunRecordScope:
    """The scope of a full run whose tree ran in full before: partial where it lacks ids, or they are not known."""
    if before is None or ids is None:
        why = "whether it lacks tests of the last full run of this tree is not known: a list of ids is gone"
        return {"kind": "partial", "why": [why]}
    lacks = len(set(before) - set(ids))
    return {"kind": "partial", "why": [f"lacks {lacks} tests of the last full run of this tree"]} if lacks else scope


def against_authority(record: RunRecord) -> list[str]:
    """Each reason why a run is not authoritative; none: it is, for the tree it ran on and no other."""
    why = []
    if record["scope"]["kind"] != "full":
        why.append(f"its scope is {record['scope']['kind']}")
    if record.get("trigger") == IMPORTED:
        why.append("it was imported: anybody can write such a file")
    elif not record.get("managed"):
        why.append("it was not started by test-run: nobody verified the preconditions")
    if record.get("parent"):
        why.append("it ran inside another run")
    tree, after = record.get("tree", {}), record.get("treeAfter", {})
    if not tree.get("tree"):
        why.append(f"the tree it ran on is not known{': ' + tree['why'] if tree.get('why') else ''}")
    elif tree["tree"] != after.get("tree"):
        why.append(changed_meanwhile(tree, after) if after.get("tree") else "the tree at its end is not known")
    changing = record.get("selection", {}).get("changing", ())
    why += [f"the caller lets more pass: {one['option']} {one['value']}".rstrip() for one in changing]
    why += [f"precondition {one['name']} failed" for one in record.get("preconditions", ()) if not one["verified"]]
    return why


def changed_meanwhile(tree: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """That a tree changed, and where: paths that only its end or only its beginning has as changed, another commit, or
    what was edited before already."""
    paths = sorted({*tree.get("changed", ())} ^ {*after.get("changed", ())})
    text, known = "", tree.get("changed", ())
    if paths:
        text = f": {_first(paths)}"
    elif tree.get("commit") != after.get("commit"):
        text = f": HEAD moved from {str(tree.get('commit'))[:12]} to {str(after.get('commit'))[:12]}"
    elif known:
        text = f": {'' if len(known) == 1 else 'one of '}{_first(known)} (edited before it began, too)"
    return f"{CHANGED}{text}"


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:PATHS_SHOWN]) + (" ..." if len(names) > PATHS_SHOWN else "")


_NUMBER = re.compile(r"[0-9.]+[smhd]?")
PREFIXES = {
    "env",
    "time",
    "nice",
    "nohup",
    "exec",
    "command",
    "sudo",
    "timeout",
    "xvfb-run",
    "stdbuf",
    "ionice",
    "xargs",
    "{}",
}
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "busybox"}
DEEPEST = 5  # commands within commands
EXEC = {"-exec", "-execdir", "-ok", "-okdir"}  # find(1)
RUNNERS = {("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("hatch", "run"), ("pdm", "run"), ("rye", "run")}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_PYTEST = re.compile(r"(?:.*/)?(?:pytest|py\.test)(?:-3)?")
ENDS = {";", "&&", "||", "|", "&", "\n", "(", ")", "{", "}", "then", "do", "else", "!", "if", "while"}


def bare(command: str, depth: int = DEEPEST) -> str:
    """The part of a command line that runs pytest by itself; empty where none does."""
    for words in _commands(command):
        if _runs_pytest(words):
            return " ".join(words)
    if depth == 0:
        return ""
    within = [text for words in _commands(command) for text in _handed_on(words)] + _substituted(command)
    return next((found for text in within if (found := bare(text, depth - 1))), "")


def _handed_on(words: list[str]) -> list[str]:
    """Texts that a command gives to a shell, or to itself: `bash -c TEXT`, `eval TEXT`, `find -exec COMMAND`."""
    found = [" ".join(words[at + 1 :]) for at, word in enumerate(words) if word in EXEC and "find" in words[0]]
    plain = [_plain(word) for word in words]
    for at, word in enumerate(plain):
        if word == "eval":
            return [*found, " ".join(plain[at + 1 :])]
        if word.rsplit("/", 1)[-1] in SHELLS:
            return [*found, *_text_of_shell(plain[at + 1 :])]
        if not (_ASSIGNMENT.match(word) or word.startswith("-") or word.rsplit("/", 1)[-1] in PREFIXES):
            break
    return found


def _text_of_shell(words: list[str]) -> list[str]:
    """The text after the options of `sh -c`. A script's own arguments are none of the shell's."""
    asked, skip = False, False
    for word in words:
        if skip:
            skip = False
        elif word.startswith(("-", "+")):
            asked = asked or (word.startswith("-") and not word.startswith("--") and "c" in word)
            skip = word.endswith("o") and not word.startswith("--")  # -o pipefail
        else:
            return [word] if asked else []
    return []


def _plain(word: str) -> str:
    if len(word) > 1 and word[0] == word[-1] == "'":
        return word[1:-1]
    if len(word) > 1 and word[0] == word[-1] == '"':
        return re.sub(r'\\(["\\$`])', r"\1", word[1:-1])
    return word


def _substituted(text: str) -> list[str]:
    """What `$(...)` and backticks run, also within double quotes; single quotes hold no command."""
    open_text = re.sub(r"""("(?:\\.|[^"\\])*")|'[^']*'""", lambda found: found[1] or "''", text, flags=re.DOTALL)
    ticks = open_text.split("`")[1::2]
    return ticks + [part.partition(")")[0] for part in open_text.split("$(")[1:]]


def _commands(text: str) -> list[list[str]]:
    """The simple commands of a line: quoted text is one word, so that what it says is not taken for a command."""
    found: list[list[str]] = [[]]
    for word in _words(text):
        if word in ENDS:
            found.append([])
        else:
            found[-1].append(word)
    return [words for words in found if words]


def _words(text: str) -> list[str]:
    token = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s;&|()'"\\])+|&&|\|\||[;&|()\n]""", re.DOTALL)
    return [found[0] for found in token.finditer(text)]


def _runs_pytest(words: list[str]) -> bool:
    words = list(words)
    while words:
        first = words[0].strip("'\"")
        if (
            _ASSIGNMENT.match(first)
            or first.startswith("-")
            or re.fullmatch(r"[0-9.]+[smhd]?", first)
            or first.rsplit("/", 1)[-1] in PREFIXES
        ):
            words.pop(0)
        elif len(words) > 1 and (first, words[1]) in RUNNERS:
            del words[:2]
        else:
            break
    if not words:
        return False
    first = words[0].strip("'\"")
    if _PYTEST.fullmatch(first):
        return True
    return bool(_PYTHON.fullmatch(first)) and _module(words[1:]) in ("pytest", "py.test")


def after_pytest(words: Sequence[str]) -> int:
    """How many words name pytest at the beginning: `pytest`, `python -m pytest`; 0 where they are its arguments."""
    if words and _PYTEST.fullmatch(words[0]):
        return 1
    named = len(words) > 2 and _PYTHON.fullmatch(words[0]) and words[1] == "-m" and words[2] in ("pytest", "py.test")
    return 3 if named else 0


def separated(words: Sequence[str], valued: Container[str]) -> list[str]:
    """A command line with the `--` that `test-run pytest -q` leaves out; `valued` are options that take a value."""
    if "--" not in words:
        for at in range(len(words)):
            if after_pytest(words[at:]) and not (at and (words[at - 1] == "-m" or words[at - 1] in valued)):
                return [*words[:at], "--", *words[at:]]
    return list(words)


def _module(words: list[str]) -> str:
    """The module of `python ... -m MODULE`."""
    skip = False
    for at, word in enumerate(words):
        if skip or word in ("-X", "-W"):  # these take a value
            skip = not skip
            continue
        if word == "-m" and at + 1 < len(words):
            return words[at + 1]
        if word.startswith("-m") and len(word) > 2:
            return word[2:]
        if not word.startswith("-"):
            return ""
    return ""


PROSE = ("*.md", "*.rst")  # where the project says nothing (`claims.prose` in .ktx-config.yaml)
TEST_DATA = frozenset({"test", "tests", "testing", "testdata", "test_data", "fixtures", "golden", "snapshots"})
NEVER_PROSE = ("requirements*.txt", "constraints*.txt", "CMakeLists.txt", "conf.py", "conftest.py", ".ktx-config.yaml")


def is_prose(path: str, patterns: Sequence[str] = PROSE) -> bool:
    """Whether a file is read by people and by no test. A pattern without a slash is of names, in any directory.

    What tests or builds read is never prose, whatever a pattern says.
    """
    *folders, name = path.split("/")
    if TEST_DATA & set(folders) or any(fnmatch(name, pattern) for pattern in NEVER_PROSE):
        return False
    return any(fnmatch(path if "/" in pattern else name, pattern) for pattern in patterns)
