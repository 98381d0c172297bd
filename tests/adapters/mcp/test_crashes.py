"""Our process stops at every write of a call: each effect happens once, and the result is the same."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp

import pytest

from pilotage.adapters.mcp import McpServer
from pilotage.agent import AgentRecoveryRequest
from pilotage.jsonvalue import JsonValue
from pilotage.testing import ScriptedModel, calls, crash_matrix, says, turn
from tests.adapters.mcp.bank import Bank, InProcess, Teller

pytestmark = pytest.mark.slow


def name(request: AgentRecoveryRequest) -> JsonValue:
    return {"name": "Ann"}


class World:
    """The folder of a ledger; every run of a matrix gets a copy of the world, which has a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = Path(mkdtemp(dir=root))
        (self.folder / "key").write_bytes(b"the same in every process")

    def __deepcopy__(self, _: object) -> World:
        return World(self.root)


class BankServer(McpServer):
    def __init__(self, world: World) -> None:
        bank = Bank(world.folder, "memory")
        super().__init__(bank.settings(), transport=lambda: InProcess(bank.folder))


def worst(root: Path, *tools: str) -> int:
    """The most effects of one tool in one world."""
    counts = [len(Bank(folder).effects(tool)) for folder in root.iterdir() for tool in tools]
    assert len(counts) > 10
    assert max(counts) > 0
    return max(counts)


@pytest.mark.parametrize("tool", ["look", "put", "pay", "charge", "book", "export"])
async def test_a_call_survives_every_crash_of_ours(
    tmp_path: Path, tool: str, second_stops: tuple[int, ...]
) -> None:
    model = ScriptedModel([calls(f"bank_{tool}", amount=7), says("Done.")])
    report = await crash_matrix(
        Teller,
        "go",
        model=model,
        add=[World(tmp_path), BankServer],
        carry_out=name,
        second_stops=second_stops,
    )
    assert report.reference.output == "Done."
    assert report.points > 10
    report.assert_same_result()
    report.assert_no_repeated_effects()
    if tool not in ("look", "put"):
        assert worst(tmp_path, tool) == 1


async def test_calls_of_one_reply_survive_every_crash_of_ours(tmp_path: Path) -> None:
    reply = turn(*(calls(f"bank_{each}", amount=1) for each in ("look", "look", "pay", "book")))
    report = await crash_matrix(
        Teller,
        "go",
        model=ScriptedModel([reply, says("Done.")]),
        add=[World(tmp_path), BankServer],
        carry_out=name,
    )
    report.assert_same_result()
    report.assert_no_repeated_effects()
    assert worst(tmp_path, "pay", "book") == 1
