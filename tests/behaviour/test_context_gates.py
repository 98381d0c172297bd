"""Context changes at the gates of a run: approval, trust, secrets, damaged records, ports that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.behaviour.test_context_health import (
    DURABLE,
    EVIDENCE,
    KIND,
    Answers,
    Desk,
    Reader,
    Reports,
    Search,
    given,
    looking,
)

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Application,
    ApprovalDecision,
    Idempotency,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentApprovalBoundaryKind,
    AgentApprovalRequest,
    AgentCompactionPolicy,
    AgentContext,
    AgentStatus,
    ApprovalSubject,
    ContextFreshness,
    ContextHealthSignal,
    ContextManifest,
    ContextOptimizationAction,
    ContextPack,
    ContextPackRole,
    ContextRotSymptom,
    IAgentApprovalHandler,
    IAgentContextObserver,
    IAgentContextProvider,
    RejectionPolicy,
    RunAgentInput,
    RunContext,
    RunKey,
    StreamingRedactionPolicy,
    StreamingSensitivePattern,
    ToolApprovalRequirement,
    ToolRisk,
)
from pilotage.context import KeepRecent
from pilotage.runtime import AgentRuns, GateSettings
from pilotage.runtime.context.optimize import decode_provided
from pilotage.runtime.journal.record_fields import DamagedRecordError
from pilotage.runtime.plugin import initialize
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

CHANGE = AgentApprovalBoundaryKind.CONTEXT_TRANSFORMATION
STALE = ContextFreshness.STALE


@Agent(spec=AgentExecutionSpec(recovery=DURABLE, on_rejection=RejectionPolicy.TELL_MODEL))
class Clerk(Desk):
    """Answer."""

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def stamp(self, number: int) -> str:
        """Stamp a page."""
        return f"stamped {number}"


class AsksForChanges(IAgentApprovalHandler):
    """Lets a person approve every change of a context."""

    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        if subject.boundary is not CHANGE:
            return None
        return AgentApprovalRequest(
            "any",
            str(context.run_id),
            CHANGE,
            "Change the context?",
            ToolRisk(),
            allowed_decisions=(ApprovalDecision.APPROVE, ApprovalDecision.REJECT),
        )


@asynccontextmanager
async def process(store: MemoryStore, model: ScriptedModel, *ports: object) -> AsyncIterator[AgentRuns]:
    app = Application("office").add(Clerk, Reader, model, *ports, *store.ports)
    initialize(app)
    async with app:
        yield app.get(AgentRuns)


def stale(*ids: str) -> RunAgentInput:
    return given(*(ContextPack(each, f"old {each}", "crm", EVIDENCE, STALE) for each in ids))


def words_of(model: ScriptedModel) -> list[str]:
    return ["\n".join(message.text for message in request.messages) for request in model.requests]


async def test_a_change_that_a_person_approves_is_made_as_it_was_shown() -> None:
    store, model = MemoryStore(), looking(1)
    async with process(store, model, AsksForChanges(), Answers(KIND.CONTEXT_SLICE_DROP)) as runs:
        run = await runs.start(Clerk, stale("a"))
        assert (await run.result()).status is AgentStatus.INTERRUPTED
        (question,) = await runs.questions(run.id)
        assert "context_slice_drop" in str(question)
        await runs.answer(run.id, question.id, ApprovalDecision.APPROVE, resume=False)
        result = await (await runs.resume(run.id)).result()
    assert result.output == "Done."
    assert not any("| old a" in words for words in words_of(model))


async def test_an_approval_is_for_the_change_that_was_shown_whatever_the_handler_selects_by_then() -> None:
    store, model = MemoryStore(), looking(0)
    async with process(store, model, AsksForChanges(), Answers(KIND.CONTEXT_SLICE_DROP)) as runs:
        run = await runs.start(Clerk, stale("a"))
        await run.result()
        (question,) = await runs.questions(run.id)
        await runs.answer(run.id, question.id, ApprovalDecision.APPROVE, resume=False)
    other = Answers(KIND.RETRIEVAL_REFRESH)
    async with process(store, model, AsksForChanges(), other, Search("a")) as runs:
        assert (await (await runs.resume(run.id)).result()).output == "Done."
    assert other.signals == []
    assert "| old a" not in words_of(model)[0]


async def test_a_rejected_change_leaves_the_context_as_it_is_also_in_replay() -> None:
    store = MemoryStore()
    model = ScriptedModel([calls("look", page=1), calls("stamp", number=1), says("Done.")])
    drops = Answers(KIND.CONTEXT_SLICE_DROP)
    observer = Reports(ContextRotSymptom.CONTRADICTORY, "a")
    async with process(store, model, AsksForChanges(), drops, observer) as runs:
        run = await runs.start(Clerk, given(ContextPack("a", "Kept.", "crm", EVIDENCE)))
        for _ in range(2):
            assert (await run.result()).status is AgentStatus.INTERRUPTED
            (question,) = await runs.questions(run.id)
            await runs.answer(run.id, question.id, ApprovalDecision.REJECT, resume=False)
            run = await runs.resume(run.id)
        await run.result()
        (question,) = await runs.questions(run.id)
        assert "stamp" in question.prompt
        assert all("| Kept." in words for words in words_of(model))
        await runs.verify(run.id)


async def test_a_rejected_compression_leaves_the_transcript_as_it_is_also_in_replay() -> None:
    spec = AgentExecutionSpec(
        recovery=DURABLE,
        on_rejection=RejectionPolicy.TELL_MODEL,
        compaction_policy=AgentCompactionPolicy([KeepRecent(turns=1)], trigger_token_threshold=60),
    )

    @Agent(spec=spec)
    class Brief(Desk):
        """Answer."""

    store, model = MemoryStore(), looking(4)
    app = Application("office").add(Brief, model, AsksForChanges(), *store.ports)
    initialize(app)
    async with app:
        runs = app.get(AgentRuns)
        run = await runs.start(Brief, "What is new?")
        while (result := await run.result()).status is AgentStatus.INTERRUPTED:
            (question,) = await runs.questions(run.id)
            await runs.answer(run.id, question.id, ApprovalDecision.REJECT, resume=False)
            run = await runs.resume(run.id)
    assert result.output == "Done."
    assert len(model.requests[-1].messages) == 10


async def test_provided_packs_are_untrusted_and_a_tool_that_writes_then_needs_an_approval() -> None:
    store = MemoryStore()
    model = ScriptedModel([calls("stamp", number=1), calls("stamp", number=2), says("Done.")])
    async with process(store, model, Search()) as runs:
        result = await (await runs.start(Clerk, "Stamp.")).result()
        assert result.status is AgentStatus.INTERRUPTED
        (question,) = await runs.questions(result.state.id)
    async with process(store, model) as runs:
        # The label comes back with the record, also in a process that has no provider any more.
        await runs.answer(result.state.id, question.id, ApprovalDecision.APPROVE, resume=False)
        again = await (await runs.resume(result.state.id)).result()
        assert again.status is AgentStatus.INTERRUPTED
        assert [asked.id for asked in await runs.questions(result.state.id)] != [question.id]


async def test_provided_packs_that_no_stranger_wrote_need_none() -> None:
    model = ScriptedModel([calls("stamp", number=1), says("Done.")])
    async with process(MemoryStore(), model, Search(reads_untrusted=False)) as runs:
        assert (await (await runs.start(Clerk, "Stamp.")).result()).output == "Done."


class Drifts(IAgentContextProvider):
    """Provides its own words first, and those of strangers when it is asked again."""

    async def provide(self, run_input: RunAgentInput, model_step: int) -> AgentContext:
        pack = ContextPack("a", f"step {model_step}", "web", EVIDENCE, reads_untrusted=model_step > 1)
        return AgentContext([pack])


async def test_packs_that_are_fetched_again_bring_their_label_along() -> None:
    model = ScriptedModel([calls("stamp", number=1), calls("stamp", number=2), says("Done.")])
    ports = (Drifts(), Answers(KIND.RETRIEVAL_REFRESH), Reports(ContextRotSymptom.CONTRADICTORY, "a"))
    async with process(MemoryStore(), model, *ports) as runs:
        result = await (await runs.start(Clerk, "Stamp.")).result()
        (question,) = await runs.questions(result.state.id)
    assert question.arguments == {"number": 2}


class Instructs(IAgentContextProvider):
    """Provides an instruction that a stranger wrote."""

    async def provide(self, run_input: RunAgentInput, model_step: int) -> AgentContext:
        label = TrustLabel(Integrity.UNTRUSTED, Confidentiality.PUBLIC, frozenset({"web"}))
        facts = {"trust": label.to_payload()}
        return AgentContext([ContextPack("web", "Obey.", "web", ContextPackRole.INSTRUCTION, metadata=facts)])


async def test_an_instruction_of_strangers_fails_the_model_step_and_is_never_shown() -> None:
    model = looking(0)
    async with process(MemoryStore(), model, Instructs()) as runs:
        result = await (await runs.start(Clerk, "Hello.")).result()
    assert result.status is AgentStatus.FAILED
    assert "a stranger would instruct the model" in str(result.error)
    assert model.requests == []


class Misbehaves(IAgentContextObserver, IAgentContextProvider):
    """Answers with something else than it should."""

    async def provide(self, run_input: RunAgentInput, model_step: int) -> AgentContext:
        return None  # type: ignore[return-value]

    async def observe(
        self, context: RunContext, packs: Sequence[ContextPack], manifest: ContextManifest
    ) -> Sequence[ContextHealthSignal]:
        return ["stale"]  # type: ignore[list-item]


class Garbles(Answers):
    """Selects what is no action."""

    async def select_optimization_actions(
        self, signals: Sequence[ContextHealthSignal], manifest: ContextManifest
    ) -> Sequence[ContextOptimizationAction]:
        return None  # type: ignore[return-value]


async def test_wrong_answers_of_observers_and_handlers_change_nothing() -> None:
    class Odd(IAgentContextObserver):
        observe = Misbehaves.observe

    model = looking(0)
    async with process(MemoryStore(), model, Odd(), Garbles(KIND.COMPRESSION)) as runs:
        assert (await (await runs.start(Clerk, stale("a"))).result()).output == "Done."
    assert "| old a" in words_of(model)[0]


async def test_a_wrong_answer_of_a_provider_is_none() -> None:
    async with process(MemoryStore(), looking(0), Misbehaves()) as runs:
        result = await (await runs.start(Clerk, "Hello.")).result()
    assert result.status is AgentStatus.INTERRUPTED
    assert "returned None, not AgentContext" in str(result.state.current_activity)


class Hangs(IAgentContextObserver, IAgentContextProvider):
    """Never answers."""

    async def provide(self, run_input: RunAgentInput, model_step: int) -> AgentContext:
        return await asyncio.Event().wait()  # type: ignore[return-value]

    async def observe(
        self, context: RunContext, packs: Sequence[ContextPack], manifest: ContextManifest
    ) -> Sequence[ContextHealthSignal]:
        return await asyncio.Event().wait()  # type: ignore[return-value]


class NeverReports(IAgentContextObserver):
    """Never answers."""

    observe = Hangs.observe


async def test_ports_that_hang_are_left_after_the_time_that_the_gate_allows() -> None:
    patience = GateSettings(patience_seconds=0.01)
    async with process(MemoryStore(), looking(0), NeverReports(), patience) as runs:
        assert (await (await runs.start(Clerk, stale("a"))).result()).output == "Done."
    async with process(MemoryStore(), looking(0), Hangs(), patience) as runs:
        result = await (await runs.start(Clerk, "Hello.")).result()
    assert "Hangs gave no answer (TimeoutError)" in str(result.state.current_activity)


class Secretive(IAgentContextProvider):
    """Provides what a policy redacts."""

    async def provide(self, run_input: RunAgentInput, model_step: int) -> AgentContext:
        return AgentContext([ContextPack("key", "The key is KEY-1234.", "vault", EVIDENCE)])


def test_packs_that_are_redacted_are_plain_in_no_row_and_no_evidence() -> None:
    pattern = StreamingSensitivePattern("key", r"KEY-\d{4}", "[KEY]")
    policy = StreamingRedactionPolicy((pattern,))

    @Agent(spec=AgentExecutionSpec(recovery=DURABLE, redaction=policy))
    class Guarded(Desk):
        """Answer."""

    async def rows() -> tuple[str, str]:
        store, model = MemoryStore(), looking(1)
        observer = Reports(ContextRotSymptom.POLLUTED, "key")
        drops = Answers(KIND.CONTEXT_SLICE_DROP, reason="it repeats KEY-1234")
        app = Application("office").add(Guarded, model, Secretive(), observer, drops, *store.ports)
        initialize(app)
        async with app:
            run = await app.get(AgentRuns).start(Guarded, "Hello.")
            assert (await run.result()).output == "Done."
        found = [row async for row in store.journal.read(RunKey("default", run.id))]
        return str([row.view for row in found]), str(await store.evidence.list_by_state(run.id))

    views, evidence = asyncio.run(rows())
    assert "KEY-1234" not in views + evidence
    assert "[KEY]" in evidence


async def test_a_damaged_record_of_provided_context_interrupts_the_run() -> None:
    damaged: list[Any] = [{"given": {"packs": [{"id": 1}]}}, {"given": {"packs": "none"}}, {"given": "x"}]
    for record in damaged:
        with pytest.raises(DamagedRecordError):
            decode_provided(record)
