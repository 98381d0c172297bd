"""The context settings of a run, from its agent and the ports of its application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pilotage.agent.context import ContextHealthSignal, ContextManifest, ContextPack, ContextTokenBudget
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.messages import ModelMessage
from pilotage.agent.ports.handlers import IAgentContextObserver, IAgentContextProvider
from pilotage.agent.run_values import AgentContext, RunAgentInput
from pilotage.errors import AgentToolDispatchError, ToolError
from pilotage.jsonvalue import JsonValue, canonical_json
from pilotage.runtime.children.children import Children
from pilotage.runtime.children.delegation import Teammate, teammates_of
from pilotage.runtime.children.tasks import ChildTask
from pilotage.runtime.context.fit import ContextPolicy, Delegate, Observe, Provide
from pilotage.runtime.context.optimize import valid_answers
from pilotage.runtime.context.provide import ContextUnavailableError
from pilotage.runtime.door.hooks import NoAnswerError
from pilotage.runtime.door.run import Run
from pilotage.runtime.exposure.given_context import decode_context
from pilotage.runtime.journal.run_input import decode_instruction
from pilotage.runtime.journal.scope import StepScope, entered
from pilotage.runtime.journal.start_record import RunStart
from pilotage.runtime.services import Services


def context_policy(run: Run, services: Services, budget: ContextTokenBudget | None) -> ContextPolicy:
    """Return the context settings of a run; what neither agent nor application asks for is left out."""
    spec, provider = run.source.definition.spec, services.context_provider
    observers = services.context_observers
    policy = ContextPolicy(
        budget,
        tuple(spec.compaction),
        services.context_handler,
        provide=None if provider is None else _provide(run, provider),
        refreshes_each_step=spec.refresh_context_each_step,
        observe=_observe(run, observers) if observers else None,
    )
    if services.context_handler is None or not spec.teammates:
        return policy
    mates = teammates_of(spec, services.definition_of, run.source.start.capabilities)
    by_name = {mate.name: mate for mate in mates.values()}
    return replace(policy, teammates=frozenset(by_name), delegate=_delegate(run, by_name))


def input_of(definition: AgentDefinition, start: RunStart, run_id: str) -> RunAgentInput:
    """Return the input of a run; that of an agent with an `execute()` of its own is its only text, or JSON."""
    history = tuple[ModelMessage, ...]()
    if definition.is_declarative:
        given = decode_instruction(start.input)
        text, history = given.prompt, given.messages
    else:
        values = list(start.input.values())
        only = values[0] if len(values) == 1 else None
        text = only if isinstance(only, str) and only.strip() else canonical_json(start.input)
    return RunAgentInput(
        run_id,
        text,
        start.conversation,
        start.parent,
        message_history=history,
        context=decode_context(start.given) or AgentContext(),
        metadata=start.metadata,
    )


def _provide(run: Run, provider: IAgentContextProvider) -> Provide:
    run_input = input_of(run.source.definition, run.source.start, run.id)

    async def provide(model_step: int) -> AgentContext:
        try:
            return await run.ports.caller.ask((AgentContext,), provider.provide, run_input, model_step)
        except NoAnswerError as error:
            raise ContextUnavailableError(f"{type(provider).__name__} gave no answer ({error})") from error

    return provide


def _observe(run: Run, observers: Sequence[IAgentContextObserver]) -> Observe:
    async def observe(
        packs: Sequence[ContextPack], manifest: ContextManifest
    ) -> Sequence[ContextHealthSignal]:
        guarded = tuple(replace(each, content=each.guarded_content(), sensitive_fields=()) for each in packs)
        found: list[ContextHealthSignal] = []
        for observer in observers:
            try:
                seen = await run.ports.caller.ask(
                    (list, tuple), observer.observe, run.context, guarded, manifest
                )
            except NoAnswerError:
                continue
            found += valid_answers(ContextHealthSignal, seen)
        return found

    return observe


def _delegate(run: Run, teammates: Mapping[str, Teammate]) -> Delegate:
    async def delegate(scope: StepScope, name: str, task: str) -> JsonValue:
        children = run.part(Children)
        try:
            with entered(scope):
                child = children.prepared("child:context", name, ChildTask(teammates[name].agent, task))
        except AgentToolDispatchError as error:
            raise ToolError(str(error)) from error
        return await children.perform(child)

    return delegate
