"""Below wiki/ and semantic-layer/ stands plain text, in every flow; other roots can be named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktxkit.git.rules.patch import Content, Entry, Side
from ktxkit.work.rules.policy import Policy, TreeContents, judge
from tests.support.commands import call
from tests.support.jobs import job_file, outcomes, unit
from tests.support.repos import Repo

TEXT, NUL, LATIN = Content(3, False, "b3:0"), Content(3, True, "b3:0"), Content(3, False, "b3:0", True)
CASES: dict[str, tuple[str, str, Content, dict[str, list[str]], bool]] = {
    "a page": ("wiki/global/p.md", "100644", TEXT, {}, True),
    "a program": ("wiki/global/p.md", "100755", TEXT, {}, False),
    "a link": ("semantic-layer/wh/s.yaml", "120000", TEXT, {}, False),
    "a NUL": ("wiki/global/p.bin", "100644", NUL, {}, False),
    "no UTF-8": ("Wiki/global/p.bin", "100644", LATIN, {}, False),
    "elsewhere": ("docs/p.bin", "100755", NUL, {}, True),
    "nowhere by the policy": ("wiki/p.bin", "100755", NUL, {"textRoots": []}, True),
    "another root by the policy": ("docs/p.bin", "100644", NUL, {"textRoots": ["docs"]}, False),
    "and not the usual one": ("wiki/p.bin", "100644", NUL, {"textRoots": ["docs"]}, True),
}


@pytest.mark.parametrize("name", CASES)
def test_policy(name: str) -> None:
    path, mode, content, policy, allowed = CASES[name]
    entry = Entry(path.encode(), Side("000000", "0" * 40), Side(mode, "1" * 40))  # type: ignore[arg-type]
    facts = TreeContents({path.encode(): b"p.md"}, {"1" * 40: content})
    assert [one.rule for one in judge([entry], Policy.of(policy), facts)] == ([] if allowed else ["text-root"])


PAGE = r"mkdir -p wiki/global; printf -- '---\nsummary: x\n---\n\nText.\n' > wiki/global/{0}.md"
UNITS = {
    "good": PAGE.format("good"),
    "exe": PAGE.format("exe") + "; chmod +x wiki/global/exe.md",
    "nul": r"mkdir -p wiki/global; printf 'a\0b' > wiki/global/nul.bin",
    "latin": r"mkdir -p semantic-layer; printf 'a\377b' > semantic-layer/latin.txt",
    "link": "mkdir -p wiki/global; ln -s good.md wiki/global/link.md",
}


def test_a_job(repo: Repo) -> None:
    ran = call(
        "job-run",
        str(job_file(repo, {"units": [unit(key, run) for key, run in UNITS.items()]})),
        "--job",
        "j1",
        cwd=repo.path,
    )
    assert outcomes(repo) == {key: "accepted" if key == "good" else "policy_rejected" for key in UNITS}, ran.err
    free = {"units": [{**unit("nul", UNITS["nul"]), "textRoots": []}]}
    assert call("job-run", str(job_file(repo, free)), "--job", "j2", cwd=repo.path).status == 0


def test_by_hand(repo: Repo, tmp_path: Path) -> None:
    """Collected and applied without a job."""
    start = repo.head
    repo.write("wiki/global/pic.bin", b"a\0b")
    repo.write("docs/pic.bin", b"a\0b")
    out = tmp_path / "p.patch"
    asked = ("patch-collect", "--base", start, "-o", str(out))
    assert call(*asked, cwd=repo.path).status == 1
    assert call(*asked, "--text-root", "docs", cwd=repo.path).status == 1
    assert call(*asked, "--text-root", "other", cwd=repo.path).status == 0
    (repo.path / "wiki/global/pic.bin").unlink()
    (repo.path / "docs/pic.bin").unlink()
    refused = call("patch-apply", str(out), cwd=repo.path)
    assert refused.status == 1 and "only text may stand under wiki" in refused.out
    assert call("patch-apply", str(out), "--text-root", "other", cwd=repo.path).status == 0
