"""A plugin for mypy: `.get` of a key that a document's type does not have is an error, as `[...]` of it is.

mypy alone takes it, since a TypedDict may hold more keys than its type names; a document of ours does not.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.errorcodes import TYPEDDICT_ITEM
from mypy.nodes import CallExpr, MemberExpr, StrExpr
from mypy.plugin import MethodContext, Plugin
from mypy.plugins.default import typed_dict_get_callback
from mypy.types import Type, TypedDictType, UnionType, get_proper_type


def _get(context: MethodContext) -> Type:
    call, key = context.context, context.args[0][0]
    if isinstance(key, StrExpr) and isinstance(call, CallExpr) and isinstance(call.callee, MemberExpr):
        whole = get_proper_type(context.api.get_expression_type(call.callee.expr))
        members = [get_proper_type(part) for part in whole.items] if isinstance(whole, UnionType) else [context.type]
        documents = [part for part in members if isinstance(part, TypedDictType)]
        if documents and all(key.value not in part.items for part in documents):
            names = " | ".join(part.fallback.type.name for part in documents)
            context.api.fail(f'TypedDict "{names}" has no key "{key.value}"', key, code=TYPEDDICT_ITEM)
    return typed_dict_get_callback(context)


class TypedKeys(Plugin):
    """Looks at each key that a TypedDict is asked for."""

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return _get if fullname == "typing.Mapping.get" else None


def plugin(version: str) -> type[Plugin]:
    """What mypy asks for."""
    return TypedKeys
