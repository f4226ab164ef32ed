"""Where pytest takes its options from."""

from __future__ import annotations

import pytest

from ktxkit.affected.configuration import project

OLD = b"[tool.pytest.ini_options]\naddopts = '--doctest-modules'\n"
NATIVE = b"[tool.pytest]\naddopts = ['-q', '--doctest-modules']\n"
INI = b"[pytest]\naddopts = -q --doctest-modules\n"
OWN = b"[pytest]\naddopts = ['--doctest-modules']\n"
OTHER = b"[pytest]\n"
CASES: dict[str, tuple[dict[str, bytes], bool]] = {
    "ini options of pyproject.toml": ({"pyproject.toml": OLD}, True),
    "the table of pytest's own": ({"pyproject.toml": NATIVE}, True),
    "pytest.toml": ({"pytest.toml": OWN}, True),
    ".pytest.toml": ({".pytest.toml": OWN}, True),
    "pytest.toml comes first": ({"pytest.toml": OTHER, "pytest.ini": INI, "pyproject.toml": OLD}, False),
    "pytest.ini": ({"pytest.ini": INI}, True),
    "pytest.ini comes before pyproject.toml": ({"pytest.ini": OTHER, "pyproject.toml": NATIVE}, False),
    "pyproject.toml comes before tox.ini": ({"pyproject.toml": NATIVE, "tox.ini": OTHER}, True),
    "tox.ini": ({"tox.ini": INI}, True),
    "setup.cfg": ({"setup.cfg": INI.replace(b"[pytest]", b"[tool:pytest]")}, True),
    "a table that is none": ({"pyproject.toml": b"[tool]\npytest = 1\n"}, False),
}


@pytest.mark.parametrize("name", CASES)
def test_options_come_from_where_pytest_takes_them(name: str) -> None:
    files, expected = CASES[name]
    assert project(files.get).doctests is expected
