"""What a running tool knows about its call, and what a person is shown before it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from datetime import datetime

from pilotage.checks import reject_blank, reject_negative, reject_not_positive
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.values import value


def _never() -> bool:
    return False


@value
class CancellationToken:
    """Lets a tool that cannot be interrupted from outside, such as one in a thread, stop by itself."""

    probe: Callable[[], bool] = field(default=_never, repr=False)

    @property
    def is_cancelled(self) -> bool:
        return self.probe()

    def raise_if_cancelled(self) -> None:
        """Leave the tool when its run is being cancelled.

        Raises:
            asyncio.CancelledError: the run is being cancelled.
        """
        if self.probe():
            from asyncio import CancelledError  # noqa: PLC0415 - importing asyncio costs more than the rest

            raise CancelledError


@value
class AgentToolRuntimeContext:
    """The call a tool is part of; a tool gets it by a parameter called `runtime_context`.

    `idempotency_key` is the same for every attempt of one call: hand it to the outside system, so that a
    repeated attempt is recognised there. Left out, it is made from the state and the call.
    """

    state_id: str
    conversation_id: str
    call_id: str
    tool_name: str
    idempotency_key: str = ""
    attempt: int = 1
    epoch: int = 0
    deadline: datetime | None = None
    cancellation: CancellationToken = CancellationToken()

    def __post_init__(self) -> None:
        reject_blank(self, state_id=self.state_id, conversation_id=self.conversation_id, call_id=self.call_id)
        reject_blank(self, tool_name=self.tool_name)
        reject_not_positive(self, attempt=self.attempt)
        reject_negative(self, epoch=self.epoch)
        if not self.idempotency_key:
            object.__setattr__(self, "idempotency_key", f"{self.state_id}/{self.call_id}")


@value
class AgentToolApprovalContext:
    """What a person is shown before a tool call: a question, the action it is about, guarded details."""

    prompt: str
    action_ref: str
    metadata: JsonObject = field(default_factory=dict[str, JsonValue])

    def __post_init__(self) -> None:
        reject_blank(self, prompt=self.prompt, action_ref=self.action_ref)
