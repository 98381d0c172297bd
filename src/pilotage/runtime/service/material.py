"""What an attempt at a run is made from. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.ports.pricing import IAgentPricing
from pilotage.agent.signals import AgentSignal
from pilotage.runtime.door.effects import Effects
from pilotage.runtime.journal.leasing import Hold
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.start_record import RunStart
from pilotage.runtime.service.past import Past
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
    past: Past | None = None
    pending: Sequence[AgentSignal] = ()
    deadline: datetime | None = None
    history: Sequence[ConversationTurn] = ()
    parent: Effects | None = None
    hold: Hold | None = None
    overrides: Overrides = NO_OVERRIDES
