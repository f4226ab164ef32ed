"""docs/performance.md, the page of its growth and its drawing, from the figures of a bench."""

from __future__ import annotations

import math
import os
import platform
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import chart
import reasons
from harness import Measured, Row


@dataclass(frozen=True)
class Found:
    """A row with its figures: first those at its size, then at smaller ones. `word`: why figures are missing."""

    row: Row
    figures: list[Measured]
    word: str = ""

    @property
    def main(self) -> Measured | None:
        return self.figures[0] if self.figures and self.figures[0].ours else None

    @property
    def failed(self) -> bool:
        return self.word.startswith("failed") or (self.main is None and bool(self.word))

    @property
    def misses(self) -> list[str]:
        """Every condition that is not met, in words."""
        if self.main is None:
            return [self.word]
        row, one = self.row, self.main
        said = [f"{one.ratio / row.target:.2f} times the target"] if one.ratio > row.target else []
        if row.rss is not None and one.rss > row.rss:
            said.append(f"{one.rss:.0f} MB, not {row.rss:g}")
        if row.limit is not None and statistics.median(one.ours) > row.limit:
            said.append(f"{statistics.median(one.ours) * 1000:.0f} ms, not {row.limit * 1000:.0f}")
        return said

    @property
    def met(self) -> bool:
        return not self.misses


def figure(some: list[float], unit: str) -> str:
    """Median, and lowest to highest."""
    if unit != "s":
        return f"{statistics.median(some):.0f} {unit}"
    scale, word = (1000, "ms") if statistics.median(some) < 1 else (1, "s")
    low, middle, high = (f"{value * scale:.{0 if scale == 1000 and value >= 0.01 else 1}f}"
                         for value in (min(some), statistics.median(some), max(some)))  # fmt: skip
    return f"{middle} {word}" if len(some) == 1 else f"{middle} {word} ({low} to {high})"


def in_short(one: Found) -> str:
    if one.main is None:
        return one.word
    said = f"{figure(one.main.ours, one.row.unit)} beside {figure(one.main.peers, one.row.unit)}"
    return f"{said}: {one.main.ratio:.2f}, target {one.row.target:g}{'; ' + one.word if one.word else ''}"


def _line(one: Found) -> str:
    row = one.row
    target = f"{row.target:g}"
    target += f", {row.rss:g} MB" if row.rss else ""
    target += f", {row.limit * 1000:.0f} ms" if row.limit else ""
    if one.main is None:
        return f"| {row.title} | {row.peer} | | | | {target} | | {one.word} |"
    verdict = "met" if one.met else "**missed**: " + ", ".join(one.misses)
    verdict += f" ({one.word})" if one.word else ""
    sides = f"{figure(one.main.ours, row.unit)} | {figure(one.main.peers, row.unit)} | {one.main.ratio:.2f}"
    memory = f"{one.main.rss:.0f} MB" if one.main.rss else ""
    return f"| {row.title} | {row.peer} | {sides} | {target} | {memory} | {verdict} |"


class Fit(NamedTuple):
    exponent: float
    last: float


def fitted(points: list[tuple[int, float]]) -> Fit:
    """The exponent of a power law through the points (least squares of the logarithms), and of the last step alone."""
    logs = [(math.log(n), math.log(took)) for n, took in sorted(points)]
    mean_x, mean_y = (statistics.fmean(values) for values in zip(*logs, strict=True))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)
    (x0, y0), (x1, y1) = logs[-2:]
    return Fit(slope, (y1 - y0) / (x1 - x0))


def points(one: Found) -> list[tuple[int, float]]:
    return sorted((each.n, statistics.median(each.ours)) for each in one.figures if each.ours)


def _growth(found: list[Found]) -> list[str]:
    lines = [
        "| what | sizes | took | peak memory | exponent: fitted, last step |",
        "|---|---|---|---|---|",
    ]
    for one in found:
        known = points(one)
        if len(known) < 2:
            continue
        fit, rss = fitted(known), {each.n: each.rss for each in one.figures}
        sizes = ", ".join(f"{n:,}" for n, _ in known)
        took = ", ".join(figure([value], one.row.unit) for _, value in known)
        memory = ", ".join(f"{rss[n]:.0f}" for n, _ in known) + " MB" if any(rss.values()) else ""
        lines.append(
            f"| {one.row.name} ({one.row.of}) | {sizes} | {took} | {memory} | {fit.exponent:.2f}, {fit.last:.2f} |"
        )
    return lines


def _said(*argv: str) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def machine() -> str:
    """Kind of machine and versions: no name, no path."""
    facts = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = next((line.split(":", 1)[1].strip() for line in facts.splitlines() if line.startswith("model name")), "")
    kernel = ".".join(platform.release().split("-")[0].split(".")[:2])
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    python = f"Python {platform.python_version()}"
    words = [
        f"{os.cpu_count()} cores ({model or platform.machine()})",
        f"{memory:.0f} GB",
        f"{platform.system()} {kernel}",
    ]
    return ", ".join([*words, python, _said("git", "--version").replace(" version", ""), _said("jq", "--version")])


HEAD = """# Performance

Written by `make bench`: each command beside a named peer in the same run of its row; the median of a few rounds and,
in brackets, the lowest and the highest. The peer goes first in each round. Machines are noisy: read the ratios.
Measured in {minutes:.0f} minutes on {machine}; one minute load {load:.1f} at the end.

"""
GROWING = """# Performance: what is missed, and growth

Written by `make bench`, as [the table](performance.md) is.

"""
LINK = """
What is missed has its reason, and each row its growth with size, in [a page of its own](performance-growth.md).
"""
GROWTH = """
## Growth

The same at smaller sizes. An exponent of 1 is growth with the input; starting a process is in every figure, so that
small sizes look flat: the last step tells more.

![time over size, both logarithmic](performance.svg)

"""


def text(found: list[Found], seconds: float) -> str:
    """The page of the table."""
    head = HEAD.format(minutes=seconds / 60, machine=machine(), load=os.getloadavg()[0])
    table = [
        "| what | beside | ours | peer | ratio | target | our peak memory | |",
        "|---|---|---|---|---|---|---|---|",
        *map(_line, found),
    ]
    notes = [f"- **{one.row.name}**: {reasons.NOTES[one.row.name]}" for one in found if one.row.name in reasons.NOTES]
    made = head + "\n".join(table) + "\n" + LINK
    return made + ("\n## Notes\n\n" + "\n".join(notes) + "\n" if notes else "")


def growth(found: list[Found]) -> str:
    """The page of what is missed, and of growth."""
    missed = [one for one in found if not one.met]
    made = GROWING
    if missed:
        made += "## What is missed, and why\n\n"
        made += (
            "\n".join(
                f"- **{one.row.title}** ({'; '.join(one.misses)}). {reasons.WHY.get(one.row.name, '')}".rstrip()
                for one in missed
            )
            + "\n"
        )
    return made + GROWTH + "\n".join(_growth(found)) + "\n"


def drawing(found: list[Found]) -> str:
    lines = [(one.row.name, points(one)) for one in found if one.row.unit == "s" and len(points(one)) > 1]
    return chart.log_log(lines)
