"""An application of classes that were written to part A alone: durable, paused, resumed, cancelled, delegated."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from pilotage import AgentStatus, Application
from pilotage.adapters.agui import AgUiConfig, add_agui_endpoint
from pilotage.agent import IAgentJournal, IAgentModel
from pilotage.errors import CallerError
from pilotage.models import FallbackCondition, FallbackModel, RateLimitedModel
from pilotage.runtime import AgentRuns
from pilotage.testing import MemoryStore, crash_matrix
from tests.contract.written.agents import Adviser, BookingLoop, HotelDesk, TravelDesk
from tests.contract.written.agui import drives
from tests.contract.written.delegate import Colleague
from tests.contract.written.handlers import Compressing
from tests.contract.written.models import BrokenModel, ClosedModel, LedgerModel, NamelessCalls, PhraseModel
from tests.contract.written.repositories import CountedEvidence, CountedSignals, CountedStates
from tests.contract.written.tools import Bookings, Ledger

WRITTEN = Path(__file__).parent / "written"


@dataclass
class CountedStore:
    """A store whose repositories have the contract's methods and no others."""

    inner: MemoryStore = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        self.states = CountedStates(self.inner.states)
        self.signals = CountedSignals(self.inner.signals)
        self.evidence = CountedEvidence(self.inner.evidence)

    @property
    def journal(self) -> IAgentJournal:
        return self.inner.journal


@dataclass
class Travel:
    """The outside world of the application, which outlives its processes."""

    store: CountedStore = field(default_factory=CountedStore)
    ledger: Ledger = field(default_factory=Ledger)
    colleague: Colleague = field(default_factory=Colleague)
    model: type[PhraseModel] | IAgentModel = PhraseModel

    @asynccontextmanager
    async def process(self) -> AsyncIterator[Application]:
        """One process of the application."""
        app = Application("travel").add(TravelDesk, BookingLoop, Adviser, HotelDesk, Bookings, Compressing)
        app.add(self.ledger, self.colleague, self.model, self.store.journal, self.store.inner.sealer)
        app.add(self.store.states, self.store.signals, self.store.evidence)
        async with app.load_plugins():
            yield app


