"""Composition of an attempt at a run from its application, its agent and its history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.events import AgentEventAttribution
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.architecture import AgentSession, Dependencies
from pilotage.agent.ports.conversations import ConversationTurn, ITaskStore
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.architecture.dependencies import (
    DEFAULT_MAX_TURNS,
    RunDependencies,
    ScopedModel,
    with_exits,
)
from pilotage.runtime.architecture.memory import ScopedMemory
from pilotage.runtime.architecture.tools import ScopedTools
from pilotage.runtime.budget.limits import BudgetWarnings
from pilotage.runtime.budget.spending import Spending
from pilotage.runtime.catalogs import PROVIDED
from pilotage.runtime.children.children import Children
from pilotage.runtime.children.launch import ChildLauncher
from pilotage.runtime.children.tasks import output_of
from pilotage.runtime.context.evidence import PromptSnapshots
from pilotage.runtime.context.fit import ContextStage
from pilotage.runtime.context.prefix import PrefixShares
from pilotage.runtime.door.model import RunAwareModel, models_held_by, within_length
from pilotage.runtime.door.model_acts import count_lost, lost_holds
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.run_source import NO_OVERRIDES, Overrides, RunSource
from pilotage.runtime.door.shared_state import SharedState, given_state
from pilotage.runtime.door.signals import SignalHandlers
from pilotage.runtime.door.tool_call import ToolCalls, tools_in_threads
from pilotage.runtime.events.writer import DirectEventWriter, DurableEventWriter, EventWriter
from pilotage.runtime.exposure.modes import Exposure
from pilotage.runtime.exposure.redactor import public_text
from pilotage.runtime.exposure.trust import decode_context
from pilotage.runtime.history import RunHistory
from pilotage.runtime.journal.durable_replay import DurableReplay
from pilotage.runtime.journal.lease import HeldLease
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.media import RunMedia
from pilotage.runtime.journal.recovery import LateOutcomes
from pilotage.runtime.journal.replay import Replay
from pilotage.runtime.journal.run_input import Instruction, decode_input, decode_instruction
from pilotage.runtime.journal.scope import Action
from pilotage.runtime.journal.start_record import RunStart, first_trace
from pilotage.runtime.people.questions import Questions
from pilotage.runtime.people.signals import MESSAGES, SignalPolicy, SignalQueue
from pilotage.runtime.people.steering import SteeringInputs
from pilotage.runtime.run.attempt import RunAttempt
from pilotage.runtime.run.blueprint import Blueprint, RunPlan, blueprint_of, plan_of, with_deferred
from pilotage.runtime.run.cancel import Cleanup
from pilotage.runtime.run.conversation import messages_of
from pilotage.runtime.run.ending import Ending, OpenTurn
from pilotage.runtime.run.model_choice import context_policy, selected_model
from pilotage.runtime.run.pausing import is_paused_by_person
from pilotage.runtime.run.program import ArchitectureProgram, ExecuteProgram, Program
from pilotage.runtime.run.resumption import ResumptionGate, were_people_asked
from pilotage.runtime.services import Services
from pilotage.runtime.telemetry import RunTelemetry
from pilotage.safety.trust import TrustLabel
from pilotage.values import value

_NOTHING_USED = ModelUsage(0, 0, 0)
_new_source = unchecked(RunSource)


@value
class Claimed:
    """A run that this process has claimed. `history` holds the rows of earlier attempts, None for a run that begins.

    `found` is the state before the claim, which may have changed it.
    """

    definition: AgentDefinition
    instance: object
    start: RunStart
    ledger: Ledger
    history: RunHistory | None = None
    pending: Sequence[AgentSignal] = ()
    deadline: datetime | None = None
    turns: Sequence[ConversationTurn] = ()
    parent: Run | None = None
    lease: HeldLease | None = None
    overrides: Overrides = NO_OVERRIDES
    found: AgentState | None = None


new_claimed = unchecked(Claimed)


class Composer:
    """Composes attempts."""

    def __init__(self, services: Services, launcher: ChildLauncher) -> None:
        self._services = services
        self._launcher = launcher
        self._plans: dict[str, RunPlan] = {}
        self._parts: dict[type[Any], Callable[[Run], Any]] = {
            Questions: _questions,
            SignalQueue: _signals,
            PrefixShares: lambda _: PrefixShares(),
            RunMedia: _media,
            ContextStage: self._context_stage,
            Children: self._children,
            SignalHandlers: _handlers,
            SharedState: _shared_state,
        }

    def compose(self, claimed: Claimed) -> RunAttempt:
        """Return an attempt that is ready to be driven."""
        start, plan = claimed.start, self._plan(claimed.definition)
        run = self._run(claimed, plan)
        tools = ToolCalls(run)
        if run.ports.secrets is not None:
            run.recall_secrets = tools.recall_secrets
        if run.handles_signals:
            run.at_boundary = run.part(SignalHandlers).before
        turn: OpenTurn | None = None
        if plan.is_declarative:
            instruction = decode_instruction(start.input)
            program: Program = self._architecture_program(tools, instruction)
            if start.history is not None and start.conversation is not None:
                turn = OpenTurn(start.conversation, instruction, self._task_store(run))
        else:
            program = ExecuteProgram(run, decode_input(plan.definition, start.input))
        gate = None if claimed.found is None else self._gate(run, claimed.found)
        return RunAttempt(
            tools, program, Ending(run, plan.ending, turn), self._services.pending_signals, gate
        )

    def _plan(self, definition: AgentDefinition) -> RunPlan:
        """Return the plan of an agent's runs, made for the first of them."""
        known = self._plans.get(definition.agent_id)
        if known is None or known.definition is not definition:
            known = self._plans[definition.agent_id] = plan_of(definition, self._services, self._cleanup)
        return known

    def _task_store(self, run: Run) -> ITaskStore | None:
        """Return the store that gets the turns of a durable run after its end; None for the journal's own."""
        if run.source.start.history is None or not run.ledger.is_durable:
            return None
        store = self._services.conversations
        return None if store is None or store.is_journaled else store

    def _gate(self, run: Run, found: AgentState) -> ResumptionGate | None:
        """Return the gate of an attempt that finds its run stopped by a person; None without a question about it."""
        if found.status is AgentStatus.ACTIVE:
            return None
        is_stopped = found.status is AgentStatus.CANCELLING or is_paused_by_person(found)
        is_asked = is_stopped and self._services.gate.approval is not None
        return ResumptionGate(run, found) if is_asked or were_people_asked(run) else None

    def _run(self, claimed: Claimed, plan: RunPlan) -> Run:
        start, ledger, history, parent = claimed.start, claimed.ledger, claimed.history, claimed.parent
        services, overrides, source = self._services, claimed.overrides, _source(claimed)
        redactor = plan.redactor or services.redactor(plan.definition, ledger.run.tenant_id)
        exposure = plan.exposure or Exposure(plan.definition.spec.effective_exposure_mode, redactor)
        run = Run(
            source,
            services.run_ports,
            ledger,
            _replay(ledger, history),
            self._events(claimed, source.attribution, exposure),
            redactor=redactor,
            spending=Spending(
                start.limits, overrides.pricing or plan.pricing, parent.spending if parent else None
            ),
            admission=plan.admission
            if claimed.deadline is None
            else services.admission(plan.definition, has_deadline=True),
            lease=claimed.lease,
            parts=self._parts,
        )
        if run.spending.is_metered and history is not None:
            run.lost_holds = lost_holds(history.actions)
            count_lost(run.lost_holds, run.spending)
        self._equip(run, plan, history)
        return run

    def _events(self, claimed: Claimed, by: AgentEventAttribution, exposure: Exposure) -> EventWriter:
        parent, history = claimed.parent, claimed.history
        forward = parent.part(Children).event_sink(by.run_id) if parent else None
        if not claimed.ledger.is_durable:
            return DirectEventWriter(exposure, forward)
        ledger, logged = claimed.ledger, history.events if history else None
        return DurableEventWriter(
            by, exposure, log=ledger.log, epoch=ledger.epoch, logged=logged, forward=forward
        )

    def _equip(self, run: Run, plan: RunPlan, history: RunHistory | None) -> None:
        """Give the run the parts that follow from its plan, its start and its history."""
        source, start = run.source, run.source.start
        if plan.is_context_fitted or start.given:
            # An ephemeral run needs no manifest; what it is given or may not exceed is fitted all the same.
            run.is_context_fitted = True
        if start.trust:
            run.trust = run.trust.join(TrustLabel.from_payload(start.trust))
        if hasattr(source.instance, PROVIDED):
            provided = self._services.catalogs.provided(source.instance)
            if provided is not None and provided.descriptions is not None:
                run.trust = run.trust.join(provided.descriptions)
        for turn in source.history:
            # The history of the conversation has the content that earlier runs have read.
            run.trust = run.trust.join(turn.trust)
        run.hooks = plan.hooks
        run.outcomes.agent_version = plan.definition.spec.version
        run.outcomes.has_readers = run.ledger.is_durable or plan.hooks is not None
        telemetry = source.overrides.telemetry or plan.telemetry
        if telemetry is not None:
            run.telemetry = RunTelemetry(telemetry)
            run.earlier_trace = first_trace(history.claims) if history else None
        if plan.warns or run.spending.own.is_bounded:
            logged = history.events if history else ()
            run.warnings = BudgetWarnings(run.events, run.telemetry, source.attribution, logged)
        if run.ledger.is_durable:
            self._equip_durable(run)

    def _equip_durable(self, run: Run) -> None:
        services = self._services
        if services.late_outcomes is not None:
            # Outcomes of actions that end when another owner has the run.
            late = LateOutcomes(services.late_outcomes, run.ledger.run, run.ledger.epoch)
            run.outcomes.late, run.ledger.on_lost = late, late.report_rows
        if run.source.definition.spec.prompt_snapshots:
            run.prompts = PromptSnapshots(run.ledger, run.redactor, services.seals(run.ledger.run))

    def _cleanup(self, run: Run) -> Cleanup:
        key, principal = run.ledger.run, run.source.start.principal

        async def cancel_child(action: Action) -> None:
            await self._launcher.cancel_child(key, action, principal)

        return Cleanup(
            run.context,
            lambda error, place: public_text(error, run.redactor, run_id=run.id, place=place),
            self._services.cleanups,
            cancel_child if run.ledger.is_durable else None,
            partial(tools_in_threads, key),
        )

    def _architecture_program(self, tools: ToolCalls, instruction: Instruction) -> Program:
        run, services = tools.run, self._services
        source, definition, start = run.source, run.source.definition, run.source.start
        drawn = blueprint_of(definition, source.instance or self._instance(run), services)
        run.replay.shields = drawn.shields
        offer = drawn.offer
        if start.capabilities is not None:
            offer = offer.within(start.capabilities)
        if start.deferred:
            offer = with_deferred(offer, start.deferred)
        model = self._model(run, drawn)
        dependencies: Dependencies = RunDependencies(
            run,
            ScopedModel(model, run),
            ScopedTools(offer, tools),
            services.provided,
            instructions=drawn.instructions,
            output=drawn.output or (output_of(start.packet) if start.delegation else None),
            max_turns=start.limits.max_steps or DEFAULT_MAX_TURNS,
            # Readers of a durable run come and go.
            streaming=run.ledger.is_durable or source.overrides.is_streaming,
        )
        earlier: Sequence[ModelMessage] = ()
        if source.history:
            earlier = messages_of(source.history, definition.spec.media_limits, model.capability.media_types)
        session = AgentSession(
            run.id,
            drawn.instructions,
            [*earlier, *instruction.messages],
            cumulative_usage=_NOTHING_USED,
        )
        if start.exits:
            dependencies = with_exits(dependencies, drawn.architecture, start.exits)
        program = ArchitectureProgram(drawn.architecture, session, dependencies, instruction.prompt, run)
        if definition.spec.memory is not None:
            program.recall = self._recall(run, instruction.prompt)
        return program

    def _recall(self, run: Run, question: str) -> Callable[[], Awaitable[None]] | None:
        """Return the function that adds the memories of its user to every model call of a run."""
        use, memory = run.source.definition.spec.memory, self._services.provided.memory
        if use is None or memory is None:
            return None

        async def recall() -> None:
            run.context_stage.also_show(await ScopedMemory(memory, run).packs_for(use, question))

        return recall

    def _children(self, run: Run) -> Children:
        return Children(run, self._launcher)

    def _context_stage(self, run: Run) -> ContextStage:
        budget = run.source.definition.spec.effective_context_budget
        if budget is not None:
            budget = within_length(budget, self._models(run))
        policy = context_policy(run, self._services, budget)
        given = decode_context(run.source.start.given)
        return ContextStage(policy, given, run.salt, is_durable=run.ledger.is_durable)

    def _models(self, run: Run) -> Sequence[IAgentModel]:
        """Return the models that a run may use: those its agent injects or, for a declarative agent, its model."""
        if not run.source.definition.is_declarative:
            return models_held_by(self._instance(run))
        return [self._model(run, self._blueprint(run))]

    def _model(self, run: Run, drawn: Blueprint) -> RunAwareModel:
        """Return the model of a run: its caller's, the one that was chosen, its agent's, or the application's."""
        wanted, chosen = run.source.overrides.model, run.source.start.chosen_model
        if wanted is not None:
            model = wanted
        elif chosen is not None:
            model = selected_model(self._services.app, chosen)
        else:
            model = drawn.model or self._services.model
        return model if isinstance(model, RunAwareModel) else RunAwareModel(model)

    def _blueprint(self, run: Run) -> Blueprint:
        return blueprint_of(run.source.definition, self._instance(run), self._services)

    def _instance(self, run: Run) -> object:
        return run.source.instance or self._services.instance_of(run.source.definition)


