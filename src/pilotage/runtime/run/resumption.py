"""Questions before another attempt takes up what a person has stopped: an interrupted run, or a cancelled one.

The application's approval handler decides whether a person is asked; `CANCELLATION_RESUME` is the boundary. A run that
a person interrupted stays interrupted without an approval. A cancelled one ends in any case: without an approval no
clean-up hook is asked. Answer and state are one commit, so a crash leaves both or none.
"""

from __future__ import annotations

from dataclasses import replace

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import ApprovalDecision
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.run import Run
from pilotage.runtime.effect import NO_OUTCOME, RESUMPTION, Effect
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import Paused, RunEnded
from pilotage.runtime.journal.question_record import is_rejection
from pilotage.runtime.journal.record_fields import optional_text, record_of
from pilotage.runtime.journal.scope import StepScope
from pilotage.runtime.people.questions import approval_label
from pilotage.runtime.run.pausing import is_paused_by_person
from pilotage.values import value

_NOT_ASKED: JsonObject = {}
_REASON = "no reason given"


class Resumption(Effect):
    """Taking up again what a person has stopped. It does nothing itself and leaves no row: its question does."""

    kind = RESUMPTION
    boundary = AgentApprovalBoundaryKind.CANCELLATION_RESUME

    def __init__(self, run: Run, label: str, number: int, view: JsonObject) -> None:
        action = run.action(f"{words.RUN}/{label}#{number}", AgentActionKind.STEP, label, view=view)
        super().__init__(StepScope(words.RUN), action)

    async def act(self) -> object:
        return NO_OUTCOME

    def rejected(self, rejection: ToolError) -> RunEnded:
        return RunEnded(AgentSituation.APPROVAL_REJECTED, str(rejection))


@value
class LastQuestion:
    """The last time that people were asked about a resumption: its number, 0 for never, and their answer."""

    number: int = 0
    answer: JsonObject | None = None

    @property
    def is_open(self) -> bool:
        """Whether the question has no answer yet."""
        return self.number > 0 and self.answer is None


def last_asked(run: Run, label: str) -> LastQuestion:
    """Return the last time that people were asked, by the record."""
    asked = LastQuestion()
    while run.was_asked(action := f"{words.RUN}/{label}#{asked.number + 1}"):
        asked = LastQuestion(asked.number + 1, _answer_to(run, action))
    return asked


def were_people_asked(run: Run) -> bool:
    """Return whether people were ever asked before the run was taken up: an open question counts without a handler."""
    return any(run.was_asked(f"{words.RUN}/{label}#1") for label in (words.RESUME, words.CLEANUP))


def _answer_to(run: Run, action_id: str) -> JsonObject | None:
    """Return the answer to the last question about an action: one that did not fit any more was asked anew."""
    number = 1
    while run.replay.knows(f"{action_id}/{approval_label(number + 1)}"):
        number += 1
    row = run.replay.outcome_of(f"{action_id}/{approval_label(number)}")
    answer = None if row is None else record_of(row)
    return None if answer is None or words.OUTDATED in answer else answer


class ResumptionGate:
    """Asks before an attempt goes on; `found` is the state in which the attempt found the run."""

    def __init__(self, run: Run, found: AgentState) -> None:
        self._run = run
        self._found = found

    async def before_program(self) -> None:
        """Return when the run may go on that a person interrupted.

        Raises:
            LimitReached: the time of the run is up.
            Paused: a person is asked first, or has rejected it.
            RunEnded: a person has cancelled the run instead.
        """
        run, asked = self._run, last_asked(self._run, words.RESUME)
        if not asked.is_open and not is_paused_by_person(self._found):
            return
        run.check_time()
        number = asked.number if asked.is_open else asked.number + 1
        resumption = Resumption(run, words.RESUME, number, _shown(self._found))
        resumption.when_answered = self._follow
        if not await _is_allowed(run, resumption):
            raise Paused
        run.mark_running()

    async def before_cleanup(self) -> str | None:
        """Return the reason of a person against the clean-up of a cancelled run; None where it may begin.

        Raises:
            Paused: a person is asked first.
        """
        if self._found.status is not AgentStatus.CANCELLING or words.PARENT in self._found.metadata:
            # It was cancelled just now, or is a child: the person who cancelled its parent is asked about that one.
            return None
        run, asked = self._run, last_asked(self._run, words.CLEANUP)
        answer = asked.answer or _NOT_ASKED
        if not is_rejection(answer):
            number = asked.number if asked.is_open else asked.number + 1
            resumption = Resumption(run, words.CLEANUP, number, _shown(self._found))
            resumption.decisions = (ApprovalDecision.APPROVE, ApprovalDecision.REJECT)
            answers: list[JsonObject] = []
            resumption.when_answered = lambda given: self._stop_waiting(given, answers)
            if await _is_allowed(run, resumption):
                return None
            answer = answers[-1]
        comment = optional_text(answer, words.COMMENT) or _REASON
        return run.redactor.text(f"a person rejected the clean-up: {comment}")

    def _follow(self, answer: JsonObject) -> None:
        """Move an interrupted run by the answer of a person, in the commit of that answer."""
        ledger, comment = self._run.ledger, optional_text(answer, words.COMMENT) or _REASON
        match answer.get(words.DECISION):
            case ApprovalDecision.APPROVE.value:
                self._run.questions.resume_run()
            case ApprovalDecision.CANCEL.value:
                reason = self._run.redactor.text(f"a person cancelled the run: {comment}")
                facts: JsonObject = {words.CANCELLATION_REASON: reason}
                ledger.change_state(ledger.state.moved_to(AgentSituation.CANCELLING, metadata=facts))
            case ApprovalDecision.REJECT.value:
                since: JsonObject = {words.PAUSED_AT: self._run.ports.clock.now().isoformat()}
                stays = AgentSituation.USER_INTERRUPTED
                ledger.change_state(
                    ledger.state.moved_to(stays, activity=words.PAUSED_ON_REQUEST, metadata=since)
                )
            case _:
                return

    def _stop_waiting(self, answer: JsonObject, answers: list[JsonObject]) -> None:
        """Note the answer about the clean-up of a cancelled run, which waits for it no more."""
        ledger = self._run.ledger
        if words.DECISION in answer:
            answers.append(answer)
            ledger.change_state(replace(ledger.state, awaits=None, wake_at=None))


async def _is_allowed(run: Run, resumption: Resumption) -> bool:
    """Return whether a run may be taken up, without a question or by the answer to it.

    Raises:
        Paused: there is no answer yet.
        RunEnded: the answer cancels the run.
    """
    try:
        await perform(run, resumption)
    except RunEnded as end:
        if end.situation is not AgentSituation.APPROVAL_REJECTED:
            raise
        return False
    return True


def _shown(found: AgentState) -> JsonObject:
    """Return the facts for the handler and the person: the state of the run, and who stopped it and why."""
    names = (words.CANCELLATION_REASON, words.CANCELLATION_REQUESTED_BY, words.PAUSED_AT)
    known = {name: found.metadata[name] for name in names if found.metadata.get(name) is not None}
    return {words.STATE: found.status.value, **known}
