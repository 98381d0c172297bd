"""Tool calls made inside a run: the run performs them, whoever makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from inspect import Signature, isawaitable, iscoroutinefunction, signature
from typing import Any, cast

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.evidence_capture import capture_result
from pilotage.agent.ports.secret_store import ISecrets
from pilotage.agent.principal import RunContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.catalog import AgentToolDescriptor, ToolBinding, discover_agent_tools
from pilotage.agent.tools.context import AgentToolRuntimeContext
from pilotage.agent.tools.declare import original_function
from pilotage.errors import AgentToolDispatchError, ToolError
from pilotage.jsonvalue import JsonObject, to_json_value
from pilotage.runtime.action import Action, fingerprint_of
from pilotage.runtime.call import Attempt, Call
from pilotage.runtime.codec import decoder_of
from pilotage.runtime.effects import Effects
from pilotage.runtime.scope import scope_for
from pilotage.safety.exposure import ContextExposurePolicy, EvidenceExposurePolicy
from pilotage.safety.fields import SecretRef
from pilotage.safety.guard import guard_json_value

ToolFunction = Callable[..., object]


class ToolCalls:
    """Hands the tool calls of a run to its effects. The id of a call is taken when the call is made."""

    def __init__(self, effects: Effects, context: RunContext, secrets: ISecrets | None) -> None:
        self._effects = effects
        self._run_context = context
        self._secrets = secrets

    def call(self, tool: ToolFunction, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """Perform a call: an awaitable for an async tool, the result for a sync one."""
        descriptor, owner, arguments = _read(tool, args, kwargs)
        call = self._call(tool, descriptor, owner, arguments)
        if iscoroutinefunction(original_function(tool)):
            return self._effects.perform(call)
        return self._call_sync(call, descriptor)

    def _call_sync(self, call: Call, descriptor: AgentToolDescriptor) -> object:
        """A sync call cannot wait for a commit; one that only reads does not have to."""
        if not call.action.is_read_only:
            raise AgentToolDispatchError(
                f"{descriptor.owner.__name__}.{descriptor.name} is a sync tool that changes something, and a run "
                "writes that down before it begins. Make the tool async, and await it."
            )
        if self._effects.open_streams_at(call.scope.path):
            raise AgentToolDispatchError(
                f"{descriptor.owner.__name__}.{descriptor.name} is a sync tool, called while a model's stream is read; "
                "the run records the reply first. Make the tool async, or call it behind the loop."
            )
        performing = self._effects.perform(call)
        try:
            performing.send(None)
        except StopIteration as done:
            return done.value
        performing.close()
        raise AgentToolDispatchError(
            f"{descriptor.owner.__name__}.{descriptor.name} is a sync tool, and a permission check, a hook or an "
            "approval before it has to wait. Make the tool async, and await it."
        )

    def _call(
        self, tool: ToolFunction, descriptor: AgentToolDescriptor, owner: object, arguments: dict[str, object]
    ) -> Call:
        asked = cast(JsonObject, to_json_value(arguments))
        view = guard_json_value(asked, descriptor.schema.input_sensitive_fields, ContextExposurePolicy())
        label = f"tool:{descriptor.schema.name}"
        scope = scope_for(label, asked)
        action_id = scope.next_id(label)
        run_id = self._effects.ledger.run.run_id
        action = Action(
            id=action_id,
            kind=AgentActionKind.TOOL_CALL,
            name=descriptor.schema.name,
            asked=asked,
            view=view,
            idempotency=descriptor.effective_idempotency,
            is_read_only=descriptor.metadata.is_read_only,
            fingerprint=fingerprint_of(
                run_id, action_id, AgentActionKind.TOOL_CALL, descriptor.schema.name, asked
            ),
        )

        def ask(approval_id: str, attempt: int) -> AgentApprovalRequest:
            return AgentApprovalRequest.from_tool_descriptor(
                approval_id=approval_id,
                agent_state_id=run_id,
                descriptor=descriptor,
                call_id=action_id,
                arguments=asked,
                attempt=attempt,
            )

        return Call(
            scope=scope,
            action=action,
            act=lambda attempt: self._act(tool, descriptor, owner, arguments, action_id, attempt),
            decode=decoder_of(tool),
            reconcile=_reconciler(descriptor, owner),
            ask=ask,
            needs_approval=descriptor.metadata.requires_approval_candidate,
            view_of=partial(_view, descriptor),
            descriptor=descriptor,
        )

    async def _act(
        self,
        tool: ToolFunction,
        descriptor: AgentToolDescriptor,
        owner: object,
        arguments: dict[str, object],
        call_id: str,
        attempt: Attempt,
    ) -> object:
        if attempt.arguments is not None:
            arguments = dict(descriptor.bind_invocation(attempt.arguments).arguments)
        if descriptor.takes_runtime_context:
            arguments = {**arguments, "runtime_context": self._context(descriptor, call_id, attempt)}
        arguments = {**arguments, **await self._resolved(descriptor)}
        function = original_function(tool)
        bound = [] if descriptor.binding is ToolBinding.NOTHING else [owner]
        async with asyncio.timeout(descriptor.metadata.timeout.seconds):
            result = function(*bound, **arguments)
            return await result if isawaitable(result) else result

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
        return {name: await self._secrets.resolve(ref, self._run_context) for name, ref in refs.items()}

    def _context(
        self, descriptor: AgentToolDescriptor, call_id: str, attempt: Attempt
    ) -> AgentToolRuntimeContext:
        return AgentToolRuntimeContext(
            state_id=self._effects.ledger.run.run_id,
            conversation_id=self._run_context.session_id or self._effects.ledger.run.run_id,
            call_id=call_id,
            tool_name=descriptor.name,
            idempotency_key=attempt.idempotency_key,
            attempt=attempt.number,
            epoch=attempt.epoch,
        )


def _read(
    tool: ToolFunction, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[AgentToolDescriptor, object, dict[str, object]]:
    """Which tool it is, whose, and the arguments by name, without `self` and what the run fills."""
    bound = _signature_of(tool).bind_partial(*args, **kwargs)
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    owner = arguments.pop("self") if "self" in arguments else arguments.pop("cls", None)
    arguments.pop("runtime_context", None)
    descriptor = _descriptor_of(tool, owner)
    return (
        descriptor,
        owner,
        {name: each for name, each in arguments.items() if name not in descriptor.secrets},
    )


def _view(descriptor: AgentToolDescriptor, result: object) -> JsonObject:
    """What others may see of a result: guarded, and cut as the tool says."""
    captured = capture_result(
        result,
        descriptor.metadata.evidence,
        sensitive_fields=descriptor.schema.output_sensitive_fields,
        policy=EvidenceExposurePolicy(),
    )
    return {"capture": captured.applied.value, **captured.entries}


@lru_cache(maxsize=1024)
def _signature_of(tool: ToolFunction) -> Signature:
    return signature(original_function(tool))


def _descriptor_of(tool: ToolFunction, owner: object) -> AgentToolDescriptor:
    return _descriptor_in(tool, cast(type, owner if isinstance(owner, type) else type(owner)))


@lru_cache(maxsize=1024)
def _descriptor_in(tool: ToolFunction, holder: type) -> AgentToolDescriptor:
    for descriptor in discover_agent_tools(holder).descriptors:
        if descriptor.callable is tool:
            return descriptor
    raise AgentToolDispatchError(
        f"{getattr(tool, '__qualname__', tool)} belongs to no class. Inside a run, tools are methods of pods."
    )


def _reconciler(descriptor: AgentToolDescriptor, owner: object) -> Callable[[str], Awaitable[object]] | None:
    name = descriptor.metadata.reconcile
    if name is None:
        return None
    method: Any = getattr(owner, name)

    async def reconcile(key: str) -> object:
        found = method(key)
        return await found if isawaitable(found) else found

    return reconcile
