"""Verdicts of others: typed, whoever gives them, with one turn to repair them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.agent.ports.architecture import AgentSession, Dependencies
from pilotage.agent.spec import AgentExecutionSpec
from pilotage.architectures.deciding import Choices, Unusable, decide, nothing_wrong, outside
from pilotage.architectures.wording import as_text
from pilotage.architectures.workers import WorkerRef, ask_worker
from pilotage.errors import AgentStructuredOutputError
from pilotage.jsonvalue import JsonValue

T = TypeVar("T")
_ANYTHING: Choices = {}


async def judge(
    judge_: WorkerRef | None,
    name: str,
    wanted: type[T],
    question: str,
    session: AgentSession,
    deps: Dependencies,
    *,
    choices: Choices = _ANYTHING,
    check: Callable[[T], Sequence[str]] = nothing_wrong,
) -> T:
    """Ask a worker for a value, or the agent's own model where there is no worker.

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

    def read(said: JsonValue) -> T | Unusable:
        try:
            given = cast(T, spec.decode(said))
        except AgentStructuredOutputError as error:
            return Unusable(as_text(said), error.problems)
        problems = [*outside(given, choices), *check(given)]
        return Unusable(as_text(said), problems) if problems else given

    answer = read(await ask_worker(worker, name, question, session, deps))
    if isinstance(answer, Unusable):
        again = f"{question}\n\nYou answered: {answer.said}\n{answer.note}"
        answer = read(await ask_worker(worker, name, again, session, deps))
    if isinstance(answer, Unusable):
        raise answer.error(repr(name), spec)
    return answer
