"""`AgUiProjector`: the events of a run as AG-UI events. Pure: no I/O, no clock.

The run whose stream it is becomes the AG-UI run; runs below it are its sub-agents. A stream has one RUN_STARTED and
one end, before which open frames are closed, whatever the events of the run are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from ag_ui import core as agui

from pilotage.adapters.agui import questions
from pilotage.adapters.agui.frames import (
    OpenFrames,
    SubAgents,
    TokensUsed,
    TranscriptOfFrames,
    calls_in,
    code_of,
    marked,
    marked_call,
    message_of,
    messages_at_the_end,
)
from pilotage.adapters.agui_plugin import AgUiConfig
from pilotage.agent import events as neutral
from pilotage.agent.events import SUPERSEDED
from pilotage.agent.state import AgentStateReason
from pilotage.jsonvalue import canonical_json, object_or_empty
from pilotage.runtime.events.projections import CANCELLED

BROKEN = "agui_stream_broken"
"""The code of a stream that ends without an end of its run."""

_Beside: TypeAlias = neutral.StateSnapshotEvent | neutral.StateDeltaEvent | neutral.ArtifactEvent
_MessageEvent: TypeAlias = (
    neutral.MessageDeltaEvent
    | neutral.ReasoningDeltaEvent
    | neutral.ToolCallStartEvent
    | neutral.ToolCallArgsDeltaEvent
    | neutral.ToolCallEndEvent
    | neutral.ToolCallResultEvent
    | neutral.StepStartedEvent
    | neutral.StepFinishedEvent
)


class AgUiProjector:
    """Projection of the stream of one run. `run_id` and `thread_id` are the client's own, which are echoed.

    `protocol` is the version that the client declares, None for clients before 1.0. A stream may begin with an earlier
    run of the thread (`begin`), after which the client's own follows (`next_run`): for the client both are one run.
    With `marks_calls` the ids of calls have a mark of their run: a model may use the same ones in every run.
    """

    def __init__(
        self,
        config: AgUiConfig | None = None,
        *,
        run_id: str | None = None,
        thread_id: str | None = None,
        messages: Sequence[agui.Message] = (),
        protocol: str | None = None,
        marks_calls: bool = False,
    ) -> None:
        self._config = config or AgUiConfig()
        self._run_id, self._thread_id = run_id, thread_id
        self._messages = tuple(messages)
        self._protocol = protocol
        self._marks_calls = marks_calls
        self._shown_calls = {call.id for call in calls_in(messages)}
        self._own_results = {message.tool_call_id for message in messages_at_the_end(messages)}
        self._notices: Sequence[agui.BaseEvent] = ()
        self._is_earlier = False
        self._held_end: neutral.RunFinishedEvent | None = None
        self._root: neutral.AgentEventAttribution | None = None
        self._frames = OpenFrames()
        self._subagents = SubAgents()
        self._interrupts: list[agui.Interrupt] = []
        self._calls_of_client: list[neutral.RunPausedEvent] = []
        self._stopped: neutral.RunPausedEvent | None = None
        self._usage = TokensUsed()
        self._transcript = TranscriptOfFrames(self._messages)
        self._has_begun = self._has_ended = False

    @property
    def client_run_id(self) -> str:
        """The client's own id of its run; empty where it has none."""
        return self._run_id or ""

    def fresh(self) -> AgUiProjector:
        """Return a projector for the same client that has seen nothing yet."""
        made = AgUiProjector(
            self._config,
            run_id=self._run_id,
            thread_id=self._thread_id,
            messages=self._messages,
            protocol=self._protocol,
            marks_calls=self._marks_calls,
        )
        made.begin(self._notices, is_earlier=self._is_earlier)
        return made

    def begin(self, notices: Sequence[agui.BaseEvent], *, is_earlier: bool) -> None:
        """Send these frames after RUN_STARTED; the end of an earlier run is not the end of the stream."""
        self._notices, self._is_earlier = notices, is_earlier

    def begin_now(self) -> list[agui.BaseEvent]:
        """Begin the stream before the run has an event, with RUN_STARTED and the notices."""
        return self._run_started(None, self._run_id or "", self._thread_id or "")

    def next_run(
        self, notices: Sequence[agui.BaseEvent] = (), *, is_last: bool = True
    ) -> list[agui.BaseEvent]:
        """End an earlier run of the stream; an error of it is a CUSTOM event. The last run ends the stream.

        The notices are those of the next run.
        """
        frames_out, ended = self._close(), self._held_end
        if ended is not None and ended.error is not None:
            frames_out.append(_ended_early(ended))
        self._root, self._held_end, self._is_earlier = None, None, not is_last
        self._interrupts, self._calls_of_client, self._stopped = [], [], None
        return [*frames_out, *notices]

    def project(self, event: neutral.AgentEvent) -> list[agui.BaseEvent]:
        """Return the frames of an event."""
        if self._root is None:
            self._root = event.attribution
        if self._has_ended:
            return []
        frames_out = self._projected(marked(event) if self._marks_calls else event)
        if self._config.messages_snapshot_enabled:
            self._transcript.take(frames_out)
        return frames_out

    def finish(self) -> list[agui.BaseEvent]:
        """End the stream: close open frames, with the interrupts of the run, or an error where its end is not known."""
        if self._has_ended:
            return []
        if self._held_end is not None:
            return self._end_with(self._held_end)
        calls = self._open_calls()
        if self._interrupts:
            return [*calls, *self._end(agui.RunFinishedInterruptOutcome(interrupts=self._interrupts))]
        if self._stopped is not None:
            return self._end(agui.RunFinishedSuccessOutcome(), self._stopped.metadata.get("output") or None)
        if self._calls_of_client:
            # The client continues: it has a tool call without a result.
            return [*calls, *self._end(agui.RunFinishedSuccessOutcome())]
        if not self._has_begun:
            return self._close()
        return self.fail("The stream ended and the run has not. Send the same input again to go on.", BROKEN)

    def fail(self, message: str, code: str) -> list[agui.BaseEvent]:
        """End the stream with an error, unless the run has ended already."""
        if self._has_ended:
            return []
        frames_out = self._close()
        self._has_ended = True
        return [*frames_out, agui.RunErrorEvent(message=message, code=code, usage=self._usage.totals())]

    def refuse_message(self, message: str, code: str) -> list[agui.BaseEvent]:
        """End the stream with an error and its words as a text, which pages show, unless something was sent."""
        if self._has_begun or self._has_ended:
            return self.fail(message, code)
        begun = self.begin_now()
        shown = self._frames.text(f"{self._run_id}:{code}", message)
        return [*begun, *shown, *self.fail(message, code)]

    def _projected(self, event: neutral.AgentEvent) -> list[agui.BaseEvent]:
        by, own = event.attribution, self._by(event)
        if own is None:
            return self._frames_of(event, None, self._frames.at(by.branch))
        if isinstance(event, neutral.RunPausedEvent):
            # The parent run has the same question, and people answer it there.
            return self._subagents.suspend(own)
        announced = self._subagents.announce(by, self._top.run_id)
        if isinstance(event, neutral.RunStartedEvent):
            return announced
        if isinstance(event, neutral.RunFinishedEvent):
            return [*announced, *self._subagents.end(event)]
        return [*announced, *self._frames_of(event, own, self._subagents.frames_of(own).at(by.branch))]

    def _frames_of(
        self, event: neutral.AgentEvent, by: str | None, frames: OpenFrames
    ) -> list[agui.BaseEvent]:
        if event.metadata.get(SUPERSEDED):
            is_shown = self._config.emit_reasoning or not isinstance(event, neutral.ReasoningDeltaEvent)
            return _superseded(event, by, frames) if is_shown else []
        match event:
            case neutral.RunStartedEvent():
                return self._started(event)
            case neutral.RunPausedEvent():
                return self._paused(event)
            case neutral.RunFinishedEvent():
                return self._finished(event)
            case neutral.StateSnapshotEvent() | neutral.StateDeltaEvent() | neutral.ArtifactEvent():
                return self._beside(event, by)
            case _:
                return self._message_frames(event, by, frames)

    def _message_frames(
        self, event: _MessageEvent, by: str | None, frames: OpenFrames
    ) -> list[agui.BaseEvent]:
        match event:
            case neutral.MessageDeltaEvent():
                return frames.text(event.message_id, event.delta)
            case neutral.ReasoningDeltaEvent():
                shown = self._config.emit_reasoning
                return frames.reasoning(event.reasoning_id, event.delta) if shown else []
            case neutral.ToolCallStartEvent():
                self._shown_calls.add(event.call_id)
                return frames.call(event.call_id, event.tool_name, event.parent_message_id)
            case neutral.ToolCallArgsDeltaEvent():
                return frames.arguments(event.call_id, event.args_delta)
            case neutral.ToolCallEndEvent():
                return frames.end_call(event.call_id)
            case neutral.ToolCallResultEvent():
                if event.call_id in self._own_results:
                    # The client has it: it is the result that it sent.
                    self._own_results.discard(event.call_id)
                    return frames.end_call(event.call_id)
                return [*frames.end_call(event.call_id), _result(event, by)]
            case neutral.StepStartedEvent():
                return frames.begin_step(event.step_name)
            case neutral.StepFinishedEvent():
                self._usage.add(event.metadata)
                return frames.end_step(event.step_name)

    def _beside(self, event: _Beside, by: str | None) -> list[agui.BaseEvent]:
        match event:
            case neutral.StateSnapshotEvent():
                shown = self._config.emit_state_snapshot
                return [agui.StateSnapshotEvent(snapshot=event.snapshot, subagent_run_id=by)] if shown else []
            case neutral.StateDeltaEvent():
                patch = event.patch if isinstance(event.patch, list | tuple) else [event.patch]
                return [agui.StateDeltaEvent(delta=cast("list[Any]", list(patch)), subagent_run_id=by)]
            case neutral.ArtifactEvent():
                value = {"artifactId": event.artifact_id, "name": event.name, "content": event.content}
                return [agui.CustomEvent(name="artifact", value=value, subagent_run_id=by)]

    def _started(self, event: neutral.RunStartedEvent) -> list[agui.BaseEvent]:
        # A run that paused and was resumed is one run here: its questions were answered.
        self._interrupts, self._calls_of_client, self._stopped = [], [], None
        if self._has_begun:
            return []
        return self._run_started(event.attribution.parent_run_id, *self._ids())

    def _run_started(self, parent: str | None, run_id: str, thread_id: str) -> list[agui.BaseEvent]:
        self._has_begun = True
        version = agui.PROTOCOL_VERSION if self._protocol is not None else None
        started = agui.RunStartedEvent(
            run_id=run_id, thread_id=thread_id, parent_run_id=parent, protocol_version=version
        )
        return [started, *self._notices]

    def _paused(self, event: neutral.RunPausedEvent) -> list[agui.BaseEvent]:
        frames_out = self._close()
        if questions.is_for_the_client(event):
            self._calls_of_client.append(event)
            return frames_out
        if (stopped := questions.stopped_at_limit(event)) is not None:
            self._stopped, (words, facts) = event, stopped
            shown = self._frames.text(f"{event.state_id}:{facts.name}", words)
            return [*frames_out, *shown, *self._frames.close_all(), facts]
        asked_by = event.metadata.get("agent_state_id")
        asking = asked_by if isinstance(asked_by, str) and asked_by != self._top.run_id else None
        self._interrupts.append(questions.interrupt_of(event, asking))
        if event.approval_id is None or not self._config.approval_calls:
            return frames_out
        call_id = questions.call_of_question(event.approval_id, self._messages)
        if call_id is None:
            return frames_out
        approval = replace(questions.approval_from_pause(event), id=call_id)
        return [*frames_out, *questions.project_approval(approval, event.attribution)]

    def _open_calls(self) -> list[agui.BaseEvent]:
        """Return the calls that the client performs and no reply of a model has shown: a program made them."""
        frames_out: list[agui.BaseEvent] = []
        for event in self._calls_of_client:
            call_id, asking = questions.deferred_call_of(event) or "", event.metadata.get("agent_state_id")
            if self._marks_calls:
                call_id = marked_call(str(asking or event.attribution.run_id), call_id)
            if call_id not in self._shown_calls:
                arguments = object_or_empty(object_or_empty(event.metadata.get("arguments")).get("view"))
                frames_out += self._frames.call(call_id, str(event.metadata.get("action_name")), None)
                frames_out += self._frames.arguments(call_id, canonical_json(arguments))
                frames_out += self._frames.end_call(call_id)
        if self._config.messages_snapshot_enabled:
            self._transcript.take(frames_out)
        return frames_out

    def _finished(self, event: neutral.RunFinishedEvent) -> list[agui.BaseEvent]:
        if self._is_earlier:
            self._held_end = event
            return []
        return self._end_with(event)

    def _end_with(self, event: neutral.RunFinishedEvent) -> list[agui.BaseEvent]:
        error = event.error
        if error is None:
            return self._end(agui.RunFinishedSuccessOutcome(), event.metadata.get("output"))
        code = code_of(error)
        if code == CANCELLED:
            # Clients before 1.0 know no such outcome.
            is_known = knows_1_0(self._protocol)
            return self._end(
                agui.RunFinishedCancelledOutcome() if is_known else agui.RunFinishedSuccessOutcome()
            )
        if code == AgentStateReason.APPROVAL_REJECTED:
            # A person's decision is no breakage.
            return [*self._close(), _ended_early(event), *self._end(agui.RunFinishedSuccessOutcome())]
        return self.fail(message_of(error), code or "run_failed")

    def _end(self, outcome: agui.RunFinishedOutcome, result: object = None) -> list[agui.BaseEvent]:
        frames_out = self._close()
        self._has_ended = True
        if self._config.messages_snapshot_enabled:
            self._transcript.take(frames_out)
            frames_out.append(agui.MessagesSnapshotEvent(messages=self._transcript.messages))
        run_id, thread_id = self._ids()
        usage = self._usage.totals()
        end = agui.RunFinishedEvent(
            run_id=run_id, thread_id=thread_id, result=result, outcome=outcome, usage=usage
        )
        return [*frames_out, end]

    def _close(self) -> list[agui.BaseEvent]:
        """Close everything, the runs below first."""
        return [*self._subagents.close_all(), *self._frames.close_all()]

    def _by(self, event: neutral.AgentEvent) -> str | None:
        """Return the sub-agent an event is of; None where it is the run's own."""
        run_id = event.attribution.run_id
        return None if run_id == self._top.run_id else run_id

    @property
    def _top(self) -> neutral.AgentEventAttribution:
        return cast(neutral.AgentEventAttribution, self._root)

    def _ids(self) -> tuple[str, str]:
        return self._run_id or self._top.run_id, self._thread_id or self._top.conversation_id


