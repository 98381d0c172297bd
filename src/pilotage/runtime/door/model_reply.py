"""The reply of a model as it is read: its text, its tokens, and the row it becomes.

No model reports the tokens of a reply that was left or broke off. Counting nothing would let a run that leaves every
stream early go on for ever, so what is not reported is estimated, and the record says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pilotage.agent.compaction import BYTE_ESTIMATOR
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.model_reply import (
    RESTARTED,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelUsage,
)
from pilotage.agent.model_stream import ReplyAssembly
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.errors import AgentStructuredOutputError, ModelCallError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json
from pilotage.runtime.budget.limits import PaidReply, believable, encode_paid, paid_replies
from pilotage.runtime.budget.spending import Costs
from pilotage.runtime.door.model_effect import ModelEffect
from pilotage.runtime.door.model_secrets import failure_without_secrets, misfit_without_secrets
from pilotage.runtime.door.run import Run
from pilotage.runtime.effect import NOTHING, ONE_STEP, new_outcome
from pilotage.runtime.exposure.redactor import public_text, recorded_reply, shown_request, shown_response
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import LimitReached
from pilotage.runtime.journal.records import (
    call_failure,
    encode_amount,
    encode_costs,
    encode_failure,
    encode_response,
    encode_usage,
)
from pilotage.runtime.journal.reply_parts import event_in_record_order
from pilotage.values import value


@value
class ReportedUsage:
    """The usage that a model reported in the middle of a stream, and how many pieces had come by then."""

    usage: ModelUsage
    pieces: int


@value
class PartialUsage:
    """The usage of a stream as far as it was read; `is_estimated` where the model did not report all of it."""

    usage: ModelUsage
    is_estimated: bool


def usage_of_left(effect: ModelEffect, pieces: Sequence[str], report: ReportedUsage | None) -> PartialUsage:
    """Return the usage of a request and of the pieces read of its reply; a report covers the pieces before it."""
    known = report.usage if report is not None else ModelUsage()
    reports_output = known.output_tokens is not None or known.total_tokens is not None
    uncounted = "".join(pieces[report.pieces if report is not None and reports_output else 0 :])
    output = (known.output_tokens or 0) + BYTE_ESTIMATOR.tokens_of(uncounted)
    if known.total_tokens is not None and known.input_tokens is None:
        total = known.total_tokens + BYTE_ESTIMATOR.tokens_of(uncounted)
        return PartialUsage(ModelUsage(None, None, total), bool(uncounted))
    read = known.input_tokens if known.input_tokens is not None else effect.request_tokens
    is_known = known.input_tokens is not None and known.output_tokens is not None and not uncounted
    return PartialUsage(ModelUsage(read, output, read + output), not is_known)


_UNANSWERED = frozenset({None, *(each.value for each in ModelFailure if each.is_unanswered)})
"""The failures of calls that no model answered; `None` is that of an adapter without words for failures."""


def _may_have_answered(error: Exception) -> bool:
    """Return whether a model may have written a reply before its call failed: after a timeout, or a broken line."""
    return not isinstance(error, ModelCallError) or error.failure not in _UNANSWERED


# Looking a member up costs as much as the rest of what a delta needs.
_MESSAGE, _CALL, _DONE = (
    ModelStreamEventKind.MESSAGE_DELTA,
    ModelStreamEventKind.TOOL_CALL_CANDIDATE,
    ModelStreamEventKind.DONE,
)
_DELTAS = (
    ModelStreamEventKind.TOKEN_DELTA,
    _MESSAGE,
    ModelStreamEventKind.REASONING_DELTA,
    ModelStreamEventKind.TOOL_CALL_ARGS_DELTA,
)


class ReplyRecorder(ReplyAssembly):
    """The reply to one request, as it is read: recorded, counted and observed when its stream ends."""

    took: BudgetAmount = NOTHING
    """The usage of a reply that ended early."""
    asked_at: float | None = None
    """When the model was asked, where telemetry observes it."""
    first_at: float | None = None
    """When the first event of the reply came, where telemetry observes it."""
    written: list[str] | None = None
    """The pieces as the model wrote them, where the secrets in them are masked."""
    _reported: ReportedUsage | None = None
    _paid: tuple[PaidReply, ...] = ()
    _costs: Costs = None
    """The prices of a reply that ended early, and of those before it."""

    def __init__(self, run: Run, effect: ModelEffect, restarts: int = 0, attaches_tools: bool = True) -> None:
        super().__init__()
        self._attaches_tools = attaches_tools
        """Whether the events of tool calls get the tools of the request, so that a program can invoke them."""
        self.restarts = restarts
        """How often the stream has begun anew in this attempt."""
        self._run = run
        self._effect = effect
        self._model = effect.source.name
        self._tools = effect.program_request.tool_calling

    def note(self, event: ModelStreamEvent) -> ModelStreamEvent:
        """Return the event as the reader gets it; its text counts, whether or not the stream completes.

        Raises:
            ModelCallError: the model reports an error, or announced a call that never came whole.
            AgentStructuredOutputError: the structured output is not of the type that was asked for.
        """
        if event.kind not in _DELTAS:
            event = event_in_record_order(event, self._calls)
        self.add(event)
        kind = event.kind
        if kind is _DONE:
            response = self.reply(event, self._effect.program_request.structured_output)
            usage = believable(response.usage)
            if usage is not response.usage:
                response = replace(response, usage=usage)
                return replace(event, response=response, usage=usage if event.usage else None)
            return event if response is event.response else replace(event, response=response)
        if self._attaches_tools and kind is _CALL and event.tools is None and self._tools is not None:
            event = event.with_tools(self._tools)
        if event.usage is not None:
            self._reported = ReportedUsage(believable(event.usage), len(self.pieces))
        elif event.metadata:
            self._paid += paid_replies(event.metadata)
        return event

    def end(self, response: ModelResponse) -> BudgetAmount:
        """Record the whole reply, and return its usage."""
        run = self._run
        paid: tuple[PaidReply, ...] = ()
        if response.metadata:
            self._model, paid = response.answered_by or self._model, paid_replies(response.metadata)
        costs = run.spending.costs_of(self._model, response.usage, paid)
        if run.ledger.is_durable:
            reasoning = "".join(self.reasoning)
            record: dict[str, JsonValue] = {words.RESULT: encode_response(response, reasoning)}
            if reasoning:
                record[words.REASONING] = reasoning
            record[words.MODEL] = self._model
            if costs is not None:
                record[words.COSTS] = encode_costs(costs)
            self._record(record)
        if not run.telemetry.is_idle:
            run.telemetry.count("agent.model.tokens", response.usage.total_tokens or 0)
            self._observe(response.usage, response.finish_reason, costs=costs, reply=response)
        effect = self._effect
        try:
            return run.spending.settle_model_call(
                self._model, response.usage, effect.held, paid, bounded=effect.bounded, costs=costs
            )
        except LimitReached:
            # What the budget holds for the call is all that is known of it.
            self.took = effect.held_in_budget
            raise

    def leave(self, *, is_stopped: bool) -> None:
        """Record the part read of a stream that its reader left; a stopped attempt repeats the call instead."""
        left = self._counted()
        self._observe(left.usage, "left", costs=self._costs)
        if not is_stopped:
            facts: JsonObject = {words.USAGE_ESTIMATED: True} if left.is_estimated else {}
            reply = ModelResponse("".join(self.text), usage=left.usage, metadata=facts)
            record: JsonObject = {words.RESULT: encode_response(reply), words.MODEL: self._model}
            self._record({**record, words.LEFT: True, **self._paid_record()})

    def fail(self, error: Exception) -> ModelCallError | AgentStructuredOutputError:
        """Record how the call failed, and return the error the program gets, now and in replay."""
        usage, took = self._taken(was_answered=_may_have_answered(error))
        self._observe(usage, error=str(getattr(error, "code", type(error).__name__)), costs=self._costs)
        if isinstance(error, AgentStructuredOutputError):
            error = misfit_without_secrets(error, self._run.redactor)
            misfit: JsonObject = {words.ERROR: str(error), words.PROBLEMS: list(error.problems)}
            self._record({**misfit, words.TEXT: "".join(self.text), **took})
            return error
        if isinstance(error, ModelCallError):
            failure = call_failure(error)
        else:
            place = f"{self._effect.action.id} attempt {self._effect.attempt}"
            failure = ModelCallError(public_text(error, self._run.redactor, run_id=self._run.id, place=place))
        failure = failure_without_secrets(failure, self._run.redactor)
        self._record({**encode_failure(failure), **took})
        return failure

    @property
    def pieces(self) -> list[str]:
        """The pieces of text and reasoning that the model has written so far."""
        return [*self.reasoning, *self.text] if self.written is None else self.written

    @property
    def has_begun(self) -> bool:
        """Whether anything of the reply came."""
        return bool(self.pieces or self.has_calls or self._reported is not None)

    def _paid_record(self) -> JsonObject:
        """Return what is recorded of the replies before this one, and of the prices of all of them."""
        paid: JsonObject = {words.PAID: encode_paid(self._paid)} if self._paid else {}
        return paid if self._costs is None else {**paid, words.COSTS: encode_costs(self._costs)}

    def cut(self) -> JsonObject:
        """Return the usage of a reply that its program cut short, as it is recorded."""
        usage, took = self._taken(was_answered=True)
        self._observe(usage, "cut_short", costs=self._costs)
        return took

    def discard(self, error: ModelCallError) -> JsonObject:
        """Count the part read of a reply that is asked for again, and return what is recorded of it.

        Its tokens count, its step does not: otherwise a long outage would reach the limit of the run.
        """
        run, usage = self._run, ModelUsage()
        record: dict[str, JsonValue] = {**encode_failure(call_failure(error)), words.MODEL: self._model}
        if self.has_begun or self._is_held(was_answered=_may_have_answered(error)):
            left = self._counted()
            usage = left.usage
            record[words.USAGE], record[words.USAGE_ESTIMATED] = encode_usage(usage), left.is_estimated
        else:
            self._release()
        if self.took is not NOTHING:
            record[words.SPENT] = encode_amount(self.took)
            record |= self._paid_record()
        run.spending.give_back(ONE_STEP)
        self._observe(usage, error=str(error.code), costs=self._costs)
        return record

    def _is_held(self, *, was_answered: bool) -> bool:
        """Return whether a call of which nothing was read counts by its hold: its model may have answered."""
        held = self._effect.held
        return was_answered and held is not None and held.is_open

    def _taken(self, *, was_answered: bool) -> tuple[ModelUsage, JsonObject]:
        """Count the usage of a reply that broke off, and return it with its record; of an unread one nothing."""
        if not self.has_begun and not self._is_held(was_answered=was_answered):
            self._release()
            paid = self._paid_record()
            return ModelUsage(), {words.MODEL: self._model, words.LEFT: True, **paid} if paid else {}
        left = self._counted()
        return left.usage, {
            words.MODEL: self._model,
            words.LEFT: True,
            words.USAGE: encode_usage(left.usage),
            words.USAGE_ESTIMATED: left.is_estimated,
            **self._paid_record(),
        }

    def _release(self) -> None:
        """Count the replies that were paid before a reply of which nothing came."""
        spending, held = self._run.spending, self._effect.held
        if self._paid:
            self._costs = spending.costs_of(self._model, ModelUsage(), self._paid)
            self.took = spending.count_left(self._model, ModelUsage(), held, self._paid, self._costs)
        else:
            spending.release(held)

    def _counted(self) -> PartialUsage:
        """Count the usage of a stream that ended early."""
        held = self._effect.held
        if held is not None and held.is_open and not self.has_begun:
            # Nothing is known of the reply: it may have come to its bound.
            left = PartialUsage(held.usage, is_estimated=True)
        else:
            left = usage_of_left(self._effect, self.pieces, self._reported)
        self._run.telemetry.count("agent.model.tokens", left.usage.total_tokens or 0)
        spending = self._run.spending
        self._costs = spending.costs_of(self._model, left.usage, self._paid)
        self.took = spending.count_left(self._model, left.usage, self._effect.held, self._paid, self._costs)
        return left

    def restart(self, number: int) -> ModelStreamEvent:
        """Return the event that takes back what its reader got of the reply so far."""
        facts: JsonObject = {
            RESTARTED: number,
            words.TEXT: bool(self.text),
            words.REASONING: bool(self.reasoning),
        }
        return ModelStreamEvent(_MESSAGE, metadata=facts)

    def _record(self, record: JsonObject) -> None:
        if self.restarts:
            record = {**record, words.RESTARTS: self.restarts}
        view = self._run.redactor.json(recorded_reply(record, self._tools))
        manifest = self._effect.manifest
        counted = self._effect.counted
        if counted is not None:
            manifest = {**(manifest or {}), words.COUNTED_TOKENS: counted}
        added = None if manifest is None else {words.MANIFEST: manifest}
        self._run.outcomes.record(self._effect, new_outcome(record, view, None, added))

    def _observe(
        self,
        usage: ModelUsage,
        finish_reason: str | None = None,
        error: str | None = None,
        costs: Costs = None,
        reply: ModelResponse | None = None,
    ) -> None:
        """Report the span of the call once it has ended: no code runs inside of a stream."""
        if self.asked_at is None:
            return
        run, effect = self._run, self._effect
        seconds, asked_at, self.asked_at = run.ports.clock.monotonic() - self.asked_at, self.asked_at, None
        cost = costs[0] if costs else None
        by = run.source.attribution
        run.telemetry.record(
            "agent.model_call",
            seconds,
            error,
            model=effect.source.name,
            action_id=effect.action.id,
            agent=by.agent_id,
            conversation=by.conversation_id,
            provider=effect.source.capability.provider,
            response_model=self._model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            cache_written_tokens=usage.cache_written_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            finish_reason=finish_reason,
            first_chunk_seconds=None if self.first_at is None else self.first_at - asked_at,
            cost=None if cost is None else float(cost.amount),
            cost_currency=None if cost is None else cost.currency,
            pricing_version=None if cost is None else cost.pricing_version,
            **self._content(reply),
        )

    def _content(self, reply: ModelResponse | None) -> dict[str, str]:
        """Return the messages of the call, as readers of the run may see them; nothing where telemetry wants none."""
        run = self._run
        if not run.telemetry.wants_content:
            return {}
        request = self._effect.request
        shown = [message_json(each) for each in shown_request(request, run.redactor).messages]
        content = {"input_messages": canonical_json(shown)}
        if reply is not None:
            content["output_messages"] = canonical_json(
                [message_json(shown_response(reply, request, run.redactor).message)]
            )
        return content


def message_json(message: ModelMessage) -> JsonObject:
    """Return a message as telemetry gets it: its role, its text, its calls; of media only the type."""
    calls: list[JsonValue] = [
        {words.CALL_ID: call.call_id, words.NAME: call.name, words.ARGUMENTS: call.arguments}
        for call in message.tool_calls
    ]
    return {
        "role": message.role.value,
        words.CONTENT: message.text,
        **({words.TOOL_CALLS: calls} if calls else {}),
        **({words.CALL_ID: message.tool_call_id} if message.tool_call_id is not None else {}),
    }
