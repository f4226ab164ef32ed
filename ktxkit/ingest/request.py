"""The command line of an ingestion as a value.

What an ingestion was asked for, as a value and as the document that a resumed one reads.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ktxkit import __file__ as package
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import CannotRun
from ktxkit.ingest.connectors.interface import connector
from ktxkit.ingest.rules.places import check_name
from ktxkit.store.world import World
from ktxkit.work.rules.job_file import argv_of, isolate_of


def request_of(world: World, args: argparse.Namespace) -> IngestRequest:
    """Raises CannotRun where something is missing, or two things exclude each other."""
    connector(args.connector)
    if bool(args.place) == bool(args.url):
        raise CannotRun("which source?", hint="PLACE, or --url URL")
    if not args.connection:
        raise CannotRun("which connection is it about?", hint="--connection NAME; sources go to semantic-layer/NAME/")
    if args.time_limit is not None and not args.time_limit > 0:
        raise CannotRun("--time-limit must be more than 0 seconds", hint="leave it out for no limit")
    if args.reconcile and args.no_reconcile:
        raise CannotRun("--reconcile and --no-reconcile exclude each other", hint="leave one of them out")
    return IngestRequest(
        connector=args.connector,
        connection=args.connection,
        source=args.source or args.connector,
        place=str(world.cwd / args.place) if args.place else "",
        url=args.url or "",
        options=_options(args.option),
        worker=tuple(args.command),
        reconcile=argv_of(args.reconcile) if args.reconcile else (),
        reconciles=not args.no_reconcile,
        verify=argv_of(args.verify) if args.verify else (),
        time_limit=args.time_limit,
        on_failure=args.on_failure,
        on_conflict=args.on_conflict,
        isolate=tuple(args.write) if args.isolate or args.write else None,
        everything=args.everything,
        allow_empty=args.allow_empty,
        cache=not args.no_cache,
    )


def _options(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise CannotRun(f"option {one!r} is not KEY=VALUE", hint="as in --option group=card")
        if key in found:
            raise CannotRun(f"option {key!r} is given twice", hint="leave one of them out")
        found[key] = value
    return found


CONTRACT = "ingest"
POLICY: Document = {"allow": ["wiki", "semantic-layer"], "textRoots": ["wiki", "semantic-layer"]}
RECONCILE_LIMIT = 3600.0  # seconds for the built-in reconciliation


@dataclass(frozen=True)
class IngestRequest:
    """One ingestion: which source, where, who works, how."""

    connector: str
    connection: str
    source: str
    place: str = ""
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
            "place": self.place,
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
    def of(cls, document: Document) -> IngestRequest:
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
