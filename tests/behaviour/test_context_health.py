"""Context from a provider, symptoms from observers, and the actions of a handler: carried out or refused, on record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pilotage import Agent, AgentExecutionSpec, Application, RecoveryStrategy, ToolEffects, agent_tool
from pilotage.agent import (
    AgentCompactionPolicy,
    AgentContext,
    AgentEvidenceKind,
    AgentStatus,
    AgentTeammate,
    ContextFreshness,
    ContextHealthSignal,
    ContextManifest,
    ContextOptimizationAction,
    ContextOptimizationActionKind,
    ContextPack,
    ContextPackRole,
    ContextRotSymptom,
    ContextSensitivity,
    DelegationContextSlice,
    DelegationPacket,
    IAgentContextHandler,
    IAgentContextObserver,
    IAgentContextProvider,
    RunAgentInput,
    RunContext,
)
from pilotage.agent.context import ContextTokenBudget
from pilotage.context import KeepRecent
from pilotage.errors import AgentDefinitionError, ApplicationStartError
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

DURABLE = RecoveryStrategy.ACTION_BOUNDARY
KIND = ContextOptimizationActionKind
EVIDENCE = ContextPackRole.EVIDENCE


class Desk:
    """A tool that gives the model something to do between its steps."""

    @agent_tool(effects=ToolEffects.read_only())
    async def look(self, page: int) -> str:
        """Look at a page."""
        return f"page {page}"


@Agent(spec=AgentExecutionSpec(recovery=DURABLE))
class Clerk(Desk):
    """Answer."""


@Agent(spec=AgentExecutionSpec(recovery=DURABLE, refresh_context_each_step=True))
class FreshClerk(Desk):
    """Answer."""


@Agent
class Reader:
    """Condense."""


@Agent(spec=AgentExecutionSpec(recovery=DURABLE, teammates=[AgentTeammate("reader", Reader)]))
class TeamClerk(Desk):
    """Answer."""


class Search(IAgentContextProvider):
    """Provides what it found, with the number of the search in it."""

    def __init__(self, pack: str = "found", *, failures: int = 0, **facts: Any) -> None:
        self.asked: list[tuple[str, int]] = []
        self._pack = pack
        self._failures = failures
        self._facts = facts

    async def provide(self, run_input: RunAgentInput, model_step: int) -> AgentContext:
        if self._failures:
            self._failures -= 1
            raise ConnectionError("no search today")
        self.asked.append((run_input.instruction, model_step))
        pack = ContextPack(self._pack, f"result {len(self.asked)}", "search", EVIDENCE, **self._facts)
        return AgentContext([pack])


class Reports(IAgentContextObserver):
    """Reports the same symptom of one pack with every request."""

    def __init__(self, symptom: ContextRotSymptom, pack: str) -> None:
        self._symptom = symptom
        self._pack = pack
        self.seen: list[tuple[ContextPack, ...]] = []

    async def observe(
        self, context: RunContext, packs: Sequence[ContextPack], manifest: ContextManifest
    ) -> Sequence[ContextHealthSignal]:
        self.seen.append(tuple(packs))
        if self._pack not in {pack.id for pack in packs}:
            return ()
        return [ContextHealthSignal("seen", self._symptom, manifest.id, self._pack)]


class Answers(IAgentContextHandler):
    """Selects the same kind of action for every pack with a symptom."""

    def __init__(self, kind: ContextOptimizationActionKind, **facts: Any) -> None:
        self.signals: list[ContextHealthSignal] = []
        self._kind = kind
        self._facts = facts

    async def select_optimization_actions(
        self, signals: Sequence[ContextHealthSignal], manifest: ContextManifest
    ) -> Sequence[ContextOptimizationAction]:
        self.signals += signals
        targets = tuple(signal.pack_id for signal in signals if signal.pack_id is not None)
        action = ContextOptimizationAction(
            f"{manifest.id}/answer", self._kind, tuple(each.id for each in signals), targets, **self._facts
        )
        return [action]

    async def slice_for_child(
        self, packet: DelegationPacket, packs: Sequence[ContextPack]
    ) -> DelegationContextSlice:
        return packet.context


def given(*packs: ContextPack) -> RunAgentInput:
    return RunAgentInput("visit", "What is new?", context=AgentContext(packs))


def looking(times: int, *, last: str = "Done.") -> ScriptedModel:
    return ScriptedModel([*(calls("look", page=number) for number in range(times)), says(last)])


class Office:
    """One application with a store, from which the evidence of a run is read."""

    def __init__(self, agent: type, model: ScriptedModel, *ports: object) -> None:
        self.store = MemoryStore()
        self.model = model
        self._agent = agent
        self.app = Application("office").add(agent, Reader, model, *ports, *self.store.ports)
        initialize(self.app)

    async def ask(self, question: object = "What is new?") -> Any:
        async with self.app:
            run = await self.app.get(AgentRuns).start(self._agent, question)
            return await run.result()

    def shown(self) -> list[str]:
        """What the model was shown of packs, by call."""
        return [
            "\n".join(message.text for message in request.messages if message.text.startswith("<context"))
            for request in self.model.requests
        ]

    async def outcomes(self, run_id: str) -> list[tuple[str, str]]:
        """The kind and the outcome of each action, as the evidence behind it has them."""
        found = await self.store.evidence.list_by_state(run_id)
        actions = [
            each.payload["action"]
            for each in found
            if each.kind is AgentEvidenceKind.CONTEXT_OPTIMIZATION and each.payload["stage"] == "after"
        ]
        return [
            (each["kind"], each["metadata"].get("refused_because") or each["metadata"].get("outcome", "done"))
            for each in actions
        ]


async def test_context_is_provided_once_before_the_first_model_step() -> None:
    search = Search()
    office = Office(Clerk, looking(2), search)
    result = await office.ask()
    assert result.output == "Done."
    assert search.asked == [("What is new?", 1)]
    assert all("| result 1" in shown for shown in office.shown())


async def test_context_is_fetched_anew_for_each_model_step_where_the_spec_says_so() -> None:
    search = Search()
    office = Office(FreshClerk, looking(2), search)
    await office.ask()
    assert [step for _, step in search.asked] == [1, 2, 3]
    assert ["| result 1" in office.shown()[0], "| result 2" in office.shown()[1]] == [True, True]
    assert "result 1" not in office.shown()[2]


async def test_a_provided_pack_takes_the_place_of_the_one_that_was_given() -> None:
    office = Office(Clerk, looking(0), Search("note"))
    await office.ask(given(ContextPack("note", "old", "crm", EVIDENCE)))
    assert "result 1" in office.shown()[0]
    assert "old" not in office.shown()[0]


async def test_context_that_is_fetched_each_step_needs_a_provider() -> None:
    office = Office(FreshClerk, looking(0))
    with pytest.raises(ApplicationStartError, match="nothing provides IAgentContextProvider"):
        await office.ask()


async def test_a_durable_run_waits_for_a_provider_that_fails() -> None:
    search = Search(failures=1)
    office = Office(Clerk, looking(0), search)
    async with office.app:
        runs = office.app.get(AgentRuns)
        result = await (await runs.start(Clerk, "What is new?")).result()
        assert result.status is AgentStatus.INTERRUPTED
        assert "no search today" not in str(result.state)
        resumed = await (await runs.resume(result.state.id)).result()
    assert resumed.output == "Done."
    assert len(office.model.requests) == 1


async def test_what_an_observer_reports_reaches_the_handler_and_its_drop_is_carried_out_once() -> None:
    handler = Answers(KIND.CONTEXT_SLICE_DROP)
    observer = Reports(ContextRotSymptom.CONTRADICTORY, "note")
    office = Office(Clerk, looking(2), handler, observer)
    note = ContextPack("note", "Ada is away.", "crm", EVIDENCE)
    result = await office.ask(given(note, ContextPack("other", "Ada is here.", "crm", EVIDENCE)))
    assert [signal.symptom for signal in handler.signals] == [ContextRotSymptom.CONTRADICTORY]
    assert ["away" in shown for shown in office.shown()] == [False] * 3
    assert all("here" in shown for shown in office.shown())
    assert await office.outcomes(result.state.id) == [("context_slice_drop", "done")]


async def test_a_pack_with_the_content_of_another_is_seen_as_pollution() -> None:
    handler = Answers(KIND.CONTEXT_SLICE_DROP)
    office = Office(Clerk, looking(0), handler)
    await office.ask(
        given(ContextPack("a", "Same.", "crm", EVIDENCE), ContextPack("b", "Same.", "mail", EVIDENCE))
    )
    assert [(each.symptom, each.pack_id) for each in handler.signals] == [(ContextRotSymptom.POLLUTED, "b")]
    assert office.shown()[0].count("Same.") == 1


async def test_a_large_pack_that_no_reply_uses_is_of_low_relevance() -> None:
    handler = Answers(KIND.CONTEXT_SLICE_DROP)
    office = Office(Clerk, looking(3), handler)
    await office.ask(given(ContextPack("book", "volcano glacier meadow " * 200, "crm", EVIDENCE)))
    assert [each.symptom for each in handler.signals] == [ContextRotSymptom.LOW_RELEVANCE]
    assert ["volcano" in shown for shown in office.shown()] == [True, True, True, False]


async def test_a_stale_pack_is_fetched_again() -> None:
    search = Search("note")
    office = Office(Clerk, looking(1), Answers(KIND.RETRIEVAL_REFRESH), search, StaleOnce())
    result = await office.ask(given(ContextPack("other", "x", "crm", EVIDENCE)))
    assert [step for _, step in search.asked] == [1, 2]
    assert ["result 1" in office.shown()[0], "result 2" in office.shown()[1]] == [True, True]
    outcomes = await office.outcomes(result.state.id)
    assert outcomes == [
        ("retrieval_refresh", "the context was fetched for this model step"),
        ("retrieval_refresh", "done"),
    ]


class StaleOnce(IAgentContextObserver):
    """Reports the note as stale."""

    async def observe(
        self, context: RunContext, packs: Sequence[ContextPack], manifest: ContextManifest
    ) -> Sequence[ContextHealthSignal]:
        return [ContextHealthSignal("old", ContextRotSymptom.STALE, manifest.id, "note")]


REFUSALS = [
    (Answers(KIND.RETRIEVAL_REFRESH), "the application has no IAgentContextProvider"),
    (Answers(KIND.COMPRESSION), "the agent has no context budget to compress to"),
    (
        Answers(KIND.DELEGATION, delegation_ref="nobody"),
        "the agent has no teammate 'nobody': name one in delegation_ref",
    ),
]


@pytest.mark.parametrize(("handler", "reason"), REFUSALS, ids=[each[1][:20] for each in REFUSALS])
async def test_an_action_that_cannot_be_carried_out_is_refused_on_record(
    handler: Answers, reason: str
) -> None:
    office = Office(Clerk, looking(0), handler)
    old = ContextPack("note", "old", "crm", EVIDENCE, ContextFreshness.STALE)
    result = await office.ask(given(old))
    assert result.output == "Done."
    assert [found for _, found in await office.outcomes(result.state.id)] == [reason]
    assert "| old" in office.shown()[0]


async def test_a_pack_that_instructs_is_not_dropped() -> None:
    office = Office(Clerk, looking(0), Answers(KIND.CONTEXT_SLICE_DROP))
    rule = ContextPack("rule", "Be kind.", "handbook", ContextPackRole.INSTRUCTION, ContextFreshness.STALE)
    result = await office.ask(given(rule))
    assert await office.outcomes(result.state.id) == [
        ("context_slice_drop", "pack 'rule' instructs the model")
    ]


async def test_a_teammate_condenses_packs_and_its_answer_takes_their_place() -> None:
    model = ScriptedModel([says("In short: rain."), calls("look", page=1), says("Done.")])
    office = Office(TeamClerk, model, Answers(KIND.DELEGATION, delegation_ref="reader"))
    old = ContextPack("note", "It rained and rained.", "crm", EVIDENCE, ContextFreshness.STALE)
    result = await office.ask(given(old))
    assert result.output == "Done."
    delegated = office.model.requests[0]
    assert "| It rained and rained." in delegated.messages[-1].text
    assert ["In short: rain." in shown for shown in office.shown()[1:]] == [True, True]
    assert not any("It rained" in shown for shown in office.shown()[1:])
    assert await office.outcomes(result.state.id) == [("delegation", "done")]


async def test_a_confidential_pack_is_not_given_to_a_teammate() -> None:
    office = Office(TeamClerk, looking(0), Answers(KIND.DELEGATION, delegation_ref="reader"))
    old = ContextPack(
        "note",
        "Hush.",
        "crm",
        EVIDENCE,
        ContextFreshness.STALE,
        sensitivity=ContextSensitivity.CONFIDENTIAL,
    )
    result = await office.ask(given(old))
    assert await office.outcomes(result.state.id) == [("delegation", "pack 'note' may not leave the run")]


async def test_the_threshold_of_a_compaction_policy_begins_the_compaction() -> None:
    @Agent(
        spec=AgentExecutionSpec(
            recovery=DURABLE,
            compaction_policy=AgentCompactionPolicy([KeepRecent(turns=1)], trigger_token_threshold=60),
        )
    )
    class Brief(Desk):
        """Answer."""

    office = Office(Brief, looking(6))
    await office.ask()
    assert len(office.model.requests[-1].messages) < len(office.model.requests[1].messages) + 4


async def test_provided_packs_count_against_the_context_budget() -> None:
    @Agent(spec=AgentExecutionSpec(recovery=DURABLE, context_budget=ContextTokenBudget(max_tokens=40)))
    class Narrow(Desk):
        """Answer."""

    office = Office(Narrow, looking(0), Search("found " + "x" * 100))
    result = await office.ask()
    assert await office.outcomes(result.state.id) == [("compression", "no strategy saves anything")]


def test_two_different_compactions_are_refused() -> None:
    with pytest.raises(AgentDefinitionError, match="Set one of them"):
        AgentExecutionSpec(
            compaction=[KeepRecent(turns=2)], compaction_policy=AgentCompactionPolicy([KeepRecent(turns=1)])
        )


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (None, ContextTokenBudget(max_tokens=100)),
        (ContextTokenBudget(max_tokens=80), ContextTokenBudget(max_tokens=80)),
        (ContextTokenBudget(500, None, 50), ContextTokenBudget(150, None, 50)),
        (ContextTokenBudget(), ContextTokenBudget(max_tokens=100)),
    ],
)
def test_the_threshold_is_within_the_budget(
    budget: ContextTokenBudget | None, expected: ContextTokenBudget
) -> None:
    spec = AgentExecutionSpec(
        context_budget=budget, compaction_policy=AgentCompactionPolicy(trigger_token_threshold=100)
    )
    assert spec.effective_context_budget == expected
