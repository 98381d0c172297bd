"""The state that a run shares with its clients: in order and once, whatever happens to its processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from tests.behaviour.newsroom import DURABLE, Newsroom, follow
from tests.behaviour.office import UNGATED

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    AgentYield,
    Final,
    Idempotency,
    Pod,
    State,
    StatePatch,
    StreamingExposureMode,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentContext,
    AgentEvent,
    ContextPack,
    ContextPackRole,
    RunAgentInput,
    RunKey,
    StateDeltaEvent,
    StateSnapshotEvent,
)
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonValue, object_or_empty
from pilotage.runtime import Transcript, patch_state, read_state, set_state, step
from pilotage.runtime.door.shared_state import patched
from pilotage.runtime.events.projections import YieldProjector
from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern
from pilotage.testing import Fault, ScriptedModel, StopAfter, StopBefore, calls, says

POLICY = StreamingRedactionPolicy([StreamingSensitivePattern("badge", r"BADGE-\d+", "[BADGE]")])
TEA = {"op": "add", "path": "/items/-", "value": "tea"}
PAID = {"op": "replace", "path": "/paid", "value": True}


def _nothing() -> str:
    return "done"


@Pod
class Basket:
    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=UNGATED,
        reads_untrusted=False,
    )
    async def put(self, what: str) -> str:
        """Put something into the basket."""
        await patch_state([{"op": "add", "path": "/items/-", "value": what}])
        await step("weigh", _nothing, idempotency=Idempotency.IDEMPOTENT)
        await patch_state([{"op": "add", "path": "/items/-", "value": what}])
        return "put"


def shop(mode: StreamingExposureMode) -> type[object]:
    """An agent with an `execute()` of its own."""

    @Agent(spec=AgentExecutionSpec(name="shop", recovery=DURABLE, streaming_exposure_mode=mode))
    class Shop:
        def __init__(self, basket: Basket) -> None:
            self.basket = basket

        async def execute(self) -> AsyncGenerator[AgentYield[str], None]:
            yield State({"items": [], "paid": False})
            await self.basket.put("tea")
            yield StatePatch([TEA])
            await set_state({"items": ["tea"], "paid": False})
            await step("pay", _nothing, idempotency=Idempotency.IDEMPOTENT)
            yield StatePatch([PAID])
            yield Final("bought")

    return Shop


def keeper(mode: StreamingExposureMode) -> type[object]:
    """A declarative agent whose tool changes the state."""

    @Agent(
        spec=AgentExecutionSpec(
            name="keeper", instructions="Keep a shop.", recovery=DURABLE, streaming_exposure_mode=mode
        )
    )
    class Keeper:
        def __init__(self, basket: Basket) -> None:
            self.basket = basket

    return Keeper


def model() -> ScriptedModel:
    return ScriptedModel([calls("put", what="tea"), calls("put", what="tea"), says("Bought.")])


def changes(events: Sequence[AgentEvent]) -> list[Any]:
    """The snapshots and patches, in order."""
    return [
        event.snapshot if isinstance(event, StateSnapshotEvent) else event.patch
        for event in events
        if isinstance(event, StateSnapshotEvent | StateDeltaEvent)
    ]


SHOP = [{"items": [], "paid": False}, [TEA], [TEA], [TEA], {"items": ["tea"], "paid": False}, [PAID]]
KEEPER = [[TEA]] * 4


async def carried_through(
    kind: type[object], fault: Fault | None = None
) -> tuple[Newsroom, str, list[AgentEvent]]:
    """A run that as many processes as needed bring to its end, and the events that its reader has."""
    room, client, script = Newsroom(), Transcript(), model()
    given = "Buy tea" if kind.__name__ == "Keeper" else None
    run_id, commits = "", 0
    for _ in range(4):
        async with room.process(script, kind, Basket, fault=fault) as runs:
            run = await (runs.resume(run_id) if run_id else runs.start(kind, given))
            run_id = run.id
            await follow(runs.events(run_id, after=client.cursor), client)
            await asyncio.wait([asyncio.ensure_future(run.result())])
        commits, fault, script = commits or room.commits, None, script.restarted()
        if (await room.store.states.get(run_id)).is_terminal:
            break
    async with room.process(script, kind, Basket) as runs:
        await follow(runs.events(run_id, after=client.cursor), client)
    room.commits = commits
    return room, run_id, client.events


@pytest.mark.parametrize("mode", StreamingExposureMode)
@pytest.mark.parametrize(("way", "expected"), [(shop, SHOP), (keeper, KEEPER)])
@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
async def test_a_crash_at_any_commit_repeats_and_loses_no_change(
    way: Any, expected: list[Any], mode: StreamingExposureMode, fault: type[Fault]
) -> None:
    kind = way(mode)
    reference, run_id, seen = await carried_through(kind)
    assert changes(seen) == changes(await reference.logged(run_id)) == expected
    assert reference.commits > 2
    for number in range(2, reference.commits + 1):
        room, run_id, seen = await carried_through(kind, fault(number))
        assert changes(await room.logged(run_id)) == expected, number
        assert changes(seen) == expected, number


@Agent(spec=AgentExecutionSpec(name="badger", redaction=POLICY))
class Badger:
    """Shares what a policy hides; nothing of it is durable."""

    async def execute(self) -> AsyncGenerator[AgentYield[str], None]:
        await set_state({"badge": "BADGE-4711"})
        yield StatePatch([{"op": "replace", "path": "/badge", "value": "BADGE-4712"}])
        yield Final("shown")


async def test_a_shared_state_is_redacted_and_read_as_items_too() -> None:
    async with Newsroom().process(model(), Badger) as runs:
        run = await runs.start(Badger)
        events = [event async for event in run.events()]
    patch = {"op": "replace", "path": "/badge", "value": "[BADGE]"}
    assert changes(events) == [{"badge": "[BADGE]"}, [patch]]
    projector = YieldProjector(run.id)
    items = [item for event in events if (item := projector.yield_of(event)) is not None]
    assert items[:2] == [State({"badge": "[BADGE]"}), StatePatch([patch])]


@Agent(spec=AgentExecutionSpec(name="durable badger", recovery=DURABLE, redaction=POLICY))
class DurableBadger:
    """Shares what a policy hides, durably."""

    async def execute(self) -> str:
        await set_state({"badge": "BADGE-4711"})
        return "shown"


async def test_the_row_of_a_change_shows_readers_no_more_than_its_event() -> None:
    room = Newsroom()
    async with room.process(model(), DurableBadger) as runs:
        run = await runs.start(DurableBadger)
        await run.result()
        await runs.verify(run.id)
        evidence = [each.payload for each in await runs.evidence(run.id)]
    rows = [row async for row in room.store.journal.read(RunKey("default", run.id))]
    assert "[BADGE]" in repr([(row.view, row.events) for row in rows])
    assert "BADGE-4711" not in repr([(row.view, row.record, row.events) for row in rows])
    assert "BADGE-4711" not in repr(evidence)


@Agent(spec=AgentExecutionSpec(name="careless", recovery=DURABLE))
class Careless:
    """Shares something that has no JSON form."""

    async def execute(self) -> str:
        await set_state({"socket": object()})  # type: ignore[dict-item]
        return "never"


async def test_a_state_without_a_json_form_fails_the_run_and_says_why() -> None:
    async with Newsroom().process(model(), Careless) as runs:
        result = await (await runs.start(Careless)).result()
    assert result.status is AgentStatus.FAILED
    assert "State.snapshot cannot be shared: object has no JSON form" in str(result.error)


async def test_outside_a_run_nothing_is_shared() -> None:
    await set_state({"items": []})
    await patch_state([TEA])
    with pytest.raises(AgentDefinitionError, match="no 'op'"):
        await patch_state([{"path": "/items"}])


@Pod
class Till:
    def __init__(self) -> None:
        self.seen: list[JsonValue] = []

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=UNGATED,
        reads_untrusted=False,
    )
    async def add_up(self) -> int:
        """Count the items on the page."""
        state = await read_state()
        await patch_state([{"op": "add", "path": "/counted", "value": True}])
        items = object_or_empty(state).get("items")
        return len(items) if isinstance(items, list) else -1


def buyer(mode: StreamingExposureMode) -> type[object]:
    """An agent that reads what itself, its tools and its caller have put into the state."""

    @Agent(spec=AgentExecutionSpec(name="buyer", recovery=DURABLE, streaming_exposure_mode=mode))
    class Buyer:
        def __init__(self, basket: Basket, till: Till) -> None:
            self.basket = basket
            self.till = till

        async def execute(self) -> AsyncGenerator[AgentYield[JsonValue], None]:
            given = await read_state()
            yield State({"items": ["milk"]})
            await self.basket.put("tea")
            yield StatePatch([TEA])
            first = await self.till.add_up()
            await step("pay", _nothing, idempotency=Idempotency.IDEMPOTENT)
            await patch_state([{"op": "remove", "path": "/items/0"}])
            await patch_state([{"op": "remove", "path": "/no/such/place"}])
            last = await read_state()
            yield Final([given, first, last])

    return Buyer


WHOLE: list[JsonValue] = [{}, 4, {"items": ["tea", "tea", "tea"], "counted": True}]


async def bought(kind: type[object], fault: Fault | None = None, given: object = None) -> tuple[int, object]:
    """How many commits a run took until a process died, and its answer."""
    room, script, run_id, commits = Newsroom(), model(), "", 0
    for _ in range(3):
        async with room.process(script, kind, Basket, Till, fault=fault) as runs:
            run = await (runs.resume(run_id) if run_id else runs.start(kind, given))
            run_id = run.id
            await asyncio.wait([asyncio.ensure_future(run.result())])
        commits, fault = commits or room.commits, None
        if (await room.store.states.get(run_id)).is_terminal:
            break
    async with room.process(script, kind, Basket, Till) as runs:
        await runs.verify(run_id)
        return commits, (await runs.result(run_id)).output


@pytest.mark.parametrize("mode", StreamingExposureMode)
@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
async def test_a_state_is_read_as_it_is_wherever_a_process_dies(
    mode: StreamingExposureMode, fault: type[Fault]
) -> None:
    kind = buyer(mode)
    commits, answer = await bought(kind)
    assert answer == WHOLE
    for number in range(2, commits + 1):
        assert (await bought(kind, fault(number)))[1] == WHOLE, number


@Agent(spec=AgentExecutionSpec(name="two hands", recovery=DURABLE))
class TwoHands:
    """Puts two things into the basket at once, and looks later."""

    def __init__(self, basket: Basket) -> None:
        self.basket = basket

    async def execute(self) -> JsonValue:
        await set_state({"items": []})
        await asyncio.gather(self.basket.put("tea"), self.basket.put("rum"))
        await step("pay", _nothing, idempotency=Idempotency.IDEMPOTENT)
        return await read_state()


@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
async def test_changes_of_calls_at_the_same_time_keep_the_order_in_which_the_page_got_them(
    fault: type[Fault],
) -> None:
    commits, _ = await bought(TwoHands)
    for number in range(2, commits + 1):
        room, run_id, seen = await carried_through(TwoHands, fault(number))
        async with room.process(model(), TwoHands, Basket) as runs:
            answer = (await runs.result(run_id)).output
        page: JsonValue = {}
        for change in changes(seen):
            page = patched(page, change) if isinstance(change, list) else change
        assert answer == page, number


@Agent(spec=AgentExecutionSpec(name="reader", recovery=DURABLE))
class Reader:
    """Reads what its caller gives."""

    async def execute(self, task: str) -> JsonValue:
        await patch_state([{"op": "add", "path": "/read", "value": True}])
        return await read_state()


async def test_the_state_of_the_caller_comes_first() -> None:
    packs = [
        ContextPack("note", "no JSON", "the page", ContextPackRole.STATE),
        ContextPack("basket", '{"account": "savings"}', "the page", ContextPackRole.STATE),
    ]
    given = RunAgentInput("mine", "Read", context=AgentContext(packs))
    assert (await bought(Reader, given=given))[1] == {"account": "savings", "read": True}


@Agent(name="forgetful")
class Forgetful:
    """Reads a state in a run that is not durable."""

    async def execute(self) -> AsyncGenerator[AgentYield[JsonValue], None]:
        yield State([1])
        await patch_state([{"op": "add", "path": "/-", "value": 2}])
        yield Final(await read_state())


async def test_a_run_that_is_not_durable_reads_its_state_too() -> None:
    async with Newsroom().process(model(), Forgetful) as runs:
        result = await (await runs.start(Forgetful)).result()
    assert result.output == [1, 2]
    assert await read_state() == {}
