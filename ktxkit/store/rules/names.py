"""Names: job ids, unit keys, and where each thing lies under `.ktx/` (design, section 4).

Every relative path of the store is made here, so that no two commands can disagree about one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.digests import digest, digest_of

if TYPE_CHECKING:
    from typing import NotRequired, TypedDict

    class AttemptFields(TypedDict):
        """What tells an attempt from others; a lease has it all."""

        leaseId: str
        generation: int
        attempt: int
        jobId: NotRequired[str]
        unitKey: NotRequired[str]


_JOB = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z"  # compiled where it is used: a question is answered before
_UNSAFE = r"[^A-Za-z0-9_.-]"
KEY_LIMIT = 512  # characters of a unit key
SLUG_LIMIT = 100  # characters of a key in a file name; longer keys end in a part of their digest


FACTS = "cache/facts.sqlite"  # may be deleted at any moment
STORE = "store.json"  # whose store it is, where it is kept elsewhere
OBSERVER_JOURNAL = "activity.jsonl"
STORE_LOCK = "locks/store.lock"


def check_job(job: str) -> str:
    """The job id itself. Raises CannotRun where it is not `[A-Za-z0-9][A-Za-z0-9._-]{0,127}` or holds `..`."""
    if not re.match(_JOB, job) or ".." in job or job.endswith((".lock", ".")):
        raise CannotRun(
            f"job id {job!r} cannot be used",
            hint="use letters, digits, '.', '_' and '-', at most 128, starting with a letter or digit, without '..'",
        )
    return job


def check_key(key: str) -> str:
    """The unit key itself. Raises CannotRun where it is empty, too long or holds control characters."""
    if not key or len(key) > KEY_LIMIT or any(ord(c) < 32 or ord(c) == 127 or 0xD800 <= ord(c) <= 0xDFFF for c in key):
        raise CannotRun(f"unit key {key!r} cannot be used", hint=f"1 to {KEY_LIMIT} printable characters")
    return key


def slug(key: str) -> str:
    """A key in a file name: each character outside `[A-Za-z0-9_.-]` becomes `-`. Not unique; the position is."""
    plain = re.sub(_UNSAFE, "-", key)
    if len(plain) <= SLUG_LIMIT:
        return plain
    return f"{plain[: SLUG_LIMIT - 13]}-{digest(key.encode())[3:15]}"


def unit_name(position: int, key: str) -> str:
    """`NNNN-key`: a unit's name in paths. `position` counts from 1."""
    assert position >= 1
    return f"{position:04d}-{slug(key)}"


def ref_part(position: int, key: str) -> str:
    """`NNNN-key` where git takes it in a ref, else `NNNN-<digest>` (git check-ref-format)."""
    name = unit_name(position, key)
    if ".." in name or name.endswith((".lock", ".")) or "@{" in name:
        return f"{position:04d}-{digest(key.encode())[3:35]}"
    return name


def job_dir(job: str) -> str:
    return f"jobs/{job}"


def job_doc(job: str) -> str:
    return f"jobs/{job}/job.json"


def report_doc(job: str) -> str:
    return f"jobs/{job}/report.json"


def job_part(job: str, name: str) -> str:
    """A document of a job by its name: `job-file`, `landing`, `landing-intent`, `verification` and their kin."""
    return f"jobs/{job}/{name}.json"


def unit_dir(job: str, position: int, key: str) -> str:
    return f"jobs/{job}/units/{unit_name(position, key)}"


def unit_doc(job: str, position: int, key: str, name: str) -> str:
    """A document of a unit: `lease`, `patch`, `verdict`, `intent`, `receipt`, `sentinel`, `result`."""
    return f"{unit_dir(job, position, key)}/{name}.json"


def misplaced(relative: str, document: Mapping[str, object]) -> str:
    """Why a document cannot be the one of its place below `jobs/`: it names another job or unit. Empty where it can."""
    parts = relative.split("/")
    if parts[0] != "jobs" or len(parts) < 3:
        return ""
    job, position, key = document.get("jobId"), document.get("position"), document.get("unitKey")
    if job is not None and job != parts[1]:
        return f"it is of job {job!r}, and lies with those of {parts[1]!r}"
    if len(parts) != 5 or parts[2] != "units" or not (isinstance(position, int) and isinstance(key, str)):
        return ""
    if position < 1 or unit_name(position, key) != parts[3]:
        return f"it is of unit {key!r} (position {position}), and lies with those of {parts[3]}"
    return ""


def adhoc_dir(name: str) -> str:
    """Documents of a worktree without a job."""
    return f"leases/{slug(name)}"


def adhoc_worktree(name: str) -> str:
    """Where a worktree without a job lies, unless a path was asked for."""
    return f"worktrees/adhoc/{slug(name)}"


def adhoc_part(name: str) -> str:
    """Its name where git takes it in a ref, else the name's digest."""
    part = slug(name)
    plain = part[:1] not in (".", "-", "") and ".." not in part and not part.endswith((".lock", "."))
    return part if plain else digest(name.encode())[3:35]


def patch_file(job: str, position: int, key: str) -> str:
    return f"ingest-patches/{job}/{unit_name(position, key)}.patch"


def trace_file(job: str) -> str:
    return f"ingest-traces/{job}/trace.jsonl"


def worktree_dir(job: str, position: int, key: str) -> str:
    return f"worktrees/{job}/{unit_name(position, key)}"


def integration_dir(job: str) -> str:
    return f"worktrees/{job}/integration"


