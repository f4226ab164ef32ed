"""The one leased attempt that an observer watches, and whether it still is the current one.

Path or branch names are no ownership: the tuple is. Anything outside of it is inert, whatever it writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from ktxkit.base.rules.digests import digest_of

KEYS = (
    "jobId", "unitKey", "leaseId", "generation", "attempt", "fence", "leaseEpoch", "processEpoch", "worktreeId",
    "path", "pathB64", "adminDir", "adminDirB64", "device", "inode", "birthTimeNs", "nonce",
)  # fmt: skip
_SAME_LEASE = ("leaseId", "nonce", "generation", "attempt")
_SAME_ROOT = ("device", "inode", "path")


class Standing(Enum):
    """What the lease on the disk says about an observer's tuple. The value is the reason code in documents."""

    CURRENT = "current"
    STALE_OBSERVER = "stale_observer_epoch"  # a later observer, or a later process of the unit, has taken over
    REVOKED = "lease_revoked"  # the lease is closed or its fence moved on: what is written now is late
    SUPERSEDED = "lease_superseded"  # another attempt has this very worktree: its bytes are not ours to judge


def domain_of(lease: Mapping[str, Any], observer_epoch: int) -> dict[str, Any]:
    """The tuple, as it stands in every record."""
    made = {key: lease[key] for key in KEYS if key in lease}
    return {**made, "processEpoch": lease.get("processEpoch", 1), "observerEpoch": observer_epoch}


def standing(domain: Mapping[str, Any], lease: Mapping[str, Any] | None) -> Standing:
    """Of a tuple, by the lease as it is now (None: there is none any more)."""
    if lease is None:
        return Standing.REVOKED
    if any(domain.get(key) != lease.get(key) for key in _SAME_LEASE):
        same_root = all(domain.get(key) == lease.get(key) for key in _SAME_ROOT)
        return Standing.SUPERSEDED if same_root else Standing.REVOKED
    moved_on = domain["fence"] != lease["fence"] or domain["leaseEpoch"] != lease["leaseEpoch"]
    if lease["state"] == "closed" or moved_on:
        return Standing.REVOKED
    newer = lease.get("observer", {}).get("epoch", 0) > domain["observerEpoch"]
    if newer or lease.get("processEpoch", 1) != domain["processEpoch"]:
        return Standing.STALE_OBSERVER
    return Standing.CURRENT


def attempt_name(lease: Mapping[str, Any]) -> str:
    """Names an attempt's directory: a digest of job, unit, generation and attempt (of the lease, without a job)."""
    unit = [lease["jobId"], lease["unitKey"]] if "unitKey" in lease else ["adhoc", lease["leaseId"]]
    return digest_of([*unit, lease["generation"], lease["attempt"]])[3:35]
