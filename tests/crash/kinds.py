"""One action of each idempotency, over an outside world that counts attempts and may end one in any way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from functools import partial

from pilotage import AgentToolRuntimeContext, Idempotency, TimeoutPolicy, ToolEffects, agent_tool
from pilotage.agent import ToolApprovalRequirement
from pilotage.errors import ToolError
from pilotage.runtime import step
from pilotage.testing import ProcessStopped


class Kind(StrEnum):
    """What an action declares about being done again."""

    READ_ONLY = "read_only"
    IDEMPOTENT = "idempotent"
    KEYED = "conditional_with_key"
    RECONCILED = "conditional_with_reconcile"
    UNBACKED = "conditional_without"
    UNREPEATABLE = "unrepeatable"
    RECONCILED_UNREPEATABLE = "unrepeatable_with_reconcile"
    STEP = "step"
    IDEMPOTENT_STEP = "idempotent_step"


class Ending(StrEnum):
    """How an attempt ends, seen from inside."""

    RESULT = "result"
    TOOL_ERROR = "ToolError"
    EXCEPTION = "other exception"
    HANGS = "hangs"
    UNENCODABLE = "result that cannot be encoded"
    DIES_BEFORE = "the process dies before the effect"
    DIES_AFTER = "the process dies after the effect"


class Outside:
    """The outside world. `endings` says how the next attempts end; behind them every attempt gives a result."""

    def __init__(self, *endings: Ending, forgets: bool = False) -> None:
        self._endings = list(endings)
        self._forgets = forgets
        self.may_end = asyncio.Event()
        """Lets what hangs come to its end."""
        self.effects = 0
        self.attempts = 0
        self.reconciled = 0
        self.keys: list[str] = []
        self.begun = asyncio.Event()

    async def act(self, key: str = "") -> str:
        """Let the effect happen, and end as the next ending says."""
        self.attempts += 1
        self.keys.append(key)
        ending = self._endings.pop(0) if self._endings else Ending.RESULT
        if ending is Ending.DIES_BEFORE:
            raise ProcessStopped("before the effect")
        self.effects += 1
        self.begun.set()
        match ending:
            case Ending.DIES_AFTER:
                raise ProcessStopped("after the effect")
            case Ending.TOOL_ERROR:
                raise ToolError("refused")
            case Ending.EXCEPTION:
                raise ConnectionError("the line broke")
            case Ending.HANGS:
                await self.may_end.wait()
            case Ending.UNENCODABLE:
                return object()
        return f"effect {self.effects}"

    def find(self) -> str | None:
        """What the outside knows of an attempt; None where nothing has happened."""
        self.reconciled += 1
        if self._forgets:
            raise ConnectionError("nobody is there")
        return "found" if self.effects else None


_OUTSIDE, _UNGATED = ToolEffects.external_side_effect(), ToolApprovalRequirement.NOT_REQUIRED
_CONDITIONAL, _NEVER_AGAIN = Idempotency.CONDITIONALLY_IDEMPOTENT, Idempotency.NON_IDEMPOTENT


def actions_over(
    outside: Outside, timeout: TimeoutPolicy | None = None
) -> dict[Kind, Callable[[], Awaitable[object]]]:
    """The actions over an outside world; `timeout` holds for each tool."""

    class Tools:
        @agent_tool(effects=ToolEffects.read_only(), timeout=timeout)
        async def read(self) -> str:
            """Only read."""
            return await outside.act()

        @agent_tool(
            effects=_OUTSIDE,
            idempotency=Idempotency.IDEMPOTENT,
            approval=_UNGATED,
            timeout=timeout,
            reads_untrusted=False,
        )
        async def put(self) -> str:
            """Change something; again changes nothing."""
            return await outside.act()

        @agent_tool(
            effects=_OUTSIDE,
            idempotency=_CONDITIONAL,
            approval=_UNGATED,
            timeout=timeout,
            reads_untrusted=False,
        )
        async def keyed(self, runtime_context: AgentToolRuntimeContext | None = None) -> str:
            """Change something; again with the same key changes nothing."""
            assert runtime_context is not None
            return await outside.act(f"{runtime_context.idempotency_key}, attempt {runtime_context.attempt}")

        @agent_tool(
            effects=_OUTSIDE,
            idempotency=_CONDITIONAL,
            approval=_UNGATED,
            reconcile="find",
            timeout=timeout,
            reads_untrusted=False,
        )
        async def reconciled(self) -> str:
            """Change something, and find out by a key whether it has happened."""
            return await outside.act()

        @agent_tool(
            effects=_OUTSIDE,
            idempotency=_CONDITIONAL,
            approval=_UNGATED,
            timeout=timeout,
            reads_untrusted=False,
        )
        async def unbacked(self) -> str:
            """Change something; nothing backs the declaration."""
            return await outside.act()

        @agent_tool(
            effects=_OUTSIDE,
            idempotency=_NEVER_AGAIN,
            approval=_UNGATED,
            timeout=timeout,
            reads_untrusted=False,
        )
        async def transfer(self) -> str:
            """Change something that must not happen twice."""
            return await outside.act()

        @agent_tool(
            effects=_OUTSIDE,
            idempotency=_NEVER_AGAIN,
            approval=_UNGATED,
            reconcile="find",
            timeout=timeout,
            reads_untrusted=False,
        )
        async def ship(self) -> str:
            """Change something that must not happen twice, and find out by a key whether it has happened."""
            return await outside.act()

        async def find(self, idempotency_key: str) -> str | None:
            """What the outside knows of a key."""
            return outside.find()

    tools = Tools()
    return {
        Kind.READ_ONLY: tools.read,
        Kind.IDEMPOTENT: tools.put,
        Kind.KEYED: tools.keyed,
        Kind.RECONCILED: tools.reconciled,
        Kind.UNBACKED: tools.unbacked,
        Kind.UNREPEATABLE: tools.transfer,
        Kind.RECONCILED_UNREPEATABLE: tools.ship,
        Kind.STEP: partial(step, "act", outside.act),
        Kind.IDEMPOTENT_STEP: partial(step, "act", outside.act, idempotency=Idempotency.IDEMPOTENT),
    }
