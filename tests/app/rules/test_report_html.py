"""The page's shell: whole, self-contained, and no content can leave its place."""

from __future__ import annotations

import json

from ktxkit.app.rules.report_text import embedded, head, page, tail

HOSTILE = {"key": "</script><script>alert(1)</script><!--", "odd": "\u2028\udcff\x00", "{{style}}": "{{data}}"}


def test_hostile_content_stays_data() -> None:
    text = embedded(HOSTILE)
    assert "<" not in text
    assert json.loads(text)["key"] == HOSTILE["key"]
    made = page("<title>{{title}}</title>{{style-hash}}|{{data}}|{{script}}", "s", "code", "a <b> & {{data}}", HOSTILE)
    assert made.startswith(b"<title>a &lt;b&gt; &amp; {{data}}</title>sha256-")
    assert made.count(b'{"key"') == 1 and made.endswith(b"|code")


def test_cuts_at_lines() -> None:
    text = "one\ntwo\nthree\n"
    assert head(text, 100) == tail(text, 100) == (text, False)
    assert head(text, 9) == ("one\ntwo\n", True) and tail(text, 9) == ("three\n", True)
    assert head("x" * 20, 5) == ("xxxxx", True) and tail("x" * 20, 5) == ("xxxxx", True)
