"""The gate before every action: permission and hooks, asked afresh for what has not begun.

A stage that raises or hangs denies. Stages that are the exact built-in no-op are left out when a run is composed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import TypeAlias, TypeVar

from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.hooks import HookVerdict, IAgentHooks, Veto
from pilotage.agent.ports.permissions import (
    AllowAll,
    IAgentPermissions,
    PermissionRequest,
    PermissionVerdict,
)
from pilotage.agent.principal import Principal, RunContext
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.call import Call
from pilotage.values import value

T = TypeVar("T")

_PATIENCE_SECONDS = 10.0


@value
class Pass:
    """Nothing against it."""


@value
class Ask:
    """Somebody must be asked first."""


@value
class Deny:
    """It must not happen."""

    reason: str


GateVerdict: TypeAlias = Pass | Ask | Deny


class Gate:
    """Composed once per run from what the application provides."""

    def __init__(
        self,
        principal: Principal,
        context: RunContext,
        permissions: IAgentPermissions | None,
        hooks: Sequence[IAgentHooks],
    ) -> None:
        self._principal = principal
        self._context = context
        self._permissions = None if type(permissions) is AllowAll else permissions
        self._hooks = tuple(hooks)

    async def before_call(self, call: Call) -> GateVerdict:
        """Whether a tool call or a step may begin."""
        asks = False
        if self._permissions is not None:
            verdict = await self._permitted(call, self._permissions)
            if isinstance(verdict, Deny):
                return verdict
            asks = isinstance(verdict, Ask)
        shown = ModelToolCall(call.action.name, _shown(call.action.view), call.action.id)
        denied = await self._vetoed([hook.pre_tool(self._context, shown) for hook in self._hooks])
        return denied or (Ask() if asks else Pass())

    async def after_call(self, call: Call, result: JsonValue) -> None:
        """Let hooks see what came of it; nothing they do can change that."""
        shown = ModelToolCall(call.action.name, _shown(call.action.view), call.action.id)
        for hook in self._hooks:
            await _heard(hook.post_tool(self._context, shown, result))

    async def before_model(self, request: ModelRequest) -> Deny | None:
        """Whether a request may go to the model."""
        return await self._vetoed([hook.pre_model(self._context, request) for hook in self._hooks])

    async def _permitted(self, call: Call, permissions: IAgentPermissions) -> GateVerdict:
        tool = call.descriptor.metadata if call.descriptor else None
        request = PermissionRequest(
            principal=self._principal,
            context=self._context,
            action=call.action.kind,
            name=call.action.name,
            permissions=tuple(tool.permissions) if tool else (),
            **({"risk": tool.risk} if tool else {}),
        )
        try:
            decision = await _soon(permissions.check(request))
        except Exception as error:  # noqa: BLE001 - a policy that cannot decide denies
            return Deny(f"the permission check failed ({type(error).__name__})")
        match decision.verdict:
            case PermissionVerdict.ALLOW:
                return Pass()
            case PermissionVerdict.ASK:
                return Ask()
            case PermissionVerdict.DENY:
                return Deny(decision.reason or "the permission is missing")

    async def _vetoed(self, verdicts: Sequence[Awaitable[HookVerdict]]) -> Deny | None:
        denied: Deny | None = None
        for waiting in verdicts:
            try:
                verdict = await _soon(waiting)
            except Exception as error:  # noqa: BLE001 - a hook that fails vetoes
                verdict = Veto(f"a hook failed ({type(error).__name__})")
            if isinstance(verdict, Veto) and denied is None:
                denied = Deny(verdict.reason)
        return denied


async def _soon(waiting: Awaitable[T]) -> T:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        return await waiting


async def _heard(waiting: Awaitable[None]) -> None:
    """Observing can never fail a run."""
    with suppress(Exception):
        await _soon(waiting)


def _shown(view: JsonValue) -> JsonObject:
    return view if isinstance(view, dict) else {"arguments": view}
