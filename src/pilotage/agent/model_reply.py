"""The reply of a model: a whole response, or a stream of events that adds up to one.

Pure values, with the conveniences a hand-written `execute()` reads them by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_request import ToolCallingSpec
from pilotage.errors import AgentToolDispatchError
from pilotage.filling import changing
from pilotage.jsonvalue import JsonObject, JsonValue, empty_object
from pilotage.safety.fields import REDACTED_VALUE, SensitiveFieldDescriptor
from pilotage.safety.guard import ContextExposurePolicy, guard_json_value
from pilotage.values import shared, value

RESTARTED = "restarted"
"""Metadata key of a restart: how often the reply has begun anew in this attempt at the run."""


class ModelFinishReason(StrEnum):
    """Why the model stopped."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"


class ModelStreamEventKind(StrEnum):
    """The kinds of event in a model's stream."""

    TOKEN_DELTA = "token_delta"  # noqa: S105 - a piece of text, not a credential
    MESSAGE_DELTA = "message_delta"
    REASONING_DELTA = "reasoning_delta"
    TOOL_CALL_START = "tool_call_start"
    TOOL_CALL_ARGS_DELTA = "tool_call_args_delta"
    TOOL_CALL_END = "tool_call_end"
    TOOL_CALL_CANDIDATE = "tool_call_candidate"
    STRUCTURED_OUTPUT = "structured_output"
    PROGRESS = "progress"
    APPROVAL_REQUIRED = "approval_required"
    ERROR = "error"
    DONE = "done"


