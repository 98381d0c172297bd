"""What an agent asks of a model: messages, context, tools, the shape of the answer, sampling.

Pure values. Context packs are placed by their role and rendered with delimiters and provenance, before the
question, and never as a user's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, field

from pilotage.agent.context import (
    ContextDigest,
    ContextManifest,
    ContextPack,
    ContextPackRole,
    render_context_pack,
)
from pilotage.agent.messages import ModelMessage, ModelMessageRole
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.agent.tool_calling import ToolCallingSpec
from pilotage.checks import reject_empty, reject_negative, reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.safety.guard import ContextExposurePolicy
from pilotage.values import shared, value

_INSTRUCTING = frozenset({ContextPackRole.SYSTEM, ContextPackRole.INSTRUCTION})


@value
class SamplingOptions:
    """How the model draws its tokens; None leaves a setting to the server."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        reject_not_positive(self, top_p=self.top_p, max_tokens=self.max_tokens)
        if self.temperature is not None:
            reject_negative(self, temperature=self.temperature)


@value
class StreamingOptions:
    """What a stream carries beside the reply."""

    include_usage: bool = True
    include_progress: bool = True


@value
class ModelRequest:
    """One request. `tools=` and `output=` are the short names of `tool_calling=` and `structured_output=`."""

    messages: Sequence[ModelMessage]
    context: Sequence[ContextPack] = ()
    context_manifest: ContextManifest | None = None
    context_digest: ContextDigest | None = None
    structured_output: StructuredOutputSpec | None = None
    tool_calling: ToolCallingSpec | None = None
    sampling: SamplingOptions = field(default_factory=shared(SamplingOptions))
    streaming: StreamingOptions = field(default_factory=shared(StreamingOptions))
    metadata: JsonObject = field(default_factory=empty_object)
    tools: InitVar[ToolCallingSpec | None] = None
    output: InitVar[StructuredOutputSpec | None] = None

    def __post_init__(self, tools: ToolCallingSpec | None, output: StructuredOutputSpec | None) -> None:
        object.__setattr__(self, "messages", tuple(self.messages))
        object.__setattr__(self, "context", tuple(self.context))
        reject_empty(self, messages=self.messages)
        self._take("tools", tools, "tool_calling", self.tool_calling)
        self._take("output", output, "structured_output", self.structured_output)

    def _take(self, short: str, given: object, name: str, present: object) -> None:
        if given is None:
            return
        if present is not None:
            raise AgentDefinitionError(
                f"ModelRequest got both {short}= and {name}=. They mean the same: give one."
            )
        object.__setattr__(self, name, given)

    def assemble_messages(self, policy: ContextExposurePolicy | None = None) -> tuple[ModelMessage, ...]:
        """The messages as the model gets them, with each context pack in its place.

        Packs that instruct follow the leading system messages; all others stand as evidence before the
        last user message, or at the end where there is none.
        """
        if not self.context:
            return tuple(self.messages)
        policy = policy or ContextExposurePolicy()
        instructing = [_as_message(p, ModelMessageRole.SYSTEM, policy) for p in self.context if _instructs(p)]
        showing = [
            _as_message(p, ModelMessageRole.EVIDENCE, policy) for p in self.context if not _instructs(p)
        ]
        lead, question = _after_leading_system(self.messages), _last_user(self.messages)
        messages = self.messages
        return (*messages[:lead], *instructing, *messages[lead:question], *showing, *messages[question:])


def _instructs(pack: ContextPack) -> bool:
    return pack.role in _INSTRUCTING


def _as_message(pack: ContextPack, role: ModelMessageRole, policy: ContextExposurePolicy) -> ModelMessage:
    return ModelMessage(role, render_context_pack(pack, policy), pack.message_metadata(policy))


def _after_leading_system(messages: Sequence[ModelMessage]) -> int:
    others = (i for i, message in enumerate(messages) if message.role is not ModelMessageRole.SYSTEM)
    return next(others, len(messages))


def _last_user(messages: Sequence[ModelMessage]) -> int:
    users = (i for i, m in reversed(list(enumerate(messages))) if m.role is ModelMessageRole.USER)
    return next(users, len(messages))
