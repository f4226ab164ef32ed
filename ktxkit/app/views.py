"""Which lease a closing means, and what a person is told of it.

The list of worktrees for people: one line for each, and what the list says as a whole.

Leased worktrees as they go on: the whole screen of a terminal, redrawn each second; elsewhere a line a change.

A followed run on a terminal: the whole screen while it goes on, its last line when it has ended. Elsewhere: a line a
second.

What the patch and landing commands say of their documents: one line each, reasons below.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from ktxkit.app import cli
from ktxkit.app.cli import Result
from ktxkit.base.clock import timestamp
from ktxkit.base.errors import CannotRun, KtxError
from ktxkit.base.rules.text import counted, nearest, plural, printable
from ktxkit.store import jobs
from ktxkit.store.active import ActiveJob
from ktxkit.store.leases import LeaseLocation, all_locations, lease_here, path_of, worktrees
from ktxkit.store.rules.worktrees import is_evidence
from ktxkit.store.world import World

if TYPE_CHECKING:
    from pathlib import Path

    from ktxkit.base.documents import (
        KeptFiles,
        LandingReceipt,
        Lease,
        ObserverStatus,
        Patch,
        PathAccount,
        Preview,
        PreviewClash,
        PreviewUnit,
        Receipt,
        Verification,
        WorktreeList,
        WorktreeRow,
    )
    from ktxkit.work.next_step import LandPreview


def location(world: World, name: str, job: str | None, unit: str | None) -> LeaseLocation:
    """The place that is named, of a unit or without a job; else that of the worktree the world stands in."""
    if name:
        if job is not None or unit is not None:
            said = f"{name} is a worktree that has no job: --job and --unit name another one"
            raise CannotRun(said, hint="name it by one of them")
        return _named(world, name)
    if job is None and unit is None:
        here = lease_here(world)
        if here is not None:
            return here[0]
    active, found = jobs.need_unit(world, job, unit)
    made = LeaseLocation.of_unit(active, found)
    if made.lease() is None:
        raise CannotRun(f"unit {found.key!r} of {active.id} has no worktree", hint="open it with worktree-open")
    return made


def must_be_there(place: LeaseLocation) -> None:
    """Raises CannotRun where the directory of an open worktree is gone."""
    lease = place.lease()
    if lease is not None and lease["state"] == "open" and not os.path.lexists(path_of(lease)):
        hint = "git ktx clean --yes clears what is left of it (without --yes it says what)"
        raise CannotRun("its directory is gone", location=str(path_of(lease)), hint=hint)


def _named(world: World, name: str) -> LeaseLocation:
    """A worktree without a job: by the name of its documents, or by its branch. Raises CannotRun if there is none."""
    known, by_path = [], {}
    for found in all_locations(world):
        lease = found.lease()
        if lease is None or "jobId" in lease:
            continue
        if found.directory == LeaseLocation.adhoc(world, name).directory or lease.get("branch") == f"refs/heads/{name}":
            return found
        known += [found.name] if lease["state"] != "closed" else []
        by_path[os.path.realpath(path_of(lease))] = found
    for entry in worktrees(world).listed()[1:]:
        if name in (entry.branch.removeprefix("refs/heads/"), entry.path.name):
            if os.path.realpath(entry.path) in by_path:  # its branch was switched since it was opened
                return by_path[os.path.realpath(entry.path)]
            hint = f"lease it where it is: worktree-open -C {shlex.quote(str(entry.path))}"
            raise CannotRun(f"{name} was not opened by ktxkit", location=str(entry.path), hint=hint)
    near = nearest(name, known)
    hint = f"did you mean {near[0]}? " if near else ""
    raise CannotRun(f"no worktree named {name!r}", hint=f"{hint}`git ktx list` shows those there are")


def notes(lease: Lease) -> list[str]:
    """What was kept, and where."""
    said = [f"kept at {lease['atticRef']}"] if "atticRef" in lease else []
    if "leftOut" in lease:
        said.append(f"the worktree stays, with what is not collected: {counted(lease['leftOut'], 'untracked file')}")
    said += [kept_files(lease["ignoredKept"])] if "ignoredKept" in lease else []
    said += [f"taken from under {_processes(lease['busy'])}"] if "busy" in lease else []
    branch = lease.get("branch", "").removeprefix("refs/heads/")
    return said + ([f"branch {branch} stays: it has commits that nothing else has"] if lease.get("branchKept") else [])


def going(args: argparse.Namespace) -> Callable[[Path, PathAccount], None] | None:
    """What says on stderr which ignored files go with a worktree, before they do; nothing with -q."""

    def tell(path: Path, account: PathAccount) -> None:
        sys.stderr.write(f"{printable(str(path))} goes, with {counted(account, 'ignored file')}\n")
        sys.stderr.flush()

    return None if args.quiet else tell


def run_inside(args: argparse.Namespace, world: World, opened: Result) -> Result:
    """`worktree-open ... -- CMD`: run the command in the worktree; its status is the answer, its output the output."""
    from ktxkit.work import adhoc

    assert opened.document is not None
    if not args.quiet:
        for note in opened.notes:
            sys.stderr.write(f"{printable(note)}\n")
    lease: Any = opened.document
    status = adhoc.run_inside(world, lease, args.command, stdout=sys.stderr.fileno() if args.json else None)
    return opened._replace(outcome="failed" if status else "done", status=status, lines=(), notes=())


def kept_files(copied: KeptFiles) -> str:
    """Where ignored files were copied to before their worktree went."""
    return f"{plural(copied['count'], 'ignored file')} copied to {printable(copied['path'])}"


def _processes(pids: Sequence[int]) -> str:
    return f"{'process' if len(pids) == 1 else 'processes'} {', '.join(map(str, pids[:5]))}"


def lines(document: WorktreeList) -> list[str]:
    """Path, what it is, how it stands; the last line counts what is dead and what was cleared."""
    rows = document["worktrees"]
    said = [f"{printable(row['path'])}  {_what(row)}  {_how(row)}" for row in rows]
    dead = [row for row in rows if "dead" in row and not is_evidence(row)]
    pruned = sum(1 for row in rows if row.get("pruned"))
    total = f"{plural(len(rows), 'worktree')}, {len(dead)} left over" + (f", {pruned} cleared" if pruned else "")
    return [*said, total, *damaged_lines(document)]


def damaged_lines(document: Mapping[str, Any]) -> list[str]:
    """Documents that cannot be read, and what they would say is not known."""
    return [f"Damaged: {printable(row['where'])}: {printable(row['message'])}" for row in document.get("damaged", ())]


def outcome(document: Mapping[str, Any]) -> str:
    """The word of a list: what could be read is shown, but a damaged document is status 5."""
    return "broken_contract" if "damaged" in document else "done"


def _what(row: WorktreeRow) -> str:
    if "unitKey" in row:
        return printable(f"unit {row['unitKey']} of {row['jobId']}, attempt {row['attempt']}")
    branch = row.get("branch", "").removeprefix("refs/heads/")
    return printable(f"{row['kind']} {branch}" if branch else str(row["kind"]))


def _how(row: WorktreeRow) -> str:
    parts = [row.get("state", "present" if row["present"] else "gone")]
    parts += [f"as {row['outcome']}"] if "outcome" in row else []
    parts += [f"in use by {', '.join(map(str, row['busy'][:5]))}"] if "busy" in row else []
    word = "kept as evidence" if is_evidence(row) else "left over"
    parts += [f"{word}: {row['dead']}"] if "dead" in row else []
    parts += ["cleared"] if row.get("pruned") else []
    went = "gone" if row.get("pruned") else "goes"
    parts += [f"{went} with it: {counted(row['ignored'], 'ignored file')}"] if "ignored" in row else []
    parts += [kept_files(row["ignoredKept"])] if "ignoredKept" in row else []
    parts += [f"kept at {row['atticRef']}"] if "atticRef" in row else []
    parts += [f"stays: {printable(row['kept'])}"] if "kept" in row else []
    return ", ".join(parts)


TICK = 1.0  # seconds between two looks
Looks = list[tuple[str, "ObserverStatus | str"]]


def watch(args: argparse.Namespace, world: World) -> cli.Result:
    """Until the worktrees are closed or a key interrupts it. One named worktree gives its status as the result."""
    if args.json:
        raise CannotRun("--watch prints as it goes", hint="leave --json out, or ask without --watch")
    one = _single(args, world)
    last: Looks = []
    with suppress(KeyboardInterrupt):  # the way to end it
        for now in _screen(world, one, args.job) if _redrawn() else _plain(world, one, args.job):
            last = now
    status = last[0][1] if one is not None and last else None
    if status is not None and not isinstance(status, str):
        from ktxkit.observer import status as observer_text

        return cli.Result(**observer_text.facts(status))
    return cli.Result(lines=[] if last else ["no worktree is open"])


def of_all(args: argparse.Namespace, world: World) -> bool:
    """Whether all open worktrees are meant (of the job that is named): no other is, and none is stood in."""
    return _single(args, world) is None


def once(args: argparse.Namespace, world: World) -> cli.Result:
    """Every open worktree as it is now. Raises CannotRun for an unknown job."""
    from ktxkit.observer.rules import status as board

    if args.job:
        ActiveJob.load(world, args.job)
    now = looks(world, None, args.job)
    shown = board.table(now, cli.columns()) if now else ["no worktree is open; worktree-open opens one"]
    damaged = any(isinstance(status, str) for _, status in now)
    key = {True: "problem", False: "status"}
    data = {"worktrees": [{"name": name, key[isinstance(status, str)]: status} for name, status in now]}
    return cli.Result("broken_contract" if damaged else "done", lines=shown, data=data)


def _single(args: argparse.Namespace, world: World) -> LeaseLocation | None:
    """The one that is meant; None where all are."""
    if args.name or args.unit or world.env.get("KTX_UNIT") or lease_here(world) is not None:
        return location(world, args.name, args.job, args.unit)
    return None


def _redrawn() -> bool:
    import os

    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def looks(world: World, location: LeaseLocation | None, job: str | None) -> Looks:
    """Every open worktree (of the job) with its status; of one that cannot be read, why."""
    from ktxkit.observer import observe

    found: Looks = []
    for place in [location] if location is not None else all_locations(world):
        if job and place.job != job:
            continue
        try:
            lease = place.lease()
            if lease is None or (location is None and lease["state"] != "open"):
                continue
            name = f"{place.job} {lease['unitKey']}" if "unitKey" in lease else place.name
            found.append((name, observe.status(place, lease)))
        except KtxError as error:
            found.append((f"{place.job} {place.name}", f"{error.location}: {error.message}"))
    return found


def _over(now: Looks, location: LeaseLocation | None) -> bool:
    """Nothing is open any more; a damaged document is for a person, not to be waited on."""
    if location is None or not now or isinstance(now[0][1], str):
        return not now or location is not None
    lease = location.lease()
    return lease is None or lease["state"] != "open" or now[0][1]["authority"] != "current"


def _each(world: World, location: LeaseLocation | None, job: str | None) -> Iterator[Looks]:
    while True:
        now = looks(world, location, job)
        yield now
        if _over(now, location):
            return
        world.clock.sleep(TICK)


def _screen(world: World, location: LeaseLocation | None, job: str | None) -> Iterator[Looks]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from ktxkit.observer.rules import status as board

    console = Console()
    with Live(Text(""), console=console, screen=True, auto_refresh=False) as view:
        for now in _each(world, location, job):
            size = console.size
            drawn = board.screen(now, timestamp(world.clock.now()), size.width, size.height)
            view.update(Text("\n".join(drawn), no_wrap=True, overflow="crop"), refresh=True)
            yield now


def _plain(world: World, location: LeaseLocation | None, job: str | None) -> Iterator[Looks]:
    from ktxkit.observer.rules import status as board

    said: dict[str, str] = {}
    for now in _each(world, location, job):
        for name, status in now:
            what, line = board.event(name, status)
            if said.get(name) != what:
                said[name] = what
                sys.stdout.write(line + "\n")
        for gone in said.keys() - {name for name, _ in now}:
            del said[gone]
            sys.stdout.write(f"{gone}: closed\n")
        sys.stdout.flush()
        yield now


FLYING_SHOWN = 12
SPACING = 1.0  # seconds of the run between two plain lines


def follow(args: argparse.Namespace, world: World) -> cli.Result:
    """`ledger-query live --follow`: shown as it goes on. Raises CannotRun where something else is asked for."""
    from ktxkit.ledger import asking
    from ktxkit.ledger import live as following

    if args.question != "live" or args.json:
        raise CannotRun("--follow is of `live`, and prints as it goes", hint="without --json")
    query = asking.query_of(world, "live", args.subject, args.project)
    waiting = None if sys.stdout.isatty() else _tell_waiting
    rows = following.follow(world, query, redis=args.redis, waiting=waiting)
    return cli.Result(lines=[show(rows)])


def _tell_waiting() -> None:
    sys.stderr.write("ledger-query: no run is going on: waiting for one (Ctrl-C ends it)\n")
    sys.stderr.flush()


def show(rows: Iterable[Mapping[str, Any]]) -> str:
    """Show the rows as they come; returns the last one as a line."""
    last: Mapping[str, Any] = {}
    if sys.stdout.isatty():
        last = _live_screen(rows)
    else:
        said = -SPACING
        for last in rows:
            elapsed = float(last.get("elapsed") or 0.0)
            if elapsed - said >= SPACING and last["state"] == "running":
                sys.stdout.write(line(last) + "\n")
                sys.stdout.flush()
                said = elapsed
    return line(last) if last else "no run was followed"


def _live_screen(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    from rich.live import Live
    from rich.text import Text

    last: Mapping[str, Any] = {}
    with Live(Text("waiting for a run"), screen=True, auto_refresh=False) as view:
        for last in rows:
            view.update(Text("\n".join(block(last))), refresh=True)
    return last


def line(row: Mapping[str, Any]) -> str:
    """`full, 6.0 s, 8412 of 29100: 8390 passed, 2 failed; 8 busy`."""
    total = f" of {row['total']}" if row.get("total") is not None else ""
    told = f"{row.get('asked', '')}, {row.get('elapsed', 0)} s, {row.get('done', 0)}{total}: {row.get('tests', '')}"
    return printable(f"{row['run']} {row['state']} {told}; {row.get('busy', 0)} busy")


def block(row: Mapping[str, Any]) -> list[str]:
    """The screen: what was asked for, how far it is, and what runs at this moment, the longest first."""
    total = row.get("total")
    done = row.get("done", 0)
    width = 40
    filled = width * done // total if total else 0
    said = [
        printable(f"run      {row['run']}  ({row['state']})"),
        printable(f"scope    {row.get('asked', '')}"),
        f"started  {row.get('started', '')}   {row.get('elapsed', 0)} s",
        f"phase    {row.get('phase') or ''}",
        f"tests    [{'#' * filled}{'.' * (width - filled)}] {done} of {total if total is not None else '?'}",
        f"         {row.get('tests', '')}",
        f"workers  {row.get('busy', 0)} busy of {row.get('workers') or 1}",
        "",
    ]
    flying = sorted(row.get("inFlight", ()), key=lambda one: -one["since"])
    said += [printable(f"{one['since']:8.1f} s  {one['test']}") for one in flying[:FLYING_SHOWN]]
    return said


SHOWN = 20  # reasons in the text form; all of them are in the document


def collected(document: Patch) -> Result:
    """The answer of patch-collect."""
    what = document["outcome"]
    size = f", {document['patchBytes']} bytes" if "patchBytes" in document else ""
    lines = [f"{what}: {plural(len(document['paths']), 'path')}{size}", *_breaches(document)]
    notes = [f"handed over by objects only, without a patch: {why}" for why in [document.get("transportReason")] if why]
    notes += [_account(document, key) for key in ("excluded", "ignored") if key in document]
    notes += [f"same name on some file systems: {c['path']} and {c['other']}" for c in document.get("collisions", ())]
    outcome = "done" if what == "collected" else what
    return Result(outcome=outcome, document=document, contract="patch", lines=lines, notes=notes)


def _account(document: Patch, key: Literal["excluded", "ignored"]) -> str:
    return f"{key}, not collected: {counted(document[key], 'file')}"


def _breaches(document: Patch | Receipt) -> list[str]:
    return [f"  {item['path']}: {item['rule']}: {item['message']}" for item in document.get("breaches", ())[:SHOWN]]


def applied(receipt: Receipt) -> Result:
    """The answer of patch-apply."""
    commit = f" {receipt['commit']}" if "commit" in receipt else ""
    how = ", by objects" if "transport" in receipt else ""
    lines = [f"{receipt['outcome']}{commit}: {plural(len(receipt['paths']), 'path')}{how}", *_breaches(receipt)]
    lines += [f"  {item['path']}: {_clash(item['reason'])}" for item in receipt["conflicts"][:SHOWN]]
    for item in receipt["findings"][:SHOWN]:
        place = ":".join(str(item[key]) for key in ("path", "line", "column") if key in item)
        lines.append(f"  {place}: {item['level']} {item['rule']} {item['message']}")
    if "message" in receipt:
        lines.append(f"  {receipt['message']}")
    notes = receipt.get("remarks", [])[:SHOWN]
    return Result(outcome=receipt["outcome"], document=receipt, contract="receipt", lines=lines, notes=notes)


def _clash(kind: str) -> str:
    """How two sides met on a path: git's word for it, as a sentence."""
    from ktxkit.work.rules.reasons import BOTH

    return BOTH.get(kind, kind)


