"""Branches of a `gather`: deciding its outcome, running the branches, and folding finished ones.

One row has the outcome of a finished branch or turn, and replay does not enter it again. The rows of the actions inside
stay: the spending is counted from them, the knowledge for the program is in the fold's row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias, assert_never

from pilotage.agent.ports.architecture import BranchFailure, FailurePolicy
from pilotage.agent.ports.journal import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.errors import AgentDefinitionError, ToolError
from pilotage.jsonvalue import JsonObject, to_json_value
from pilotage.runtime.budget.spending import count_rows
from pilotage.runtime.children.children import Children
from pilotage.runtime.door.run import Run
from pilotage.runtime.effect import Decode, decoder_of
from pilotage.runtime.exposure.trust import label_in, with_label
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.interruptions import Paused, RunInterruption, first_to_count, interruption_in
from pilotage.runtime.journal.record_fields import counts_field, optional_text, record_of, value_field
from pilotage.runtime.journal.replay import BranchStopped
from pilotage.runtime.journal.scope import StepScope, enter
from pilotage.runtime.people.requests import is_recovery
from pilotage.values import value


class Folds:
    """The folded branches and turns of one attempt at a run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def take(self, path: str, label: str) -> JsonObject | None:
        """Return the record of a folded branch or turn, and count its spending.

        Raises:
            RunDiverged: something else is recorded at this place.
        """
        row = self._run.replay.folded(self._action(path, label))
        return None if row is None else self._entered(row)

    def turns(self, loop_id: str) -> list[JsonObject]:
        """Return the records of the finished turns of a loop, in order."""
        return [self._entered(row) for row in self._run.replay.finished_turns(loop_id)]

    def add(self, path: str, label: str, record: JsonObject) -> None:
        """Record the outcome of a branch or turn, and its knowledge for the program."""
        self._run.outcomes.fold(self._action(path, label), with_label(record, self._run.trust))

    def _entered(self, row: JournalRow) -> JsonObject:
        run = self._run
        inside = run.replay.inside(row.action_id)
        count_rows(inside, run.spending)
        run.signals.recall(inside)
        record = record_of(row)
        run.trust = run.trust.join(label_in(record))
        return record

    def _action(self, path: str, label: str) -> Action:
        return self._run.action(path, AgentActionKind.STEP, label)


@value
class Succeeded:
    """A branch has its result."""


@value
class Failed:
    """A branch failed for certain."""

    error: str


BranchEnd: TypeAlias = Succeeded | Failed


@value
class Taken:
    """The gather is decided: these branches count, in this order."""

    branches: tuple[int, ...]


@value
class GatherFailed:
    """The gather is decided: it fails."""

    error: str


Decision: TypeAlias = Taken | GatherFailed


def decide(
    ends: Mapping[int, BranchEnd], count: int, policy: FailurePolicy, quorum: int | None
) -> Decision | None:
    """Return the decision if the open branches can no longer change it; None while they can.

    `ends` has the branches in the order in which they ended.
    """
    good = tuple(number for number, end in ends.items() if isinstance(end, Succeeded))
    bad = [(number, end.error) for number, end in sorted(ends.items()) if isinstance(end, Failed)]
    is_over = len(ends) == count
    match policy:
        case FailurePolicy.FAIL_FAST if bad:
            return GatherFailed(bad[0][1])
        case FailurePolicy.FAIL_FAST | FailurePolicy.COLLECT:
            return Taken(tuple(range(count))) if is_over else None
        case FailurePolicy.FIRST:
            if good:
                return Taken(good[:1])
            return GatherFailed(_all_failed(bad)) if is_over else None
        case FailurePolicy.QUORUM:
            wanted = quorum or count // 2 + 1
            if len(bad) > count - wanted:
                reason = f"{len(bad)} of {count} branches failed, {wanted} must succeed"
                return GatherFailed(f"{reason}: {bad[0][1]}" if bad else reason)
            return Taken(tuple(sorted(good))) if is_over else None
        case _:
            assert_never(policy)


def check_gather(
    label: str, count: int, limit: int | None, policy: FailurePolicy, quorum: int | None
) -> None:
    """Check the arguments of a gather.

    Raises:
        AgentDefinitionError: an argument is wrong; the message says which.
    """
    if limit is not None and limit < 1:
        raise AgentDefinitionError(f"gather({label!r}): limit is {limit}. Let at least one branch run.")
    if quorum is not None and (policy is not FailurePolicy.QUORUM or not 1 <= quorum <= count):
        raise AgentDefinitionError(
            f"gather({label!r}): quorum is {quorum} of {count} branches with policy {policy.value!r}. "
            "Use FailurePolicy.QUORUM, and a quorum from 1 to the number of branches."
        )


def waits_below(
    path: str, run_id: str, asked: Mapping[str, JsonObject], theirs: Collection[str]
) -> list[str]:
    """Return the open questions of a run asked below a path; `theirs` may come from child runs there."""
    return [
        wait
        for wait, request in asked.items()
        if wait in theirs
        or (request["agent_state_id"] == run_id and _place_of(request).startswith(f"{path}/"))
    ]


def _place_of(request: JsonObject) -> str:
    return str(request.get("action_id") or request.get("call_id") or "")


def _all_failed(bad: list[tuple[int, str]]) -> str:
    return f"all branches failed: {bad[0][1]}" if bad else "there are no branches"


Branch: TypeAlias = Callable[[], Awaitable[Any]]


