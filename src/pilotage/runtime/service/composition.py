"""Putting an attempt at a run together from what its application, its agent and its record say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.events import AgentEventAttribution
from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.architecture import AgentSession, Dependencies
from pilotage.agent.ports.switches import IAgentSwitches
from pilotage.agent.principal import RunContext
from pilotage.agent.sealing_check import hidden_output
from pilotage.filling import unchecked
from pilotage.runtime.actions.action import Action
from pilotage.runtime.attempts.attempt import RunAttempt
from pilotage.runtime.attempts.cancellation import Cleanup
from pilotage.runtime.attempts.ending import Closing, Ending
from pilotage.runtime.attempts.program import Architected, HandWritten, Program
from pilotage.runtime.door.budget_warnings import BudgetWarnings
from pilotage.runtime.door.effects import Effects
from pilotage.runtime.door.handling import SignalHandling
from pilotage.runtime.door.late_outcomes import LateOutcomes
from pilotage.runtime.door.observing import Observer
from pilotage.runtime.door.prompt_snapshots import PromptSnapshots
from pilotage.runtime.door.tool_calls import ToolCalls
from pilotage.runtime.gate.gate import Gate
from pilotage.runtime.gate.spending import Spending
from pilotage.runtime.gate.switch_stage import SwitchStage
from pilotage.runtime.journal.input_record import Instruction, decode_input, decode_instruction
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.recording import Recording
from pilotage.runtime.journal.trace_record import last_trace
from pilotage.runtime.scoped.blocks import ScopedRuntime
from pilotage.runtime.scoped.children import INursery, teller_for
from pilotage.runtime.scoped.dependencies import DEFAULT_MAX_TURNS, RunDependencies
from pilotage.runtime.scoped.exits import with_exits
from pilotage.runtime.scoped.memory import ScopedMemory
from pilotage.runtime.scoped.model import ScopedModel
from pilotage.runtime.scoped.tools import ScopedTools
from pilotage.runtime.service.blueprint import blueprint_of
from pilotage.runtime.service.deferring import with_deferred
from pilotage.runtime.service.late_parts import LateParts, model_for
from pilotage.runtime.service.material import Material
from pilotage.runtime.service.services import Services
from pilotage.runtime.stream.exposure import Exposure
from pilotage.runtime.stream.piped import PipedTelling
from pilotage.runtime.stream.redactor import Redactor
from pilotage.runtime.stream.telling import KeptTelling, Telling
from pilotage.safety.trust import TrustLabel

_NOTHING_USED = ModelUsage(0, 0, 0)
_attributed = unchecked(AgentEventAttribution)


class Composer:
    """Makes attempts."""

    def __init__(self, services: Services, nursery: INursery) -> None:
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
            program: Program = HandWritten(material.instance, arguments, effects, by)
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

    def _telling(self, material: Material, by: AgentEventAttribution, exposure: Exposure) -> Telling:
        forward = teller_for(material.parent, by.run_id) if material.parent else None
        if not material.ledger.is_kept:
            return PipedTelling(exposure, forward)
        return KeptTelling(
            by, material.ledger, exposure, material.past.told if material.past else None, forward
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
            effects.observer = Observer(self._services.provided.telemetry)
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
    ) -> Architected:
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
        return Architected(drawn.architecture, session, dependencies, given.prompt, effects, recall)

    def _listen_for_loss(self, ledger: Ledger, effects: Effects) -> None:
        """Let others know what came of actions when somebody else has the run by then."""
        port = self._services.late_outcomes
        if port is not None:
            late = effects.outcomes.late = LateOutcomes(port, ledger.run, ledger.epoch)
            ledger.on_lost = late.tell_rows

    def _handling(
        self, material: Material, effects: Effects, tools: ToolCalls, by: AgentEventAttribution
    ) -> SignalHandling:
        definition = material.definition
        instance = material.instance or self._services.instance_of(definition)
        return SignalHandling(definition.signal_handlers, instance, effects, tools.recall_secrets, by)

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
