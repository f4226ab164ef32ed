"""The job file as values."""

from __future__ import annotations

from typing import Any

import pytest

from ktxkit.base.errors import CannotRun
from ktxkit.work.rules.job_file import JobPlan, argv_of, inputs_digest, plan_of

HEAD: Any = {"schemaVersion": 1, "connectionId": "c", "sourceKey": "s"}


def planned(document: Any, *more: Any) -> JobPlan:
    """The plan of a document that says only what the test is about."""
    return plan_of(document, *more)


def test_defaults() -> None:
    plan = planned({**HEAD, "units": [{"key": "a", "run": "true"}]})
    assert (plan.on_failure, plan.on_conflict, plan.max_parallel, plan.target) == ("continue", "set-aside", None, "")
    assert plan.units[0].step.argv == ("/bin/sh", "-c", "true")


def test_argv_goes_as_it_is_and_text_to_the_shell() -> None:
    assert argv_of(["a b", "$c"]) == ("a b", "$c")
    assert argv_of("a $b") == ("/bin/sh", "-c", "a $b")


def test_a_unit_inherits_command_limit_policy_and_environment() -> None:
    document = {
        **HEAD,
        "run": ["work"],
        "timeLimit": 9,
        "policy": {"allow": ["wiki/**"], "slDisallowed": True},
        "env": {"A": "1", "B": "1"},
        "units": [{"key": "a"}, {"key": "b", "run": "x", "timeLimit": 2, "slDisallowed": False, "env": {"B": "2"}}],
    }
    first, second = planned(document).units
    assert (first.step.argv, first.step.time_limit) == (("work",), 9)
    assert first.policy == {"allow": ["wiki/**"], "slDisallowed": True}
    assert second.step.time_limit == 2
    assert second.policy == {"allow": ["wiki/**"], "slDisallowed": False}
    assert second.env == {"A": "1", "B": "2"}


def test_a_unit_without_a_command_is_refused() -> None:
    with pytest.raises(CannotRun, match="'a' has no command"):
        planned({**HEAD, "units": [{"key": "a"}]})


def test_planned_units_come_behind_the_written_ones() -> None:
    plan = planned({**HEAD, "run": "x", "units": [{"key": "z"}]}, [{"key": "a", "after": ["z"]}])
    assert [unit.key for unit in plan.units] == ["z", "a"]


def test_reconciliation_is_the_last_unit_and_tolerates_failures() -> None:
    plan = planned({**HEAD, "run": "x", "units": [{"key": "a"}, {"key": "b"}], "reconcile": "fix"})
    last = plan.units[-1]
    assert (last.key, last.after, last.tolerant) == ("reconcile", ("a", "b"), True)


def test_the_key_of_reconciliation_is_taken() -> None:
    with pytest.raises(CannotRun, match="stands twice"):
        planned({**HEAD, "run": "x", "units": [{"key": "reconcile"}], "reconcile": "fix"})


def test_a_bad_job_id_is_refused() -> None:
    with pytest.raises(CannotRun, match="job id"):
        planned({**HEAD, "job": "a..b", "units": []})


CHANGES: dict[str, tuple[dict[str, Any], str, dict[str, str]]] = {
    "command": ({"run": "y"}, "t", {"raw": "1"}),
    "policy": ({"deny": ["x"]}, "t", {"raw": "1"}),
    "environment": ({"env": {"A": "2"}}, "t", {"raw": "1"}),
    "tree": ({}, "u", {"raw": "1"}),
    "raw file": ({}, "t", {"raw": "2"}),
}


@pytest.mark.parametrize(("entry", "tree", "raw"), CHANGES.values(), ids=CHANGES)
def test_every_input_is_in_the_digest(entry: dict[str, Any], tree: str, raw: dict[str, str]) -> None:
    base = planned({**HEAD, "units": [{"key": "a", "run": "x"}]}).units[0]
    other = planned({**HEAD, "units": [{"key": "a", "run": "x", **entry}]}).units[0]
    before = inputs_digest(base, "t", {"raw": "1"})
    assert inputs_digest(base, "t", {"raw": "1"}) == before
    assert inputs_digest(other, tree, raw) != before
