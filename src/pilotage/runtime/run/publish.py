"""The answer of a run: checked by its guards, approved where the application requires it, sensitive parts hidden."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import StrEnum

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.handlers import AgentOutputGuardProfile, IAgentOutputGuard
from pilotage.agent.principal import RunContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentSituation
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import AgentOutputGuardError, ToolError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, text_digest, to_json_value
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.hooks import NoAnswerError
from pilotage.runtime.door.run import Run
from pilotage.runtime.effect import PUBLICATION, Effect, Outcome, new_outcome
from pilotage.runtime.exposure.redactor import secretless
from pilotage.runtime.exposure.trust import with_label
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import RunEnded
from pilotage.runtime.journal.records import Answer, encode_result
from pilotage.runtime.journal.scope import RESULT, Action, StepScope
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.safety.guard import guard_json_value


class GuardVerdict(StrEnum):
    """The verdict of the guards of a profile on an output."""

    PASSED = "passed"
    CHANGED = "changed"
    REFUSED = "refused"


class OutputCheck:
    """Checks the output of one attempt with all its guards; one that breaks refuses the output."""

    def __init__(
        self, run: Run, guard: IAgentOutputGuard | None, profile: AgentOutputGuardProfile | None
    ) -> None:
        self._run = run
        self._guard = guard
        self._profile = () if profile is None else profile.guards
        self._verdict: GuardVerdict | None = None

    async def checked(self, output: object) -> object:
        """Return the output as the guards let it pass.

        Raises:
            AgentOutputGuardError: it must not leave.
        """
        given = to_json_value(output)
        passed = given if self._guard is None else await self._passed(self._guard, given)
        if self._profile:
            passed = await self._passed_by_profile(passed)
        return output if passed == given else passed

    def record(self) -> None:
        """Add evidence of the verdict of the agent's guards, if they were asked."""
        if self._verdict is None:
            return
        ledger, run_id = self._run.ledger, self._run.id
        payload: JsonObject = {
            "kind": "output_guard_profile",
            "profile": self._run.source.definition.spec.output_guard,
            "guards": [type(guard).__name__ for guard in self._profile],
            "verdict": self._verdict.value,
        }
        ledger.add_evidence(
            AgentEvidence(
                f"{run_id}:output_guard_profile@{ledger.epoch}",
                run_id,
                AgentEvidenceKind.OUTPUT_GUARD,
                payload,
                summary=f"the output guards of the agent: {self._verdict.value}",
                digest=text_digest(canonical_json(payload)),
            )
        )

    async def _passed_by_profile(self, given: JsonValue) -> JsonValue:
        self._verdict, passed = GuardVerdict.REFUSED, given
        for guard in self._profile:
            passed = await self._passed(guard, passed)
        self._verdict = GuardVerdict.PASSED if passed == given else GuardVerdict.CHANGED
        return passed

    async def _passed(self, guard: IAgentOutputGuard, output: JsonValue) -> JsonValue:
        """Return what a guard lets pass; one that raises, hangs or returns None for an answer refuses it."""
        try:
            answer = await self._run.ports.caller.ask((object,), _verdict, guard, self._run.context, output)
        except NoAnswerError as error:
            raise _refused(guard, f"failed ({error})") from None
        if isinstance(answer, AgentOutputGuardError):
            raise answer
        if answer is None and output is not None:
            raise _refused(guard, "returned None")
        try:
            return to_json_value(answer)
        except TypeError as error:
            raise _refused(guard, f"returned a value of {type(answer).__name__}, which is no JSON") from error


def _refused(guard: IAgentOutputGuard, why: str) -> AgentOutputGuardError:
    name = type(guard).__name__
    return AgentOutputGuardError(f"the output guard {name!r} {why}, so the answer is refused")


async def _verdict(guard: IAgentOutputGuard, context: RunContext, output: JsonValue) -> object:
    """Return what a guard lets pass, or its refusal as a value: its words are for the caller of the run."""
    try:
        return await guard.check(context, output)
    except AgentOutputGuardError as refusal:
        return refusal


_EMPTY = (None, "")
_RUN = StepScope("run")
"""The scope of all publications: no call is made in it."""


_RESULT_OF = (RESULT, AgentActionKind.VALUE, "result")
_EPHEMERAL_RESULT = Action(*_RESULT_OF, None, None, Idempotency.IDEMPOTENT, is_read_only=True, fingerprint="")


