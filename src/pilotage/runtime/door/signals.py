"""Signals in a run: taken in at its boundaries, given to the handlers of the agent, awaited by programs.

A handler is a part of the program. Its actions have ids below the boundary, its events are emitted. Nothing is taken in
while it runs: what comes meanwhile waits for the next boundary of the program itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any

from pilotage.agent.handlers import SignalHandler
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentSituation
from pilotage.agent.yields import AgentYield, Error, Evidence, Final, State, StatePatch, Tool
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.tool_call import active_run
from pilotage.runtime.effect import NO_OUTCOME, Effect
from pilotage.runtime.events.projections import events_of
from pilotage.runtime.exposure.redactor import public_text
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import RunEnded
from pilotage.runtime.journal.positions import Call
from pilotage.runtime.journal.record_fields import decode_row
from pilotage.runtime.journal.scope import StepScope, inside, running_task, scope_for
from pilotage.runtime.people.signals import SignalIntake, kinds_in

_HANDLER = "on_signal:"
_CALLS = ("/tool:", "/step:")
_END = "run/end"


class SignalHandlers:
    """The signal handlers of an agent for one attempt at a run of it."""

    def __init__(
        self,
        run: Run,
        handlers: Mapping[AgentSignalKind, SignalHandler],
        instance: Any,
        recall_secrets: Callable[[], Awaitable[None]],
    ) -> None:
        self._run = run
        self._handlers = handlers
        self._instance = instance
        self._recall_secrets = recall_secrets
        self._next_end = 1

    async def before(self, effect: Effect) -> None:
        """Give pending signals to their handlers, before an effect begins."""
        action_id = effect.action.id
        if not is_inside_an_action(action_id.rpartition("/")[0]):
            await self._take_in(effect.scope, action_id, effect)

    async def at_end(self) -> None:
        """Give pending signals to their handlers when the program has ended, until none is left."""
        replay, scope = self._run.replay, StepScope("run", running_task())
        while not replay.pauses and not replay.liveness.is_ending:
            if not await self._take_in(scope, f"{_END}#{self._next_end}"):
                return
            self._next_end += 1

    async def handle(
        self, action_id: str, signals: Sequence[AgentSignal], *, is_new: bool, around: Call | None = None
    ) -> None:
        """Give signals to their handlers, one after the other; in replay as they were given.

        `around` is the call at which they are taken in.
        """
        if is_new:
            self._run.check_time()
            if self._run.events.is_replaying:
                self._run.go_live()
        for number, signal in enumerate(signals, 1):
            path = f"{_beside(action_id, _HANDLER)}/{number}"
            with inside(path, running_task(), around), self._own_messages(path):
                await self._handle(path, signal)

    async def _take_in(self, scope: StepScope, action_id: str, effect: Effect | None = None) -> bool:
        boundary = _beside(action_id, "signals:")
        is_new = not self._run.replay.knows(boundary)
        intake = self._run.signals.for_handlers(scope, boundary)
        intake.belongs_to(effect)
        record = await _taken(self._run, intake)
        if record is None:
            return False
        signals = self._run.signals.apply(boundary, record)
        self._run.learn_from_signals()
        if signals:
            call = None if effect is None else effect.call
            await self.handle(action_id, signals, is_new=is_new, around=call)
        return bool(signals)

    async def _handle(self, path: str, signal: AgentSignal) -> None:
        handler, ordinal = self._handlers[signal.kind], 0
        try:
            async with aclosing(handler(self._instance, signal)) as items:
                async for item in items:
                    ordinal += isinstance(item.payload, Tool | Evidence)
                    await self._emit(item, signal, f"{path}.{ordinal}")
        except Exception as error:
            shown = public_text(error, self._run.redactor, run_id=self._run.id, place=path)
            raise _failed(signal, shown, retryable=bool(getattr(error, "retryable", False))) from error

    async def _emit(self, item: AgentYield[Any], signal: AgentSignal, ordinal: str) -> None:
        payload, run = item.payload, self._run
        if isinstance(payload, Error):
            raise _failed(signal, payload.message, payload.code, retryable=payload.retryable)
        if isinstance(payload, Final):
            raise _failed(signal, "it yields a Final, and only the agent itself gives the answer of a run")
        if run.secrets_to_recall:
            await self._recall_secrets()
        if isinstance(payload, State | StatePatch):
            run.note_state(payload)
        for event in events_of(item, run.source.attribution, run.message_id, ordinal=ordinal):
            run.events.write(event)

    @contextmanager
    def _own_messages(self, path: str) -> Generator[None]:
        """Separate the messages of a handler from those of the program's model."""
        run = self._run
        before, run.speaker = run.speaker, f"{run.id}:{path.removeprefix('run/')}"
        try:
            yield
        finally:
            run.speaker = before


async def with_signals(run: Run, effect: Effect, request: ModelRequest) -> ModelRequest:
    """Return the request of a model call with the signals of its run; calls of tools and handlers take none in."""
    scope, action_id = effect.scope, effect.action.id
    if is_inside_an_action(scope.path):
        return request
    boundary = f"{scope.path}/signals#{action_id.rpartition('#')[2]}"
    is_new = not run.replay.knows(boundary)
    intake = run.signals.all_waiting(scope, boundary, len(request.messages))
    intake.belongs_to(effect)
    record = await _taken(run, intake)
    if record is not None:
        for_handlers = run.signals.apply(boundary, record)
        run.learn_from_signals()
        if for_handlers and run.handles_signals:
            handlers = run.part(SignalHandlers)
            await handlers.handle(action_id, for_handlers, is_new=is_new, around=effect.call)
    return run.signals.inserted(request)


