"""Side-by-side measurements: each of our commands beside a named peer, in the same run, as a ratio of medians.

    python bench/run.py [--check] [--minutes N] [--write docs/performance.md] [NAME ...]

Machines are noisy: what counts is the ratio. Each row runs in a process of its own and has a time of its own; one that
fails says so in the table and takes none of the others with it. Ends with status 1 where a row failed and, with
`--check`, where a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import gates
import jobs
import ledger
import observer
import page
from harness import PLACE, Measured, PeerMissing, Row, measure

import commands

ROWS = [*commands.ROWS, *ledger.ROWS, *gates.ROWS, *jobs.ROWS, *observer.ROWS]
GROUPS = (gates, jobs, observer)  # what the rows of one share is thrown away after it


def one_row(row: Row, answer: Path) -> None:
    """In the row's own process: after each round, all figures so far are in `answer`."""
    done: list[Measured] = []

    def tell(*more: Measured, **word: str) -> None:
        whole = {"figures": [asdict(one) for one in (*done, *more)], **word}
        aside = answer.with_suffix(".new")
        aside.write_text(json.dumps(whole))
        aside.replace(answer)

    last: list[Measured] = []
    try:
        for n, rounds in ((row.n, row.rounds), *((n, min(2, row.rounds)) for n in row.growth)):
            last[:] = []

            def keep(found: Measured) -> None:
                last[:] = [found]
                tell(found)

            measure(row, n, rounds, keep)
            done += last
    except PeerMissing as error:
        tell(word=str(error))
    except Exception as error:
        tell(*last, word=f"failed: {type(error).__name__}: {error}")
        raise


def measured(number: int, place: Path, seconds: float) -> page.Found:
    """A row's figures, taken by a process of its own that is ended when its time is up."""
    row, answer = ROWS[number], place / f"row-{number}.json"
    words = [sys.executable, __file__, "--row", str(number), "--answer", str(answer)]
    child = subprocess.Popen(words, env={**os.environ, PLACE: str(place)}, start_new_session=True)
    word = ""
    try:
        status = child.wait(timeout=seconds)
        word = f"failed: ended with {status}" if status else ""
    except subprocess.TimeoutExpired:
        word = f"ended after {seconds:.0f} s"
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    told = json.loads(answer.read_text()) if answer.exists() else {"figures": []}
    return page.Found(row, [Measured(**one) for one in told["figures"]], told.get("word", word))


def all_rows(numbers: list[int], place: Path, minutes: float, patience: float) -> list[page.Found]:
    until, found = time.monotonic() + minutes * 60, []
    for position, number in enumerate(numbers):
        row = ROWS[number]
        print(f"measuring: {row.title}", file=sys.stderr, flush=True)
        began = time.monotonic()
        left = until - began
        word = "not measured: the time of the bench was up"
        one = measured(number, place, min(row.seconds * patience, left)) if left > 5 else page.Found(row, [], word)
        found.append(one)
        print(f"  {page.in_short(one)}; {time.monotonic() - began:.0f} s in all", file=sys.stderr, flush=True)
        group = next((group for group in GROUPS if row in group.ROWS), None)
        after = ROWS[numbers[position + 1]] if position + 1 < len(numbers) else None
        if group is not None and (after is None or after not in group.ROWS):
            for made in place.iterdir():
                shutil.rmtree(made, ignore_errors=True) if made.is_dir() else made.unlink()
    return found


def with_others(found: list[page.Found], seconds: float, kept: Path) -> tuple[list[page.Found], float]:
    """What was measured, and what `kept` has of the other rows; `kept` then has all. Seconds of all together."""
    known = json.loads(kept.read_text()) if kept.exists() else {"seconds": 0.0, "rows": {}}
    for one in found:
        known["rows"][one.row.title] = {"figures": [asdict(each) for each in one.figures], "word": one.word}
    known["seconds"] += seconds
    kept.write_text(json.dumps(known))
    absent = {"figures": [], "word": "not measured"}
    told = [(row, known["rows"].get(row.title, absent)) for row in ROWS]
    every = [page.Found(row, [Measured(**one) for one in old["figures"]], old["word"]) for row, old in told]
    return every, float(known["seconds"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="rows to measure: parts of their names")
    parser.add_argument("--check", action="store_true", help="status 1 where a target is missed")
    parser.add_argument(
        "--minutes", type=float, default=14.5, help="of wall time; rows that are not done by then say so"
    )
    parser.add_argument("--patience", type=float, default=1.0, help="a factor of each row's time, for a busy machine")
    parser.add_argument("--write", type=Path, help="write the page, and its drawing beside it")
    parser.add_argument("--figures", type=Path, help="keep figures there; rows that are not measured now come from it")
    parser.add_argument("--row", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.row is not None:
        one_row(ROWS[args.row], args.answer)
        return 0
    began = time.monotonic()
    numbers = [at for at, row in enumerate(ROWS) if not args.names or any(name in row.title for name in args.names)]
    with tempfile.TemporaryDirectory(prefix="ktx-bench-") as place:
        found = all_rows(numbers, Path(place), args.minutes, args.patience)
    seconds = time.monotonic() - began
    if args.figures:
        found, seconds = with_others(found, seconds, args.figures)
    text = page.text(found, seconds)
    print(text + "\n" + page.growth(found))
    if args.write:
        args.write.write_text(text)
        args.write.with_name(f"{args.write.stem}-growth.md").write_text(page.growth(found))
        args.write.with_suffix(".svg").write_text(page.drawing(found))
    failed = any(one.failed for one in found)
    return int(failed or (args.check and not all(one.met for one in found)))


if __name__ == "__main__":
    raise SystemExit(main())
