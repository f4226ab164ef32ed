"""What is installed, asked without importing it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from ktxkit.gates import version


def test_it_says_what_the_package_says_of_itself() -> None:
    assert version.version_of("sqlglot") == importlib.metadata.version("sqlglot")
    assert (version.is_there("_ruamel_yaml"), version.is_there("no_such_module")) == (True, False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("__version__ = version = '1.2'\n", "1.2"),
        ('x = 1\n__version__: str = "3.0b1"\n', "3.0b1"),
        ("__version__ = other\n", "unknown"),
        (None, "unknown"),
    ],
)
def test_other_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, said: str) -> None:
    name = f"made_{abs(hash(text))}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise RuntimeError('it must not be imported')\n")
    if text is not None:
        (tmp_path / name / "_version.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert version.version_of(name) == said
    assert version.version_of(f"{name}_absent") == ""


def test_a_gate_without_expressions_loads_no_sql_parser(tmp_path: Path) -> None:
    code = "import sys; from ktxkit.gates import judging, version; version.version(); print('sqlglot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "False\n"
