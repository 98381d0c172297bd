"""The messages of a transcript: roles and parts. Pure values.

A message is its `parts` in their order: text, reasoning, tool calls, media, refusals, blocks that only a provider
reads. `content`, `tool_calls` and `reasoning` are views of them. Where text and calls say everything there is to say,
the views alone are stored, and the parts are made when they are asked for.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import TypeAlias, TypeGuard

from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, empty_object, to_json_value
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.safety.guard import ContextExposurePolicy, guard_json_value
from pilotage.values import LEFT_OUT_BY_DEFAULT, NEVER_JSON, value

_DIGEST = re.compile("[0-9a-f]{64}")


class ModelMessageRole(StrEnum):
    """The role of a message. EVIDENCE is material that the application shows the model."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    EVIDENCE = "evidence"


@value
class ProviderState:
    """What a provider wants back with a part of its reply, unread: a signature, encrypted reasoning, a whole block.

    It is sent to the same provider and model only, as it came. It has no JSON form outside of sealed records, so that
    it is in no event, view, log or trace.
    """

    provider: str
    model: str
    kind: str
    data: JsonValue = field(repr=False, metadata=NEVER_JSON)

    def is_of(self, provider: str, model: str) -> bool:
        """Return whether a provider and a model may get it."""
        return self.provider == provider and self.model == model


@value
class TextPart:
    """A piece of text in a message of several parts."""

    text: str
    state: ProviderState | None = field(default=None, metadata=NEVER_JSON)


@value
class MediaPart:
    """An image, a sound or a file in a message: by address, by its bytes in base64, or by the digest of its bytes.

    A durable run stores the bytes once (`IBlobs`), and its messages, rows and results have the SHA-256 `digest` and the
    `size`. The run's models get the bytes; the code of an agent reads them with `pilotage.runtime.media_bytes`.
    """

    media_type: str
    url: str | None = None
    data: str | None = None
    name: str | None = None
    digest: str | None = field(default=None, metadata=LEFT_OUT_BY_DEFAULT)
    size: int | None = field(default=None, metadata=LEFT_OUT_BY_DEFAULT)

    def __post_init__(self) -> None:
        reject_blank(self, media_type=self.media_type, url=self.url, data=self.data, name=self.name)
        if (self.url, self.data, self.digest).count(None) != 2:
            raise AgentDefinitionError("MediaPart needs one of url, data (base64) and digest, and no more.")
        if self.digest is not None and _DIGEST.fullmatch(self.digest) is None:
            raise AgentDefinitionError(
                f"MediaPart.digest is {self.digest!r}. Write a SHA-256 as 64 characters of 0-9 and a-f."
            )
        if self.size is not None and self.size < 0:
            raise AgentDefinitionError(f"MediaPart.size is {self.size}. It is the number of bytes.")

    @classmethod
    def of(
        cls, content: bytes, media_type: str = "application/octet-stream", name: str | None = None
    ) -> MediaPart:
        """Return a part with these bytes; a run that gets it sets the type by them."""
        return cls(media_type, data=b64encode(content).decode("ascii"), name=name)


@value
class ReasoningPart:
    """The reasoning of a model, as far as it is shown. `origin` says which provider, model and field had it."""

    text: str
    origin: str | None = None
    state: ProviderState | None = field(default=None, metadata=NEVER_JSON)


@value
class RefusalPart:
    """The words with which a model refuses; they are text of the message, too."""

    text: str


@value
class OpaquePart:
    """A block that only its provider reads; it is shown to no reader."""

    state: ProviderState = field(metadata=NEVER_JSON)


ContentPart: TypeAlias = TextPart | MediaPart


@value
class ModelToolCall:
    """A tool call a model asks for."""

    name: str
    arguments: JsonObject
    call_id: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)
    state: ProviderState | None = field(default=None, metadata=NEVER_JSON)

    def guarded(
        self,
        sensitive_fields: Sequence[SensitiveFieldDescriptor],
        policy: ContextExposurePolicy | None = None,
    ) -> ModelToolCall:
        """Return this call with its sensitive arguments masked."""
        arguments = guard_json_value(self.arguments, sensitive_fields, policy or ContextExposurePolicy())
        return replace(self, arguments=arguments if isinstance(arguments, dict) else {})


MessagePart: TypeAlias = TextPart | ReasoningPart | ModelToolCall | MediaPart | RefusalPart | OpaquePart
_SPOKEN = (TextPart, RefusalPart)


def text_in(parts: Iterable[MessagePart]) -> str:
    """Return the text of parts as one: what the model said, and what it refused with."""
    return "".join(part.text for part in parts if isinstance(part, _SPOKEN))


def reasoning_in(parts: Iterable[MessagePart]) -> str:
    """Return the reasoning of parts as one text."""
    return "".join(part.text for part in parts if isinstance(part, ReasoningPart))


def calls_in(parts: Iterable[MessagePart]) -> tuple[ModelToolCall, ...]:
    """Return the tool calls of parts."""
    return tuple(part for part in parts if isinstance(part, ModelToolCall))


