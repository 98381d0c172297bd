"""What a model call shows the model: the request assembled and measured, condensed where it has grown too large.

A program hands in its whole transcript with every call; the stage remembers what its beginning was condensed to. What
was done to a context is recorded with the call, so that replay does the same without asking anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pilotage.agent.compaction.estimate import fixed_tokens
from pilotage.agent.compaction.plan import CompactionStrategy
from pilotage.agent.context import ContextPack, ContextTokenBudget
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.handlers import IAgentContextHandler
from pilotage.agent.run_input import AgentContext
from pilotage.context.assemble import Assembled, assemble
from pilotage.context.handler import KeepWithinBudget
from pilotage.context.kept_manifest import kept_manifest, manifest_id_of
from pilotage.context.strategies import SummariseOldTurns, TrimToolResults
from pilotage.context.window import ContextWindow
from pilotage.runtime.context.condense import Condensing, Summarise
from pilotage.runtime.door.run import Effects, Shown
from pilotage.runtime.journal.scope import Scope

_WITHIN_BUDGET = KeepWithinBudget()
_DEFAULT: tuple[CompactionStrategy, ...] = (TrimToolResults(), SummariseOldTurns())


class ContextStage:
    """The context of one attempt at a run."""

    def __init__(
        self,
        effects: Effects,
        budget: ContextTokenBudget | None = None,
        strategies: Sequence[CompactionStrategy] = (),
        handler: IAgentContextHandler | None = None,
        given: AgentContext | None = None,
    ) -> None:
        self._given = given
        self._effects = effects
        self._budget = budget
        self._strategies = tuple(strategies) or _DEFAULT
        self._handler = handler or _WITHIN_BUDGET
        self._windows: dict[str, ContextWindow] = {}
        self._is_needed = effects.ledger.is_kept or budget is not None or given is not None

    def concerns(self, request: ModelRequest, *, is_live: bool) -> bool:
        """In replay only what was condensed matters; live, a run that nobody keeps needs no manifest."""
        if not is_live:
            return self._budget is not None
        return self._is_needed or bool(request.context)

    def also_show(self, packs: Sequence[ContextPack]) -> None:
        if packs:
            given = self._given or AgentContext()
            self._given = replace(given, packs=(*given.packs, *packs))
            self._is_needed = True

    async def shown(self, scope: Scope, call_id: str, request: ModelRequest, summarise: Summarise) -> Shown:
        """The request as the model may see it.

        Raises:
            Paused: a person is asked before the context is condensed.
        """
        if self._given is not None:
            request = _with_given(request, self._given)
        window = self._window(scope.path).hear(request.messages)
        manifest_id = manifest_id_of(call_id)
        assembled = self._assembled(window, request, manifest_id)
        if self._budget is not None:
            beside = assembled.tokens - window.shown.tokens + fixed_tokens(request)
            condensing = Condensing(self._effects, scope, call_id, request, assembled, beside, self._budget)
            window = await condensing.condensed(window, self._strategies, self._handler, summarise)
            if window.digest is not None:
                assembled = self._assembled(window, request, f"{manifest_id}#2")
        self._windows[scope.path] = window
        return Shown(assembled.request, kept_manifest(assembled))

    def _window(self, path: str) -> ContextWindow:
        found = self._windows.get(path)
        return found if found is not None else ContextWindow.opening(self._effects.salt)

    def _assembled(self, window: ContextWindow, request: ModelRequest, manifest_id: str) -> Assembled:
        return assemble(window.show(request), manifest_id=manifest_id, transcript=window.shown)


def _with_given(request: ModelRequest, given: AgentContext) -> ModelRequest:
    """The request with what the caller of the run gave it; what the program shows itself is not shown twice."""
    own = {pack.id for pack in request.context}
    return replace(
        request,
        context=(*(pack for pack in given.packs if pack.id not in own), *request.context),
        context_manifest=request.context_manifest or given.manifest,
        context_digest=request.context_digest or given.digest,
    )
