"""Named steps, time, ids and random numbers: the effects that a hand-written `execute()` requests itself.

Inside a run each of these is an effect: performed once, and given back as it was in replay. Outside a run they are
plain calls, so that an agent made by hand stays plain business logic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from inspect import isawaitable
from typing import Any, TypeVar

from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.ids import SystemClock, SystemIds
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.tool_call import active_run
from pilotage.runtime.effect import STEP, VALUE, EffectKind, PlainEffect, decoder_of
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.scope import scope_for

T = TypeVar("T")


async def step(
    name: str,
    act: Callable[[], Awaitable[T] | T],
    *,
    idempotency: Idempotency = Idempotency.UNKNOWN,
) -> T:
    """Do something through a plain port, as an action of the run: `await step("mail", partial(self.mail.send, to))`.

    Its result is recorded, so it must have a JSON form; in replay it comes back in the type the function says it
    returns. Unless it is declared idempotent, an attempt with an unknown outcome becomes a question.

    Raises:
        ToolError: it failed for certain.
    """
    run = active_run()
    if run is None:
        plain: T = await _awaited(act())
        return plain
    result: T = await perform(run, _effect(run, STEP, f"{words.STEP}{name}", act, idempotency))
    return result


async def now() -> datetime:
    """Return the time; in replay the recorded one."""
    run = active_run()
    clock = run.ports.clock if run else SystemClock()
    return await _value(run, words.NOW, clock.now)


async def uid() -> str:
    """Return a new unguessable id; in replay the recorded one."""
    run = active_run()
    ids = run.ports.ids if run else SystemIds()
    return await _value(run, words.UID, ids.uid)


async def random() -> float:
    """Return a random number from 0 (included) to 1 (excluded); in replay the recorded one."""
    run = active_run()
    ids = run.ports.ids if run else SystemIds()
    return await _value(run, words.RANDOM, ids.random)


async def _value(run: Run | None, name: str, read: Callable[[], T]) -> T:
    if run is None:
        return read()
    found: T = await perform(run, _effect(run, VALUE, name, read, Idempotency.IDEMPOTENT))
    return found


def _effect(
    run: Run, kind: EffectKind, label: str, act: Callable[[], Any], idempotency: Idempotency
) -> PlainEffect:
    is_value = kind is VALUE
    recorded_as = AgentActionKind.VALUE if is_value else AgentActionKind.STEP
    scope = scope_for(label)
    action_id = scope.next_id(label)
    action = run.action(action_id, recorded_as, label, idempotency=idempotency, is_read_only=is_value)

    async def acted() -> object:
        return await _awaited(act())

    return PlainEffect(kind, scope, action, acted, decoder_of(getattr(act, "func", act)))


async def _awaited(given: Any) -> Any:
    return await given if isawaitable(given) else given
