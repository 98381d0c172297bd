"""The agent's tools for an architecture: every call passes the admission, every failure is an outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TypeAlias

from pilotage.agent.media import by_digest, bytes_of
from pilotage.agent.media_places import media_within, with_media
from pilotage.agent.messages import MediaPart, ModelToolCall, TextPart, content_parts
from pilotage.agent.model_request import ToolCallingSpec
from pilotage.agent.ports.architecture import IScopedTools, ToolCallOutcome
from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.bind import given_arguments, reject_unreadable, validated_arguments
from pilotage.agent.tools.declared_errors import LIBRARY_CLASSES
from pilotage.errors import (
    AgentStructuredOutputError,
    AgentToolBindingError,
    AgentToolDispatchError,
    ToolError,
)
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, canonical_json, to_json_value
from pilotage.runtime.architecture.tool_search import CALL, Searched, called_by_name, not_by_name, with_search
from pilotage.runtime.children.children import Children, ChildRun
from pilotage.runtime.children.delegation import Teammate
from pilotage.runtime.children.tasks import ChildTask
from pilotage.runtime.door.door import ask_ahead, perform
from pilotage.runtime.door.tool_binding import Invocation, KnownTool, offered_tool, shown_to_the_model
from pilotage.runtime.door.tool_call import ToolCall, ToolCalls
from pilotage.runtime.effect import ONE_TOOL_CALL, Effect
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import RunDiverged, RunInterruption, first_to_count
from pilotage.runtime.journal.record_fields import decode_row, optional_text
from pilotage.runtime.journal.result_codec import decode_error
from pilotage.runtime.journal.scope import StepScope, current_place, entered
from pilotage.values import value

BoundTool: TypeAlias = Callable[..., object]
NO_TEAMMATES: Mapping[str, Teammate] = {}

_FAILURES = (ToolError, *LIBRARY_CLASSES)
"""The errors that a call may fail with; the model gets their words."""

_invocation, _outcome = unchecked(Invocation), unchecked(ToolCallOutcome)


@value
class ToolOffer:
    """The tools and teammates that a model may call, and their specs for model requests."""

    tools: tuple[BoundTool, ...]
    teammates: Mapping[str, Teammate]
    calling: ToolCallingSpec | None
    searched: Searched | None = None
    _asked_for: dict[str, tuple[KnownTool, object]] = field(
        default_factory=dict[str, tuple[KnownTool, object]], init=False, repr=False, compare=False
    )

    @classmethod
    def of(
        cls,
        tools: Sequence[BoundTool],
        teammates: Mapping[str, Teammate] = NO_TEAMMATES,
        *,
        searched: Searched | None = None,
    ) -> ToolOffer:
        """Return an offer of these tools and teammates; those in `searched` are found by a search.

        Raises:
            AgentDefinitionError: two of them have the same name.
        """
        shown = _shown(tools, teammates) if tools or teammates else None
        if shown is not None and searched is not None:
            shown = with_search(shown, searched)
        return cls(tuple(tools), teammates, shown, searched)

    def changed(
        self, tools: Sequence[BoundTool], teammates: Mapping[str, Teammate] | None = None
    ) -> ToolOffer:
        """Return an offer of other tools or teammates; the same ones are searched for."""
        mates = self.teammates if teammates is None else teammates
        return ToolOffer.of(tools, mates, searched=self.searched)

    def meant(self, call: ModelToolCall) -> ModelToolCall:
        """Return the call that a model asks for: the one inside of a call by name.

        Raises:
            AgentToolBindingError: a call by name names no tool, or one that is shown.
        """
        if call.name != CALL or self.searched is None or self.tool(CALL) is not None:
            return call
        meant = called_by_name(call)
        is_shown = meant.name not in self.searched.names and self.tool(meant.name) is not None
        if is_shown or meant.name in self.teammates:
            raise not_by_name(meant.name)
        return meant

    def tool(self, name: str) -> tuple[KnownTool, object] | None:
        """Return the tool of a name; its descriptor is read at the first request.

        Raises:
            AgentToolDispatchError: the function belongs to no class.
        """
        known = self._asked_for.get(name)
        if known is None and self.calling is not None and name in self.calling.functions:
            known = self._asked_for[name] = offered_tool(self.calling.functions[name])
        return known

    @property
    def names(self) -> str:
        """Return the names of all tools and teammates that are shown, as text."""
        shown = () if self.calling is None else self.calling.tools
        return ", ".join(repr(each.name) for each in shown) or "none"

    def within(self, capabilities: Collection[str] | None) -> ToolOffer:
        """Return the same tools with the teammates in `capabilities`; None means all of them."""
        if capabilities is None or not self.teammates:
            return self
        given = {name: mate for name, mate in self.teammates.items() if name in capabilities}
        return self.changed(self.tools, given)


class ScopedTools(IScopedTools):
    """The tools on offer to one run, including its teammates."""

    def __init__(self, offer: ToolOffer, calls: ToolCalls) -> None:
        self._offer = offer
        self._calls = calls
        self._run = calls.run
        self._teammates = offer.teammates

    @property
    def calling(self) -> ToolCallingSpec | None:
        return self._offer.calling

    def with_more(self, tools: Sequence[BoundTool]) -> ScopedTools:
        """Return the same tools and some more."""
        return ScopedTools(self._offer.changed([*self._offer.tools, *tools]), self._calls)

    def inside(self, scope: StepScope) -> ScopedTools:
        """Return the same tools with their calls in another scope."""
        return PlacedTools(self._offer, self._calls, scope)

    async def recall_secrets(self) -> None:
        """Register the secrets of replayed calls with the run's redactor."""
        await self._calls.recall_secrets()

    async def call(self, call: ModelToolCall) -> ToolCallOutcome:
        prepared = self._prepared(call)
        return prepared if isinstance(prepared, ToolCallOutcome) else await self._done(call, prepared)

    def recorded(self, calls: Sequence[ModelToolCall], rows: Sequence[JournalRow]) -> list[ToolCallOutcome]:
        """Return the outcomes of calls that are not made again, from the rows of their results.

        Raises:
            RunDiverged: other calls are recorded.
        """
        if len(calls) != len(rows):
            where, recorded = rows[0].action_id if rows else words.RUN, f"{len(rows)} tool calls are recorded"
            raise RunDiverged(where, f"{recorded} in a folded turn, and the program makes {len(calls)}")
        return [self._recorded(call, row) for call, row in zip(calls, rows, strict=True)]

    def _recorded(self, call: ModelToolCall, row: JournalRow) -> ToolCallOutcome:
        name = self._offer.meant(call).name
        offered = self._offer.tool(name)
        if offered is None:
            raise RunDiverged(
                row.action_id, f"a call of the tool {name!r} is recorded, and it is not on offer"
            )
        tool, _ = offered
        self._run.learn_folded(tool.descriptor, row)
        try:
            result = decode_row(row, partial(_outcome_in, tool, row.action_id))
        except _FAILURES as error:
            return ToolCallOutcome(call, error=str(error))
        return _done_with(call, tool, result)

    async def call_all(
        self, calls: Sequence[ModelToolCall], *, limit: int | None = None
    ) -> Sequence[ToolCallOutcome]:
        if len(calls) == 1:
            only = self._prepared(calls[0])
            return [only if isinstance(only, ToolCallOutcome) else await self._done(calls[0], only)]
        # Ids are taken here, in the order of the reply, before any calls run concurrently.
        prepared = [self._prepared(call, True) for call in calls]
        begun = [each for each in prepared if isinstance(each, Effect)]
        self._reserve(begun)
        self._ask_later_ones(begun)
        room = asyncio.Semaphore(limit) if limit is not None else None
        reading = [
            asyncio.create_task(
                self._done(call, each) if room is None else self._done_within(room, call, each)
            )
            for call, each in zip(calls, prepared, strict=True)
            if isinstance(each, Effect) and each.action.is_read_only
        ]
        left = [each for each in begun if not each.action.is_read_only]
        try:
            outcomes = iter(await self._concurrently(reading))
            found: list[ToolCallOutcome] = []
            for call, each in zip(calls, prepared, strict=True):
                if isinstance(each, ToolCallOutcome):
                    found.append(each)
                elif each.action.is_read_only:
                    found.append(next(outcomes))
                else:
                    del left[0]
                    found.append(await self._done(call, each))
        except BaseException:
            self._release(left)
            raise
        return found

    def _ask_later_ones(self, begun: Sequence[Effect]) -> None:
        """Let every call that waits ask the questions about later ones, so that all can be answered at once."""
        changing = [call for call in begun if not call.action.is_read_only]
        for call in begun:
            later = changing if call.action.is_read_only else changing[changing.index(call) + 1 :]
            call.when_parked = partial(ask_ahead, self._run, later)
            if call.call is not None and call.action.is_read_only:
                # The program goes on when all of them have ended.
                call.call.is_ordered = False

    def _prepared(
        self, call: ModelToolCall, is_counted: bool = False
    ) -> ToolCall | ChildRun | ToolCallOutcome:
        try:
            if call.arguments:
                reject_unreadable(call.arguments, call.name)
            meant = self._offer.meant(call)
            if self._teammates and (teammate := self._teammates.get(call.name)) is not None:
                task = ChildTask(teammate.agent, teammate.task_in(call))
                return self._children.prepared(f"child:{teammate.name}", teammate.name, task)
            offered = self._offer.tool(meant.name)
            if offered is None:
                self._refuse_gone(meant.name)
                unknown = f"there is no tool {meant.name!r}. On offer are: {self._offer.names}."
                return ToolCallOutcome(call, error=unknown)
            tool, owner = offered
            given = given_arguments(tool.interface, meant.arguments)
            arguments = validated_arguments(tool.interface, given)
            invocation = _invocation(tool, owner, arguments, True, given.keys())
            return self._calls.prepared(invocation, call.call_id, is_counted)
        except AgentToolBindingError as error:
            return ToolCallOutcome(call, error=" ".join(error.problems) or str(error))
        except AgentToolDispatchError as error:
            return ToolCallOutcome(call, error=str(error))

    def _refuse_gone(self, name: str) -> None:
        """Refuse to replay a call of a tool that is not on offer any more.

        Raises:
            RunDiverged: such a call is recorded here.
        """
        place, label = current_place(), f"{words.TOOL}{name}"
        if place is None or not self._run.replay.has_record:
            return
        if place.scope.owner is not None and place.scope.owner is not asyncio.current_task():
            return
        action_id = place.scope.coming_id(label)
        if self._run.replay.knows(action_id):
            gone = f"the tool {name!r} was called, and is not on offer any more: its class or server has others now"
            raise RunDiverged(action_id, f"{gone}. Bring it back, or resolve the run")

    def _reserve(self, begun: Sequence[Effect]) -> None:
        """Reserve the new tool calls before the first of them begins."""
        if new := self._new_tool_calls(begun):
            self._run.spending.reserve_tool_calls(new)

    def _release(self, left: Sequence[Effect]) -> None:
        """Give back the reservation of tool calls that do not begin any more."""
        for _ in range(self._new_tool_calls(left)):
            self._run.spending.give_back(ONE_TOOL_CALL)

    def _new_tool_calls(self, effects: Sequence[Effect]) -> int:
        tools = [each.action.id for each in effects if each.action.kind is AgentActionKind.TOOL_CALL]
        return sum(not self._run.replay.knows(action_id) for action_id in tools)

    async def _concurrently(self, reading: Sequence[asyncio.Task[ToolCallOutcome]]) -> list[ToolCallOutcome]:
        if not reading:
            return []
        try:
            await asyncio.wait(reading)
        except asyncio.CancelledError:
            for task in reading:
                task.cancel()
            await asyncio.wait(reading)
            raise
        ends = [task.exception() for task in reading if not task.cancelled()]
        if interruptions := [end for end in ends if isinstance(end, RunInterruption)]:
            raise first_to_count(interruptions)
        return [task.result() for task in reading]

    async def _done(self, call: ModelToolCall, prepared: ToolCall | ChildRun) -> ToolCallOutcome:
        try:
            if type(prepared) is ChildRun:
                return ToolCallOutcome(call, await self._children.perform(prepared))
            result = await perform(self._run, prepared)
            return _done_with(call, prepared.invocation.tool, result)
        except _FAILURES as error:
            return ToolCallOutcome(call, error=str(error))

    async def _done_within(
        self, room: asyncio.Semaphore, call: ModelToolCall, prepared: ToolCall | ChildRun
    ) -> ToolCallOutcome:
        async with room:
            return await self._done(call, prepared)

    @property
    def _children(self) -> Children:
        return self._run.part(Children)


