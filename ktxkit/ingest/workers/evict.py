"""Remove the artifacts that only deleted raw files led to. Needs the standard library only.

reads    $KTX_UNIT_FILE (its `evictions`)
writes   the worktree
exits    0 removed
"""

from __future__ import annotations

import json
import os
from pathlib import Path


def main() -> int:
    unit = json.loads(Path(os.environ["KTX_UNIT_FILE"]).read_bytes())
    for path in unit["evictions"]:
        Path(path).unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