def _imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    plain = {each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names}
    return plain | {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


@pytest.mark.parametrize("path", sorted(WRITTEN.glob("*.py")), ids=lambda path: path.stem)
def test_the_classes_import_the_contract_and_nothing_else_of_ours(path: Path) -> None:
    contract = {"pilotage.agent", "pilotage.runtime", "pilotage.adapters.agui", "ag_ui.core"}
    others = {name for name in _imported(path) if name.partition(".")[0] not in sys.stdlib_module_names}
    assert {name for name in others if not name.startswith("tests.contract.written.")} <= contract


async def test_a_run_pauses_for_a_person_and_another_process_goes_on() -> None:
    travel = Travel()
    async with travel.process() as app:
        run = await app.get(AgentRuns).start(TravelDesk, "a journey to Oslo")
        paused = await run.result()
        assert paused.status == AgentStatus.INTERRUPTED
        assert travel.ledger.booked == []
    async with travel.process() as app:
        runs = app.get(AgentRuns)
        (question,) = await runs.questions(run.id)
        await runs.approve(question.id)
        result = await (await runs.resume(run.id)).result()
        assert (result.status, result.output.strip()) == (AgentStatus.COMPLETED, "Done: Oslo is booked")
        assert result.usage.total_tokens == 30
        await runs.verify(run.id)
        assert [state.id for state in (await runs.list()).runs] == [run.id]
        assert await runs.evidence(run.id)
    assert travel.ledger.booked == ["Oslo"]
    assert travel.store.states.asked["get_or_none"]
    assert travel.store.signals.asked["append"]


async def test_a_paused_run_is_cancelled() -> None:
    travel = Travel()
    async with travel.process() as app:
        runs = app.get(AgentRuns)
        run = await runs.start(TravelDesk, "a journey to Oslo")
        await run.result()
        await runs.cancel(run.id, reason="too expensive")
        assert (await (await runs.resume(run.id)).result()).status == AgentStatus.CANCELLED
        await runs.verify(run.id)
    assert travel.ledger.booked == []


async def test_a_loop_of_the_contract_drives_a_run() -> None:
    async with Travel().process() as app:
        run = await app.get(AgentRuns).start(Adviser, "some place like Oslo")
        result = await run.result()
    assert (result.output.strip(), result.turns) == ("I would go to Oslo.", 2)


async def test_a_delegate_of_the_contract_gives_its_result() -> None:
    travel = Travel()
    async with travel.process() as app:
        run = await app.get(AgentRuns).start(HotelDesk, "Oslo")
        assert (await run.result()).output == "found Grand Hotel Oslo: {'hotel': 'Grand Hotel Oslo'}"
    (packet,) = travel.colleague.packets
    assert packet.parent_agent_state_id == run.id


async def test_an_error_in_a_stream_fails_the_run() -> None:
    async with Travel(model=BrokenModel).process() as app:
        run = await app.get(AgentRuns).start(Adviser, "some place like Oslo")
        result = await run.result()
    assert result.status == AgentStatus.FAILED
    assert "the quota is used up" in str(result.error)


MODELS = [
    NamelessCalls,
    FallbackModel([ClosedModel(), PhraseModel()], on=[FallbackCondition.FAILED]),
    RateLimitedModel(PhraseModel(), max_concurrent=1),
    RateLimitedModel(FallbackModel([NamelessCalls()]), tokens_per_minute=100_000),
]


@pytest.mark.parametrize("model", MODELS, ids=["nameless", "fallback", "limited", "both"])
async def test_a_model_of_the_contract_drives_a_run_behind_every_wrapper(
    model: type[PhraseModel] | IAgentModel,
) -> None:
    travel = Travel(model=model)
    async with travel.process() as app:
        runs = app.get(AgentRuns)
        run = await runs.start(TravelDesk, "a journey to Oslo")
        await run.result()
        (question,) = await runs.questions(run.id)
        await runs.approve(question.id, resume=False)
    async with travel.process() as app:
        result = await (await app.get(AgentRuns).resume(run.id)).result()
        await app.get(AgentRuns).verify(run.id)
    assert (result.status, result.output.strip()) == (AgentStatus.COMPLETED, "Done: Oslo is booked")
    assert travel.ledger.booked == ["Oslo"]


async def test_conversations_are_no_part_of_the_contracts_repository() -> None:
    async with Travel().process() as app:
        with pytest.raises(CallerError, match="CountedStates does not know the conversations"):
            await app.get(AgentRuns).list(conversation_id="chat")


async def test_the_hand_written_loop_survives_every_crash() -> None:
    report = await crash_matrix(
        BookingLoop,
        "a journey to Oslo",
        add=[Ledger(), Bookings, LedgerModel],
        store=CountedStore,
        second_stops=(1,),
    )
    assert report.points > 20
    assert (report.reference.status, report.reference.output) == (AgentStatus.COMPLETED, "Booked: Oslo. ")
    report.assert_no_repeated_effects()


async def test_the_declarative_agent_survives_every_crash() -> None:
    report = await crash_matrix(
        TravelDesk,
        "a journey to Oslo",
        add=[Ledger(), Bookings, PhraseModel],
        store=CountedStore,
        second_stops=(1,),
    )
    assert report.points > 20
    report.assert_no_repeated_effects()


async def test_the_wiring_of_ag_ui_serves_a_run() -> None:
    async with Travel().process() as app:
        config = AgUiConfig()
        api = Starlette()
        add_agui_endpoint(api, run_driver_factory=drives(app.get(Adviser), config), config=config)
        given = {
            "threadId": "thread-1",
            "runId": "run-1",
            "state": {},
            "messages": [{"id": "m1", "role": "user", "content": "some place like Oslo"}],
            "tools": [],
            "context": [],
            "forwardedProps": {},
        }
        transport = httpx.ASGITransport(app=api)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            answer = await http.post(config.sse_path, json=given)
    data = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    frames = [json.loads(each) for each in data]
    assert (frames[0]["type"], frames[-1]["type"]) == ("RUN_STARTED", "RUN_FINISHED")
    assert frames[0]["threadId"] == "thread-1"
    assert frames[-1]["result"].strip() == "I would go to Oslo."