def state_of(part: MessagePart) -> ProviderState | None:
    """Return the provider state of a part."""
    return None if isinstance(part, MediaPart | RefusalPart) else part.state


def needs_order(parts: Sequence[MessagePart]) -> bool:
    """Return whether parts are more than one text followed by calls."""
    rest = parts[1:] if parts and isinstance(parts[0], TextPart) and parts[0].state is None else parts
    return not all(isinstance(part, ModelToolCall) for part in rest)


def plain_parts(
    content: str | Sequence[ContentPart], calls: Sequence[ModelToolCall]
) -> tuple[MessagePart, ...]:
    """Return the parts of a message that is its content and its calls."""
    if not isinstance(content, str):
        return (*content, *calls)
    return (TextPart(content), *calls) if content else tuple(calls)


def in_agreement(
    parts: Sequence[MessagePart], content: str | Sequence[ContentPart], calls: Sequence[ModelToolCall]
) -> tuple[MessagePart, ...]:
    """Return parts whose views are this content and these calls: where a view was changed, so is its part.

    A text takes the place of the first one, calls of the same number that of the calls before. Reasoning, and the
    states of what did not change, stay.
    """
    changed = tuple(parts)
    if calls_in(changed) != calls:
        changed = _with_calls(changed, calls)
    if isinstance(content, str):
        return changed if text_in(changed) == content else _with_text(changed, content)
    if tuple(part for part in changed if isinstance(part, TextPart | MediaPart)) == content:
        return changed
    return (*(part for part in changed if not isinstance(part, (*_SPOKEN, MediaPart))), *content)


def _with_text(parts: Sequence[MessagePart], text: str) -> tuple[MessagePart, ...]:
    others: list[MessagePart] = []
    place: int | None = None
    for part in parts:
        if isinstance(part, _SPOKEN):
            place = len(others) if place is None else place
        else:
            others.append(part)
    if place is None:
        place = next((i for i, part in enumerate(others) if isinstance(part, ModelToolCall)), len(others))
    if text:
        others.insert(place, TextPart(text))
    return tuple(others)


def _with_calls(parts: Sequence[MessagePart], calls: Sequence[ModelToolCall]) -> tuple[MessagePart, ...]:
    if len(calls_in(parts)) != len(calls):
        return (*(part for part in parts if not isinstance(part, ModelToolCall)), *calls)
    given = iter(calls)
    return tuple(next(given) if isinstance(part, ModelToolCall) else part for part in parts)


def changed_parts(
    parts: Sequence[MessagePart],
    text: Callable[[str], str],
    call: Callable[[ModelToolCall], ModelToolCall],
    *,
    shows: bool = False,
) -> tuple[MessagePart, ...]:
    """Return parts with their texts and calls changed.

    A signature does not fit other words: a part that changes loses its state, and reasoning loses all of it. With
    `shows` the parts are for others than their provider: without states, and without blocks that only it reads.
    """
    changed = [_changed(part, text, call) for part in parts if not (shows and isinstance(part, OpaquePart))]
    before, after = reasoning_in(parts), reasoning_in(changed)
    if text(after) != after:
        # What was to be changed went from one part into the next one.
        changed, after = _with_reasoning(changed, text(before)), text(before)
    return tuple(
        _stateless(part) if shows or (after != before and isinstance(part, ReasoningPart)) else part
        for part in changed
    )


def _changed(
    part: MessagePart, text: Callable[[str], str], call: Callable[[ModelToolCall], ModelToolCall]
) -> MessagePart:
    match part:
        case ModelToolCall():
            changed: MessagePart = call(part)
        case TextPart() | ReasoningPart() | RefusalPart():
            changed = replace(part, text=text(part.text))
        case MediaPart():
            url, name = part.url and _not_blank(text(part.url)), part.name and _not_blank(text(part.name))
            changed = replace(part, url=url, name=name)
        case OpaquePart():
            changed = part
    return part if changed == part else _stateless(changed)


def _not_blank(changed: str) -> str:
    return changed if changed.strip() else "..."


def _with_reasoning(parts: Sequence[MessagePart], text: str) -> list[MessagePart]:
    """Return parts with all of their reasoning in the first part that has some."""
    first = next(place for place, part in enumerate(parts) if isinstance(part, ReasoningPart))
    return [
        ReasoningPart(text) if place == first else part
        for place, part in enumerate(parts)
        if place == first or not isinstance(part, ReasoningPart)
    ]


def _stateless(part: MessagePart) -> MessagePart:
    if isinstance(part, TextPart | ReasoningPart | ModelToolCall) and part.state is not None:
        return replace(part, state=None)
    return part


