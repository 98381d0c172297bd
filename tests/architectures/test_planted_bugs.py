"""Loops that break the rules on purpose: the proofs must notice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest

from pilotage import AgentEvent, ModelMessage, ModelRequest
from pilotage.agent import AgentSession, Architecture, Dependencies, ModelToolCall
from pilotage.errors import AgentDefinitionError
from pilotage.runtime.architecture.registry import find_architecture
from pilotage.testing import CrashReport, ScriptedModel, crash_matrix, says, when
from pilotage.testing.architecture_proofs import proof_agent
from pilotage.testing.proof_world import ActionLedger, HostileTools, ProofTools

PAYING = ModelToolCall("write", {"what": "deed"}, "pay")


class RemembersOutsideOfTheResult:
    """What its branches found is kept in a list beside their results, which replay does not fill."""

    name, version = "forgetful", 1

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> AsyncIterator[AgentEvent]:
        found: list[str] = []

        async def ask(number: int) -> int:
            request = ModelRequest([ModelMessage.user(f"question {number}")])
            found.append((await deps.model.complete(request)).content)
            return number

        await deps.runtime.gather("ask", [partial(ask, number) for number in range(2)])
        yield deps.progress("asked")
        await deps.tools.call(PAYING)
        session.output = ", ".join(sorted(found))


class DecidesByChance:
    """Whom it asks depends on what this process has done before, not on what is recorded."""

    name, version = "fickle", 1

    def __init__(self) -> None:
        self._runs = 0

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> AsyncIterator[AgentEvent]:
        self._runs += 1
        await deps.tools.call(ModelToolCall("write", {"what": f"deed {self._runs}"}, "pay"))
        yield deps.progress("paid")
        session.output = "paid"


async def crashed(wrong: Architecture) -> CrashReport:
    model = ScriptedModel([when(f"question {n}", *[says(f"answer {n}")] * 3) for n in range(2)])
    world = [ActionLedger(), ProofTools, HostileTools]
    return await crash_matrix(proof_agent("wrong", wrong), "go", model=model, add=world, second_stops=())


async def test_what_a_branch_keeps_beside_its_result_is_missed_after_a_crash() -> None:
    report = await crashed(RemembersOutsideOfTheResult())
    assert report.reference.output == "answer 0, answer 1"
    assert any("instead of completed with 'answer 0, answer 1'" in each for each in report.differences)


async def test_a_loop_that_does_something_else_in_another_process_never_ends() -> None:
    with pytest.raises(AssertionError, match="does not come to an end"):
        await crashed(DecidesByChance())


def test_an_architecture_as_a_class_is_refused_with_the_way_out() -> None:
    with pytest.raises(AgentDefinitionError, match=r"Hand over a value of it: DecidesByChance\(\)"):
        find_architecture(DecidesByChance)  # type: ignore[arg-type]
