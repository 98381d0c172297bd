"""A model server with a ledger of its own, and the ways in which a run asks it many times at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal

from pilotage import (
    IAgentModel,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
)
from pilotage.agent import IAgentPricing, ModelCapability, ModelCost, ModelUsage
from pilotage.agent.compaction import request_tokens
from pilotage.testing import ProcessStopped

BUSY_TURNS = 6


class Server(IAgentModel):
    """Writes so many tokens to each request, and counts what it was really asked and what it wrote.

    `obeys` says whether it keeps to `max_tokens`; a request takes `factor` times the estimate. What it wrote counts
    when it begins to write, whatever becomes of the call.
    """

    def __init__(
        self,
        reply: int = 1_000,
        *,
        name: str = "server",
        obeys: bool = True,
        factor: float = 1.0,
        turns: int = BUSY_TURNS,
        texts: tuple[str, ...] = ("ok",),
        capability: ModelCapability | None = None,
    ) -> None:
        self.reply, self.obeys, self.factor, self.turns, self.texts = reply, obeys, factor, turns, texts
        self._capability = capability or ModelCapability(name)
        self.wrote: list[int] = []
        self.bounds: list[int | None] = []
        self.under_way = self.widest = 0
        self._is_stuck = asyncio.Event()
        self._stops_at: int | None = None
        self._open: list[asyncio.Future[None]] = []

    @property
    def capability(self) -> ModelCapability:
        return self._capability

    @property
    def spent(self) -> int:
        """Return all tokens that the server has taken, asked for or not."""
        return sum(self.wrote)

    @property
    def calls(self) -> int:
        """Return how often it was asked."""
        return len(self.wrote)

    def stops_after(self, calls: int | None) -> None:
        """Let so many more calls be asked; the last of them and those after it are not answered."""
        self._stops_at = None if calls is None else self.calls + calls
        self._is_stuck = asyncio.Event()

    def stuck(self) -> asyncio.Task[bool]:
        """Return a task that ends when a call is not answered."""
        return asyncio.ensure_future(self._is_stuck.wait())

    def die(self) -> None:
        """End all open calls as the death of their process ends them."""
        for call in self._open:
            if not call.done():
                call.set_exception(ProcessStopped("killed"))
        self._open.clear()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        asked, bound = int(request_tokens(request) * self.factor), request.sampling.max_tokens
        written = self.reply if bound is None or not self.obeys else min(self.reply, bound)
        self.bounds.append(bound)
        self.wrote.append(asked + written)
        self.under_way += 1
        self.widest = max(self.widest, self.under_way)
        try:
            if self._stops_at is not None and self.calls >= self._stops_at:
                self._is_stuck.set()
                self._open.append(asyncio.get_running_loop().create_future())
                await self._open[-1]
            for _ in range(self.turns):
                await asyncio.sleep(0)
        finally:
            self.under_way -= 1
        text = self.texts[(self.calls - 1) % len(self.texts)]
        return ModelResponse(text, usage=ModelUsage(asked, written, asked + written))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        response = await self.complete(request)
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=response)


class CentPerToken(IAgentPricing):
    """A cent per token of any model, but for those without a price."""

    def __init__(self, *unpriced: str) -> None:
        self.unpriced = unpriced

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        if model in self.unpriced:
            return None
        return ModelCost(Decimal(usage.total_tokens or 0) / 100, "EUR", "1")
