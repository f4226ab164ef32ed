"""How English says that tests passed, as frames over parts of speech rather than as a list of wordings.

A frame is a pattern over the letters of a sentence (`words`): a phrase that names tests, then a predicate that
says how they came out. What stands before and after is read as text: an object (`the tests pass a clock`) makes it
another sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktxkit.base.rules.named import NamedTuple
from ktxkit.claims.rules.text import (
    ALL_BUT,
    BOUNDARY,
    LABEL_TAIL,
    LEAD,
    OTHER,
    SENTENCE_LIMIT,
    TAIL,
    VOUCHED,
    number,
    words,
)


class Frame(NamedTuple):
    """What a frame found: `start` and `end` in the sentence.

    `whole`: of all tests. `part`: of some that are not told apart (`the new tests`). `topic`: of those about that.
    `ended`: only how a run ended. `number`: of how many. `kind`: green, ran, or none failed (`none`).
    """

    start: int
    end: int
    whole: bool = False
    part: bool = False
    topic: str = ""
    ended: bool = False
    number: int | None = None
    kind: str = "green"


# -- phrases that name tests, and what is said of them

_LIST = r"(?:(?:,|,?c)Q?D?K*(?:t?S|tr|T|L|P))*"  # tests, linters and type checks
NOUN = re.compile(
    r"a?(?:D?[sR]o)?(?:K?[LP](?:(?:,|,?c)K?L)*,?c)?(?P<all>Q*)o?(?P<the>D*)(?P<each>Q*)(?:(?P<count>n)o?D?)?"
    rf"(?P<kinds>(?:K(?:,|,?c)?|X|[FP](?=[TtS])){{0,4}})(?P<head>t?S|tr|T|t|Pr(?=[ABHWVX])|P"
    r"|r)(?P<of>(?<=r)oD?Q*K*(?:T|t?S))?"
    rf"{_LIST}(?:\(nK*T?\)|,K,?cK,)?"
)
ABOUT = re.compile(  # the tests of the parser
    r"[Xo]D?K?(?P<topic>X{1,2}|~n)|(?P<whose>i[XK])|(?P<suite>X(?:DQ*|Q+)t?S)|(?P<spread>XQX{1,2}(?=[ABQH]*[VJ]))"
)
_WITHOUT = r"(?:X?N[aD]?[QKtTX]?F(?:(?:c|X)F)?)"  # without errors, with no failures, a single failure
_GOOD = r"(?:[VJE]|M)(?:[AEM]|J(?=$|[.,;(]))*"
_BE = r"(?:[AQBHd])*"
SAID = [
    re.compile(pattern)
    for pattern in (
        rf"{_BE}bua?J",
        rf"(?P<listed>,)(?:{_GOOD})",
        rf"{_BE}(?P<vouched>X)(?:uB?|c)?(?:{_GOOD})",
        rf"{_BE}b?(?:p|QoD?[pT]|Q|a(?=J))?(?:{_GOOD})",
        rf"{_BE}[Wr](?:b|uD?X)*[AQ]*(?:{_GOOD})",
        rf"{_BE}[WrQ](?:b|uD?X|uDW)*[AQ]*(?P<none>{_WITHOUT})",
        rf"{_BE}[WrQ](?:{_GOOD})",
        rf"[AQ]*[BH][AQ]*(?P<none>{_WITHOUT}|XoF)",
        r"[AQ]*ku(?:B[AQ]*)?(?:V|J)|[AQ]*k[VJ]",
        rf"{_BE}[Wr](?:,|;|:|c)+(?:QoD?[pT]|p|Q)?{_BE}(?:{_GOOD}|(?P<none>NF))",
        r"[XBHV](?P<count>N[tQ]?F)",
        rf"(?P<bare>{_WITHOUT})",
        rf"(?P<shown>X)(?:p|Q)*(?:{_GOOD})",
        rf"{_BE}[Wr][AQ]*(?P<with>X)J",
        r"[AQ]*(?P<longer>z)F[AQ]*",
        r"(?P<ran>[HB]+[Wr])",
    )
]
LABEL = re.compile(
    r"(?P<asked>[VJ]?)s?[:=-]{1,2}~?(?:p|QX?|D|t?S|T|L(?=J))*[AQB]*(?:(?P<none>NF)"
    r"|(?P<good>[VJE](?:[AEM])*)|(?P<yes>y|Q))|(?P<mark>E)"
)
WE = re.compile(r"(?:^|[.;:(]\s?|\band\s)(?:we|it\sdoes)\s(?:now\s|still\s|also\s)?$", re.IGNORECASE)
SURVIVES = ("survives", "survived", "clears", "cleared")
OTHERS = re.compile(
    r"\b(?:mutants?|mutation|parent|previous|older?|original|broken|wrong|another|other|stubs?|dummy|upstream"
    r"|commits?\sthat|version\sthat|code\sthat|anything\sthat|whatever|which|one\sthat)\b[^.;:,]*$",
    re.IGNORECASE,
)
PASSES = re.compile(r"V(?=[QDKTSPn])")
GREEN = re.compile(r"(?P<before>X[aD]?|[BHi]*a|i?B*A?bua?|)A*Q?A*J(?P<noun>XDQ*t?S|Q*(?:t?S|P?tr|P?r))")
AFTER_RUN = re.compile(rf"(?P<who>p|Qop?|Qn|QoD?T|n?)(?P<said>{_BE}(?:{_GOOD})|[AB]*(?P<none>NF))")

MENTIONS = re.compile(
    r"t[e3][s5$]t|[s5$]uite|specs|\buts?\b|\bits?\b|\btox\b|\bnox\b|jest|mocha|rspec|phpunit|\bcheck\b|\bruns?\b",
    re.IGNORECASE,
)
WHOLE = frozenset({"all", "every", "each", "full", "whole", "entire", "complete"})
FULL = WHOLE - {"all", "every", "each"}
PART = frozenset(
    "new added related relevant affected these those my other remaining previously failing broken".split()  # noqa: SIM905
)
WORDED = (("shown", {"shows", "showed", "gives", "gave", "reports", "reported", "came", "comes"}), ("with", {"with"}))
NO_TOPIC = re.compile(
    r".*['\u2019].*|un\w+|de\w+|re\w+|\w+(?:ing|[^\W\d]ed)|their|downstream|upstream|foreign|mutated|(?:add|fix|make|let"
    r"|get|help|keep|move|skip|mark|see|use|allow|enable|disable|ensure|check"
    r"|verify|show|say|list|find|try|want|need|"
    r"require|expect|hide|rerun|report|record|count|print|group|drop|put|give|bring|tell|ask|do|does|have"
    r"|has|when|while|if|so|that|because|since|as|"
    r"then|some|most|many|few|several|only|other|these|such|more|half|any|which|what|whose|wrong|broken"
    r"|flaky|failed|good|bad|where|with|of|for|in|on|to)s?"
)
PEOPLES = re.compile(
    r"\b(?:reporter|user|customer|contributor|reviewer|author|vendor|downstream|upstream|maintainer)s?['\u2019]"
)
VOUCHING = {"verified", "confirmed", "checked", "unaffected", "unchanged", "intact"} | {"included", "added", "updated"}
EXCEPTING = {"except", "but", "besides", "save"}
EXCEPTED = re.compile(r"X(?:X|o)?(?:[XnPFt]|n?of?)(?=[ABQH]*[VJ])")
RELATIVE = re.compile(r"[Xp][BHA]*F(?=[ABQH]*[VJ])")
WE_HAVE = re.compile(r"X?iA?H(?=[ABQH]*[VJ])")
BACK = {"is", "are", "back", "to", "now"}
BARE_FORMS = ("pass", "work", "succeed")
BEFORE = 200  # characters before a phrase that are looked at


class SubjectPhrase(NamedTuple):
    """A phrase that names tests; `end` is where it ends in the letters."""

    end: int
    head: str
    whole: bool
    part: bool
    topic: str
    number: int | None
    bare: bool


class Reader:
    """A sentence in letters."""

    def __init__(self, text: str, plain: str) -> None:
        self.text = text
        self.plain = plain
        self.letters, self.words = words(text, plain)

    def begins(self, at: int) -> bool:
        """Whether a clause begins there, or goes on after what only introduces it."""
        before = self.before(at)
        if ALL_BUT.search(before):
            return False
        return bool(BOUNDARY.search(before) or LEAD.search(before) or VOUCHED.search(before))

    def before(self, at: int) -> str:
        """What stands before a word."""
        start = self.words[at].start
        return self.plain[:start] if start <= BEFORE else "x " + self.plain[start - BEFORE : start]

    def ends(self, at: int, tail: re.Pattern[str] = TAIL) -> bool:
        """Whether a clause may end before that letter."""
        end = self.words[at - 1].end
        shown = tail.match(self.plain, end)
        return shown is not None and self.text[end : end + 2].strip() not in ("`", '"')  # what is quoted is its object

    def lower(self, start: int, end: int) -> set[str]:
        return {word.text.lower() for word in self.words[start:end]}

    def subject(self, at: int) -> SubjectPhrase | None:
        """The phrase that names tests and begins there. Another word before `tests` needs an article."""
        found = NOUN.match(self.letters, at)
        if found is None:
            return None
        every = self.lower(*found.span("all")) | self.lower(*found.span("each"))
        if self.letters[at] == "a" and not (found["head"] in ("tr", "r") and every & FULL):
            return None  # `a test passes` tells of any
        rest = "R" in self.letters[at : found.start("all")]
        every |= {"all" for word in every if word.startswith("100")}
        head, kinds = found["head"], found["kinds"]
        determined = bool(found["the"] or found["all"] or found["each"])
        if (head == "r" and not every & FULL and not found["of"]) or (
            OTHER in kinds and not self._is_modifier(found, determined or self._opens(at, found))
        ):
            return None
        end, topic, whose = self._about(found)
        end, some = self._restricted(end)
        named = self.lower(*found.span("kinds")) | self.lower(*found.span("the"))
        return SubjectPhrase(
            end,
            head,
            whole=not (topic or kinds or rest or some) and head != "P" and (bool(every & WHOLE) or head in ("S", "tS")),
            part=whose
            or rest
            or some
            or bool(PART & named)
            or (head == "t" and not every and bool(determined or kinds)),
            topic=topic,
            number=number(self.words[found.start("count")].text) if found["count"] and not kinds else None,
            bare=not determined and not kinds,
        )

    def _restricted(self, end: int) -> tuple[int, bool]:
        """The end behind `that failed` or `except test_x`, and whether there is such a thing."""
        word = self.words[end].text.lower() if end < len(self.words) else ""
        pattern = RELATIVE if word in ("that", "which") else EXCEPTED if word in EXCEPTING else None
        found = None if pattern is None else pattern.match(self.letters, end)
        ours = WE_HAVE.match(self.letters, end)
        return (ours.end() if ours else end, False) if found is None else (found.end(), True)

    def _about(self, match: re.Match[str]) -> tuple[int, str, bool]:
        """Where the phrase ends, what the tests are about, and whether they are somebody's."""
        first, last = match.span("kinds")
        topic = " ".join(self.words[at].text for at in range(first, last) if self.letters[at] == OTHER)
        end = match.end()
        about = ABOUT.match(self.letters, end) if match["head"] in ("T", "t", "S", "tS") else None
        if about is None:
            return end, topic, False
        word = self.words[end].text.lower()
        if about["whose"]:
            return about.end(), topic, True
        if about["spread"] and word in ("in", "of", "across", "throughout"):
            return about.end(), topic, False
        if about["suite"] and word in ("in", "of"):
            return about.end(), topic, False
        if about["topic"] and word in ("of", "for", "in", "from"):
            return about.end(), self.words[about.start("topic")].text, False
        return end, topic, False

    def _is_modifier(self, match: re.Match[str], determined: bool) -> bool:
        """Whether another word tells which tests are meant (`the parser tests`), and is no verb."""
        pointed = self.lower(*match.span("the")) & {"this", "these", "those"}
        kinds = " ".join(self.lower(*match.span("kinds")))
        return determined and not pointed and not PEOPLES.search(kinds) and match["kinds"].count(OTHER) == 1

    def _opens(self, at: int, match: re.Match[str]) -> bool:
        """Whether a sentence begins with the word before `tests`, and it is no verb: `Network tests pass`."""
        word = self.words[at].text.lower()
        begins = re.search(r"(?:^|[.:;])\W*$", self.before(at)) is not None
        after = self.words[match.end()].text.lower() if match.end() < len(self.words) else ""
        begins = begins and after not in ("that", "which")
        return begins and match["head"] == "T" and match.start("kinds") == at and NO_TOPIC.fullmatch(word) is None

    def frame(self, start: int, end: int, subject: SubjectPhrase, ended: bool = False, kind: str = "green") -> Frame:
        one = subject
        place = (self.words[start].start, self.words[end - 1].end)
        status = one.head == "P" and "pytest" not in self.text[slice(*place)].lower()  # `make test passes`
        return Frame(*place, one.whole, one.part, one.topic, ended or status, one.number, kind)


