"""Durable, approved, resumed, word for word as users write it; `shop` is the package beside it in `program_04/`."""

from __future__ import annotations

from decimal import Decimal

from shop.refunds import RefundRequest, Refunds

from pilotage import (
    AgentStatus,
    Application,
    MessageDeltaEvent,
    Principal,
    RunPausedEvent,
    ToolCallStartEvent,
)
from pilotage.runtime import AgentRuns


async def main() -> None:
    app = Application("shop").scan("shop").load_plugins()         # pilotage[sqlalchemy] installed: SQLite file by default
    async with app:
        runs = app.get(AgentRuns)
        run = await runs.start(Refunds, RefundRequest(order="A-17", amount=Decimal("12.50")), principal=Principal("ada", tenant="acme"))
        async for event in run.events():
            match event:
                case MessageDeltaEvent(delta=text): print(text, end="")
                case ToolCallStartEvent(tool_name=name): print(f"[{name}]")
                case RunPausedEvent(): break
        (request,) = await runs.questions(run.id)
        print(request.prompt, request.arguments)                   # guarded, exactly what would run
        await runs.approve(request.id, comment="ok", principal=Principal("grace", tenant="acme"))
        result = await (await runs.resume(run.id)).result()
        assert result.status is AgentStatus.COMPLETED
        await runs.verify(run.id)
