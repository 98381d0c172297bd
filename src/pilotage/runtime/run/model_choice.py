"""The model of a run, and the context settings of its requests.

A model is selected by the caller, resolved by the application, inherited from the parent, or declared. The choice is
made before a run is recorded, and is part of its start record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import NoneType

from pilotage.agent.context import ContextHealthSignal, ContextManifest, ContextPack, ContextTokenBudget
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.media import check_taken_by
from pilotage.agent.messages import MediaPart, ModelMessage
from pilotage.agent.model_request import ModelSelection
from pilotage.agent.ports.handlers import IAgentContextObserver, IAgentContextProvider
from pilotage.agent.ports.model import IAgentModel, IAgentModelResolver
from pilotage.agent.run_values import AgentContext, RunAgentInput
from pilotage.container.application import Application
from pilotage.errors import (
    AgentModelConfigurationError,
    AgentToolDispatchError,
    CallerError,
    ModelNotFoundError,
    PodNotFoundError,
    ToolError,
)
from pilotage.jsonvalue import JsonValue, canonical_json
from pilotage.runtime.children.children import Children
from pilotage.runtime.children.delegation import Teammate, teammates_of
from pilotage.runtime.children.tasks import ChildTask
from pilotage.runtime.context.fit import ContextPolicy, Delegate, Observe, Provide
from pilotage.runtime.context.optimize import ContextUnavailableError, valid_answers
from pilotage.runtime.door.hooks import NoAnswerError
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.run_source import NO_OVERRIDES, Overrides
from pilotage.runtime.exposure.trust import decode_context
from pilotage.runtime.journal.run_input import decode_instruction
from pilotage.runtime.journal.scope import StepScope, entered
from pilotage.runtime.journal.start_record import RunStart
from pilotage.runtime.run.blueprint import problems_with
from pilotage.runtime.run.start_media import media_of_start
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


class ModelChoices:
    """Chooses the models of runs that are about to start."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def are_made(self, definition: AgentDefinition, start: RunStart, overrides: Overrides) -> bool:
        """Return whether there is nothing to choose or to check for a run."""
        if start.model is not None or self._services.model_resolver is not None:
            return False
        return overrides.model is not None or definition.agent_id in self._services.driven

    async def of_run(
        self,
        definition: AgentDefinition,
        start: RunStart,
        given: object,
        run_id: str,
        overrides: Overrides = NO_OVERRIDES,
    ) -> RunStart:
        """Return the start of a run with the model that its application chooses for it.

        Raises:
            ModelNotFoundError: the application has no such model, or several models of which none is chosen.
            CallerError: the agent uses the models it injects, or the model lacks a capability that the agent needs.
            AgentModelConfigurationError: the resolver of the application gave no answer.
        """
        if not definition.is_declarative:
            if start.model is not None:
                raise CallerError(
                    f"{definition.target.__name__} has an execute() of its own, which uses the models it injects. "
                    f"Leave model_selection={start.model!r} out."
                )
            return start
        resolver = self._services.model_resolver
        if resolver is not None and overrides.model is None:
            start = await self._resolved(
                resolver, definition, start, _asked(definition, start, given, run_id)
            )
        if (chosen := start.chosen_model) is not None:
            self._check_fits(definition, chosen)
        elif overrides.model is None:
            check_driven(self._services, definition)
        return start

    async def of_child(
        self, definition: AgentDefinition, start: RunStart, parent: RunStart, run_id: str
    ) -> RunStart:
        """Return the start of a child run with the model of its parent, where one was chosen for that.

        Raises:
            AgentToolDispatchError: the model lacks a capability that the agent needs, or the resolver refuses the run.
        """
        resolver, inherited = self._services.model_resolver, parent.chosen_model
        try:
            if inherited is not None:
                start = replace(start, resolved_model=inherited)
            elif resolver is not None and definition.is_declarative:
                start = await self._resolved(resolver, definition, start, input_of(definition, start, run_id))
            if definition.is_declarative and (chosen := start.chosen_model) is not None:
                self._check_fits(definition, chosen)
        except CallerError as error:
            raise AgentToolDispatchError(str(error)) from error
        return start

    def check_media(self, definition: AgentDefinition, start: RunStart, overrides: Overrides) -> None:
        """Check the media of a run's input: its agent allows them, and the model that drives it takes them.

        An agent with an `execute()` of its own gives them to the models that it calls, and they are checked there.

        Raises:
            MediaRefusedError: they are refused; the message has the part and the limit, or the model and the type.
        """
        media = list(media_of_start(definition, start))
        if not media:
            return
        definition.spec.media_limits.check(media)
        self.check_taken(definition, start, overrides, media)

    def check_taken(
        self, definition: AgentDefinition, start: RunStart, overrides: Overrides, media: Sequence[MediaPart]
    ) -> None:
        """Check that the model that drives a run takes media.

        Raises:
            MediaTypeRefusedError: it does not; the message has the model and the type.
        """
        if definition.is_declarative:
            capability = self._model(definition, start, overrides).capability
            check_taken_by(capability.model, capability.media_types, media)

    def _model(self, definition: AgentDefinition, start: RunStart, overrides: Overrides) -> IAgentModel:
        if overrides.model is not None:
            return overrides.model
        if start.chosen_model is not None:
            return selected_model(self._services.app, start.chosen_model)
        return self._services.model_of(self._services.instance_of(definition))

    async def _resolved(
        self,
        resolver: IAgentModelResolver,
        definition: AgentDefinition,
        start: RunStart,
        run_input: RunAgentInput,
    ) -> RunStart:
        try:
            answer = await self._services.port_caller.ask(
                (ModelSelection, NoneType), resolver.resolve, definition.agent_id, run_input, start.principal
            )
        except NoAnswerError as error:
            if isinstance(error.__cause__, CallerError):
                raise error.__cause__ from None
            raise AgentModelConfigurationError(
                f"{type(resolver).__name__} gave no answer ({error}), so no model is chosen for "
                f"{definition.agent_id!r}. No run was started."
            ) from error
        return start if answer is None else replace(start, resolved_model=answer.model_ref)

    def _check_fits(self, definition: AgentDefinition, model_ref: str) -> None:
        model, services = selected_model(self._services.app, model_ref), self._services
        if problems := problems_with(model, definition, services.instance_of(definition), services):
            raise CallerError("\n".join(map(str, problems)))