def frames(text: str, plain: str, after_run: bool = False) -> Iterator[Frame]:
    """What a sentence says of how tests came out. `after_run`: the one before told of a run of tests."""
    if len(text) > SENTENCE_LIMIT or not (after_run or MENTIONS.search(text)):
        return
    reader = Reader(text, plain)
    if after_run or re.search("[TtSPr]", reader.letters):
        for at in range(len(reader.letters)):
            yield from _at(reader, at)
        yield from _after_run(reader, after_run)


def _at(reader: Reader, at: int) -> Iterator[Frame]:
    letter = reader.letters[at]
    if letter in "QDKTtSPrnLsaR" or (letter == OTHER and reader.letters[at + 1 : at + 2] == "T"):
        subject = reader.subject(at)
        if subject is not None and reader.begins(at):
            yield from _said(reader, at, subject)
    if letter == "E" and reader.begins(at):
        marked = reader.subject(at + 1) if at + 1 < len(reader.letters) else None
        if marked is not None and marked.whole and marked.end == len(reader.letters):
            yield reader.frame(at, marked.end, marked)
    if letter == "V" or (letter == OTHER and reader.words[at].text.lower() in SURVIVES):
        yield from _passes(reader, at)
    if letter in "XBHiaAQJ":
        yield from _green(reader, at)
    if letter in "WrM":
        yield from _ran(reader, at)
    if letter == "N":
        yield from _none(reader, at)
    if letter == "n":
        yield from _some(reader, at)


