"""Sync tools run in threads, and a thread cannot be stopped: whoever gives up on one leaves it behind, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from inspect import isawaitable
from typing import cast
from weakref import WeakKeyDictionary

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.ports.handlers import IAgentToolHandler
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.secret_store import ISecrets
from pilotage.agent.principal import RunContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentStatus
from pilotage.agent.tools.active import active_tool_calls
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.agent.tools.context import AgentToolRuntimeContext, CancellationToken
from pilotage.errors import AgentToolDispatchError, PermissionDeniedError, ToolError
from pilotage.jsonvalue import JsonObject, to_json_value
from pilotage.runtime.budget.deadlines import time_for_call
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.run import Effects
from pilotage.runtime.door.tool_binding import (
    Invocation,
    ToolFunction,
    name_of,
    offered_tool,
    read_invocation,
    reconciler,
    shown_to_others,
    shown_to_the_model,
)
from pilotage.runtime.effect import Attempt, Call, new_call
from pilotage.runtime.journal.action import new_action
from pilotage.runtime.journal.scope import scope_for
from pilotage.safety.exposure import ContextExposurePolicy
from pilotage.safety.fields import SecretRef
from pilotage.safety.guard import guard_json_value
from pilotage.values import value


@value
class _Working:
    """A thread at work for a run."""

    run: object
    tool: str
    end: asyncio.Future[object]


class ToolThreads:
    """The threads that work for one run, by the idempotency key of their call.

    A thread outlives the attempt that gave up on it, and the next attempt at the run finds it here.
    """

    def __init__(self, run: RunKey | None = None) -> None:
        self._run: object = run or object()

    @property
    def alive(self) -> tuple[str, ...]:
        """The names of the tools whose threads have not come to an end."""
        return tuple(each.tool for each in _at_work().values() if each.run == self._run)

    async def run(
        self,
        key: str,
        name: str,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> object:
        """Call a function in a thread; behind an earlier one with this key that still lives."""
        at_work = _at_work()
        while key in at_work:
            with suppress(Exception):
                await asyncio.shield(at_work[key].end)
        context = copy_context()
        # What a tool calls from its thread is part of that tool: only the event loop may act for the run.
        context.run(active_tool_calls.set, None)
        loop = asyncio.get_running_loop()
        end = loop.run_in_executor(None, lambda: context.run(function, *args, **kwargs))
        at_work[key] = _Working(self._run, name, end)
        end.add_done_callback(lambda _: at_work.pop(key))
        return await asyncio.shield(end)


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Working]] = WeakKeyDictionary()


def _at_work() -> dict[str, _Working]:
    """All threads at work for the runs of this event loop."""
    return _by_loop.setdefault(asyncio.get_running_loop(), {})


_TOOL_CALL = AgentActionKind.TOOL_CALL


class ToolCalls:
    """Hands the tool calls of a run to its effects. The id of a call is taken when the call is made."""

    def __init__(
        self,
        effects: Effects,
        context: RunContext,
        secrets: ISecrets | None = None,
        handler: IAgentToolHandler | None = None,
    ) -> None:
        self._effects = effects
        self._run_context = context
        self._secrets = secrets
        self._handler = handler

    @property
    def threads(self) -> ToolThreads:
        """The threads that work for the run."""
        return ToolThreads(self._effects.ledger.run)

    def call(self, tool: ToolFunction, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """Perform a call: an awaitable for an async tool, the result for a sync one."""
        invocation = read_invocation(tool, args, kwargs)
        call = self.prepared(invocation)
        return perform(self._effects, call) if invocation.tool.is_async else self._call_sync(call)

    def invoke(
        self, tool: ToolFunction, arguments: Mapping[str, object], call_id: str | None = None
    ) -> Awaitable[object]:
        """Perform a call for the model: a sync tool goes to a thread, and the result is what a model may see of it."""
        offered = offered_tool(tool)
        return self._shown(
            self.prepared(Invocation(offered.tool, offered.owner, dict(arguments), in_thread=True), call_id)
        )

    async def _shown(self, call: Call) -> object:
        return shown_to_the_model(call.descriptor, await perform(self._effects, call))

    def _call_sync(self, call: Call) -> object:
        """A sync call cannot wait for a commit; one that only reads does not have to."""
        name = name_of(call.descriptor)
        if not call.action.is_read_only:
            raise AgentToolDispatchError(
                f"{name} is a sync tool that changes something, and a run "
                "writes that down before it begins. Make the tool async, and await it."
            )
        if self._effects.open_streams_at(call.scope.path):
            raise AgentToolDispatchError(
                f"{name} is a sync tool, called while a model's stream is read; "
                "the run records the reply first. Make the tool async, or call it behind the loop."
            )
        performing = perform(self._effects, call)
        try:
            performing.send(None)
        except StopIteration as done:
            return done.value
        performing.close()
        raise AgentToolDispatchError(
            f"{name} is a sync tool, and a permission check, a hook or an "
            "approval before it has to wait. Make the tool async, and await it."
        )

    def prepared(
        self, invocation: Invocation, call_id: str | None = None, *, is_reserved: bool = False
    ) -> Call:
        """A call that has its id, and is not made yet; `call_id` is what a model calls it."""
        tool, effects = invocation.tool, self._effects
        view = asked = to_json_value(invocation.arguments)
        if sensitive := tool.interface.input_sensitive_fields:
            view = guard_json_value(asked, sensitive, ContextExposurePolicy())
        scope = scope_for(tool.label, asked)
        action_id = scope.next_id(tool.label)
        action = new_action(
            action_id,
            _TOOL_CALL,
            tool.name,
            asked,
            view if effects.redactor.is_idle else effects.redactor.json(view),
            tool.idempotency,
            tool.is_read_only,
            effects.fingerprint(action_id, _TOOL_CALL, tool.name, asked) if effects.is_kept else "",
        )
        return new_call(
            scope,
            action,
            partial(self._act, invocation),
            tool.decode,
            reconciler(invocation) if tool.descriptor.metadata.reconcile is not None else None,
            AgentApprovalBoundaryKind.TOOL_INVOCATION,
            tool.needs_approval,
            partial(shown_to_others, tool.descriptor, effects.redactor),
            tool.descriptor,
            call_id,
            is_reserved,
            tool.is_deferred,
        )

    def _act(self, invocation: Invocation, attempt: Attempt) -> Awaitable[object]:
        tool = invocation.tool
        is_direct = self._handler is None and self._effects.deadline is None and attempt.arguments is None
        if not (tool.is_plain and is_direct):
            return self._arranged(invocation, attempt)
        bound = (invocation.owner,) if tool.takes_owner else ()
        acting: Awaitable[object] = tool.function(*bound, **invocation.arguments)
        return acting

    def _arranged(self, invocation: Invocation, attempt: Attempt) -> Awaitable[object]:
        seconds = self._seconds_for(invocation.tool.descriptor)
        if seconds is not None:
            return self._in_time(invocation, attempt, seconds)
        return self._carried_out(invocation, attempt)

    async def _in_time(self, invocation: Invocation, attempt: Attempt, seconds: float) -> object:
        descriptor, limit = invocation.tool.descriptor, asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._carried_out(invocation, attempt)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"{descriptor.name!r} took longer than {seconds:g} seconds") from error

    async def _carried_out(self, invocation: Invocation, attempt: Attempt) -> object:
        descriptor, arguments = invocation.tool.descriptor, invocation.arguments
        if attempt.arguments is not None:
            arguments = dict(descriptor.bind_invocation(attempt.arguments).arguments)
        if self._handler is not None:
            return await self._handled(self._handler, invocation, arguments, attempt.action_id)
        if descriptor.takes_runtime_context:
            context = self._context(descriptor, attempt)
            arguments = {**arguments, "runtime_context": context}
        if not descriptor.secrets:
            return await self._run(invocation, arguments, attempt)
        arguments = {**arguments, **await self._fetched(descriptor)}
        if not descriptor.metadata.is_read_only:
            await self._effects.be_sure()
        return await self._run(invocation, arguments, attempt)

    async def _run(self, invocation: Invocation, arguments: dict[str, object], attempt: Attempt) -> object:
        tool = invocation.tool
        bound = (invocation.owner,) if tool.takes_owner else ()
        if invocation.in_thread and not tool.is_async:
            key, name = attempt.idempotency_key, tool.descriptor.name
            result = await self.threads.run(key, name, tool.function, bound, arguments)
        else:
            result = tool.function(*bound, **arguments)
        return await result if isawaitable(result) else result

    async def _handled(
        self,
        handler: IAgentToolHandler,
        invocation: Invocation,
        arguments: Mapping[str, object],
        action_id: str,
    ) -> object:
        """The application's own way to carry a call out; its result is one the tool could have had."""
        shown = cast(JsonObject, to_json_value(arguments))
        call = ModelToolCall(invocation.tool.name, shown, action_id)
        try:
            found = await handler.handle(self._run_context, invocation.tool.descriptor, call)
        except AgentToolDispatchError as error:
            raise ToolError(str(error)) from error
        return invocation.tool.decode(found)

    async def _fetched(self, descriptor: AgentToolDescriptor) -> dict[str, object]:
        """The secrets of a call that is about to begin; without them it certainly does not."""
        try:
            return await self._resolved(descriptor)
        except PermissionDeniedError as denied:
            raise ToolError(f"{descriptor.name!r} did not run: {denied}") from denied

    async def recall_secrets(self) -> None:
        """Make the run's redactor know the secrets of calls that are replayed: what they gave may be said again."""
        while self._effects.unrecalled:
            await self._resolved(self._effects.unrecalled.pop())

    async def _resolved(self, descriptor: AgentToolDescriptor) -> dict[str, object]:
        """The secrets of a call, fetched when it begins; they are in no argument, row or message."""
        wanted = descriptor.secrets
        if wanted and self._secrets is None:
            raise ToolError(
                f"{descriptor.name!r} needs secrets ({', '.join(wanted)}), and nothing provides ISecrets"
            )
        if self._secrets is None:
            return {}
        refs = {name: SecretRef(field.label or name) for name, field in wanted.items()}
        found = {name: await self._secrets.resolve(ref, self._run_context) for name, ref in refs.items()}
        for secret in found.values():
            self._effects.redactor.register(secret)
        return dict(found)

    def _context(self, descriptor: AgentToolDescriptor, attempt: Attempt) -> AgentToolRuntimeContext:
        return AgentToolRuntimeContext(
            state_id=self._effects.ledger.run.run_id,
            conversation_id=self._run_context.session_id or self._effects.ledger.run.run_id,
            call_id=attempt.action_id,
            tool_name=descriptor.name,
            idempotency_key=attempt.idempotency_key,
            attempt=attempt.number,
            epoch=attempt.epoch,
            deadline=self._effects.deadline,
            cancellation=CancellationToken(self._is_cancelled),
        )

    def _is_cancelled(self) -> bool:
        return self._effects.ledger.state.status is AgentStatus.CANCELLING or self._effects.liveness.is_ending

    def _seconds_for(self, descriptor: AgentToolDescriptor) -> float | None:
        effects = self._effects
        if effects.deadline is None:
            return descriptor.metadata.timeout.seconds
        return time_for_call(descriptor.metadata.timeout, effects.deadline, effects.clock.now())
