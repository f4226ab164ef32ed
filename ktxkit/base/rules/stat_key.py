"""When a stat key may vouch for content that was hashed before. It is a cache, never evidence.

A key is device, inode, size, mtime and ctime in nanoseconds, mode. It does not vouch for a file whose times are not
safely older than the scan that hashed it (git's racy-timestamp rule, Documentation/technical/racy-git), nor for one
with several names, which may be written where nobody looks. How coarse a file system's times are is read off each
ctime, which nobody can set: whole seconds mean that a second (FAT: two) may hide a rewrite.
"""

from __future__ import annotations

import struct

from ktxkit.observer.rules.settings import SECOND

KEY = struct.Struct("<QQQqqI")  # device, inode, size, mtime_ns, ctime_ns, mode
FINE_WINDOW = 20_000_000  # twice the longest tick of a kernel clock (10 ms at 100 Hz)
COARSE_WINDOW = 4 * SECOND
RACY = 1  # flag: hashed while its times were too new to vouch for it
SHARED = 2  # flag: it has several names


def window(ctime_ns: int) -> int:
    """How much older than a scan a time must be to be safe, in nanoseconds."""
    return COARSE_WINDOW if ctime_ns % SECOND == 0 else FINE_WINDOW


def is_racy(mtime_ns: int, ctime_ns: int, scan_started_ns: int) -> bool:
    """Whether a write after the hashing could leave the same times. `scan_started_ns` is the wall clock's."""
    return max(mtime_ns, ctime_ns) >= scan_started_ns - window(ctime_ns)


def flags(mtime_ns: int, ctime_ns: int, links: int, scan_started_ns: int) -> int:
    """What is noted beside a key."""
    shared = SHARED if links > 1 else 0
    safe = scan_started_ns - COARSE_WINDOW  # older than this is safe everywhere: most files are
    if mtime_ns < safe and ctime_ns < safe:
        return shared
    return shared | RACY if is_racy(mtime_ns, ctime_ns, scan_started_ns) else shared
