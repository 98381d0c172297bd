"""A loop whose replies come from two providers: each gets back what it gave, and nothing of the other one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from pilotage import AgentStatus, IAgentModel
from pilotage.adapters.model_http.errors import failed
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.ports.persistence import JournalStage
from pilotage.models import FallbackModel
from pilotage.testing import StopAfter
from tests.adapters.model_http.strict_servers import StrictChat, StrictMessages, StrictServer
from tests.adapters.model_http.test_strict_servers import WIRES, Looker
from tests.behaviour.bureau import Bureau, resumed, started

TURNS = 8
OVERLOADED = (3, 4, 7)
"""The turns at which the first provider is overloaded."""


class Shared(StrictServer):
    """Mixin of a server that answered some turns of a loop: only these must be as they were."""

    turns_of: set[int]

    def difference(self, number: int, message: Any) -> str | None:
        return super().difference(number, message) if number in self.turns_of else None  # type: ignore[safe-super]


class First(Shared, StrictMessages):
    turns_of = {*range(1, TURNS + 2)} - {*OVERLOADED}

    def reply(self, number: int) -> Sequence[bytes]:
        if number in OVERLOADED:
            raise failed(ModelFailure.OVERLOADED, "busy", status=529)
        return super().reply(number)


class Second(Shared, StrictChat):
    turns_of = {*OVERLOADED}


class Later(Shared, StrictChat):
    """Knows the turns that it answered."""

    def __init__(self, turns: int) -> None:
        super().__init__(turns)
        self.turns_of = set()

    def reply(self, number: int) -> Sequence[bytes]:
        self.turns_of.add(number)
        return super().reply(number)


def turns_in(body: bytes, mark: str) -> set[int]:
    return {int(number) for number in re.findall(rf"{mark}-(\d+)".encode(), body)}


async def test_state_goes_back_to_its_own_provider_only_and_a_reply_says_what_was_left_out() -> None:
    first, second = First(TURNS), Second(TURNS)
    models: list[IAgentModel] = [WIRES["messages"].model(first), WIRES["chat"].model(second)]
    bureau = Bureau()
    async with bureau.process(Looker, model=FallbackModel(models)) as runs:
        result = await started(runs, Looker, "go")
        assert (result.status, result.output) == (AgentStatus.COMPLETED, "Done."), result.error
        rows = await bureau.rows(result.state.id)
    for number, body in enumerate(first.bodies, start=1):
        assert turns_in(body, "opaque") == {each for each in range(1, number) if each not in OVERLOADED}
    for number, body in zip(OVERLOADED, second.bodies, strict=True):
        assert turns_in(body, "opaque") == {each for each in OVERLOADED if each < number}
    views = [row.view for row in rows if row.kind == "model_call" and row.stage is JournalStage.AFTER]
    left_out = [re.findall(r"'state_left_out': \[([^]]*)\]", str(view)) for view in views]
    of_first, of_second = ["'anthropic.messages@h/m'"], ["'openai.chat@h/m'"]
    assert left_out == [[], [], of_first, of_first, of_second, of_second, of_first, of_second, of_second]


async def test_a_run_that_goes_on_with_another_provider_sends_it_no_state_of_the_first() -> None:
    """The release that takes the run up after a crash has another model."""
    bureau, before, after = Bureau(), WIRES["responses"].server(TURNS), Later(TURNS)
    async with bureau.process(Looker, model=WIRES["responses"].model(before), fault=StopAfter(9)) as runs:
        handle = await runs.start(Looker, "go")
        await asyncio.gather(handle.result(), return_exceptions=True)
    async with bureau.process(Looker, model=WIRES["chat"].model(after)) as runs:
        result = await resumed(runs, handle.id)
        assert (result.status, result.output) == (AgentStatus.COMPLETED, "Done."), result.error
    assert min(after.turns_of) > 3
    for body in after.bodies:
        assert turns_in(body, "opaque") <= after.turns_of
        assert b"encrypted_content" not in body
