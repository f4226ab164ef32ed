"""What is known of rows: why one misses its target where it does, and what is always to be said of it."""

from __future__ import annotations

QUESTION = (
    "60 ms are for a quiet machine: half of it is the start of an interpreter, most of the rest its imports (argparse, "
    "SQLite, typing); the answer itself takes 3 to 8 ms."
)
WHY = {
    "patch-collect, 5 files changed": (
        "The whole worktree is looked at twice (`git status` before and after, so that no change is taken half), once "
        "more for FIFOs and devices that git passes over, and an index of 50,000 entries is read five times (hidden "
        "entries, HEAD's tree, the changed paths, what git would not take, the tree). `git diff` does one such look."
    ),
    "patch-apply by hand, the same": (
        "A Python process with all gates and nine git processes for each unit; a job does the same in one process, as "
        "the row before it shows."
    ),
    "patch-apply, both sides edited": (
        "A third of it is `git merge-tree`, which writes an object for each file as the peer does; the rest is "
        "policy, proof of the merge and three documents that name every path."
    ),
    "job-run, units of 10 s, 64 at once": (
        "A unit's worktree is opened, read, integrated and removed: 0.7 s of wall time for each on a machine as busy "
        "as this one was; beside commands of 10 s that shows. The commands alone only sleep."
    ),
    "worktree-watch --once, the attach": (
        "As the next row; and an interpreter's start, what git says of index and base, and the class of each path."
    ),
    "worktree-watch --once, all is read": (
        "A file takes five system calls (open, stat, read, stat by its name, close: the second look proves that the "
        "bytes are those of that name) and a hash, which are 10 microseconds, and 4 of an interpreter. git does the "
        "same in C with one look less. Where a processor is idle a second process of ours takes 60 % of the files; on "
        "a busy machine there is none. Half of git's time would be less than those calls take in two processes."
    ),
    "worktree-watch --once, nothing changed": (
        "An interpreter's stat and comparison of one entry takes some 4 microseconds and its start 0.1 s; git does "
        "both in two threads of C."
    ),
    "pytest plugin": (
        "Of the instructions that pytest spends on a test that does nothing we add 3 in a hundred (five calls by "
        "pytest, two records, a place in the closing record), and two writes to the kernel; a run costs some 0.1 s: "
        "imports, six git processes for the tree before and after, and the closing record. A shared mapping instead "
        "of writes would save a microsecond a test, and end the suite's process where its disk is full."
    ),
    "ledger-query slowest": QUESTION,
    "ledger-query compare": QUESTION,
    "ledger-query history": QUESTION,
}
NOTES = {
    "worktree-open": "a round is one opening; 50 in a row are fifty of them.",
    "patch-collect, 5 files changed": (
        "20 git processes: the version, the repository of either side (2), the base, HEAD and what is not "
        "finished, `status` twice, hidden entries, the change's tree (read, stage, list, write), HEAD again, one "
        "reader of objects, one of differences, the kept commit, the patch, and its proof by a round trip (3)."
    ),
    "index: one run more": (
        "without the start of an interpreter. Of 29,100 tests, taken by hand: 0.14 s of 18 s of processor time, 0.8 %."
    ),
}
