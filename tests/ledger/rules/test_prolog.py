"""The generated Prolog rules and their Python twin decide alike: every form of every word, over every answer that the
ledger can give, and over the corpora. Facts reach Prolog by asking; none is asserted."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ktxkit.ledger import answers as lexicon
from ktxkit.ledger.exports import atom, rulebase
from ktxkit.ledger.rules.evidence import all_forms, rule
from tests.claims.test_corpora import ALLOW, DENY
from tests.support.browser import need
from tests.support.commands import BIN, call
from tests.support.suites import Suite

HARNESS = """
:- initialization(main, main).
% One query a line: verdict(Word, Subject). An atom is asked for by printing it; the answer is read.
user:ledger_verdict(Need, Subject, Verdict) :-
    format("ask ~w ~w~n", [Need, Subject]), flush_output,
    read_line_to_string(user_input, Line), atom_string(Verdict, Line).
main :- repeat, read_line_to_string(user_input, Line),
    ( Line == end_of_file -> halt ; term_string(Goal, Line), answer(Goal), fail ).
answer(verdict(Word, Subject)) :- lexicon:verdict(Word, Subject, V), !, format("is ~w~n", [V]), flush_output.
"""


class Prolog:
    """A Prolog that has loaded the rules."""

    def __init__(self, directory: Path) -> None:
        swipl = need(shutil.which("swipl"), "Debian's swi-prolog-nox")
        (directory / "lexicon.pl").write_text(rulebase(lexicon.load()), "utf-8")
        (directory / "main.pl").write_text(
            f":- use_module({atom(str(directory / 'lexicon.pl'))}).\n" + HARNESS, "utf-8"
        )
        self.child = subprocess.Popen(
            [swipl, directory / "main.pl"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def verdict(self, word: str, subject: str, answers: dict[str, str]) -> str:
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.write(f"verdict({atom(word)}, {atom(subject)})\n")
        self.child.stdin.flush()
        for line in self.child.stdout:
            kind, _, rest = line.strip().partition(" ")
            if kind == "is":
                return rest
            self.child.stdin.write(answers[rest.split(" ")[0]] + "\n")
            self.child.stdin.flush()
        raise AssertionError(self.child.stderr.read() if self.child.stderr else "no answer")


@pytest.fixture
def prolog(tmp_path: Path) -> Iterator[Prolog]:
    made = Prolog(tmp_path)
    yield made
    made.child.kill()
    made.child.communicate()


def test_every_rule_over_every_answer(prolog: Prolog) -> None:
    rules = lexicon.load()
    seen = set()
    words_of: list[tuple[Sequence[str], list[str]]] = []
    words_of += [(entry["needs"], [entry["word"], *entry.get("also", ())]) for entry in rules["words"]]
    words_of += [((), [entry["word"], *entry.get("also", ())]) for entry in rules["refused"]]
    for needs, forms in words_of:
        for form in forms:
            for words in itertools.product(("true", "false", "unknown"), repeat=len(needs)):
                answers = dict(zip(needs, words, strict=True))
                ours = rule(rules, form, "t", lambda need, _, known=answers: known[need])  # type: ignore[misc]
                assert prolog.verdict(form, "t", answers) == ours.verdict, (form, answers)
                seen.add(ours.verdict)
    assert seen == {"true", "false", "unknown", "refused"}


def test_the_corpora(prolog: Prolog) -> None:
    rules = lexicon.load()
    forms = list(all_forms(rules))
    answers = dict.fromkeys(("flaky", "order_dependent"), "true")
    verdicts: dict[str, str] = {}
    for message in [*ALLOW, *(text for _, text in DENY)]:
        for word in {form for form in forms if form in message.lower()} | set(message.lower().split()[:3]):
            if word not in verdicts:
                verdicts[word] = prolog.verdict(word, "t.py::x", _Unknown(answers))
            ours = rule(rules, word, "t.py::x", lambda need, _: answers.get(need, "unknown"))
            assert verdicts[word] == ours.verdict, (word, message)
    assert {"free", "true", "unknown", "refused"} <= set(verdicts.values())


class _Unknown(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "unknown"


BRIDGE = """
:- initialization(main, main).
:- use_module(library(http/json)).
main :- forall(asked(Name, Subject), (
        lexicon:ledger_verdict(Name, Subject, Verdict, Rows),
        told(_{name: Name, subject: Subject, verdict: Verdict, rows: Rows}))),
    lexicon:verdict(failing, 'test_m.py::test_b', Word, [Need-Evidence]), length(Evidence, Count),
    told(_{name: Need, subject: word, verdict: Word, rows: Count}).
told(Answer) :- json_write_dict(current_output, Answer, [width(0)]), nl.
asked(passed, last).
asked(full, 'last').
asked(failing, 'test_m.py::test_b').
asked(failing, 'test_m.py::test_a').
asked(measured_slow, 'test_m.py::test_a').
asked(flaky, 'test_m.py::test_a').
asked(passed, 'no such run').
asked(unheard_of, last).
"""


def test_the_bridge_asks_the_ledger_and_brings_the_rows(tmp_path: Path) -> None:
    """`ledger-query rules --prolog` as it is printed, loaded by a real Prolog, asks a real ledger."""
    swipl = need(shutil.which("swipl"), "Debian's swi-prolog-nox")
    suite = Suite.make(tmp_path / "s", {"test_m.py": "def test_a(): pass\ndef test_b(): assert 0\n"})
    suite.run()
    run = suite.record["run"]
    rules = call("ledger-query", "rules", "--prolog", cwd=suite.repo.path)
    (tmp_path / "lexicon.pl").write_text(rules.out, "utf-8")
    (tmp_path / "main.pl").write_text(f":- use_module({atom(str(tmp_path / 'lexicon.pl'))}).\n" + BRIDGE, "utf-8")
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    argv = [swipl, str(tmp_path / "main.pl")]
    done = subprocess.run(argv, cwd=suite.repo.path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    found = {(one["name"], one["subject"]): one for one in map(json.loads, done.stdout.splitlines())}
    verdicts = {key: str(one["verdict"]).lower() for key, one in found.items()}
    assert verdicts == {
        ("passed", "last"): "false",
        ("full", "last"): "true",
        ("failing", "test_m.py::test_b"): "true",
        ("failing", "test_m.py::test_a"): "unknown",
        ("measured_slow", "test_m.py::test_a"): "false",
        ("flaky", "test_m.py::test_a"): "unknown",
        ("passed", "no such run"): "unknown",
        ("unheard_of", "last"): "unknown",
        ("failing", "word"): "true",
    }
    (row,) = found["failing", "test_m.py::test_b"]["rows"]
    assert (row["run"], row["outcome"]) == (run, "failed") and found["failing", "word"]["rows"] == 1
    assert found["passed", "no such run"]["rows"] == []


def test_no_fact_is_in_the_rulebase() -> None:
    text = rulebase(lexicon.load())
    clauses = re.findall(r"^(\w+)\('.*\)\.$", text, re.MULTILINE)
    assert set(clauses) <= {"word", "refused", "needs", "instead"}, "rules and words only; nothing measured"


@pytest.mark.parametrize("text", ["it's", "back\\slash", "new\nline", "ünï", "a b"])
def test_atoms_stand_for_their_text(prolog: Prolog, text: str) -> None:
    assert prolog.verdict(text, text, {}) == "free"