def integration_ref(job: str) -> str:
    """The integration branch: private, since nobody asked for a branch."""
    return f"refs/ktx/jobs/{job}/integration"


def base_ref(job: str) -> str:
    """Keeps the job's base (a projection's commit is on no branch) until the job is closed."""
    return f"refs/ktx/jobs/{job}/base"


UNITS = "refs/ktx/units/"  # where units' collected commits are kept


def unit_ref(job: str, position: int, key: str) -> str:
    """Where a unit's collected commit is kept before anything of the unit is removed."""
    return f"{UNITS}{job}/{ref_part(position, key)}"


def job_refs(job: str) -> tuple[str, ...]:
    """The prefixes of a job's private refs, but for the attic: what is there is nowhere else."""
    return (f"refs/ktx/jobs/{job}/", f"{UNITS}{job}/")


def job_records(job: str) -> tuple[str, ...]:
    """The directories that hold a job's patches, trace and documents; the documents last."""
    return (f"ingest-patches/{job}", f"ingest-traces/{job}", job_dir(job))


def attic_ref(job: str, name: str, stamp: str) -> str:
    """Where work goes that is closed without landing; `stamp` makes it unique."""
    return f"refs/ktx/attic/{job}/{name}/{stamp}"


def ignored_dir(job: str, name: str, attempt: int) -> str:
    """Where ignored files of a worktree are copied to before it goes, where somebody asks for them. Never cleaned."""
    return f"kept-ignored/{job}/{name}/{attempt}"


def in_use_lock(digest: str) -> str:
    """Held, shared, while a command runs in a worktree that was opened for it; `digest`: of the worktree's path."""
    return f"locks/in-use-{digest.removeprefix('b3:')[:16]}.lock"


WORKTREES_LOCK = (
    "locks/worktrees.lock"  # held while a worktree is registered or forgotten, never while files are written
)
TRASH = "worktrees/.trash"  # checkouts that were let go and are being deleted


LEDGER = "ledger/test-runs.ndjson"  # one opening and one closing line for each run
LEDGER_HEAD = "ledger/head.json"  # how many lines it has, and the digest of the last
LEDGER_KEY = "ledger/key"  # what the recorder seals events with
LEDGER_MARK = "ktx-ledger-end"  # in the git directory: the end once more, where what removes the store leaves it
EVENTS = "ledger/events"
LEDGER_LOCK = "locks/ledger.lock"
LEDGER_INDEX = "ledger/index.sqlite"  # disposable
ARTIFACTS = "ledger/artifacts"


AFFECTED_TRACES = "affected/traces"  # runtime maps: what traced runs saw


def affected_trace(run: str) -> str:
    """The runtime map that a traced run left."""
    return f"{AFFECTED_TRACES}/{run}.ndjson"


AFFECTED_RAW = "affected/raw"


def affected_raw(run: str) -> str:
    """What the processes of a traced run write while it goes on; folded and removed at its end."""
    return f"{AFFECTED_RAW}/{run}"


def events_file(run: str) -> str:
    """The event file of a test run."""
    return f"{EVENTS}/{run}.ndjson"


def attempt_name(lease: AttemptFields) -> str:
    """Names an attempt's directory: a digest of job, unit, generation and attempt (of the lease, without a job)."""
    unit = [lease["jobId"], lease["unitKey"]] if "unitKey" in lease else ["adhoc", lease["leaseId"]]
    return digest_of([*unit, lease["generation"], lease["attempt"]])[3:35]


def attempt_dir(attempt: str) -> str:
    """What is known of one attempt; `attempt` is its digest (`attempt_name`)."""
    return f"attempts/{attempt}"


def observer_file(attempt: str, name: str) -> str:
    """A file of the observer: it lies outside of the watched worktree."""
    return f"attempts/{attempt}/worktree-observer/{name}"


def job_lock(job: str) -> str:
    """Name of the lock on a job's documents."""
    return f"job-{job}"


def branch_lock(ref: str) -> str:
    """Name of the lock on one branch of this repository (the store is of one repository)."""
    return f"branch-{digest(ref.encode('utf-8', 'surrogateescape'))[3:35]}"


def branch_lock_doc(ref: str) -> str:
    """The document beside the lock on a branch: who holds it, how far they are, and what they left."""
    return f"locks/{branch_lock(ref)}.json"


VERIFY_LOGS = "verify/logs"  # of verifications outside any job


def verify_dir(ref: str) -> str:
    """The checkout in which a patch file is verified, outside any job."""
    return f"verify/{branch_lock(ref)}"


def verified(job: str, key: str) -> str:
    """A passing verification of a job; `key` is the digest of tree, command and environment."""
    return f"jobs/{job}/verified/{key.removeprefix('b3:')[:32]}.json"


def quarantine_dir(job: str, nonce: str) -> str:
    """Where files go that appeared during a verification: never deleted, one may be a person's."""
    return f"quarantine/{job}/{nonce}"


def branch_intent(ref: str) -> str:
    """The intent of applying a file onto a branch outside any job."""
    return f"locks/{branch_lock(ref)}-intent.json"


def branch_receipt(ref: str) -> str:
    """The last receipt of applying a file onto a branch outside any job."""
    return f"locks/{branch_lock(ref)}-receipt.json"


def observer_journal(lease: AttemptFields) -> str:
    """The first journal of a lease's attempt: present if somebody observed it."""
    return observer_file(attempt_name(lease), OBSERVER_JOURNAL)