class Publication(Effect):
    """Publishing an answer: admitted as a whole, settled, then recorded as the result of the run.

    `settle` brings everything under way to its end, once the answer may leave. The result is the record.
    """

    kind = PUBLICATION
    boundary = AgentApprovalBoundaryKind.FINAL_PUBLICATION

    def __init__(self, publisher: Publisher, answer: Answer, settle: Callable[[], Awaitable[None]]) -> None:
        self.scope = _RUN
        self.action = publisher.action
        self.is_recorded = publisher.is_durable
        self._publisher = publisher
        self._answer = answer
        self._settle = settle

    @property
    def asked_about(self) -> Action:
        output = to_json_value(self._answer.output)
        return self._publisher.action_of(output)

    async def act(self) -> object:
        await self._settle()
        record = self._publisher.encoded(self._answer)
        return self._publisher.outcome(record) if self.is_recorded else record

    def rejected(self, rejection: ToolError) -> BaseException:
        return RunEnded(AgentSituation.APPROVAL_REJECTED, str(rejection))


class Publisher:
    """Publishes the answer of one attempt; an answer that was refused once does not leave as a partial one.

    `check` is that of the output guards, before it is published, None without any; `sensitive` are the parts of it that
    others must not read.
    """

    def __init__(
        self, run: Run, check: OutputCheck | None, sensitive: tuple[SensitiveFieldDescriptor, ...]
    ) -> None:
        self.is_durable = run.ledger.is_durable
        self._run = run
        self.check = check
        self._sensitive = sensitive
        self._is_refused = False

    async def guarded(self, answer: Answer) -> Answer:
        """Return the answer as its guard lets it pass.

        Raises:
            AgentOutputGuardError: it must not leave.
        """
        if self.check is None:
            return answer
        try:
            output = await self.check.checked(answer.output)
        except AgentOutputGuardError:
            self._is_refused = True
            raise
        return answer if output is answer.output else replace(answer, output=output)

    async def publish(self, answer: Answer, settle: Callable[[], Awaitable[None]]) -> JsonObject:
        """Publish a whole answer and return the record of the result.

        Raises:
            RunEnded: the answer of a person is a rejection.
            Paused: a person is asked first.
        """
        try:
            record: JsonObject = await perform(self._run, Publication(self, answer, settle))
        except RunEnded:
            self._is_refused = True
            raise
        return record

    async def partial(self, answer: Answer) -> Answer:
        """Return the output of a run that ends without an answer: nothing that was refused or needs approval."""
        output = _as_json(answer.output)
        if output in _EMPTY:
            return answer
        question = Publication(self, replace(answer, output=output), _nothing_to_settle)
        if self._is_refused or await self._run.admission.wants_approval(self._run, question) is not None:
            return replace(answer, output=None)
        if self.check is None:
            return replace(answer, output=output)
        try:
            return replace(answer, output=await self.check.checked(output))
        except AgentOutputGuardError:
            return replace(answer, output=None)

    def record_verdict(self) -> None:
        """Add evidence of the verdict of the agent's output guards, with the commit that ends the run."""
        if self.check is not None:
            self.check.record()

    def record_partial(self, answer: Answer, error: JsonObject, hidden: str | None = None) -> JsonObject:
        """Record the partial answer of a run that stops early, and return the record.

        `hidden` are words of the error for the sealed record; without a key they are left out.
        """
        record = self.encoded(answer, error)
        publication = Publication(self, answer, _nothing_to_settle)
        if self.is_durable:
            outcome = self.outcome(record)
            if hidden is not None and self._run.ledger.has_key:
                whole = {**outcome.record, words.ERROR: {**error, words.WORDS: hidden}}
                outcome = new_outcome(whole, outcome.view, record)
            self._run.outcomes.record(publication, outcome)
        return record

    def encoded(self, answer: Answer, error: JsonObject | None = None) -> JsonObject:
        """Return the record of an answer; for an ephemeral run only the part for its readers."""
        if not self.is_durable:
            return {"result": to_json_value(answer.output)}
        return encode_result(answer, self._run.spending.spent, error)

    def outcome(self, record: JsonObject) -> Outcome:
        """Return the record and the view of an answer."""
        run = self._run
        recorded = secretless(with_label(record, run.trust), run.redactor)
        return new_outcome(recorded, self.view_of(recorded), record)

    def view_of(self, record: JsonObject) -> JsonObject:
        """Return the view of the record of a result."""
        if self._sensitive:
            record = {**record, "result": guard_json_value(record["result"], self._sensitive)}
        redactor = self._run.redactor
        return record if redactor.is_idle else redactor.json(record)

    @property
    def action(self) -> Action:
        """The action of the result; that of an ephemeral run has no fingerprint, so it is the same for all of them."""
        return self._run.action(*_RESULT_OF) if self.is_durable else _EPHEMERAL_RESULT

    def action_of(self, output: JsonValue) -> Action:
        """Return the action that a person is asked about: the answer is bound to this output."""
        view = self.view_of({"result": output})["result"]
        return self._run.action(RESULT, AgentActionKind.VALUE, "result", output, view)


async def _nothing_to_settle() -> None:
    return


def _as_json(output: object) -> JsonValue:
    """Return a partial output as JSON; one that has no JSON form is put in words."""
    try:
        return to_json_value(output)
    except (TypeError, ValueError):
        return str(output)
