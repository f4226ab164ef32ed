"""A whole ingestion: a job of its own, one at a time for a connection and source; what waited is settled first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun, Refused
from ktxkit.base.lock import flocked
from ktxkit.ingest import baseline, ending, left, trees
from ktxkit.ingest.asked import CONTRACT, Asked
from ktxkit.ingest.connectors.find import connector, found
from ktxkit.ingest.hooks import Ingestion
from ktxkit.ingest.rules import places
from ktxkit.ingest.rules.raw_paths import sync_id
from ktxkit.store import jobs, resuming
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work.job import isolation
from ktxkit.work.job import run as job_run
from ktxkit.work.job.run import Ended, How
from ktxkit.work.rules.job_file import plan_of

WAIT = 5.0  # seconds to wait for another ingestion of the same connection and source, unless asked otherwise


def start(world: World, asked: Asked, how: How, *, job: str = "", target: str = "", wait: float = WAIT) -> Ended:
    """Run a new ingestion. Raises KtxError where nothing started; whatever goes wrong later is in its report."""
    asked.check()
    isolation.check(world, asked.isolate)
    _detected(asked)
    job_id = names.check_job(job) if job else job_run.new_job_id(world, asked.source)
    full = _target(world, target)
    lock = world.writable_store.path(places.lock(asked.connection, asked.source))
    with flocked(lock, clock=world.clock, wait=wait, what=f"the ingestion of {asked.owner}"):
        if world.store.exists(names.job_doc(job_id)):
            raise Refused(f"job {job_id} exists already", hint=f"ingest-run --resume {job_id} continues it")
        baseline.settle(world, asked.connection, asked.source)
        left.settle(world, asked.connection, asked.source)
        earlier = ending.unfinished(world, asked.connection, asked.source)
        made = jobs.create(
            world,
            job_id,
            target=full,
            connection=asked.connection,
            source=asked.source,
            syncId=sync_id(world.clock.now(), job_id),
        )
        override = earlier[-1] if earlier else ""
        world.writable_store.write(CONTRACT, places.ingest_doc(job_id), asked.document(job_id, override))
        return _run(world, asked, made, override, how, resumed=False)


def resume(world: World, job_id: str, how: How, *, wait: float = WAIT) -> Ended:
    """Continue an ingestion: snapshot, plan, patches and receipts that are on record stay. Raises Refused if landed."""
    job = jobs.load(world, job_id)
    document = world.store.read_optional(CONTRACT, places.ingest_doc(job_id))
    if document is None:
        raise CannotRun(f"job {job_id} is no ingestion", hint=f"job-run --resume {job_id}")
    if job["state"] == "landed" and "finishedAt" in job:
        raise Refused(f"job {job_id} has landed already", where=job["target"], hint=f"job-report --job {job_id}")
    if job["state"] == "closed":
        raise Refused(f"job {job_id} has ended: nothing was to land", hint="a new ingest-run tries what failed in it")
    later = resuming.superseded_by(world, job_id)
    if later:
        raise Refused(f"job {later} took up what {job_id} left", hint=f"job-report --job {later}")
    asked = Asked.of(document)
    lock = world.writable_store.path(places.lock(asked.connection, asked.source))
    with flocked(lock, clock=world.clock, wait=wait, what=f"the ingestion of {asked.owner}"):
        return _run(world, asked, job, document.get("overrideOf", ""), how, resumed=True)


def _run(world: World, asked: Asked, job: Document, override: str, how: How, *, resumed: bool) -> Ended:
    known = baseline.load(world, asked.connection, asked.source, job["targetAtStart"])
    hooks = Ingestion(asked, known, override)
    empty = {"connectionId": asked.connection, "sourceKey": asked.source, "units": []}
    planned = world.store.read_optional("job-file", places.job_file(job["jobId"])) or empty
    return job_run.execute(world, plan_of(planned), job, replace(how, hooks=hooks), resumed=resumed)


def _detected(asked: Asked) -> None:
    """A directory that is plainly another connector's is refused with its name."""
    chosen = connector(asked.connector)
    if asked.url:
        return
    place = Path(asked.place)
    if not place.exists():
        raise CannotRun("no such source", where=asked.place, hint="name the directory of a staged bundle, or --url")
    if not chosen.detect(place) and not asked.allow_empty:
        others = [name for name in sorted(found()) if name != asked.connector and connector(name).detect(place)]
        hint = f"it looks like one for {others[0]}" if others else "is it the bundle's own directory?"
        raise CannotRun(f"this is no source for {asked.connector}", where=asked.place, hint=hint)


def _target(world: World, name: str) -> str:
    """The target's full ref. A repository without any commit gets an empty first one: there is nothing else to start
    from, and nothing to lose."""
    git = world.git
    head = git.run("symbolic-ref", "-q", "HEAD", ok=(0, 1)).text
    wanted = (name if name.startswith("refs/") else f"refs/heads/{name}") if name else head
    unborn = wanted == head and head and git.resolve(head) is None
    if unborn and not git.text("for-each-ref", "--count=1", "refs/heads/"):
        trees.first_commit(world, head)
    return jobs.target_ref(world, name)
