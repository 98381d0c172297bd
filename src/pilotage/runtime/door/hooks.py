"""The hooks of an application around tool calls, model calls and runs. A hook that raises or hangs denies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.hooks import HookVerdict, IAgentHooks, Veto
from pilotage.agent.principal import RunContext
from pilotage.agent.state import AgentState
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.door.consult import NoAnswerError, PortCaller
from pilotage.runtime.effect import Effect
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.exposure.views import shown_request, shown_response


class Hooks:
    """The hooks of one application."""

    def __init__(self, hooks: tuple[IAgentHooks, ...], caller: PortCaller) -> None:
        self._hooks = hooks
        self._caller = caller

    async def veto_call(self, context: RunContext, effect: Effect) -> str | None:
        """Return the reason of the first veto against a tool call, a step or a child; None where there is none."""
        shown = shown_call(effect)
        return await self._veto(lambda hook: hook.pre_tool(context, shown))

    async def veto_request(
        self, context: RunContext, request: ModelRequest, redactor: Redactor
    ) -> str | None:
        """Return the reason of the first veto against a request to a model; None where there is none."""
        shown = shown_request(request, redactor)
        return await self._veto(lambda hook: hook.pre_model(context, shown))

    async def veto_run(self, context: RunContext, state: AgentState) -> str | None:
        """Return the reason of the first veto against starting or resuming a run; None where there is none."""
        return await self._veto(lambda hook: hook.pre_run(context, state))

    async def after_call(self, context: RunContext, effect: Effect, view: JsonValue) -> None:
        """Show hooks the outcome of a call; nothing they do can change it."""
        shown = shown_call(effect)
        for hook in self._hooks:
            await self._caller.notify(hook.post_tool, context, shown, view)

    async def after_model(
        self, context: RunContext, response: ModelResponse, request: ModelRequest, redactor: Redactor
    ) -> None:
        """Show hooks the reply to a request."""
        shown = shown_response(response, request, redactor)
        for hook in self._hooks:
            await self._caller.notify(hook.post_model, context, shown)

    async def after_run(self, context: RunContext, state: AgentState) -> None:
        """Show hooks the state in which an attempt left its run."""
        for hook in self._hooks:
            await self._caller.notify(hook.post_run, context, state)

    async def _veto(self, ask: Callable[[IAgentHooks], Awaitable[HookVerdict]]) -> str | None:
        """Return the first veto; every hook is asked all the same."""
        reason: str | None = None
        for hook in self._hooks:
            try:
                verdict = await self._caller.ask(ask, hook)
            except NoAnswerError as failure:
                verdict = Veto(f"a hook failed ({failure})")
            if isinstance(verdict, Veto) and reason is None:
                reason = verdict.reason
        return reason


def shown_call(effect: Effect) -> ModelToolCall:
    """Return an effect as hooks see it."""
    return ModelToolCall(effect.action.name, as_object(effect.action.view), effect.action.id)


def as_object(view: JsonValue) -> JsonObject:
    """Return what others may see of arguments as an object."""
    return view if isinstance(view, dict) else {} if view is None else {"arguments": view}
