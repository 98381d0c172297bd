"""Named steps, time, ids and random numbers: the effects that a hand-written `execute()` requests itself.

Inside a run each of these is an effect: performed once, and given back as it was in replay. Outside a run they are
plain calls, so that an agent made by hand stays plain business logic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from inspect import isawaitable
from typing import Any, TypeVar, overload

from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.declared_errors import NO_ERRORS, DeclaredErrors, reject_unfit_errors
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import AgentDefinitionError, ToolError
from pilotage.ids import SystemClock, SystemIds
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.tool_call import active_run
from pilotage.runtime.effect import STEP, VALUE, EffectKind, PlainEffect
from pilotage.runtime.journal import stored_words as words
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
        AgentDefinitionError: a result of that type could not be read back; nothing was done.
        ToolError: it failed for certain: one of `errors`, or a plain one.
    """
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
