"""A run whose context is condensed, crashed at every write: every process shows the model the same, and counts the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    IAgentModel,
    Idempotency,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    RecoveryStrategy,
    RunResult,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import AgentEvidenceKind, ModelToolCall, ModelUsage, ToolApprovalRequirement
from pilotage.agent.context import ContextTokenBudget
from pilotage.context import SummariseOldTurns
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import (
    Fault,
    FaultyJournal,
    MemoryStore,
    ProcessStopped,
    SeededIds,
    StopAfter,
    StopBefore,
)

PAGES = 4
UNGATED = ToolApprovalRequirement.NOT_REQUIRED
EACH = ModelUsage(6, 4, 10)


@Agent(
    spec=AgentExecutionSpec(
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        context_budget=ContextTokenBudget(max_tokens=700, reserved_output_tokens=100),
        compaction=[SummariseOldTurns(keep_recent=1, max_summary_chars=200)],
    )
)
class Reader:
    """Read pages."""

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def page(self, number: int) -> str:
        """Turn a page, and read it."""
        return f"page {number}: " + "word " * 150


class Librarian(IAgentModel):
    """Asks for one page after the other; what it says depends on nothing but what it is shown."""

    def __init__(self, shown: list[str]) -> None:
        self.shown = shown

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.shown.append(_words(request))
        return ModelResponse(f"summary of {len(_words(request))} characters", usage=EACH)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        self.shown.append(_words(request))
        read = max((n for n in range(1, PAGES + 1) if f"page {n}:" in _words(request)), default=0)
        if read == PAGES:
            response = ModelResponse("Read.", usage=EACH)
        else:
            call = ModelToolCall("page", {"number": read + 1}, f"call-{read + 1}")
            response = ModelResponse("", tool_calls=[call], usage=EACH)
            yield ModelStreamEvent(ModelStreamEventKind.TOOL_CALL_CANDIDATE, tool_call=call)
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=response)


def _words(request: ModelRequest) -> str:
    return "\n".join(f"{message.role}: {message.text}" for message in request.messages)


class Library:
    """One run, carried on by as many processes as it takes; `shown` is what the model got to see, in order."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.ids = SeededIds(1)
        self.shown: list[str] = []
        self.commits = 0

    async def carry_through(self, *faults: Fault) -> RunResult:
        result: RunResult | None = None
        for fault in (*faults, None, None):
            result = result or await self._one_process(fault)
        assert result is not None
        return result

    async def _one_process(self, fault: Fault | None) -> RunResult | None:
        journal = FaultyJournal(self.store.journal, fault)
        app = Application("library").add(Reader, Librarian(self.shown), journal, self.ids)
        app.add(self.store.states, self.store.signals, self.store.evidence)
        initialize(app)
        async with app:
            runs = app.get(AgentRuns)
            try:
                return await self._carried_on(runs)
            except ProcessStopped:
                return None
            finally:
                self.commits = max(self.commits, journal.commits)

    async def _carried_on(self, runs: AgentRuns) -> RunResult:
        known = [state for status in AgentStatus for state in await self.store.states.list_by_status(status)]
        if not known:
            return await (await runs.start(Reader, "read all pages")).result()
        if known[0].is_terminal:
            return await runs.result(known[0].id)
        return await (await runs.resume(known[0].id)).result()

    async def digests(self, run_id: str) -> list[object]:
        """What the context was condensed to, as evidence has it."""
        found = await self.store.evidence.list_by_state(run_id)
        return [each.payload for each in found if each.kind is AgentEvidenceKind.CONTEXT_DIGEST]


async def undisturbed() -> tuple[Library, RunResult]:
    library = Library()
    return library, await library.carry_through()


async def test_the_run_is_condensed_at_all_so_that_there_is_something_to_replay() -> None:
    library, result = await undisturbed()
    assert result.output == "Read."
    summaries = [words for words in library.shown if "summary of" in words]
    assert summaries
    assert len(await library.digests(result.state.id)) >= 1


@pytest.mark.parametrize("stop", [StopBefore, StopAfter])
async def test_every_process_shows_the_model_what_the_undisturbed_one_did(
    stop: Callable[[int], Fault],
) -> None:
    reference, expected = await undisturbed()
    asked = dict.fromkeys(reference.shown)
    for number in range(1, reference.commits + 1):
        library = Library()
        result = await library.carry_through(stop(number))
        assert (result.status, result.output) == (expected.status, expected.output), number
        # A reply that never reached the store is asked for again, in the same words; nothing else is.
        assert dict.fromkeys(library.shown) == asked, number
        assert len(library.shown) - len(reference.shown) <= 2, number
        assert result.spent == expected.spent, number


async def test_a_second_crash_while_the_condensed_run_comes_back_changes_nothing() -> None:
    reference, expected = await undisturbed()
    for number in range(2, reference.commits + 1):
        for again in (1, 2, 3):
            library = Library()
            result = await library.carry_through(StopAfter(number), StopBefore(again))
            assert (result.output, result.spent) == (expected.output, expected.spent), (number, again)
            assert dict.fromkeys(library.shown) == dict.fromkeys(reference.shown), (number, again)
