"""Putting an attempt at a run together from what its application, its agent and its record say."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import cast

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.events import AgentEventAttribution
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.architecture import AgentSession
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.journal import JournalRow
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.ports.pricing import IAgentPricing
from pilotage.agent.principal import RunContext
from pilotage.agent.sealing_check import hidden_output
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.agent.tools.catalog import discover_agent_tools
from pilotage.runtime.actions.action import Action
from pilotage.runtime.attempts.attempt import RunAttempt
from pilotage.runtime.attempts.cancellation import Cleanup
from pilotage.runtime.attempts.ending import Closing, Ending
from pilotage.runtime.attempts.program import Architected, HandWritten, Program
from pilotage.runtime.door.context_stage import ContextStage
from pilotage.runtime.door.effects import Effects
from pilotage.runtime.door.inbox import Inbox
from pilotage.runtime.door.observing import Observer
from pilotage.runtime.door.run_aware_model import RunAwareModel
from pilotage.runtime.door.tool_calls import ToolCalls
from pilotage.runtime.door.waits import Waits
from pilotage.runtime.gate.gate import Gate
from pilotage.runtime.gate.spending import Spending
from pilotage.runtime.journal.input_record import decode_input, decode_instruction
from pilotage.runtime.journal.leasing import Hold
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.recording import Recording
from pilotage.runtime.journal.start_record import RunStart
from pilotage.runtime.scoped.architecture_registry import find_architecture
from pilotage.runtime.scoped.blocks import ScopedRuntime
from pilotage.runtime.scoped.children import Children, INursery, teller_for
from pilotage.runtime.scoped.dependencies import DEFAULT_MAX_TURNS, RunDependencies
from pilotage.runtime.scoped.model import ScopedModel
from pilotage.runtime.scoped.teammates import Teammate, teammates_of
from pilotage.runtime.scoped.tools import BoundTool, ScopedTools
from pilotage.runtime.service.services import Services
from pilotage.runtime.stream.exposure import Exposure
from pilotage.runtime.stream.redactor import Redactor
from pilotage.runtime.stream.telling import KeptTelling, PipedTelling, Telling
from pilotage.runtime.stream.told import told_items
from pilotage.safety.trust import TrustLabel
from pilotage.values import value


@value
class Overrides:
    """What one caller wants instead of what the application provides."""

    model: IAgentModel | None = None
    pricing: IAgentPricing | None = None


NO_OVERRIDES = Overrides()


@value
class Material:
    """Everything an attempt is made from. `deadline` is the one that holds; `history` came before the run."""

    definition: AgentDefinition
    instance: object
    start: RunStart
    ledger: Ledger
    rows: Sequence[JournalRow] = ()
    pending: Sequence[AgentSignal] = ()
    deadline: datetime | None = None
    history: Sequence[ConversationTurn] = ()
    parent: Effects | None = None
    hold: Hold | None = None
    overrides: Overrides = NO_OVERRIDES


class Composer:
    """Makes attempts."""

    def __init__(self, services: Services, nursery: INursery) -> None:
        self._services = services
        self._nursery = nursery

    def compose(self, material: Material) -> RunAttempt:
        """An attempt that is ready to run."""
        definition, start, ledger = material.definition, material.start, material.ledger
        run_id = ledger.run.run_id
        by = AgentEventAttribution(definition.agent_id, run_id, start.conversation or run_id, start.parent)
        context = start.context(run_id)
        effects = self._effects(material, by)
        tools = ToolCalls(effects, context, self._services.secrets, self._services.tool_handler)
        closing = Closing(
            by,
            context,
            self._services.output_guard,
            self._cleanup(material, context, tools),
            start.conversation if start.history is not None else None,
            _question(definition, start),
            hidden_output(definition),
            definition.spec.human_time_counts,
        )
        program = self._program(material, effects, tools, by)
        return RunAttempt(
            program, effects, effects.telling, Ending(effects, effects.telling, closing), tools, context, by
        )

    def _cleanup(self, material: Material, context: RunContext, tools: ToolCalls) -> Cleanup:
        run, principal = material.ledger.run, material.start.principal

        async def cancel_child(action: Action) -> None:
            await self._nursery.cancel_child(run, action, principal)

        return Cleanup(
            context,
            self._services.cleanups,
            cancel_child if material.ledger.is_kept else None,
            lambda: tools.threads.alive,
        )

    def _effects(self, material: Material, by: AgentEventAttribution) -> Effects:
        definition, start, ledger = material.definition, material.start, material.ledger
        services, spec = self._services, definition.spec
        recording = Recording(material.rows)
        redactor = Redactor(spec.redaction)
        parent = material.parent
        return Effects(
            ledger,
            recording,
            Gate(start.principal, start.context(ledger.run.run_id), services.stages, start.capabilities),
            Waits(
                ledger,
                recording,
                _answers(material.pending),
                services.clock,
                services.ids,
                spec.on_rejection,
                redactor,
            ),
            Inbox(ledger, recording, material.pending, start.salt),
            self._telling(material, by, Exposure(spec.streaming_exposure_mode, redactor)),
            Spending(
                start.limits,
                material.overrides.pricing or services.pricing,
                parent.spending if parent else None,
            ),
            services.clock,
            services.ids,
            redactor,
            material.deadline,
            material.hold,
            start.salt,
        )

    def _telling(self, material: Material, by: AgentEventAttribution, exposure: Exposure) -> Telling:
        forward = teller_for(material.parent, by.run_id) if material.parent else None
        if not material.ledger.is_kept:
            return PipedTelling(exposure, forward)
        return KeptTelling(by, material.ledger, exposure, list(told_items(material.rows)), forward)

    def _program(
        self, material: Material, effects: Effects, tools: ToolCalls, by: AgentEventAttribution
    ) -> Program:
        definition, start = material.definition, material.start
        effects.children = Children(effects, start, self._nursery)
        effects.may_delegate = definition.spec.delegation_allowed
        if start.trust:
            effects.trust = effects.trust.join(TrustLabel.from_payload(start.trust))
        effects.context = self._context(definition, effects)
        effects.observer = Observer(self._services.provided.telemetry)
        if not definition.is_declarative:
            return HandWritten(material.instance, decode_input(definition, start.input), effects, by)
        given = decode_instruction(start.input)
        instance = material.instance or self._services.instance_of(definition)
        spec, instructions = definition.spec, definition.instructions or ""
        dependencies = RunDependencies(
            effects,
            ScopedModel(self._model(material.overrides, instance)),
            ScopedTools(_offer(instance), tools, effects, teammates=self._teammates(material)),
            ScopedRuntime(effects, effects.children),
            by,
            start.context(by.run_id),
            self._services.provided,
            instructions,
            _output_of(spec.output_type),
            spec.limits.max_steps or DEFAULT_MAX_TURNS,
        )
        session = AgentSession(
            by.run_id,
            instructions,
            [*map(_as_message, material.history), *given.messages],
            cumulative_usage=ModelUsage(0, 0, 0),
        )
        return Architected(find_architecture(spec.architecture), session, dependencies, given.prompt)

    def _teammates(self, material: Material) -> Mapping[str, Teammate]:
        spec, capabilities = material.definition.spec, material.start.capabilities
        return teammates_of(spec, self._services.definition_of, capabilities)

    def _context(self, definition: AgentDefinition, effects: Effects) -> ContextStage:
        spec = definition.spec
        return ContextStage(effects, spec.context_budget, spec.compaction, self._services.context_handler)

    def _model(self, overrides: Overrides, instance: object) -> IAgentModel:
        wanted = overrides.model
        if wanted is None:
            return self._services.model_of(instance)
        return wanted if isinstance(wanted, RunAwareModel) else RunAwareModel(wanted)


def _offer(instance: object) -> Sequence[BoundTool]:
    """The tools that an agent offers: its own, and those of the pods it holds, each pod once."""
    owners = {id(owner): owner for owner in (instance, *vars(instance).values())}
    return [tool for owner in owners.values() for tool in _tools_of(owner)]


def _tools_of(owner: object) -> list[BoundTool]:
    return [cast(BoundTool, getattr(owner, name)) for name in _tool_names(cast(type, type(owner)))]


@lru_cache(maxsize=1024)
def _tool_names(owner: type) -> tuple[str, ...]:
    """The attributes of a class that are tools; nothing of the standard library has any."""
    if owner.__module__ == "builtins":
        return ()
    tools = {descriptor.callable for descriptor in discover_agent_tools(owner).descriptors}
    return tuple(name for name in dir(owner) if tools and _function(owner, name) in tools)


def _function(owner: type, name: str) -> object:
    member: object = inspect.getattr_static(owner, name, None)
    return getattr(member, "__func__", member)


@lru_cache(maxsize=256)
def _output_of(output_type: object) -> StructuredOutputSpec | None:
    return StructuredOutputSpec.from_type(output_type) if output_type is not None else None


def _as_message(turn: ConversationTurn) -> ModelMessage:
    return ModelMessage.user(turn.content) if turn.role == "user" else ModelMessage.assistant(turn.content)


def _answers(pending: Sequence[AgentSignal]) -> dict[str, list[AgentSignal]]:
    answers: dict[str, list[AgentSignal]] = {}
    for signal in pending:
        if signal.kind is AgentSignalKind.APPROVAL_DECISION:
            answers.setdefault(str(signal.payload.get("request_id")), []).append(signal)
    return answers


def _question(definition: AgentDefinition, start: RunStart) -> str | None:
    """What the user said, for the conversation; an agent with an input of its own has no such thing."""
    return decode_instruction(start.input).prompt if definition.is_declarative else None
