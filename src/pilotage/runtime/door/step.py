"""The effects that a program requests itself: named steps, values from outside, timers, changes of the shared state.

Inside a run each of these is an effect: performed once, and given back as it was in replay. Outside a run they are
plain calls, so that an agent made by hand stays plain business logic.

A timer (`sleep()`, `timeout()`) fires in its place among the outcomes of the run, in replay without real waiting. It
goes on while the run is paused: a long one holds no memory. Timers of asyncio measure one attempt only.

A change of the shared state (`set_state`, `patch_state`) is an action of the run: its event and its row are one
commit, so that replay emits nothing twice. So is a reading (`read_state`): in replay a program reads what it has read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from inspect import isawaitable
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from pilotage.agent.events import AgentEvent
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.declared_errors import NO_ERRORS, DeclaredErrors, reject_unfit_errors
from pilotage.agent.tools.metadata import Idempotency
from pilotage.agent.yields import State, StatePatch
from pilotage.checks import reject_negative
from pilotage.errors import AgentDefinitionError, ToolError
from pilotage.ids import SystemClock, SystemIds
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.shared_state import SharedState
from pilotage.runtime.door.tool_call import active_run
from pilotage.runtime.effect import STEP, VALUE, Effect, EffectKind, PlainEffect
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import Paused
from pilotage.runtime.journal.record_fields import text_field
from pilotage.runtime.journal.records import change_of, event_of
from pilotage.runtime.journal.result_codec import ResultCodec, codec_of, declared_codec
from pilotage.runtime.journal.scope import scope_for
from pilotage.safety.trust import Integrity, TrustLabel

T = TypeVar("T")


@overload
async def step(
    name: str,
    act: Callable[[], object],
    *,
    returns: type[T],
    idempotency: Idempotency = ...,
    errors: Sequence[type[ToolError]] = ...,
    reads_untrusted: bool = ...,
) -> T: ...
@overload
async def step(
    name: str,
    act: Callable[[], Awaitable[T] | T],
    *,
    idempotency: Idempotency = ...,
    errors: Sequence[type[ToolError]] = ...,
    reads_untrusted: bool = ...,
) -> T: ...
@overload
async def step(
    name: str,
    act: Callable[[], object],
    *,
    returns: object,
    idempotency: Idempotency = ...,
    errors: Sequence[type[ToolError]] = ...,
    reads_untrusted: bool = ...,
) -> object: ...
async def step(
    name: str,
    act: Callable[[], object],
    *,
    idempotency: Idempotency = Idempotency.UNKNOWN,
    returns: object = ...,
    errors: Sequence[type[ToolError]] = (),
    reads_untrusted: bool = False,
) -> object:
    """Call a plain port as an action of the run: `await step("mail", partial(self.mail.send, to))`.

    The result is recorded, and the program gets it as the record gives it, live and in replay: in the type `returns`,
    else in the type that the function is annotated with. Without either it is JSON, or a Decimal, datetime, date, UUID
    or bytes. Unless the step is declared idempotent, an attempt with an unknown outcome becomes a question; so does a
    result that cannot be recorded. `errors` are classes that a program may catch. A step is code of the application;
    one with a result or failure from an untrusted source has `reads_untrusted=True`.

    Raises:
        AgentDefinitionError: `act` is no function, or a result of that type could not be read back; nothing was done.
        ToolError: it failed for certain: one of `errors`, or a plain one.
    """
    _reject_no_function(name, act)
    run = active_run()
    if run is None:
        plain: object = await _awaited(act())
        return plain
    codec = codec_of(act) if returns is ... else declared_codec(returns)
    declared = NO_ERRORS
    if errors:
        reject_unfit_errors(f"step({name!r})", errors)
        declared = DeclaredErrors(errors)
    effect = _effect(run, STEP, f"{words.STEP}{name}", act, (idempotency, codec))
    effect.errors = declared
    if reads_untrusted:
        effect.result_label = TrustLabel(Integrity.UNTRUSTED, origins=frozenset({f"{words.STEP}{name}"}))
    result: object = await perform(run, effect)
    return result


def _reject_no_function(name: str, act: object) -> None:
    """Refuse the result of a call where a function is meant, before anything of it counts as begun."""
    if callable(act):
        return
    kind = type(act).__name__
    if isinstance(act, Coroutine):
        act.close()
    raise AgentDefinitionError(
        f"step({name!r}): {kind} is no function. Give the function, not the result of its call: "
        f"step({name!r}, lambda: ...)."
    )


async def changed(name: str) -> bool:
    """Return whether this run takes the new way of a changed program: `if await changed("fraud-check"): ...`.

    True in new runs, and in runs that come here at the end of their record; False where the record goes on with
    something else. Every replay of a run gets the same answer. Outside a run it is True.

    Raises:
        AgentDefinitionError: the name is empty, or has a `/` or `#`.
    """
    if not name.strip() or "/" in name or "#" in name:
        raise AgentDefinitionError(f"changed({name!r}): give the change a name without '/' and '#'.")
    run = active_run()
    if run is None:
        return True
    scope = scope_for(f"{words.CHANGED}{name}")
    is_open, number = await run.replay.gate(scope, name)
    if number is not None:
        action_id = f"{scope.path}/{words.CHANGED}{name}#{number}"
        action = run.action(action_id, AgentActionKind.VALUE, f"{words.CHANGED}{name}")
        gate = PlainEffect(VALUE, scope, action, _nothing, declared_codec(bool))
        gate.number = number
        run.outcomes.done(gate, True)
    return is_open


async def _nothing() -> None:
    """Do nothing: a gate only has an outcome."""


async def now() -> datetime:
    """Return the time; in replay the recorded one."""
    run = active_run()
    clock = run.ports.clock if run else SystemClock()
    return await _value(run, words.NOW, clock.now, datetime)


async def uid() -> str:
    """Return a new unguessable id; in replay the recorded one."""
    run = active_run()
    ids = run.ports.ids if run else SystemIds()
    return await _value(run, words.UID, ids.uid, str)


async def random() -> float:
    """Return a random number from 0 (included) to 1 (excluded); in replay the recorded one."""
    run = active_run()
    ids = run.ports.ids if run else SystemIds()
    return await _value(run, words.RANDOM, ids.random, float)


async def _value(run: Run | None, name: str, read: Callable[[], T], type_: type[T]) -> T:
    if run is None:
        return read()
    effect = _effect(run, VALUE, name, read, (Idempotency.IDEMPOTENT, declared_codec(type_)))
    found: T = await perform(run, effect)
    return found


def _effect(
    run: Run, kind: EffectKind, label: str, act: Callable[[], Any], recorded: tuple[Idempotency, ResultCodec]
) -> PlainEffect:
    idempotency, codec = recorded
    is_value = kind is VALUE
    recorded_as = AgentActionKind.VALUE if is_value else AgentActionKind.STEP
    scope = scope_for(label)
    action_id = scope.next_id(label)
    action = run.action(action_id, recorded_as, label, idempotency=idempotency, is_read_only=is_value)

    async def acted() -> object:
        return await _awaited(act())

    effect = PlainEffect(kind, scope, action, acted, codec)
    run.number(effect)
    return effect


async def _awaited(given: Any) -> Any:
    return await given if isawaitable(given) else given


_SHORT = 5.0
"""The seconds up to which a timer is waited for in the process: a run does not pause for less."""


class Timer(Effect):
    """Waits until a moment that is recorded when it begins."""

    kind = VALUE

    def __init__(self, run: Run, label: str, seconds: float) -> None:
        reject_negative(label, seconds=seconds)
        asked: JsonObject = {words.SECONDS: seconds}
        scope = scope_for(label, asked if run.source.start.names_tasks else None)
        action = run.action(
            scope.next_id(label),
            AgentActionKind.VALUE,
            label,
            asked,
            asked,
            idempotency=Idempotency.IDEMPOTENT,
            is_read_only=False,
        )
        super().__init__(scope, action)
        self._run = run
        self._seconds = seconds
        run.number(self)

    def asked(self) -> tuple[JsonObject, JsonObject]:
        if self.arguments is None:
            until = self._run.ports.clock.now() + timedelta(seconds=self._seconds)
            self.arguments = {words.UNTIL: until.isoformat()}
        return super().asked()

    def act(self) -> Awaitable[object]:
        return self._wait(text_field(self.arguments or {}, words.UNTIL))

    async def _wait(self, until: str) -> None:
        clock, replay = self._run.ports.clock, self._run.replay
        left = (datetime.fromisoformat(until) - clock.now()).total_seconds()
        if left <= 0:
            return
        if left <= _SHORT or self.call is None:
            await clock.sleep(left)
            return
        pause = Paused(reason=f"waiting until {until}", facts={words.WAKE_AT: until})
        await replay.idle(self.call, pause, clock.sleep(left))


async def sleep(seconds: float) -> None:
    """Wait for some seconds: `await sleep(3600)`. A long sleep pauses the run, which holds no memory meanwhile.

    In replay it returns in its place, without waiting again. Outside a run it just waits.
    """
    run = active_run()
    if run is None or not run.ledger.is_durable:
        clock = SystemClock() if run is None else run.ports.clock
        await clock.sleep(seconds)
        return
    await perform(run, Timer(run, words.SLEEP, seconds))


class timeout:  # noqa: N801 - used like asyncio.timeout
    """A time limit that is part of the record: `async with timeout(60): ...` raises `TimeoutError` when it is over.

    A call that may not be repeated comes to its end first, and gives its outcome; the time limit strikes at the next
    call. The limit goes on while the run is paused, for instance for an approval inside of it. Outside of a durable run
    it is `asyncio.timeout`.
    """

    def __init__(self, seconds: float) -> None:
        reject_negative("timeout", seconds=seconds)
        self._seconds = seconds
        self._plain: asyncio.Timeout | None = None
        self._timer: asyncio.Task[None] | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._is_expired = False

    async def __aenter__(self) -> Self:
        run, self._task = active_run(), asyncio.current_task()
        if run is None or not run.ledger.is_durable or self._task is None:
            self._plain = asyncio.timeout(self._seconds)
            await self._plain.__aenter__()
            return self
        self._cancelling = self._task.cancelling()
        timer = Timer(run, words.TIMEOUT, self._seconds)
        self._timer = asyncio.create_task(self._wait(run, timer))
        run.replay.see(timer.scope, self._timer)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._plain is not None:
            await self._plain.__aexit__(kind, error, trace)
            return
        if self._timer is None or self._task is None:
            return
        self._timer.cancel()
        while not self._timer.done():
            await asyncio.wait([self._timer])
        if not self._timer.cancelled():
            # An attempt that is over says so at every call; asyncio need not.
            self._timer.exception()
        if self._is_expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError(f"the time limit of {self._seconds:g} seconds is over") from error

    async def _wait(self, run: Run, timer: Timer) -> None:
        await perform(run, timer)
        self._is_expired = True
        if self._task is not None:
            self._task.cancel()


async def set_state(snapshot: JsonValue) -> None:
    """Replace the state that this run shares with its clients: `await set_state({"items": []})`.

    For tools and for `execute()`; a generator may yield `State(...)` as well. Outside a run nothing happens.

    Raises:
        AgentDefinitionError: the value has no JSON form.
        AgentToolDispatchError: it is called in another thread than the run; make the tool async.
    """
    await _share(State(snapshot))


async def patch_state(operations: Sequence[JsonObject]) -> None:
    """Change the shared state by operations of a JSON Patch: `await patch_state([{"op": "add", ...}])`.

    For tools and for `execute()`; a generator may yield `StatePatch(...)` as well. Outside a run nothing happens.

    Raises:
        AgentDefinitionError: an operation is none of RFC 6902, or a value has no JSON form.
        AgentToolDispatchError: it is called in another thread than the run; make the tool async.
    """
    await _share(StatePatch(operations))


async def read_state() -> JsonValue:
    """Return the state that this run shares with its clients, as it is now: `state = await read_state()`.

    It begins with the state that the caller gave (over AG-UI that of the page), else with an empty object. For tools
    and for `execute()`; a child run has a state of its own. Outside a run it is empty.

    Raises:
        AgentToolDispatchError: it is called in another thread than the run; make the tool async.
    """
    run = active_run()
    if run is None:
        return {}
    label = words.READ_STATE
    scope = scope_for(label)
    action = run.action(scope.next_id(label), AgentActionKind.VALUE, label)
    shared = run.part(SharedState)

    async def read() -> JsonValue:
        return shared.read()

    effect = PlainEffect(VALUE, scope, action, read)
    run.number(effect)
    found: JsonValue = await perform(run, effect)
    return found


async def _share(item: State | StatePatch) -> None:
    run = active_run()
    if run is None:
        return
    effect = _StateChange(run, change_of(item))
    run.number(effect)
    await perform(run, effect)
    if run.events.is_full:
        await run.events.wait_for_room()


class _StateChange(Effect):
    kind = VALUE

    def __init__(self, run: Run, change: JsonObject) -> None:
        label = words.SHARED_STATE
        scope = scope_for(label)
        super().__init__(scope, run.action(scope.next_id(label), AgentActionKind.VALUE, label, change))
        self._change = change
        self._run = run

    async def act(self) -> object:
        self._run.events.write(self._event)
        self._run.part(SharedState).change(self._change)
        return self._change

    def reuse(self, record: JsonObject) -> object:
        row = self.call.end if self.call is not None else None
        self._run.part(SharedState).change(self._change, row.outcome.seq if row is not None else None)
        if self._run.events.holds_all:
            self._run.events.write(self._event)
        return super().reuse(record)

    @property
    def _event(self) -> AgentEvent:
        return event_of(self._change, self.action.id, self._run.source.attribution)
