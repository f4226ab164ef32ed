"""A real company knowledge base: 28 pages, 44 sources, with what is wrong in it already."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.commands import spawn
from tests.support.jobs import job_file, outcomes, report, trace, unit
from tests.support.repos import Repo
from tests.support.shared import SHARED

DATA = SHARED / "data/orbit"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"the shared inputs are not at {DATA}")
MEASURE = "total_arr_cents"
SOURCE = "semantic-layer/dbt-main/mart_arr_daily.yaml"


@pytest.fixture
def orbit(tmp_path: Path) -> Repo:
    repo = Repo.init(tmp_path / "orbit")
    shutil.copytree(DATA, repo.path, dirs_exist_ok=True)
    for folder, _, files in os.walk(repo.path):
        Path(folder).chmod(0o755)
        for name in files:
            (Path(folder) / name).chmod(0o644)
    repo.commit("orbit")
    return repo


def test_28_units_on_28_pages_land_all(orbit: Repo) -> None:
    pages = sorted((orbit.path / "wiki/global").glob("*.md"))
    assert len(pages) == 28
    units = [unit(page.stem, f"echo 'One more line.' >> wiki/global/{page.name}") for page in pages]
    path = job_file(orbit, {"units": units})
    ran = spawn("job-run", str(path), "--job", "j1", cwd=orbit.path)
    assert ran.status == 0, ran.err + ran.out
    assert set(outcomes(orbit).values()) == {"accepted"}
    assert len(orbit.git("diff", "--name-only", "main^", "main").split()) == 28
    verdict = json.loads((orbit.path / ".ktx/jobs/j1/verdict.json").read_text())
    inherited = [found for found in verdict["findings"] if found["level"] == "error"]
    assert inherited, "orbit has a broken link, and it is said"
    assert all(found["inherited"] for found in inherited), "none of it is charged to the job"


def test_a_renamed_measure_is_caught_on_the_page_that_the_unit_never_touched(orbit: Repo) -> None:
    page = "wiki/global/arr-in-cents.md"
    orbit.write(
        page, f"---\nsummary: ARR in cents\nsl_refs: [mart_arr_daily]\n---\n\nSee `mart_arr_daily.{MEASURE}`.\n"
    )
    orbit.commit("a page that speaks of the measure")
    before = orbit.head
    holders = orbit.git("grep", "-l", MEASURE, "--", "semantic-layer").split()
    names = " ".join(holder for holder in holders if holder.endswith("mart_arr_daily.yaml"))
    path = job_file(orbit, {"units": [unit("rename", f"sed -i s/{MEASURE}/arr_total_cents/g {names}")]})
    ran = spawn("job-run", str(path), "--job", "j1", cwd=orbit.path)
    assert ran.status == 3
    assert outcomes(orbit) == {"rename": "semantic_conflict"}
    assert orbit.git("rev-parse", "main") == before
    found = [entry for entry in report(orbit)["workUnits"][0]["findings"] if not entry.get("inherited")]
    assert {entry["path"] for entry in found if entry["level"] == "error"} == {page}
    told = next(event for event in trace(orbit) if event["event"] == "patch_semantic_conflict")
    assert page in json.dumps(told["data"])
    assert page in ran.out
