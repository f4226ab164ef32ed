"""Patterns of ECMA 262 for Python's `re`: beside what jsonschema-rs makes of them, on odd texts."""

from __future__ import annotations

import random
import re

import jsonschema_rs
import pytest

from ktxkit.base.rules.patterns import translated

PIECES = [
    "a", "b", "Z", "0", "_", "-", "^", "$", ".", "*", "+", "?", "|", "(", ")", "[", "]", "[^", "{", "}", "{2}", "{1,}",
    "{0,3}", ",", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\b", r"\B", r"\n", r"\r", r"\t", r"\/", r"\.", "\\\\",
    r"\-", r"\]", r"\[", r"\$", r"\u00e9", r"\u{1F600}", r"\x41", r"\cA", "(?:", "é", "😀", "\n", "/", "&&", "--", "~",
    "||", "a-z", "A-Z", "0-9", " ", "#", r"\e", r"\h", r"\Z", r"\G", r"\ ",
]  # fmt: skip
TEXTS = [
    "", "a", "ab", "aa", "aab", "A", "Z", "0", "12", "_", "-", "^", "$", ".", "é", "٣", "\n", "a\n", "\r", "\u2028",
    "\x0b", "\x1c", "\x85", "\u00a0", "\ufeff", "\u180e", "😀", "a b", "/", "\\", "[", "]", "&", "~", "|", "\x01", "{",
    "}", ",", "#", "\x08",
]  # fmt: skip


def test_whatever_the_pattern_the_same_texts_match() -> None:
    chance = random.Random(262)
    compared = 0
    for _ in range(1500):
        pattern = "".join(chance.choices(PIECES, k=chance.randint(1, 6)))
        try:
            ours = re.compile(translated(pattern))
            theirs = jsonschema_rs.Draft202012Validator({"pattern": pattern})
        except ValueError:
            continue  # gate-ok: one of the two refuses it; the next test has what must be taken
        compared += 1
        for text in TEXTS:
            assert (ours.search(text) is not None) is theirs.is_valid(text), (pattern, ours.pattern, text)
    assert compared > 300


@pytest.mark.parametrize(
    ("pattern", "matches", "not_matches"),
    [
        ("a$", ["a"], ["a\n"]),
        ("^.$", ["a", "😀"], ["\n", "\r", "\u2028"]),
        (r"^\d+$", ["12"], ["٣"]),
        (r"^[\w-]+$", ["a-b"], ["é"]),
        (r"^[^\W_]$", ["a"], ["_", "é"]),
        (r"^[\s\S]$", ["\n", "a", "\ufeff"], [""]),
        (r"^\S$", ["\x85", "\x1c"], ["\ufeff", "\u00a0"]),
        (r"^(?<x>a)(?!b)(?<=a)$", ["a"], ["ab"]),
        (r"^(?<!b)a{1,2}?$", ["aa"], ["aaa"]),
        (r"^\u{1F600}\u00e9\x41\cJ\/$", ["😀éA\n/"], [""]),
        (r"^[-a&&b~~-]$", ["&", "~", "a", "b", "-"], ["c", "["]),
        (r"^\{\}$", ["{}"], [""]),
        ("^a}$", ["a}"], ["a"]),
    ],
)
def test_what_a_pattern_matches(pattern: str, matches: list[str], not_matches: list[str]) -> None:
    judge = jsonschema_rs.Draft202012Validator({"pattern": pattern})
    for text in (*matches, *not_matches):
        assert judge.is_valid(text) is (re.search(translated(pattern), text) is not None) is (text in matches), text


@pytest.mark.parametrize(
    "pattern",
    [
     "(", ")", "[", "[]", "[^]", "a{,2}", "a{2", "*", r"\p{L}", r"\k<x>", r"\A", r"\Z", r"\e", r"\0", "\\",
     r"\u{110000}", r"\ud800", "(?i)a", "(?#x)", r"[\1]", r"[\b]", "a{2,1}",
     "a{9999999999999999999999}", "(?<1>a)", "(" * 2000],
)  # fmt: skip
def test_what_is_no_pattern_or_none_that_python_has(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be read|empty class"):
        translated(pattern)
