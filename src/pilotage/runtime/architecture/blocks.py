"""`step`, `gather`, `loop`, `spawn_child`: durable building blocks with ids from the program's structure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeVar, cast

from pilotage.agent.model_request import ModelToolSpec, StructuredOutputSpec
from pilotage.agent.ports.architecture import AgentRef, FailurePolicy, IScopedRuntime
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.runtime.architecture.branches import Folds, Gather, RunningGather, check_gather
from pilotage.runtime.children.children import Children
from pilotage.runtime.door import step as steps
from pilotage.runtime.door.run import Run
from pilotage.runtime.effect import Decode, decoder_of
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
        decode = _decoder_of_state(state, turn)
        finished = [record["result"] for record in Folds(self._run).turns(loop_id)]
        is_over = bool(finished) and finished[-1] is None
        turns = finished[:-1] if is_over else finished
        if turns:
            state = cast(T, decode(turns[-1]))
        number = len(finished)
        while not is_over:
            number += 1
            reached = await self._turn(f"{loop_id}/{number}", label, state, turn)
            is_over = reached is None
            if not is_over:
                # The turn may hold a reference to its result and change it: continue with the recorded state.
                state = cast(T, decode(reached))
        return state

    async def _turn(
        self, path: str, label: str, state: T, turn: Callable[[T], Awaitable[T | None]]
    ) -> JsonValue:
        """Make a turn and fold it, unless a branch in it waits for an answer."""
        with inside(path, running_task()):
            given = await turn(state)
        if (waiting := self._run.replay.liveness.pause_below(path)) is not None:
            raise waiting
        try:
            reached = to_json_value(given)
        except (TypeError, ValueError) as error:
            raise AgentDefinitionError(f"loop({label!r}): the state cannot be recorded: {error}.") from error
        Folds(self._run).add(path, label, {"result": reached})
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
            gather_id = scope_for(label).next_id(label)
        gather = Gather(gather_id, label, branches, limit=limit, policy=policy, quorum=quorum)
        return cast("Sequence[T]", await RunningGather(self._run, gather).results())


def _decoder_of_state(state: object, turn: Callable[..., object]) -> Decode:
    """Return the decoder of a loop's state: by the return type of `turn`, else by the type of `state`, else JSON."""
    declared = decoder_of(getattr(turn, "func", turn))
    if state is None or isinstance(getattr(declared, "__self__", None), StructuredOutputSpec):
        return declared
    try:
        return StructuredOutputSpec.from_type(type(state)).decode
    except AgentDefinitionError:
        return declared
