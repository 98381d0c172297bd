"""Our process stops at every write of a call: each effect happens once, and the result is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotage.agent import AgentRecoveryRequest
from pilotage.jsonvalue import JsonValue
from pilotage.testing import ScriptedModel, calls, crash_matrix, says, turn
from tests.adapters.mcp.bank import Bank, Teller

pytestmark = pytest.mark.slow


def name(request: AgentRecoveryRequest) -> JsonValue:
    return {"name": "Ann"}


@pytest.mark.parametrize("tool", ["look", "put", "pay", "charge", "book", "export"])
async def test_a_call_survives_every_crash_of_ours(
    tmp_path: Path, tool: str, second_stops: tuple[int, ...]
) -> None:
    (tmp_path / "key").write_bytes(b"the same in every process")
    bank = Bank(tmp_path, "memory")
    model = ScriptedModel([calls(f"bank_{tool}", amount=7), says("Done.")])
    report = await crash_matrix(
        Teller, "go", model=model, add=[bank.server()], carry_out=name, second_stops=second_stops
    )
    assert report.reference.output == "Done."
    assert report.points > 10
    report.assert_same_result()
    report.assert_no_repeated_effects()
    keys = [str(each["key"]) for each in bank.effects(tool)]
    if tool != "put":
        # Each run of the matrix has other keys: a key that comes twice is an effect that was repeated.
        assert len(keys) == len(set(keys))


async def test_calls_of_one_reply_survive_every_crash_of_ours(tmp_path: Path) -> None:
    bank = Bank(tmp_path, "memory")
    (tmp_path / "key").write_bytes(b"the same in every process")
    reply = turn(*(calls(f"bank_{each}", amount=1) for each in ("look", "look", "pay", "book")))
    report = await crash_matrix(
        Teller, "go", model=ScriptedModel([reply, says("Done.")]), add=[bank.server()], carry_out=name
    )
    report.assert_same_result()
    report.assert_no_repeated_effects()
    keys = [str(each["key"]) for tool in ("pay", "book") for each in bank.effects(tool)]
    assert len(keys) == len(set(keys))
