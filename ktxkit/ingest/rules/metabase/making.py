"""A projection under way: names, renderers, and what it noticed."""

from __future__ import annotations

from dataclasses import dataclass, field

from ktxkit.ingest.rules.metabase.bundle import Bundle
from ktxkit.ingest.rules.metabase.sql import Renderer

TEXT_LIMIT = 4000  # characters of a description


@dataclass
class Names:
    """The source names of a connection: each table, model and metric's, unique, the same in every run."""

    tables: dict[int, str] = field(default_factory=dict)
    models: dict[int, str] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)  # lower-case name of a table to the source that reads it

    def of_table(self, table: int) -> str | None:
        return self.tables.get(table)


@dataclass
class Making:
    """One projection under way."""

    bundle: Bundle
    names: Names
    connection: str
    renderers: dict[int | None, Renderer] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    unresolved: dict[str, str] = field(default_factory=dict)

    def renderer(self, database: int | None) -> Renderer:
        if database not in self.renderers:
            engine = self.bundle.engines.get(database or 0, "")
            self.renderers[database] = Renderer(self.bundle.tables, self.bundle.cards, engine)
        return self.renderers[database]


def short(said: str) -> str:
    return said if len(said) <= TEXT_LIMIT else said[: TEXT_LIMIT - 3] + "..."
