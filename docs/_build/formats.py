"""Pages made while the site is built: one for each schema, so that no format is described twice.

And the order of the commands' pages, which the navigation need not list.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent


def on_config(config: Any) -> Any:
    """Put the page of each command into the section of commands, by its name."""
    reference = next(part["Reference"] for part in config["nav"] if "Reference" in part)
    commands = next(part["Commands"] for part in reference if "Commands" in part)
    known = {path for part in commands for path in part.values()}
    pages = (f"commands/{path.name}" for path in (ROOT / "docs" / "commands").glob("*.md"))
    commands += [{Path(page).stem: page} for page in pages if page not in known]
    commands.sort(key=lambda part: next(iter(part.values())))
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add `formats/schemas/NAME.md` for every schema, and their index."""
    from mkdocs.structure.files import File

    listed = []
    for path in sorted((ROOT / "schemas").glob("*.schema.json")):
        name = path.name.removesuffix(".schema.json")
        files.append(File.generated(config, f"formats/schemas/{name}.md", content=page(json.loads(path.read_text()))))
        listed.append(f"- [`{name}`]({name}.md)")
    text = "# Every schema\n\nMade from `schemas/` when this site is built.\n\n" + "\n".join(listed) + "\n"
    files.append(File.generated(config, "formats/schemas/index.md", content=text))
    return files


def page(schema: dict[str, Any]) -> str:
    """A schema as a page: title, then every key with its type, whether it is needed, and its limits."""
    name = schema["$id"].removesuffix(".schema.json")
    lines = [f"# {name}", "", f"{schema['title']}.", "", "| key | needed | what |", "|---|---|---|"]
    lines += rows(schema, "", schema.get("$defs", {}))
    return "\n".join([*lines, "", "The schema itself:", "", "```json", json.dumps(schema, indent=2), "```", ""])


def rows(schema: dict[str, Any], lead: str, defs: dict[str, Any]) -> list[str]:
    """A row for each key of an object, the keys of inner objects below it."""
    made = []
    for key, inner in schema.get("properties", {}).items():
        inner = resolved(inner, defs)
        needed = "yes" if key in schema.get("required", []) else ""
        made.append(f"| `{lead}{key}` | {needed} | {kind(inner)} |")
        item = resolved(inner.get("items", {}) if inner.get("type") == "array" else inner, defs)
        mark = "[]" if inner.get("type") == "array" else ""
        if lead.count(".") < 3:
            made += rows(item, f"{lead}{key}{mark}.", defs)
    return made


def resolved(schema: Any, defs: dict[str, Any]) -> dict[str, Any]:
    """A schema without a reference; `true` allows anything."""
    if not isinstance(schema, dict):
        return {}
    return defs[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def kind(schema: dict[str, Any]) -> str:
    """A type and its limits in words."""
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(kind(inner) for inner in schema[word])
    text = str(schema.get("type", "any"))
    limits = [f"{name} {schema[key]}" for key, name in LIMITS.items() if key in schema]
    if "pattern" in schema:
        limits.append("`" + schema["pattern"].replace("|", "\\|") + "`")
    if text == "array" and "items" in schema and "properties" not in schema["items"]:
        text = f"array of {kind(schema['items'])}" if "$ref" not in schema["items"] else text
    return f"{text} ({', '.join(limits)})" if limits else text


LIMITS = {
    "minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "minLength": "at least", "maxLength": "at most",
    "minItems": "at least", "maxItems": "at most",
}  # fmt: skip