def landed(landing: LandingReceipt, left: Sequence[str] = (), remarks: Sequence[str] = ()) -> Result:
    """The answer of job-land. `left`: keys of units that are not in it."""
    where = f"{landing['commit']} on {landing['target']}" if "commit" in landing else "nothing to land"
    count = sum(1 for unit in landing["units"] if unit["outcome"] == "accepted")
    lines = [f"{landing['outcome']}: {where}, {plural(count, 'unit')}, {plural(len(landing.get('paths', ())), 'path')}"]
    notes = [f"{plural(len(left), 'unit')} of the job not in it: {', '.join(left[:SHOWN])}"] if left else []
    notes += remarks[:SHOWN]
    return Result(outcome=landing["outcome"], document=landing, contract="landing", lines=lines, notes=notes)


def to_land(target: str, preview: LandPreview) -> Result:
    """The answer of job-land --dry-run."""
    where = f"{target.removeprefix('refs/heads/')} (now at {preview.before[:12]})"
    count = f"{plural(len(preview.units), 'unit')}, {plural(preview.paths, 'path')}"
    lines = [f"would land on {where}: {count}" if preview.paths else "nothing to land"]
    lines += [f"  {printable(key)}" for key in preview.units]
    lines += (
        ["the target has moved: the patches would be replayed on it, gated and verified"] if preview.replays else []
    )
    return Result(lines=[*lines, "Nothing was moved."], data={"target": target, **preview._asdict()})


