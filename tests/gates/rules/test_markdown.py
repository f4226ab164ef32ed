"""The CommonMark specification's own examples, and a second parser, agree with what we take for code."""

from __future__ import annotations

import html
import os
import random
import re
from collections import Counter
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ktxkit.gates.rules import markdown, targets
from ktxkit.gates.rules.inline import html_pieces, scan
from tests.support.markdown_oracle import codes

FULL = os.environ.get("KTX_TEST_FULL") == "1"
SPEC = Path(__file__).resolve().parents[3] / ".venv/node/node_modules/commonmark-spec/spec.txt"
EXAMPLE = re.compile(r"^`{32} example\n(.*?)^\.\n(.*?)^`{32}$", re.DOTALL | re.MULTILINE)


class Codes(HTMLParser):
    """The text of each `code` element that is not in a `pre`: what CommonMark renders as a code span."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.inside: list[str] = []
        self.found: list[str] = []
        self.raw: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "pre":
            self.inside.append(tag)
        elif tag == "code":
            self.inside.append(tag)
            if self.inside == ["code"]:
                self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in self.inside:
            self.inside.remove(tag)

    def handle_data(self, data: str) -> None:
        if self.inside == ["code"]:
            self.found[-1] += data


def examples() -> list[tuple[int, str, str, str]]:
    """Number, section, Markdown and HTML of every example of the specification. Skips where it is absent."""
    if not SPEC.is_file():
        reason = "the CommonMark specification is not installed; `make system` fetches it"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    text = SPEC.read_text("utf-8").replace("\r\n", "\n").split("<!-- END TESTS -->")[0]
    found, section = [], ""
    for number, match in enumerate(EXAMPLE.finditer(text), 1):
        headings = re.findall(r"^##? (.*)$", text[: match.start()], re.MULTILINE)
        section = headings[-1] if headings else section
        found.append((number, section, match[1].replace("\u2192", "\t"), match[2].replace("\u2192", "\t")))
    return found


def test_specification() -> None:
    """All 652 examples: our spans are the `code` elements of the HTML, other than raw HTML that the author wrote."""
    whole = examples()
    assert len(whole) == 652
    judged = [one for one in whole if "<code" not in one[2].lower()]
    assert len(judged) == 651
    wrong = []
    for number, section, text, rendered in judged:
        parsed = Codes()
        parsed.feed(rendered)
        spans = [span.text for span in markdown.read(text).codes]
        if spans != parsed.found:
            wrong.append((number, section, spans, parsed.found))
    assert wrong == []


# fmt: off
WORDS = [
    "`", "``", "```", "a", "a.b", "[", "](", "]", ")", "!", "[a]", "<", ">", "<a ", '"', "'", "\\", "<!--", "-->",
    "<b>",
    "|", "-", "#", "[^1]:", "[[", "]]", "[[p|l]]", "(", "<http://x>", "<?", "?>", "<![CDATA[", "]]>", "&amp;", "*", "_",
    "1. ", "</b>", "`x`", "a@b.c", "<a@b.c>", "<x y='", "=", " ", "\n", "\n\n", "\r", "\t", "    ", "[a]: /x\n",
    "|-|\n", "~~~\n", "=\n", "- ", "> ", "| ", "# ",
]
# fmt: on
PIECES = st.sampled_from(WORDS)


@settings(max_examples=4000 if FULL else 400, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PIECES, max_size=24).map("".join))
@example("[`a`](`b`) ![`c`](d) [`e`][a]\n\n[a]: /x `y`")
@example("| `a\\|b` | `c` |\n|-|-|\n| `d` | `e|f` |")
@example("<a href='`x`'>`y`</a> <!-- `z` --> `w`")
@example("[a][`b`]\n\n[a]: /x")
@example("![`c`]\n\n[`c`]: /x")
@example("[x [`y`](z) `w`](v) `u`")
def test_a_second_parser_agrees(text: str) -> None:
    assert [span.text for span in markdown.read(text).codes] == codes(text)


@settings(max_examples=2000 if FULL else 200)
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    body = markdown.read(text)
    assert [span.text for span in body.codes] == codes(text)
    lines = re.split("\r\n|\n|\r", text)
    for span in (*body.codes, *body.links, *body.comments):
        assert 1 <= span.line <= len(lines)
        assert 1 <= span.column <= len(lines[span.line - 1]) + 1
    for span in body.codes:
        assert lines[span.line - 1][span.column - 1] == "`"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("x `a.b`", (1, 3)),
        ("- x\n  - `a.b`\n", (2, 5)),
        ("> `a.b`\n", (1, 3)),
        ("| x | `a.b` |\n|-|-|\n", (1, 7)),
        ("| `x|y` | `a.b` |\n|-|-|-|\n", (1, 11)),
        ("# t `a.b` #\n", (1, 5)),
        ("one\ntwo `a.b`\n===\n", (2, 5)),
        ("a `x` `x` `a.b`", (1, 11)),
        ("one `two\nthree` `a.b`", (2, 8)),
        ("1. a\n\n   > b\n   > `a.b`\n", (4, 6)),
        ("\u00e9\U0001f600 `a.b`", (1, 4)),
        ("a\r\nb `a.b`\r\n", (2, 3)),
        ("a\rb `a.b`\r", (2, 3)),
        ("\t- \t`a.b`".lstrip("\t"), (1, 4)),
    ],
)
def test_places(text: str, place: tuple[int, int]) -> None:
    (span,) = [span for span in markdown.read(text).codes if span.text == "a.b"]
    assert (span.line, span.column) == place
    shifted = next(span for span in markdown.read(text, 11).codes if span.text == "a.b")
    assert shifted.line == place[0] + 10


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("see [[a-page]] and [[b|label]]", ["a-page", "b"]),
        ("`[[code]]` [[real]]", ["real"]),
        ("[[a]](x) \\[[b]] [[c\n]]", ["a"]),
        ("| [[a\\|label]] |\n|-|\n", ["a"]),
        ("```\n[[no]]\n```\n", []),
        ("<!-- [[no]] -->", []),
        ("[[ spaced ]]", [" spaced "]),
        ("[[]] [[|x]]", []),
    ],
)
def test_page_links(text: str, links: list[str]) -> None:
    assert [span.text for span in markdown.read(text).links] == links


def test_comments() -> None:
    body = markdown.read("<!-- from: a/b.json#L1-2 -->\n\nx <!-- from: c --> y\n\n```\n<!-- no -->\n```\n")
    assert [(span.text, span.line, span.column, span.alone) for span in body.comments] == [
        ("from: a/b.json#L1-2", 1, 1, True),
        ("from: c", 3, 3, False),
    ]
    assert [piece.text for piece in html_pieces("<!-- a --><!--b-->")] == ["a", "b"]


def test_footnotes_are_no_link_definitions() -> None:
    assert [span.text for span in markdown.read("x [^1]\n\n[^1]: `s.x`\n").codes] == ["s.x"]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("` mart.gone\n   ` here", ["mart.gone"]),
        ("a `mart.\n\t gone`", ["mart. gone"]),
        ("> ` a\n>    `", ["a"]),
        ("[[q|`mart.gone`]]", ["mart.gone"]),
        ("[[`mart.gone`]]", ["mart.gone"]),
        ("![[q|`mart.gone`]]", ["mart.gone"]),
        ("![[q]] `a`", ["a"]),
        ("[[a `b]] c` d", ["b]] c"]),
        ("![`a`](x) ![b][[`c`]]", ["c"]),
        ("x [^1]\n\n[^1]: a\n\n    second `s.y`\n\n    - `s.z`\n\nafter `s.w`", ["s.y", "s.z", "s.w"]),
        ("x\n[^1]: no `a.b`", ["a.b"]),
        ("    [^1]: `code`", []),
    ],
)
def test_code_as_it_is_rendered(text: str, codes: list[str]) -> None:
    assert [span.text for span in markdown.read(text).codes] == codes


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("<code>mart.gone</code>", ["mart.gone"]),
        ("a <CODE>mart.gone</Code> \u0130 <code>b.c</CODE>", ["mart.gone", "b.c"]),
        ("<div>\n\u0130 <CODE>mart.gone</Code> <code>b.c</CODE>\n</div>", ["mart.gone", "b.c"]),
        ("a <CODE class='x'>mart.<b>gone</b></code> b", ["mart.gone"]),
        ("a <code>mart&#46;gone</code> b", ["mart.gone"]),
        ("<div>\n<code>mart.gone</code>\n</div>", ["mart.gone"]),
        ("<div>\n\n<code>mart.gone</code>\n\n</div>", ["mart.gone"]),
        ("<pre><code>mart.gone</code></pre>", []),
        ("<!-- <code>mart.gone</code> --> `a`", []),
        ("`<code>mart.gone</code>`", []),
        ("```\n<code>mart.gone</code>\n```", []),
        ("<code>open", []),
        ("<codex>mart.gone</codex>", []),
    ],
)
def test_code_elements(text: str, html: list[str]) -> None:
    assert [span.text for span in markdown.read(text).html] == html


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("[a](b.md) ![c](d.png 'e') <https://x.y/z>", ["b.md", "d.png", "https://x.y/z"]),
        ("[a][r] [r] [r][]\n\n[r]: b.md#c 'title'", ["b.md#c"] * 3),
        ("[`a`](<b c.md>) [d](e\\_f.md) [g](h&amp;i.md)", ["b c.md", "e_f.md", "h&i.md"]),
        ("`[a](b)` \\[a](b) [a](b c)", []),
        ("![a [b](c)](d)", ["d"]),
        ("[x]() [[a]](b)", ["", "b"]),
        ("one\n[a](b.md)\n- [c](d.md)", ["b.md", "d.md"]),
    ],
)
def test_targets(text: str, targets: list[str]) -> None:
    assert [span.text for span in markdown.read(text).targets] == targets


def test_anchors() -> None:
    """What github.com makes of them."""
    text = (
        "# Gross & Net!\n\n## A `code.span` and *it*\n\nSetext _one_\n===\n\n# Twice\n\n# Twice\n\n"
        "## snake_case -- x\n\n"
        "# [A link](b.md)\n\n# \u00c9t\u00e9\n\n# Own {#mine}\n\n"
        "<a name='there'></a> <h2 id=\"here\">x</h2>\n\n    # code\n"
    )
    assert list(markdown.read(text).anchors) == [
        "gross--net", "a-codespan-and-it", "setext-one", "twice", "twice-1", "snake_case----x", "a-link",
        "\u00e9t\u00e9", "own", "mine", "own-mine", "there", "here",
    ]  # fmt: skip


class Rendered(Codes):
    """What cmark-gfm renders: code spans, where links and images lead, the text of headings."""

    def __init__(self) -> None:
        super().__init__()
        self.leads: list[str] = []
        self.headings: list[str] = []
        self.heading = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        said = dict(attrs)
        leads = said.get("href") if tag == "a" else said.get("src") if tag == "img" else None
        if leads is not None and not leads.startswith(("#fn", "mailto:")):  # footnotes, and addresses of mail
            self.leads.append(unquote(leads))
        if tag in HEADINGS:
            self.heading = tag
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        super().handle_endtag(tag)
        self.heading = "" if tag == self.heading else self.heading

    def handle_data(self, data: str) -> None:
        super().handle_data(data)
        if self.heading:
            self.headings[-1] += data


HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


def github(text: str) -> Rendered:
    cmarkgfm = pytest.importorskip("cmarkgfm", reason="cmarkgfm is not installed")
    rendered = Rendered()  # footnotes; raw HTML is left out, so that none of it swallows what follows
    rendered.feed(cmarkgfm.markdown_to_html_with_extensions(text, 1 << 13, ["table", "strikethrough"]))
    return rendered


def differing(text: str) -> tuple[Counter[str], Counter[str]]:
    """What only cmark-gfm sees in a document, and what only we see: code, links, anchors."""
    body, rendered = markdown.read(text), github(text)
    ours = [*(f"code {plain(one.text)}" for one in body.codes), *(f"link {unquote(one.text)}" for one in body.targets)]
    theirs = [*(f"code {plain(one)}" for one in rendered.found), *(f"link {one}" for one in rendered.leads)]
    anchors = targets.slugs((one.strip(), "") for one in rendered.headings)
    mine, its = Counter([*ours, *body.anchors]), Counter([*theirs, *anchors])
    return its - mine, mine - its


def plain(code: str) -> str:
    return " ".join(code.split())


def test_github_agrees() -> None:
    """Random documents. What differs is rare, and of few kinds: cmark-gfm forgets a run of ticks after a longer one, it
    shows no footnote that nothing refers to, and has comments of an older specification (one that holds `--` is none).
    """
    chance = random.Random(7)
    missed, more, count = [], [], 100_000 if FULL else 2_000
    for _ in range(count):
        words = WORDS if chance.random() < 0.5 else [*WORDS, *HEADED]
        text = "x [^1]\n\n" + "".join(chance.choice(words) for _ in range(chance.randrange(24)))
        theirs, ours = differing(text)
        if theirs and "<!" not in text:
            missed.append((text, theirs, ours))
        elif ours or theirs:
            more.append((text, theirs, ours))
    assert len(missed) <= count * 0.0002, missed[:5]
    assert len(more) <= count * 0.003, more[:5]


# fmt: off
HEADED = [
    "# ", "## ", "[x](y.md)", "![i](j.png)", "[x][a]", "[x](<y z.md> 'T')", "~~", "**", "_a_", "*a*", "a.md#b",
    "&lt;", "&#96;", "\u00e9", "=====\n", "---\n", "|",
]
# fmt: on


@pytest.mark.parametrize(
    ("text", "codes", "targets"),
    [
        ("[a]: /x\n    `s.gone` [y](b.md)", ["s.gone"], ["b.md"]),
        ("[a]: /x\n    [b]: /y\n\n[c][b]", [], ["/y"]),
        ("- [a]: /x\n\t`s.gone`", ["s.gone"], []),
        ("[a]: /x\n\n    `code`", [], []),
        ("a\n|-|\n`b` | `beyond the last column`", ["b"], []),
        ("`a\n:-:\nb `c`", ["c"], []),
        ("`x | y`\n---\n`a` | `b`", ["x | y", "a", "b"], []),
    ],
)
def test_blocks_as_github_has_them(text: str, codes: list[str], targets: list[str]) -> None:
    body = markdown.read(text)
    assert [span.text for span in body.codes] == codes
    assert [span.text for span in body.targets] == targets


@pytest.mark.parametrize(
    ("heading", "anchors"),
    [
        ("_private", ["_private"]),
        ("__init__", ["init"]),
        ("a _b_ *c* **d** ~~e~~", ["a-b-c-d-e"]),
        ("5 * 3 * 2", ["5--3--2"]),
        ("Write to <me@x.org>", ["write-to-mexorg"]),
        ("At <https://x.org>", ["at-httpsxorg"]),
        ("a <b> c", ["a--c"]),
        ("a < b > c", ["a--b--c"]),
        ("R&amp;D &copy;", ["rd-"]),
        ("\u26a0\ufe0f Warning", ["\ufe0f-warning"]),
        ("\U0001f680 Launch :tada:", ["-launch-tada"]),
        ("\u0928\u092e\u0938\u094d\u0924\u0947", ["\u0928\u092e\u0938\u094d\u0924\u0947"]),
        ("x\u00b2 \u00bd", ["x-"]),
        ("![logo](a.png) Name", ["name"]),
        ("[`a.b`](c.md) d", ["ab-d"]),
        ("Name {#own}", ["name", "own", "name-own"]),
    ],
)
def test_an_anchor_is_of_what_is_shown(heading: str, anchors: list[str]) -> None:
    assert list(markdown.read(f"# {heading}\n").anchors) == anchors
    if "{#" not in heading and find_spec("cmarkgfm") is not None:
        assert targets.slugs((one.strip(), "") for one in github(f"# {heading}").headings) == anchors


def test_too_deep_is_said() -> None:
    body = markdown.read("> " * 300 + "`a.b`\n")
    assert [problem.rule for problem in body.problems] == ["md-nesting"]
    body = markdown.read("".join(f"{'  ' * n}- x\n" for n in range(300)) + "`a`")
    assert [problem.rule for problem in body.problems] == ["md-nesting"]


def test_code_text_is_what_html_shows() -> None:
    for raw, shown in (("` a `", "a"), ("`  `", "  "), ("`` ` ``", "`"), ("`a\nb`", "a b"), ("` a`", " a")):
        (piece,) = scan(raw)
        assert piece.text == html.unescape(shown)
