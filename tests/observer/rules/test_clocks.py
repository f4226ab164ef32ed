"""The deadline machine: the figures, the formula under generated histories, and mutants that must be found out."""

from __future__ import annotations

import inspect
import os
import random
import types
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktxkit.base.errors import CannotRun
from ktxkit.observer.rules import clocks
from ktxkit.observer.rules.clocks import (
    RANGES,
    SECOND,
    ClockReading,
    Observation,
    Settings,
    Timeline,
    Window,
    deadlines,
    observe,
    prove,
)

FULL = os.environ.get("KTX_TEST_FULL") == "1"
DEFAULT = Settings()
S = SECOND


def suspect_after(window: Window, at: int, *, proof_seq: int | None = None, watched: bool = True) -> int:
    """The deadline in seconds after one observation at `at` seconds."""
    seq = window.proof_seq if proof_seq is None else proof_seq
    return deadlines(observe(window, Observation(at * S, seq, watched), DEFAULT)[0], DEFAULT).suspect_at // S


def test_the_defaults() -> None:
    assert (DEFAULT.silence_ms, DEFAULT.grace_ms, DEFAULT.cap_ms) == (300_000, 120_000, 600_000)
    assert DEFAULT.interval_ms == 15_000


PROVEN = Window(10_000 * S, proof_seq=1)


@pytest.mark.parametrize(
    ("observed", "expected"), [(None, 10_300), (10_420, 10_540), (99_999, 10_900), (10_100, 10_300), (10_180, 10_300)]
)
def test_the_figures(observed: int | None, expected: int) -> None:
    if observed is None:
        assert deadlines(PROVEN, DEFAULT).suspect_at == expected * S
    else:
        assert suspect_after(PROVEN, observed) == expected


def test_an_observation_under_an_old_proof_defers_nothing() -> None:
    seen = observe(PROVEN, Observation(20_450 * S, 1, watched=True), DEFAULT)[0]
    renewed = prove(seen, 20_500 * S)
    assert deadlines(renewed, DEFAULT).suspect_at == 20_800 * S
    assert suspect_after(renewed, 20_790, proof_seq=1) == 20_800
    assert suspect_after(renewed, 20_790, proof_seq=2) == 20_910


@pytest.mark.parametrize(
    ("at", "watched", "expected"),
    [
        (301, False, 421),  # a write at 299 s, seen by the look that the decision demands
        (315, False, 435),  # one interval after the deadline
        (316, False, 300),
        (505, False, 300),  # the deadline passed while nobody looked: it is not healed
        (505, True, 625),  # somebody looked, and had said so at 300 s
        (180, False, 300),
        (181, False, 301),
    ],
)
def test_where_nobody_watched_a_passed_deadline_stays_passed(at: int, watched: bool, expected: int) -> None:
    assert suspect_after(Window(0), at, watched=watched) == expected


def test_a_distinct_write_every_thirty_seconds_for_ever_ends_at_nine_hundred() -> None:
    window = Window(0)
    for at in range(30, 3_000, 30):
        window, _ = observe(window, Observation(at * S, 0, watched=True), DEFAULT)
        assert clocks.is_suspect(window, at * S, DEFAULT) is (at >= 900)
    found = deadlines(window, DEFAULT)
    assert (found.suspect_at, found.consumed) == (900 * S, 600 * S)


def test_what_was_seen_before_is_recorded_and_defers_nothing() -> None:
    window, reason = observe(Window(0), Observation(290 * S, 0, watched=True, recurring=True), DEFAULT)
    assert (window, reason) == (Window(0), "manifest_seen_before")


def test_without_a_known_proof_there_is_no_deadline_until_a_new_one() -> None:
    lost = Window(0, known=False)
    assert clocks.is_suspect(lost, 10**18, DEFAULT) is None
    assert observe(lost, Observation(5, 0, watched=True), DEFAULT) == (lost, "no_known_proof")
    assert deadlines(prove(lost, 7 * S), DEFAULT).suspect_at == 307 * S


@pytest.mark.parametrize("name", sorted(RANGES))
@pytest.mark.parametrize("side", [0, 1])
def test_an_interval_out_of_range_is_refused(name: str, side: int) -> None:
    limit = RANGES[name][side]
    Settings(**{name: limit})
    with pytest.raises(CannotRun, match="it must be"):
        Settings(**{name: limit + (1 if side else -1)})


