"""The reply of a model: a whole response, or a stream of events that adds up to one.

Pure values, with the conveniences a hand-written `execute()` reads them by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.messages import (
    MessagePart,
    ModelMessage,
    ModelMessageRole,
    ModelToolCall,
    calls_in,
    changed_parts,
    in_agreement,
    needs_order,
    plain_parts,
    reasoning_in,
    text_in,
)
from pilotage.agent.model_request import ToolCallingSpec
from pilotage.errors import AgentToolDispatchError
from pilotage.filling import changing
from pilotage.jsonvalue import JsonObject, JsonValue, empty_object
from pilotage.safety.fields import REDACTED_VALUE, SensitiveFieldDescriptor
from pilotage.safety.guard import ContextExposurePolicy, guard_json_value
from pilotage.values import NEVER_JSON, shared, value

RESTARTED = "restarted"
"""Metadata key of a restart: how often the reply has begun anew in this attempt at the run."""


FINISH_WORD = "finish_word"
"""Metadata key of a reply that finished for another reason: the server's word for it."""
CHOICE_MISSED = "missed_choice"
"""Metadata key of a reply that did not call the tool that its request forced."""


class ModelFinishReason(StrEnum):
    """Why the model stopped.

    PAUSED: the server stopped in the middle of a turn; the model goes on when it gets its own reply back.
    MALFORMED_CALL: the model wrote a tool call that its server could not read. CONTEXT_EXCEEDED: the reply filled the
    context. OTHER: a complete reply with a word of the server that has no name here; it is in the metadata.
    """

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    PAUSED = "paused"
    MALFORMED_CALL = "malformed_call"
    CONTEXT_EXCEEDED = "context_exceeded"
    OTHER = "other"

    @property
    def is_answer(self) -> bool:
        """Whether a text that ends so may be the answer."""
        return self is _STOP or self is _OTHER

    @property
    def is_cut(self) -> bool:
        """Whether the reply was cut off: by the length limit, or by the end of the context."""
        return self is _LENGTH or self is _FULL


