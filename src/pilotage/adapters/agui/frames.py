"""Frames that a run and its sub-agents have begun and not ended: each is closed before another begins. Pure."""

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
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentFinishedSuspendedOutcome,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)

from pilotage.adapters.agui.run_end import code_of, message_of
from pilotage.agent.events import AgentEventAttribution, RunFinishedEvent


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
        """Return the frames of a branch of the run; these frames themselves for the run."""
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
        """End a step, with all frames in it."""
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


class SubAgents:
    """The sub-agents that were announced to a client and have not ended, with their open frames."""

    def __init__(self) -> None:
        self._open: dict[str, OpenFrames] = {}

    def frames_of(self, run_id: str) -> OpenFrames:
        """What a sub-agent that was announced has open."""
        return self._open[run_id]

    def announce(self, by: AgentEventAttribution, top: str) -> list[BaseEvent]:
        """Announce a sub-agent, unless it is announced; `top` is the run of the stream."""
        if by.run_id in self._open:
            return []
        self._open[by.run_id] = OpenFrames(by.run_id, by.branch)
        above = by.parent_run_id if by.parent_run_id != top else None
        return [
            SubagentStartedEvent(subagent_run_id=by.run_id, name=by.agent_id, parent_subagent_run_id=above)
        ]

    def suspend(self, run_id: str) -> list[BaseEvent]:
        """End a sub-agent for this stream: it waits, or its end is not known."""
        frames = self._open.pop(run_id, None)
        if frames is None:
            return []
        suspended = SubagentFinishedSuspendedOutcome()
        return [*frames.close_all(), SubagentFinishedEvent(subagent_run_id=run_id, outcome=suspended)]

    def end(self, event: RunFinishedEvent) -> list[BaseEvent]:
        """A sub-agent that was announced has its answer, or none."""
        by = event.attribution.run_id
        told = self._open.pop(by).close_all()
        if event.error is None:
            return [*told, SubagentFinishedEvent(subagent_run_id=by, result=event.metadata.get("output"))]
        message, code = message_of(event.error), code_of(event.error)
        return [*told, SubagentErrorEvent(subagent_run_id=by, message=message, code=code)]

    def close_all(self) -> list[BaseEvent]:
        """End all open sub-agents, the last one first."""
        return [frame for run_id in reversed([*self._open]) for frame in self.suspend(run_id)]
