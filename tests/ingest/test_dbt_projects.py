"""Three dbt projects, written for this, that dbt itself compiles: through the connector, and no gate has a word to say.

dbt-core and dbt-duckdb are installed into a virtual environment of the test's own (or are at $KTX_DBT, a `dbt`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import call
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
PROJECTS = Path(__file__).resolve().parent.parent / "cases" / "dbt"
pytestmark = pytest.mark.skipif(not FULL, reason="the long form; `make test-full`")
TYPES = {
    "bakery": {"orders": {"order_id": "number", "ordered_on": "time", "status": "string", "amount": "number"}},
    "workshop": {
        "daily_tickets": {"opened_on": "time", "severity": "number", "tickets": "number", "any_open": "boolean"}
    },
    "studio": {"bookings": {"booking_id": "number", "booked_on": "time", "hours": "number", "price": "number"}},
}


@pytest.fixture(scope="session")
def dbt(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A `dbt` that works. Skips where it cannot be installed."""
    given = os.environ.get("KTX_DBT")
    if given:
        return given
    place = tmp_path_factory.mktemp("dbt") / "venv"
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    packages = ["--only-binary", ":all:", "dbt-core", "dbt-duckdb"]
    done = subprocess.run([place / "bin/pip", "install", "-q", *packages], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"dbt-core and dbt-duckdb do not install here: {done.stderr.strip().splitlines()[-1][:200]}")
    return str(place / "bin/dbt")


def compiled(dbt: str, name: str, tmp_path: Path) -> Path:
    """A copy of a project whose warehouse is built and whose manifest and catalog are written."""
    place = tmp_path / name
    shutil.copytree(PROJECTS / name, place)
    env = {**os.environ, "DBT_SEND_ANONYMOUS_USAGE_STATS": "0", "HOME": str(tmp_path)}
    for step in (["seed"], ["run"], ["test"], ["docs", "generate"]):
        argv = [dbt, *step, "--project-dir", str(place), "--profiles-dir", str(place)]
        done = subprocess.run(argv, cwd=place, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return place


@pytest.mark.parametrize("name", sorted(TYPES))
def test_a_project_that_dbt_compiles(dbt: str, name: str, repo: Repo, tmp_path: Path) -> None:
    project = compiled(dbt, name, tmp_path)
    ran = call("ingest-run", "dbt", str(project), "--connection", "house", "--json", cwd=repo.path)
    assert ran.status == 0, ran.out + ran.err
    assert not [one for one in ran.document.get("projectionResult", {}).get("warnings", ()) if "not known" in one]
    repo.git("reset", "-q", "--hard")
    checked = call("gate-check", "--all", "--advise", "--require-input", "--json", cwd=repo.path)
    told = [one for one in checked.document["findings"] if one["rule"] not in ("unknown-word", "absent-snapshot")]
    assert (checked.status, told) == (0, [])
    for source, types in TYPES[name].items():
        text = (repo.path / f"semantic-layer/house/{source}.yaml").read_text()
        assert "x-unknown-types" not in text and "x-dialect: duckdb\n" in text
        for column, kind in types.items():
            assert f"name: {column}\n" in text and kind in text.partition(f"name: {column}\n")[2].split("- name:")[0]


def test_without_a_catalog_the_unknown_types_are_counted(dbt: str, repo: Repo, tmp_path: Path) -> None:
    project = compiled(dbt, "bakery", tmp_path)
    (project / "target/catalog.json").unlink()
    ran = call("ingest-run", "dbt", str(project), "--connection", "house", "--json", cwd=repo.path)
    (said,) = [one for one in ran.document["projectionResult"]["warnings"] if "not known" in one]
    manifest = json.loads((project / "target/manifest.json").read_text())
    models = [node for node in manifest["nodes"].values() if node["resource_type"] in ("model", "seed", "snapshot")]
    count = sum(len(node["columns"]) for node in models)
    assert said.startswith(f"the types of {count} columns are not known")
    repo.git("reset", "-q", "--hard")
    assert "x-unknown-types" in (repo.path / "semantic-layer/house/orders.yaml").read_text()
