"""Named steps, and values from outside: what a hand-written `execute()` asks for by itself.

Inside a run each of these is an action: done once, and given back as it was in replay. Outside a run they are
plain calls, so that an agent made by hand stays plain business logic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from inspect import isawaitable
from typing import Any, TypeVar, cast

from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.ids import SystemClock, SystemIds
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.run import Effects, active_effects
from pilotage.runtime.effect import Attempt, Call, decoder_of
from pilotage.runtime.journal.action import Action
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
    returns. Unless it is declared idempotent, an attempt whose outcome is unknown is left to a person.

    Raises:
        ToolError: it failed for certain.
    """
    effects = active_effects.get()
    if effects is None:
        return cast(T, await _awaited(act()))
    call = _call(effects, AgentActionKind.STEP, f"step:{name}", act, idempotency, is_read_only=False)
    return cast(T, await perform(effects, call))


async def now() -> datetime:
    """The time; in replay the time it was then."""
    effects = active_effects.get()
    clock = effects.clock if effects else SystemClock()
    return cast(datetime, await _value("now", clock.now))


async def uid() -> str:
    """A new unguessable id; in replay the same one."""
    effects = active_effects.get()
    ids = effects.ids if effects else SystemIds()
    return cast(str, await _value("uid", ids.uid))


async def random() -> float:
    """A random number from 0 (included) to 1 (excluded); in replay the same one."""
    effects = active_effects.get()
    ids = effects.ids if effects else SystemIds()
    return cast(float, await _value("random", ids.random))


async def _value(name: str, read: Callable[[], object]) -> object:
    effects = active_effects.get()
    if effects is None:
        return read()
    kind = AgentActionKind.VALUE
    return await perform(effects, _call(effects, kind, name, read, Idempotency.IDEMPOTENT, is_read_only=True))


def _call(
    effects: Effects,
    kind: AgentActionKind,
    label: str,
    act: Callable[[], Any],
    idempotency: Idempotency,
    *,
    is_read_only: bool,
) -> Call:
    scope = scope_for(label)
    action_id = scope.next_id(label)
    fingerprint = effects.fingerprint(action_id, kind, label)
    action = Action(action_id, kind, label, None, None, idempotency, is_read_only, fingerprint)

    async def perform(_: Attempt) -> object:
        return await _awaited(act())

    return Call(scope, action, perform, decoder_of(getattr(act, "func", act)))


async def _awaited(given: Any) -> Any:
    return await given if isawaitable(given) else given
