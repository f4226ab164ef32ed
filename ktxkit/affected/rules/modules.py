"""Which files a dotted name may mean: every one that some `sys.path` inside the project could give it to.

A file answers to each end of its path whose beginning is no package, because any such directory may be on the path:
the project's root, `src`, a directory of tests, a part of a namespace package. Where programs change `sys.path`, to
each end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

INIT = "__init__"


def parts_of(path: str) -> tuple[str, ...]:
    """`a/b/__init__.py` is `a.b`."""
    parts = tuple(path.removesuffix(".py").split("/"))
    return parts[:-1] if parts[-1] == INIT else parts


class Modules:
    """The modules among the paths of a project. `mapped`: dotted prefixes that lie in another directory."""

    def __init__(
        self, paths: Iterable[str], *, anywhere: bool = False, mapped: Mapping[str, str] | None = None
    ) -> None:
        self.paths = [path for path in paths if path.endswith(".py")]
        self.packages = {path.removesuffix(f"/{INIT}.py") for path in self.paths if path.endswith(f"/{INIT}.py")}
        self.anywhere = anywhere
        self.mapped = dict(mapped or {})
        self._known = set(self.paths)
        self._by_last_folder: dict[str, list[str]] = defaultdict(list)
        for folder in {path[:at] for path in self.paths for at, char in enumerate(path) if char == "/"}:
            self._by_last_folder[folder.rpartition("/")[2]].append(folder)
        self._last: dict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
        for path in self.paths:
            parts = parts_of(path)
            if parts:
                self._last[parts[-1]].append((parts, path))
        self._found: dict[tuple[str, str], frozenset[str]] = {}

    def resolve(self, user: str, name: str) -> frozenset[str]:
        """The files that `name` may mean in a file: empty where it is no module of the project."""
        folder = user.rpartition("/")[0]
        key = (folder, name)
        if key not in self._found:
            self._found[key] = frozenset(self._resolved(folder, name))
        return self._found[key]

    def may_be(self, name: str) -> bool:
        """Whether a name could be a module of the project: a quick no for most."""
        last = name.rpartition(".")[2]
        return (
            "*" in name
            or name.startswith(".")
            or last in self._last
            or last in self._by_last_folder
            or bool(self.mapped)
        )

    def folders(self, user: str, name: str) -> list[str]:
        """The directories that a name may mean as a package, one without `__init__.py` included."""
        if name.startswith("."):
            found = self.resolve(user, name)
            return [path.removesuffix(f"/{INIT}.py") for path in found if path.endswith(f"/{INIT}.py")]
        wanted = name.replace(".", "/")
        return [
            one for one in self._by_last_folder.get(wanted.rpartition("/")[2], ()) if f"/{one}".endswith(f"/{wanted}")
        ]

    def loaded(self, user: str, name: str) -> frozenset[str]:
        """What importing a dotted name runs: it, or the longest beginning of it that is a module."""
        while name.strip("."):
            found = self.resolve(user, name)
            if found or (name.startswith(".") and "." not in name.lstrip(".")):
                return found
            name = name.rpartition(".")[0]
        return self.resolve(user, name) if name else frozenset()

    def namespaces(self, name: str) -> list[str]:
        """The directories of that name that are no packages, and may be parts of a namespace package."""
        return [one for one in self._by_last_folder.get(name, ()) if one not in self.packages]

    def _resolved(self, folder: str, name: str) -> Iterable[str]:
        if name.startswith("."):
            return self._relative(folder, name)
        if "*" in name or "?" in name:
            wanted = name.replace(".", "/")
            return [path for path in self.paths if fnmatchcase("/" + "/".join(parts_of(path)), f"*/{wanted}")]
        found = self._absolute(folder, tuple(name.split(".")))
        for prefix, place in self.mapped.items():
            if name == prefix or name.startswith(prefix + "."):
                inside = name.removeprefix(prefix).replace(".", "/")
                found += self._at((place + inside).strip("/"))
        return found

    def _relative(self, folder: str, name: str) -> Iterable[str]:
        rest = name.lstrip(".")
        up = len(name) - len(rest) - 1
        parts = folder.split("/") if folder else []
        if up > len(parts):
            return []
        base = "/".join(parts[: len(parts) - up])
        place = f"{base}/{rest.replace('.', '/')}".strip("/")
        if "*" in place:
            return [path for path in self.paths if fnmatchcase("/".join(parts_of(path)), place)]
        return self._at(place)

    def _at(self, place: str) -> list[str]:
        both = (f"{place}.py", f"{place}/{INIT}.py" if place else f"{INIT}.py")
        return [path for path in both if path in self._known]

    def _absolute(self, folder: str, wanted: tuple[str, ...]) -> list[str]:
        found = []
        for parts, path in self._last.get(wanted[-1], ()):
            if parts[-len(wanted) :] != wanted:
                continue
            root = "/".join(parts[: -len(wanted)])
            if self.anywhere or root == folder or root not in self.packages:
                found.append(path)
        return found