def _asked(definition: AgentDefinition, start: RunStart, given: object, run_id: str) -> RunAgentInput:
    """Return the input that a resolver is asked with: the caller's own, or one made of what was given."""
    if isinstance(given, RunAgentInput):
        return replace(given, conversation_id=start.conversation, metadata=start.metadata)
    return input_of(definition, start, run_id)


def selected_model(app: Application, model_ref: str) -> IAgentModel:
    """Return the model with this pod name, else the one with this model name.

    Raises:
        ModelNotFoundError: there is none, or there are several.
    """
    models = {node.name: app.get(IAgentModel, node.name) for node in app.graph.providers(IAgentModel)}
    if model_ref in models:
        return models[model_ref]
    found = [name for name, model in models.items() if model.capability.model == model_ref]
    if len(found) == 1:
        return models[found[0]]
    if found:
        raise ModelNotFoundError(
            f"{', '.join(map(repr, found))} are all called {model_ref!r}. Select one by the name of its pod."
        )
    known = [f"{name!r} ({model.capability.model!r})" for name, model in models.items()]
    raise ModelNotFoundError(
        f"application {app.name!r} has no model {model_ref!r}. It has {', '.join(known) or 'none'}."
    )


def check_driven(services: Services, definition: AgentDefinition) -> None:
    """Check that a model drives the agent, before its run is recorded.

    Raises:
        ModelNotFoundError: the application has several models, and none is selected.
    """
    if not definition.is_declarative or definition.agent_id in services.driven:
        return
    try:
        services.model_of(services.instance_of(definition))
    except PodNotFoundError as error:
        names = [node.name for node in services.app.graph.providers(IAgentModel)]
        raise ModelNotFoundError(
            f"no model is selected for {definition.agent_id!r}: there are {', '.join(map(repr, names))}. Inject "
            "one of them into the agent, or select one: RunAgentInput(model_selection=ModelSelection(...))."
        ) from error
    services.driven.add(definition.agent_id)
