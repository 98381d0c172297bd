"""The public stream of an agent: ten payloads, each of which is its own yield.

`yield Token("Hello")` is enough: a payload knows its kind, so it *is* an `AgentYield`. Wrapping one by hand,
`AgentYield(AgentYieldKind.TOKEN, Token("Hello"))`, gives an item with the same `kind` and `payload`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import FrozenInstanceError, field
from enum import StrEnum
from typing import Any, Generic, Never, Protocol, TypeAlias, TypeVar, cast

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.signals import ApprovalDecision
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, empty_object, is_list, to_json_value
from pilotage.values import value

_NEEDS: Mapping[str, tuple[str, ...]] = {
    "add": ("path", "value"),
    "remove": ("path",),
    "replace": ("path", "value"),
    "move": ("path", "from"),
    "copy": ("path", "from"),
    "test": ("path", "value"),
}
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*", re.DOTALL)


def checked_patch(operations: object) -> list[JsonObject]:
    """Return the operations of a patch in their JSON form.

    Raises:
        AgentDefinitionError: an operation is none of RFC 6902, or has a value without a JSON form.
    """
    if not is_list(operations):
        raise _unfit(f"it is {type(operations).__name__}, and a list of operations is needed")
    try:
        encoded = cast("Sequence[JsonValue]", to_json_value(list(operations)))
        canonical_json(encoded)
    except (TypeError, ValueError) as error:
        raise _unfit(str(error)) from error
    return [_checked(number, operation) for number, operation in enumerate(encoded, 1)]


def _checked(number: int, operation: JsonValue) -> JsonObject:
    kind = operation.get("op") if isinstance(operation, Mapping) else None
    needed = _NEEDS.get(kind) if isinstance(kind, str) else None
    if not isinstance(operation, Mapping) or needed is None:
        raise _unfit(f"operation {number} has no 'op' of {', '.join(_NEEDS)}")
    if missing := [name for name in needed if name not in operation]:
        raise _unfit(f"operation {number} ({kind}) lacks {', '.join(map(repr, missing))}")
    for name in ("path", "from"):
        pointer = operation.get(name, "")
        if not isinstance(pointer, str) or _POINTER.fullmatch(pointer) is None:
            raise _unfit(f"{name!r} of operation {number} is no JSON Pointer, such as '/items/0'")
    return operation


def _unfit(problem: str) -> AgentDefinitionError:
    return AgentDefinitionError(f"The patch of a state cannot be shared: {problem}.")


T_co = TypeVar("T_co", covariant=True)


class AgentYieldKind(StrEnum):
    """The kinds of item in an agent's stream; the set is closed."""

    TOKEN = "token"  # noqa: S105 - a piece of text, not a credential
    PROGRESS = "progress"
    TOOL = "tool"
    EVIDENCE = "evidence"
    APPROVAL = "approval"
    FINAL = "final"
    ERROR = "error"
    CANCEL = "cancel"
    STATE = "state"
    STATE_PATCH = "state_patch"


class AgentYield(Generic[T_co]):
    """One item of the stream; `T` is the type of the output that `Final` carries. Immutable.

    `AgentYield(AgentYieldKind.FINAL, output)` is the item of `Final(output)`.
    """

    __match_args__ = ("kind", "payload")

    def __init__(self, kind: AgentYieldKind, payload: AgentYieldPayload[T_co] | T_co) -> None:
        expected = _PAYLOADS.get(kind)
        item: object = Final(payload) if expected is Final and not _is_item(payload) else payload
        if expected is None or not isinstance(item, expected):
            wanted = f"a {expected.__name__}" if expected else "a kind of AgentYieldKind"
            raise AgentDefinitionError(
                f"AgentYield of kind {str(kind)!r} got {type(item).__name__} as payload. Give it {wanted}."
            )
        self.__dict__["_payload"] = item

    @property
    def kind(self) -> AgentYieldKind:
        """Which of the kinds this item is."""
        return _KINDS[type(self.payload)]

    @property
    def payload(self) -> AgentYieldPayload[T_co]:
        """The payload; a payload is its own."""
        payload: AgentYieldPayload[T_co] = self.__dict__.get("_payload", self)
        return payload

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AgentYield):
            return NotImplemented
        return bool(self.payload == cast(AgentYield[object], other).payload)

    def __hash__(self) -> int:
        return hash(self.payload)

    def __repr__(self) -> str:
        return f"AgentYield(kind={self.kind!r}, payload={self.payload!r})"

    def __setattr__(self, name: str, value: object) -> Never:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> Never:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


