"""Random edits of a sample package: every test that they break is in the answer, so its verdict is the full suite's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktxkit.affected.rules.decision import Decision
from ktxkit.affected.running import covers
from tests.affected import mutants
from tests.affected.deciding import decided
from tests.affected.kinds import files_of
from tests.affected.runner import Runner

FILES = files_of((Path(__file__).parent / "sample.txt").read_text("utf-8"))
SITES = {path: mutants.sites(text) for path, text in FILES.items() if path.endswith(".py") and text}
FULL = bool(os.environ.get("KTX_TEST_FULL"))
EXAMPLES = 400 if FULL else 6


@dataclass
class Suite:
    """The sample on the disk, with a pytest that waits for it."""

    place: Path
    runner: Runner

    def put(self, files: dict[str, str]) -> None:
        for path, text in files.items():
            (self.place / path).parent.mkdir(parents=True, exist_ok=True)
            (self.place / path).write_text(text)

    def missed(self, edits: dict[str, str]) -> list[str]:
        """What an edit breaks and the answer lacks."""
        self.put(edits)
        ran = self.runner.run(self.place)
        self.put({path: FILES[path] for path in edits})
        made = decided(FILES, {**FILES, **edits})
        return lacking(made, ran["bad"], ran["status"])


def lacking(made: Decision, broken: list[str], status: int) -> list[str]:
    """The broken tests that were not picked. A status above 1: pytest itself failed, so nothing passes."""
    if status > 1:
        return [] if made.selected == made.total else ["everything is broken"]
    return [one for one in broken if not any(_has(picked.id, one) for picked in made.tests)]


def _has(picked: str, broken: str) -> bool:
    """Whether what was picked shows it. A directory is broken where its conftest is: pytest names no file then."""
    return covers(picked, broken) or picked.startswith(f"{broken}/")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    made = Suite(tmp_path_factory.mktemp("sample"), Runner(tmp_path_factory.mktemp("home")))
    made.put(FILES)
    ran = made.runner.run(made.place)
    assert ran["status"] == 0 and ran["bad"] == [] and ran["ran"] > 30
    yield made
    made.runner.close()


places = st.sampled_from(sorted(SITES)).flatmap(
    lambda path: st.tuples(st.just(path), st.integers(0, len(SITES[path]) - 1))
)


@settings(
    max_examples=EXAMPLES,
    derandomize=not FULL,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(places, min_size=1, max_size=2, unique_by=lambda place: place[0]))
def test_what_an_edit_breaks_is_selected(suite: Suite, chosen: list[tuple[str, int]]) -> None:
    edits = {path: mutants.edited(FILES[path], SITES[path][number]) for path, number in chosen}
    assert suite.missed(edits) == [], edits


FOUND = {
    "an overriding fixture that only another fixture asks for": (
        "tests/deep/conftest.py",
        "    return Money(purse.amount + 1)\n",
        "    pass\n",
    ),
    "a future import that is not the first statement": (
        "shop/money.py",
        "from __future__ import annotations\n",
        "import os\nfrom __future__ import annotations\n",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_missed_once(suite: Suite, name: str) -> None:
    path, old, new = FOUND[name]
    assert old in FILES[path]
    assert suite.missed({path: FILES[path].replace(old, new)}) == []


@pytest.mark.full
@pytest.mark.skipif(not FULL, reason="the long form: KTX_TEST_FULL=1")
@pytest.mark.parametrize("path", sorted(SITES))
def test_every_edit_of_a_file(suite: Suite, path: str) -> None:
    """Each place of the sample, each edit; some thousand runs."""
    missed = {}
    for site in SITES[path]:
        text = mutants.edited(FILES[path], site)
        if text != FILES[path] and (lacks := suite.missed({path: text})):
            missed[site] = lacks
    assert missed == {}
