"""What an attempt at a run is made from. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import lru_cache, partial

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.events import AgentEventAttribution
from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.architecture import AgentSession, Dependencies
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.ports.pricing import IAgentPricing
from pilotage.agent.ports.switches import IAgentSwitches
from pilotage.agent.principal import RunContext
from pilotage.agent.sealing_check import hidden_output
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.filling import unchecked
from pilotage.runtime.architecture.blocks import ScopedRuntime
from pilotage.runtime.architecture.dependencies import DEFAULT_MAX_TURNS, RunDependencies, with_exits
from pilotage.runtime.architecture.memory import ScopedMemory
from pilotage.runtime.architecture.model import ScopedModel
from pilotage.runtime.architecture.tools import ScopedTools
from pilotage.runtime.budget.spending import Spending
from pilotage.runtime.budget.warnings import BudgetWarnings
from pilotage.runtime.children.children import Children, IChildLauncher, event_sink_for
from pilotage.runtime.context.fit import ContextStage
from pilotage.runtime.context.snapshots import PromptSnapshots
from pilotage.runtime.door.admission import Gate, SwitchStage
from pilotage.runtime.door.capabilities import models_held_by, within_length
from pilotage.runtime.door.model import RunAwareModel
from pilotage.runtime.door.outcome import LateOutcomes
from pilotage.runtime.door.run import Effects
from pilotage.runtime.door.tool_call import ToolCalls
from pilotage.runtime.events.writer import DirectEventWriter, DurableEventWriter, EventWriter
from pilotage.runtime.exposure.given_context import decode_context
from pilotage.runtime.exposure.modes import Exposure
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.history import RunHistory
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.lease import HeldLease
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.recording import Recording
from pilotage.runtime.journal.records import last_trace
from pilotage.runtime.journal.start_record import Instruction, RunStart, decode_input, decode_instruction
from pilotage.runtime.people.handlers import SignalHandlers
from pilotage.runtime.people.signals import MESSAGES, SignalPolicy, SignalQueue
from pilotage.runtime.people.waiting import Questions
from pilotage.runtime.run.attempt import RunAttempt
from pilotage.runtime.run.blueprint import Blueprint, blueprint_of, with_deferred
from pilotage.runtime.run.cancel import Cleanup
from pilotage.runtime.run.ending import Closing, Ending
from pilotage.runtime.run.models import selected_model
from pilotage.runtime.run.program import ArchitectureProgram, ExecuteProgram, Program
from pilotage.runtime.services import Services
from pilotage.runtime.telemetry import RunTelemetry
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
    """Everything an attempt is made from. A run that begins has no `past`; `deadline` is the one that holds, `history`
    came before the run.
    """

    definition: AgentDefinition
    instance: object
    start: RunStart
    ledger: Ledger
    past: RunHistory | None = None
    pending: Sequence[AgentSignal] = ()
    deadline: datetime | None = None
    history: Sequence[ConversationTurn] = ()
    parent: Effects | None = None
    hold: HeldLease | None = None
    overrides: Overrides = NO_OVERRIDES


class LateParts:
    """Makes the late parts of one run."""

    __slots__ = ("_material", "_nursery", "_services")

    def __init__(self, services: Services, nursery: IChildLauncher, material: Material) -> None:
        self._services = services
        self._nursery = nursery
        self._material = material

    def waits(self, effects: Effects) -> Questions:
        """The questions of a run to people."""
        return Questions(
            effects.ledger,
            effects.recording,
            _answers(self._material.pending),
            effects.clock,
            effects.ids,
            self._material.definition.spec.on_rejection,
            effects.redactor,
        )

    def inbox(self, effects: Effects) -> SignalQueue:
        """What is sent to a run."""
        hearing = _hearing(self._material.definition)
        return SignalQueue(
            effects.ledger, effects.recording, self._material.pending, effects.salt, hearing, effects.redactor
        )

    def children(self, effects: Effects) -> Children:
        """The runs that will belong to a run."""
        return Children(effects, self._material.start, self._nursery)

    def context(self, effects: Effects) -> ContextStage:
        """What the model gets to see of what a run wants to show it."""
        spec, handler = self._material.definition.spec, self._services.context_handler
        budget, given = spec.context_budget, decode_context(self._material.start.given)
        if budget is not None:
            budget = within_length(budget, self._models())
        return ContextStage(effects, budget, spec.compaction, handler, given)

    def _models(self) -> Sequence[IAgentModel]:
        """The models that a run may speak through: those it injects or, where a model drives it, that one."""
        material, definition = self._material, self._material.definition
        instance = material.instance or self._services.instance_of(definition)
        if not definition.is_declarative:
            return models_held_by(instance)
        return [model_for(self._services, material, blueprint_of(definition, instance, self._services))]


def model_for(services: Services, material: Material, drawn: Blueprint) -> IAgentModel:
    """The model that drives a run: its caller's, the one that was selected, its agent's, or the application's."""
    wanted, selected = material.overrides.model, material.start.model
    if wanted is not None:
        return wanted if isinstance(wanted, RunAwareModel) else RunAwareModel(wanted)
    if selected is not None:
        return selected_model(services.app, selected)
    return drawn.model or services.model


