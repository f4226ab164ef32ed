"""What is known of rows: why one misses its target where it does, and what is always to be said of it."""

from __future__ import annotations

QUESTION = (
    "60 ms are for a quiet machine: half of it is the start of an interpreter, most of the rest its imports (argparse, "
    "SQLite, typing); the answer itself takes 3 to 8 ms."
)
WHY = {
    "patch-collect, 5 files changed": (
        "The whole worktree is looked at twice (`git status` before and after, so that no change is taken half): more "
        "than twice what `git diff` does once, and the second look cannot begin before the first has told what to "
        "take. What else there is goes on beside them (hidden entries, FIFOs and devices that git passes over, patch, "
        "proof, kept commit), where a second core is free; an interpreter and its imports are 0.1 s of processor time."
    ),
    "gate-check of one changed page": (
        "The index and HEAD's tree of 12,000 files are listed, the groups of files that differ are read again, and the "
        "page and what mentions it is judged on both sides, in one process; pre-commit lists the index and judges "
        "nothing. The two are so near that the machine decides: 1.01 in the run before."
    ),
    "patch-apply by hand, the same": (
        "A Python process with all gates and nine git processes for each unit; a job does the same in one process, as "
        "the row before it shows."
    ),
    "patch-apply, both sides edited": (
        "Half of it is ours: policy, proof of the merge, gates and three documents that name every path, some 80 "
        "microseconds for a path, and 0.2 s whatever the size. The other half is `git merge-tree` and one pack of what "
        "it made, flushed; the peer flushes nothing. The ratio falls with the size (0.36 with 3,000 files)."
    ),
    "job-run, units of 10 s, 64 at once": (
        "A unit's worktree is opened, collected, integrated and removed in 24 git calls and some ten flushes: 0.2 s of "
        "processor time for each. 64 begin at once and 64 end at once; between, units that run hide it: on a machine "
        "busy with other work the ratio was 1.97 with 128 units and 1.67 with 256. The commands alone only sleep."
    ),
    "worktree-watch --once, the attach": (
        "As the next row; and an interpreter's start, what git says of index and base, and the class of each path."
    ),
    "worktree-watch --once, all is read": (
        "A file takes five system calls (open, stat, read, stat by its name, close: the second look proves that the "
        "bytes are those of that name) and a hash, which are 10 microseconds, and 4 of an interpreter. git does the "
        "same in C with one look less. The figure was taken while a second process of ours still read beside the "
        "walk. Half of git's time would be less than those calls take in two processes."
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
        "16 git processes: the version, the repository, the base, HEAD with what is not finished, `status` twice, "
        "hidden entries, the change's tree (stage, write), one reader of objects, one of differences, the kept "
        "commit, the patch, and its proof by a round trip (3)."
    ),
    "index: one run more": (
        "without the start of an interpreter. Of 29,100 tests, taken by hand: 0.14 s of 18 s of processor time, 0.8 %."
    ),
}