@value
class ModelUsage:
    """Tokens as the server counted them; None where it did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None


no_usage = shared(ModelUsage)
"""The usage of a reply whose model counts nothing: one for all of them."""


@value
class ModelError:
    """An error that a model or its server reports."""

    code: str
    message: str
    retryable: bool = False
    metadata: JsonObject = field(default_factory=empty_object)


@value
class ModelResponse:
    """A whole reply. `output` is the structured output as a value of the type that was asked for."""

    content: str
    structured_output: JsonValue = None
    tool_calls: Sequence[ModelToolCall] = ()
    usage: ModelUsage = field(default_factory=no_usage)
    metadata: JsonObject = field(default_factory=empty_object)
    finish_reason: ModelFinishReason | None = None
    output: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.tool_calls, tuple):
            object.__setattr__(self, "tool_calls", tuple(self.tool_calls))

    @property
    def message(self) -> ModelMessage:
        """The reply as an entry of the transcript."""
        return ModelMessage.assistant(self.content, self.tool_calls)

    @property
    def answer(self) -> Any:
        """The structured output, as a value of the type asked for where it was decoded; without one, the text.

        None where tools are called, or where the text was cut off or refuses.
        """
        if self.output is not None:
            return self.output
        if self.structured_output is not None:
            return self.structured_output
        is_answer = not self.tool_calls and self.finish_reason in (None, ModelFinishReason.STOP)
        return self.content if is_answer else None

    @property
    def answered_by(self) -> str | None:
        """The name of the model that answered, where the one that was asked stands for several."""
        name = self.metadata.get("answered_by")
        return name if isinstance(name, str) else None

    def guarded(
        self,
        sensitive_fields: Sequence[SensitiveFieldDescriptor],
        policy: ContextExposurePolicy | None = None,
    ) -> ModelResponse:
        """This reply with its sensitive parts masked; the decoded `output` is dropped where any may be in it.

        Descriptors with the path `()` or `("content",)` mean the text, all others the structured output. The
        tool calls stay: their arguments are guarded by the descriptors of their tools.
        """
        policy = policy or ContextExposurePolicy()
        of_text, of_output = _split(sensitive_fields, "content")
        return replace(
            self,
            content=_guarded_text(self.content, of_text, policy),
            structured_output=_guarded_output(self.structured_output, of_output, policy),
            output=None if sensitive_fields else self.output,
        )


@value
class ModelStreamEvent:
    """One event of a stream. The last one is DONE; inside a run it carries the whole `response`."""

    kind: ModelStreamEventKind
    token_delta: str | None = None
    tool_call: ModelToolCall | None = None
    structured_output: JsonValue = None
    error: ModelError | None = None
    usage: ModelUsage | None = None
    metadata: JsonObject = field(default_factory=empty_object)
    message_delta: str | None = None
    reasoning_delta: str | None = None
    tool_call_args_delta: str | None = None
    response: ModelResponse | None = None
    request: AgentApprovalRequest | None = None
    tools: ToolCallingSpec | None = field(default=None, repr=False, compare=False)

    @property
    def is_text_delta(self) -> bool:
        """A piece of the reply's text."""
        return self.kind in (ModelStreamEventKind.TOKEN_DELTA, ModelStreamEventKind.MESSAGE_DELTA)

    @property
    def is_restart(self) -> bool:
        """The reply begins anew: the reply so far is void. Only where `StreamingOptions.restarts` asks for it."""
        return self.kind is ModelStreamEventKind.MESSAGE_DELTA and RESTARTED in self.metadata

    @property
    def is_tool_call(self) -> bool:
        """A complete tool call, ready for `invoke_tool()`."""
        return self.kind is ModelStreamEventKind.TOOL_CALL_CANDIDATE

    @property
    def is_approval_required(self) -> bool:
        """A person must decide first; `request` is the question."""
        return self.kind is ModelStreamEventKind.APPROVAL_REQUIRED

    @property
    def is_done(self) -> bool:
        """The end of any reply; `text`, `output` and `message` are those of the whole reply."""
        return self.kind is ModelStreamEventKind.DONE

    @property
    def is_final(self) -> bool:
        """The end of a reply without tool calls: the model's answer."""
        return self.is_done and not (self.response and self.response.tool_calls)

    @property
    def text(self) -> str:
        """The delta of a text event, the whole text at the end of a reply, else empty."""
        if self.is_done:
            return self.response.content if self.response else ""
        return self.token_delta or self.message_delta or ""

    @property
    def name(self) -> str | None:
        """The tool's name, where the event is about a tool call."""
        return self.tool_call.name if self.tool_call else None

    @property
    def call_id(self) -> str | None:
        """The tool call's id, where the event is about one."""
        return self.tool_call.call_id if self.tool_call else None

    @property
    def output(self) -> Any:
        """The answer: a value of the type asked for where it was decoded, else JSON, else the text of a whole reply.

        A reply that calls tools, was cut off or refused has no answer in its text.
        """
        if self.response is None:
            return self.structured_output
        return self.response.answer

    @property
    def message(self) -> ModelMessage:
        """The whole reply as an entry of the transcript; for the end of a reply."""
        return (self.response or ModelResponse("")).message

    def with_tools(self, tools: ToolCallingSpec) -> ModelStreamEvent:
        """This event with the tools of its request, so that `invoke_tool` finds the one that is asked for."""
        return _with_tools(self, tools)

    async def invoke_tool(self) -> object:
        """Call the tool the model asks for and return its result.

        Raises:
            AgentToolDispatchError: the event is no tool call, or came without the request's tools.
        """
        if self.tool_call is None or self.tools is None:
            raise AgentToolDispatchError(
                f"a {self.kind.value!r} event has no tool to invoke here. invoke_tool() works on tool call events "
                "of a model that attaches the request's tools (inside a run all do); elsewhere use "
                "`await tools.invoke(call)` of the ToolCallingSpec."
            )
        return await self.tools.invoke(self.tool_call)

    def guarded(
        self,
        sensitive_fields: Sequence[SensitiveFieldDescriptor],
        policy: ContextExposurePolicy | None = None,
    ) -> ModelStreamEvent:
        """This event with its sensitive parts masked; absent parts stay absent."""
        policy = policy or ContextExposurePolicy()
        of_text, of_output = _split(sensitive_fields, "token_delta", "content")
        return replace(
            self,
            token_delta=_guarded_delta(self.token_delta, of_text, policy),
            message_delta=_guarded_delta(self.message_delta, of_text, policy),
            tool_call=self.tool_call.guarded(sensitive_fields, policy) if self.tool_call else None,
            structured_output=_guarded_output(self.structured_output, of_output, policy),
            response=self.response.guarded(sensitive_fields, policy) if self.response else None,
        )


_with_tools = changing(ModelStreamEvent, "tools")


def _split(
    descriptors: Sequence[SensitiveFieldDescriptor], *text_names: str
) -> tuple[list[SensitiveFieldDescriptor], list[SensitiveFieldDescriptor]]:
    """Return the descriptors of the text, at its root, and those of the structured output."""
    paths = {(), *((name,) for name in text_names)}
    of_text = [replace(d, path=()) for d in descriptors if d.path in paths]
    return of_text, [d for d in descriptors if d.path not in paths]


def _guarded_text(
    text: str, descriptors: Sequence[SensitiveFieldDescriptor], policy: ContextExposurePolicy
) -> str:
    guarded = guard_json_value(text, descriptors, policy)
    return guarded if isinstance(guarded, str) else REDACTED_VALUE


def _guarded_delta(
    text: str | None, descriptors: Sequence[SensitiveFieldDescriptor], policy: ContextExposurePolicy
) -> str | None:
    return None if text is None else _guarded_text(text, descriptors, policy)


def _guarded_output(
    value: JsonValue, descriptors: Sequence[SensitiveFieldDescriptor], policy: ContextExposurePolicy
) -> JsonValue:
    return None if value is None else guard_json_value(value, descriptors, policy)
