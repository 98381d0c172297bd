"""The next move of a loop after a reply of the model: a pure decision, and the state that it changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import TypeAlias, assert_never

from pilotage.agent.control_tools import with_last_words
from pilotage.agent.messages import MediaPart, ModelMessage, ModelToolCall
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
CALL_AGAIN = (
    "Your last tool call could not be read. Call the tool again, with its arguments as one JSON object."
)
_NO_ANSWER = "the reply was empty."


class StopReason(StrEnum):
    """Reasons for which a loop ends without the answer; its output is then the best partial text."""

    MAX_STEPS = "agent_max_steps_exceeded"
    TOOL_ERRORS = "agent_tool_errors_exceeded"
    LENGTH = "agent_finish_length"
    CONTENT_FILTER = "agent_content_filter"
    REFUSAL = "agent_refusal"
    EMPTY_REPLY = "agent_empty_reply"
    UNRESOLVED = "agent_unresolved"
    PLAN_FAILED = "agent_plan_failed"
    PAUSED = "agent_model_paused"
    MALFORMED_CALL = "agent_malformed_call"


@value
class Notes:
    """Texts of the messages that ask the model again, by the problem with its reply."""

    go_on: str = GO_ON
    be_brief: str = BE_BRIEF
    speak: str = SPEAK
    not_called: str = NOT_CALLED
    repair: str = REPAIR
    call_again: str = CALL_AGAIN


@value
class RetriesLeft:
    """Remaining retries in a row, by the problem with the reply, and the notes to send with them."""

    repairs: int = 1
    continuations: int = 1
    empty_replies: int = 1
    pauses: int = 16
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
    """The reply contains tool calls."""

    calls: Sequence[ModelToolCall]


_call_tools = unchecked(CallTools)


@value
class RefuseTools:
    """The reply contains tool calls and was cut off; the model may send them again."""

    calls: Sequence[ModelToolCall]
    why: str
    retries: RetriesLeft


@value
class AskAgain:
    """The reply is not the answer yet; the note says what is missing. `is_cut`: the next reply continues it."""

    note: str
    retries: RetriesLeft
    is_cut: bool = False


@value
class GoOn:
    """The server stopped in the middle of the model's turn: the model goes on when it gets its reply back."""

    retries: RetriesLeft


@value
class Stop:
    """The reply is no answer, and the model is not asked again."""

    reason: StopReason


WITH_CALLS = (CallTools, RefuseTools)
"""The moves after which every call of the reply has an outcome."""
Move: TypeAlias = TextAnswer | TypedAnswer | CallTools | RefuseTools | AskAgain | GoOn | Stop

_TEXT_ANSWER = TextAnswer()
STOPPED_BY: dict[ModelFinishReason | None, StopReason] = {
    ModelFinishReason.CONTENT_FILTER: StopReason.CONTENT_FILTER,
    ModelFinishReason.REFUSAL: StopReason.REFUSAL,
}


# Tuples: looking a member up in a set or a dict calls its hash.
_UNFINISHED = (ModelFinishReason.PAUSED, ModelFinishReason.MALFORMED_CALL)
_CUT = (ModelFinishReason.LENGTH, ModelFinishReason.CONTEXT_EXCEEDED)


def next_move(reply: ModelResponse, output: StructuredOutputSpec | None, retries: RetriesLeft) -> Move:
    """Return the move for a reply; raise `AgentStructuredOutputError` if it is wrong and no repair is left."""
    if reply.finish_reason in STOPPED_BY:
        return Stop(STOPPED_BY[reply.finish_reason])
    is_cut = reply.finish_reason in _CUT
    if reply.tool_calls:
        return _after_cut_calls(reply.tool_calls, retries) if is_cut else _call_tools(reply.tool_calls)
    if reply.finish_reason in _UNFINISHED:
        return _after_unfinished(reply, retries)
    if output is not None:
        return _typed_answer(reply, output, retries, is_cut)
    if is_cut:
        return _after_cut_text(reply.content, retries)
    return _TEXT_ANSWER if reply.content.strip() or has_media(reply) else _after_nothing(retries)


def has_media(reply: ModelResponse) -> bool:
    """Return whether a reply has media: then it says something without any text."""
    return reply.ordered is not None and any(isinstance(part, MediaPart) for part in reply.ordered)


def repair(error: AgentStructuredOutputError, retries: RetriesLeft) -> AskAgain:
    """Return the move that asks for a corrected answer; raise the error itself if no repair is left."""
    if not retries.repairs:
        raise error
    problems = "\n".join(f"- {problem}" for problem in error.problems or [str(error)])
    note = fill(retries.notes.repair, problems=problems)
    return AskAgain(note, replace(retries, repairs=retries.repairs - 1))


