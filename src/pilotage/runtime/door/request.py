"""A request to another system, as an action inside of a tool: what adapters of described tools act by.

A `step()` with what only a provider of tools needs: the arguments are shown to the person who is asked about an unknown
outcome and are part of the fingerprint, the outcome may be looked up, and a request that only reads has no row before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.tool_call import active_run
from pilotage.runtime.effect import STEP, PlainEffect
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.result_codec import UNTYPED, ResultCodec
from pilotage.runtime.journal.scope import idempotency_key, scope_for
from pilotage.values import value

LookUp = Callable[[str], Awaitable[object]]
"""Looks up the outcome of a request by its idempotency key; None says that it did not take effect."""


@value
class RequestAttempt:
    """An attempt at a request: its idempotency key, and its number, which a person who lets it be retried raises."""

    key: str
    number: int = 1


Act = Callable[[RequestAttempt], Awaitable[object]]
"""Sends the request."""


@value
class OutboundRequest:
    """A request: its name in the record, its arguments, what repeating it means, and how its results are recorded.

    An outcome that is unknown is looked up by `reconcile`, where there is one, and else asked about. `reads_only` is
    for a request that changes nothing there.
    """

    name: str
    arguments: JsonObject
    idempotency: Idempotency = Idempotency.UNKNOWN
    reads_only: bool = False
    reconcile: LookUp | None = None
    codec: ResultCodec = UNTYPED


async def send(request: OutboundRequest, act: Act, *, key: str = "") -> object:
    """Return the result of a request: the recorded one, or that of sending it now.

    The idempotency key is that of the action: the same for every attempt, and of this action only. Outside of a run it
    is `key`.

    Raises:
        ToolError: it failed for certain.
    """
    run = active_run()
    if run is None:
        return await act(RequestAttempt(key))
    label, asked = f"{words.STEP}{request.name}", request.arguments
    scope = scope_for(label, asked if run.source.start.names_tasks else None)
    action_id = scope.next_id(label)
    action = run.action(
        action_id,
        AgentActionKind.STEP,
        label,
        asked,
        asked if run.redactor.is_idle else run.redactor.json(asked),
        idempotency=request.idempotency,
        is_read_only=request.reads_only,
    )
    own = idempotency_key(run.ledger.run, action_id)
    effect = PlainEffect(STEP, scope, action, lambda: act(RequestAttempt(own, effect.attempt)), request.codec)
    if request.reconcile is not None:
        effect.reconcile = request.reconcile
    run.number(effect)
    result: object = await perform(run, effect)
    return result
