"""Checks that the method a tool names to reconcile by can be called with the idempotency key."""

from __future__ import annotations

import inspect
from inspect import Parameter
from types import FunctionType

from pilotage.annotations import UnresolvedAnnotationError, resolve_annotation
from pilotage.errors import AgentDefinitionError
from pilotage.schema.rejections import spelling


def reject_unfit_reconcile(label: str, name: str, owner: type) -> None:
    """Refuse a tool whose `reconcile` is no method of its class that takes one `idempotency_key: str`."""
    static: object = inspect.getattr_static(owner, name, None)
    held: object = getattr(static, "__func__", static)
    if not isinstance(held, FunctionType):
        raise AgentDefinitionError(
            f"{label}: reconcile names {name!r}, which is no method of {spelling(owner)}. "
            f"Write 'async def {name}(self, idempotency_key: str) -> ...'."
        )
    if not _takes_one_key(held):
        raise AgentDefinitionError(
            f"{label}: reconcile names {name!r}, which does not take exactly one 'idempotency_key: str'. "
            f"Write 'async def {name}(self, idempotency_key: str) -> ...'."
        )


def _takes_one_key(function: FunctionType) -> bool:
    parameters = [
        each for each in inspect.signature(function).parameters.values() if each.name not in {"self", "cls"}
    ]
    required = [each.name for each in parameters if each.default is Parameter.empty]
    key = next((each for each in parameters if each.name == "idempotency_key"), None)
    if key is None or required not in ([], ["idempotency_key"]):
        return False
    try:
        return resolve_annotation(key.annotation, inspect.unwrap(function).__globals__) is str
    except UnresolvedAnnotationError:
        return False