def _said(reader: Reader, at: int, subject: SubjectPhrase) -> Iterator[Frame]:
    """A subject with what is said of it, or with a label's sign between."""
    label = LABEL.match(reader.letters, subject.end)
    if label is not None and reader.ends(label.end(), LABEL_TAIL) and (label["asked"] or not label["yes"]):
        yield reader.frame(at, label.end(), subject, label["none"] is not None)
        return
    for pattern in SAID:
        found = pattern.match(reader.letters, subject.end)
        if found is None or not reader.ends(found.end()) or _is_other(reader, at, subject, found):
            continue
        groups = found.groupdict()
        if groups.get("listed") and not (subject.head in ("S", "tS") and reader.ends(found.end(), LABEL_TAIL)):
            continue
        if groups.get("vouched") and reader.words[found.start("vouched")].text.lower() not in VOUCHING:
            continue
        if any(
            groups.get(name) and reader.words[found.start(name)].text.lower() not in words for name, words in WORDED
        ):
            continue
        if groups.get("ran"):
            yield reader.frame(at, found.end(), subject, kind="ran")
        else:
            kind = "none" if groups.get("count") or groups.get("bare") or groups.get("longer") else "green"
            yield reader.frame(at, found.end(), subject, bool(groups.get("none")), kind)
        return


