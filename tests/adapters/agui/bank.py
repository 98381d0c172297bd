"""A bank for stories over AG-UI: an agent that talks, pays when somebody allows it, and keeps its runs."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from ag_ui.core import RunAgentInput
from tests.adapters.agui.sequence import fault_in

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Application,
    Pod,
    Principal,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.agui import AgUiConfig, driver_for, frames_for, line_of
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

Frame = dict[str, Any]
Store = MemoryStore | SqlAlchemyStore
PAY = {"to": "Bo", "amount": "5"}


@Pod
class Payments:
    """The outside world, which outlives every process."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    @agent_tool(effects=ToolEffects.external_side_effect())
    async def pay(self, to: str, amount: str) -> str:
        """Pay an amount to somebody."""
        self.paid.append(f"{amount} to {to}")
        return "paid"


@Agent(spec=AgentExecutionSpec(name="teller", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Teller:
    """Pay what you are asked to pay."""

    def __init__(self, payments: Payments) -> None:
        self.payments = payments


@Agent(spec=AgentExecutionSpec(name="porter", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Porter:
    """Another agent of the same bank."""


@Agent(spec=AgentExecutionSpec(name="clerk"))
class Clerk:
    """Talks; its runs are not kept."""


class Bank:
    """Processes come and go; the store and the payments stay."""

    def __init__(self, store: Store | None = None) -> None:
        self.store: Store = store or MemoryStore()
        self.payments = Payments()

    @asynccontextmanager
    async def open(self, model: ScriptedModel) -> AsyncGenerator[Application, None]:
        """One process."""
        app = Application("bank").add(Teller, Porter, Clerk, self.payments, model, *self.store.ports)
        async with app.load_plugins() as started:
            yield started


async def ask(
    app: Application,
    given: RunAgentInput | str,
    agent: type[object] = Teller,
    *,
    principal: Principal | None = None,
    config: AgUiConfig | None = None,
) -> list[Frame]:
    """What a client reads for an input; it is a stream that the protocol allows."""
    text = given if isinstance(given, str) else given.model_dump_json(by_alias=True)
    factory = driver_for(app, agent, principal=principal or Principal("ada"), config=config)
    frames: list[Frame] = [json.loads(line_of(frame)) async for frame in frames_for(factory, text)]
    assert fault_in(frames) is None
    return frames


def interrupts_of(frames: list[Frame]) -> list[Frame]:
    """What a paused run waits for."""
    assert frames[-1]["type"] == "RUN_FINISHED"
    assert frames[-1]["outcome"]["type"] == "interrupt"
    return list(frames[-1]["outcome"]["interrupts"])


def refusal(frames: list[Frame]) -> Frame:
    """The CUSTOM event about an answer that was refused; its stream ends as every answer's does."""
    assert frames[-1]["type"] == "RUN_FINISHED"
    (found,) = [frame for frame in frames if frame["type"] == "CUSTOM"]
    return found


def paying(*last: str) -> ScriptedModel:
    return ScriptedModel([calls("pay", **PAY), *map(says, last or ["Done."])])


def texts(frames: list[Frame]) -> str:
    return "".join(frame["delta"] for frame in frames if frame["type"] == "TEXT_MESSAGE_CONTENT")
