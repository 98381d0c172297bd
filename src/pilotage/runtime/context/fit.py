"""Fitting requests to the context budget: the messages of a model call, assembled, measured and condensed.

A program hands in its whole transcript with every call; the stage remembers the condensed form of its beginning. The
changes of a context are recorded with the call, so that replay repeats it without a further call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pilotage.agent.compaction import CompactionStrategy, fixed_tokens
from pilotage.agent.context import ContextPack, ContextTokenBudget
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.handlers import IAgentContextHandler
from pilotage.agent.run_values import AgentContext
from pilotage.context.assemble import Assembled, assemble, kept_manifest, manifest_id_of
from pilotage.context.compaction import ContextWindow, SummariseOldTurns, TrimToolResults
from pilotage.context.health import KeepWithinBudget
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.context.condense import Condensation
from pilotage.values import value

_WITHIN_BUDGET = KeepWithinBudget()
_DEFAULT: tuple[CompactionStrategy, ...] = (TrimToolResults(), SummariseOldTurns())


@value
class FittedRequest:
    """A request as the model gets it, and its manifest as the record of the call shows it."""

    request: ModelRequest
    manifest: JsonObject | None = None


_new_fitted = unchecked(FittedRequest)


@value
class ContextPolicy:
    """The context settings of an agent and its application."""

    budget: ContextTokenBudget | None = None
    strategies: tuple[CompactionStrategy, ...] = ()
    handler: IAgentContextHandler | None = None


class ContextStage:
    """The context of one attempt at a run."""

    def __init__(
        self, policy: ContextPolicy, given: AgentContext | None, salt: str, *, is_durable: bool
    ) -> None:
        self._given = given
        self._salt = salt
        self.budget = policy.budget
        self.strategies = policy.strategies or _DEFAULT
        self.handler = policy.handler or _WITHIN_BUDGET
        self._windows: dict[str, ContextWindow] = {}
        self._is_needed = is_durable or policy.budget is not None or given is not None

    def concerns(self, request: ModelRequest, *, is_live: bool) -> bool:
        """Return whether there is anything to do for a request; if not, the model sees it as it is.

        In replay only what was condensed matters; live, an ephemeral run needs no manifest.
        """
        if not is_live:
            return self.budget is not None
        return self._is_needed or bool(request.context)

    @property
    def packs(self) -> Sequence[ContextPack]:
        """The packs of the run's input, and those that were added to them."""
        return self._given.packs if self._given is not None else ()

    def also_show(self, packs: Sequence[ContextPack]) -> None:
        """Add these packs to every request from here on, after those of the run's input."""
        if packs:
            given = self._given or AgentContext()
            self._given = replace(given, packs=(*given.packs, *packs))
            self._is_needed = True

    def fitting(self, path: str, call_id: str, request: ModelRequest) -> Fitting:
        """Begin to fit a request of the model call of this id, made in the scope of this path."""
        if self._given is not None:
            request = _with_given(request, self._given)
        window = self._windows.get(path) or ContextWindow.opening(self._salt)
        return Fitting(self, path, call_id, request, window.hear(request.messages))

    def remember(self, path: str, window: ContextWindow) -> None:
        """Keep the window of a scope for its next request."""
        self._windows[path] = window


class Fitting:
    """One request on its way to the model."""

    def __init__(
        self, stage: ContextStage, path: str, call_id: str, request: ModelRequest, window: ContextWindow
    ) -> None:
        self._stage = stage
        self._path = path
        self._request = request
        self._window = window
        self._manifest_id = manifest_id_of(call_id)
        self._assembled = self._assemble(self._manifest_id)

    def condensation(self) -> Condensation | None:
        """Return the condensation of a context with a budget; None for one without."""
        stage = self._stage
        if stage.budget is None:
            return None
        beside = self._assembled.tokens - self._window.shown.tokens + fixed_tokens(self._request)
        return Condensation(self._request, self._assembled, self._window, beside, stage.budget)

    def condense_to(self, window: ContextWindow) -> None:
        """Go on with the window of a context that was condensed."""
        self._window = window

    def fitted(self) -> FittedRequest:
        """Return the request as the model may see it."""
        if self._window.digest is not None and self._stage.budget is not None:
            self._assembled = self._assemble(f"{self._manifest_id}#2")
        self._stage.remember(self._path, self._window)
        return _new_fitted(self._assembled.request, kept_manifest(self._assembled))

    def _assemble(self, manifest_id: str) -> Assembled:
        shown = self._window.show(self._request)
        return assemble(shown, manifest_id=manifest_id, transcript=self._window.shown)


def _with_given(request: ModelRequest, given: AgentContext) -> ModelRequest:
    """Return the request with the packs of the run's input; a pack of the program's own is not shown twice."""
    own = {pack.id for pack in request.context}
    return replace(
        request,
        context=(*(pack for pack in given.packs if pack.id not in own), *request.context),
        context_manifest=request.context_manifest or given.manifest,
        context_digest=request.context_digest or given.digest,
    )
