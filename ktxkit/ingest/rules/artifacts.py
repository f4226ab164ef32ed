"""Artifacts: the pages and sources that raw files lead to, and where each lies in the tree."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ktxkit.base.rules.digests import digest

WIKI, SOURCE = "wiki", "sl"
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_]{0,63}\Z")
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])\Z")
_PAGE = re.compile(r"wiki/(?P<scope>global|user/[^/]+)/(?P<key>.+)\.md\Z")
_SOURCE = re.compile(r"semantic-layer/(?P<connection>[^/]+)/(?P<rest>.+)\.ya?ml\Z")


@dataclass(frozen=True)
class Artifact:
    """`kind`: wiki, sl or other; `key`: the page's key or `connection/source`; `path` in the tree."""

    kind: str
    key: str
    path: str
    connection: str = ""

    def fields(self) -> dict[str, str]:
        """Its part of a provenance row."""
        target = {"targetConnectionId": self.connection} if self.connection else {}
        return {"artifactKind": self.kind, "artifactKey": self.key, "artifactPath": self.path, **target}


def artifact_of(path: str) -> Artifact | None:
    """The artifact of a path, or None where none lies there. A source's key is its file's until its name is read."""
    page = _PAGE.match(path)
    if page:
        return Artifact(WIKI, page["key"] if page["scope"] == "global" else f"{page['scope']}/{page['key']}", path)
    source = _SOURCE.match(path)
    if source:
        return Artifact(SOURCE, f"{source['connection']}/{source['rest']}", path, source["connection"])
    return None


def page_path(key: str) -> str:
    return f"wiki/global/{key}.md"


def source_path(connection: str, name: str) -> str:
    """Where a source lies whose name `identifier` made: such a name is its file's."""
    assert _PLAIN.match(name) and not _DEVICE.match(name), name
    return f"semantic-layer/{connection}/{name}.yaml"


def words_key(text: str, fallback: str, limit: int = 60) -> str:
    """A key for a page or source made of a title: lower case, `-` between its words; the fallback where none is left.

    Letters outside ASCII are dropped, so a title without any gives the fallback.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not plain:
        return fallback
    return plain if len(plain) <= limit else f"{plain[:limit].rstrip('-')}-{digest(text.encode())[3:11]}"


def identifier(text: str, fallback: str, limit: int = 50) -> str:
    """The same for what SQL, references and file names must spell: `[a-z][a-z0-9_]*`, no name of a device."""
    plain = words_key(text, fallback, limit).replace("-", "_")
    plain = plain if plain[0].isalpha() else f"n_{plain}"
    return f"{plain}_" if _DEVICE.match(plain) else plain