async def messages_for_another_turn(run: Run, number: int, *, is_possible: bool) -> list[ModelMessage]:
    """Return the messages that a loop which has its answer goes on with: recorded ones, or new ones if it may."""
    replay, boundary = run.replay, f"{words.MORE}#{number}"
    # A recorded intake may be the last row: the attempt died before the call that it led to.
    has_any = run.signals.is_waiting or not replay.is_used_up or replay.knows(boundary)
    if replay.pauses or replay.liveness.is_ending or not has_any:
        return []
    intake = run.signals.for_another_turn(StepScope("run", running_task()), boundary, is_possible=is_possible)
    record = await _taken(run, intake)
    if record is None:
        return []
    messages = run.signals.apply_all(record)
    run.learn_from_signals()
    return messages


async def next_signal(kind: AgentSignalKind) -> AgentSignal:
    """Return the next signal of a kind sent to this run: `await next_signal(AgentSignalKind.EXTERNAL_EVENT)`.

    Where none has come the run pauses and leaves nothing in memory; in replay the same signal comes again. Each signal
    is given once. One that came before a model call is a part of the transcript by then, and is given all the same;
    one that was waited for is no part of it unless the program shows it to a model.

    Raises:
        AgentDefinitionError: there is no run here, or none to which such a signal could come.
    """
    run = active_run()
    if run is None:
        raise AgentDefinitionError(
            f"next_signal({kind!s}) waits for what is sent to a run, and there is none here. "
            "Call it in execute(), on an agent that an application made."
        )
    label = f"signal:{kind.value}"
    scope = scope_for(label)
    _check(run, kind, scope.path)
    intake = run.signals.one(scope, scope.next_id(label), kind)
    run.number(intake)
    if intake.call is not None:
        intake.call.was_waiting = run.ledger.epoch > 1
    record = await _taken(run, intake, waits_for=kind)
    is_new = intake.call is None or intake.call.end is None
    if record is None:
        raise AssertionError("a program waits for a signal until it has come")
    signal = run.signals.apply_one(record)
    run.learn_from_signals()
    if is_new:
        run.check_time()
        run.questions.resume_run(f"a signal has come: {kind.value}")
    return signal


async def wait_for_steering(run: Run) -> None:
    """Return when a steering instruction has come, in this attempt or before: it is taken in like every signal.

    No row is written: the instruction is pending until a boundary of the program takes it in, and recorded afterwards.

    Raises:
        LimitReached: the time of the run is up.
        Paused: none has come, or the run is to pause.
    """
    if run.ledger.has_unread and run.read_signals is not None:
        await run.read_signals()
    run.replay.liveness.check(words.RUN)
    kind = AgentSignalKind.STEERING_INSTRUCTION
    taken = run.replay.outcomes_of(AgentActionKind.SIGNAL)
    if not any(kind.value in decode_row(row, kinds_in) for row in taken):
        if not run.signals.has(kind):
            run.check_time()
            raise run.signals.wait_for(kind)
        run.signals.begin_with(kind)
    if run.ledger.state.awaits == kind.value:
        run.questions.resume_run(f"a signal has come: {kind.value}")


async def _taken(
    run: Run, intake: SignalIntake, waits_for: AgentSignalKind | None = None
) -> JsonObject | None:
    """Return the record of the signals taken in at a boundary, recorded or new; None where there are none."""
    # A call of the program begins only when the run is live.
    intake.is_live = intake.call is not None or (intake.is_live and run.replay.is_used_up)
    intake.waits_for = waits_for
    record = await perform(run, intake)
    return None if record is NO_OUTCOME else record


def is_inside_an_action(path: str) -> bool:
    """Return whether a place is inside a tool, a step or a handler: no boundary of the program itself."""
    return f"/{_HANDLER}" in path or is_inside_a_call(path)


def is_inside_a_call(path: str) -> bool:
    """Return whether a place is inside a tool or a step, which replay does not enter when it is done."""
    return any(mark in path for mark in _CALLS)


def _beside(action_id: str, label: str) -> str:
    """Return the place that belongs to an action and is not inside it: replay comes by, also when it is done."""
    above, _, name = action_id.rpartition("/")
    return f"{above}/{label}{name}"


def _failed(
    signal: AgentSignal, shown: str, code: str = "signal_handler_failed", *, retryable: bool = False
) -> RunEnded:
    reason = f"the handler of {signal.kind.value!r} signals failed: {shown}"
    return RunEnded(AgentSituation.FAILED, reason, code=code, retryable=retryable)


def _check(run: Run, kind: AgentSignalKind, path: str) -> None:
    policy = run.signals.policy
    if kind not in policy.accepted:
        raise AgentDefinitionError(
            f"next_signal({kind!s}): the agent does not accept such signals, so none will come. "
            "Name a kind of its accepted_signals; control signals are taken by the run itself."
        )
    if kind in policy.handled:
        raise AgentDefinitionError(
            f"next_signal({kind!s}): a handler of the agent takes these signals. Remove @on_signal, or do not wait."
        )
    if is_inside_a_call(path):
        raise AgentDefinitionError(
            f"next_signal({kind!s}) is called inside a tool or a step, which replay does not enter when it is done. "
            "Call it in execute()."
        )
