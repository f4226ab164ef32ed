"""Write ktxkit/base/documents.py and kinds.py: the types of all documents, from schemas/.

reads    schemas/*.schema.json; tools/document_names.toml for what its place in a schema would name badly
writes   below the mark of each module: a class for each object, an alias for each enum, formatted as ruff does
example  make documents
"""

from __future__ import annotations

import json
import keyword
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 120
SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
ENDINGS = {"ies": "y", "shes": "sh", "ches": "ch", "sses": "ss", "ss": "ss", "s": ""}
OTHERS = "^x-"  # keys of others, which every object may have and no type knows
MARK = "# From here on written by `make documents`, from schemas/.\n"
Shape = dict[str, Any]  # of a schema what a type can say: properties, enum, union, items, values or scalar


def shape_of(schema: Any, definitions: dict[str, Any]) -> Shape:
    """A schema without its references and its limits."""
    if not isinstance(schema, dict):
        return {}
    if "$ref" in schema:
        return shape_of(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    if "const" in schema or "enum" in schema:
        return {"enum": schema.get("enum", [schema.get("const")])}
    if schema.get("properties"):
        properties = {key: shape_of(part, definitions) for key, part in schema["properties"].items()}
        return {"properties": properties, "required": sorted(schema.get("required", ()))}
    kind: Any = schema.get("type")
    union = schema.get("oneOf", schema.get("anyOf"))
    if union or isinstance(kind, list):
        return {"union": [shape_of(part, definitions) for part in union or [{**schema, "type": one} for one in kind]]}
    if kind == "object":
        named = [part for key, part in schema.get("patternProperties", {}).items() if key != OTHERS]
        return {"values": shape_of(named[0] if named else schema.get("additionalProperties"), definitions)}
    if kind == "array":
        return {"items": shape_of(schema.get("items"), definitions)}
    return {"scalar": SCALARS[kind]} if kind else {}


def words(key: str) -> str:
    """A key as a name: `pathPolicy`, `path-policy` and `path_policy` are `PathPolicy`."""
    return "".join(part[:1].upper() + part[1:] for part in key.replace("_", "-").split("-"))


def singular(name: str) -> str:
    """The name for one of several: `entries`, `clashes` and `units` give `entry`, `clash` and `unit`."""
    ending = next((ending for ending in ENDINGS if name.endswith(ending)), "")
    return name.removesuffix(ending) + ENDINGS.get(ending, "")


def variant(shape: Shape) -> str:
    """What tells an object of a union from the others: the one value of a key, or else its first key."""
    tags = [part["enum"][0] for part in shape["properties"].values() if len(part.get("enum", ())) == 1]
    return words(next((tag for tag in tags if isinstance(tag, str)), next(iter(shape["properties"]))))


def parts(shape: Shape, place: str, name: str) -> Iterator[tuple[Shape, str, str]]:
    """What a shape is made of, each with its place and the name that it has by it."""
    for key, part in shape.get("properties", {}).items():
        yield part, f"{place}.{key}", name + words(key)
    for part in [shape[key] for key in ("items", "values") if key in shape]:
        yield part, place, singular(name)
    union = shape.get("union", ())
    several = sum("properties" in part for part in union) > 1
    for part in union:
        yield (part, f"{place}.{variant(part)}", name + variant(part)) if several else (part, place, name)


class Types:
    """The classes and aliases that the schemas need, each after those that it names."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names  # by place
        self.shared: dict[str, str] = {}  # by shape: what the table names has that name wherever it stands
        self.texts, self.shapes = dict[str, str](), dict[str, Shape]()

    def find(self, shape: Shape, place: str) -> None:
        """Take the names of the table that are of places in a shape."""
        if place in self.names and shape.keys() & {"properties", "enum"}:
            self.shared[json.dumps(shape, sort_keys=True)] = self.names[place]
        for part, inner, _ in parts(shape, place, ""):
            self.find(part, inner)

    def type_of(self, shape: Shape, place: str, name: str, title: str = "") -> str:
        """The type of a shape. The classes and aliases that it needs are added to `texts`."""
        name = self.shared.get(json.dumps(shape, sort_keys=True), name)
        inner = [self.type_of(*part) for part in parts(shape, place, name)]
        if "properties" in shape:
            return self._add(name, shape, _class(name, shape, inner, title), title)
        if "enum" in shape:
            values = [f'"{value}"' if isinstance(value, str) else repr(value) for value in shape["enum"]]
            literal = f"Literal[{', '.join(values)}]"
            if len(f"{name} = {literal}") > WIDTH:
                literal = "Literal[\n" + "".join(f"    {value},\n" for value in values) + "]"
            return self._add(name, shape, f"{name} = {literal}\n") if len(values) > 1 else literal
        if "union" in shape:
            union = list(dict.fromkeys(inner))
            lines = "    " + "\n    | ".join(union)
            return self._add(name, shape, f"{name} = (\n{lines}\n)\n") if title else " | ".join(union)
        form = "list[{}]" if "items" in shape else "Mapping[str, {}]" if inner == ["Any"] else "dict[str, {}]"
        return form.format(*inner) if inner else str(shape.get("scalar", "Any"))

    def _add(self, name: str, shape: Shape, text: str, title: str = "") -> str:
        if self.shapes.setdefault(name, shape) != shape:
            raise SystemExit(f"{name} would be two types: name one of them in tools/document_names.toml")
        self.texts[name] = text if title else self.texts.get(name, text)
        return name


def _class(name: str, shape: Shape, inner: list[str], title: str) -> str:
    types = dict(zip(shape["properties"], inner, strict=True))
    types.update({key: f"NotRequired[{types[key]}]" for key in types.keys() - set(shape["required"])})
    if any(keyword.iskeyword(key) or not key.isidentifier() for key in types):
        items = "".join(f'        "{key}": {one},\n' for key, one in types.items())
        return f'{name} = TypedDict(\n    "{name}",\n    {{\n{items}    }},\n)\n'
    doc = f'    """{title if len(title) < WIDTH - 10 else title.partition(":")[0]}."""\n\n' if title else ""
    return f"class {name}(TypedDict):\n{doc}" + "".join(f"    {key}: {one}\n" for key, one in types.items())


def modules() -> dict[Path, str]:
    """The text of each of the two modules."""
    files = sorted((ROOT / "schemas").glob("*.schema.json"))
    schemas = {path.name.removesuffix(".schema.json"): json.loads(path.read_bytes()) for path in files}
    shapes = {kind: shape_of(schema, schema.get("$defs", {})) for kind, schema in schemas.items()}
    types = Types(tomllib.loads((ROOT / "tools" / "document_names.toml").read_text()))
    for kind, shape in shapes.items():
        types.find(shape, kind)
    assert set(types.names.values()) == set(types.shared.values()), "the table names a place that is none"
    names = {kind: types.type_of(shape, kind, words(kind), schemas[kind]["title"]) for kind, shape in shapes.items()}
    constant = '{0}: Kind[documents.{1}] = Kind("{2}")\n'
    kinds = [constant.format(kind.upper().replace("-", "_"), name, kind) for kind, name in names.items()]
    written = {"documents.py": [f"\n\n{text}" for text in types.texts.values()], "kinds.py": kinds}
    paths = [ROOT / "ktxkit" / "base" / file for file in written]
    return {path: path.read_text().partition(MARK)[0] + MARK + "".join(written[path.name]) for path in paths}


if __name__ == "__main__":
    for path, text in modules().items():
        path.write_text(text)
