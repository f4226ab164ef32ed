"""Named tuples of ours beside typing's: the same class but for what its annotations are checked for."""

from __future__ import annotations

import pickle
import typing

import pytest

from ktxkit.base.rules.named import NamedTuple


class Ours(NamedTuple):
    """A place."""

    path: str
    line: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return f"{self.path}:{self.line}"

    @classmethod
    def top(cls, path: str) -> Ours:
        return cls(path, 1)


class Theirs(typing.NamedTuple):
    """A place."""

    path: str
    line: int | None = None
    notes: tuple[str, ...] = ()


def test_it_is_made_read_and_changed_as_typings() -> None:
    ours, theirs = Ours("a", notes=("x",)), Theirs("a", notes=("x",))
    assert tuple(ours) == tuple(theirs) == ("a", None, ("x",))
    assert repr(ours).replace("Ours", "Theirs") == repr(theirs)
    assert ours._replace(line=2) == Ours("a", 2, ("x",)) and ours._asdict() == theirs._asdict()
    for name in ("_fields", "_field_defaults", "__doc__", "__module__", "__match_args__"):
        assert getattr(Ours, name) == getattr(Theirs, name), name
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)
    assert Ours.top("b").text == "b:1" and hash(ours) == hash(theirs)
    assert pickle.loads(pickle.dumps(ours)) == ours


def test_what_has_no_default_has_to_be_given() -> None:
    with pytest.raises(TypeError, match="path"):
        Ours()  # type: ignore[call-arg]
