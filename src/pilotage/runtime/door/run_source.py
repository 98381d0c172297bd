"""The inputs of an attempt at a run: definition, start record, context, and the ports of the application."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.events import AgentEventAttribution
from pilotage.agent.ports.budget import IAgentPricing
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.handlers import IAgentRecoveryHandler, IAgentToolHandler
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.ports.observability import IAgentTelemetry
from pilotage.agent.ports.permissions import ISecrets
from pilotage.agent.principal import RunContext
from pilotage.agent.signals import AgentSignal, RejectionPolicy
from pilotage.ids import IClock, IIds
from pilotage.runtime.door.hooks import PortCaller
from pilotage.runtime.door.model_retry import MODEL_RETRY_DEFAULTS, ModelRetrySettings
from pilotage.runtime.journal.media import MediaStore
from pilotage.runtime.journal.start_record import RunStart
from pilotage.values import value


@value
class Overrides:
    """Values of one caller in place of the application's: a model, prices, telemetry, and no stream."""

    model: IAgentModel | None = None
    pricing: IAgentPricing | None = None
    telemetry: IAgentTelemetry | None = None
    is_streaming: bool = True


NO_OVERRIDES = Overrides()


@value
class RunPorts:
    """The ports of the application that effects use."""

    clock: IClock
    ids: IIds
    caller: PortCaller
    media: MediaStore
    secrets: ISecrets | None = None
    tool_handler: IAgentToolHandler | None = None
    recovery_handler: IAgentRecoveryHandler | None = None
    model_retries: ModelRetrySettings = MODEL_RETRY_DEFAULTS


@value
class RunSource:
    """The inputs of an attempt at a run, besides its journal.

    `pending` are the signals that waited when the attempt began, `history` the earlier turns of the conversation.
    """

    definition: AgentDefinition
    instance: object
    start: RunStart
    context: RunContext
    attribution: AgentEventAttribution
    deadline: datetime | None = None
    pending: Sequence[AgentSignal] = ()
    history: Sequence[ConversationTurn] = ()
    overrides: Overrides = NO_OVERRIDES

    @property
    def on_rejection(self) -> RejectionPolicy:
        """The policy of rejections: the choice of the caller, else that of the agent."""
        return self.start.on_rejection or self.definition.spec.on_rejection
