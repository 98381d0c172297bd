"""Stories about what applications of one process share, and what they never share."""

from __future__ import annotations

import _weakrefset
import gc
import sys
from asyncio import Runner, futures
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import FrameType
from weakref import ref

import pytest

from pilotage import (
    Agent,
    Application,
    IAgentModel,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    Pod,
    RunAgentInput,
    ToolEffects,
    agent_tool,
    run_sync,
)
from pilotage.agent import ModelToolCall
from pilotage.container.processing import IPostProcessor
from pilotage.errors import PodNotFoundError
from pilotage.runtime import AgentRunner
from pilotage.testing import ScriptedModel, says

MOST_CALLS = 1_500
MOST_CALLS_OF_A_RUN = 540
"""Of an ephemeral run with one tool call, those of its event loop and of its reader included."""
MESSAGES_BEFORE_THE_CALL = 2

NOT_COUNTED = {_weakrefset.__file__, futures.__file__}
"""An event loop that is closed goes through all tasks of the process, also those that other tests still refer to."""


class Ledger:
    def __init__(self, name: str = "unnamed") -> None:
        self.name = name


@Pod
class Shop:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger


@Pod
def shop_of_a_later_type(ledger: Ledger) -> LaterShop:  # noqa: F821 - defined by a test
    return Shop(ledger)


@Agent
class Greeter:
    async def execute(self, name: str) -> str:
        return f"Good day, {name}."


@Agent
class Answerer:
    """Answer in one sentence."""


@pytest.fixture(scope="module", autouse=True)
def what_other_tests_left_is_frozen() -> None:
    """Keep full collections cheap: each round asks for one, and other tests of this process left objects."""
    gc.collect()
    gc.freeze()


def calls_of(function: Callable[[], object]) -> int:
    """The number of calls of Python functions."""
    gc.collect()
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename not in NOT_COUNTED

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls


def fewest_calls_of(function: Callable[[], object], rounds: int = 5) -> int:
    """What it takes where no timer of the event loop comes due meanwhile: those of a slow round are more calls."""
    return min(calls_of(function) for _ in range(rounds))


@pytest.mark.parametrize("agent", [Greeter, Answerer])
def test_a_warm_run_sync_takes_few_calls(agent: type) -> None:
    model = ScriptedModel([says("Good day.")] * 7)

    def run() -> None:
        assert run_sync(agent, "Ada", model=model).output.startswith("Good day")

    run()
    run()
    assert fewest_calls_of(run) <= MOST_CALLS


class Asking(IAgentModel):
    """Asks for one page, then answers."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        if len(request.messages) == MESSAGES_BEFORE_THE_CALL:
            call = ModelToolCall("look_up", {"page": 1}, "call-1")
            yield ModelStreamEvent(ModelStreamEventKind.DONE, response=ModelResponse("", tool_calls=[call]))
        else:
            yield ModelStreamEvent(ModelStreamEventKind.DONE, response=ModelResponse("done"))


@Agent
class Librarian:
    """Look things up, then answer."""

    @agent_tool(effects=ToolEffects.read_only())
    async def look_up(self, page: int) -> str:
        """Look a page up."""
        return f"page {page}"


def test_a_warm_ephemeral_run_takes_few_calls() -> None:
    with (
        Runner() as loop,
        Application("library").add(Librarian, Asking()).load_plugins(include=["runtime"]) as app,
    ):
        runner = AgentRunner.for_agent_instance(app.get(Librarian))

        async def read() -> None:
            async for _ in runner.run_events(RunAgentInput("run", "Go on.")):
                pass

        def run() -> None:
            loop.run(read())

        run()
        run()
        assert fewest_calls_of(run) <= MOST_CALLS_OF_A_RUN


def test_plugins_are_read_once_per_process() -> None:
    def load() -> None:
        assert Application("harbour").load_plugins().contains(IPostProcessor)

    cold = calls_of(load)
    warm = calls_of(load)
    assert warm <= MOST_CALLS, f"{warm} calls, {cold} for the first application"


async def test_applications_with_the_same_pods_share_the_graph_and_no_instance() -> None:
    first, second = Application("first").add(Ledger, Shop), Application("second").add(Ledger, Shop)
    assert first.graph.nodes is second.graph.nodes
    async with first, second:
        assert first.get(Shop) is not second.get(Shop)
        assert first.get(Ledger) is not second.get(Ledger)


async def test_ready_instances_belong_to_their_application() -> None:
    first = Application("first").add(Ledger("one"), Shop)
    second = Application("second").add(Ledger("two"), Shop)
    assert first.graph.nodes is second.graph.nodes
    assert [app.graph.given(Ledger).name for app in (first, second)] == ["one", "two"]
    async with first, second:
        assert [app.get(Shop).ledger.name for app in (first, second)] == ["one", "two"]


async def test_a_pod_of_one_application_is_not_found_in_another() -> None:
    async with Application("first").add(Ledger, Shop):
        other = Application("second").add(Ledger)
        assert not other.contains(Shop)
        async with other:
            with pytest.raises(PodNotFoundError):
                other.get(Shop)


def test_a_binding_is_part_of_what_makes_two_applications_the_same() -> None:
    models = [ScriptedModel([]), ScriptedModel([])]
    plain = Application("plain").add(*models)
    bound = Application("bound").add(*models).bind(IAgentModel, models[1])
    assert plain.graph.choose(IAgentModel) != bound.graph.choose(IAgentModel)


def test_a_type_that_is_defined_later_is_found_then(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Application("shop").add(Ledger, shop_of_a_later_type)
    assert app.problems()
    monkeypatch.setitem(globals(), "LaterShop", Shop)
    assert not app.problems()
    assert app.contains(Shop)
    assert not Application("another").add(Ledger, shop_of_a_later_type).problems()


def test_an_application_and_what_it_was_given_are_released() -> None:
    released = short_lived_application()
    gc.collect()
    assert [each() for each in released] == [None, None]


def short_lived_application() -> tuple[ref[Ledger], ref[Application]]:
    given = Ledger()

    @Pod
    def shop() -> Shop:
        return Shop(given)

    with Application("short").add(given, shop) as app:
        assert app.get(Shop).ledger is given
    return ref(given), ref(app)


def test_a_plugin_that_is_installed_while_the_process_runs_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    Application("before").load_plugins()
    (tmp_path / "harbour_late.py").write_text("def initialize(app): ...\n")
    metadata = tmp_path / "harbour_late-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: harbour_late\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[pilotage.plugins]\nlate = harbour_late:initialize\n")
    assert "plugin 'late'" in Application("after").load_plugins().report.loaded
