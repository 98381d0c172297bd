"""A scripted model that is restarted answers each branch as it did before, also where branches ask the same."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pilotage import AgentEvent, ModelMessage, ModelRequest
from pilotage.agent import AgentSession, Dependencies
from pilotage.testing import (
    ActionLedger,
    HostileTools,
    ProofTools,
    ScriptedModel,
    calls,
    crash_matrix,
    proof_agent,
    says,
)


class SameQuestion:
    """Three branches ask the same question, one after the other; each does what its own reply says."""

    name = "same_question"

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> AsyncIterator[AgentEvent]:
        async def ask() -> str:
            reply = await deps.model.complete(ModelRequest([ModelMessage.user(prompt)]))
            await deps.tools.call(reply.tool_calls[0])
            return str(reply.tool_calls[0].arguments["what"])

        session.output = ", ".join(await deps.runtime.gather("ask", [ask, ask, ask], limit=1))
        yield deps.progress("asked")


async def test_equal_requests_of_parallel_branches_keep_their_replies_over_a_crash() -> None:
    ledger = ActionLedger()
    model = ScriptedModel([calls("write", what=f"deed {number}") for number in range(3)] + [says("never")])
    report = await crash_matrix(
        proof_agent("asker", SameQuestion()), "go", model=model, add=[ledger, ProofTools, HostileTools]
    )
    assert report.reference.output == "deed 0, deed 1, deed 2"
    report.assert_same_result()
    report.assert_no_repeated_effects()
    assert all(set(copy.done.values()) <= {1} for copy in ledger.copies)
