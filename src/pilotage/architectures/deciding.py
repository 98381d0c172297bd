"""Typed decisions of the agent's model or of a worker, checked, with one turn to repair them.

A value that is out of range or has the wrong type is refused with its problems; nothing is clamped or read from prose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, TypeAlias, TypeVar, cast

from pilotage.agent.control_tools import limited
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import ModelRequest, StructuredOutputSpec
from pilotage.agent.ports.architecture import AgentSession, Dependencies
from pilotage.agent.spec import AgentExecutionSpec
from pilotage.architectures.moves import CUT_OFF, STOPPED_BY
from pilotage.architectures.parts import WorkerRef, ask_worker
from pilotage.architectures.prompts import as_text
from pilotage.architectures.turn import lead_of
from pilotage.errors import AgentStructuredOutputError, StoppedShortError
from pilotage.jsonvalue import JsonValue, is_list
from pilotage.schema.constraints import Between, Strictly
from pilotage.values import value

T = TypeVar("T")
Share: TypeAlias = Annotated[float, Between(0, 1), Strictly()]
"""A number from 0 to 1, the bounds included; the model must repair any other value."""
Flag: TypeAlias = Annotated[bool, Strictly()]
"""A JSON boolean; texts and numbers are not converted."""
Choices: TypeAlias = Mapping[str, Sequence[str]]
_ANYTHING: Choices = {}
_NOTHING = "there was no structured answer."


def no_problems(_: object) -> Sequence[str]:
    """Return no problems: the check of a decision whose type is check enough."""
    return ()


async def decide(
    session: AgentSession,
    deps: Dependencies,
    wanted: type[T],
    question: str,
    *,
    check: Callable[[T], Sequence[str]] = no_problems,
    choices: Choices = _ANYTHING,
    may_miss: bool = False,
) -> T:
    """Ask the agent's model for a value, after the messages of the session, and return it.

    `choices` are the allowed texts of a member, unless it `may_miss` them; `check` returns all other problems of a
    value.

    Raises:
        AgentStructuredOutputError: the second answer is wrong too.
        StoppedShortError: the model refuses, or a filter stops it; it is not asked again.
        ModelCallError: the model failed.
    """
    kind: object = wanted
    spec = limited(StructuredOutputSpec.from_type(kind), choices)
    messages = [*lead_of(session), *session.messages, ModelMessage.user(question)]

    def problems_of(given: T) -> list[str]:
        return [*outside(given, _ANYTHING if may_miss else choices), *check(given)]

    answered = await _asked(session, deps, spec, messages, problems_of)
    if isinstance(answered, Unusable):
        answered = await _asked(session, deps, spec, [*messages, *answered.repair()], problems_of)
    if isinstance(answered, Unusable):
        raise answered.error("the model", spec)
    return answered


def outside(given: object, choices: Choices) -> list[str]:
    """Return a problem for each member whose value is none of its choices."""
    problems: list[str] = []
    for member, allowed in choices.items():
        chosen: object = getattr(given, member)
        words = chosen if is_list(chosen) else [chosen]
        wrong = [word for word in words if word not in allowed]
        if wrong:
            offered = ", ".join(map(repr, allowed))
            problems.append(f"{member}: {', '.join(map(repr, wrong))} is none of {offered}.")
    return problems


@value
class Unusable:
    """An answer that is not the requested value: its text and its problems."""

    text: str
    problems: Sequence[str]

    @property
    def note(self) -> str:
        """The message that asks for a better answer."""
        listed = "\n".join(f"- {problem}" for problem in self.problems)
        return f"Your last answer cannot be used:\n{listed}\nAnswer again, in the form that was asked for."

    def repair(self) -> list[ModelMessage]:
        """Return the messages that ask for a better answer."""
        given = [ModelMessage.assistant(self.text)] if self.text.strip() else []
        return [*given, ModelMessage.user(self.note)]

    def error(self, who: str, spec: StructuredOutputSpec) -> AgentStructuredOutputError:
        """Return the error for a second answer that cannot be used."""
        message = f"{who} gave no usable {spec.output_type_name}, asked twice: {' '.join(self.problems)}"
        return AgentStructuredOutputError(message, problems=self.problems)


async def _asked(
    session: AgentSession,
    deps: Dependencies,
    spec: StructuredOutputSpec,
    messages: Sequence[ModelMessage],
    check: Callable[[T], Sequence[str]],
) -> T | Unusable:
    session.turns += 1
    try:
        reply = await deps.model.complete(ModelRequest(messages, structured_output=spec))
        if (stopped := STOPPED_BY.get(reply.finish_reason)) is not None:
            raise StoppedShortError(f"the model gave no {spec.output_type_name}: {stopped}", reason=stopped)
        session.cumulative_usage = session.cumulative_usage.plus(reply.usage)
        given = cast(T, _decoded(reply, spec))
    except AgentStructuredOutputError as error:
        return Unusable("", error.problems or [str(error)])
    problems = check(given)
    return Unusable(reply.content or as_text(reply.structured_output), problems) if problems else given


def _decoded(reply: ModelResponse, spec: StructuredOutputSpec) -> object:
    if reply.output is not None:
        return reply.output
    if reply.structured_output is None:
        problem = CUT_OFF if reply.finish_reason is not None and reply.finish_reason.is_cut else _NOTHING
        raise AgentStructuredOutputError(
            f"there is no {spec.output_type_name}: {problem}", problems=[problem]
        )
    return spec.decode(reply.structured_output)


async def judge(
    judge_: WorkerRef | None,
    name: str,
    wanted: type[T],
    question: str,
    session: AgentSession,
    deps: Dependencies,
    *,
    choices: Choices = _ANYTHING,
    check: Callable[[T], Sequence[str]] = no_problems,
) -> T:
    """Ask a worker, or the agent's own model if there is none, for a value, and return it.

    A worker that is an agent has the type as its `output_type`; one that is a spec is given it.

    Raises:
        AgentStructuredOutputError: the second answer is wrong too.
        ToolError: the worker failed.
    """
    if judge_ is None:
        return await decide(session, deps, wanted, question, choices=choices, check=check)
    kind: object = wanted
    spec = StructuredOutputSpec.from_type(kind)
    worker = replace(judge_, output_type=wanted) if isinstance(judge_, AgentExecutionSpec) else judge_

    def read(output: JsonValue) -> T | Unusable:
        try:
            given = cast(T, spec.decode(output))
        except AgentStructuredOutputError as error:
            return Unusable(as_text(output), error.problems)
        problems = [*outside(given, choices), *check(given)]
        return Unusable(as_text(output), problems) if problems else given

    answer = read(await ask_worker(worker, name, question, session, deps))
    if isinstance(answer, Unusable):
        again = f"{question}\n\nYou answered: {answer.text}\n{answer.note}"
        answer = read(await ask_worker(worker, name, again, session, deps))
    if isinstance(answer, Unusable):
        raise answer.error(repr(name), spec)
    return answer