class PlacedTools(ScopedTools):
    """The same tools with their calls in a scope of their own."""

    def __init__(self, offer: ToolOffer, calls: ToolCalls, scope: StepScope) -> None:
        super().__init__(offer, calls)
        self._scope = scope

    def with_more(self, tools: Sequence[BoundTool]) -> ScopedTools:
        return super().with_more(tools).inside(self._scope)

    def _prepared(
        self, call: ModelToolCall, is_counted: bool = False
    ) -> ToolCall | ChildRun | ToolCallOutcome:
        with entered(self._scope):
            return super()._prepared(call, is_counted)


def _done_with(call: ModelToolCall, tool: KnownTool, result: object) -> ToolCallOutcome:
    """Return the outcome of a call with the result as the model may see it."""
    media: tuple[MediaPart, ...] = ()
    if tool.codec.has_media and not tool.interface.output_sensitive_fields:
        media = tuple(media_within(result))
    shown = result if tool.is_shown_whole else shown_to_the_model(tool.descriptor, result)
    if not media:
        return _outcome(call, to_json_value(shown))
    # Events have digests, also those of runs whose messages have the bytes.
    shown = to_json_value(
        with_media(shown, {part: by_digest(part, bytes_of(part)) for part in media if part.data})
    )
    return _outcome(call, shown, content=content_parts(result) or (TextPart(canonical_json(shown)), *media))


def _outcome_in(tool: KnownTool, action_id: str, record: JsonObject) -> object:
    """Return the recorded result of a tool; raise its error if it failed."""
    if optional_text(record, words.ERROR) is not None:
        raise decode_error(record, tool.errors)
    try:
        return tool.codec.read(record)
    except AgentStructuredOutputError as error:
        difference = f"the recorded result of {tool.name!r} does not fit its declared type: {error}"
        raise RunDiverged(action_id, difference) from error


def _shown(tools: Sequence[BoundTool], teammates: Mapping[str, Teammate]) -> ToolCallingSpec:
    """Return the specs of tools and teammates for a model request."""
    spec = ToolCallingSpec.from_tools(tools)
    if not teammates:
        return spec
    mates = [mate.tool for mate in teammates.values()]
    return ToolCallingSpec([*spec.tools, *mates], spec.choice, spec.tool_name, spec.functions)
