"""Changes that reading Python cannot bound: after one, every test may be meant, and the answer is `unknown`."""

from __future__ import annotations

from fnmatch import fnmatchcase

CONFIGURATION = (
    "pyproject.toml", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "setup.py",
    "noxfile.py",
    "*requirements*.txt", "*requirements*.in", "constraints*.txt", "*.lock", "Pipfile", "pylock*.toml",
    "environment*.yml", "environment*.yaml", "conda*.yml", ".coveragerc", ".python-version", "MANIFEST.in", ".env",
    ".ktx-config.yaml",
)  # fmt: skip
AT_START = ("*.pth", "sitecustomize.py", "usercustomize.py", "*.dist-info/*", "*.egg-info/*")
COMPILED = (
    "*.so", "*.pyd", "*.dll", "*.dylib", "*.pyx", "*.pxd", "*.pxi", "*.c", "*.h", "*.cc", "*.cpp", "*.cxx", "*.hpp",
    "*.rs", "*.f", "*.f90", "*.pyc", "*.o", "*.a", "CMakeLists.txt", "meson.build", "Cargo.toml",
)  # fmt: skip
OF_GIT = (".gitattributes", ".gitmodules")
LINK, SUBMODULE = "120000", "160000"


def why(path: str, modes: tuple[str, str]) -> str:
    """Why a change of a path may reach any test; empty where it can be followed."""
    name = path.rpartition("/")[2]
    if SUBMODULE in modes:
        return "a submodule: what is in it is not read"
    if LINK in modes:
        return "a symbolic link: what is found through it is not followed"
    if any("\udc80" <= char <= "\udcff" for char in path):
        return "its name is not UTF-8"
    for patterns, said in (
        (CONFIGURATION, "configuration: it may change how anything is built, found or run"),
        (AT_START, "read when Python starts"),
        (COMPILED, "compiled code, or source of it: who uses it cannot be read"),
        (OF_GIT, "it changes what git checks out"),
    ):
        if any(fnmatchcase(name, one) or ("/" in one and fnmatchcase(path, f"*{one}")) for one in patterns):
            return said
    return ""


def through_links(path: str, links: dict[str, str]) -> str:
    """Why a change below the target of a symbolic link may be seen under another name. `links`: path to target."""
    for link, target in links.items():
        if path == target or path.startswith(f"{target}/") or target == "":
            return f"it is also {link}, by a symbolic link"
    return ""
