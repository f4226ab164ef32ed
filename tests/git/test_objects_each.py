"""Many objects in few exchanges: the bytes that one by one would give."""

from __future__ import annotations

import pytest

from ktxkit.base.errors import BrokenContract
from ktxkit.git.git import Git
from ktxkit.git.objects import AHEAD, SMALL, Objects
from tests.support.repos import Repo


def test_in_order_whatever_their_size(repo: Repo) -> None:
    bodies = [b"", b"\n", *(b"body %d\n" % n * (n % 7) for n in range(3 * AHEAD)), b"x" * (SMALL + 1), b"y" * SMALL]
    oids = []
    for number, body in enumerate(bodies):
        (repo.path / f"f{number}").write_bytes(body)
    oids = repo.git("hash-object", "-w", *(f"f{number}" for number in range(len(bodies)))).split()
    with Objects(Git.scrub(repo.path, {"PATH": "/usr/bin:/bin"})) as objects:
        assert list(objects.each(oids)) == bodies
        assert list(objects.each([oids[5], oids[5], oids[-1], oids[5]])) == [
            bodies[5],
            bodies[5],
            bodies[-1],
            bodies[5],
        ]
        assert list(objects.each([])) == []
        assert objects.read(oids[2]) == bodies[2]
        with pytest.raises(BrokenContract):
            list(objects.each([oids[0], "1" * 40, oids[1]]))
        assert objects.read(oids[3]) == bodies[3]  # it answers on