def test_settings_are_what_their_document_says() -> None:
    made = Settings(silence_ms=2_000, grace_ms=3, cap_ms=4)
    assert Settings.of(made.document()) == made


# -- the time line -----------------------------------------------------------------------------------------------------

START = Timeline.start(ClockReading("a", 5 * S, 1_000 * S))


@pytest.mark.parametrize(
    ("reading", "passed", "jumped"),
    [
        (ClockReading("a", 65 * S, 1_060 * S), 60, False),
        (ClockReading("a", 65 * S, 500 * S), 60, True),  # the wall clock was set back
        (ClockReading("a", 65 * S, 9_000 * S), 60, True),  # or forward
        (ClockReading("a", 7205 * S, 8_200 * S), 7200, False),  # two hours suspended count
        (ClockReading("b", 1 * S, 1_090 * S), 90, False),  # another boot: the wall clock's
        (ClockReading("b", 1 * S, 400 * S), 0, True),  # which never goes back
        (ClockReading("a", 4 * S, 1_001 * S), 1, False),  # a boot clock that went back is another one
    ],
)
def test_the_time_line(reading: ClockReading, passed: int, jumped: bool) -> None:
    found = START.advanced(reading)
    assert (found.at - START.at, found.jumped) == (passed * S, jumped)
    assert found.reading == reading


# -- generated histories, against an oracle of its own ----------------------------------------------------------------

Step = tuple[str, int]
KINDS = ("write", "again", "unwatched", "proof", "stale", "pass", "restart")


def law(machine: Any, config: tuple[int, int, int, int], steps: list[Step]) -> str:
    """Run a history through a machine and through the oracle; what differs, or `""`."""
    silence, grace, cap, interval = config
    chosen = Settings(silence_ms=silence, grace_ms=grace, cap_ms=cap, interval_ms=interval)
    window, now = machine.Window(0), 0
    proven, proofs = 0, 0
    writes: list[int] = []
    for kind, passed in steps:
        now += passed * 1_000_000
        expected = oracle(proven, writes, chosen)
        if kind == "proof":
            window, proven, proofs, writes = machine.prove(window, now), now, proofs + 1, []
        elif kind == "restart":  # what is persisted is all there is
            window = machine.Window(window.proven_at, window.proof_seq, window.observed_at, window.observed_under)
        elif kind != "pass":
            under = proofs - 1 if kind == "stale" else proofs
            seen = machine.Observation(now, under, watched=kind != "unwatched", recurring=kind == "again")
            window, _ = machine.observe(window, seen, chosen)
            late = kind == "unwatched" and now > expected + chosen.interval
            if kind in ("write", "unwatched") and not late:
                writes.append(now)
        wanted = oracle(proven, writes, chosen)
        found = machine.deadlines(window, chosen)
        consumed = wanted - (proven + chosen.silence)
        if (found.suspect_at, found.consumed) != (wanted, consumed):
            return f"after {kind} at {now}: {found}, expected {wanted}"
        if machine.is_suspect(window, now, chosen) is not (now >= wanted):
            return f"after {kind} at {now}: is_suspect"
        if found.suspect_at > proven + chosen.silence + chosen.cap:
            return "beyond the cap"
    return ""


def oracle(proven: int, writes: list[int], chosen: Settings) -> int:
    """The latest of all moments that anything defers to, none beyond the cap, none before the proof's own."""
    end = proven + chosen.silence
    return max([end, *(min(at + chosen.grace, end + chosen.cap) for at in writes)])


CONFIG = st.tuples(st.integers(1_000, 5_000), st.integers(0, 9_000), st.integers(0, 9_000), st.integers(200, 3_000))
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 4_000)), max_size=30)


@given(config=CONFIG, steps=STEPS)
@settings(max_examples=3_000 if FULL else 300)
def test_the_machine_follows_the_formula(config: tuple[int, int, int, int], steps: list[Step]) -> None:
    assert law(clocks, config, steps) == ""


