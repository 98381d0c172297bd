"""Context from the application: packs for the model steps of a run, and symptoms of packs that do harm.

What these ports answer is recorded together with what follows from it, so replay never asks them again. Neither may
call tools of the run: they are no part of its program.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pilotage.agent.context import ContextHealthSignal, ContextManifest, ContextPack
from pilotage.agent.principal import RunContext
from pilotage.agent.run_values import AgentContext, RunAgentInput


class IAgentContextProvider(ABC):
    """Provides packs for the model steps of runs, such as what a search finds for their question.

    It is asked before the first model step of a run, before each with `refresh_context_each_step`, and when a context
    handler selects a retrieval refresh. The packs are labelled like those of a run's input: untrusted, unless they
    declare otherwise. A model step without its context is not made: where a provider raises or hangs, a durable run
    waits and asks again, any other run fails.
    """

    @abstractmethod
    async def provide(self, run_input: RunAgentInput, model_step: int) -> AgentContext:
        """Return the context for a model step; the first step of a run, or of a branch of it, is 1."""


class IAgentContextObserver(ABC):
    """Reports what is wrong with the packs of a request, before the request is sent.

    The runtime itself sees packs that are stale, repeated or not used, and contexts that are too large. One that raises
    or hangs reports nothing.
    """

    @abstractmethod
    async def observe(
        self, context: RunContext, packs: Sequence[ContextPack], manifest: ContextManifest
    ) -> Sequence[ContextHealthSignal]:
        """Return the symptoms of the packs, which are guarded; none is the usual answer."""
