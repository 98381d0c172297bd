"""Holds: the worst case of a model call, taken from the room of a run's limits before the call begins.

The worst case is the estimated request and the bound of the reply, which the model gets as `max_tokens`. So calls side
by side never share the same room. A call without room waits while others hold some: they may need less than they hold.
A model that has not proven that it keeps to its bound is asked by one call at a time. Pure, but for the waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from math import ceil

from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.budget import BudgetAmount, ModelCost
from pilotage.agent.ports.model import ModelCapability
from pilotage.values import value

DEFAULT_REPLY_TOKENS = 4_096
"""The bound of a reply where neither the request nor the capability of the model has one."""
LEAST_REPLY_TOKENS = 16
"""A call with less room for its reply is refused."""

_TRIES_TO_PROVE = 8
_LARGE_REQUEST = 500
_LARGEST_FACTOR = 4.0
_LARGEST_OFFSET = 1_000


class Conduct:
    """The experience with one model: how far requests are underestimated, and whether replies keep to their bound.

    The first reply of a model proves it; after one that broke its bound, several in a row must keep to it.
    """

    __slots__ = ("_factor", "_offset", "_to_prove")

    def __init__(self) -> None:
        self._factor = 1.0
        self._offset = 0
        self._to_prove = 1

    @property
    def is_proven(self) -> bool:
        """Return whether calls side by side are safe."""
        return self._to_prove == 0

    def request_tokens(self, estimated: int) -> int:
        """Return the tokens that a request of this estimate may take."""
        return ceil(estimated * self._factor) + self._offset

    def learn(
        self,
        estimated: int,
        most: ModelUsage,
        usage: ModelUsage,
        *,
        is_dearer: bool = False,
        is_exact: bool = False,
    ) -> None:
        """Compare a reported usage with what was held for it; `is_dearer` if its price was higher.

        A request that the model has counted says nothing about estimates.
        """
        read = usage.input_tokens
        if read is not None and not is_exact:
            self._learn_request(estimated, read)
        if read is not None and usage.total_tokens is not None:
            is_within = usage.total_tokens - read <= (most.output_tokens or 0)
            is_within = is_within and read <= max(self.request_tokens(estimated), most.input_tokens or 0)
        else:
            is_within = (usage.total_tokens or 0) <= (most.total_tokens or 0)
        is_within = is_within and not is_dearer
        self._to_prove = max(self._to_prove - 1, 0) if is_within else _TRIES_TO_PROVE

    def _learn_request(self, estimated: int, read: int) -> None:
        """Raise the estimates after a request that took more; up to a bound, above which the report counts as wrong."""
        if estimated >= _LARGE_REQUEST:
            self._factor = min(max(self._factor, read / estimated), _LARGEST_FACTOR)
        else:
            missing = read - ceil(estimated * self._factor)
            self._offset = min(max(self._offset, missing), _LARGEST_OFFSET)


@value
class CallEstimate:
    """A model call before it begins: the models that may be paid for it, its request and the bound of its reply."""

    models: tuple[str, ...]
    pays_each: bool
    estimated: int
    reply_tokens: int
    conduct: Conduct
    is_exact: bool = False
    """Whether the model has counted the request."""

    @property
    def request_tokens(self) -> int:
        """Return the tokens of the request: as the model counts them, or by the experience with it."""
        return self.estimated if self.is_exact else self.conduct.request_tokens(self.estimated)

    def usage(self, reply_tokens: int) -> ModelUsage:
        """Return the most that one model takes with a bound of its reply."""
        asked = self.request_tokens
        return ModelUsage(asked, reply_tokens, asked + reply_tokens)

    def amount(
        self, reply_tokens: int, price: Callable[[str, ModelUsage], Decimal | None] | None
    ) -> BudgetAmount | None:
        """Return the worst case with a bound of the reply; None if money counts and no model has a price."""
        most = self.usage(reply_tokens)
        times = len(self.models) if self.pays_each else 1
        tokens = (most.total_tokens or 0) * times
        if price is None:
            return BudgetAmount(tokens=tokens)
        costs = [cost for model in self.models if (cost := _highest(price, model, most)) is not None]
        if not costs:
            return None
        return BudgetAmount(tokens=tokens, cost=sum(costs, Decimal(0)) if self.pays_each else max(costs))


def _highest(
    price: Callable[[str, ModelUsage], Decimal | None], model: str, most: ModelUsage
) -> Decimal | None:
    """Return the highest price of a usage: its input may be written to a cache, its output may be reasoning."""
    plain = price(model, most)
    detailed = replace(most, cache_written_tokens=most.input_tokens, reasoning_tokens=most.output_tokens)
    dear = price(model, detailed)
    return plain if plain is None or dear is None else max(plain, dear)


def estimate_of(
    capability: ModelCapability,
    conduct: Conduct,
    estimated: int,
    wanted: int | None,
    *,
    is_exact: bool = False,
) -> CallEstimate:
    """Return the estimate of a call; `wanted` is the bound of the reply in the request, which takes precedence."""
    bound = wanted
    if bound is None:
        bound = capability.max_output_tokens or DEFAULT_REPLY_TOKENS
        if capability.context_tokens is not None:
            asked = estimated if is_exact else conduct.request_tokens(estimated)
            room = capability.context_tokens - asked
            bound = max(min(bound, room), 1)
    models = capability.stands_for or (capability.model,)
    return CallEstimate(models, capability.pays_each, estimated, bound, conduct, is_exact=is_exact)


class BudgetHold:
    """The worst case of one call under way, until it is settled or released."""

    __slots__ = ("amount", "call", "is_idle", "is_open", "reply_tokens", "task")

    def __init__(self, call: CallEstimate, reply_tokens: int, amount: BudgetAmount) -> None:
        self.call = call
        self.reply_tokens = reply_tokens
        self.amount = amount
        self.is_open = True
        self.task: asyncio.Task[object] | None = None
        """The task that makes the call."""
        self.is_idle: Callable[[], bool] = lambda: False
        """Whether the call waits for its reader: the model has nothing to do."""

    @property
    def usage(self) -> ModelUsage:
        """Return the worst case as a usage."""
        return self.call.usage(self.reply_tokens)

    def learn(self, usage: ModelUsage, cost: Decimal | None) -> None:
        """Compare the reported usage, and its price where money counts, with the worst case."""
        is_dearer = cost is not None and cost > self.amount.cost
        call = self.call
        call.conduct.learn(call.estimated, self.usage, usage, is_dearer=is_dearer, is_exact=call.is_exact)


@value
class LostHold:
    """The hold of a try that ended with its process."""

    number: int
    model: str
    amount: BudgetAmount
    cost: ModelCost | None = None


_POLL_SECONDS = 0.05
_IDLE_POLLS = 20


class Room:
    """The holds of a run and of all runs in its tree, and the calls that wait for room."""

    def __init__(self) -> None:
        self.holds: dict[BudgetHold, None] = {}
        self._waiting: list[asyncio.Future[None]] = []

    def has_unproven(self) -> bool:
        """Return whether a model is asked that has not proven that it keeps to its bounds."""
        return any(not hold.call.conduct.is_proven for hold in self.holds)

    def leave(self, hold: BudgetHold) -> None:
        """End a hold, and wake the calls that wait."""
        hold.is_open = False
        self.holds.pop(hold, None)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def changed(self) -> bool:
        """Wait until a hold ends, or for a moment; return whether one has ended."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(change)
        try:
            await asyncio.wait((change,), timeout=_POLL_SECONDS)
            return change.done()
        finally:
            if change in self._waiting:
                self._waiting.remove(change)

    async def waited(self, wait: RoomWait) -> bool:
        """Wait until a hold ends; return False if none can end."""
        while self.holds and not wait.is_over():
            if await self.changed():
                return True
        return False


class RoomWait:
    """The wait of a call for room: it is over if only calls hold room that cannot end before this one begins."""

    def __init__(self, room: Room, task: asyncio.Task[object] | None) -> None:
        self._room = room
        self._task = task
        self._idle = 0

    def is_over(self) -> bool:
        """Return whether no hold can end: all are of the waiting task itself, or of streams that wait for readers."""
        if not all(hold.task is self._task or hold.is_idle() for hold in self._room.holds):
            self._idle = 0
            return False
        if all(hold.task is self._task for hold in self._room.holds):
            return True
        self._idle += 1
        return self._idle > _IDLE_POLLS