_STOP, _OTHER = ModelFinishReason.STOP, ModelFinishReason.OTHER
_LENGTH, _FULL = ModelFinishReason.LENGTH, ModelFinishReason.CONTEXT_EXCEEDED


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
    """Tokens as the server counted them; None where it did not say.

    `input_tokens` has the cached ones and those written to a cache in it, `output_tokens` those of the reasoning.
    `other_tokens` are counts by the server's names for them.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    cache_written_tokens: int | None = None
    reasoning_tokens: int | None = None
    other_tokens: Mapping[str, int] | None = None

    @property
    def has_details(self) -> bool:
        """Whether the server counted more than input, output and total."""
        return (
            self.cached_tokens is not None
            or self.cache_written_tokens is not None
            or self.reasoning_tokens is not None
            or self.other_tokens is not None
        )

    def plus(self, more: ModelUsage) -> ModelUsage:
        """Return the sum of two usages; a count that neither has stays None."""
        # Without a function for one sum: every turn of every run adds its usage.
        read, written, total = more.input_tokens, more.output_tokens, more.total_tokens
        read = self.input_tokens if read is None else read + (self.input_tokens or 0)
        written = self.output_tokens if written is None else written + (self.output_tokens or 0)
        total = self.total_tokens if total is None else total + (self.total_tokens or 0)
        if not (self.has_details or more.has_details):
            return ModelUsage(read, written, total)
        mine, others = self.other_tokens, more.other_tokens
        if mine is not None and others is not None:
            others = {name: mine.get(name, 0) + others.get(name, 0) for name in {**mine, **others}}
        return ModelUsage(
            read,
            written,
            total,
            cached_tokens=_sum(self.cached_tokens, more.cached_tokens),
            cache_written_tokens=_sum(self.cache_written_tokens, more.cache_written_tokens),
            reasoning_tokens=_sum(self.reasoning_tokens, more.reasoning_tokens),
            other_tokens=mine if others is None else others,
        )


def _sum(so_far: int | None, more: int | None) -> int | None:
    return so_far if more is None else more + (so_far or 0)


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
    """A whole reply. `output` is the structured output as a value of the type that was asked for.

    `ordered` holds its parts where text and calls do not say all of them; `parts` are those of every reply.
    """

    content: str
    structured_output: JsonValue = None
    tool_calls: Sequence[ModelToolCall] = ()
    usage: ModelUsage = field(default_factory=no_usage)
    metadata: JsonObject = field(default_factory=empty_object)
    finish_reason: ModelFinishReason | None = None
    output: Any = None
    ordered: Sequence[MessagePart] | None = field(default=None, metadata=NEVER_JSON)

    def __post_init__(self) -> None:
        if not isinstance(self.tool_calls, tuple):
            object.__setattr__(self, "tool_calls", tuple(self.tool_calls))
        if self.ordered is not None:
            parts = in_agreement(self.ordered, self.content, self.tool_calls)
            object.__setattr__(self, "ordered", parts if needs_order(parts) else None)

    @classmethod
    def of(
        cls,
        parts: Sequence[MessagePart],
        *,
        structured_output: JsonValue = None,
        usage: ModelUsage | None = None,
        metadata: JsonObject | None = None,
        finish_reason: ModelFinishReason | None = None,
        output: Any = None,
    ) -> ModelResponse:
        """Return the reply that these parts are."""
        return cls(
            text_in(parts),
            structured_output,
            calls_in(parts),
            usage or no_usage(),
            metadata or {},
            finish_reason=finish_reason,
            output=output,
            ordered=parts,
        )

    @property
    def parts(self) -> tuple[MessagePart, ...]:
        """The parts of the reply in their order."""
        return plain_parts(self.content, self.tool_calls) if self.ordered is None else tuple(self.ordered)

    @property
    def reasoning(self) -> str:
        """The reasoning of the reply, as one text; empty where its model did not put it into the reply."""
        return "" if self.ordered is None else reasoning_in(self.ordered)

    @property
    def message(self) -> ModelMessage:
        """The reply as an entry of the transcript."""
        return self.message_of(self.content, self.tool_calls)

    def message_of(self, content: str, calls: Sequence[ModelToolCall]) -> ModelMessage:
        """Return the entry of the transcript with another text, or fewer calls, than the reply has."""
        if self.ordered is None:
            return ModelMessage.assistant(content, calls)
        return ModelMessage(ModelMessageRole.ASSISTANT, content, {}, calls, ordered=self.ordered)

    @property
    def finish_word(self) -> str | None:
        """The server's word for the end of the reply, where there is no reason of its name."""
        word = self.metadata.get(FINISH_WORD)
        return word if isinstance(word, str) else None

    @property
    def follows_choice(self) -> bool:
        """Whether the reply calls the tool that its request forced, if it forced one."""
        return CHOICE_MISSED not in self.metadata

    @property
    def answer(self) -> Any:
        """The structured output, as a value of the type asked for where it was decoded; without one, the text.

        None where tools are called, or where the text was cut off or refuses.
        """
        if self.output is not None:
            return self.output
        if self.structured_output is not None:
            return self.structured_output
        is_answer = not self.tool_calls and (self.finish_reason is None or self.finish_reason.is_answer)
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
        """Return this reply with its sensitive parts masked; the decoded `output` is dropped where any may be in it.

        Descriptors with the path `()` or `("content",)` mean the text, all others the structured output. The
        tool calls stay: their arguments are guarded by the descriptors of their tools. Reasoning is guarded like text.
        """
        policy = policy or ContextExposurePolicy()
        of_text, of_output = _split(sensitive_fields, "content")

        def guarded(text: str) -> str:
            return _guarded_text(text, of_text, policy)

        ordered = self.ordered
        if ordered is not None and of_text:
            ordered = changed_parts(ordered, guarded, lambda call: call)
        return replace(
            self,
            content=_guarded_text(self.content, of_text, policy),
            structured_output=_guarded_output(self.structured_output, of_output, policy),
            output=None if sensitive_fields else self.output,
            ordered=ordered,
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
        """Return this event with the tools of its request, so that `invoke_tool` finds the one that is asked for."""
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
        """Return this event with its sensitive parts masked; absent parts stay absent."""
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
