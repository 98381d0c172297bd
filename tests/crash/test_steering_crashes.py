"""Revisions of steering instructions, crashed at every write: the text that counts is taken in once."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    AgentYield,
    Final,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
    get_run_context,
)
from pilotage.agent import AgentSignal, AgentSteeringUpdate, ToolApprovalRequirement
from pilotage.errors import SteeringConflictError
from pilotage.runtime import AgentRuns, next_signal
from pilotage.testing import crash_matrix
from tests.behaviour.office import World
from tests.behaviour.postbox import STEERING, Parrot, Postbox

Items = AsyncGenerator[AgentYield[list[str]], None]


@Pod
class Desk:
    """Sends revisions to the run that uses it, as a sender outside would."""

    def __init__(self, runs: AgentRuns) -> None:
        self.runs = runs

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def steer(self, input_id: str, revision: int, text: str) -> str:
        """Send a revision: a text that ends with an ellipsis is a draft, an empty one a withdrawal.

        One that ends with a mark goes by the check of the sender, as if two processes had sent at the same time.
        """
        run_id = get_run_context().run_id
        update = AgentSteeringUpdate(
            input_id, text or None, revision, final=not text.endswith("..."), withdrawn=not text
        )
        if text.endswith("!"):
            signal = AgentSignal(update.signal_id(run_id), run_id, STEERING, update.to_payload())
            await self.runs.services.signals.append(signal)
            return "sent at the same time"
        try:
            await self.runs.steer(run_id, update)
        except SteeringConflictError as error:
            return "too late" if error.is_taken else "superseded"
        return "sent"


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY, accepted_signals=[STEERING]))
class Steered:
    """Is steered in many revisions while it works, between actions that may not be repeated."""

    def __init__(self, model: IAgentModel, desk: Desk, post: Postbox) -> None:
        self.model, self.desk, self.post = model, desk, post

    async def execute(self) -> Items:
        said: list[str] = []
        said.append(await self.desk.steer("a", 1, "left"))
        said.append(await self.desk.steer("a", 2, "right"))
        said.append(await self.desk.steer("b", 2, "later..."))
        said.append(await self.desk.steer("c", 1, "never"))
        said.append(await self.desk.steer("c", 2, ""))
        said.append(await self._ask())
        said.append(await self.post.stamp("first"))
        said.append(await self.desk.steer("a", 3, "straight"))
        said.append(await self.desk.steer("a", 4, "back!"))
        said.append(await self.desk.steer("b", 1, "older"))
        said.append(await self._ask())
        said.append(await self.desk.steer("b", 3, "now"))
        said.append(await self._ask())
        said.append(await self.post.stamp("second"))
        said.append(await self.desk.steer("d", 1, "go..."))
        said.append(await self.desk.steer("d", 2, "go on"))
        said.append(str((await next_signal(STEERING)).payload["text"]))
        yield Final(said)

    async def _ask(self) -> str:
        return (await self.model.complete(ModelRequest([ModelMessage.user("Well?")]))).content


async def test_no_crash_uses_a_revision_that_does_not_count_or_loses_the_one_that_does(
    second_stops: tuple[int, ...],
) -> None:
    report = await crash_matrix(Steered, add=[World(), Desk, Postbox, Parrot], second_stops=second_stops)
    assert report.reference.status is AgentStatus.COMPLETED
    assert report.points > 45
    heard = [said for said in report.reference.output if said.startswith("user: ")]
    assert heard[0] == "user: Well?; user: right"
    assert "user: now" in heard[-1]
    assert not any(word in said for said in heard for word in ("left", "later", "never", "older", "back"))
    report.assert_same_result()
    report.assert_no_repeated_effects()
