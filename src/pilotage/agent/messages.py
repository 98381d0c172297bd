"""The messages of a transcript: who says what, in how many parts, with which tool calls.

Pure values. A message holds text or several parts; an assistant's message also the tool calls it asks for, a
tool's message the id of the call it answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import TypeAlias

from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, canonical_json, empty_object, to_json_value
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.safety.guard import ContextExposurePolicy, guard_json_value
from pilotage.values import value


class ModelMessageRole(StrEnum):
    """Who speaks. EVIDENCE is material that the application shows the model."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    EVIDENCE = "evidence"


@value
class TextPart:
    """A piece of text in a message of several parts."""

    text: str


@value
class MediaPart:
    """An image, a sound or a file in a message: by address, or by its bytes in base64."""

    media_type: str
    url: str | None = None
    data: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        reject_blank(self, media_type=self.media_type, url=self.url, data=self.data, name=self.name)
        if (self.url is None) == (self.data is None):
            raise AgentDefinitionError("MediaPart needs either a url or data (base64), and not both.")


ContentPart: TypeAlias = TextPart | MediaPart


@value
class ModelToolCall:
    """A tool call a model asks for."""

    name: str
    arguments: JsonObject
    call_id: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def guarded(
        self,
        sensitive_fields: Sequence[SensitiveFieldDescriptor],
        policy: ContextExposurePolicy | None = None,
    ) -> ModelToolCall:
        """This call with its sensitive arguments masked."""
        arguments = guard_json_value(self.arguments, sensitive_fields, policy or ContextExposurePolicy())
        return replace(self, arguments=arguments if isinstance(arguments, dict) else {})


@value
class ModelMessage:
    """One message. The class methods name the roles: `ModelMessage.user("...")`."""

    role: ModelMessageRole
    content: str | Sequence[ContentPart]
    metadata: JsonObject = field(default_factory=empty_object)
    tool_calls: Sequence[ModelToolCall] = ()
    tool_call_id: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.content, str):
            object.__setattr__(self, "content", tuple(self.content))
        if not isinstance(self.tool_calls, tuple):
            object.__setattr__(self, "tool_calls", tuple(self.tool_calls))
        if self.tool_calls and self.role is not ModelMessageRole.ASSISTANT:
            raise AgentDefinitionError(
                f"ModelMessage.tool_calls belong to an assistant's message, not to role {self.role.value!r}."
            )
        if self.tool_call_id is None:
            return
        if self.role is not ModelMessageRole.TOOL:
            raise AgentDefinitionError(
                "ModelMessage.tool_call_id names the call a tool's message answers, "
                f"it has no meaning with role {self.role.value!r}. Use ModelMessage.tool(call_id, result)."
            )
        if not self.tool_call_id.strip():
            reject_blank(self, tool_call_id=self.tool_call_id)

    @property
    def text(self) -> str:
        """The text of the message; the texts of several parts are joined by newlines."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content if isinstance(part, TextPart))

    @classmethod
    def system(cls, content: str, **metadata: str) -> ModelMessage:
        """An instruction of the application."""
        return cls(ModelMessageRole.SYSTEM, content, metadata)

    @classmethod
    def user(cls, content: str | Sequence[ContentPart], **metadata: str) -> ModelMessage:
        """The words of the user."""
        return cls(ModelMessageRole.USER, content, metadata)

    @classmethod
    def assistant(
        cls, content: str = "", tool_calls: Sequence[ModelToolCall] = (), **metadata: str
    ) -> ModelMessage:
        """A reply of the model, with the tool calls it asks for."""
        return cls(ModelMessageRole.ASSISTANT, content, metadata, tool_calls)

    @classmethod
    def tool(cls, call_id: str, result: object, **metadata: str) -> ModelMessage:
        """The result of a tool call: text as it is, anything else as canonical JSON."""
        return cls(ModelMessageRole.TOOL, _as_text("tool", result), metadata, (), call_id)

    @classmethod
    def evidence(cls, found: object, **metadata: str) -> ModelMessage:
        """Something the application shows the model: text as it is, anything else as canonical JSON."""
        return cls(ModelMessageRole.EVIDENCE, _as_text("evidence", found), metadata)


new_message = unchecked(ModelMessage)
"""For those who have made every part of a message themselves."""


def _as_text(role: str, value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return canonical_json(to_json_value(value))
    except TypeError as error:
        raise AgentDefinitionError(f"ModelMessage.{role}(...) cannot show this value: {error}.") from error
