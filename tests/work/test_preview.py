"""Clashes are told before the units finish, and nothing but objects is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktxkit.work.preview import preview
from tests.support.commands import call
from tests.support.integration import Job
from tests.support.repos import Repo

SOURCE = """name: orders
grain: [id]
table: shop.orders
columns:
  - {name: id, type: number}
  - {name: amount, type: number}
measures:
  - {name: total, expr: sum(amount)}
"""
PAGE = "---\nsummary: Orders\nsl_refs: [orders]\n---\n\nSee `orders.total`.\n"


@pytest.fixture
def job(repo: Repo) -> Job:
    repo.write("text", "".join(f"line {n}\n" for n in range(1, 21)))
    repo.write("semantic-layer/shop/orders.yaml", SOURCE)
    repo.commit("base")
    return Job.begin(repo)


def edit(work: Repo, old: str, new: str, name: str = "text") -> None:
    path = work.path / name
    path.write_text(path.read_text().replace(old, new))


def snapshot(top: Path) -> list[tuple[str, float]]:
    """Every file but git's objects and the trace, with its time."""
    found = [path for path in sorted(top.rglob("*")) if "objects" not in path.parts and ".git" not in path.parts]
    return [(str(path), path.lstat().st_mtime) for path in found if not path.is_dir()]


def test_two_on_one_line_clash_and_two_apart_do_not(job: Job) -> None:
    edit(job.open("a"), "line 7\n", "seven\n")
    edit(job.open("b"), "line 7\n", "sept\n")
    edit(job.open("c"), "line 15\n", "fifteen\n")
    job.open("d").write("other", "x\n")
    before = snapshot(job.repo.path)
    made = preview(job.active)
    assert [(c["first"], c["second"], c["kind"]) for c in made["clashes"]] == [("a", "b", "textual")]
    assert [clash["path"] for clash in made["clashes"][0]["conflicts"]] == ["text"]
    assert made["pairsMet"] == 3
    assert snapshot(job.repo.path) == before
    assert {key: made[key] for key in ("units", "clashes")} == {
        key: preview(job.active)[key] for key in ("units", "clashes")
    }


def test_a_page_and_a_renamed_measure_clash_though_no_path_meets(job: Job) -> None:
    edit(job.open("rename"), "name: total", "name: sum_total", "semantic-layer/shop/orders.yaml")
    job.open("page").write("wiki/global/orders.md", PAGE)
    made = preview(job.active)
    assert [(c["first"], c["second"], c["kind"]) for c in made["clashes"]] == [("rename", "page", "semantic")]
    assert [finding["path"] for finding in made["clashes"][0]["findings"]] == ["wiki/global/orders.md"]


def test_a_file_where_another_needs_a_directory(job: Job) -> None:
    job.open("a").write("place", "x\n")
    job.open("b").write("place/inside", "x\n")
    made = preview(job.active)
    assert [(c["first"], c["second"]) for c in made["clashes"]] == [("a", "b")]


def test_a_unit_that_already_conflicts_with_the_head_is_told_alone(job: Job) -> None:
    job.unit("done", lambda w: edit(w, "line 7\n", "seven\n"))
    edit(job.open("late"), "line 7\n", "sept\n")
    job.open("idle")
    made = preview(job.active)
    assert [(u["unitKey"], u["outcome"]) for u in made["units"]] == [("late", "textual_conflict"), ("idle", "noop")]
    assert made["outcome"] == "findings"


def test_a_unit_in_the_middle_of_a_merge_is_no_obstacle(job: Job) -> None:
    job.unit("done", lambda w: edit(w, "line 7\n", "seven\n"))
    work = job.open("late")
    edit(work, "line 7\n", "sept\n")
    work.commit()
    work.git("merge", "-q", job.head, check=False)
    assert [u["outcome"] for u in preview(job.active)["units"]] != []


def test_the_command_says_it_in_one_line_each(job: Job) -> None:
    edit(job.open("a"), "line 7\n", "seven\n")
    edit(job.open("b"), "line 7\n", "sept\n")
    ran = call("job-preview", "--job", "j1", cwd=job.repo.path)
    assert ran.status == 1
    lines = ran.out.splitlines()
    assert lines[0] == "2 live units, 1 pair merged, 1 clash"
    assert lines[1].startswith("  a and b: textual clash: text (both sides changed the same lines")
