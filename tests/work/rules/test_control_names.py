"""What a unit may not touch by default: whatever git, a hook runner or ktxkit itself takes orders from."""

from __future__ import annotations

import pytest

from ktxkit.work.rules.policy import is_control


@pytest.mark.parametrize(
    "path",
    [
        ".gitattributes", "sub/.gitmodules", ".git/config", "GIT~1/config", "hooks/pre-commit", "a/hooks/pre-push",
        ".ktx/jobs/j/job.json", ".ktx-config.yaml", ".KTX-Config.yaml", "ktx-gates.yaml", "sub/ktx-gates.yaml.",
        ".husky/pre-commit", ".pre-commit-config.yaml", "lefthook.yml", "sub/.gitignore", ".githooks/pre-commit",
        ".github/workflows/ci.yml", ".github/workflows", ".github", ".GitHub/Workflows/x.yml", ".gitlab-ci.yml",
        ".github/CODEOWNERS", "CODEOWNERS", ".circleci/config.yml", "Jenkinsfile", ".lfsconfig", "GITATT~1",
    ],
)  # fmt: skip
def test_control(path: str) -> None:
    assert is_control(path)


@pytest.mark.parametrize(
    "path",
    [
        "wiki/hooks.md", "hooks/README.md", "ktx-gates.yml.md", "git/x", "conf/gates.yaml", ".gitkeep", "a/.gitkeep",
        ".github/ISSUE_TEMPLATE/bug.md", ".github/FUNDING.yml", ".github/PULL_REQUEST_TEMPLATE.md",
        ".git-blame-ignore-revs", "tests/fixtures/.github/workflows/ci.yml", "tests/data/.gitlab-ci.yml",
        "src/codeowners.py", ".gitlab/issue_templates/x",
    ],
)  # fmt: skip
def test_content(path: str) -> None:
    assert not is_control(path)
