"""Duplicates among the pages and sources of one sync: alike to the byte that matters, or nearly so."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from ktxkit.base.rules.digests import digest

FROM = re.compile(r"[ \t]*<!--\s*from:.*?-->[ \t]*\n?")
_WORD = re.compile(r"[A-Za-z0-9_]+")
NEAR = 0.8  # Jaccard similarity of word triples from which two artifacts are nearly alike
SKETCH = 8  # least digests of an artifact's word triples; two artifacts that share one are compared
PAIRS_KEPT = 1000
COMMON = 100  # a word triple that more artifacts have than this tells none of them apart


@dataclass(frozen=True)
class Text:
    """An artifact to compare: its path, whether it is new in this sync, and what it says without who says it."""

    path: str
    essence: str
    new: bool = True


@dataclass(frozen=True)
class Pair:
    """`path` is nearly or wholly what `other` is; `other` is the older, or the first by path."""

    path: str
    other: str
    similarity: float


def essence(text: str) -> str:
    """A page or source without provenance comments, blank lines and line ends: what makes two of them alike."""
    bare = FROM.sub("", text)
    return "\n".join(line.strip() for line in bare.split("\n") if line.strip())


def exact(texts: Iterable[Text]) -> list[Pair]:
    """New artifacts that are wholly what another is: each with the one that stays. Sorted by path."""
    groups: dict[str, list[Text]] = {}
    for text in texts:
        groups.setdefault(digest(text.essence.encode("utf-8", "surrogatepass")), []).append(text)
    pairs = []
    for group in groups.values():
        first, *rest = sorted(group, key=lambda text: (text.new, text.path))
        pairs += [Pair(text.path, first.path, 1.0) for text in rest if text.new]
    return sorted(pairs, key=lambda pair: pair.path)


def near(texts: Sequence[Text]) -> list[Pair]:
    """Pairs that are nearly alike, at least one of them new; at most 1,000, most alike first.

    Candidates share one of the least digests of their rarer word triples, so that 2,000 pages need no 2 million
    comparisons; each candidate is then measured in full.
    """
    shingles = [_shingles(text.essence) for text in texts]
    found: dict[tuple[int, int], float] = {}
    for bucket in _buckets(shingles):
        for place, one in enumerate(bucket):
            for other in bucket[place + 1 :]:
                if (one, other) not in found and (texts[one].new or texts[other].new):
                    found[one, other] = _similarity(shingles[one], shingles[other])
    pairs = []
    for (one, other), value in found.items():
        if value >= NEAR and texts[one].essence != texts[other].essence:
            first, second = sorted((texts[one], texts[other]), key=lambda text: (text.new, text.path))
            pairs.append(Pair(second.path, first.path, round(value, 3)))
    return sorted(pairs, key=lambda pair: (-pair.similarity, pair.path, pair.other))[:PAIRS_KEPT]


def _shingles(text: str) -> frozenset[str]:
    words = [word.lower() for word in _WORD.findall(text)]
    return frozenset(" ".join(words[index : index + 3]) for index in range(max(1, len(words) - 2)))


def _buckets(shingles: Sequence[frozenset[str]]) -> list[list[int]]:
    often = Counter(shingle for found in shingles for shingle in found)
    buckets: dict[str, list[int]] = {}
    for index, found in enumerate(shingles):
        rare = (shingle for shingle in found if often[shingle] <= COMMON)
        for shingle in nsmallest(SKETCH, rare, key=lambda shingle: digest(shingle.encode())):
            buckets.setdefault(shingle, []).append(index)
    return [bucket for _, bucket in sorted(buckets.items()) if len(bucket) > 1]


def _similarity(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / (len(one | other) or 1)
