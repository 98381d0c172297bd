"""What a notebook shows of `await run(...)`, with a double of the part of IPython that is used."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pilotage import Agent, AgentRuns, Application, ToolEffects, agent_tool, run
from pilotage.agent import AgentEventAttribution, MessageDeltaEvent
from pilotage.notebook import CellView, cell_view
from pilotage.testing import MemoryStore, ScriptedModel, calls, says


@Agent
class Greeter:
    """Greet people."""

    @agent_tool(effects=ToolEffects.read_only())
    def nickname(self, name: str) -> str:
        """Look up a name."""
        return "Countess"


class Kernel:
    """What IPython does with a display that is updated."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        return SimpleNamespace(update=self.update)

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        self.shown.append(bundle["text/markdown"])


def install(monkeypatch: pytest.MonkeyPatch, shell: object, kernel: Kernel) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=kernel.display))


async def test_a_run_is_shown_in_the_cell_and_cleared_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    install(monkeypatch, SimpleNamespace(kernel=kernel), kernel)
    model = ScriptedModel([calls("nickname", name="Ada"), says("Good day, Countess.")])
    result = await run(Greeter, "greet Ada", model=model)
    assert result.output == "Good day, Countess."
    assert kernel.shown[0] == "calls `nickname`"
    assert kernel.shown[-1] == ""


async def test_a_run_that_cannot_start_leaves_an_empty_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    install(monkeypatch, SimpleNamespace(kernel=kernel), kernel)
    with pytest.raises(Exception, match="nothing provides"):
        await run(Agent(durable=True)(type("Durable", (), {})), "greet Ada")
    assert kernel.shown == [""]


@pytest.mark.parametrize("shell", [None, SimpleNamespace()])
def test_a_terminal_shows_nothing_while_a_run_is_under_way(
    monkeypatch: pytest.MonkeyPatch, shell: object
) -> None:
    install(monkeypatch, shell, Kernel())
    assert cell_view() is None


def test_many_pieces_of_a_text_are_shown_together() -> None:
    shown: list[str] = []
    times = iter([0.0, 0.0, 0.05, 0.2, 0.2])
    view = CellView(shown.append, lambda: next(times))
    for piece in ("Good ", "day, ", "Ada."):
        view.add(MessageDeltaEvent(AgentEventAttribution("a", "r", "c"), "m", piece))
    assert shown == ["```text\nGood \n```", "```text\nGood day, Ada.\n```"]


async def test_a_handle_shows_the_id_of_its_run() -> None:
    model = ScriptedModel([says("Good day.")])
    durable = Agent(durable=True)(type("Durable", (), {"__doc__": "Greet people."}))
    async with Application("hello").add(durable, model, *MemoryStore().ports).load_plugins() as app:
        handle = await app.get(AgentRuns).start(durable, "greet Ada")
        await handle.result()
    shown: Any = handle
    assert repr(handle) == f"RunHandle('{handle.id}')"
    assert shown._repr_markdown_() == f"**run** · `{handle.id}` · `await run.result()` waits for it"
