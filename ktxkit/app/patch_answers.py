"""What the patch and landing commands say of their documents: one line each, reasons below."""

from __future__ import annotations

from collections.abc import Sequence

from ktxkit.app.cli import Result
from ktxkit.base.contracts import Document
from ktxkit.base.rules.text import plural, printable

SHOWN = 20  # reasons in the text form; all of them are in the document


def collected(document: Document) -> Result:
    """The answer of patch-collect."""
    what = document["outcome"]
    size = f", {document['patchBytes']} bytes" if "patchBytes" in document else ""
    lines = [f"{what}: {plural(len(document['paths']), 'path')}{size}", *_breaches(document)]
    notes = [f"handed over by objects only, without a patch: {why}" for why in [document.get("transportReason")] if why]
    notes += [_account(document, key) for key in ("excluded", "ignored") if key in document]
    notes += [f"same name on some file systems: {c['path']} and {c['other']}" for c in document.get("collisions", ())]
    outcome = "done" if what == "collected" else what
    return Result(outcome=outcome, document=document, contract="patch", lines=lines, notes=notes)


def _account(document: Document, key: str) -> str:
    account = document[key]
    names = ", ".join(printable(item["path"]) for item in account["sample"][:5])
    return (
        f"{key}, not collected: {plural(account['count'], 'file')} ({names}{', ...' if account['count'] > 5 else ''})"
    )


def _breaches(document: Document) -> list[str]:
    return [f"  {item['path']}: {item['rule']}: {item['message']}" for item in document.get("breaches", ())[:SHOWN]]


def applied(receipt: Document) -> Result:
    """The answer of patch-apply."""
    commit = f" {receipt['commit']}" if "commit" in receipt else ""
    how = ", by objects" if "transport" in receipt else ""
    lines = [f"{receipt['outcome']}{commit}: {plural(len(receipt['paths']), 'path')}{how}", *_breaches(receipt)]
    lines += [f"  {item['path']}: {item['reason']}" for item in receipt["conflicts"][:SHOWN]]
    for item in receipt["findings"][:SHOWN]:
        place = ":".join(str(item[key]) for key in ("path", "line", "column") if key in item)
        lines.append(f"  {place}: {item['level']} {item['rule']} {item['message']}")
    if "message" in receipt:
        lines.append(f"  {receipt['message']}")
    return Result(outcome=receipt["outcome"], document=receipt, contract="receipt", lines=lines)


def landed(landing: Document, left: Sequence[str] = ()) -> Result:
    """The answer of job-land. `left`: keys of units that are not in it."""
    where = f"{landing['commit']} on {landing['target']}" if "commit" in landing else "nothing to land"
    count = sum(1 for unit in landing["units"] if unit["outcome"] == "accepted")
    lines = [f"{landing['outcome']}: {where}, {plural(count, 'unit')}, {plural(len(landing.get('paths', ())), 'path')}"]
    notes = [f"{plural(len(left), 'unit')} of the job not in it: {', '.join(left[:SHOWN])}"] if left else []
    return Result(outcome=landing["outcome"], document=landing, contract="landing", lines=lines, notes=notes)


def verified(made: Document) -> Result:
    """The answer of job-verify."""
    from ktxkit.work.verification import why_not

    run = made["run"]
    lines = [f"{made['outcome']}: status {run['status']} on {made['head']}, {plural(len(made['accepted']), 'unit')}"]
    if made["outcome"] != "done":
        lines.append(f"  {why_not(run)}")
    notes = []
    ignored = run.get("ignoredChanges", {})
    if any(ignored.get(word) for word in ("added", "changed", "removed")):
        told = ", ".join(f"{ignored[word]} {word}" for word in ("added", "changed", "removed"))
        notes.append(f"ignored files it touched: {told}")
    return Result(outcome=made["outcome"], document=made, contract="verification", lines=lines, notes=notes)


def previewed(made: Document) -> Result:
    """The answer of job-preview: what was looked at, then each unit and pair that will not do."""
    live, met = plural(len(made["units"]), "live unit"), plural(made["pairsMet"], "pair")
    lines = [f"{live}, {met} merged, {plural(len(made['clashes']), 'clash', 'clashes')}"]
    for unit in made["units"]:
        if unit["outcome"] not in ("candidate", "noop"):
            lines.append(f"  {unit['unitKey']}: {unit['outcome']}{_why(unit)}")
    lines += [f"  {c['first']} and {c['second']}: {c['kind']} clash{_why(c)}" for c in made["clashes"]]
    return Result(outcome=made["outcome"], document=made, contract="preview", lines=lines)


def _why(item: Document) -> str:
    told = [f"{clash['path']} ({clash['reason']})" for clash in item.get("conflicts", ())[:3]]
    told += [f"{finding['path']}: {finding['message']}" for finding in item.get("findings", ())[:3]]
    told += [item["message"]] if "message" in item else []
    return f": {'; '.join(told)}" if told else ""
