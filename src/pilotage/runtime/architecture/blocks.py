"""`step`, `gather`, `loop`, `spawn_child`: durable building blocks with ids from the program's structure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar, cast

from pilotage.agent.model_request import ModelToolSpec
from pilotage.agent.ports.architecture import AgentRef, FailurePolicy, IScopedRuntime
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.architecture.branches import Folds, Gather, RunningGather, check_gather
from pilotage.runtime.children.children import Children
from pilotage.runtime.door import step as steps
from pilotage.runtime.door.run import Run
from pilotage.runtime.journal.result_codec import (
    UNTYPED_BRANCH,
    ResultCodec,
    Scalars,
    branch_codec,
    declared_codec,
    record_of_result,
)
from pilotage.runtime.journal.scope import StepScope, entered, inside, running_task, scope_for

T = TypeVar("T")


class ScopedRuntime(IScopedRuntime):
    """The building blocks of one attempt at a run."""

    def __init__(self, run: Run, scope: StepScope | None = None) -> None:
        self._run = run
        self._scope = scope

    def inside(self, scope: StepScope) -> ScopedRuntime:
        """Return the same building blocks in another scope."""
        return ScopedRuntime(self._run, scope)

    async def step(
        self,
        name: str,
        act: Callable[[], Awaitable[T]],
        *,
        idempotency: Idempotency = Idempotency.UNKNOWN,
    ) -> T:
        with entered(self._scope):
            return await steps.step(name, act, idempotency=idempotency)

    async def now(self) -> datetime:
        with entered(self._scope):
            return await steps.now()

    async def uid(self) -> str:
        with entered(self._scope):
            return await steps.uid()

    async def spawn_child(
        self, name: str, agent: AgentRef, task: JsonValue, *, exits: Sequence[ModelToolSpec] = ()
    ) -> JsonValue:
        with entered(self._scope):
            return await self._run.part(Children).spawn(name, agent, task, exits=tuple(exits))

    async def loop(self, label: str, state: T, turn: Callable[[T], Awaitable[T | None]]) -> T:
        with entered(self._scope):
            loop_id = scope_for(label).next_id(label)
        codec = _codec_of_state(state, turn)
        finished = Folds(self._run).turns(loop_id)
        is_over = bool(finished) and finished[-1]["result"] is None
        turns = finished[:-1] if is_over else finished
        if turns:
            state = cast(T, codec.read(turns[-1]))
        number = len(finished)
        while not is_over:
            number += 1
            reached = await self._turn(f"{loop_id}/{number}", label, partial(turn, state), codec)
            is_over = reached["result"] is None
            if not is_over:
                # The turn may hold a reference to its result and change it: continue with the recorded state.
                state = cast(T, codec.read(reached))
        return state

    async def _turn(
        self, path: str, label: str, turn: Callable[[], Awaitable[object]], codec: ResultCodec
    ) -> JsonObject:
        """Make a turn and fold it, unless a branch in it waits for an answer; return the record of the new state."""
        with inside(path, running_task()):
            given = await turn()
        await self._run.replay.part_ended(path)
        try:
            reached = record_of_result(*(NO_STATE if given is None else codec.encode(given)))
        except (TypeError, ValueError) as error:
            raise AgentDefinitionError(f"loop({label!r}): the state cannot be recorded: {error}.") from error
        Folds(self._run).add(path, label, reached)
        return reached

    async def gather(
        self,
        label: str,
        branches: Sequence[Callable[[], Awaitable[T]]],
        *,
        limit: int | None = None,
        policy: FailurePolicy = FailurePolicy.FAIL_FAST,
        quorum: int | None = None,
    ) -> Sequence[T]:
        check_gather(label, len(branches), limit, policy, quorum)
        with entered(self._scope):
            scope = scope_for(label)
        gather = Gather(
            scope.next_id(label), scope, label, branches, limit=limit, policy=policy, quorum=quorum
        )
        return cast("Sequence[T]", await RunningGather(self._run, gather).results())


NO_STATE: tuple[None, Scalars] = (None, ())
"""The result of a turn that ends its loop."""


def _codec_of_state(state: object, turn: Callable[..., object]) -> ResultCodec:
    """Return how a loop's state is recorded: by the return type of `turn`, else by the type of `state`, else JSON."""
    declared = branch_codec(turn)
    if state is None or declared is not UNTYPED_BRANCH:
        return declared
    try:
        return declared_codec(type(state))
    except AgentDefinitionError:
        return declared