@lru_cache(maxsize=1024)
def _hearing(definition: AgentDefinition) -> SignalPolicy:
    accepted = MESSAGES.intersection(definition.spec.accepted_signals)
    return SignalPolicy(accepted, frozenset(definition.signal_handlers))


def _answers(pending: Sequence[AgentSignal]) -> dict[str, list[AgentSignal]]:
    answers: dict[str, list[AgentSignal]] = {}
    for signal in pending:
        if signal.kind is AgentSignalKind.APPROVAL_DECISION:
            answers.setdefault(str(signal.payload.get("request_id")), []).append(signal)
    return answers


_NOTHING_USED = ModelUsage(0, 0, 0)
_attributed = unchecked(AgentEventAttribution)


class Composer:
    """Makes attempts."""

    def __init__(self, services: Services, nursery: IChildLauncher) -> None:
        self._services = services
        self._nursery = nursery

    def compose(self, material: Material) -> RunAttempt:
        """An attempt that is ready to run."""
        definition, start, ledger = material.definition, material.start, material.ledger
        run_id = ledger.run.run_id
        # Names that we gave ourselves are no blanks; a conversation is what its caller calls it.
        attributed = _attributed if start.conversation is None else AgentEventAttribution
        by = attributed(start.agent, run_id, start.conversation or run_id, start.parent, start.branch)
        context = start.context(run_id)
        given = decode_instruction(start.input) if definition.is_declarative else None
        effects = self._effects(material, by, context)
        tools = ToolCalls(effects, context, self._services.secrets, self._services.tool_handler)
        closing = Closing(
            by,
            context,
            self._services.output_guard,
            partial(self._cleanup, material, context, tools),
            start.conversation if start.history is not None else None,
            # What the user said, for the conversation; an agent with an input of its own has no such thing.
            given.prompt if given else None,
            hidden_output(definition),
            definition.spec.human_time_counts,
        )
        self._equip(material, effects, by)
        if definition.signal_handlers:
            effects.handling = self._handling(material, effects, tools, by)
        if given is None:
            arguments = decode_input(definition, start.input)
            program: Program = ExecuteProgram(material.instance, arguments, effects, by)
        else:
            program = self._architected(material, effects, tools, given, by, context)
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

    def _effects(self, material: Material, by: AgentEventAttribution, context: RunContext) -> Effects:
        definition, start, ledger = material.definition, material.start, material.ledger
        services, spec = self._services, definition.spec
        redactor = Redactor(spec.redaction)
        parent = material.parent
        return Effects(
            ledger,
            Recording.of(material.past.actions if material.past else ()),
            Gate(start.principal, context, services.stages, start.capabilities),
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
            parts=LateParts(services, self._nursery, material),
        )

    def _telling(self, material: Material, by: AgentEventAttribution, exposure: Exposure) -> EventWriter:
        forward = event_sink_for(material.parent, by.run_id) if material.parent else None
        if not material.ledger.is_kept:
            return DirectEventWriter(exposure, forward)
        ledger, logged = material.ledger, material.past.told if material.past else None
        return DurableEventWriter(
            by, exposure, log=ledger.log, epoch=ledger.epoch, logged=logged, forward=forward
        )

    def _equip(self, material: Material, effects: Effects, by: AgentEventAttribution) -> None:
        """Give the effects what follows from the run's agent, its start and what came before it."""
        definition, start = material.definition, material.start
        effects.may_delegate = definition.spec.delegation_allowed
        if definition.spec.context_budget is not None or start.given:
            # A run that nobody keeps needs no manifest; what it is given or may not exceed is looked at all the same.
            effects.needs_context = True
        if start.trust:
            effects.trust = effects.trust.join(TrustLabel.from_payload(start.trust))
        for turn in material.history:
            # What an earlier run of the conversation read, this one is told of in its words.
            effects.trust = effects.trust.join(turn.trust)
        past = material.past
        if self._services.provided.telemetry is not None:
            effects.observer = RunTelemetry(self._services.provided.telemetry)
            effects.earlier_trace = last_trace(past.claims) if past else None
        if effects.gate.has_budget or effects.spending.own.is_bounded:
            warnings = BudgetWarnings(effects, by, past.told if past else ())
            effects.warnings, effects.gate.warns = warnings, warnings.tell
        if self._services.switches is not None:
            effects.switches = self._switches(self._services.switches, definition, material.ledger)
        if not material.ledger.is_kept:
            return
        effects.gate.settles_with = material.ledger.settle_budget
        self._listen_for_loss(material.ledger, effects)
        if definition.spec.prompt_snapshots:
            seals = self._services.seals(material.ledger.run)
            effects.prompts = PromptSnapshots(material.ledger, effects.redactor, seals)

    def _architected(
        self,
        material: Material,
        effects: Effects,
        tools: ToolCalls,
        given: Instruction,
        by: AgentEventAttribution,
        context: RunContext,
    ) -> ArchitectureProgram:
        definition, start, services = material.definition, material.start, self._services
        drawn = blueprint_of(definition, material.instance or services.instance_of(definition), services)
        offer = drawn.offer
        if start.capabilities is not None:
            offer = offer.within(start.capabilities)
        if start.deferred:
            offer = with_deferred(offer, start.deferred)
        dependencies: Dependencies = RunDependencies(
            effects,
            ScopedModel(model_for(services, material, drawn)),
            ScopedTools(offer, tools, effects),
            ScopedRuntime(effects),
            by,
            context,
            services.provided,
            drawn.instructions,
            drawn.output,
            definition.spec.limits.max_steps or DEFAULT_MAX_TURNS,
        )
        session = AgentSession(
            by.run_id,
            drawn.instructions,
            [*(turn.message for turn in material.history), *given.messages],
            cumulative_usage=_NOTHING_USED,
        )
        if start.exits:
            dependencies = with_exits(dependencies, drawn.architecture, start.exits)
        remembers = definition.spec.memory is not None
        recall = _recall(definition, services, effects, context, given.prompt) if remembers else None
        return ArchitectureProgram(drawn.architecture, session, dependencies, given.prompt, effects, recall)

    def _listen_for_loss(self, ledger: Ledger, effects: Effects) -> None:
        """Let others know what came of actions when somebody else has the run by then."""
        port = self._services.late_outcomes
        if port is not None:
            late = effects.outcomes.late = LateOutcomes(port, ledger.run, ledger.epoch)
            ledger.on_lost = late.tell_rows

    def _handling(
        self, material: Material, effects: Effects, tools: ToolCalls, by: AgentEventAttribution
    ) -> SignalHandlers:
        definition = material.definition
        instance = material.instance or self._services.instance_of(definition)
        return SignalHandlers(definition.signal_handlers, instance, effects, tools.recall_secrets, by)

    def _switches(self, switches: IAgentSwitches, definition: AgentDefinition, ledger: Ledger) -> SwitchStage:
        return SwitchStage(switches, definition.agent_id, ledger.run.tenant_id, is_kept=ledger.is_kept)


def _recall(
    definition: AgentDefinition, services: Services, effects: Effects, context: RunContext, question: str
) -> Callable[[], Awaitable[None]] | None:
    """What lets every model call of a run know what is remembered, where its agent wants that."""
    use, memory = definition.spec.memory, services.provided.memory
    if use is None or memory is None:
        return None

    async def recall() -> None:
        effects.context.also_show(await ScopedMemory(memory, effects, context).packs_for(use, question))

    return recall