def _is_other(reader: Reader, at: int, subject: SubjectPhrase, match: re.Match[str]) -> bool:
    """Whether it only looks like a predicate: `tests passing through`, `Test success`, `compiles and tests OK`."""
    said = reader.lower(subject.end, match.end())
    groups = match.groupdict()
    if "through" in said and any(word.startswith("pass") for word in said):
        return True
    if said & {"say", "says"} and subject.head != "P":
        return True
    if said & {"clean", "fine", "good", "happy"} and reader.letters[match.end() : match.end() + 2] == "cX":
        return True  # `the tests are clean and short`
    if reader.words[at].text.lower().startswith("make ") and reader.words[subject.end].text.lower() in BARE_FORMS:
        return True  # `make test work` is what somebody does
    if groups.get("longer"):
        return not said & {"fail", "fails"}
    if groups.get("bare"):
        return subject.head not in ("S", "tS", "tr", "r")
    if groups.get("ran"):
        return not (said & {"was", "were", "been"} and (subject.whole or subject.head == "tS"))
    if subject.head == "t" and subject.bare and len(match[0]) == 1:
        return not said & {"ok", "passed", "green"}
    headline = set(match[0]) <= set("JEA") and subject.bare
    return headline and re.search(r"\b(?:and|but|so|that)\s$", reader.before(at)) is not None


