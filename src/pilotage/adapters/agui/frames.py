"""Frames of a stream: those begun and not ended, the messages that they make, and the end of the run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ag_ui import core as agui

from pilotage.agent import events as neutral
from pilotage.agent.events import AgentEventAttribution, RunFinishedEvent
from pilotage.jsonvalue import JsonObject, canonical_json

_COUNTED = ("input_tokens", "output_tokens", "total_tokens")


_MARK = 8
_CALLS = (
    neutral.ToolCallStartEvent,
    neutral.ToolCallArgsDeltaEvent,
    neutral.ToolCallEndEvent,
    neutral.ToolCallResultEvent,
)


def marked_call(run_id: str, call_id: str) -> str:
    """Return the id of a call on the wire, which no other run of the thread uses."""
    return f"{call_id}~{run_id[:_MARK]}"


def marked(event: neutral.AgentEvent) -> neutral.AgentEvent:
    """Return an event with the id of its call as it is on the wire."""
    run_id = event.attribution.run_id
    if isinstance(event, _CALLS):
        return replace(event, call_id=marked_call(run_id, event.call_id))
    if isinstance(event, neutral.RunPausedEvent) and event.tool_call_id is not None:
        asking = event.metadata.get("agent_state_id")
        asked_by = asking if isinstance(asking, str) else run_id
        return replace(event, tool_call_id=marked_call(asked_by, event.tool_call_id))
    return event


class OpenFrames:
    """The open text, reasoning, tool calls and steps of one run; `by` is its id where it is a sub-agent's.

    Parallel parts of a run have frames of their own, and their steps are named by their place. The end or continuation
    of a frame that was begun in an earlier stream of the run is left out: a client refuses it.
    """

    def __init__(self, by: str | None = None, place: str | None = None) -> None:
        self._by = by
        self._place = place
        self._parts: dict[str, OpenFrames] = {}
        self._text: str | None = None
        self._reasoning: str | None = None
        self._calls: dict[str, None] = {}
        self._steps: dict[str, None] = {}

    def at(self, branch: str | None) -> OpenFrames:
        """Return the frames of a branch of the run; these frames themselves for the run."""
        if branch is None or branch == self._place:
            return self
        if branch not in self._parts:
            self._parts[branch] = _Part(self._by, branch)
        return self._parts[branch]

    def text(self, message_id: str, delta: str) -> list[agui.BaseEvent]:
        """Return a piece of a text; another one than the open one begins anew."""
        frames: list[agui.BaseEvent] = []
        if message_id != self._text:
            frames = self.close()
            self._text = message_id
            start = agui.TextMessageStartEvent(
                message_id=message_id, role="assistant", subagent_run_id=self._by
            )
            frames.append(start)
        if delta:
            frames.append(
                agui.TextMessageContentEvent(message_id=message_id, delta=delta, subagent_run_id=self._by)
            )
        return frames

    def reasoning(self, message_id: str, delta: str) -> list[agui.BaseEvent]:
        """Return a piece of reasoning; another one than the open one begins anew."""
        frames: list[agui.BaseEvent] = []
        if message_id != self._reasoning:
            frames = self.close()
            self._reasoning = message_id
            frames.append(agui.ReasoningStartEvent(message_id=message_id, subagent_run_id=self._by))
            frames.append(agui.ReasoningMessageStartEvent(message_id=message_id, subagent_run_id=self._by))
        if delta:
            piece = agui.ReasoningMessageContentEvent(
                message_id=message_id, delta=delta, subagent_run_id=self._by
            )
            frames.append(piece)
        return frames

    def call(self, call_id: str, name: str, parent_message_id: str | None) -> list[agui.BaseEvent]:
        """Begin a tool call; the open text stays open and is its parent if none is named."""
        frames = self.end_call(call_id)
        self._calls[call_id] = None
        start = agui.ToolCallStartEvent(
            tool_call_id=call_id,
            tool_call_name=name,
            parent_message_id=parent_message_id or self._text,
            subagent_run_id=self._by,
        )
        return [*frames, start]

    def arguments(self, call_id: str, delta: str) -> list[agui.BaseEvent]:
        """Return a piece of the arguments of an open call."""
        if not delta or call_id not in self._calls:
            return []
        return [agui.ToolCallArgsEvent(tool_call_id=call_id, delta=delta, subagent_run_id=self._by)]

    def end_call(self, call_id: str) -> list[agui.BaseEvent]:
        """End a tool call."""
        if call_id not in self._calls:
            return []
        del self._calls[call_id]
        return [agui.ToolCallEndEvent(tool_call_id=call_id, subagent_run_id=self._by)]

    def begin_step(self, name: str) -> list[agui.BaseEvent]:
        """Begin a step, unless one of the same name is open."""
        if name in self._steps:
            return []
        self._steps[name] = None
        return [agui.StepStartedEvent(step_name=name, subagent_run_id=self._by)]

    def end_step(self, name: str) -> list[agui.BaseEvent]:
        """End a step, with all frames in it."""
        frames = self.close()
        if name in self._steps:
            del self._steps[name]
            frames.append(agui.StepFinishedEvent(step_name=name, subagent_run_id=self._by))
        return frames

    def close(self) -> list[agui.BaseEvent]:
        """End the text, then the reasoning, then the calls in the order they began."""
        frames: list[agui.BaseEvent] = []
        if self._text is not None:
            frames.append(agui.TextMessageEndEvent(message_id=self._text, subagent_run_id=self._by))
        if self._reasoning is not None:
            frames.append(agui.ReasoningMessageEndEvent(message_id=self._reasoning, subagent_run_id=self._by))
            frames.append(agui.ReasoningEndEvent(message_id=self._reasoning, subagent_run_id=self._by))
        frames += [agui.ToolCallEndEvent(tool_call_id=call, subagent_run_id=self._by) for call in self._calls]
        self._text, self._reasoning, self._calls = None, None, {}
        return frames

    def close_all(self) -> list[agui.BaseEvent]:
        """End everything, steps included; the frames of parts first."""
        frames = [frame for part in self._parts.values() for frame in part.close_all()]
        frames += self.close()
        frames += [agui.StepFinishedEvent(step_name=name, subagent_run_id=self._by) for name in self._steps]
        self._steps = {}
        return frames


class _Part(OpenFrames):
    """The frames of a part of a run: two of them may have steps of one name."""

    def begin_step(self, name: str) -> list[agui.BaseEvent]:
        return super().begin_step(f"{self._place}/{name}")

    def end_step(self, name: str) -> list[agui.BaseEvent]:
        return super().end_step(f"{self._place}/{name}")


class SubAgents:
    """The sub-agents that were announced to a client and have not ended, with their open frames."""

    def __init__(self) -> None:
        self._open: dict[str, OpenFrames] = {}

    def frames_of(self, run_id: str) -> OpenFrames:
        """Return the open frames of an announced sub-agent."""
        return self._open[run_id]

    def announce(self, by: AgentEventAttribution, top: str) -> list[agui.BaseEvent]:
        """Announce a sub-agent, unless it is announced; `top` is the run of the stream."""
        if by.run_id in self._open:
            return []
        self._open[by.run_id] = OpenFrames(by.run_id, by.branch)
        above = by.parent_run_id if by.parent_run_id != top else None
        return [
            agui.SubagentStartedEvent(
                subagent_run_id=by.run_id, name=by.agent_id, parent_subagent_run_id=above
            )
        ]

    def suspend(self, run_id: str) -> list[agui.BaseEvent]:
        """End a sub-agent for this stream: it waits, or its end is not known."""
        frames = self._open.pop(run_id, None)
        if frames is None:
            return []
        suspended = agui.SubagentFinishedSuspendedOutcome()
        return [*frames.close_all(), agui.SubagentFinishedEvent(subagent_run_id=run_id, outcome=suspended)]

    def end(self, event: RunFinishedEvent) -> list[agui.BaseEvent]:
        """End an announced sub-agent, with its answer or an error."""
        by = event.attribution.run_id
        frames = self._open.pop(by).close_all()
        if event.error is None:
            return [
                *frames,
                agui.SubagentFinishedEvent(subagent_run_id=by, result=event.metadata.get("output")),
            ]
        message, code = message_of(event.error), code_of(event.error)
        return [*frames, agui.SubagentErrorEvent(subagent_run_id=by, message=message, code=code)]

    def close_all(self) -> list[agui.BaseEvent]:
        """End all open sub-agents, the last one first."""
        return [frame for run_id in reversed([*self._open]) for frame in self.suspend(run_id)]


class TranscriptOfFrames:
    """Folds frames into messages. A call without a message of its own gets one under its own id."""

    def __init__(self, before: Sequence[agui.Message] = ()) -> None:
        self._messages: dict[str, agui.Message] = {
            message.id: message.model_copy(deep=isinstance(message, agui.AssistantMessage))
            for message in before
        }
        self._calls: dict[str, agui.ToolCall] = {}

    @property
    def messages(self) -> list[agui.Message]:
        """All messages in the order they began."""
        return list(self._messages.values())

    def take(self, frames: Iterable[agui.BaseEvent]) -> None:
        """Take in frames of the stream."""
        for frame in frames:
            if getattr(frame, "subagent_run_id", None) is None:
                self._take(frame)

    def _take(self, frame: agui.BaseEvent) -> None:
        match frame:
            case agui.TextMessageStartEvent():
                self._assistant(frame.message_id)
            case agui.TextMessageContentEvent():
                message = self._assistant(frame.message_id)
                message.content = (message.content or "") + frame.delta
            case agui.ToolCallStartEvent():
                self._begin_call(frame)
            case agui.ToolCallArgsEvent():
                if (call := self._calls.get(frame.tool_call_id)) is not None:
                    call.function.arguments += frame.delta
            case agui.ToolCallResultEvent():
                self._messages[frame.message_id] = agui.ToolMessage(
                    id=frame.message_id, tool_call_id=frame.tool_call_id, content=frame.content
                )
            case _:
                pass

    def _begin_call(self, frame: agui.ToolCallStartEvent) -> None:
        message = self._assistant(frame.parent_message_id or frame.tool_call_id)
        function = agui.FunctionCall(name=frame.tool_call_name, arguments="")
        call = self._calls[frame.tool_call_id] = agui.ToolCall(id=frame.tool_call_id, function=function)
        message.tool_calls = [*(message.tool_calls or ()), call]

    def _assistant(self, message_id: str) -> agui.AssistantMessage:
        found = self._messages.get(message_id)
        if isinstance(found, agui.AssistantMessage):
            return found
        made = self._messages[message_id] = agui.AssistantMessage(id=message_id)
        return made


def messages_at_the_end(messages: Sequence[agui.Message]) -> list[agui.ToolMessage]:
    """Return the tool messages at the end of the messages of a client; earlier ones are history."""
    found: list[agui.ToolMessage] = []
    for message in reversed(messages):
        if not isinstance(message, agui.ToolMessage):
            break
        found.append(message)
    return found[::-1]


def emptied(messages: Sequence[agui.Message], run_id: str) -> list[agui.Message]:
    """Return the messages of a client, without the texts, calls and results that the stream of a run has brought."""
    left: list[agui.Message] = []
    for message in messages:
        is_of_run = message.id.startswith(f"{run_id}:")
        match message:
            case agui.ToolMessage() if is_of_run or message.tool_call_id.endswith(marked_call(run_id, "")):
                continue
            case agui.AssistantMessage() if is_of_run:
                left.append(message.model_copy(update={"content": "", "tool_calls": None}))
            case agui.ReasoningMessage() if is_of_run:
                left.append(message.model_copy(update={"content": ""}))
            case _:
                left.append(message)
    return left


def without_calls(messages: Sequence[agui.Message], calls: Collection[str]) -> list[agui.Message]:
    """Return the messages of a client without some of their tool calls."""
    left: list[agui.Message] = []
    for message in messages:
        if isinstance(message, agui.AssistantMessage) and message.tool_calls:
            remaining = [each for each in message.tool_calls if each.id not in calls]
            if len(remaining) < len(message.tool_calls):
                left.append(message.model_copy(update={"tool_calls": remaining or None}))
                continue
        left.append(message)
    return left


def calls_in(messages: Sequence[agui.Message]) -> list[agui.ToolCall]:
    """Return the tool calls in the messages of a client."""
    return [
        call
        for message in messages
        if isinstance(message, agui.AssistantMessage)
        for call in message.tool_calls or ()
    ]


def message_of(error: JsonObject) -> str:
    """Return the message of an error, else its reason, else all of it."""
    for name in ("message", "reason"):
        if isinstance(text := error.get(name), str):
            return text
    return canonical_json(error)


def code_of(error: JsonObject) -> str | None:
    """Return the code of an error."""
    code = error.get("code")
    return code if isinstance(code, str) else None


class TokensUsed:
    """The sum of the tokens that steps report; None where no step reports any."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()

    def add(self, metadata: JsonObject) -> None:
        """Add the tokens that a finished step reports."""
        usage = metadata.get("usage")
        counts: JsonObject = usage if isinstance(usage, Mapping) else {}
        for name in _COUNTED:
            tokens = counts.get(name)
            if isinstance(tokens, int) and tokens >= 0:
                self._sums[name] += tokens

    def totals(self) -> list[agui.TokenUsage] | None:
        """Return the sums as token usage of the protocol."""
        return [agui.TokenUsage.model_validate(self._sums)] if self._sums else None
