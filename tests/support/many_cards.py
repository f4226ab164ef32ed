"""A staged Metabase bundle with any number of cards, made from the shapes of real ones."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

STEP = 10_000  # between the ids of one copy of the real cards and the next


def generate(bundle: Path, place: Path, count: int, *, models: int = 10) -> None:
    """Copy the bundle, with `count` cards instead of its own. Every `models`-th is a model, so that it is a source too.

    Cards that build on each other do so within their copy.
    """
    shutil.copytree(bundle, place)
    for path in [place, *place.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    real = {path.stem: path.read_text() for path in sorted((place / "card").iterdir())}
    shutil.rmtree(place / "card")
    (place / "card").mkdir()
    for number in range(count):
        copy, which = divmod(number, len(real))
        _card(place, sorted(real)[which], real, copy, model=number % models == 0)


def _card(place: Path, stem: str, real: dict[str, str], copy: int, *, model: bool) -> None:
    text = real[stem]
    for other in real:
        moved = str(int(other) + copy * STEP)
        text = re.sub(rf'("id": |"card_id": |"source-card": |"card__){other}\b', rf"\g<1>{moved}", text)
    card = json.loads(text)
    card |= {"id": int(stem) + copy * STEP, "name": f"{card['name']} {stem}-{copy}", "entity_id": f"e{stem}x{copy}"}
    card |= {"type": "model"} if model else {}
    (place / "card" / f"{card['id']}.json").write_text(json.dumps(card))
