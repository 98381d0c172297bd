"""A model with limits on concurrent calls and on tokens per minute."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from pilotage.agent.compaction import request_tokens
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelUsage
from pilotage.agent.model_request import ModelRequest, ModelSelection
from pilotage.agent.model_stream import whole_replies
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.ids import IClock, SystemClock
from pilotage.runtime.budget.limits import believable
from pilotage.runtime.door.model import plain_model
from pilotage.runtime.events.feed import close
from pilotage.values import value


class FairQueue:
    """A semaphore that is first come, first served. It is bound to no event loop."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """Number of waiting callers."""
        return sum(not turn.done() for turn in self._waiting)

    async def take(self) -> None:
        """Wait for a place. A caller that is cancelled while waiting gets none."""
        if self._free and not self.waiting:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # The place may have been handed over at the same moment: pass it to the next caller.
            if turn.done() and not turn.cancelled():
                self.give_back()
            raise

    def give_back(self) -> None:
        """Pass the place to the caller that has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


_MINUTE = 60.0


@value
class TokenBucket:
    """A token bucket: its capacity (`per_minute`), the tokens in it, and the time of that count.

    The count is negative after a call that took more than expected; the next call then waits longer.
    """

    per_minute: int
    level: float
    at: float

    @classmethod
    def full(cls, per_minute: int, now: float) -> TokenBucket:
        """Return a full bucket."""
        return cls(per_minute, per_minute, now)

    def wait_for(self, tokens: int, now: float) -> float:
        """Return the seconds until so many tokens are available; for more than the capacity, until it is full."""
        wanted = min(tokens, self.per_minute)
        return max(0.0, (wanted - self._level_at(now)) * _MINUTE / self.per_minute)

    def without(self, tokens: int, now: float) -> TokenBucket:
        """Return the bucket after tokens were taken, available or not; a negative number returns some."""
        return replace(self, level=min(self.per_minute, self._level_at(now) - tokens), at=now)

    def _level_at(self, now: float) -> float:
        filled = self.level + (now - self.at) * self.per_minute / _MINUTE
        return min(float(self.per_minute), filled)


class RateLimitedModel(IAgentModel):
    """A model whose calls wait, first come, first served, until the limits allow them.

    The tokens of a call are estimated from its length and `max_tokens`, and corrected by the usage of the reply.
    Share one instance between all agents that share a server's limits.
    """

    def __init__(
        self,
        model: IAgentModel,
        *,
        max_concurrent: int | None = None,
        tokens_per_minute: int | None = None,
        clock: IClock | None = None,
    ) -> None:
        """Limit a model; give one of the limits, or both.

        Raises:
            AgentDefinitionError: there is no limit, or one that is not positive.
        """
        reject_not_positive(self, max_concurrent=max_concurrent, tokens_per_minute=tokens_per_minute)
        if max_concurrent is None and tokens_per_minute is None:
            raise AgentDefinitionError(
                "RateLimitedModel limits nothing. Give it max_concurrent, tokens_per_minute, or both."
            )
        self._model = plain_model(model)
        self._clock = clock or SystemClock()
        self._door = FairQueue(1)
        self._places = FairQueue(max_concurrent) if max_concurrent is not None else None
        self._bucket: TokenBucket | None = None
        if tokens_per_minute is not None:
            self._bucket = TokenBucket.full(tokens_per_minute, self._clock.monotonic())

    @property
    def capability(self) -> ModelCapability:
        return self._model.capability

    def capability_for(self, selection: ModelSelection | None) -> ModelCapability:
        return self._model.capability_for(selection)

    def validate_request(self, request: ModelRequest) -> None:
        self._model.validate_request(request)

    async def count_tokens(self, request: ModelRequest) -> int | None:
        return await self._model.count_tokens(request)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        async with self._admitted(request) as call:
            response = await self._model.complete(request)
            call.usage = response.usage
            return response

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        async with self._admitted(request) as call:
            events = whole_replies(self._model.stream(request), request)
            try:
                async for event in events:
                    call.observe(event)
                    yield event
            finally:
                await close(events)

    @asynccontextmanager
    async def _admitted(self, request: ModelRequest) -> AsyncGenerator[_LimitedCall, None]:
        call = _LimitedCall(request_tokens(request) + (request.sampling.max_tokens or 0))
        await self._enter(call)
        try:
            yield call
        finally:
            self._settle(call)
            if self._places is not None:
                self._places.give_back()

    async def _enter(self, call: _LimitedCall) -> None:
        """Wait for a place and for tokens. Only the first caller of the queue waits for tokens."""
        await self._door.take()
        try:
            if self._places is not None:
                await self._places.take()
            try:
                await self._take_tokens(call)
            except BaseException:
                if self._places is not None:
                    self._places.give_back()
                raise
        finally:
            self._door.give_back()

    async def _take_tokens(self, call: _LimitedCall) -> None:
        while self._bucket is not None:
            now = self._clock.monotonic()
            wait = self._bucket.wait_for(call.expected, now)
            if wait <= 0:
                self._bucket = self._bucket.without(call.expected, now)
                return
            await self._clock.sleep(wait)

    def _settle(self, call: _LimitedCall) -> None:
        """Correct the estimate by the actual usage; without a reported usage the estimate counts."""
        if self._bucket is not None and call.took is not None:
            self._bucket = self._bucket.without(call.took - call.expected, self._clock.monotonic())


class _LimitedCall:
    """One call with its estimated and reported tokens."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.usage = ModelUsage()

    def observe(self, event: ModelStreamEvent) -> None:
        if event.response is not None:
            self.usage = event.response.usage
        elif event.usage is not None:
            self.usage = event.usage

    @property
    def took(self) -> int | None:
        usage = believable(self.usage)
        if usage.total_tokens is not None:
            return usage.total_tokens
        if usage.input_tokens is None and usage.output_tokens is None:
            return None
        return (usage.input_tokens or 0) + (usage.output_tokens or 0)
