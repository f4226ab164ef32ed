"""A small log-log plot as SVG: the same figures give the same bytes."""

from __future__ import annotations

import math
from html import escape

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, LEGEND = 900, 460, 60, 20, 40, 330
COLOURS = ("#1b6ca8", "#c0392b", "#1e8449", "#8e44ad", "#b9770e", "#0e7c7b", "#7f8c8d", "#d4377e", "#5d4037", "#34495e")
STYLE = "font:12px system-ui,sans-serif;fill:#57606a"
Line = tuple[str, list[tuple[int, float]]]


def log_log(lines: list[Line]) -> str:
    """Each line a name and its points (size, seconds), all above 0."""
    places = [point for _, points in lines for point in points]
    if not places:
        return '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>\n'
    xs, ys = ([math.log10(point[axis]) for point in places] for axis in (0, 1))
    low_x, high_x, low_y, high_y = math.floor(min(xs)), math.ceil(max(xs)), math.floor(min(ys)), math.ceil(max(ys))
    right = WIDTH - LEGEND

    def x(value: float) -> float:
        return round(LEFT + (value - low_x) / max(1, high_x - low_x) * (right - LEFT), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (value - low_y) / max(1, high_y - low_y) * (HEIGHT - BOTTOM - TOP), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>Time over size, both logarithmic</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for power in range(low_x, high_x + 1):
        parts += _rule(x(power), TOP, x(power), HEIGHT - BOTTOM)
        parts.append(
            f'<text x="{x(power)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" style="{STYLE}">{10**power:,}</text>'
        )
    for power in range(low_y, high_y + 1):
        parts += _rule(LEFT, y(power), right, y(power))
        word = f"{10**power:g} s" if power >= 0 else f"{10 ** (power + 3):g} ms"
        parts.append(f'<text x="{LEFT - 6}" y="{y(power) + 4}" text-anchor="end" style="{STYLE}">{word}</text>')
    for number, (name, points) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        dash = ' stroke-dasharray="5 3"' if number >= len(COLOURS) else ""
        placed = [(x(math.log10(n)), y(math.log10(took))) for n, took in sorted(points)]
        path = " ".join(f"{a},{b}" for a, b in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts += [f'<circle cx="{a}" cy="{b}" r="3" fill="{colour}"/>' for a, b in placed]
        at = TOP + 10 + number * 22
        parts.append(
            f'<line x1="{right + 14}" y1="{at}" x2="{right + 38}" y2="{at}" stroke="{colour}" stroke-width="2"{dash}/>'
        )
        parts.append(f'<text x="{right + 44}" y="{at + 4}" style="{STYLE}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _rule(x1: float, y1: float, x2: float, y2: float) -> list[str]:
    return [f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#d8dee4"/>']