def _passes(reader: Reader, at: int) -> Iterator[Frame]:
    """`This passes all tests`."""
    verb = reader.words[at].text.lower()
    label = verb == "passed" and reader.letters[at + 1 : at + 3] == ":Q"
    subject = reader.subject(at + 1 + label) if label or PASSES.match(reader.letters, at) or verb in SURVIVES else None
    if (
        subject is None
        or subject.topic
        or not verb.startswith(("pass", *SURVIVES))
        or (verb == "pass" and not WE.search(reader.before(at)))
    ):
        return
    if OTHERS.search(reader.before(at)):
        return
    if subject.bare and subject.head != "P":
        return
    if reader.ends(subject.end) and (
        subject.head != "t" or subject.whole or "Q" in reader.letters[at + 1 : subject.end]
    ):
        yield reader.frame(at, subject.end, subject)


def _green(reader: Reader, at: int) -> Iterator[Frame]:
    """`With a green suite.`"""
    found = GREEN.match(reader.letters, at)
    if found is None or not reader.begins(at):
        return
    before = reader.lower(*found.span("before")) - {"a", "the", "i", "we", "have", "had"} - BACK
    if "X" in found["noun"] and "across" not in reader.lower(*found.span("noun")):
        return
    if before - {"with", "got", "get"} or not reader.ends(found.end(), LABEL_TAIL):
        return
    if found["noun"] == "r" and "full" not in reader.lower(at, found.end()):
        return
    whole = "S" in found["noun"] or bool(reader.lower(at, found.end()) & FULL)
    place = (reader.words[at].start, reader.words[found.end() - 1].end)
    yield Frame(*place, whole)


OBSERVED = {
    "left",
    "observed",
    "seen",
    "found",
    "reported",
    "remaining",
    "recorded",
    "there",
    "detected",
    "encountered",
}
NONE = re.compile(
    r"N(?P<inside>XDQ*K*(?:T|t?S)[AQBH]*F)|N(?:o?D?[Qn]*|aQ?)K*(?:(?P<tests>T|t|tS)[AQBH]*F"
    r"|(?P<bad>t?F)(?:(?P<noun>T|t)(?:BX)?)?(?P<where>[Xo][aD]?Q*K*(?:T|t?S|tr|t|r))?)"
)
SOME = re.compile(r"n(?:(?P<tests>F(?:T|t)|tF)(?P<left>(?:[AX]?B)?)|FX?(?P<where>XDQ*K*(?:T|t?S))|(?P<plain>F))")
EXISTS = re.compile(
    r"(?:\b(?:only|down\sto|there\s(?:is|are|was|were)|(?:i|we)\s(?:see|saw|found|got|have|had)|(?:suite"
    r"|tests|run|pytest|it|test\s(?:log|output|report))\s(?:currently\s|still\s|now\s)?(?:has|had|shows?"
    r"|showed|"
    r"reports?|reported|gives|with|without)|ran\s(?:with)?)\s(?:still\s|now\s)?)$",
    re.IGNORECASE,
)


