"""What an ingestion was asked for, as a value and as the document that a resumed one reads."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit import __file__ as package
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.ingest.rules.places import check_name
from ktxkit.work.rules.job_file import isolate_of

if TYPE_CHECKING:
    from ktxkit.base.documents import Ingest

CONTRACT = "ingest"
POLICY: Document = {"allow": ["wiki", "semantic-layer"], "textRoots": ["wiki", "semantic-layer"]}
RECONCILE_LIMIT = 3600.0  # seconds for the built-in reconciliation


@dataclass(frozen=True)
class IngestRequest:
    """One ingestion: which source, where, who works, how."""

    connector: str
    connection: str
    source: str
    path: str = ""
    url: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    worker: tuple[str, ...] = ()
    reconcile: tuple[str, ...] = ()
    reconciles: bool = True
    verify: tuple[str, ...] = ()
    time_limit: float | None = None
    on_failure: str = "continue"
    everything: bool = False
    allow_empty: bool = False
    cache: bool = True
    on_conflict: str = "set-aside"
    isolate: tuple[str, ...] | None = None  # as in a job file

    @property
    def owner(self) -> str:
        """Whose projected files are."""
        return f"{self.connection}/{self.source}"

    @property
    def work_argv(self) -> list[str]:
        return [*self.worker] or built_in("pages")

    def check(self) -> None:
        """Raises CannotRun for names that cannot be directories, and an address that must not be kept."""
        check_name("connection", self.connection)
        check_name("source", self.source)
        if self.url:
            from ktxkit.ingest.connectors.http import check_address

            check_address(self.url)

    def document(self, job_id: str, override: str) -> Document:
        """What is kept of it. Credentials are in the environment and never here."""
        optional = {
            "place": self.path,
            "url": self.url,
            "worker": list(self.worker),
            "reconcile": list(self.reconcile),
            "verify": list(self.verify),
            "options": dict(self.options),
            "timeLimit": self.time_limit,
            "overrideOf": override,
        }
        return {
            "schemaVersion": SCHEMA_VERSION,
            "kind": CONTRACT,
            "jobId": job_id,
            "connector": self.connector,
            "connectionId": self.connection,
            "sourceKey": self.source,
            **{key: value for key, value in optional.items() if value},
            "reconciles": self.reconciles,
            "onFailure": self.on_failure,
            "onConflict": self.on_conflict,
            "everything": self.everything,
            "allowEmpty": self.allow_empty,
            "cache": self.cache,
            **({} if self.isolate is None else {"isolate": {"write": list(self.isolate)}}),
        }

    @classmethod
    def of(cls, document: Ingest) -> IngestRequest:
        return cls(
            document["connector"],
            document["connectionId"],
            document["sourceKey"],
            document.get("place", ""),
            document.get("url", ""),
            document.get("options", {}),
            tuple(document.get("worker", ())),
            tuple(document.get("reconcile", ())),
            document.get("reconciles", True),
            tuple(document.get("verify", ())),
            document.get("timeLimit"),
            document.get("onFailure", "continue"),
            document.get("everything", False),
            document.get("allowEmpty", False),
            document.get("cache", True),
            on_conflict=document.get("onConflict", "set-aside"),
            isolate=isolate_of(document),
        )


def built_in(name: str) -> list[str]:
    """A worker that comes with ingestion, started without anything that its directory or the user's could bring in."""
    return [sys.executable, "-I", "-S", str(Path(package).parent / "ingest" / "workers" / f"{name}.py")]


def built_in_module(name: str) -> list[str]:
    """One that needs the library."""
    return [sys.executable, "-P", "-m", f"ktxkit.ingest.workers.{name}"]