@value
class Gather:
    """The branches and options of a gather."""

    id: str
    label: str
    branches: Sequence[Branch]
    limit: int | None
    policy: FailurePolicy
    quorum: int | None


class RunningGather:
    """One gather under way. `_ends` has the branches in the order in which they ended."""

    def __init__(self, run: Run, gather: Gather) -> None:
        self._of = run
        self._liveness = run.replay.liveness
        self._folds = Folds(run)
        self._gather = gather
        self._ends: dict[int, BranchEnd] = {}
        self._values: dict[int, object] = {}
        self._interruptions: list[RunInterruption] = []

    async def results(self) -> list[object]:
        """Return the results of the branches that count.

        Raises:
            ToolError: the gather failed.
            RunInterruption: a branch waits, or the attempt is over.
        """
        gather = self._gather
        folded = self._folds.take(gather.id, gather.label)
        decision = await self._decided() if folded is None else self._unfolded(folded)
        match decision:
            case GatherFailed(error):
                raise ToolError(error)
            case Taken(taken):
                return [self._values[number] for number in taken]

    async def _decided(self) -> Decision:
        """Run the branches, fold the decision and return it: the results are in the rows of the branches."""
        await self._run_all()
        decision = self._decision()
        await self._settle_interruptions(decision)
        match decision:
            case Taken(taken):
                self._folds.add(self._gather.id, self._gather.label, {words.TAKEN: list(taken)})
                return decision
            case GatherFailed(error):
                self._folds.add(self._gather.id, self._gather.label, {words.ERROR: error})
                return decision
            case None:
                raise AssertionError("a gather whose branches have all ended is decided")

    async def _settle_interruptions(self, decision: Decision | None) -> None:
        """Withdraw the questions of waiting branches, if the decision does not depend on them.

        Raises:
            RunInterruption: the gather must wait for them, or the attempt is over.
        """
        if not self._interruptions:
            return
        interruption, path = first_to_count(self._interruptions), self._gather.id
        asked = self._of.questions.open
        theirs = {wait for each in self._interruptions if isinstance(each, Paused) for wait in each.wait_ids}
        dropped = waits_below(path, self._of.id, asked, theirs)
        must_wait = decision is None or any(is_recovery(asked[wait]) for wait in dropped)
        if must_wait or not isinstance(interruption, Paused):
            raise interruption
        self._liveness.forget_pauses_below(path)
        for wait in dropped:
            del asked[wait]
        await self._of.part(Children).give_up(path)

    async def _run_all(self) -> None:
        room = asyncio.Semaphore(self._gather.limit or max(len(self._gather.branches), 1))
        tasks = [
            asyncio.create_task(self._run(number, branch, room))
            for number, branch in enumerate(self._gather.branches)
        ]
        try:
            # A branch raises only CancelledError: any other end is a value.
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            self._liveness.restart(self._gather.id)

    async def _run(self, number: int, branch: Branch, room: asyncio.Semaphore) -> None:
        path = f"{self._gather.id}/{number}"
        async with room:
            if self._decision() is not None:
                return
            enter(StepScope(path, asyncio.current_task()))
            try:
                await self._run_or_read(number, path, branch)
            except (RunInterruption, BaseExceptionGroup) as end:
                self._interrupted(interruption_in(end))
        if self._decision() is not None:
            self._liveness.stop(self._gather.id)

    def _interrupted(self, end: RunInterruption) -> None:
        if isinstance(end, BranchStopped) and self._decision() is not None:
            return
        self._interruptions.append(end)
        if not isinstance(end, Paused):
            self._liveness.stop(self._gather.id)

    async def _run_or_read(self, number: int, path: str, branch: Branch) -> None:
        """Read a folded branch, or run it and fold its outcome; a branch that waits for an answer has not ended."""
        label = self._gather.label
        record = self._folds.take(path, label)
        if record is None:
            record = await _ended(branch)
            if (waiting := self._liveness.pause_below(path)) is not None:
                raise waiting
            self._folds.add(path, label, record)
        self._read(number, branch, record)

    def _read(self, number: int, branch: Branch, record: JsonObject) -> None:
        error = optional_text(record, words.ERROR)
        if error is not None:
            self._ends[number], self._values[number] = Failed(error), BranchFailure(number, error)
        else:
            result = _decoder_of(branch)(value_field(record, words.RESULT))
            self._ends[number], self._values[number] = Succeeded(), result

    def _decision(self) -> Decision | None:
        gather = self._gather
        return decide(self._ends, len(gather.branches), gather.policy, gather.quorum)

    def _unfolded(self, folded: JsonObject) -> Decision:
        error = optional_text(folded, words.ERROR)
        if error is not None:
            return GatherFailed(error)
        taken = counts_field(folded, words.TAKEN)
        for number in taken:
            row = self._of.replay.outcome_of(f"{self._gather.id}/{number}")
            if row is not None:
                self._read(number, self._gather.branches[number], record_of(row))
        return Taken(taken)


async def _ended(branch: Branch) -> JsonObject:
    """Run a branch and return its outcome as it is recorded."""
    try:
        result = to_json_value(await branch())
        _decoder_of(branch)(result)
    except Exception as error:  # noqa: BLE001 - the exception of a branch is its outcome
        reason = str(error) if isinstance(error, ToolError) else f"{type(error).__name__}: {error}"
        return {words.ERROR: reason}
    return {words.RESULT: result}


def _decoder_of(branch: Branch) -> Decode:
    return decoder_of(getattr(branch, "func", branch))