def knows_1_0(protocol: str | None) -> bool:
    """Return whether a client that declares this version knows protocol 1.0; what cannot be read is a newer one."""
    return protocol is not None and not protocol.startswith("0.")


def _ended_early(event: neutral.RunFinishedEvent) -> agui.CustomEvent:
    """Return the error of a run as a CUSTOM event, where it is not the end of the stream or a person's decision."""
    error = event.error or {}
    value = {"runId": event.attribution.run_id, "message": message_of(error)}
    return agui.CustomEvent(name=code_of(error) or "run_failed", value=value)


def _result(event: neutral.ToolCallResultEvent, by: str | None) -> agui.ToolCallResultEvent:
    # The event names the message of the call; a result is a message of its own, with an id of its own.
    return agui.ToolCallResultEvent(
        message_id=f"{event.message_id}:{event.call_id}",
        tool_call_id=event.call_id,
        content=canonical_json(event.result),
        role="tool",
        subagent_run_id=by,
    )


def _superseded(event: neutral.AgentEvent, by: str | None, frames: OpenFrames) -> list[agui.BaseEvent]:
    """Return the frames that withdraw a text or call, because the model call was repeated."""
    match event:
        case neutral.MessageDeltaEvent():
            value = {"messageId": event.message_id}
        case neutral.ReasoningDeltaEvent():
            value = {"messageId": event.reasoning_id}
        case neutral.ToolCallEndEvent():
            value = {"toolCallId": event.call_id}
        case _:
            return []
    return [*frames.close(), agui.CustomEvent(name=SUPERSEDED, value=value, subagent_run_id=by)]
