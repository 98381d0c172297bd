"""What is outside of the golden runs: a ledger in a file, the tools that write it, and places where a process may die."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pilotage import (
    PII,
    AgentToolRuntimeContext,
    Idempotency,
    Pod,
    RunContext,
    SensitiveField,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentCancellationCleanupResult,
    AgentCancellationRequest,
    IAgentCancellationCleanup,
    ToolApprovalRequirement,
)
from pilotage.errors import ToolError

UNGATED, GATED = ToolApprovalRequirement.NOT_REQUIRED, ToolApprovalRequirement.REQUIRED
CHANGES = ToolEffects.write_state()
LONG = "a long letter, " * 1_000


class Ledger:
    """Effects that happened, one line of a file each, with the idempotency key they came with."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.touch()

    def write(self, what: str, key: str) -> str:
        """Let an effect happen; its receipt."""
        with self._file.open("a") as file:
            file.write(json.dumps({"what": what, "key": key}) + "\n")
        return f"did {what}"

    def write_once(self, what: str, key: str) -> str:
        """Let an effect happen unless it did with this key; its receipt.

        Raises:
            ValueError: something else happened with this key.
        """
        known = self.find(key)
        if known not in (None, f"did {what}"):
            raise ValueError(f"{known!r} came with the key of {what!r}")
        return known or self.write(what, key)

    def effects(self) -> list[str]:
        """All effects in their order."""
        return [line["what"] for line in self.lines()]

    def find(self, key: str) -> str | None:
        """The receipt of the effect that came with a key; None where there is none."""
        return next((f"did {line['what']}" for line in self.lines() if line["key"] == key), None)

    def lines(self) -> list[dict[str, str]]:
        """All effects with their keys."""
        return [json.loads(line) for line in self._file.read_text().splitlines()]


class Weather:
    """What one process meets: places where it is held until it is killed, errors, and a changed program."""

    def __init__(
        self,
        *,
        holds: frozenset[str] = frozenset(),
        breaks: frozenset[str] = frozenset(),
        changed: bool = False,
    ) -> None:
        self._holds, self._breaks = holds, breaks
        self.changed = changed
        self.reached: asyncio.Queue[str] = asyncio.Queue()

    async def at(self, place: str) -> None:
        """Pass a place of the program."""
        if place in self._holds:
            self.reached.put_nowait(place)
            await asyncio.Event().wait()
        if place in self._breaks:
            raise ConnectionError(f"the line went dead at {place}")


@dataclass(frozen=True)
class Letter:
    """A letter that is too large for a row, and an account that only the caller may see."""

    text: str
    account: Annotated[str, SensitiveField(PII.ACCOUNT_ID)]


@Pod
class Hands:
    """One tool of each kind; `what` names the effect in the ledger."""

    def __init__(self, ledger: Ledger, weather: Weather) -> None:
        self.ledger, self.weather = ledger, weather

    @agent_tool(effects=ToolEffects.read_only())
    async def look(self, what: str) -> str:
        """Look something up."""
        return f"saw {what}"

    @agent_tool(effects=CHANGES, idempotency=Idempotency.IDEMPOTENT, approval=UNGATED, accepts_untrusted=True)
    async def note(self, what: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Note something; noting it again changes nothing."""
        return await self._passed(what, self.ledger.write_once(what, runtime_context.idempotency_key))

    @agent_tool(effects=CHANGES, idempotency=Idempotency.CONDITIONALLY_IDEMPOTENT, approval=UNGATED)
    async def post(self, what: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Post something; the post office knows keys."""
        return await self._passed(what, self.ledger.write_once(what, runtime_context.idempotency_key))

    @agent_tool(
        effects=CHANGES, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNGATED, reconcile="find_parcel"
    )
    async def ship(self, what: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Ship something; the carrier is asked by the key whether it happened."""
        return await self._passed(what, self.ledger.write(what, runtime_context.idempotency_key))

    async def find_parcel(self, idempotency_key: str) -> str | None:
        """What the carrier knows about a key."""
        return self.ledger.find(idempotency_key)

    @agent_tool(effects=CHANGES, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNGATED)
    async def write(self, what: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Do something that cannot be done twice."""
        await self.weather.at(f"before {what}")
        return await self._passed(what, self.ledger.write(what, runtime_context.idempotency_key))

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        reads_untrusted=False,
    )
    async def ask(self, what: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Do something that a person has to allow."""
        return await self._passed(what, self.ledger.write(what, runtime_context.idempotency_key))

    @agent_tool(effects=CHANGES, idempotency=Idempotency.IDEMPOTENT, approval=GATED)
    async def stamp(self, what: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Stamp something when a person allows it; stamping it again changes nothing."""
        return await self._passed(what, self.ledger.write_once(what, runtime_context.idempotency_key))

    @agent_tool(effects=ToolEffects.read_only())
    async def fail(self, what: str) -> str:
        """Fail for certain."""
        raise ToolError(f"no {what}")

    async def _passed(self, what: str, receipt: str) -> str:
        await self.weather.at(what)
        return receipt


@Pod
class Papers:
    """Tools for what is large, sealed or a stranger's."""

    @agent_tool(effects=ToolEffects.read_only(), reads_untrusted=True)
    async def page(self, number: int) -> str:
        """Read a page that a stranger wrote."""
        return f"page {number}: " + "word " * 150

    @agent_tool(effects=CHANGES, idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def letter(self, what: str) -> Letter:
        """Fetch a large letter with something in it that must be sealed."""
        return Letter(LONG, f"DE-{what}")


@Pod
class Crates:
    """A tool that calls other tools."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands

    @agent_tool(effects=CHANGES, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNGATED)
    async def pack(self, what: str) -> str:
        """Pack several things, one of which a person has to allow."""
        return f"{await self.hands.note(f'{what} note')}, {await self.hands.ask(f'{what} ask')}"


class Broom(IAgentCancellationCleanup):
    """Cleans up behind a cancelled run."""

    def __init__(self, weather: Weather) -> None:
        self._weather = weather

    async def clean_up(
        self, context: RunContext, request: AgentCancellationRequest
    ) -> AgentCancellationCleanupResult | None:
        await self._weather.at(f"clean-up {request.target_ref}")
        return AgentCancellationCleanupResult.succeeded(
            target_kind=request.target_kind, target_ref=request.target_ref
        )
