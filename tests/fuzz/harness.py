"""Coverage-guided fuzzing of one reader, by atheris: `python -m tests.fuzz.harness READER [libFuzzer's options]`.

An input that raises, takes more than `-timeout` seconds or more than `-rss_limit_mb` is written to a file, and the
status is not 0.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["ktxkit"]):
    from tests.support.readers import READERS


def main(argv: list[str]) -> None:
    name = argv.pop(1)
    atheris.Setup(argv, READERS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
