"""Named tuples whose classes cost little to make.

`typing.NamedTuple` compiles the annotation of each field when its module is imported: with some hundred of them that
is a twentieth of what a small job takes. Here fields and defaults alone are looked at; mypy sees typing's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple

    _OWN = frozenset({"__module__", "__qualname__", "__annotations__", "__classcell__"})

    class _NamedTupleType(type):
        def __new__(cls, name, bases, namespace):
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            fields = namespace.get("__annotations__", {})
            defaults = [namespace[field] for field in fields if field in namespace]
            made = namedtuple(name, fields, defaults=defaults, module=namespace["__module__"])
            for key, value in namespace.items():
                if key not in _OWN and key not in fields:
                    setattr(made, key, value)
            made.__qualname__ = namespace["__qualname__"]
            made.__annotations__ = fields
            return made

    class NamedTuple(metaclass=_NamedTupleType):
        """As `typing.NamedTuple`, in the class form."""
