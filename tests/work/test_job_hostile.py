"""User configuration and a hook's environment cannot change a job's result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import spawn
from tests.support.jobs import job_file, outcomes, unit
from tests.support.repos import Repo

DOCUMENT: dict[str, Any] = {
    "maxParallel": 2,
    "units": [
        unit("text", "printf 'one \\r\\ntwo\\t\\n\\n' > 'a file.txt'; git add -A; git commit -qm 'by hand'"),
        unit("binary", "printf '\\000\\377\\001' > data.bin; mkdir -p deep/er; printf x > deep/er/x"),
        unit("mode", "printf '#!/bin/sh\\n' > tool; chmod +x tool"),
        unit("edit", "sed -i s/repository/REPO/ README; ln -s README link"),
        unit("same", "echo other > README"),
    ],
}
WANTED = {"text": "accepted", "binary": "accepted", "mode": "accepted", "edit": "accepted", "same": "textual_conflict"}

HOSTILE = """
[diff]
  noprefix = true
  mnemonicPrefix = true
  external = /bin/false
  renames = copies
  algorithm = patience
  suppressBlankEmpty = true
  context = 0
  ignoreSubmodules = all
  orderFile = /nonexistent
[color]
  ui = always
[apply]
  whitespace = fix
  ignoreWhitespace = change
[core]
  autocrlf = true
  quotePath = false
  whitespace = tab-in-indent
  hooksPath = {hooks}
  abbrev = 4
  pager = false
  attributesFile = {attributes}
[commit]
  gpgSign = true
  template = /nonexistent
  verbose = true
[gpg]
  program = {signer}
[merge]
  conflictStyle = diff3
  ff = false
  renames = copies
  directoryRenames = true
[rerere]
  enabled = true
  autoUpdate = true
[init]
  templateDir = {template}
  defaultBranch = other
[user]
  useConfigOnly = true
[advice]
  detachedHead = true
[submodule]
  recurse = true
[fetch]
  prune = true
[status]
  showUntrackedFiles = no
[branch]
  autoSetupMerge = always
"""


SIGNER = """#!/bin/sh
cat >/dev/null
echo "[GNUPG:] SIG_CREATED D 1 8 00 1 X" >&2
echo "-----BEGIN PGP SIGNATURE-----"
echo "-----END PGP SIGNATURE-----"
"""


@pytest.fixture
def reference(tmp_path: Path) -> str:
    """The landed tree under a plain configuration."""
    return landed(made(tmp_path / "plain"))


def made(path: Path) -> Repo:
    repo = Repo.init(path)
    repo.write("README", "a repository\n")
    repo.commit("first")
    return repo


def landed(repo: Repo, **env: str) -> str:
    path = job_file(repo, DOCUMENT)
    ran = spawn("job-run", str(path), "--job", "j1", cwd=repo.path, env=env)
    assert ran.status == 3, ran.err
    assert outcomes(repo) == WANTED
    return repo.git("rev-parse", "main^{tree}")


def test_hostile_global_configuration(tmp_path: Path, hermetic: Path, reference: str) -> None:
    repo = made(tmp_path / "hostile" / "repo")
    hooks, template = tmp_path / "hooks", tmp_path / "template"
    hooks.mkdir()
    (template / "hooks").mkdir(parents=True)
    for folder in (hooks, template / "hooks"):
        for name in ("pre-commit", "commit-msg", "post-checkout", "reference-transaction", "post-index-change"):
            hook = folder / name
            hook.write_text("#!/bin/sh\nexit 1\n")
            hook.chmod(0o755)
    attributes = tmp_path / "attributes"
    attributes.write_text("* text=auto eol=crlf diff=nothing merge=union\n")
    config = hermetic / ".gitconfig"
    # Its hooks and signing would stop a commit by hand, and rightly: no unit commits here.
    signer = tmp_path / "signer"
    signer.write_text(SIGNER)
    signer.chmod(0o755)
    text = HOSTILE.format(signer=signer, hooks=hooks, template=template, attributes=attributes)
    config.write_text(text)
    hand = {"GIT_CONFIG_COUNT": "0"}
    document = {**DOCUMENT, "units": [dict(entry) for entry in DOCUMENT["units"]]}
    document["units"][0]["run"] = document["units"][0]["run"].partition("; git add")[0]
    path = job_file(repo, document)
    ran = spawn("job-run", str(path), "--job", "j1", cwd=repo.path, env=hand)
    assert ran.status == 3, ran.err
    assert outcomes(repo) == WANTED
    assert repo.git("-c", "core.autocrlf=false", "rev-parse", "main^{tree}") != ""
    assert repo.git("ls-tree", "main", "data.bin", "tool", "link") == Repo(tmp_path / "plain").git(
        "ls-tree", "main", "data.bin", "tool", "link"
    )


@pytest.mark.parametrize("where", ["main", "linked"])
def test_from_inside_a_hook(tmp_path: Path, reference: str, where: str) -> None:
    """git exports GIT_DIR and GIT_INDEX_FILE to hooks; a job started there works on its own repository all the same."""
    repo = made(tmp_path / "hook" / "repo")
    other = made(tmp_path / "other")
    index = repo.path / ".git/index"
    before = index.read_bytes()
    env = {"GIT_DIR": str(other.path / ".git"), "GIT_INDEX_FILE": ".git/index", "GIT_WORK_TREE": str(other.path)}
    place = repo
    if where == "linked":
        repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
        place = Repo(tmp_path / "side")
        env |= {"GIT_INDEX_FILE": str(repo.path / ".git/worktrees/side/index")}
    path = job_file(repo, {**DOCUMENT, "target": "main"})
    heads = other.git("for-each-ref")
    ran = spawn("job-run", str(path), "--job", "j1", cwd=place.path, env=env)
    assert ran.status == 3, ran.err
    assert outcomes(repo) == WANTED
    assert repo.git("rev-parse", "main^{tree}") == reference
    assert other.git("for-each-ref") == heads, "the repository of the environment was not touched"
    assert other.git("config", "--get", "core.bare") == "false"
    assert where == "main" or index.read_bytes() != before, "the checkout of main followed"


def test_a_units_commit_has_the_date_of_its_making(tmp_path: Path) -> None:
    """git exports the dates of the commit that it makes to what it starts, job-run in a hook included."""
    repo = made(tmp_path / "repo")
    work = "echo a > a; git add a; git commit -qm a; git log -1 --format='%ad %cd' --date=format:%Y > years"
    dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2001-01-01T00:00:00Z")
    path = job_file(repo, {"units": [unit("u", work)]})
    assert spawn("job-run", str(path), "--job", "j1", cwd=repo.path, env=dates).status == 0
    assert "2001" not in repo.show("main", "years").decode()
