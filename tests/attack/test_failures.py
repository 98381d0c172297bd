"""Exceptions whose words quote what nobody may read: models, clients and records get the type and an id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager
from decimal import Decimal
from traceback import format_exception
from types import TracebackType

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    IAgentModel,
    Idempotency,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    Pod,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import IAgentTelemetry, SealedRecord
from pilotage.agent.principal import LOCAL
from pilotage.errors import ToolError
from pilotage.runtime import step
from pilotage.runtime.exposure.redactor import LOGGER
from pilotage.testing import ScriptedModel, calls, says
from tests.behaviour.bureau import WAITING, Bureau, asked, hired, resumed, started, triple
from tests.behaviour.office import OUTSIDE, UNGATED, Worker
from tests.failing import without_ids

pytestmark = pytest.mark.attack("canaries")

WORDS = "postgresql://app:hunter2-canary@db.internal/ledger"
AGENT = hired("failing")
REPEATABLE = Idempotency.IDEMPOTENT


@Pod
class Store:
    """Tools that fail with words which quote a connection string."""

    @agent_tool(effects=ToolEffects.read_only())
    async def read(self) -> str:
        """Read."""
        raise RuntimeError(WORDS)

    @agent_tool(effects=ToolEffects.read_only())
    def read_sync(self) -> str:
        """Read in a sync tool."""
        raise ConnectionError(WORDS)

    @agent_tool(effects=OUTSIDE, idempotency=REPEATABLE, approval=UNGATED)
    async def write(self) -> str:
        """Write."""
        raise OSError(WORDS)

    @agent_tool(effects=ToolEffects.read_only())
    async def around(self) -> str:
        """Fail because a tool inside fails."""
        return await self.read()

    @agent_tool(effects=ToolEffects.read_only())
    async def chained(self) -> str:
        """Fail with an exception that has a cause and a note."""
        try:
            raise KeyError(WORDS)
        except KeyError as error:
            late = TimeoutError()
            late.add_note(WORDS)
            raise late from error


def raises() -> str:
    raise ValueError(WORDS)


async def in_step() -> object:
    return await step("look", raises, idempotency=REPEATABLE)


TOOLS = Store()
WAYS: dict[str, tuple[Callable[[], Awaitable[object]], str]] = {
    "a reading tool": (TOOLS.read, "RuntimeError"),
    "a tool that changes something": (TOOLS.write, "OSError"),
    "a tool inside a tool": (TOOLS.around, "RuntimeError"),
    "a step": (in_step, "ValueError"),
}


@pytest.mark.parametrize("has_key", [True, False], ids=["with a key", "without a key"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_program_gets_type_id_and_with_a_key_the_words_live_and_in_replay(
    way: str, has_key: bool, caplog: pytest.LogCaptureFixture
) -> None:
    act, kind = WAYS[way]
    bureau, got = Bureau(), list[ToolError]()

    async def program(worker: Worker) -> object:
        with pytest.raises(ToolError) as caught:
            await act()
        got.append(caught.value)
        await worker.desk.refund(Decimal(1))
        return str(caught.value)

    with caplog.at_level(logging.ERROR, LOGGER):
        async with bureau.process(AGENT, program, has_sealer=has_key) as runs:
            waiting = await started(runs, AGENT)
            assert triple(waiting.state) == WAITING
            run_id = waiting.state.id
            await resumed(runs, run_id)
            shown = [event async for event in runs.events(run_id, follow=False)]
            evidence = await runs.evidence(run_id)
    live, replayed = got
    assert (live.error_type, live.words) == (kind, WORDS if has_key else None)
    assert without_ids(live) == f"{kind} (error ...)"
    assert (str(replayed), vars(replayed)) == (str(live), vars(live))
    assert any(str(live.error_id) in line and WORDS in line for line in caplog.messages)
    rows = await bureau.rows(run_id)
    assert any(isinstance(row.record, SealedRecord) for row in rows) is has_key
    for place in (shown, evidence, rows, bureau.store.outbox, await bureau.store.states.get(run_id)):
        assert "hunter2" not in repr(place)


@pytest.mark.parametrize("tool", ["read", "read_sync", "write", "around", "chained"])
async def test_a_model_gets_type_and_id_of_an_exception(tool: str) -> None:
    @Agent(spec=AgentExecutionSpec(name=f"loop-{tool}", instructions="Read."))
    class Loop:
        def __init__(self, store: Store) -> None:
            self.store = store

    model = ScriptedModel([calls(tool), says("That failed.")])
    async with Bureau().process(Loop, None, Store, model=model) as runs:
        result = await started(runs, Loop)
    assert result.output == "That failed."
    told = str(model.requests[-1].messages[-1].content)
    assert "(error " in told
    assert "hunter2" not in repr(model.requests)


class Watching(IAgentTelemetry):
    """A backend that writes down all that it is given."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def trace(self, name: str, attributes: object = None) -> AbstractContextManager[None]:
        self.seen.append((name, attributes))
        return _Span(self.seen)

    def record(self, name: str, seconds: float, attributes: object = None, error: str | None = None) -> None:
        self.seen.append((name, attributes, error))

    def emit_metric(self, name: str, value: float, attributes: object = None) -> None:
        self.seen.append((name, attributes))

    def annotate(self, attributes: object) -> None:
        self.seen.append(attributes)


class _Span(AbstractContextManager[None]):
    """A span that writes down how it ended."""

    def __init__(self, seen: list[object]) -> None:
        self._seen = seen

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self._seen.append([repr(error), str(error), format_exception(error) if error else None])


ENDS: dict[str, Callable[[Worker], Awaitable[object]]] = {}


def end(function: Callable[[Worker], Awaitable[object]]) -> Callable[[Worker], Awaitable[object]]:
    ENDS[function.__name__] = function
    return function


@end
async def the_program_raises(worker: Worker) -> object:
    raise RuntimeError(WORDS)


@end
async def a_group_raises(worker: Worker) -> object:
    async with asyncio.TaskGroup() as group:
        group.create_task(_raising())
    return None


async def _raising() -> None:
    raise RuntimeError(WORDS)


@end
async def the_model_raises(worker: Worker) -> object:
    return await asked(worker)


class Broken(IAgentModel):
    """A model whose adapter has no table of errors."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise RuntimeError(WORDS)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelStreamEvent, None]:
        raise RuntimeError(WORDS)


@pytest.mark.parametrize("name", ENDS)
async def test_what_ends_a_run_is_told_by_type_and_id(name: str, caplog: pytest.LogCaptureFixture) -> None:
    bureau, watching = Bureau(), Watching()
    with caplog.at_level(logging.ERROR, LOGGER):
        async with bureau.process(AGENT, ENDS[name], watching, model=Broken()) as runs:
            result = await started(runs, AGENT)
            shown = [event async for event in runs.events(result.state.id, follow=False)]
            stored = await runs.result(result.state.id, principal=LOCAL)
            whole = await runs.result(result.state.id)
    assert result.error is not None
    assert "(error " in str(result.error["message"])
    rows = await bureau.rows(result.state.id)
    for place in (result.error, result.state, stored, shown, rows, bureau.store.outbox, watching.seen):
        assert "hunter2" not in repr(place)
    assert WORDS in caplog.text
    assert whole.error is not None
    assert "words" in whole.error