def verified(verification: Verification) -> Result:
    """The answer of job-verify."""
    from ktxkit.work.verification import why_not

    run = verification["run"]
    lines = [
        (
            f"{verification['outcome']}: status {run['status']} on {verification['head']}, "
            f"{plural(len(verification['accepted']), 'unit')}"
        )
    ]
    if verification["outcome"] != "done":
        lines.append(f"  {why_not(run)}")
    notes = []
    ignored = run.get("ignoredChanges", {})
    if any(ignored.get(word) for word in ("added", "changed", "removed")):
        told = ", ".join(f"{ignored[word]} {word}" for word in ("added", "changed", "removed"))
        notes.append(f"ignored files it touched: {told}")
    return Result(
        outcome=verification["outcome"], document=verification, contract="verification", lines=lines, notes=notes
    )


def previewed(preview: Preview) -> Result:
    """The answer of job-preview: what was looked at, then each unit and pair that will not do."""
    live, met = plural(len(preview["units"]), "live unit"), plural(preview["pairsMet"], "pair")
    lines = [f"{live}, {met} merged, {plural(len(preview['clashes']), 'clash', 'clashes')}"]
    for unit in preview["units"]:
        if unit["outcome"] not in ("candidate", "noop"):
            lines.append(f"  {unit['unitKey']}: {unit['outcome']}{_why(unit)}")
    lines += [f"  {c['first']} and {c['second']}: {c['kind']} clash{_why(c)}" for c in preview["clashes"]]
    return Result(outcome=preview["outcome"], document=preview, contract="preview", lines=lines)


def _why(item: PreviewUnit | PreviewClash) -> str:
    told = [f"{clash['path']} ({_clash(clash['reason'])})" for clash in item.get("conflicts", ())[:3]]
    told += [f"{finding['path']}: {finding['message']}" for finding in item.get("findings", ())[:3]]
    message = item.get("message")
    told += [str(message)] if message else []
    return f": {'; '.join(told)}" if told else ""
