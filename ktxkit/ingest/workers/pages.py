"""Write one page for each item of a unit, by rule alone: no model, no network. Needs the standard library only.

With `evict`: remove the artifacts that only deleted raw files led to.

reads    $KTX_UNIT_FILE, $KTX_INDEX, pages in the worktree
writes   wiki/global/KEY.md, $KTX_RESULT; with `evict`, the worktree
exits    0 written or removed, 1 a document is missing
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

Item = dict[str, Any]
SUMMARY_LIMIT = 300  # characters
SQL_LIMIT = 20_000
COLUMNS_LIMIT = 300
_MEANS = re.compile(r"[\\`\[\]<>|*_#]")


def main() -> int:
    unit = json.loads(Path(os.environ["KTX_UNIT_FILE"]).read_bytes())
    if sys.argv[1:] == ["evict"]:
        for name in unit["evictions"]:
            Path(name).unlink(missing_ok=True)
        return 0
    index = json.loads(Path(os.environ["KTX_INDEX"]).read_bytes())
    known = {f"{one['connection']}/{one['name']}" for one in index["sources"]}
    keys = Keys(unit)
    actions = []
    for item in unit.get("facts", {}).get("items", ()):
        path = Path("wiki/global") / f"{keys.of(item)}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = page(item, f"{unit['rawRoot']}/{item['rawPath']}", known, keys)
        if not path.is_file() or without_origin(path.read_text("utf-8")) != without_origin(text):
            path.write_text(text, "utf-8")
        actions.append({"path": path.as_posix(), "rawPaths": [item["rawPath"]]})
    Path(os.environ["KTX_RESULT"]).write_text(json.dumps({"schemaVersion": 1, "actions": actions}), "utf-8")
    return 0


class Keys:
    """Page keys: that of the page which an item led to before, else one made of its title and id."""

    def __init__(self, unit: dict[str, Any]) -> None:
        self.prior: dict[str, list[str]] = {}
        for one in unit.get("priorArtifacts", ()):
            if one.get("artifactKind") == "wiki":
                self.prior.setdefault(one["rawPath"], []).append(one["artifactKey"])

    def of(self, item: Item) -> str:
        name = re.sub(r"[^A-Za-z0-9_-]", "-", str(item["id"]))
        for key in self.prior.get(item["rawPath"], ()):
            if key == name or key.endswith(f"-{name}"):
                return key
        lead = re.sub(r"[^a-z0-9]+", "-", str(item["title"]).lower()).strip("-")[:60].rstrip("-")
        return name if not lead or lead in name.lower().replace("_", "-") else f"{lead}-{name}"


def page(item: Item, origin: str, known: set[str], keys: Keys) -> str:
    """The whole page. What the source says is text: nothing of it can become a link, code or a comment."""
    sources = [name for name in item.get("sources", ()) if name in known]
    told = item.get("description") or f"{item['kind'].capitalize()} {item['title']}"
    front = [f"summary: {quoted(' '.join(told.split())[:SUMMARY_LIMIT])}", "usage_mode: auto", "tags:"]
    front += [f"  - {quoted(tag)}" for tag in dict.fromkeys([item["kind"], *item.get("path", ())]) if tag.strip()]
    front += ["sl_refs:", *(f"  - {quoted(name)}" for name in sources)] if sources else []
    parts = ["---", *front, "---", "", f"# {plain(item['title'])}", "", f"<!-- from: {origin} -->", ""]
    if item.get("description"):
        parts += [*(plain(line) for line in item["description"].split("\n")), ""]
    parts += [*_facts(item, keys), *_columns(item), *_sql(item)]
    return "\n".join(parts).rstrip("\n") + "\n"


def without_origin(text: str) -> str:
    """A page without the comment that names its snapshot: a new snapshot alone is no reason to write it anew."""
    return re.sub(r"<!-- from: [^\n]* -->\n", "", text)


def _facts(item: Item, keys: Keys) -> list[str]:
    lines = []
    if item.get("path"):
        lines.append(f"- Found in: {plain(' / '.join(item['path']))}")
    for name, label in (("tables", "Tables"), ("measures", "Measures")):
        if item.get(name):
            lines.append(f"- {label}: {plain(', '.join(item[name]))}")
    lines += [f"- Shown on: {plain(one['title'])}" for one in item.get("shownOn", ())]
    lines += [f"- Builds on: [[{keys.of(one)}]]" for one in item.get("references", ()) if one["id"] != item["id"]]
    if item.get("unresolved"):
        lines.append(f"- Not resolved: {plain(item['unresolved'])}")
    return [*lines, ""] if lines else []


def _columns(item: Item) -> list[str]:
    columns = item.get("columns", ())
    if not columns:
        return []
    lines = ["## Columns", "", "| Column | Type | Meaning |", "|---|---|---|"]
    for one in columns[:COLUMNS_LIMIT]:
        said = one.get("description") or one.get("title") or ""
        lines.append(f"| {plain(one['name'])} | {one.get('type', '')} | {plain(' '.join(said.split()))} |")
    if len(columns) > COLUMNS_LIMIT:
        lines.append(f"| ... | | {len(columns) - COLUMNS_LIMIT} more |")
    return [*lines, ""]


def _sql(item: Item) -> list[str]:
    sql = item.get("sql", "")
    if not sql:
        return []
    cut = sql if len(sql) <= SQL_LIMIT else sql[:SQL_LIMIT] + "\n-- cut here"
    longest = max((len(run) for run in re.findall(r"`+", cut)), default=0)
    fence = "`" * max(3, longest + 1)
    clean = "".join(char if char in "\n\t" or char.isprintable() else " " for char in cut)
    return ["## SQL", "", f"{fence}sql", clean, fence, ""]


def plain(text: str) -> str:
    """Text that means itself in Markdown, on one line."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return _MEANS.sub(lambda found: "\\" + found[0], line)


def quoted(text: str) -> str:
    """Text as a YAML scalar."""
    return json.dumps("".join(char if char.isprintable() else " " for char in text), ensure_ascii=False)


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except (KeyError, OSError, ValueError) as error:
        sys.stderr.write(f"pages: {type(error).__name__}: {error}\n")
        raise SystemExit(1) from error
