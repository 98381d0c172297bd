"""Methods that we added to ports work for classes that have the contract's methods alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.contract.written.delegate import Colleague
from tests.contract.written.handlers import Compressing
from tests.contract.written.repositories import CountedEvidence, CountedSignals, CountedStates

from pilotage.agent.delegation import (
    AgentDelegateTarget,
    DelegationContextSlice,
    DelegationPacket,
    DelegationResult,
    DelegationReturnPolicy,
)
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.repositories import RunPage
from pilotage.agent.ports.runner import IAgentDelegate
from pilotage.agent.signals import AgentSignal, AgentSignalEnd, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.agent.yields import AgentYield, Progress
from pilotage.errors import AgentDefinitionError, CallerError, RunError
from pilotage.testing import MemoryStore

START = datetime(2026, 1, 1, tzinfo=UTC)
PACKET = DelegationPacket(
    "p1", "run-1", AgentDelegateTarget("colleague"), {"city": "Oslo"}, DelegationContextSlice("by train")
)


async def stored(*found: AgentState) -> CountedStates:
    """A repository with some states."""
    states = CountedStates(MemoryStore().states)
    for state in found:
        await states.save(state)
    return states


def run(number: int, status: AgentStatus = AgentStatus.ACTIVE, **facts: str) -> AgentState:
    state = AgentState(f"r{number}", "shop:Refunds", status, created_at=START + timedelta(hours=number))
    return replace(state, **facts)  # type: ignore[arg-type]


def ids(page: RunPage) -> list[str]:
    return [state.id for state in page.runs]


async def test_a_state_comes_without_a_head_where_the_store_does_not_know_it() -> None:
    states = await stored(run(1))
    assert await states.get_with_head("r1") == (await states.get("r1"), None)
    assert await states.get_with_head("r2") is None


async def test_runs_are_listed_newest_first_across_statuses() -> None:
    states = await stored(run(1), run(2, AgentStatus.COMPLETED), run(3), run(4, AgentStatus.FAILED))
    assert ids(await states.list_runs("default")) == ["r4", "r3", "r2", "r1"]


async def test_a_page_of_runs_leads_to_the_next_whatever_changes_in_between() -> None:
    states = await stored(*map(run, range(1, 6)))
    page = await states.list_runs("default", limit=2)
    await states.save(run(6))
    await states.save(run(3, AgentStatus.COMPLETED))
    rest = await states.list_runs("default", limit=2, after=page.cursor)
    last = await states.list_runs("default", limit=2, after=rest.cursor)
    assert [ids(page), ids(rest), ids(last)] == [["r5", "r4"], ["r3", "r2"], ["r1"]]
    assert last.cursor is None


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"statuses": (AgentStatus.COMPLETED, AgentStatus.FAILED)}, ["r3", "r2"]),
        ({"agent_type": "shop:Orders"}, ["r4"]),
        ({"since": START + timedelta(hours=3)}, ["r4", "r3"]),
        ({"until": START + timedelta(hours=2)}, ["r1"]),
        ({"since": START + timedelta(hours=2), "until": START + timedelta(hours=4)}, ["r3", "r2"]),
    ],
)
async def test_runs_are_listed_by_what_is_asked(asked: dict[str, object], expected: Collection[str]) -> None:
    states = await stored(
        run(1),
        run(2, AgentStatus.COMPLETED),
        run(3, AgentStatus.FAILED),
        run(4, agent_type="shop:Orders"),
        run(5, tenant_id="elsewhere"),
    )
    assert ids(await states.list_runs("default", **asked)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "cursor", ["", "not a cursor", "2026-01-01", "2026-01-01T00:00:00/r1", "2026-01-01T00:00:00+00:00/"]
)
async def test_a_wrong_cursor_leads_to_no_runs(cursor: str) -> None:
    with pytest.raises(CallerError, match="no page after"):
        await (await stored()).list_runs("default", after=cursor)


async def test_runs_of_a_conversation_are_not_known() -> None:
    with pytest.raises(CallerError, match="CountedStates does not know the conversations"):
        await (await stored()).list_runs("default", conversation_id="chat")


@pytest.mark.parametrize("asked", [{"limit": 0}, {"since": datetime(2026, 1, 1)}])  # noqa: DTZ001 - the mistake
async def test_a_page_of_runs_has_room_and_moments_have_a_zone(asked: dict[str, object]) -> None:
    with pytest.raises(AgentDefinitionError):
        await (await stored()).list_runs("default", **asked)  # type: ignore[arg-type]


async def test_evidence_comes_page_by_page() -> None:
    store = MemoryStore()
    await store.states.save(AgentState("run-1", "A", AgentStatus.ACTIVE))
    evidence = CountedEvidence(store.evidence)
    for number in range(3):
        await evidence.append(AgentEvidence(f"e{number}", "run-1", AgentEvidenceKind.TOOL))
    first = await evidence.page_by_state("run-1", limit=2)
    rest = await evidence.page_by_state("run-1", limit=2, after=first.cursor)
    assert [each.id for each in (*first.evidence, *rest.evidence)] == ["e0", "e1", "e2"]
    assert rest.cursor is None
    with pytest.raises(CallerError, match="no page after"):
        await evidence.page_by_state("run-1", after="yesterday")
    with pytest.raises(AgentDefinitionError):
        await evidence.page_by_state("run-1", limit=0)


async def test_answers_are_the_pending_ones_and_a_refused_one_says_so() -> None:
    store = MemoryStore()
    await store.states.save(AgentState("run-1", "A", AgentStatus.ACTIVE))
    signals = CountedSignals(store.signals)
    answer = await signals.append(AgentSignal("s1", "run-1", AgentSignalKind.APPROVAL_DECISION))
    await signals.append(AgentSignal("s2", "run-1", AgentSignalKind.CANCEL))
    assert await signals.list_answers("run-1") == [answer]
    assert (await signals.record_refused(answer)).end is AgentSignalEnd.REFUSED


async def test_a_child_gets_the_context_of_its_packet() -> None:
    assert await Compressing().slice_for_child(PACKET, ()) == PACKET.context


@pytest.mark.parametrize(
    ("policy", "summary", "output", "returned"),
    [
        ("summary", "found Grand Hotel Oslo", None, {"summary"}),
        ("evidence_refs", "(in the evidence)", None, {"evidence_refs"}),
        ("summary_and_evidence", "found Grand Hotel Oslo", None, {"summary", "evidence_refs"}),
        ("final_output", "found Grand Hotel Oslo", {"hotel": "Grand Hotel Oslo"}, {"output"}),
    ],
)
async def test_a_delegation_gives_what_its_policy_allows(
    policy: str, summary: str, output: object, returned: set[str]
) -> None:
    packet = replace(PACKET, return_policy=DelegationReturnPolicy(policy))
    result = await Colleague().delegate_tool_result(packet)
    assert (result.summary, result.output, set(result.metadata)) == (summary, output, returned)


class Silent(IAgentDelegate):
    async def delegate(self, packet: DelegationPacket) -> AsyncGenerator[AgentYield[DelegationResult], None]:
        yield Progress("hm")


async def test_a_delegation_without_a_result_fails_with_the_remedy() -> None:
    with pytest.raises(RunError, match=r"Silent\.delegate\(\) must be a Final with a DelegationResult"):
        await Silent().delegate_tool_result(PACKET)