# Each changes one thought of the machine; every one of them must be found out.
MUTANTS = {
    "the deadline forgets the silence": ("proof = window.proven_at + settings.silence", "proof = window.proven_at"),
    "an old proof's observation counts": (
        "if window.observed_at is None or window.observed_under != window.proof_seq:",
        "if window.observed_at is None:",
    ),
    "no observation counts": (
        "if window.observed_at is None or window.observed_under != window.proof_seq:",
        "if True:",
    ),
    "no cap": (
        "observed = min(window.observed_at + settings.grace, proof + settings.cap)",
        "observed = window.observed_at + settings.grace",
    ),
    "always the cap": (
        "observed = min(window.observed_at + settings.grace, proof + settings.cap)",
        "observed = proof + settings.cap",
    ),
    "max for min": ("observed = min(", "observed = max("),
    "min for max": ("suspect_at = max(proof, observed)", "suspect_at = min(proof, observed)"),
    "the observation replaces the proof": ("suspect_at = max(proof, observed)", "suspect_at = observed"),
    "the cap counts from the proof itself": ("proof + settings.cap)", "window.proven_at + settings.cap)"),
    "the cap counts from the observation": ("proof + settings.cap)", "window.observed_at + settings.cap)"),
    "nothing is consumed": ("return Deadlines(proof, observed, suspect_at, suspect_at - proof)",
                            "return Deadlines(proof, observed, suspect_at, 0)"),
    "consumed is not bounded": ("return Deadlines(proof, observed, suspect_at, suspect_at - proof)",
                                "return Deadlines(proof, observed, suspect_at, observed - proof)"),
    "a manifest seen before counts": ("if observation.recurring:", "if False:"),
    "an observation of an older proof counts": ("if observation.proof_seq != window.proof_seq:", "if False:"),
    "only of another proof": ("if observation.proof_seq != window.proof_seq:",
                              "if observation.proof_seq == window.proof_seq:"),
    "a passed deadline is healed": ("if not observation.watched and", "if False and"),
    "a watcher's is not": ("if not observation.watched and", "if"),
    "no interval after the deadline": (".suspect_at + settings.interval:", ".suspect_at:"),
    "at the edge it is too late": ("observation.at > deadlines(window, settings)",
                                   "observation.at >= deadlines(window, settings)"),
    "the earlier observation wins": ("else max(window.observed_at, observation.at)",
                                     "else min(window.observed_at, observation.at)"),
    "only the first observation": ("else max(window.observed_at, observation.at)", "else window.observed_at"),
    "an observation is a proof": (
        "return replace(window, observed_at=latest, observed_under=window.proof_seq), \"counted\"",
        "return replace(window, proven_at=latest, observed_at=latest, observed_under=window.proof_seq), \"counted\"",
    ),
    "an observation is not noted under its proof": ("observed_under=window.proof_seq), \"counted\"",
                                                    "observed_under=window.observed_under), \"counted\""),
    "a proof has no number": ("proof_seq=window.proof_seq + 1", "proof_seq=window.proof_seq"),
    "a proof does not renew": ("return replace(window, proven_at=proven_at,", "return replace(window,"),
    "a proof goes back": ("max(at, window.proven_at)", "min(at, window.proven_at)"),
    "suspect a moment late": ("now >= deadlines(window, settings).suspect_at",
                              "now > deadlines(window, settings).suspect_at"),
    "never suspect": ("now >= deadlines(window, settings).suspect_at", "now < 0"),
}  # fmt: skip


def mutated(change: tuple[str, str]) -> types.ModuleType:
    source = inspect.getsource(clocks)
    old, new = change
    assert source.count(old) == 1, f"the mutant's text stands {source.count(old)} times in the machine: {old}"
    made = types.ModuleType("mutant")
    made.__dict__["__name__"] = clocks.__name__
    exec(compile(source.replace(old, new), "mutant", "exec"), made.__dict__)
    return made


def histories() -> Iterator[tuple[tuple[int, int, int, int], list[Step]]]:
    """Always the same ones: short intervals, so that every edge is met, the very edges among them."""
    chance = random.Random(7)
    yield (1_000, 500, 600, 200), [("pass", 1_000), ("unwatched", 200), ("pass", 0)]
    yield (1_000, 500, 600, 200), [("pass", 1_000)]
    for _ in range(1_500):
        config = (1_000 * chance.randint(1, 4), chance.randint(0, 40) * 100, chance.randint(0, 40) * 100, 200)
        steps = [(chance.choice(KINDS), chance.randint(0, 20) * 100) for _ in range(chance.randint(1, 15))]
        yield config, steps


def test_the_histories_find_nothing_wrong_with_the_machine() -> None:
    assert [problem for config, steps in histories() if (problem := law(clocks, config, steps))] == []


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_every_mutant_is_found_out(name: str) -> None:
    mutant = mutated(MUTANTS[name])
    assert any(law(mutant, config, steps) for config, steps in histories()), f"survived: {name}"
