"""Whether a word may be said, decided from the rule file: the Python twin of the generated Prolog rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ktxkit.ledger.rules.prolog import forms

Ask = Callable[[str, str], str]  # predicate, subject -> true, false or unknown


@dataclass(frozen=True)
class Ruling:
    """`verdict` is true, false, unknown, refused, or free (no rule speaks of the word)."""

    word: str
    canonical: str
    verdict: str
    say: str = ""
    why: str = ""


def rule(lexicon: Mapping[str, Any], word: str, subject: str, ask: Ask) -> Ruling:
    """Every need must be true; one that is false makes it false, else one that is unknown makes it unknown."""
    for refused in lexicon["refused"]:
        if word in forms(refused):
            return Ruling(word, refused["word"], "refused", refused["say"], refused["why"])
    for earned in lexicon["words"]:
        if word in forms(earned):
            words = [ask(need, subject) for need in earned["needs"]]
            verdict = "false" if "false" in words else "unknown" if "unknown" in words else "true"
            return Ruling(word, earned["word"], verdict, why=earned["means"])
    return Ruling(word, word, "free")


def all_forms(lexicon: Mapping[str, Any]) -> dict[str, str]:
    """Each form of each word, with the word it is a form of; longest first, so that phrases go before their parts."""
    found = {form: one["word"] for one in (*lexicon["words"], *lexicon["refused"]) for form in forms(one)}
    return dict(sorted(found.items(), key=lambda item: (-len(item[0]), item[0])))
