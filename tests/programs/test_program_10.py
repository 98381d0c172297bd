"""What a mistake looks like, to the letter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pilotage import Application
from pilotage.errors import ApplicationStartError

MAIN = '''
from abc import ABC, abstractmethod

from pilotage import Agent, AgentExecutionSpec, Pod, RecoveryStrategy, agent_tool


class BankPort(ABC):
    @abstractmethod
    def pay(self) -> None: ...


@Pod
class Payments:
    def __init__(self, bank: BankPort) -> None: ...

    @agent_tool()
    def pay(self, options: dict) -> str:
        """Pay."""
        return ""


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Refunds:
    def __init__(self, payments: Payments) -> None: ...

    def execute(self, order: str) -> str:
        return order
'''
ADAPTERS = """
from pilotage import Pod
from shop.main import BankPort


@Pod
class BankAdapter(BankPort):
    def pay(self) -> None: ...
"""
MISTAKES = """\
3 problems in application 'shop':
  1. Refunds -> Payments -> BankPort: nothing provides BankPort.
     Add a class that implements it (@Pod), or bind one: app.bind(BankPort, ...). Near miss: BankAdapter (not scanned: shop.adapters).
  2. Refunds is durable (recovery=ACTION_BOUNDARY) and nothing provides IAgentJournal.
     Install the provider: pip install "pilotage[sqlalchemy]".
  3. Payments.pay: parameter 'options' is untyped (dict). Write dict[str, str], a TypedDict, a dataclass or a pydantic model."""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "main.py").write_text(MAIN)
    (package / "adapters.py").write_text(ADAPTERS)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("shop", "shop.main", "shop.adapters"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("shop")
async def test_all_problems_are_told_at_once_with_their_ways_out() -> None:
    import shop.adapters  # type: ignore[import-not-found]

    from tests.behaviour.test_bootstrap import Evidences, Signals, States

    assert shop.adapters.BankAdapter
    app = Application("shop").scan("shop.main").add(States, Signals, Evidences)
    with pytest.raises(ApplicationStartError) as caught:
        await app.start()
    assert str(caught.value) == MISTAKES
