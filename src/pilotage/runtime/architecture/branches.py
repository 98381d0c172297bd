"""Branches of a `gather`: deciding its outcome, running the branches, and folding finished ones.

One row has the outcome of a finished branch or turn, and replay does not enter it again. The rows of the actions inside
stay: the spending is counted from them, the knowledge for the program is in the fold's row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, assert_never

from pilotage.agent.ports.architecture import BranchFailure, FailurePolicy
from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.errors import AgentDefinitionError, ToolError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.budget.spending import count_rows
from pilotage.runtime.children.children import Children
from pilotage.runtime.door.run import Run
from pilotage.runtime.exposure.redactor import public_text, secretless
from pilotage.runtime.exposure.trust import label_in, with_label
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import (
    RunDiverged,
    RunInterruption,
    first_to_count,
    interruption_in,
)
from pilotage.runtime.journal.liveness import BranchStopped
from pilotage.runtime.journal.record_fields import counts_field, optional_text, record_of
from pilotage.runtime.journal.replay import RunningPlace
from pilotage.runtime.journal.result_codec import branch_codec, record_of_result
from pilotage.runtime.journal.scope import Action, StepScope, enter
from pilotage.values import value


class Folds:
    """The folded branches and turns of one attempt at a run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def take(self, path: str, label: str) -> JsonObject | None:
        """Return the record of a folded branch or turn, and count its spending.

        Raises:
            RunDiverged: another action is recorded at this place.
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
        run.recall_inside(inside)
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


def _all_failed(bad: list[tuple[int, str]]) -> str:
    return f"all branches failed: {bad[0][1]}" if bad else "there are no branches"


Branch: TypeAlias = Callable[[], Awaitable[Any]]


@value
class Gather:
    """The branches and options of a gather."""

    id: str
    scope: StepScope
    label: str
    branches: Sequence[Branch]
    limit: int | None
    policy: FailurePolicy
    quorum: int | None


class RunningGather:
    """One gather under way. `_ends` has the branches in the order in which they ended."""

    def __init__(self, run: Run, gather: Gather) -> None:
        self._of = run
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
        match decision := self._decision():
            case Taken(taken):
                self._folds.add(self._gather.id, self._gather.label, {words.TAKEN: list(taken)})
                return decision
            case GatherFailed(error):
                self._folds.add(self._gather.id, self._gather.label, {words.ERROR: error})
                return decision
            case None:
                raise AssertionError("a gather whose branches have all ended is decided")

    async def _run_all(self) -> None:
        """Run the branches until the gather is decided; then the others are cut short.

        Raises:
            RunInterruption: the attempt is over.
        """
        gather, replay = self._gather, self._of.replay
        room = asyncio.Semaphore(gather.limit or max(len(gather.branches), 1))
        replay.shields = True
        tasks = [
            asyncio.create_task(self._run(number, branch, room))
            for number, branch in enumerate(gather.branches)
        ]
        for task in tasks:
            replay.see(gather.scope, task)
        open_tasks = set(tasks)
        try:
            while open_tasks and self._decision() is None and not self._interruptions:
                ended, open_tasks = await asyncio.wait(open_tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.result()
        finally:
            for task in open_tasks:
                task.cancel()
            if open_tasks:
                await asyncio.wait(open_tasks)
            for task in tasks:
                if task.done() and not task.cancelled():
                    # The first exception counts; asyncio need not report the others.
                    task.exception()
            replay.liveness.restart(gather.id)
        if self._interruptions:
            raise first_to_count(self._interruptions)
        if not open_tasks:
            await replay.part_ended(gather.id)
        await self._of.part(Children).give_up(gather.id)

    async def _run(self, number: int, branch: Branch, room: asyncio.Semaphore) -> None:
        path, replay = f"{self._gather.id}/{number}", self._of.replay
        place = RunningPlace(room)
        await place.take()
        replay.limit(path, place)
        try:
            if self._decision() is None:
                enter(StepScope(path, asyncio.current_task(), skipped=replay.skipped))
                await self._run_or_read(number, path, branch)
        except BranchStopped:
            return
        except (RunInterruption, BaseExceptionGroup) as end:
            self._interruptions.append(interruption_in(end))
        finally:
            replay.limit(path, None)
            place.leave()
        if self._decision() is not None or self._interruptions:
            replay.liveness.stop(self._gather.id)

    async def _run_or_read(self, number: int, path: str, branch: Branch) -> None:
        """Read a folded branch, or run it and fold its outcome; a branch that waits for an answer has not ended."""
        label = self._gather.label
        record = self._folds.take(path, label)
        if record is None:
            record = secretless(await _ended(branch, self._of, path), self._of.redactor)
            await self._of.replay.part_ended(path)
            self._folds.add(path, label, record)
        self._read(number, branch, record)

    def _read(self, number: int, branch: Branch, record: JsonObject) -> None:
        error = optional_text(record, words.ERROR)
        if error is not None:
            self._ends[number], self._values[number] = Failed(error), BranchFailure(number, error)
        else:
            result = branch_codec(branch).read(record)
            self._ends[number], self._values[number] = Succeeded(), result

    def _decision(self) -> Decision | None:
        gather = self._gather
        return decide(self._ends, len(gather.branches), gather.policy, gather.quorum)

    def _unfolded(self, folded: JsonObject) -> Decision:
        error = optional_text(folded, words.ERROR)
        if error is not None:
            return GatherFailed(error)
        taken, count = counts_field(folded, words.TAKEN), len(self._gather.branches)
        if any(number >= count for number in taken):
            recorded = f"a gather with branch {max(taken)} is recorded"
            raise RunDiverged(self._gather.id, f"{recorded}, and the program has {count} branches")
        for number in taken:
            row = self._of.replay.outcome_of(f"{self._gather.id}/{number}")
            if row is not None:
                self._read(number, self._gather.branches[number], record_of(row))
        return Taken(taken)


async def _ended(branch: Branch, run: Run, path: str) -> JsonObject:
    """Run a branch and return its outcome as it is recorded."""
    try:
        codec = branch_codec(branch)
        record = record_of_result(*codec.encode(await branch()))
        codec.read(record)
    except Exception as error:  # noqa: BLE001 - the exception of a branch is its outcome
        if isinstance(error, ToolError):
            return {words.ERROR: str(error)}
        return {words.ERROR: public_text(error, run.redactor, run_id=run.id, place=path)}
    return record
