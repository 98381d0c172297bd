"""What wrong architectures are told, word for word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from pilotage import AgentExecutionLimits, AgentExecutionSpec, Application
from pilotage.architectures import (
    ActorCritic,
    Blackboard,
    Debate,
    PlanAndExecute,
    React,
    Reflexion,
    Rewoo,
    Router,
    SelfRefine,
    Supervisor,
    Swarm,
    TreeOfThoughts,
    describe,
)
from pilotage.errors import AgentBootstrapError, AgentDefinitionError
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel
from pilotage.testing.architecture_proofs import proof_agent
from pilotage.testing.proof_world import ActionLedger, HostileTools, ProofTools

LIMITED = AgentExecutionSpec(
    instructions="Work.", limits=AgentExecutionLimits(max_steps=3), timeout_seconds=None
)
NO_AGENT = "which is no agent. Give a class marked @Agent, the name of an agent, or a spec."


@pytest.mark.parametrize(
    ("define", "words"),
    [
        (lambda: Router({}), "Router.routes is empty. Give it at least one member."),
        (lambda: Router({" ": "x"}), "Router.routes is blank. Give it at least one visible character."),
        (lambda: Router({"a": cast(Any, int)}), f"Router.routes['a'] is {int!r}, {NO_AGENT}"),
        (lambda: Router({"a": cast(Any, 7)}), f"Router.routes['a'] is 7, {NO_AGENT}"),
        (lambda: Router({"a": cast(Any, React())}), f"Router.routes['a'] is {React()!r}, {NO_AGENT}"),
        (lambda: Router({"a": "x"}, fallback=cast(Any, int)), f"Router.fallback is {int!r}, {NO_AGENT}"),
        (
            lambda: Router({"a": "x"}, min_confidence=1.5),
            "Router.min_confidence is 1.5. Use a number from 0 to 1.",
        ),
        (
            lambda: Supervisor({"a": LIMITED}),
            "Supervisor.workers['a'] is a spec with limits, which only a run of its own can keep. "
            "Make it a class marked @Agent, or leave that out.",
        ),
        (
            lambda: Supervisor({"a": "x"}, max_parallel=0),
            "Supervisor.max_parallel is 0. Use a positive number, or leave it out.",
        ),
        (lambda: PlanAndExecute(max_steps=0), "PlanAndExecute.max_steps is 0. Use a positive number."),
        (lambda: PlanAndExecute(max_replans=-1), "PlanAndExecute.max_replans is -1. Use zero or more."),
        (lambda: Rewoo(max_steps=0), "Rewoo.max_steps is 0. Use a positive number."),
        (lambda: Reflexion(threshold=2), "Reflexion.threshold is 2. Use a number from 0 to 1."),
        (lambda: Reflexion(max_attempts=0), "Reflexion.max_attempts is 0. Use a positive number."),
        (lambda: SelfRefine(max_rounds=0), "SelfRefine.max_rounds is 0. Use a positive number."),
        (
            lambda: ActorCritic(critic=" "),
            "ActorCritic.critic is blank. Give it at least one visible character.",
        ),
        (lambda: Debate({"a": "x"}, rounds=0), "Debate.rounds is 0. Use a positive number."),
        (lambda: TreeOfThoughts(beam_width=0), "TreeOfThoughts.beam_width is 0. Use a positive number."),
        (lambda: Blackboard({}), "Blackboard.agents is empty. Give it at least one member."),
        (lambda: Swarm({"a": "x"}, entry="b"), "Swarm.entry is 'b', which is none of its peers ('a')."),
        (
            lambda: Swarm({"a": "x"}, entry="a", max_handoffs=-1),
            "Swarm.max_handoffs is -1. Use zero or more.",
        ),
        (lambda: describe(int), "int is no agent. Mark it with @Agent."),
    ],
)
def test_a_wrong_architecture_is_told_what_to_write_instead(define: Callable[[], object], words: str) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        define()
    assert str(caught.value) == words


async def test_a_worker_that_is_not_part_of_the_application_is_named_at_start_up() -> None:
    desk = proof_agent("desk", Supervisor(workers={"clerk": proof_agent("clerk"), "other": "nobody"}))
    app = Application("office").add(
        desk, ProofTools, HostileTools, ActionLedger(), ScriptedModel([]), *MemoryStore().ports
    )
    initialize(app)
    with pytest.raises(AgentBootstrapError) as caught:
        async with app:
            pass
    assert [problem.summary for problem in caught.value.problems] == [
        "it hands work to 'clerk', which is no agent of this application.",
        "it hands work to 'nobody', which is no agent of this application.",
    ]
