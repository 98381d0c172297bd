"""The parts of a run that many runs do without: each is made when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.runtime.door.context_stage import ContextStage
from pilotage.runtime.door.effects import Effects
from pilotage.runtime.door.inbox import Hearing, Inbox
from pilotage.runtime.door.run_aware_model import RunAwareModel
from pilotage.runtime.door.signal_words import MESSAGES
from pilotage.runtime.door.waits import Waits
from pilotage.runtime.gate.given_context import decode_context
from pilotage.runtime.scoped.children import Children, INursery
from pilotage.runtime.service.blueprint import Blueprint, blueprint_of
from pilotage.runtime.service.fitness import models_held_by, within_length
from pilotage.runtime.service.material import Material
from pilotage.runtime.service.model_choice import selected_model
from pilotage.runtime.service.services import Services


class LateParts:
    """Makes the late parts of one run."""

    __slots__ = ("_material", "_nursery", "_services")

    def __init__(self, services: Services, nursery: INursery, material: Material) -> None:
        self._services = services
        self._nursery = nursery
        self._material = material

    def waits(self, effects: Effects) -> Waits:
        """The questions of a run to people."""
        return Waits(
            effects.ledger,
            effects.recording,
            _answers(self._material.pending),
            effects.clock,
            effects.ids,
            self._material.definition.spec.on_rejection,
            effects.redactor,
        )

    def inbox(self, effects: Effects) -> Inbox:
        """What is sent to a run."""
        hearing = _hearing(self._material.definition)
        return Inbox(
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
def _hearing(definition: AgentDefinition) -> Hearing:
    accepted = MESSAGES.intersection(definition.spec.accepted_signals)
    return Hearing(accepted, frozenset(definition.signal_handlers))


def _answers(pending: Sequence[AgentSignal]) -> dict[str, list[AgentSignal]]:
    answers: dict[str, list[AgentSignal]] = {}
    for signal in pending:
        if signal.kind is AgentSignalKind.APPROVAL_DECISION:
            answers.setdefault(str(signal.payload.get("request_id")), []).append(signal)
    return answers
