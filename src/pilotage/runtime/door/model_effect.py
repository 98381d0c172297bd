"""Model calls as effects: the model that is asked, the request, and the amounts that are held for it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from pilotage.agent.compaction import fixed_tokens, request_tokens
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.agent.tools.declare import OutsideRuns
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.budget.holds import BudgetHold, CallEstimate, Conduct, estimate_of
from pilotage.runtime.budget.limits import MOST_TOKENS
from pilotage.runtime.door.run import Run
from pilotage.runtime.effect import NOTHING, Effect
from pilotage.runtime.journal.scope import Action, StepScope
from pilotage.values import value

COUNT_SECONDS = 5.0
"""A model that takes longer to count the tokens of a request is not waited for: they are estimated."""


@value
class ModelSource:
    """A model as runs call it: the port, adapted to its capabilities, and its name for prices and records.

    `conduct` is the experience of all runs of the process with it.
    """

    port: IAgentModel
    name: str
    capability: ModelCapability
    conduct: Conduct


class ModelEffect(Effect):
    """A request to a model. It holds the reservation of its admission until the reply is complete.

    `program_request` is the request before it was fitted to its context.
    """

    manifest: JsonObject | None = None
    """The parts of the fitted context, for readers of the record."""
    message_tokens: int | None = None
    """The tokens of its messages, where they were measured when the request was fitted."""
    held: BudgetHold | None = None
    """Its worst case, held against the limits of the run until it has ended; None without such limits."""
    budget_hold: BudgetHold | None = None
    """The same for the application's budget, where that bounds tokens or cost."""
    bounded: frozenset[str] = frozenset()
    """The amounts that the application's budget bounds: the reply must report them."""
    counted: int | None = None
    """The tokens of the request as the model counts them; None where they are estimated."""
    hold_number: int | None = None
    """The number of the hold's row below its call."""

    def __init__(
        self, run: Run, scope: StepScope, action: Action, source: ModelSource, request: ModelRequest
    ) -> None:
        # Read in every call: a default of the class takes three times as long to read.
        self.call, self.ask, self.reservation, self.held = None, None, None, None
        self.scope = scope
        self.action = action
        self.source = source
        self.request = self.program_request = request
        self._run = run

    @property
    def model(self) -> str:
        """Return the name of the model."""
        return self.source.name

    @property
    def request_tokens(self) -> int:
        """Return the estimated tokens of the request; no message is measured twice."""
        if self.message_tokens is None:
            return request_tokens(self.request)
        return self.message_tokens + fixed_tokens(self.request)

    @property
    def held_in_budget(self) -> BudgetAmount:
        """Return the tokens and cost that the application's budget holds for it."""
        if self.reservation is None:
            return NOTHING
        amount = self.reservation.amount
        return BudgetAmount(tokens=amount.tokens, cost=amount.cost)

    def estimate(self) -> CallEstimate:
        """Return the estimate of its request, and the bound of its reply."""
        source, wanted = self.source, self.program_request.sampling.max_tokens
        if self.counted is not None:
            return estimate_of(source.capability, source.conduct, self.counted, wanted, is_exact=True)
        return estimate_of(source.capability, source.conduct, self.request_tokens, wanted)

    async def count(self) -> None:
        """Ask the model how many tokens the request has; without an answer, they stay estimated."""
        if self.counted is not None:
            return
        with suppress(Exception), OutsideRuns():
            async with asyncio.timeout(COUNT_SECONDS):
                found: object = await self.source.port.count_tokens(self.request)
            self.counted = found if type(found) is int and 0 <= found <= MOST_TOKENS else None

    def bound_reply(self, tokens: int) -> None:
        """Let the model write at most so many tokens."""
        sampling = self.request.sampling
        if sampling.max_tokens != tokens:
            self.request = replace(self.request, sampling=replace(sampling, max_tokens=tokens))
