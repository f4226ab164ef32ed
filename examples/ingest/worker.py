#!/usr/bin/env python3
"""A unit's worker, to copy and to change: one page for each card, by rule alone. Only the standard library.

    ingest-run metabase examples/ingest/metabase --connection shop -- python3 examples/ingest/worker.py

An agent gets the same four paths in its environment, works in the same directory, and may leave the same account.
"""

import json
import os
import re
from pathlib import Path

unit = json.loads(Path(os.environ["KTX_UNIT_FILE"]).read_bytes())  # what this unit is for
index = json.loads(Path(os.environ["KTX_INDEX"]).read_bytes())  # the pages and sources that are there
raw = Path(os.environ["KTX_RAW_ROOT"])  # the raw files lie below it
edited = {prior["artifactPath"] for prior in unit.get("priorArtifacts", []) if prior.get("edited")}  # by hand, since
known = {f"{source['connection']}/{source['name']}" for source in index["sources"]}


def plain(text: str) -> str:
    """What a card says is text: nothing of it becomes a link, code or a comment."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return re.sub(r"[\\`\[\]<>|*_#]", lambda found: "\\" + found[0], line)


def page(item: dict, card: dict) -> str:
    """The whole page of a card. `item` is what the rest of the source says of it, `card` its own raw file."""
    said = card.get("description") or f"{item['kind'].capitalize()} {item['title']}"
    lines = ["---", f"summary: {json.dumps(' '.join(said.split())[:300])}"]
    sources = [name for name in item["sources"] if name in known]
    lines += ["sl_refs:", *(f"  - {json.dumps(name)}" for name in sources)] if sources else []
    lines += ["---", "", f"# {plain(item['title'])}", "", plain(said), ""]
    lines += [f"- Column: {plain(column['name'])}" for column in item["columns"]]
    lines += [f"- Builds on: [[{other['id']}]]" for other in item["references"]]
    sql = item.get("sql", "").strip()
    if sql:
        fence = "`" * max(3, *(1 + len(run) for run in re.findall("`+", sql) or [""]))
        clean = "".join(char if char.isprintable() or char in "\n\t" else " " for char in sql)
        lines += ["", "## SQL", "", f"{fence}sql", clean, fence]
    return "\n".join(lines) + "\n"


actions, warnings = [], []
for item in unit.get("facts", {}).get("items", []):
    card = json.loads((raw / item["rawPath"]).read_bytes())
    place = Path("wiki/global") / f"{item['id']}.md"
    if place.as_posix() in edited:
        warnings.append(f"{place} was edited by hand and is left as it is")
        continue
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(page(item, card), encoding="utf-8")
    actions.append({"path": place.as_posix(), "rawPaths": [item["rawPath"]]})

# The account is optional: without it every page is put down to all of the unit's raw files.
Path(os.environ["KTX_RESULT"]).write_text(json.dumps({"schemaVersion": 1, "actions": actions, "warnings": warnings}))
