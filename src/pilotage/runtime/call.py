"""A call: an action together with the way to carry it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.jsonvalue import JsonObject, text_digest, to_json_value
from pilotage.runtime.action import Action
from pilotage.runtime.codec import Decode
from pilotage.runtime.scope import Scope
from pilotage.values import value


@value
class Attempt:
    """One try at an action. The key is the same for every try, so that the outside world can tell."""

    number: int
    epoch: int
    idempotency_key: str
    arguments: JsonObject | None = None
    """Other arguments than those asked for, where a person changed them."""


def idempotency_key(run: RunKey, action_id: str) -> str:
    """The key of an action, the same for every attempt at it and unlike that of any other action."""
    return text_digest(f"{run.tenant_id}\n{run.run_id}\n{action_id}")[:32]


def _whole(result: object) -> JsonObject:
    return {"result": to_json_value(result)}


@value
class Call:
    """What to do, how to do it, how to read its result, how to find out whether it was done.

    `ask` makes the approval request, given its id and the attempt; `needs_approval` says that the action itself
    demands one. `view_of` is what others may see of the result.
    """

    scope: Scope
    action: Action
    act: Callable[[Attempt], Awaitable[object]]
    decode: Decode
    reconcile: Callable[[str], Awaitable[object]] | None = None
    ask: Callable[[str, int], AgentApprovalRequest] | None = None
    needs_approval: bool = False
    view_of: Callable[[object], JsonObject] = _whole
    descriptor: AgentToolDescriptor | None = None
