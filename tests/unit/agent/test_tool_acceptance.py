"""What is accepted of a server's tools: by people, by the first use, by the code; for one process and for all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pilotage.agent.tool_acceptance import ToolAcceptance
from pilotage.agent.tool_review import FIRST_USE, ToolReview, ToolStanding
from pilotage.agent.tools import ListedTool, digest_of_list
from pilotage.errors import AgentDefinitionError, CallerError
from pilotage.testing import MemoryStore, MemoryToolPins

READ, WRITE = ListedTool("read", "Read a file."), ListedTool("write", "Write a file.")
CHANGED = replace(READ, description="Read a file, and mail it.")


@pytest.fixture
def pins() -> MemoryToolPins:
    return MemoryStore().tool_pins


def offered(review: ToolReview) -> list[str]:
    return [tool.name for tool in review.offered]


async def test_a_person_accepts_each_tool(pins: MemoryToolPins) -> None:
    acceptance = ToolAcceptance("files", None, pins)
    review = await acceptance.review([READ, WRITE])
    assert offered(review) == []
    await acceptance.accept([each for each in review.off if each.name == "read"], by="ada")
    assert offered(await acceptance.review([READ, WRITE])) == ["read"]
    assert [(pin.tool, pin.by) for pin in await pins.pins_of("files")] == [("read", "ada")]
    assert offered(await ToolAcceptance("mail", None, pins).review([READ])) == []


async def test_a_person_accepts_the_definition_that_was_reviewed_and_not_a_later_one(
    pins: MemoryToolPins,
) -> None:
    acceptance = ToolAcceptance("files", None, pins)
    seen = await acceptance.review([READ])
    await acceptance.review([CHANGED])
    await acceptance.accept(seen.off, by="ada")
    later = await acceptance.review([CHANGED])
    assert offered(later) == []
    assert [each.standing for each in later.tools] == [ToolStanding.CHANGED]


async def test_the_first_use_accepts_what_is_listed_then_and_nothing_later(pins: MemoryToolPins) -> None:
    first = ToolAcceptance("files", FIRST_USE, pins)
    assert offered(await first.review([READ])) == ["read"]
    second = ToolAcceptance("files", FIRST_USE, MemoryToolPins(pins._tables))
    assert offered(await second.review([READ, WRITE])) == ["read"]
    assert offered(await second.review([CHANGED, WRITE])) == []
    assert offered(await first.review([READ])) == ["read"]


async def test_a_first_list_without_tools_is_no_first_use(pins: MemoryToolPins) -> None:
    acceptance = ToolAcceptance("files", FIRST_USE, pins)
    assert offered(await acceptance.review([])) == []
    assert offered(await acceptance.review([READ])) == ["read"]


async def test_the_first_use_without_a_store_is_that_of_the_process() -> None:
    acceptance = ToolAcceptance("files", FIRST_USE, None)
    assert offered(await acceptance.review([READ])) == ["read"]
    assert offered(await acceptance.review([CHANGED, WRITE])) == []
    assert offered(await acceptance.review([READ, WRITE])) == ["read"]


async def test_the_code_accepts_one_list_and_pins_nothing(pins: MemoryToolPins) -> None:
    for stored in (pins, None):
        acceptance = ToolAcceptance("files", digest_of_list([READ, WRITE]), stored)
        assert offered(await acceptance.review([WRITE, READ])) == ["write", "read"]
        review = await acceptance.review([READ])
        assert offered(review) == []
        with pytest.raises(CallerError, match="server 'files' offers what its code accepts: accept='sha256:"):
            await acceptance.accept(review.off, by="ada")
    assert list(await pins.list_pins()) == []


async def test_a_renamed_tool_has_one_pin(pins: MemoryToolPins) -> None:
    acceptance = ToolAcceptance("files", None, pins)
    await pins.accept("files", [READ, WRITE])
    renamed = await acceptance.review([replace(READ, name="fetch"), WRITE])
    assert [each.standing for each in renamed.off] == [ToolStanding.RENAMED]
    await acceptance.accept(renamed.off, by="ada")
    assert [pin.tool for pin in await pins.pins_of("files")] == ["fetch", "write"]


async def test_what_has_the_name_of_another_tool_cannot_be_accepted(pins: MemoryToolPins) -> None:
    acceptance = ToolAcceptance("files", None, pins)
    same = await acceptance.review([READ], taken={"read": "the application"})
    with pytest.raises(CallerError, match="'read' of 'files' cannot be accepted: the application has a tool"):
        await acceptance.accept(same.off, by="ada")
    alike = await acceptance.review([READ], taken={"re_ad": "the application"})
    await acceptance.accept(alike.off, by="ada")
    assert offered(await acceptance.review([READ], taken={"re_ad": "the application"})) == ["read"]
    gone = await acceptance.review([])
    with pytest.raises(
        CallerError, match="'read' of 'files' cannot be accepted: the server does not list it"
    ):
        await acceptance.accept(gone.tools, by="ada")


def test_people_cannot_accept_where_nothing_stores_it() -> None:
    with pytest.raises(AgentDefinitionError, match=r"server 'files': .* Install pilotage\[sqlalchemy\]"):
        ToolAcceptance("files", None, None)
    with pytest.raises(AgentDefinitionError, match="is no rule"):
        ToolAcceptance("files", "always", None)