@value
class ModelMessage:
    """One message. The class methods name the roles: `ModelMessage.user("...")`.

    `ordered` holds the parts where content and calls do not say all of them; `parts` are those of every message. A copy
    with another `content` or other `tool_calls` has them in its parts. The result of a tool has the tool's `name`, and
    `is_error` where it failed.
    """

    role: ModelMessageRole
    content: str | Sequence[ContentPart]
    metadata: JsonObject = field(default_factory=empty_object)
    tool_calls: Sequence[ModelToolCall] = ()
    tool_call_id: str | None = None
    name: str | None = field(default=None, metadata=LEFT_OUT_BY_DEFAULT)
    is_error: bool = field(default=False, metadata=LEFT_OUT_BY_DEFAULT)
    ordered: Sequence[MessagePart] | None = field(default=None, metadata=NEVER_JSON)

    def __post_init__(self) -> None:
        if not isinstance(self.content, str):
            object.__setattr__(self, "content", tuple(self.content))
        if not isinstance(self.tool_calls, tuple):
            object.__setattr__(self, "tool_calls", tuple(self.tool_calls))
        if self.ordered is not None:
            parts = in_agreement(self.ordered, self.content, self.tool_calls)
            object.__setattr__(self, "ordered", parts if needs_order(parts) else None)
        if self.tool_calls and self.role is not ModelMessageRole.ASSISTANT:
            raise AgentDefinitionError(
                f"ModelMessage.tool_calls belong to an assistant's message, not to role {self.role.value!r}."
            )
        if self.tool_call_id is None:
            if self.name is not None or self.is_error:
                raise AgentDefinitionError(
                    "ModelMessage.name and is_error are those of a tool's result. "
                    "Use ModelMessage.tool(call_id, result)."
                )
            return
        if self.role is not ModelMessageRole.TOOL:
            raise AgentDefinitionError(
                "ModelMessage.tool_call_id names the call a tool's message answers, "
                f"it has no meaning with role {self.role.value!r}. Use ModelMessage.tool(call_id, result)."
            )
        if not self.tool_call_id.strip():
            reject_blank(self, tool_call_id=self.tool_call_id)

    @property
    def parts(self) -> tuple[MessagePart, ...]:
        """The parts of the message in their order."""
        return plain_parts(self.content, self.tool_calls) if self.ordered is None else tuple(self.ordered)

    @property
    def reasoning(self) -> str:
        """The reasoning before and between the other parts, as one text."""
        return "" if self.ordered is None else reasoning_in(self.ordered)

    @property
    def text(self) -> str:
        """The text of the message; the texts of several parts are joined by newlines."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content if isinstance(part, TextPart))

    @classmethod
    def of(cls, parts: Sequence[MessagePart], **metadata: str) -> ModelMessage:
        """Return a reply of the model, made of its parts."""
        content: str | tuple[ContentPart, ...] = text_in(parts)
        if any(isinstance(part, MediaPart) for part in parts):
            content = tuple(part for part in parts if isinstance(part, TextPart | MediaPart))
        return cls(ModelMessageRole.ASSISTANT, content, metadata, calls_in(parts), ordered=parts)

    @classmethod
    def system(cls, content: str, **metadata: str) -> ModelMessage:
        """Return an instruction of the application."""
        return cls(ModelMessageRole.SYSTEM, content, metadata)

    @classmethod
    def user(cls, content: str | Sequence[ContentPart], **metadata: str) -> ModelMessage:
        """Return the words of the user."""
        return cls(ModelMessageRole.USER, content, metadata)

    @classmethod
    def assistant(
        cls, content: str = "", tool_calls: Sequence[ModelToolCall] = (), **metadata: str
    ) -> ModelMessage:
        """Return a reply of the model, with the tool calls it asks for."""
        return cls(ModelMessageRole.ASSISTANT, content, metadata, tool_calls)

    @classmethod
    def tool(
        cls, call_id: str, result: object, *, name: str | None = None, is_error: bool = False, **metadata: str
    ) -> ModelMessage:
        """Return the result of a tool call: text and content parts as they are, anything else as canonical JSON."""
        content = content_parts(result) or _as_text("tool", result)
        return cls(ModelMessageRole.TOOL, content, metadata, (), call_id, name=name, is_error=is_error)

    @classmethod
    def evidence(cls, found: object, **metadata: str) -> ModelMessage:
        """Return material that the application shows the model: text as it is, anything else as canonical JSON."""
        return cls(ModelMessageRole.EVIDENCE, _as_text("evidence", found), metadata)


new_message = unchecked(ModelMessage)
"""Makes a message without checks, for callers that have made every part of it themselves."""


def content_parts(result: object) -> tuple[ContentPart, ...]:
    """Return a result that is content parts; nothing for every other one."""
    if isinstance(result, TextPart | MediaPart):
        return (result,)
    given = result if _is_listed(result) else ()
    parts = tuple(part for part in given if isinstance(part, TextPart | MediaPart))
    return parts if len(parts) == len(given) else ()


def _is_listed(result: object) -> TypeGuard[Sequence[object]]:
    return isinstance(result, list | tuple)


def _as_text(role: str, value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return canonical_json(to_json_value(value))
    except TypeError as error:
        raise AgentDefinitionError(f"ModelMessage.{role}(...) cannot show this value: {error}.") from error
