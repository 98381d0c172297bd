"""Decisions of a model as values: forced into a type, checked, with one turn to repair them.

What is out of range or does not fit is refused and said; nothing is clamped, and nothing is read from prose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, TypeAlias, TypeVar, cast

from pilotage.agent.control_tools import limited
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelFinishReason, ModelResponse
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.architecture import AgentSession, Dependencies
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.architectures.turn import added, lead_of
from pilotage.architectures.wording import as_text
from pilotage.errors import AgentStructuredOutputError
from pilotage.schema.constraints import Between

T = TypeVar("T")
Share: TypeAlias = Annotated[float, Between(0, 1)]
"""A number from 0 to 1, the bounds included; a model that gives another one must repair it."""
Choices: TypeAlias = Mapping[str, Sequence[str]]
_ANYTHING: Choices = {}
_CUT_OFF = "the answer was cut off by the length limit before it was complete. Answer more briefly."
_NOTHING = "there was no structured answer."


def nothing_wrong(_: object) -> Sequence[str]:
    """The check of a decision for which its type says everything."""
    return ()


async def decide(
    session: AgentSession,
    deps: Dependencies,
    wanted: type[T],
    question: str,
    *,
    check: Callable[[T], Sequence[str]] = nothing_wrong,
    choices: Choices = _ANYTHING,
) -> T:
    """Ask the agent's model for a value, behind everything that the session holds.

    `choices` are the words that a member must be one of; `check` says everything else that is wrong with a value.

    Raises:
        AgentStructuredOutputError: the second answer is wrong too.
        ModelCallError: the model failed.
    """
    given: object = wanted
    spec = limited(StructuredOutputSpec.from_type(given), choices)
    messages = [*lead_of(session), *session.messages, ModelMessage.user(question)]

    def problems_of(value: T) -> list[str]:
        return [*outside(value, choices), *check(value)]

    answered = await _asked(session, deps, spec, messages, problems_of)
    if isinstance(answered, _Wrong):
        answered = await _asked(session, deps, spec, [*messages, *answered.repair()], problems_of)
    if isinstance(answered, _Wrong):
        raise answered.error(spec)
    return answered


def outside(value: object, choices: Choices) -> list[str]:
    """What of a value is none of the words that it may choose from."""
    problems: list[str] = []
    for member, allowed in choices.items():
        chosen: object = getattr(value, member)
        words = cast("Sequence[object]", chosen) if isinstance(chosen, list | tuple) else [chosen]
        wrong = [word for word in words if word not in allowed]
        if wrong:
            offered = ", ".join(map(repr, allowed))
            problems.append(f"{member}: {', '.join(map(repr, wrong))} is none of {offered}.")
    return problems


class _Wrong:
    """An answer that is not the value asked for: what was said, and what is wrong with it."""

    def __init__(self, said: str, problems: Sequence[str]) -> None:
        self._said, self._problems = said, problems

    def repair(self) -> list[ModelMessage]:
        listed = "\n".join(f"- {problem}" for problem in self._problems)
        note = f"Your last answer cannot be used:\n{listed}\nAnswer again, in the form that was asked for."
        said = [ModelMessage.assistant(self._said)] if self._said.strip() else []
        return [*said, ModelMessage.user(note)]

    def error(self, spec: StructuredOutputSpec) -> AgentStructuredOutputError:
        words = f"the model gave no usable {spec.output_type_name}, asked twice: {' '.join(self._problems)}"
        return AgentStructuredOutputError(words, problems=self._problems)


async def _asked(
    session: AgentSession,
    deps: Dependencies,
    spec: StructuredOutputSpec,
    messages: Sequence[ModelMessage],
    check: Callable[[T], Sequence[str]],
) -> T | _Wrong:
    session.turns += 1
    try:
        reply = await deps.model.complete(ModelRequest(messages, structured_output=spec))
        session.cumulative_usage = added(session.cumulative_usage, reply.usage)
        value = cast(T, _decoded(reply, spec))
    except AgentStructuredOutputError as error:
        return _Wrong("", error.problems or [str(error)])
    problems = check(value)
    return _Wrong(reply.content or as_text(reply.structured_output), problems) if problems else value


def _decoded(reply: ModelResponse, spec: StructuredOutputSpec) -> object:
    if reply.output is not None:
        return reply.output
    if reply.structured_output is None:
        problem = _CUT_OFF if reply.finish_reason is ModelFinishReason.LENGTH else _NOTHING
        raise AgentStructuredOutputError(
            f"there is no {spec.output_type_name}: {problem}", problems=[problem]
        )
    return spec.decode(reply.structured_output)