@value
class Token(AgentYield[Never]):
    """A piece of text as the model produces it."""

    text: str
    metadata: JsonObject = field(default_factory=empty_object)


@value
class Progress(AgentYield[Never]):
    """The current activity of the agent, in words for a person."""

    message: str
    current_step: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)


@value
class Tool(AgentYield[Never]):
    """A tool call and, once it is there, its result."""

    name: str
    call_id: str | None = None
    arguments: JsonObject = field(default_factory=empty_object)
    result: JsonValue = None
    metadata: JsonObject = field(default_factory=empty_object)


@value
class Evidence(AgentYield[Never]):
    """Evidence of the agent: recorded evidence, or any value that has a JSON form."""

    evidence: AgentEvidence | JsonValue
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        if isinstance(self.evidence, AgentEvidence):
            return
        try:
            object.__setattr__(self, "evidence", to_json_value(self.evidence))
        except TypeError as error:
            raise AgentDefinitionError(f"Evidence.evidence cannot be recorded: {error}.") from error


class _ApprovalQuestion(Protocol):
    """An approval request in the stream."""

    @property
    def id(self) -> str: ...
    @property
    def prompt(self) -> str: ...
    @property
    def allowed_decisions(self) -> tuple[ApprovalDecision, ...]: ...
    def to_metadata(self) -> JsonObject: ...


@value
class Approval(AgentYield[Never]):
    """A question to a person; the run waits for one of the allowed decisions."""

    id: str
    prompt: str
    allowed_decisions: tuple[ApprovalDecision, ...] = tuple(ApprovalDecision)
    metadata: JsonObject = field(default_factory=empty_object)

    @classmethod
    def from_request(cls, request: _ApprovalQuestion) -> Approval:
        """Return the question an approval request asks."""
        return cls(request.id, request.prompt, request.allowed_decisions, request.to_metadata())


@value
class Error(AgentYield[Never]):
    """An error, and whether a retry may help."""

    code: str
    message: str
    retryable: bool = False
    metadata: JsonObject = field(default_factory=empty_object)


@value
class Cancel(AgentYield[Never]):
    """The run was cancelled, by whom and why."""

    reason: str | None = None
    requested_by: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)


@value
class State(AgentYield[Never]):
    """The whole state that the agent shares with its clients; a page shows it. It replaces the state before."""

    snapshot: JsonValue
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        try:
            snapshot = to_json_value(self.snapshot)
            canonical_json(snapshot)
        except (TypeError, ValueError) as error:
            raise AgentDefinitionError(f"State.snapshot cannot be shared: {error}.") from error
        object.__setattr__(self, "snapshot", snapshot)


@value
class StatePatch(AgentYield[Never]):
    """A change of the shared state: operations of a JSON Patch (RFC 6902), which clients apply in order."""

    operations: Sequence[JsonObject]
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        object.__setattr__(self, "operations", checked_patch(self.operations))


@value(slots=False)
class Final(AgentYield[T_co]):
    """The agent's answer; nothing follows it."""

    output: T_co
    metadata: JsonObject = field(default_factory=empty_object)


def _is_item(payload: object) -> bool:
    return isinstance(payload, AgentYield)


TextDelta = Token
Message = Progress
AgentYieldPayload: TypeAlias = (
    Token | Progress | Tool | Evidence | Approval | Error | Cancel | Final[T_co] | State | StatePatch
)

_PAYLOADS: Mapping[AgentYieldKind, type[AgentYieldPayload[Any]]] = {
    AgentYieldKind.TOKEN: Token,
    AgentYieldKind.PROGRESS: Progress,
    AgentYieldKind.TOOL: Tool,
    AgentYieldKind.EVIDENCE: Evidence,
    AgentYieldKind.APPROVAL: Approval,
    AgentYieldKind.ERROR: Error,
    AgentYieldKind.CANCEL: Cancel,
    AgentYieldKind.FINAL: Final,
    AgentYieldKind.STATE: State,
    AgentYieldKind.STATE_PATCH: StatePatch,
}
_KINDS: Mapping[type[AgentYield[Any]], AgentYieldKind] = {
    payload: kind for kind, payload in _PAYLOADS.items()
}


class AgentYieldJsonEncoder:
    """Turns items of the stream into JSON objects: `{"kind": ..., "payload": {...}}`."""

    @staticmethod
    def encode(item: AgentYield[object]) -> JsonObject:
        """Return the JSON form of an item; the output of `Final` by its own JSON form."""
        return {"kind": item.kind.value, "payload": to_json_value(item.payload)}
