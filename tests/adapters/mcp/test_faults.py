"""The server and the line die at every moment of a call: no completed effect is repeated, nothing unknown is a guess."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotage.testing import MemoryStore
from tests.adapters.mcp.bank import Bank, carried_through

pytestmark = pytest.mark.slow

MOMENTS = [
    "look:before",
    "look:after",
    "put:before",
    "put:after",
    "pay:before",
    "pay:after",
    "charge:before",
    "charge:after",
    "book:before",
    "export:before",
    "export:after",
    "export:look",
    "export:update",
]
ASKED = {"pay:before", "pay:after", "book:before", "export:before", "export:after"}
"""The moments after which only a person knows what happened."""


@pytest.mark.parametrize("kind", ["stdio", "http"])
@pytest.mark.parametrize("fault", ["kill", "cut"])
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_server_that_dies_does_nothing_twice(
    tmp_path: Path, kind: str, fault: str, moment: str
) -> None:
    bank, tool = Bank(tmp_path, kind), moment.partition(":")[0]
    (tmp_path / "key").write_bytes(b"the same in every process")
    bank.fault(f"{fault} {moment}")
    async with bank.serving():
        result, shown = await carried_through(bank, MemoryStore(), tool)
    assert bank.reached
    assert result.output == "Done."
    assert ("unknown" in bank.answered) == (moment in ASKED)
    match tool:
        case "look":
            assert shown == "looked 7"
        case "put":
            assert 1 <= len(bank.effects("put")) <= 2  # it may be repeated
        case _:
            assert len(bank.effects(tool)) == 1


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_a_question_is_answered_after_both_processes_were_restarted(tmp_path: Path, kind: str) -> None:
    (tmp_path / "key").write_bytes(b"the same in every process")
    bank = Bank(tmp_path, kind)
    async with bank.serving():
        _, shown = await carried_through(bank, MemoryStore(), "book", processes=2)
    assert shown == "booked for Ann"
    assert bank.answered == ["input"]
    assert len(bank.effects("book")) == 1


async def test_a_state_that_the_server_does_not_accept_any_more_leads_to_a_question(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    _, shown = await carried_through(bank, MemoryStore(), "book", processes=2)
    # The person found no effect and let it be done again: from the beginning, with the answer that was given.
    assert bank.answered == ["input", "unknown"]
    assert len(bank.effects("book")) == 1
    assert shown == "booked for Ann"
