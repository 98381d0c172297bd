"""From values to JSON and back: a replayed call gives a value of the same type as the live one gave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from inspect import unwrap
from typing import Any, cast

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.ports.journal import OutboxEvent, RunKey
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.annotations import UnresolvedAnnotationError, resolve_annotation
from pilotage.errors import AgentDefinitionError
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, JsonValue, text_digest, to_json_value
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.scope import Scope
from pilotage.safety.exposure import ContextExposurePolicy
from pilotage.safety.guard import guard_json_value
from pilotage.values import value

Decode = Callable[[JsonValue], object]


@lru_cache(maxsize=1024)
def decoder_of(function: Callable[..., object]) -> Decode:
    """How to read a recorded result of a function: by its return type, or as JSON where it has none."""
    plain: Any = unwrap(getattr(function, "__func__", function))
    annotation: object = getattr(plain, "__annotations__", {}).get("return", _NOTHING)
    if annotation is _NOTHING:
        return _as_it_is
    names = cast("dict[str, object]", getattr(plain, "__globals__", {}))
    try:
        resolved = resolve_annotation(annotation, names)
        return StructuredOutputSpec.from_type(type(None) if resolved is None else resolved).decode
    except (UnresolvedAnnotationError, AgentDefinitionError):
        return _as_it_is


_NOTHING = object()


def _as_it_is(value: JsonValue) -> JsonValue:
    return value


@value
class Attempt:
    """One try at an action. The key is the same for every try, so that the outside world can tell."""

    number: int
    epoch: int
    run: RunKey
    action_id: str
    arguments: JsonObject | None = None
    """Other arguments than those asked for, where a person changed them."""

    @property
    def idempotency_key(self) -> str:
        """The key of the action."""
        return idempotency_key(self.run, self.action_id)


new_attempt = unchecked(Attempt)


def idempotency_key(run: RunKey, action_id: str) -> str:
    """The key of an action, the same for every attempt at it and unlike that of any other action."""
    return text_digest(f"{run.tenant_id}\n{run.run_id}\n{action_id}")[:32]


def _whole(result: object) -> JsonObject:
    return {"result": to_json_value(result)}


@value
class Call:
    """What to do, how to do it, how to read its result, how to find out whether it was done.

    `boundary` is what a person is asked about, and `needs_approval` says that the action itself demands it.
    `view_of` is what others may see of the result.
    """

    scope: Scope
    action: Action
    act: Callable[[Attempt], Awaitable[object]]
    decode: Decode
    reconcile: Callable[[str], Awaitable[object]] | None = None
    boundary: AgentApprovalBoundaryKind = AgentApprovalBoundaryKind.EXTERNAL_SIDE_EFFECT
    needs_approval: bool = False
    view_of: Callable[[object], JsonObject] = _whole
    descriptor: AgentToolDescriptor | None = None
    call_id: str | None = None
    """What the model calls it, where a model asked for it."""
    is_reserved: bool = False
    """Whether it was counted against the run's limits before, together with the calls beside it."""
    is_deferred: bool = False
    """Whether somebody outside carries it out, and the run waits for what came of it."""
    begins: OutboxEvent | None = None
    """The fact that becomes true when it begins."""

    @property
    def tool_name(self) -> str | None:
        """The tool that is called, where it is one."""
        return self.action.name if self.descriptor is not None else None

    def shown(self, arguments: JsonObject) -> JsonValue:
        """What others may see of arguments."""
        if self.descriptor is None:
            return arguments
        sensitive = self.descriptor.schema.input_sensitive_fields
        return guard_json_value(arguments, sensitive, ContextExposurePolicy())


new_call = unchecked(Call)
