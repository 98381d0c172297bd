"""Tool calls made inside a run, by programs and by models: effects that the run performs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from inspect import isawaitable
from threading import get_ident
from typing import ClassVar, TypeAlias, cast
from weakref import WeakKeyDictionary

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.ports.handlers import IAgentToolHandler
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentStatus
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.agent.tools.context import AgentToolRuntimeContext, CancellationToken
from pilotage.agent.tools.declare import active_tool_calls
from pilotage.agent.tools.deferred import deferred_tool, label_of_deferred
from pilotage.errors import (
    AgentToolBindingError,
    AgentToolDispatchError,
    PermissionDeniedError,
    RunError,
    ToolError,
)
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, to_json_value
from pilotage.runtime.budget.limits import time_for_call
from pilotage.runtime.door.arguments import ToolFunction
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.tool_binding import (
    Invocation,
    name_of,
    offered_tool,
    place_of,
    read_invocation,
    reconciler,
    shown_to_others,
    shown_to_the_model,
)
from pilotage.runtime.effect import TOOL_CALL, Ask, Effect, secret_refs
from pilotage.runtime.journal.interruptions import RunDiverged
from pilotage.runtime.journal.scope import Action, Place, StepScope, new_action
from pilotage.safety.fields import SecretRef
from pilotage.safety.guard import ContextExposurePolicy, guard_json_value
from pilotage.values import value

_TOOL_CALL = AgentActionKind.TOOL_CALL


class ToolTimeoutError(RunError, TimeoutError):
    """A tool took longer than its timeout or the time of its run."""

    message: ClassVar[str] = "The tool took too long."
    code: ClassVar[str] = "tool_timeout"


class ToolCall(Effect):
    """A call of a tool, with its id taken and its arguments bound."""

    kind = TOOL_CALL
    boundary = AgentApprovalBoundaryKind.TOOL_INVOCATION

    def __init__(self, calls: ToolCalls, invocation: Invocation, scope: StepScope, action: Action) -> None:
        tool = invocation.tool
        # Read in every call: a default of the class takes three times as long to read.
        self.kind, self.call, self.arguments, self.reservation = TOOL_CALL, None, None, None
        self.scope = scope
        self.action = action
        self.descriptor = tool.descriptor
        self.result_label = tool.descriptor.result_label
        self.ask = Ask() if tool.needs_approval else None
        self.is_deferred = tool.is_deferred
        self.codec = tool.codec
        self.errors = tool.errors
        self._calls = calls
        self.invocation = invocation
        if tool.descriptor.metadata.reconcile is not None:
            self.reconcile = reconciler(invocation)

    def act(self) -> Awaitable[object]:
        """Perform the call, within its timeout and with the arguments that the run injects."""
        calls, invocation = self._calls, self.invocation
        tool = invocation.tool
        if tool.is_plain and calls.are_direct and self.arguments is None:
            bound = (invocation.owner,) if tool.takes_owner else ()
            acting: Awaitable[object] = tool.function(*bound, **invocation.arguments)
            return acting
        return calls.carry_out(self)

    def view_of(self, result: JsonValue) -> JsonObject:
        return shown_to_others(self.invocation.tool.descriptor, self._calls.run.redactor, result)

    def repeat_with(self, arguments: JsonObject | None) -> None:
        super().repeat_with(arguments)
        try:
            if arguments is not None:
                self.invocation.tool.parameters.repeated(arguments)
        except AgentToolBindingError as error:
            difference = f"it was begun with arguments that the tool does not take any more: {error}"
            raise RunDiverged(self.action.id, difference, self.sides()) from error

    def shown(self, arguments: JsonObject) -> JsonValue:
        sensitive = self.invocation.tool.descriptor.schema.input_sensitive_fields
        return guard_json_value(arguments, sensitive, ContextExposurePolicy())


class ToolCalls:
    """Performs the tool calls of one run. The id of a call is taken when the call is made.

    A call that is made in another thread is performed by the run's event loop, and the thread waits for it.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.thread = get_ident()
        self.are_direct = run.ports.tool_handler is None and run.source.deadline is None
        """Whether no handler and no deadline stands between a call and the function of a plain tool."""
        self._loop = asyncio.get_running_loop()

    def call(
        self, tool: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        """Perform a call: an awaitable for an async tool, the result for a sync one."""
        invocation = read_invocation(tool, args, kwargs)
        if get_ident() != self.thread:
            return self._call_from_thread(invocation)
        call = self.prepared(invocation)
        return perform(self.run, call) if invocation.tool.is_async else self._call_sync(call)

    def _call_from_thread(self, invocation: Invocation) -> object:
        performing = self._perform(invocation)
        try:
            future = asyncio.run_coroutine_threadsafe(performing, self._loop)
        except RuntimeError as error:
            performing.close()
            name = name_of(invocation.tool.descriptor)
            raise AgentToolDispatchError(f"{name} is called by a thread that outlived its run.") from error
        return _awaited(future) if invocation.tool.is_async else future.result()

    async def _perform(self, invocation: Invocation) -> object:
        return await perform(self.run, self.prepared(invocation))

    def invoke(
        self, tool: ToolFunction, arguments: Mapping[str, object], call_id: str | None = None
    ) -> Awaitable[object]:
        """Perform a call for the model: a sync tool runs in a thread, the result is the model's view of it."""
        known, owner = offered_tool(tool)
        complete = known.parameters.with_defaults(arguments)
        return self._shown(self.prepared(Invocation(known, owner, complete, True, arguments.keys()), call_id))

    async def _shown(self, call: ToolCall) -> object:
        return shown_to_the_model(call.descriptor, await perform(self.run, call))

    def _call_sync(self, call: ToolCall) -> object:
        """Perform a sync call. It cannot wait for a commit; one that only reads does not have to."""
        name = name_of(call.descriptor)
        if not call.action.is_read_only:
            raise AgentToolDispatchError(
                f"{name} is a sync tool that is not read-only, and a run "
                "commits a row before such a call begins. Make the tool async, and await it."
            )
        if self.run.streams_at(call.scope.path):
            raise AgentToolDispatchError(
                f"{name} is a sync tool, called while a model's stream is read; "
                "the run records the reply first. Make the tool async, or call it after the loop."
            )
        if call.call is not None:
            call.call.is_sync = True
        performing = perform(self.run, call)
        try:
            performing.send(None)
        except StopIteration as done:
            result: object = done.value
            return result
        performing.close()
        raise AgentToolDispatchError(
            f"{name} is a sync tool, and a permission check, a hook or an "
            "approval before it has to wait. Make the tool async, and await it."
        )

    def prepared(
        self, invocation: Invocation, call_id: str | None = None, is_counted: bool = False
    ) -> ToolCall:
        """Return a call that has its id and is not performed yet; `call_id` is the id that a model gave it."""
        tool, run = invocation.tool, self.run
        asked = tool.parameters.encoded(invocation.arguments)
        view: JsonValue = asked
        if sensitive := tool.interface.input_sensitive_fields:
            view = guard_json_value(asked, sensitive, ContextExposurePolicy())
        scope, action_id, fingerprint = place_of(run, invocation, asked)
        action = new_action(
            action_id,
            _TOOL_CALL,
            tool.name,
            asked,
            view if run.redactor.is_idle else run.redactor.json(view),
            tool.idempotency,
            tool.is_read_only,
            fingerprint,
        )
        call = ToolCall(self, invocation, scope, action)
        call.call_id, call.is_counted = call_id, is_counted
        if run.ledger.is_durable:
            run.number(call)
        return call

    def carry_out(self, call: ToolCall) -> Awaitable[object]:
        """Perform a call, within its timeout and with the arguments that the run injects."""
        seconds = self._seconds_for(call.invocation.tool.descriptor)
        if seconds is not None:
            return self._in_time(call, seconds)
        return self._carry_out(call)

    async def _in_time(self, call: ToolCall, seconds: float) -> object:
        name, limit = call.invocation.tool.descriptor.name, asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._carry_out(call)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ToolTimeoutError(f"{name!r} took longer than {seconds:g} seconds") from error

    async def _carry_out(self, call: ToolCall) -> object:
        descriptor, arguments = call.invocation.tool.descriptor, call.invocation.arguments
        if call.arguments is not None:
            arguments = call.invocation.tool.parameters.repeated(call.arguments)
        handler = self.run.ports.tool_handler
        if handler is not None:
            return await self._handle(handler, call, arguments)
        if descriptor.takes_runtime_context:
            arguments = {**arguments, "runtime_context": self._context(call)}
        if not descriptor.secrets:
            return await self._call_function(call, arguments)
        arguments = {**arguments, **await self._fetch_secrets(call)}
        if not descriptor.metadata.is_read_only:
            await self.run.ensure_lease()
        return await self._call_function(call, arguments)

    async def _call_function(self, call: ToolCall, arguments: dict[str, object]) -> object:
        invocation, tool = call.invocation, call.invocation.tool
        bound = (invocation.owner,) if tool.takes_owner else ()
        if invocation.in_thread and not tool.is_async:
            thread = _Thread(self.run.ledger.run, self.run.idempotency_key(call), tool.descriptor.name)
            result = await run_in_thread(thread, lambda: tool.function(*bound, **arguments))
        else:
            result = tool.function(*bound, **arguments)
        return await result if isawaitable(result) else result

    async def _handle(
        self, handler: IAgentToolHandler, call: ToolCall, arguments: Mapping[str, object]
    ) -> object:
        """Perform a call by the application's handler; its result must fit the tool's result type."""
        tool, shown = call.invocation.tool, as_object(to_json_value(arguments))
        asked = ModelToolCall(tool.name, shown, call.action.id)
        try:
            found = await handler.handle(self.run.context, tool.descriptor, asked)
        except AgentToolDispatchError as error:
            raise ToolError(str(error)) from error
        return tool.codec.decode(found)

    async def _fetch_secrets(self, call: ToolCall) -> dict[str, object]:
        """Return the secrets of a call that is about to begin; without them it certainly does not.

        They are in no argument, row or message.
        """
        descriptor, found = call.invocation.tool.descriptor, dict[str, object]()
        if self.run.ports.secrets is None:
            names = ", ".join(descriptor.secrets)
            raise ToolError(f"{descriptor.name!r} needs secrets ({names}), and nothing provides ISecrets")
        try:
            for name, ref in secret_refs(descriptor).items():
                found[name] = await self._resolved(ref)
                call.got_secrets = (*call.got_secrets, ref.id)
        except PermissionDeniedError as denied:
            raise ToolError(f"{descriptor.name!r} did not run: {denied}") from denied
        return found

    async def recall_secrets(self) -> None:
        """Register the secrets of replayed calls with the redactor: their results may be shown again."""
        waiting = self.run.secrets_to_recall
        while waiting:
            ref = next(iter(waiting))
            await self._resolved(ref)
            waiting.pop(ref, None)

    async def _resolved(self, ref: SecretRef) -> str:
        """Return a secret; from now on it is masked wherever it is shown."""
        secrets = self.run.ports.secrets
        if secrets is None:
            raise ToolError(f"the secret {ref.id!r} is needed, and nothing provides ISecrets")
        found = await secrets.resolve(ref, self.run.context)
        self.run.redactor.register(found)
        return found

    def _context(self, call: ToolCall) -> AgentToolRuntimeContext:
        run = self.run
        return AgentToolRuntimeContext(
            state_id=run.id,
            conversation_id=run.context.session_id or run.id,
            call_id=call.action.id,
            tool_name=call.invocation.tool.descriptor.name,
            idempotency_key=self.run.idempotency_key(call),
            attempt=call.attempt,
            epoch=run.ledger.epoch,
            deadline=run.source.deadline,
            cancellation=CancellationToken(self._is_cancelled),
        )

    def _is_cancelled(self) -> bool:
        run = self.run
        return run.ledger.state.status is AgentStatus.CANCELLING or run.replay.liveness.is_ending

    def _seconds_for(self, descriptor: AgentToolDescriptor) -> float | None:
        deadline, timeout = self.run.source.deadline, descriptor.metadata.timeout
        return (
            timeout.seconds
            if deadline is None
            else time_for_call(timeout, deadline, self.run.ports.clock.now())
        )


async def _awaited(future: Future[object]) -> object:
    """Wait in the event loop of another thread for a call of the run."""
    return await asyncio.wrap_future(future)


def active_run() -> Run | None:
    """Return the run that the running code belongs to; None outside every run.

    Raises:
        AgentToolDispatchError: the code runs in another thread than the run.
    """
    place = active_tool_calls.get()
    if not isinstance(place, Place) or not isinstance(place.calls, ToolCalls):
        return None
    if place.calls.thread != get_ident():
        raise AgentToolDispatchError(
            "models, steps, agents and values of a run are used in the event loop of the run, and this is another "
            "thread. Only tools can be called here; make the calling tool async for everything else."
        )
    return place.calls.run


CallerTool: TypeAlias = Callable[..., Awaitable[JsonValue]]


def caller_tools() -> Mapping[str, CallerTool]:
    """Return the tools that the caller of this run performs, by name, for an `execute()` that offers or calls them.

    `ToolCallingSpec.from_tools([self.payments.pay, *caller_tools().values()])` offers them to a model. A call pauses
    the run until the caller sends the result, and the run goes on with it. What a caller writes is untrusted, so from
    now on the run is, unless the caller is a page that the application declares to be its own. Empty where the caller
    brings none, and outside a run.
    """
    run = active_run()
    if run is None or not (deferred := run.source.start.deferred):
        return {}
    run.trust = run.trust.join(label_of_deferred(deferred))
    return {tool.name: cast(CallerTool, deferred_tool(tool).callable) for tool in deferred}


@value
class _Thread:
    """A thread of a sync tool: the run it works for, the idempotency key of the call, the name of the tool."""

    run: RunKey
    key: str
    tool: str


def tools_in_threads(run: RunKey) -> tuple[str, ...]:
    """Return the names of the tools with threads that work for a run; a thread may outlive its attempt."""
    return tuple(thread.tool for thread, _ in _threads().values() if thread.run == run)


async def run_in_thread(thread: _Thread, function: Callable[[], object]) -> object:
    """Call a function in a thread, after an earlier thread of the same call has ended.

    A thread cannot be stopped: a caller that gives up leaves it to run.
    """
    threads = _threads()
    while thread.key in threads:
        # Whatever ended it, an earlier attempt's pause included, is no outcome of this attempt.
        await asyncio.wait({threads[thread.key][1]})
    context = copy_context()
    end = asyncio.get_running_loop().run_in_executor(None, lambda: context.run(function))
    threads[thread.key] = (thread, end)
    end.add_done_callback(lambda _: threads.pop(thread.key))
    return await asyncio.shield(end)


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, tuple[_Thread, asyncio.Future[object]]]] = (
    WeakKeyDictionary()
)


def _threads() -> dict[str, tuple[_Thread, asyncio.Future[object]]]:
    """Return all threads of the runs of this event loop, by the key of their call."""
    return _by_loop.setdefault(asyncio.get_running_loop(), {})
