"""What comes after a reply of the model, decided purely from it and the patience left; and the course that follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import TypeAlias, assert_never

from pilotage.agent.control_tools import with_last_words
from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_reply import ModelFinishReason, ModelResponse
from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.agent.ports.architecture import AgentSession, ToolCallOutcome
from pilotage.architectures.prompts import fill
from pilotage.errors import AgentStructuredOutputError
from pilotage.filling import unchecked
from pilotage.values import shared, value

GO_ON = "Your reply was cut off by the length limit. Go on exactly where it stops and repeat nothing."
BE_BRIEF = "Your reply was cut off by the length limit before it said anything. Answer briefly."
SPEAK = "Your reply was empty. Answer the question, or call a tool."
NOT_CALLED = (
    "not called: the reply was cut off by the length limit, so the arguments may be incomplete. "
    "Ask again, with shorter arguments."
)
REPAIR = "Your answer does not have the form that was asked for:\n{problems}\nAnswer again, in that form."
CUT_OFF = "the answer was cut off by the length limit before it was complete. Answer more briefly."
_NO_ANSWER = "the reply was empty."


class StopReason(StrEnum):
    """Why a loop ended without the answer; the best partial text is its output then."""

    MAX_STEPS = "agent_max_steps_exceeded"
    TOOL_ERRORS = "agent_tool_errors_exceeded"
    LENGTH = "agent_finish_length"
    CONTENT_FILTER = "agent_content_filter"
    REFUSAL = "agent_refusal"
    EMPTY_REPLY = "agent_empty_reply"
    UNRESOLVED = "agent_unresolved"
    PLAN_FAILED = "agent_plan_failed"


@value
class Notes:
    """What the model is told when it is asked again, by what went wrong."""

    go_on: str = GO_ON
    be_brief: str = BE_BRIEF
    speak: str = SPEAK
    not_called: str = NOT_CALLED
    repair: str = REPAIR


@value
class Patience:
    """How often in a row the model may still be asked again, by what went wrong, and with which notes."""

    repairs: int = 1
    continuations: int = 1
    empty_replies: int = 1
    notes: Notes = field(default_factory=shared(Notes))


@value
class TextAnswer:
    """The text of the reply is the answer."""


@value
class TypedAnswer:
    """The reply is an answer of the type that was asked for."""

    output: object


@value
class CallTools:
    """The model asks for tools."""

    calls: Sequence[ModelToolCall]


_call_tools = unchecked(CallTools)


@value
class RefuseTools:
    """The model asks for tools, but not all it asked for has arrived; it may ask again."""

    calls: Sequence[ModelToolCall]
    why: str
    patience: Patience


@value
class AskAgain:
    """The reply is not the answer yet; the note says what is missing. `is_cut` where it goes on as it stands."""

    note: str
    patience: Patience
    is_cut: bool = False


@value
class Stop:
    """The reply is no answer, and asking again would not make it one."""

    reason: StopReason


WITH_CALLS = (CallTools, RefuseTools)
"""The moves behind which every call has an outcome."""
Move: TypeAlias = TextAnswer | TypedAnswer | CallTools | RefuseTools | AskAgain | Stop

_TEXT_ANSWER = TextAnswer()
STOPPED_BY: dict[ModelFinishReason | None, StopReason] = {
    ModelFinishReason.CONTENT_FILTER: StopReason.CONTENT_FILTER,
    ModelFinishReason.REFUSAL: StopReason.REFUSAL,
}


def next_move(reply: ModelResponse, output: StructuredOutputSpec | None, patience: Patience) -> Move:
    """Return what to do with a reply; raise `AgentStructuredOutputError` if it is wrong and no repair is left."""
    if reply.finish_reason in STOPPED_BY:
        return Stop(STOPPED_BY[reply.finish_reason])
    is_cut = reply.finish_reason is ModelFinishReason.LENGTH
    if reply.tool_calls:
        return _after_cut_calls(reply.tool_calls, patience) if is_cut else _call_tools(reply.tool_calls)
    if output is not None:
        return _typed_answer(reply, output, patience, is_cut)
    if is_cut:
        return _after_cut_text(reply.content, patience)
    return _TEXT_ANSWER if reply.content.strip() else _after_nothing(patience)


def repair(error: AgentStructuredOutputError, patience: Patience) -> AskAgain:
    """Ask again for an answer of the right type, with its problems; raise the error itself where no repair is left."""
    if not patience.repairs:
        raise error
    problems = "\n".join(f"- {problem}" for problem in error.problems or [str(error)])
    note = fill(patience.notes.repair, problems=problems)
    return AskAgain(note, replace(patience, repairs=patience.repairs - 1))


def _typed_answer(
    reply: ModelResponse, spec: StructuredOutputSpec, patience: Patience, is_cut: bool
) -> TypedAnswer | AskAgain:
    if reply.output is not None:
        return TypedAnswer(reply.output)
    try:
        return TypedAnswer(_decoded(reply, spec, is_cut))
    except AgentStructuredOutputError as error:
        return repair(error, patience)


def _decoded(reply: ModelResponse, spec: StructuredOutputSpec, is_cut: bool) -> object:
    """Where a type allows null, nothing at all would pass for an answer; so that is ruled out first."""
    if reply.structured_output is None and (is_cut or not reply.content.strip()):
        problem = CUT_OFF if is_cut else _NO_ANSWER
        raise AgentStructuredOutputError(
            f"there is no {spec.output_type_name or 'answer'}: {problem}", problems=[problem]
        )
    return spec.decode(reply.structured_output)


def _after_cut_calls(calls: Sequence[ModelToolCall], patience: Patience) -> RefuseTools | Stop:
    """Arguments that were cut may still be valid JSON and mean something else; none of them is used."""
    if not patience.continuations:
        return Stop(StopReason.LENGTH)
    return RefuseTools(calls, patience.notes.not_called, _continued(patience))


def _after_cut_text(text: str, patience: Patience) -> AskAgain | Stop:
    if not patience.continuations:
        return Stop(StopReason.LENGTH)
    has_begun = bool(text.strip())
    note = patience.notes.go_on if has_begun else patience.notes.be_brief
    return AskAgain(note, _continued(patience), is_cut=has_begun)


def _after_nothing(patience: Patience) -> AskAgain | Stop:
    if not patience.empty_replies:
        return Stop(StopReason.EMPTY_REPLY)
    return AskAgain(patience.notes.speak, replace(patience, empty_replies=patience.empty_replies - 1))


def _continued(patience: Patience) -> Patience:
    return replace(patience, continuations=patience.continuations - 1)


class Course:
    """Follows the moves of one loop. At its end the session holds the answer, or why there is none."""

    def __init__(self, session: AgentSession, patience: Patience, max_tool_errors: int) -> None:
        self._session = session
        self._fresh = self.patience = patience
        self._max_tool_errors = max_tool_errors
        self._failed_turns = 0
        self._begun = ""
        self._text = ""

    def hear(self, reply: str) -> None:
        """Take in the text of a reply: until there is an answer, the best text so far stands for it.

        So a limit that ends the run from outside the loop finds it in the session.
        """
        # A reply that goes on after a cut is one text with what was said before the cut.
        self._text = self._begun + reply
        if self._text and not self._text.isspace():
            self._session.output = self._text

    def follow(self, move: Move, outcomes: Sequence[ToolCallOutcome] = ()) -> bool:
        """Take in a move, and what came of its calls; whether the loop is over."""
        match move:
            case CallTools():
                return self._after_tools(outcomes)
            case TextAnswer():
                return True
            case TypedAnswer(output):
                self._session.output = output
                return True
            case Stop(reason):
                return self.interrupt(reason)
            case AskAgain(note, patience, is_cut):
                self._session.messages.append(ModelMessage.evidence(note, source="react"))
                self.patience = patience
                self._begun = self._text if is_cut else self._begun
                return False
            case RefuseTools():
                self.patience, self._begun = move.patience, ""
                return False
            case _:
                assert_never(move)

    def interrupt(self, reason: StopReason) -> bool:
        """End without the answer: the best text stands for it, and the reason says why."""
        self._session.interrupted = True
        self._session.interruption_reason = reason.value
        return True

    def _after_tools(self, outcomes: Sequence[ToolCallOutcome]) -> bool:
        self.patience, self._begun, has_worked = self._fresh, "", False
        for outcome in outcomes:
            if outcome.ends:
                self._session.output = with_last_words(outcome.result, self._text, self._session.messages)
                return True
            has_worked = has_worked or outcome.error is None
        if outcomes and all(outcome.is_wrong_control for outcome in outcomes):
            # A wrong decision is answered. It is no tool that fails, and the number of turns bounds it.
            return False
        self._failed_turns = 0 if has_worked else self._failed_turns + 1
        if self._failed_turns < self._max_tool_errors:
            return False
        return self.interrupt(StopReason.TOOL_ERRORS)
