"""The rules of the gates: id, level, and the sentence that SARIF and lists show. `docs/rules/ID.md` has the rest."""

from __future__ import annotations

ERROR, WARNING, ADVICE = "error", "warning", "advice"

RULES: dict[str, tuple[str, str]] = {
    # bytes and syntax
    "yaml-encoding": (ERROR, "a YAML file is not UTF-8"),
    "yaml-syntax": (ERROR, "a file is not YAML"),
    "yaml-size": (ERROR, "a YAML file is larger, deeper or fuller than what is read"),
    "yaml-duplicate-key": (ERROR, "a key stands twice in one map; readers disagree which one counts"),
    "yaml-alias": (ERROR, "an anchor, alias or merge key; artifacts carry none"),
    "yaml-tag": (ERROR, "a tag; artifacts carry none"),
    "yaml-directive": (ERROR, "a YAML directive; artifacts carry none"),
    "yaml-documents": (ERROR, "more than one document in a file"),
    "yaml-non-string-key": (ERROR, "a key that is not text"),
    "yaml-number": (ERROR, "a number that not every reader can hold"),
    "yaml-scalar": (ERROR, "a value that looks like a date and is none"),
    "md-encoding": (ERROR, "a page is not UTF-8"),
    "md-size": (ERROR, "a page is larger than what is read"),
    "md-nesting": (ERROR, "a page is nested deeper than what is read"),
    "front-matter-missing": (ERROR, "a page has no front matter"),
    "front-matter-unclosed": (ERROR, "front matter is not closed"),
    "front-matter-not-first": (ERROR, "what looks like front matter does not start on the first line"),
    "not-a-file": (ERROR, "a link or a submodule stands where a file that is judged is expected"),
    # shape
    "schema-type": (ERROR, "a value has the wrong type"),
    "schema-required": (ERROR, "a key that is needed is missing"),
    "schema-unknown-key": (ERROR, "a key that nobody reads, perhaps misspelt"),
    "schema-value": (ERROR, "a value is not one of those allowed"),
    "table-or-sql": (ERROR, "a source has both a table and sql"),
    "entity-name": (ERROR, "a name that references cannot spell: it holds a dot, a slash or a control character"),
    "duplicate-entity": (ERROR, "two entities of one kind in a source have one name"),
    "page-key": (WARNING, "a page's file name cannot be used as a page key"),
    # names
    "name-mismatch": (ERROR, "a file's name does not follow from the source's name"),
    "name-shadow": (WARNING, "a measure or segment has the name of a column"),
    "duplicate-source": (ERROR, "two files declare one source"),
    "orphan-overlay": (ERROR, "an overlay without the table that it changes"),
    "unknown-column": (ERROR, "a column that the source does not have"),
    "unknown-segment": (ERROR, "a segment that the source does not have"),
    # joins
    "unknown-join-target": (ERROR, "a join to a source that its connection does not have"),
    "join-case": (ERROR, "a join whose target differs from a source in upper and lower case only"),
    # expressions
    "expr-not-expression": (ERROR, "text that is not exactly one SQL expression"),
    "expr-template": (ERROR, "a template in a SQL expression"),
    "expr-nesting": (ERROR, "a SQL expression that is nested or long beyond what is read"),
    "expr-unknown-column": (ERROR, "a SQL expression names a column that is not there"),
    # references
    "unknown-sl-ref": (ERROR, "an sl_refs entry names a source that is not there"),
    "stale-entity": (ERROR, "a reference names a measure, column or segment that its source does not have"),
    "unknown-source": (ERROR, "an explicit reference names a source that is not there"),
    "unknown-table": (ERROR, "an explicit reference names a table that no source reads"),
    "unknown-connection": (ERROR, "a reference names a connection that is not there"),
    "unknown-page": (ERROR, "a page's refs name a page that is not there"),
    "unknown-link": (ERROR, "a [[link]] names a page that is not there"),
    "ref-format": (ERROR, "a reference that cannot be read"),
    "ambiguous-reference": (WARNING, "a reference without a connection that several connections answer"),
    "near-source": (ADVICE, "the first part of a dotted span nearly names a source"),
    "unknown-word": (ADVICE, "a single word in code is nothing that the page's sources have"),
    # provenance
    "path-not-normal": (ERROR, "a raw path that is not in its normal form"),
    "unknown-raw-path": (ERROR, "a raw path that is neither in the snapshot nor among the deleted ones"),
    "absent-snapshot": (ADVICE, "a raw path into a snapshot that the tree does not keep"),
    "unknown-artifact": (ERROR, "a provenance row names an artifact that is not there"),
    # claims of test runs
    "claim-stale": (ERROR, "a claim of a test run that predates the last edit"),
    "claim-false": (ERROR, "a claim of a test run that the ledger refutes"),
    "claim-unknown": (ERROR, "a claim of a test run that no recorded run bears out"),
    "claim-uncommitted": (WARNING, "a test run had files that are not being committed"),
    "claim-partial": (WARNING, "a true claim that leaves out what failed"),
    "word-refused": (ERROR, "a word about tests that says nothing that can be checked"),
    "word-unearned": (ERROR, "a word of the lexicon that the ledger does not show of the test"),
    "quote-altered": (ERROR, "a quoted error that is nearly a recorded one"),
    # affected tests
    "affected-not-run": (ERROR, "a test that the change can reach has no run on this tree"),
    "affected-not-passed": (ERROR, "a test that the change can reach did not pass on this tree"),
    "affected-missed": (ERROR, "a mutation proof shows that the selection leaves out a test that is needed"),
    # the gates themselves
    "suppression-unused": (WARNING, "a suppression that suppresses nothing"),
    "suppression-unknown": (ERROR, "a suppression that names no rule"),
    "swallowed-exception": (ERROR, "an except block whose whole body discards the error"),
    "python-syntax": (WARNING, "a Python file that cannot be read"),
    "python-size": (WARNING, "a Python file is larger than what is read"),
    "waiver-without-reason": (ERROR, "a waiver that gives no reason"),
    "waiver-unused": (WARNING, "a waiver that waives nothing"),
    "baseline-paid": (WARNING, "a known debt that is paid and still stands in the baseline"),
    "command-failed": (ERROR, "a command that serves as a gate ended with another status than 0"),
    "gate-output": (ERROR, "a gate printed what is no finding"),
    "hook-failed": (ERROR, "one of the repository's own hooks failed or changed files"),
}


def level_of(rule: str) -> str:
    """The level of a rule; a rule that a third party's gate brings is an error unless its finding says otherwise."""
    return RULES[rule][0] if rule in RULES else ERROR


def sentence(rule: str) -> str:
    """The rule in one sentence; its id where a third party brought it."""
    return RULES[rule][1] if rule in RULES else rule
