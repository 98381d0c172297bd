"""Run with a client that was generated: starts, streams, answers and cancels a run. Arguments: URL, token."""

from __future__ import annotations

import sys

from generated.api.agents import list_agents
from generated.api.health import readyz
from generated.api.questions import answer_question, list_questions
from generated.api.runs import cancel_run, get_result, read_events, resume_run, start_run
from generated.client import AuthenticatedClient
from generated.models import AnswerBody, ApprovalDecision, CancelBody, StartBody, StartBodyAgent


def events_of(client: AuthenticatedClient, run_id: str) -> list[str]:
    """The kinds of the events of a run, read as they come."""
    request = read_events._get_kwargs(run_id)
    with client.get_httpx_client().stream(**request) as response:
        assert response.status_code == 200
        return [line.removeprefix("event: ") for line in response.iter_lines() if line.startswith("event: ")]


def asked(client: AuthenticatedClient) -> str:
    """The id of a run that waits for an answer."""
    body = StartBody(agent=StartBodyAgent.LIBRARIAN, input_="burn title dune")
    run = start_run.sync(client=client, body=body)
    assert events_of(client, run.id)[-1] == "run_paused"
    return run.id


def main(url: str, token: str) -> None:
    client = AuthenticatedClient(base_url=url, token=token, raise_on_unexpected_status=True)
    assert readyz.sync(client=client).status == "ok"
    assert [each.name for each in list_agents.sync(client=client).agents] == ["librarian", "lender", "adder"]

    run_id = asked(client)
    (question,) = list_questions.sync(run_id, client=client).questions
    answer = AnswerBody(request_id=question.id, decision=ApprovalDecision.APPROVE)
    answer_question.sync(run_id, client=client, body=answer)
    resume_run.sync(run_id, client=client)
    assert events_of(client, run_id)[-1] == "run_finished"
    assert "burn(dune) gave dune" in get_result.sync(run_id, client=client).output

    other = asked(client)
    assert cancel_run.sync(other, client=client, body=CancelBody()).cancelled
    assert events_of(client, other)[-1] == "run_finished"
    problem = resume_run.sync_detailed("no-such-run", client=client)
    assert (problem.status_code, problem.parsed.code) == (404, "run_not_found")
    sys.stdout.write("done")


main(*sys.argv[1:])
