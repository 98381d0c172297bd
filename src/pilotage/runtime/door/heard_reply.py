"""What is heard of a model's reply, and what becomes of it: written down, counted and observed when its stream ends."""

from __future__ import annotations

from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelStreamEventKind, ModelUsage
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.ports.journal import JournalStage
from pilotage.errors import AgentStructuredOutputError, ModelCallError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.actions.action import Action
from pilotage.runtime.door.effects import Effects
from pilotage.runtime.door.left_streams import ESTIMATED, LeftUsage, ToldUsage, usage_of_left
from pilotage.runtime.gate.model_views import recorded_reply
from pilotage.runtime.gate.spending import NOTHING
from pilotage.runtime.journal.amounts import encode_usage
from pilotage.runtime.journal.evidence_view import MANIFEST
from pilotage.runtime.journal.model_record import call_failure, encode_failure, encode_response

# Looking a member up costs as much as the rest of what a delta needs.
_TOKEN, _MESSAGE, _CALL = (
    ModelStreamEventKind.TOKEN_DELTA,
    ModelStreamEventKind.MESSAGE_DELTA,
    ModelStreamEventKind.TOOL_CALL_CANDIDATE,
)


class HeardReply:
    """The reply to one call of a model that is asked now; a recorded one needs none of this."""

    _told: ToldUsage | None = None
    took: BudgetAmount = NOTHING
    """What a reply took that did not come to its end."""
    asked_at: float | None = None
    """When the model was asked, where somebody observes it."""

    def __init__(
        self,
        effects: Effects,
        action: Action,
        model: str,
        request: ModelRequest,
        asked: ModelRequest,
        manifest: JsonObject | None,
        held: BudgetAmount,
    ) -> None:
        self._effects = effects
        self._action = action
        self._model = model
        self._tools = request.tool_calling
        self._asked = asked
        self._manifest = manifest
        self._held = held
        self.text: list[str] = []
        self._reasoning: list[str] = []

    def note(self, event: ModelStreamEvent) -> ModelStreamEvent:
        """The event as the reader gets it; what it says counts, whether or not the stream comes to its end."""
        kind = event.kind
        if kind is _TOKEN or kind is _MESSAGE:
            self.text.append(event.token_delta or event.message_delta or "")
        elif event.reasoning_delta is not None:
            self._reasoning.append(event.reasoning_delta)
        elif kind is _CALL and event.tools is None and self._tools is not None:
            event = event.with_tools(self._tools)
        if event.usage is not None and event.response is None:
            self._told = ToldUsage(event.usage, len(self._reasoning) + len(self.text))
        return event

    def end(self, response: ModelResponse) -> BudgetAmount:
        """The reply is there: write it down, and say what it took."""
        effects = self._effects
        if response.metadata:
            self._model = response.answered_by or self._model
        if effects.is_kept:
            record: dict[str, JsonValue] = {"result": encode_response(response)}
            if self._reasoning:
                record["reasoning"] = "".join(self._reasoning)
            record["model"] = self._model
            self._record(record)
        if not effects.observer.is_idle:
            effects.observer.count("agent.model.tokens", response.usage.total_tokens or 0)
            self._observe(response.usage, response.finish_reason)
        return effects.spending.settle_model_call(self._model, response.usage, self._held)

    def leave(self, *, is_stopped: bool) -> None:
        """Record what was read; an attempt that is being stopped has not left, and makes the call again."""
        left = self._counted()
        self._observe(left.usage, "left")
        if not is_stopped:
            facts: JsonObject = {ESTIMATED: True} if left.is_estimated else {}
            reply = ModelResponse("".join(self.text), usage=left.usage, metadata=facts)
            self._record({"result": encode_response(reply), "model": self._model, "left": True})

    def fail(self, error: Exception) -> ModelCallError | AgentStructuredOutputError:
        """Write down how the call failed, and give the error the program gets, now and in replay."""
        took: JsonObject = {}
        usage = ModelUsage()
        if self.text or self._reasoning or self._told is not None:
            left = self._counted()
            usage = left.usage
            took = {
                "model": self._model,
                "left": True,
                "usage": encode_usage(left.usage),
                ESTIMATED: left.is_estimated,
            }
        else:
            self._effects.spending.let_go(self._held)
        self._observe(usage, error=str(getattr(error, "code", type(error).__name__)))
        if isinstance(error, AgentStructuredOutputError):
            said = "".join(self.text)
            self._record({"error": str(error), "problems": list(error.problems), "text": said, **took})
            return error
        failure = call_failure(error)
        self._record({**encode_failure(failure), **took})
        return failure

    def _counted(self) -> LeftUsage:
        """What a stream took that does not come to its end; from here on it counts."""
        left = usage_of_left(self._asked, [*self._reasoning, *self.text], self._told)
        self._effects.observer.count("agent.model.tokens", left.usage.total_tokens or 0)
        self.took = self._effects.spending.count_left(self._model, left.usage, self._held)
        return left

    def _record(self, record: JsonObject) -> None:
        view = self._effects.redactor.json(recorded_reply(record, self._tools))
        added = None if self._manifest is None else {MANIFEST: self._manifest}
        self._effects.ledger.append(self._action, JournalStage.AFTER, 1, record, view, None, added)

    def _observe(self, usage: ModelUsage, finish_reason: str | None = None, error: str | None = None) -> None:
        """A span of the call, once it has come to its end: nobody is inside of a stream."""
        if self.asked_at is None:
            return
        seconds, self.asked_at = self._effects.clock.monotonic() - self.asked_at, None
        self._effects.observer.record(
            "agent.model_call",
            seconds,
            error,
            model=self._model,
            action_id=self._action.id,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            finish_reason=finish_reason,
        )
