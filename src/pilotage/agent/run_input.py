"""What a run is started or resumed with. Decisions of people are never in here: they travel as signals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from pilotage.agent.context import ContextDigest, ContextManifest, ContextPack
from pilotage.agent.messages import MediaPart, ModelMessage
from pilotage.agent.ports.model import ModelSelection
from pilotage.agent.tool_calling import ModelToolSpec
from pilotage.checks import reject_blank
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.values import shared, value


@value
class AgentContext:
    """The context a caller hands to a run."""

    packs: Sequence[ContextPack] = ()
    manifest: ContextManifest | None = None
    digest: ContextDigest | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "packs", tuple(self.packs))


@value
class RunAgentInput:
    """The input of one run; `state_id` is the run's id.

    `deferred_tools` are offered to the model besides the agent's own, and carried out by the caller: the run waits for
    what came of a call. Only a durable agent whose loop a model drives can wait so.
    """

    state_id: str
    instruction: str
    conversation_id: str | None = None
    parent_run_id: str | None = None
    resume: bool = False
    message_history: Sequence[ModelMessage] = ()
    model_selection: ModelSelection | None = None
    context: AgentContext = field(default_factory=shared(AgentContext))
    metadata: JsonObject = field(default_factory=empty_object)
    attachments: Sequence[MediaPart] = ()
    steering_input_required: bool = False
    deferred_tools: Sequence[ModelToolSpec] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.deferred_tools, tuple):
            object.__setattr__(self, "deferred_tools", tuple(self.deferred_tools))
        if not isinstance(self.message_history, tuple):
            object.__setattr__(self, "message_history", tuple(self.message_history))
        if not isinstance(self.attachments, tuple):
            object.__setattr__(self, "attachments", tuple(self.attachments))
        reject_blank(self, state_id=self.state_id, instruction=self.instruction)
        if self.conversation_id is not None or self.parent_run_id is not None:
            reject_blank(self, conversation_id=self.conversation_id, parent_run_id=self.parent_run_id)

    @property
    def effective_conversation_id(self) -> str:
        """The conversation the run belongs to; a run without one is its own."""
        return self.conversation_id or self.state_id