def _none(reader: Reader, at: int) -> Iterator[Frame]:
    """`No failing tests.`"""
    found = NONE.match(reader.letters, at)
    before = reader.before(at)
    if found is None or not (reader.begins(at) or EXISTS.search(before)) or not reader.ends(found.end()):
        return
    if found["bad"] and before.endswith(" and ") and not re.search("[TtSPr]", reader.letters[:at]):
        return  # `printed with --last-failed and no failed tests`
    told = found["tests"] or found["noun"] or (found["bad"] or "").startswith("t")
    if not told and not found["where"] and re.search(r"[,;:.(]\s*$", before):  # 12 tests, no failures
        told = re.search("[TSP]|tr", reader.letters[:at]) is not None and reader.ends(found.end(), LABEL_TAIL)
    if found["noun"] and "X" in found[0][found.start("noun") :]:
        seen = reader.words[found.end() - 1].text.lower()
        if seen not in OBSERVED and not found["where"]:
            return  # `no failing test is hidden`
    inside = found["inside"] and reader.words[found.start("inside")].text.lower() in ("in", "of")
    if (
        told
        or inside
        or (found["where"] and reader.words[found.start("where")].text.lower() in ("in", "on", "of", "for", "across"))
    ):
        where = reader.lower(*found.span("where")) if found["where"] else set()
        place = (reader.words[at].start, reader.words[found.end() - 1].end)
        yield Frame(*place, whole=bool(where & FULL), kind="none")


def _some(reader: Reader, at: int) -> Iterator[Frame]:
    """`There are two failing tests.`"""
    found = SOME.match(reader.letters, at)
    if found is None or not reader.ends(found.end()):
        return
    left = re.match(r"\s(?:left|remain)", reader.plain[reader.words[found.end() - 1].end :])
    remain = (reader.letters[found.end() - 1] == "B" and found["left"]) or (found["tests"] and left)
    if remain or EXISTS.search(reader.before(at)) or (found["where"] and reader.begins(at)):
        place = (reader.words[at].start, reader.words[found.end() - 1].end)
        yield Frame(*place, number=number(reader.words[at].text), kind="failed")


def _ran(reader: Reader, at: int) -> Iterator[Frame]:
    """`I have run all tests (successfully).`"""
    well = reader.letters[at] == "M" and reader.letters[at + 1 : at + 2] in ("W", "r")
    begin = at + 1 if well else at
    verb = reader.words[begin].text.lower()
    perfect = re.search(r"\b(?:have|has|'ve)\s(?:just\s|also\s|now\s)?$", reader.before(at), re.IGNORECASE)
    if verb not in ("ran", "executed", "reran", "re-ran", "looped", "repeated") and not (
        verb in ("run", "rerun", "re-run") and perfect
    ):
        return
    subject = reader.subject(begin + 1) if begin + 1 < len(reader.words) else None
    if subject is None or subject.bare or subject.topic or subject.head in ("t", "P"):
        return
    end = subject.end
    after = re.match(r"M|XJ|XNF|,?N[aD]?[Qt]?F|,?ci?H?X[aQK]*NF", reader.letters[end:])
    how = after is not None and reader.ends(end + after.end())
    end += after.end() if after is not None and how else 0
    if reader.ends(end):
        yield reader.frame(at, end, subject, kind="green" if well or how else "ran")


RAN = re.compile(
    r"\b(?:ran|re-?ran|run|executed|added|adds|running|rerun|checked|tested|looped|repeated|wrote)\b", re.IGNORECASE
)


def tells_of_a_run(text: str, plain: str) -> bool:
    """Whether a sentence says that tests were run, so that `they pass` in the next one means them."""
    return bool(
        len(text) <= SENTENCE_LIMIT and RAN.search(text) and MENTIONS.search(text) and _runs(Reader(text, plain))
    )


def _runs(reader: Reader) -> list[tuple[int, SubjectPhrase]]:
    found = []
    for at, word in enumerate(reader.words):
        if RAN.fullmatch(word.text) and at + 1 < len(reader.words):
            article = reader.letters[at + 1] == "a" and at + 2 < len(reader.words)
            subject = reader.subject(at + 1 + article)
            if subject is not None:
                found.append((subject.end, subject))
    return found


def _after_run(reader: Reader, before: bool) -> Iterator[Frame]:
    """`I ran the tests; they pass.`"""
    told = _runs(reader)
    for at in range(len(reader.letters)):
        ran = next((subject for end, subject in told if end <= at), None)
        if (ran is None and not (before and at == 0)) or not reader.begins(at):
            continue
        found = AFTER_RUN.match(reader.letters, at)
        if found is not None and found.end() > at and reader.ends(found.end(), LABEL_TAIL):
            place = (reader.words[at].start, reader.words[found.end() - 1].end)
            yield Frame(*place, whole=ran is not None and ran.whole, ended=found["none"] is not None)
