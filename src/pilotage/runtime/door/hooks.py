"""Calls of the application's ports that may fail or hang, and its hooks: one that raises or hangs denies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from types import NoneType
from typing import ParamSpec, TypeVar

from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.handlers import HookVerdict, IAgentHooks, Proceed, Veto
from pilotage.agent.principal import RunContext
from pilotage.agent.state import AgentState
from pilotage.agent.tools.declare import OutsideRuns
from pilotage.checks import reject_not_positive
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.effect import Effect
from pilotage.runtime.exposure.redactor import Redactor, shown_request, shown_response
from pilotage.values import value

P = ParamSpec("P")
T = TypeVar("T")

GATE_SECONDS = 10.0


@value
class GateSettings:
    """The time limit of a permission check, hook, budget, handler or output guard; one that is late has failed."""

    patience_seconds: float = GATE_SECONDS

    def __post_init__(self) -> None:
        reject_not_positive(self, patience_seconds=self.patience_seconds)


class NoAnswerError(Exception):
    """A port has no answer; the message is the name of its error, or what it returned instead."""


class PortCaller:
    """Calls ports within a time limit."""

    def __init__(self, settings: GateSettings | None = None) -> None:
        self._seconds = GATE_SECONDS if settings is None else settings.patience_seconds

    async def ask(
        self, expected: tuple[type, ...], port: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return the answer of a port, a value of one of the expected types.

        Raises:
            NoAnswerError: it raised, did not answer in time, or returned a value of another type.
        """
        answer = await _ask(self._seconds, partial(port, *args, **kwargs))
        if not isinstance(answer, expected):
            names = " or ".join("None" if type_ is NoneType else type_.__name__ for type_ in expected)
            raise NoAnswerError(f"it returned {_shown(answer)}, not {names}")
        return answer

    async def notify(self, port: Callable[P, Awaitable[None]], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call a port; its failure does not affect the run."""
        with suppress(NoAnswerError):
            await _ask(self._seconds, partial(port, *args, **kwargs))


def _shown(answer: object) -> str:
    """Return the kind of a value that is no answer, without its content: a text may be sensitive."""
    if answer is None or isinstance(answer, bool):
        return str(answer)
    return (
        f"the class {answer.__name__}" if isinstance(answer, type) else f"a value of {type(answer).__name__}"
    )


async def _ask(seconds: float, ask: Callable[[], Awaitable[T]]) -> T:
    """Return the answer of a port; an answer after the time limit, or after the end of the run, is none."""
    limit, before = asyncio.timeout(seconds), _cancellations()
    try:
        with OutsideRuns():
            async with limit:
                answer = await ask()
    except asyncio.CancelledError as stray:
        if _cancellations():
            raise
        raise NoAnswerError(type(stray).__name__) from stray
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        raise NoAnswerError(type(error).__name__) from error
    if _cancellations() > before:
        raise asyncio.CancelledError
    if limit.expired() or asyncio.get_running_loop().time() > (limit.when() or 0):
        raise NoAnswerError(TimeoutError.__name__)
    return answer


def _cancellations() -> int:
    """Return how often the run is being cancelled, which is not a port that cancelled itself."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


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
        """Return the first veto; every hook is asked all the same, and anything but `Proceed` is a veto."""
        reason: str | None = None
        for hook in self._hooks:
            try:
                verdict = await self._caller.ask((Proceed, Veto), ask, hook)
            except NoAnswerError as failure:
                verdict = Veto(f"the hook {type(hook).__name__} failed ({failure})")
            if not isinstance(verdict, Proceed) and reason is None:
                reason = verdict.reason or f"the hook {type(hook).__name__} says no, and gives no reason"
        return reason


def shown_call(effect: Effect) -> ModelToolCall:
    """Return an effect as hooks see it."""
    return ModelToolCall(effect.action.name, shown_arguments(effect.action.view), effect.action.id)


def shown_arguments(view: JsonValue) -> JsonObject:
    """Return the view of arguments as an object."""
    return view if isinstance(view, dict) else {} if view is None else {"arguments": view}
