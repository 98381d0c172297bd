"""Fitting requests to the context budget: the messages of a model call, assembled, measured and condensed.

A program hands in its whole transcript with every call; the stage remembers the condensed form of its beginning. The
changes of a context are recorded with the call, so that replay repeats it without a further call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from pilotage.agent.compaction import CompactionStrategy, fixed_tokens
from pilotage.agent.context import (
    ContextHealthSignal,
    ContextManifest,
    ContextOptimizationAction,
    ContextPack,
    ContextTokenBudget,
)
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.handlers import IAgentContextHandler
from pilotage.agent.run_values import AgentContext
from pilotage.context.assemble import Assembled, assemble, manifest_id_of
from pilotage.context.compaction import ContextWindow, SummariseOldTurns, TrimToolResults
from pilotage.context.health import KeepWithinBudget, stale_packs
from pilotage.context.observation import repeated_packs, repeated_results, reply_count, unused_packs
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.context.condense import Condensation
from pilotage.runtime.context.optimize import PackChange, SelectedActions, valid_answers
from pilotage.runtime.journal.scope import StepScope
from pilotage.values import value

_WITHIN_BUDGET = KeepWithinBudget()
_DEFAULT: tuple[CompactionStrategy, ...] = (TrimToolResults(), SummariseOldTurns())


Provide: TypeAlias = Callable[[int], Awaitable[AgentContext]]
Observe: TypeAlias = Callable[
    [Sequence[ContextPack], ContextManifest], Awaitable[Sequence[ContextHealthSignal]]
]
Delegate: TypeAlias = Callable[[StepScope, str, str], Awaitable[JsonValue]]


@value
class ContextPolicy:
    """The context settings of an agent and its application.

    `provide` fetches the context of a model step, `observe` asks the application's observers, `delegate` gives a task
    to one of the `teammates`.
    """

    budget: ContextTokenBudget | None = None
    strategies: tuple[CompactionStrategy, ...] = ()
    handler: IAgentContextHandler | None = None
    provide: Provide | None = None
    refreshes_each_step: bool = False
    observe: Observe | None = None
    teammates: frozenset[str] = frozenset()
    delegate: Delegate | None = None

    @property
    def is_dynamic(self) -> bool:
        """Whether what a model is shown may change from call to call, so that replay must follow it."""
        return not (self.budget is None and self.provide is None and not self.observes)

    @property
    def observes(self) -> bool:
        """Whether a handler reacts to other symptoms than size: the built-in one does not."""
        return self.handler is not None or self.observe is not None


class ContextStage:
    """The context of one attempt at a run."""

    def __init__(
        self, policy: ContextPolicy, given: AgentContext | None, salt: str, *, is_durable: bool
    ) -> None:
        self._given = given
        self._salt = salt
        self.policy = policy
        self.is_dynamic = policy.is_dynamic
        self.budget = policy.budget
        self.strategies = policy.strategies or _DEFAULT
        self.handler = policy.handler or _WITHIN_BUDGET
        self._provided: dict[str, ContextPack] | None = None
        self._windows: dict[str, ContextWindow] = {}
        self._shelves: dict[str, Shelf] = {}
        self._is_needed = is_durable or policy.is_dynamic or given is not None

    def concerns(self, request: ModelRequest, *, is_live: bool) -> bool:
        """Return whether a request needs a change; if not, the model sees it as it is.

        In replay only what changes the context matters; live, an ephemeral run needs no manifest.
        """
        if not is_live:
            return self.is_dynamic
        return self._is_needed or bool(request.context)

    @property
    def packs(self) -> Sequence[ContextPack]:
        """The packs of the run's input, those that were added to them, and those that were provided."""
        given = self._given.packs if self._given is not None else ()
        if not self._provided:
            return given
        return tuple(({pack.id: pack for pack in given} | self._provided).values())

    @property
    def wants_context(self) -> bool:
        """Whether the context is to be fetched for the next request."""
        policy = self.policy
        return policy.provide is not None and (policy.refreshes_each_step or self._provided is None)

    @property
    def volatile_packs(self) -> Collection[str]:
        """The packs of the provider, if they are fetched before each model step."""
        return (self._provided or ()) if self.policy.refreshes_each_step else ()

    def also_show(self, packs: Sequence[ContextPack]) -> None:
        """Add these packs to every request from here on, after those of the run's input."""
        if packs:
            given = self._given or AgentContext()
            self._given = replace(given, packs=(*given.packs, *packs))
            self._is_needed = True

    def show_provided(self, context: AgentContext) -> None:
        """Show the context of a provider from here on, in place of what it provided before."""
        self._provided = {pack.id: pack for pack in context.packs}

    def fitting(self, path: str, call_id: str, request: ModelRequest) -> Fitting:
        """Begin to fit a request of the model call of this id, made in the scope of this path."""
        if self._given is not None or self._provided:
            request = self._with_packs(request)
        window = (self._windows.get(path) or ContextWindow.opening(self._salt)).moved_to(request.messages)
        if path in self._shelves or (self.is_dynamic and request.context):
            request = self._shelf(path).shown(request)
        return Fitting(self, path, call_id, request, window)

    def change(self, path: str, request: ModelRequest, change: PackChange) -> ModelRequest:
        """Return a request with changed packs. What is dropped stays away from its scope as long as it is the same."""
        provided = {pack.id: pack for pack in change.provided}
        if provided:
            self._provided = (self._provided or {}) | provided
        self._shelf(path).drop(request.context, change.dropped)
        remaining = {pack.id: pack for pack in request.context if pack.id not in change.dropped}
        return replace(request, context=tuple((remaining | provided).values()))

    def substitute(
        self, path: str, request: ModelRequest, dropped: frozenset[str], pack: ContextPack
    ) -> ModelRequest:
        """Return a request with one pack in the place of others, from here on in its scope."""
        changed = self.change(path, request, PackChange(dropped))
        self._shelf(path).added[pack.id] = pack
        return replace(changed, context=(*changed.context, pack))

    def _shelf(self, path: str) -> Shelf:
        return self._shelves.setdefault(path, Shelf())

    def replies_before(self, path: str, pack: ContextPack) -> int:
        """Return the number of replies before a pack was shown first in a scope."""
        return self._shelves[path].first_shown.get(_key(pack), 0) if path in self._shelves else 0

    def remember(self, path: str, window: ContextWindow) -> None:
        """Keep the window of a scope for its next request."""
        self._windows[path] = window

    def _with_packs(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the packs of the run; a pack of the program's own is not shown twice."""
        packs, given = self.packs, self._given
        own = {pack.id for pack in request.context}
        return replace(
            request,
            context=(*(pack for pack in packs if pack.id not in own), *request.context),
            context_manifest=request.context_manifest or (given.manifest if given else None),
            context_digest=request.context_digest or (given.digest if given else None),
        )


class Shelf:
    """The packs of one scope: since when each is shown, which were dropped, and which took their place."""

    def __init__(self) -> None:
        self.first_shown: dict[tuple[str, int], int] = {}
        self.added: dict[str, ContextPack] = {}
        self._dropped: set[tuple[str, int]] = set()

    def shown(self, request: ModelRequest) -> ModelRequest:
        """Return the request without the packs that were dropped, and with those that took their place."""
        replies, packs = reply_count(request.messages), (*request.context, *self.added.values())
        self.first_shown = {key: self.first_shown.get(key, replies) for key in map(_key, packs)}
        if not self._dropped:
            return request
        return replace(request, context=tuple(pack for pack in packs if _key(pack) not in self._dropped))

    def drop(self, packs: Sequence[ContextPack], dropped: frozenset[str]) -> None:
        """Leave packs out from here on; one with the same id and other content is another one."""
        self._dropped |= {_key(pack) for pack in packs if pack.id in dropped}


def _key(pack: ContextPack) -> tuple[str, int]:
    # The hash, because a run may have very many versions of a pack.
    return pack.id, hash(pack.content)


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

    @property
    def packs(self) -> Sequence[ContextPack]:
        """The packs of the request."""
        return self._request.context

    @property
    def has_budget(self) -> bool:
        """Whether there is a size that the context is compressed to."""
        return self._stage.budget is not None

    def condensation(self) -> Condensation | None:
        """Return the condensation of a context with a budget; None for one without."""
        stage = self._stage
        if stage.budget is None:
            return None
        beside = self._assembled.tokens - self._window.shown.tokens + fixed_tokens(self._request)
        return Condensation(self._request, self._assembled, self._window, beside, stage.budget)

    async def select(self) -> SelectedActions:
        """Return what the context handler selects because of the symptoms of the request.

        A handler that raises selects nothing.
        """
        stage, manifest = self._stage, self._assembled.manifest
        signals = await self._signals()
        if not signals:
            return SelectedActions()
        try:
            selected = await stage.handler.select_optimization_actions(signals, manifest)
            actions = valid_answers(ContextOptimizationAction, selected)
        except Exception:  # noqa: BLE001 - a handler that cannot decide leaves the context as it is
            return SelectedActions()
        return SelectedActions(actions, signals, self.packs)

    async def _signals(self) -> Sequence[ContextHealthSignal]:
        stage, policy, condensation = self._stage, self._stage.policy, self.condensation()
        signals = list(condensation.signals if condensation is not None else ())
        if not policy.observes:
            return signals
        manifest, messages = self._assembled.manifest, self._window.shown.messages
        if condensation is None:
            signals += stale_packs(self.packs, manifest_ref=manifest.id)
        replies_before = partial(stage.replies_before, self._path)
        signals += repeated_packs(self.packs, manifest_ref=manifest.id)
        signals += repeated_results(messages, manifest_ref=manifest.id)
        signals += unused_packs(self.packs, messages, replies_before, manifest_ref=manifest.id)
        if policy.observe is not None:
            signals += await policy.observe(self.packs, manifest)
        return signals

    def change(self, change: PackChange) -> None:
        """Go on with other packs."""
        self._request = self._stage.change(self._path, self._request, change)
        self._assembled = self._assemble(self._manifest_id)

    def substitute(self, dropped: frozenset[str], pack: ContextPack) -> None:
        """Go on with one pack in the place of others."""
        self._request = self._stage.substitute(self._path, self._request, dropped, pack)
        self._assembled = self._assemble(self._manifest_id)

    def condense_to(self, window: ContextWindow) -> None:
        """Go on with the window of a context that was condensed."""
        self._window = window

    def fitted(self) -> Assembled:
        """Return the request as the model may see it, with its manifest."""
        if self._window.digest is not None and self._stage.budget is not None:
            self._assembled = self._assemble(f"{self._manifest_id}#2")
        self._stage.remember(self._path, self._window)
        return self._assembled

    def _assemble(self, manifest_id: str) -> Assembled:
        shown = self._window.show(self._request)
        volatile = self._stage.volatile_packs
        return assemble(shown, manifest_id=manifest_id, transcript=self._window.shown, volatile=volatile)
