"""What one run has begun to say and not ended: AG-UI wants everything closed before something else begins. Pure."""

from __future__ import annotations

from ag_ui.core import (
    BaseEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)


class OpenFrames:
    """The open text, reasoning, tool calls and steps of one run; `by` is its id where it is a sub-agent's.

    Parts of a run that work side by side speak at the same time: each has frames of its own, and its steps are named by
    the place where it stands. What ends or goes on here and was begun in an earlier stream of the run is left out: a
    client refuses it.
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
        """What a part of the run has open: these frames themselves for what the run itself says."""
        if branch is None or branch == self._place:
            return self
        if branch not in self._parts:
            self._parts[branch] = _Part(self._by, branch)
        return self._parts[branch]

    def text(self, message_id: str, delta: str) -> list[BaseEvent]:
        """A piece of a text; another one than the open one begins anew."""
        told: list[BaseEvent] = []
        if message_id != self._text:
            told = self.close()
            self._text = message_id
            start = TextMessageStartEvent(message_id=message_id, role="assistant", subagent_run_id=self._by)
            told.append(start)
        if delta:
            told.append(TextMessageContentEvent(message_id=message_id, delta=delta, subagent_run_id=self._by))
        return told

    def reasoning(self, message_id: str, delta: str) -> list[BaseEvent]:
        """A piece of reasoning; another one than the open one begins anew."""
        told: list[BaseEvent] = []
        if message_id != self._reasoning:
            told = self.close()
            self._reasoning = message_id
            told.append(ReasoningStartEvent(message_id=message_id, subagent_run_id=self._by))
            told.append(ReasoningMessageStartEvent(message_id=message_id, subagent_run_id=self._by))
        if delta:
            piece = ReasoningMessageContentEvent(message_id=message_id, delta=delta, subagent_run_id=self._by)
            told.append(piece)
        return told

    def call(self, call_id: str, name: str, parent_message_id: str | None) -> list[BaseEvent]:
        """A tool call begins; the open text stays open and is its parent where none is named."""
        told = self.end_call(call_id)
        self._calls[call_id] = None
        start = ToolCallStartEvent(
            tool_call_id=call_id,
            tool_call_name=name,
            parent_message_id=parent_message_id or self._text,
            subagent_run_id=self._by,
        )
        return [*told, start]

    def arguments(self, call_id: str, delta: str) -> list[BaseEvent]:
        """A piece of the arguments of an open call."""
        if not delta or call_id not in self._calls:
            return []
        return [ToolCallArgsEvent(tool_call_id=call_id, delta=delta, subagent_run_id=self._by)]

    def end_call(self, call_id: str) -> list[BaseEvent]:
        """The arguments of a call are complete."""
        if call_id not in self._calls:
            return []
        del self._calls[call_id]
        return [ToolCallEndEvent(tool_call_id=call_id, subagent_run_id=self._by)]

    def begin_step(self, name: str) -> list[BaseEvent]:
        """A step begins; one of the same name that is open goes on."""
        if name in self._steps:
            return []
        self._steps[name] = None
        return [StepStartedEvent(step_name=name, subagent_run_id=self._by)]

    def end_step(self, name: str) -> list[BaseEvent]:
        """A step ends, and with it whatever was said in it."""
        told = self.close()
        if name in self._steps:
            del self._steps[name]
            told.append(StepFinishedEvent(step_name=name, subagent_run_id=self._by))
        return told

    def close(self) -> list[BaseEvent]:
        """End the text, then the reasoning, then the calls in the order they began."""
        told: list[BaseEvent] = []
        if self._text is not None:
            told.append(TextMessageEndEvent(message_id=self._text, subagent_run_id=self._by))
        if self._reasoning is not None:
            told.append(ReasoningMessageEndEvent(message_id=self._reasoning, subagent_run_id=self._by))
            told.append(ReasoningEndEvent(message_id=self._reasoning, subagent_run_id=self._by))
        told += [ToolCallEndEvent(tool_call_id=call, subagent_run_id=self._by) for call in self._calls]
        self._text, self._reasoning, self._calls = None, None, {}
        return told

    def close_all(self) -> list[BaseEvent]:
        """End everything, the steps too, and first of all what parts of the run have open."""
        told = [frame for part in self._parts.values() for frame in part.close_all()]
        told += self.close()
        told += [StepFinishedEvent(step_name=name, subagent_run_id=self._by) for name in self._steps]
        self._steps = {}
        return told


class _Part(OpenFrames):
    """The frames of a part of a run: two of them may have steps of one name."""

    def begin_step(self, name: str) -> list[BaseEvent]:
        return super().begin_step(f"{self._place}/{name}")

    def end_step(self, name: str) -> list[BaseEvent]:
        return super().end_step(f"{self._place}/{name}")
