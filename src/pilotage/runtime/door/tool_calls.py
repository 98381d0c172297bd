"""Tool calls made inside a run: the run performs them, whoever makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from functools import partial
from inspect import isawaitable
from typing import cast

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.ports.handlers import IAgentToolHandler
from pilotage.agent.ports.secret_store import ISecrets
from pilotage.agent.principal import RunContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentStatus
from pilotage.agent.tools.catalog import AgentToolDescriptor, ToolBinding
from pilotage.agent.tools.context import AgentToolRuntimeContext, CancellationToken
from pilotage.agent.tools.declare import original_function
from pilotage.errors import AgentToolDispatchError, ToolError
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.actions.action import Action
from pilotage.runtime.actions.call import Attempt, Call
from pilotage.runtime.actions.codec import decoder_of
from pilotage.runtime.actions.scope import scope_for
from pilotage.runtime.door.effects import Effects
from pilotage.runtime.door.threads import Threads
from pilotage.runtime.door.tool_reading import (
    Invocation,
    ToolFunction,
    asked_by_a_model,
    is_async,
    name_of,
    read_invocation,
    reconciler,
    shown_to_others,
    shown_to_the_model,
)
from pilotage.runtime.gate.deadline import time_for_call
from pilotage.safety.exposure import ContextExposurePolicy
from pilotage.safety.fields import SecretRef
from pilotage.safety.guard import guard_json_value


class ToolCalls:
    """Hands the tool calls of a run to its effects. The id of a call is taken when the call is made."""

    def __init__(
        self,
        effects: Effects,
        context: RunContext,
        secrets: ISecrets | None = None,
        handler: IAgentToolHandler | None = None,
    ) -> None:
        self.threads = Threads(effects.ledger.run)
        self._effects = effects
        self._run_context = context
        self._secrets = secrets
        self._handler = handler

    def call(self, tool: ToolFunction, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """Perform a call: an awaitable for an async tool, the result for a sync one."""
        call = self._prepared(read_invocation(tool, args, kwargs))
        if is_async(tool):
            return self._effects.perform(call)
        return self._call_sync(call)

    def invoke(
        self, tool: ToolFunction, arguments: Mapping[str, object], call_id: str | None = None
    ) -> Awaitable[object]:
        """Perform a call for the model: a sync tool goes to a thread, and the result is what a model may see of it."""
        return self.invoked(self.prepared(tool, arguments, call_id))

    def prepared(
        self,
        tool: ToolFunction,
        arguments: Mapping[str, object],
        call_id: str | None = None,
        *,
        is_reserved: bool = False,
    ) -> Call:
        """A call for the model that has its id, and is not made yet."""
        invocation = asked_by_a_model(tool, arguments)
        return self._prepared(invocation, call_id=call_id, is_reserved=is_reserved)

    async def invoked(self, call: Call) -> object:
        """What a model may see of the result of a call."""
        return shown_to_the_model(call.descriptor, await self._effects.perform(call))

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
        performing = self._effects.perform(call)
        try:
            performing.send(None)
        except StopIteration as done:
            return done.value
        performing.close()
        raise AgentToolDispatchError(
            f"{name} is a sync tool, and a permission check, a hook or an "
            "approval before it has to wait. Make the tool async, and await it."
        )

    def _prepared(
        self, invocation: Invocation, *, call_id: str | None = None, is_reserved: bool = False
    ) -> Call:
        descriptor = invocation.descriptor
        asked = cast(JsonObject, to_json_value(invocation.arguments))
        view: JsonValue = asked
        if sensitive := descriptor.schema.input_sensitive_fields:
            view = guard_json_value(asked, sensitive, ContextExposurePolicy())
        view = self._effects.redactor.json(view)
        label = f"tool:{descriptor.schema.name}"
        scope = scope_for(label, asked)
        action_id = scope.next_id(label)
        kind = AgentActionKind.TOOL_CALL
        action = Action(
            id=action_id,
            kind=kind,
            name=descriptor.schema.name,
            asked=asked,
            view=view,
            idempotency=descriptor.effective_idempotency,
            is_read_only=descriptor.metadata.is_read_only,
            fingerprint=self._effects.fingerprint(action_id, kind, descriptor.schema.name, asked),
        )
        return Call(
            scope=scope,
            action=action,
            act=partial(self._act, invocation),
            decode=decoder_of(invocation.tool),
            reconcile=reconciler(invocation),
            boundary=AgentApprovalBoundaryKind.TOOL_INVOCATION,
            needs_approval=descriptor.metadata.requires_approval_candidate,
            view_of=partial(shown_to_others, descriptor, self._effects.redactor),
            descriptor=descriptor,
            call_id=call_id,
            is_reserved=is_reserved,
        )

    async def _act(self, invocation: Invocation, attempt: Attempt) -> object:
        descriptor = invocation.descriptor
        seconds = self._seconds_for(descriptor)
        if seconds is None:
            return await self._carried_out(invocation, attempt)
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._carried_out(invocation, attempt)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"{descriptor.name!r} took longer than {seconds:g} seconds") from error

    async def _carried_out(self, invocation: Invocation, attempt: Attempt) -> object:
        descriptor, arguments = invocation.descriptor, invocation.arguments
        if attempt.arguments is not None:
            arguments = dict(descriptor.bind_invocation(attempt.arguments).arguments)
        if self._handler is not None:
            return await self._handled(self._handler, invocation, arguments, attempt.action_id)
        if descriptor.takes_runtime_context:
            context = self._context(descriptor, attempt)
            arguments = {**arguments, "runtime_context": context}
        if not descriptor.secrets:
            return await self._run(invocation, arguments, attempt)
        arguments = {**arguments, **await self._resolved(descriptor)}
        if not descriptor.metadata.is_read_only:
            await self._effects.be_sure()
        return await self._run(invocation, arguments, attempt)

    async def _run(self, invocation: Invocation, arguments: dict[str, object], attempt: Attempt) -> object:
        function = original_function(invocation.tool)
        bound = () if invocation.descriptor.binding is ToolBinding.NOTHING else (invocation.owner,)
        if invocation.in_thread and not is_async(invocation.tool):
            key, name = attempt.idempotency_key, invocation.descriptor.name
            result = await self.threads.run(key, name, function, bound, arguments)
        else:
            result = function(*bound, **arguments)
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
        call = ModelToolCall(invocation.descriptor.schema.name, shown, action_id)
        try:
            found = await handler.handle(self._run_context, invocation.descriptor, call)
        except AgentToolDispatchError as error:
            raise ToolError(str(error)) from error
        return decoder_of(invocation.tool)(found)

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