def _typed_answer(
    reply: ModelResponse, spec: StructuredOutputSpec, retries: RetriesLeft, is_cut: bool
) -> TypedAnswer | AskAgain:
    if reply.output is not None:
        return TypedAnswer(reply.output)
    try:
        return TypedAnswer(_decoded(reply, spec, is_cut))
    except AgentStructuredOutputError as error:
        return repair(error, retries)


def _decoded(reply: ModelResponse, spec: StructuredOutputSpec, is_cut: bool) -> object:
    """Return the decoded answer; an absent one is refused first, because a type may allow null."""
    if reply.structured_output is None and (is_cut or not reply.content.strip()):
        problem = CUT_OFF if is_cut else _NO_ANSWER
        raise AgentStructuredOutputError(
            f"there is no {spec.output_type_name or 'answer'}: {problem}", problems=[problem]
        )
    return spec.decode(reply.structured_output)


def _after_cut_calls(calls: Sequence[ModelToolCall], retries: RetriesLeft) -> RefuseTools | Stop:
    """Refuse all calls of the reply: arguments that were cut off may still be valid JSON."""
    if not retries.continuations:
        return Stop(StopReason.LENGTH)
    return RefuseTools(calls, retries.notes.not_called, _continued(retries))


def _after_cut_text(text: str, retries: RetriesLeft) -> AskAgain | Stop:
    if not retries.continuations:
        return Stop(StopReason.LENGTH)
    has_begun = bool(text.strip())
    note = retries.notes.go_on if has_begun else retries.notes.be_brief
    return AskAgain(note, _continued(retries), is_cut=has_begun)


def _after_unfinished(reply: ModelResponse, retries: RetriesLeft) -> GoOn | AskAgain | Stop:
    """Let the model go on after a pause of its server, and call again after a call that could not be read."""
    if reply.finish_reason is ModelFinishReason.PAUSED:
        left = replace(retries, pauses=retries.pauses - 1)
        return GoOn(left) if retries.pauses else Stop(StopReason.PAUSED)
    if not retries.repairs:
        return Stop(StopReason.MALFORMED_CALL)
    return AskAgain(retries.notes.call_again, replace(retries, repairs=retries.repairs - 1))


def _after_nothing(retries: RetriesLeft) -> AskAgain | Stop:
    if not retries.empty_replies:
        return Stop(StopReason.EMPTY_REPLY)
    return AskAgain(retries.notes.speak, replace(retries, empty_replies=retries.empty_replies - 1))


def _continued(retries: RetriesLeft) -> RetriesLeft:
    return replace(retries, continuations=retries.continuations - 1)


class Course:
    """State of one loop over its moves. At its end the session holds the answer or the reason for having none."""

    def __init__(self, session: AgentSession, retries: RetriesLeft, max_tool_errors: int) -> None:
        self._session = session
        self._fresh = self.retries = retries
        self._max_tool_errors = max_tool_errors
        self._failed_turns = 0
        self._begun = ""
        self._text = ""

    def take_text(self, reply: str) -> None:
        """Make the text of a reply the output of the session until there is an answer.

        A limit that ends the run from outside the loop then finds it in the session.
        """
        # A reply that continues after a cut is one text with the part before the cut.
        self._text = self._begun + reply
        if self._text and not self._text.isspace():
            self._session.output = self._text

    def follow(self, move: Move, outcomes: Sequence[ToolCallOutcome] = ()) -> bool:
        """Apply a move and the outcomes of its calls; return whether the loop is over."""
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
            case AskAgain(note, retries, is_cut):
                self._session.messages.append(ModelMessage.evidence(note, source="react"))
                self.retries = retries
                self._begun = self._text if is_cut else self._begun
                return False
            case RefuseTools():
                self.retries, self._begun = move.retries, ""
                return False
            case GoOn(retries):
                self.retries, self._begun = retries, self._text
                return False
            case _:
                assert_never(move)

    def interrupt(self, reason: StopReason) -> bool:
        """End without the answer, with a reason; the output is the best text so far."""
        self._session.interrupted = True
        self._session.interruption_reason = reason.value
        return True

    def _after_tools(self, outcomes: Sequence[ToolCallOutcome]) -> bool:
        self.retries, self._begun, has_worked = self._fresh, "", False
        for outcome in outcomes:
            if outcome.ends:
                self._session.output = with_last_words(outcome.result, self._text, self._session.messages)
                return True
            has_worked = has_worked or outcome.error is None
        if not has_worked and outcomes and all(outcome.is_wrong_control for outcome in outcomes):
            # A wrong control call gets an error as its result and is no failed tool; `max_turns` bounds it.
            return False
        self._failed_turns = 0 if has_worked else self._failed_turns + 1
        if self._failed_turns < self._max_tool_errors:
            return False
        return self.interrupt(StopReason.TOOL_ERRORS)