def _replay(ledger: Ledger, history: RunHistory | None) -> Replay:
    if not ledger.is_durable:
        return Replay(ledger)
    return (
        DurableReplay(ledger)
        if history is None
        else DurableReplay(ledger, history.actions, history.claims, history.stretches)
    )


def _source(claimed: Claimed) -> RunSource:
    start, run_id = claimed.start, claimed.ledger.run.run_id
    return _new_source(
        definition=claimed.definition,
        instance=claimed.instance,
        start=start,
        context=start.context(run_id),
        attribution=start.attribution(run_id),
        deadline=claimed.deadline,
        pending=claimed.pending,
        history=claimed.turns,
        overrides=claimed.overrides,
    )


def _questions(run: Run) -> Questions:
    answers: dict[str, list[AgentSignal]] = {}
    for signal in run.source.pending:
        if signal.kind is AgentSignalKind.APPROVAL_DECISION:
            answers.setdefault(str(signal.payload.get("request_id")), []).append(signal)
    on_rejection = run.source.on_rejection
    return Questions(
        ledger=run.ledger,
        answers=answers,
        on_rejection=on_rejection,
        redactor=run.redactor,
        clock=run.ports.clock,
        ids=run.ports.ids,
    )


def _signals(run: Run) -> SignalQueue:
    policy, has_recorded = _signal_policy(run.source.definition), run.replay.has_any(AgentActionKind.SIGNAL)
    return SignalQueue(
        run.ledger,
        run.source.pending,
        policy,
        run.redactor,
        salt=run.salt,
        has_recorded=has_recorded,
        steering=partial(_steering_inputs, run.replay),
    )


def _media(run: Run) -> RunMedia:
    limits, is_durable = run.source.definition.spec.media_limits, run.ledger.is_durable
    return RunMedia(run.ports.media, run.ledger.run, limits, is_durable=is_durable)


def _shared_state(run: Run) -> SharedState:
    return SharedState(partial(_given_state, run.source.start.given))


def _given_state(given: JsonObject) -> JsonValue:
    return given_state(decode_context(given))


def _steering_inputs(replay: Replay) -> SteeringInputs:
    return SteeringInputs(replay.outcomes_of(AgentActionKind.SIGNAL), replay.claims)


def _handlers(run: Run) -> SignalHandlers:
    return SignalHandlers(
        run, run.source.definition.signal_handlers, run.source.instance, ToolCalls(run).recall_secrets
    )


@lru_cache(maxsize=1024)
def _signal_policy(definition: AgentDefinition) -> SignalPolicy:
    accepted = MESSAGES.intersection(definition.spec.accepted_signals)
    untrusted = frozenset(definition.spec.untrusted_signals)
    return SignalPolicy(accepted, frozenset(definition.signal_handlers), untrusted)
