"""Requests that take more than one call of `AgentRuns`: starts and answers."""

from __future__ import annotations

from typing import Any

from pilotage.agent.principal import Principal
from pilotage.agent.run_values import RunAgentInput
from pilotage.agent.state import AgentState
from pilotage.container.names import enumerate_names
from pilotage.errors import AgentDefinitionError, ModelNotFoundError
from pilotage.inbound.bodies import AnswerBody, StartBody
from pilotage.inbound.problems import RequestRefusedError
from pilotage.inbound.views import AnsweredView
from pilotage.runtime.runs import AgentRuns


def refuse_unknown_agent(runs: AgentRuns, agent: str | None) -> None:
    """Raise RequestRefusedError for a name of no agent."""
    if agent is not None and agent not in runs.services.agent_ids:
        known = enumerate_names([repr(each) for each in sorted(runs.services.agent_ids)]) or "none"
        raise RequestRefusedError(f"there is no agent {agent!r} here. There is {known}.")


async def start_run(runs: AgentRuns, body: StartBody, principal: Principal) -> AgentState:
    """Start a run, or attach to the one that was started with the same `id`; it is durable when this returns.

    Raises:
        RequestRefusedError: there is no such agent, or it does not take the input.
        CallerError: what `AgentRuns.start` raises.
    """
    refuse_unknown_agent(runs, body.agent)
    try:
        handle = await runs.start(
            body.agent,
            _given(body),
            principal=principal,
            id=body.id,
            conversation_id=body.conversation_id,
            metadata=body.metadata,
            steering_input_required=body.steering_input_required,
        )
    except (AgentDefinitionError, ModelNotFoundError) as error:
        raise RequestRefusedError(str(error)) from error
    return await runs.get(handle.id, principal=principal)


def _given(body: StartBody) -> Any:
    """Return the input of a run: with its attachments, where it has some."""
    if not body.attachments:
        return body.input
    if not isinstance(body.input, str) or not body.input.strip():
        raise RequestRefusedError(
            "attachments go with an input that is a text. Put the words of the user there."
        )
    return RunAgentInput("attached", body.input, attachments=[each.part() for each in body.attachments])


async def answer_question(
    runs: AgentRuns, run_id: str, body: AnswerBody, principal: Principal
) -> AnsweredView:
    """Answer a question, and return the run with whether a process drives it.

    Raises:
        CallerError: what `AgentRuns.answer` raises.
    """
    await runs.answer(
        run_id, body.request_id, body.decision, resume=body.resume, principal=principal, **body.details()
    )
    waiting = await runs.waiting_answers(run_id, principal=principal)
    is_waiting = not runs.is_driven(run_id) and any(each.question.id == body.request_id for each in waiting)
    state = await runs.get(run_id, principal=principal)
    return AnsweredView.with_answer(state, is_waiting=is_waiting)
